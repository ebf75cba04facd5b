package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

func TestSignalFiresOnceAndGoesOnAfterAFailure(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		cause := errors.New("stop")
		ctx, cancel := context.WithCancelCause(context.Background())
		s := runtime.NewSignal(ctx, nil)
		if s.Aborted() || s.Reason() != nil || s.Context() != ctx {
			t.Error("aborted before anything happened")
		}
		var script *runtimetest.Call
		in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			script = c
			c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) {
				sig := c.Get("signal").(*runtime.Signal)
				for _, f := range []runtimetest.Function{fails, func(c *runtimetest.Call) (runtime.Value, error) {
					h.Trace.Add("script:%v", c.Arg(0))
					if h.Thread.CurrentHook() != nil {
						t.Error("an abort listener runs on somebody's behalf")
					}
					return nil, nil
				}} {
					if _, err := c.Method(sig, "onabort", c.Func(f)); err != nil {
						t.Error(err)
					}
				}
				_, err := c.Method(sig, "throwIfAborted")
				return nil, err
			})
		})
		h.Use(in)
		if err := runtimetest.Check.Run(h.Host, runtime.Target{}, runtimetest.CheckPayload{Signal: s}); err != nil {
			t.Error(err)
		}
		s.OnAbort(func() { h.Trace.Add("go") })
		s.OnAbort(func() { panic(errBoom) })
		s.OnAbort(func() { h.Trace.Add("go2") })
		s.Fire()
		h.Trace.Want("")
		cancel(cause)
		if !s.Aborted() || s.Reason() != "stop" {
			t.Errorf("reason %v", s.Reason())
		}
		func() {
			defer func() {
				if err, _ := recover().(error); !errors.Is(err, errBoom) {
					t.Errorf("the panic is lost: %v", err)
				}
			}()
			s.Fire()
		}()
		h.Trace.Want("script:stop go go2")
		s.Fire()
		s.OnAbort(func() { h.Trace.Add("late") })
		_, err := script.Method(s, "throwIfAborted")
		if !errors.Is(err, cause) {
			t.Errorf("throwIfAborted: %v", err)
		}
		if _, err := script.Method(s, "onabort", script.Func(says(h, "late2"))); err != nil {
			t.Error(err)
		}
		h.Trace.Want("late late2")
		if got := h.Seen.Take(); !slices.Equal(got, []string{"onabort: a.toy: boom"}) {
			t.Errorf("reported %q", got)
		}
		reason, _ := in.Property(s.Class().Lookup("reason"), s)
		aborted, _ := in.Property(s.Class().Lookup("aborted"), s)
		if reason != "stop" || aborted != true {
			t.Errorf("reason %v, aborted %v", reason, aborted)
		}
	})
}

func TestSignalOfAScriptThatIsGoneIsNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			ctx, cancel := context.WithCancel(context.Background())
			s := runtime.NewSignal(ctx, func(error) runtime.Value { return "why" })
			top := func(c *runtimetest.Call) {
				c.Fragile = true
				c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) {
					_, err := c.Method(s, "onabort", c.Func(says(h, c.Instance().File)))
					return nil, err
				})
				c.MustOn("toy/flush", nil, overruns)
			}
			gone := h.Script("project/gone.toy", runtimetest.JS, top)
			rebuilt := h.Script("project/rebuilt.toy", runtimetest.JS, top)
			h.Use(gone, rebuilt)
			if err := check(h, runtime.Target{}); err != nil {
				t.Error(err)
			}
			h.Use(rebuilt)
			overrun(t, h)
			cancel()
			s.Fire()
			h.Trace.Want("")
		})
	})
}

