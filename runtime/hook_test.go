package runtime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

func TestRule08_NilHookStandsForNobody(t *testing.T) {
	var h *runtime.Hook
	h.Pause()
	h.Unpause()
	h.End()
	if h.Context().Err() != nil || h.Owner() != nil {
		t.Error("a nil hook has ended or an owner")
	}
}

func TestHookEndsWithItsContextsCauseOrItsOwnEnd(t *testing.T) {
	cause := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(context.Background())
	h := runtime.NewHook(ctx, "me", time.Hour)
	if h.Owner() != "me" {
		t.Errorf("owner %v", h.Owner())
	}
	cancel(cause)
	if got := context.Cause(h.Context()); got != cause {
		t.Errorf("cause %v", got)
	}
	h.End()
	//lint:ignore SA1012 that no context is allowed is what is tested
	other := runtime.NewHook(nil, nil, 0)
	other.End()
	if other.Context().Err() == nil {
		t.Error("an ended hook goes on")
	}
}

func TestHookCauseIsItsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := errors.New("cancelled")
		for name, c := range map[string]struct {
			body func(h *runtime.Hook, cancel context.CancelCauseFunc)
			want error
		}{
			"none":      {func(*runtime.Hook, context.CancelCauseFunc) {}, nil},
			"cancelled": {func(_ *runtime.Hook, cancel context.CancelCauseFunc) { cancel(cancelled) }, cancelled},
			"over time": {func(*runtime.Hook, context.CancelCauseFunc) { time.Sleep(time.Minute) }, runtime.ErrDeadline},
			"paused":    {func(h *runtime.Hook, _ context.CancelCauseFunc) { h.Pause(); time.Sleep(time.Minute) }, nil},
		} {
			for _, asked := range []bool{false, true} { // for its context, before
				ctx, cancel := context.WithCancelCause(context.Background())
				h := runtime.NewHook(ctx, nil, time.Second)
				if asked {
					h.Context()
				}
				c.body(h, cancel)
				synctest.Wait()
				if got := h.Cause(); !errors.Is(got, c.want) || got != context.Cause(h.Context()) {
					t.Errorf("%s, asked %v: %v, of the context %v, want %v", name, asked, got, context.Cause(h.Context()), c.want)
				}
				h.End()
				if h.Cause() == nil {
					t.Errorf("%s, asked %v: ended without a cause", name, asked)
				}
				cancel(nil)
			}
		}
		if (*runtime.Hook)(nil).Cause() != nil {
			t.Error("nobody was given up")
		}
	})
}

func TestHookWallClock(t *testing.T) {
	const limit = 30 * time.Second
	over := func(h *runtime.Hook) bool { return h.Context().Err() != nil }
	for name, c := range map[string]struct {
		body func(*runtime.Hook)
		over bool
	}{
		"time passes":                {func(*runtime.Hook) { time.Sleep(limit + 1) }, true},
		"not yet":                    {func(*runtime.Hook) { time.Sleep(limit - 1) }, false},
		"paused":                     {func(h *runtime.Hook) { h.Pause(); time.Sleep(2 * limit) }, false},
		"paused and resumed":         {func(h *runtime.Hook) { h.Pause(); time.Sleep(limit); h.Unpause(); time.Sleep(limit - 1) }, false},
		"paused, resumed, over":      {func(h *runtime.Hook) { h.Pause(); time.Sleep(limit); h.Unpause(); time.Sleep(limit + 1) }, true},
		"what was used stays used":   {func(h *runtime.Hook) { time.Sleep(limit / 2); h.Pause(); h.Unpause(); time.Sleep(limit/2 + 1) }, true},
		"pauses nest":                {func(h *runtime.Hook) { h.Pause(); h.Pause(); h.Unpause(); time.Sleep(2 * limit) }, false},
		"the end stops it":           {func(h *runtime.Hook) { h.End(); h.Unpause(); time.Sleep(2 * limit) }, true},
		"a pause after it has ended": {func(h *runtime.Hook) { time.Sleep(2 * limit); h.Pause(); h.Unpause() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtime.NewHook(context.Background(), nil, limit)
				defer h.End()
				c.body(h)
				synctest.Wait()
				if over(h) != c.over {
					t.Errorf("over: %v (%v)", over(h), context.Cause(h.Context()))
				}
				if c.over && name == "time passes" && !errors.Is(context.Cause(h.Context()), runtime.ErrDeadline) {
					t.Errorf("cause %v", context.Cause(h.Context()))
				}
			})
		})
	}
}

func TestRule10_WallClockStandsStillWhileWaitingForTheThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		do(t, th, func() {
			h := runtime.NewHook(context.Background(), nil, time.Second)
			defer h.End()
			defer th.SetHook(th.SetHook(h))
			err := th.Away(func() {
				go func() { _ = th.Do(t.Context(), func() { compute(time.Hour) }) }()
				synctest.Wait()
			})
			if err != nil || h.Context().Err() != nil {
				t.Errorf("waiting for the thread used up the time: %v", context.Cause(h.Context()))
			}
			if err := th.Sleep(time.Hour); !errors.Is(err, runtime.ErrDeadline) {
				t.Errorf("parked time does not count: %v", err)
			}
		})
	})
}

// Each way of calling next and then waiting, in both kinds of VM.
func TestRule10_WallClockStandsStillInsideNext(t *testing.T) {
	for _, kind := range []runtimetest.Kind{runtimetest.JS, runtimetest.Lua} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				h.Run(func() {
					h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						c.MustOn("toy/rewrite", nil, func(c *runtimetest.Call) (runtime.Value, error) {
							v, err := c.Next()
							return c.Await(v, err, func(c *runtimetest.Call, v runtime.Value, err error) (runtime.Value, error) { return v, err })
						})
					}))
					got, err := runtimetest.Rewrite.Run(h.Host, runtime.Target{}, runtimetest.Text{Text: "x"}, func(x runtimetest.Text) (runtimetest.Text, error) {
						return x, h.Thread.Sleep(time.Hour)
					})
					if err != nil || got.Text != "x" {
						t.Errorf("%+v, %v", got, err)
					}
				})
			})
		})
	}
}

func TestListenerThatDoesNotAnswerIsGivenUp(t *testing.T) {
	for _, kind := range []runtimetest.Kind{runtimetest.JS, runtimetest.Lua} {
		for _, limit := range []time.Duration{0, time.Second} {
			t.Run(string(kind)+" "+limit.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := runtimetest.NewHost(t)
					h.Run(func() {
						h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
							c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) { return c.Wait(nil) })
						}))
						start := time.Now()
						err := runtimetest.Check.Run(h.Host, runtime.Target{Limit: limit}, runtimetest.CheckPayload{})
						want := 30 * time.Second
						if limit > 0 {
							want = limit
						}
						if took := time.Since(start); !errors.Is(err, runtime.ErrDeadline) || took < want || took > want+250*time.Millisecond {
							t.Errorf("%v after %v", err, took)
						}
						var se *runtime.ScriptError
						if !errors.As(err, &se) || se.Script != "project/a.toy" || se.Event != "toy/check" {
							t.Errorf("does not say which script: %#v", err)
						}
					})
				})
			})
		}
	}
}

// A chain of agents, each of whose listener waits for the next one's idleness.
func TestRule08_WaitsThatCannotEnd(t *testing.T) {
	for _, kind := range []runtimetest.Kind{runtimetest.JS, runtimetest.Lua} {
		for n, want := range map[int]string{
			1: "this would wait for ever: a0 is waiting for this listener",
			2: "this would wait for ever: a1 waits for a0 waits for a1",
			3: "this would wait for ever: a2 waits for a0 waits for a1 waits for a2",
		} {
			t.Run(string(kind)+" "+want, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := runtimetest.NewHost(t)
					agents := make([]*runtimetest.Agent, n)
					next := map[any]*runtimetest.Agent{}
					for i := range agents {
						agents[i] = h.Agent("a" + string(rune('0'+i)))
					}
					for i, a := range agents {
						next[a] = agents[(i+1)%n]
					}
					h.Run(func() {
						h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
							c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) {
								return c.Method(next[c.Get("agent")], "whenIdle")
							})
						}))
					})
					errs := make([]error, n)
					for i, a := range agents {
						h.Thread.Go(context.Background(), func() {
							errs[i] = runtimetest.Check.Run(h.Host, a.Target(), runtimetest.CheckPayload{Agent: a})
							close(a.Idle) // its turn is over
						})
						synctest.Wait()
					}
					time.Sleep(time.Millisecond)
					synctest.Wait()
					for i, err := range errs {
						var cycle *runtime.CycleError
						if i < n-1 {
							if err != nil {
								t.Errorf("%s: %v", agents[i].Name, err)
							}
						} else if !errors.As(err, &cycle) || cycle.Error() != want {
							t.Errorf("%s: %v\nwant %s", agents[i].Name, err, want)
						}
					}
				})
			})
		}
	}
}