func TestCtxMembers(t *testing.T) {
	now := time.Date(2026, 5, 1, 2, 3, 4, 5e6, time.UTC)
	h := runtimetest.NewHost(t, func(c *runtime.HostConfig) {
		c.Now = func() time.Time { return now }
		c.Members = []*runtime.Member{{Name: "shout", Fn: func(c *runtime.Call) (runtime.Value, error) {
			var s string
			err := c.Unpack("text", &s)
			return strings.ToUpper(s) + "@" + c.Where.File, err
		}}, {Name: "explode", Fn: func(*runtime.Call) (runtime.Value, error) { panic(errBoom) }}}
	})
	h.Run(func() {
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
				for _, x := range []struct {
					name string
					args []runtime.Value
					want any
					err  string
				}{
					{"now", nil, now.UnixMilli(), ""},
					{"now", []runtime.Value{true}, now.UnixMilli(), "ctx.now: got 1 arguments, want at most 0"},
					{"log", []runtime.Value{"a", int64(1), []any{"b"}, nil}, nil, ""},
					{"shout", []runtime.Value{"hey"}, "HEY@a.toy", ""},
					{"after", []runtime.Value{"x", c.Func(fails)}, nil, "ctx.after: for parameter ms: got string, want number"},
					{"spawn", nil, nil, "ctx.spawn: missing parameter fn"},
					{"effect", []runtime.Value{int64(1)}, nil, "ctx.effect: for parameter fn: got number, want function"},
					{"on", nil, nil, "ctx.on: missing parameter event"},
					{"on", []runtime.Value{"toy/notice"}, nil, "ctx.on: missing parameter fn"},
					{"on", []runtime.Value{"toy/notice", map[string]any{}, c.Func(fails), nil}, nil, "ctx.on: got 4 arguments, want at most 3"},
					{"explode", nil, nil, "internal error: boom"},
				} {
					v, err := c.Do(x.name, x.args...)
					if v != x.want || (err == nil) != (x.err == "") || err != nil && err.Error() != x.err {
						t.Errorf("ctx.%s%v: %v, %v\nwant %v, %s", x.name, x.args, v, err, x.want, x.err)
					}
				}
				return nil, nil
			})
		}))
		notice(h, runtime.Target{})
		if got := strings.Join(h.Seen.Lines, "|"); got != `a.toy log a 1 ["b"] null` {
			t.Errorf("logged %s", got)
		}
		if got := h.Seen.Take(); !slices.Equal(got, []string{"internal error: boom"}) {
			t.Errorf("reported %q: a host's bug that a script may swallow", got)
		}
	})
}

func TestSleepTakesAnyNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.Lua, func(c *runtimetest.Call) {
				c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) {
					for ms, want := range map[float64]time.Duration{0: 0, -5: 0, nan(): 0, 1.5: 1500 * time.Microsecond, 1e300: 24 * time.Hour} {
						start := time.Now()
						if _, err := c.Do("sleep", ms); err != nil || time.Since(start) != want {
							t.Errorf("sleep(%v) took %v, %v", ms, time.Since(start), err)
						}
					}
					return nil, nil
				})
			}))
			if err := runtimetest.Check.Run(h.Host, runtime.Target{Limit: 48 * time.Hour}, runtimetest.CheckPayload{}); err != nil {
				t.Error(err)
			}
		})
	})
}

func nan() float64 { var zero float64; return zero / zero }

// ender is an owner that has ended.
type ender struct{}

func (*ender) Ended() error { return errors.New("the agent is gone") }

func TestNothingIsRegisteredForAnOwnerThatHasEnded(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			_, err := c.OnFor(&ender{}, "toy/notice", nil, fails)
			if err == nil || err.Error() != "ctx.on: the agent is gone" {
				t.Errorf("on: %v", err)
			}
		})
		h.Discard(in)
		defer func() {
			if recover() == nil {
				t.Error("Go could listen for an owner that has ended")
			}
		}()
		runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error { return nil }, runtime.Scoped(&ender{}))
	})
}

func TestTimersOfAHookOutliveRetirementUntilItIsOver(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				h.Run(func() {
					g := h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) {
							done := make(chan struct{})
							_, _ = c.Do("after", 1000.0, c.Func(func(c *runtimetest.Call) (runtime.Value, error) {
								h.Trace.Add("timer")
								_, err := c.Do("spawn", c.Func(func(*runtimetest.Call) (runtime.Value, error) {
									h.Trace.Add("spawned")
									close(done)
									return nil, nil
								}))
								return nil, err
							}))
							_, _ = c.Do("after", 5000.0, c.Func(says(h, "too late")))
							return c.Wait(done)
						})
					})).Hold()
					h.Thread.Go(context.Background(), func() { h.Use() })
					if err := check(h, runtime.Target{Gen: g}); err != nil {
						t.Errorf("a save ended the timer that a listener waits for: %v", err)
					}
					_ = h.Thread.Sleep(time.Minute)
					h.Trace.Want("timer spawned")
					g.Release()
				})
			})
		})
	}
}