// One listener begins two waits and awaits neither: both are edges until they end.
func TestRule08_WaitsThatAreNotAwaitedCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		a, b, other := h.Agent("a"), h.Agent("b"), h.Agent("other")
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) {
					if c.Get("agent") == b {
						return c.Method(a, "whenIdle")
					}
					_, _ = c.Method(b, "whenIdle")
					_, _ = c.Method(other, "whenIdle")
					close(other.Idle)
					return c.Do("sleep", 1000.0)
				})
			}))
		})
		var errA, errB error
		h.Thread.Go(context.Background(), func() { errA = runtimetest.Check.Run(h.Host, a.Target(), runtimetest.CheckPayload{Agent: a}) })
		synctest.Wait()
		h.Thread.Go(context.Background(), func() { errB = runtimetest.Check.Run(h.Host, b.Target(), runtimetest.CheckPayload{Agent: b}) })
		synctest.Wait()
		var cycle *runtime.CycleError
		if !errors.As(errB, &cycle) {
			t.Errorf("b waits for a, whose listener waits for b: %v", errB)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if errA != nil {
			t.Error(errA)
		}
		// The listener has returned: what it had begun has ended with it.
		close(a.Idle)
		h.Run(func() {
			if err := runtimetest.Check.Run(h.Host, b.Target(), runtimetest.CheckPayload{Agent: b}); err != nil {
				t.Errorf("after the cycle is gone: %v", err)
			}
		})
	})
}

func TestRule08_WithoutAHookWaitingIsFree(t *testing.T) {
	for _, kind := range []runtimetest.Kind{runtimetest.JS, runtimetest.Lua} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				a := h.Agent("a")
				wait := func(c *runtimetest.Call) (runtime.Value, error) {
					v, err := c.Method(a, "whenIdle")
					return c.Await(v, err, func(c *runtimetest.Call, v runtime.Value, err error) (runtime.Value, error) {
						h.Trace.Add("idle:%v", err)
						return nil, err
					})
				}
				h.Run(func() {
					h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) {
							// Inside a's own listener: spawned functions, timers and what an emit
							// listener leaves behind do not hold it up.
							_, err := c.Do("spawn", c.Func(wait))
							if err == nil {
								_, err = c.Do("after", 1.0, c.Func(wait))
							}
							runtimetest.Notice.Fire(h.Host, a.Target(), runtimetest.NoticePayload{})
							return nil, err
						})
						if kind == runtimetest.JS {
							c.MustOn("toy/notice", nil, wait)
						}
					}))
					if err := runtimetest.Check.Run(h.Host, a.Target(), runtimetest.CheckPayload{Agent: a}); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(time.Second)
				close(a.Idle)
				synctest.Wait()
				want := "idle:<nil> idle:<nil>"
				if kind == runtimetest.JS {
					want += " idle:<nil>"
				}
				h.Trace.Want(want)
			})
		})
	}
}

func TestRule08_AGoListenerOfAnAwaitedEventIsAHookToo(t *testing.T) {
	h := runtimetest.NewHost(t)
	a := h.Agent("a")
	h.Run(func() {
		off := runtimetest.Check.On(h.Host, func(runtimetest.CheckPayload) error { return a.WhenIdle() })
		defer off()
		var cycle *runtime.CycleError
		if err := runtimetest.Check.Run(h.Host, a.Target(), runtimetest.CheckPayload{}); !errors.As(err, &cycle) {
			t.Errorf("Run: %v", err)
		}
	})
}
