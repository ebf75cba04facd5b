package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

var (
	errBoom = errors.New("boom")
	kinds   = []runtimetest.Kind{runtimetest.JS, runtimetest.Lua}
)

func fails(*runtimetest.Call) (runtime.Value, error) { return nil, errBoom }

func TestB179_AnEmitsFailuresAreContained(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				h.Run(func() {
					h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						c.At(4)
						c.MustOn("toy/notice", nil, fails)
						c.MustOn("toy/notice", nil, func(*runtimetest.Call) (runtime.Value, error) { panic("a binding's fault") })
						if kind == runtimetest.JS {
							c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
								v, err := c.Do("sleep", 5.0)
								return c.Await(v, err, func(*runtimetest.Call, runtime.Value, error) (runtime.Value, error) { return nil, errBoom })
							})
						}
						c.MustOn("toy/notice", nil, says(h, "fine"))
					}))
					defer runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error { return errBoom })()
					defer runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error { panic("go") })()
					notice(h, runtime.Target{})
					h.Trace.Want("fine")
				})
				time.Sleep(time.Second)
				want := []string{"boom", "internal error: go", "a.toy:4: toy/notice: boom", "a.toy:4: toy/notice: panic: a binding's fault"}
				if kind == runtimetest.JS {
					want = append(want, "a.toy:4: toy/notice: boom")
				}
				h.Run(func() {
					for _, f := range h.Seen.Failures {
						if f.Event != runtimetest.Notice.Event || f.Listener == nil {
							t.Errorf("a failure does not say where it happened: %+v", f)
						}
					}
					if got := h.Seen.Take(); fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("reported %q\nwant     %q", got, want)
					}
				})
			})
		})
	}
}

func TestFireErrReturnsTheFirstThrowAndContainsTheRest(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		if err := runtimetest.Notice.FireErr(h.Host, runtime.Target{}, runtimetest.NoticePayload{}); err != nil {
			t.Errorf("nobody listens: %v", err)
		}
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/notice", nil, fails)
			c.MustOn("toy/notice", nil, fails)
			c.MustOn("toy/notice", nil, says(h, "heard"))
		}))
		err := runtimetest.Notice.FireErr(h.Host, runtime.Target{}, runtimetest.NoticePayload{})
		var se *runtime.ScriptError
		if !errors.As(err, &se) || !errors.Is(err, errBoom) || se.Script != "project/a.toy" {
			t.Errorf("FireErr: %v", err)
		}
		h.Trace.Want("heard")
		if got := h.Seen.Take(); len(got) != 1 {
			t.Errorf("reported %q", got)
		}
	})
}

func TestRule03_AnEmitIsAtomic(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				h.Run(func() {
					h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
							h.Trace.Add("first")
							v, err := c.Do("sleep", 10.0)
							if kind == runtimetest.Lua && !errors.Is(err, runtime.ErrCannotWait) {
								t.Errorf("a Lua listener of an emit could wait: %v", err)
								return nil, err
							}
							if kind == runtimetest.Lua {
								return nil, nil
							}
							return c.Await(v, err, func(*runtimetest.Call, runtime.Value, error) (runtime.Value, error) {
								h.Trace.Add("later")
								return nil, nil
							})
						})
						c.MustOn("toy/notice", nil, says(h, "second"))
					}))
					defer runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error {
						if err := h.Thread.Away(func() {}); !errors.Is(err, runtime.ErrCannotWait) {
							t.Errorf("a Go listener of an emit could leave: %v", err)
						}
						return nil
					})()
					h.Thread.Go(context.Background(), func() { h.Trace.Add("other") })
					h.Thread.Post(func() { h.Trace.Add("post") })
					notice(h, runtime.Target{})
					if !h.Thread.CanWait() {
						t.Error("cannot wait after the emit")
					}
				})
				time.Sleep(time.Second)
				synctest.Wait()
				want := "first second post other"
				if kind == runtimetest.JS {
					want += " later"
				}
				h.Trace.Want(want)
			})
		})
	}
}

func TestRule08_EmitListenersRunWithoutAHook(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/notice", nil, func(*runtimetest.Call) (runtime.Value, error) {
				if h.Thread.CurrentHook() != nil {
					t.Error("a script's listener has a hook")
				}
				return nil, nil
			})
			c.MustOn("toy/check", nil, func(*runtimetest.Call) (runtime.Value, error) {
				hook := h.Thread.CurrentHook()
				notice(h, runtime.Target{})
				if hook == nil || h.Thread.CurrentHook() != hook {
					t.Error("the emit changed the hook of its caller")
				}
				return nil, nil
			})
		}))
		defer runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error {
			if h.Thread.CurrentHook() != nil {
				t.Error("a Go listener has a hook")
			}
			return nil
		})()
		if err := runtimetest.Check.Run(h.Host, runtime.Target{}, runtimetest.CheckPayload{}); err != nil {
			t.Error(err)
		}
	})
}

func TestAnEmitListenerThatFailsFiveTimesInARowIsSkippedAlone(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late=%v", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				calls, ok := 0, false
				var in *runtime.Instance
				h.Run(func() {
					in = h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
						c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
							calls++
							if ok {
								return nil, nil
							}
							if !late {
								return nil, errBoom
							}
							v, err := c.Do("sleep", 1.0)
							return c.Await(v, err, func(*runtimetest.Call, runtime.Value, error) (runtime.Value, error) { return nil, errBoom })
						})
						c.MustOn("toy/notice", nil, says(h, "other"))
					})
					h.Use(in)
				})
				fire := func(n int) {
					for range n {
						h.Run(func() { notice(h, runtime.Target{}) })
						time.Sleep(10 * time.Millisecond)
					}
				}
				fire(4)
				ok = true
				fire(1)
				ok = false
				fire(4)
				if calls != 9 {
					t.Errorf("called %d times: a success did not end the row", calls)
				}
				fire(3)
				h.Run(func() {
					if calls != 10 {
						t.Errorf("called %d times, want 10: it is skipped after the fifth failure in a row", calls)
					}
					got := h.Seen.Take()
					if len(got) != 10 || !strings.Contains(strings.Join(got, "\n"), "failed 5 times in a row and is skipped from now on") {
						t.Errorf("reported:\n%s", strings.Join(got, "\n"))
					}
					if in.Quarantined() != nil || len(h.Seen.Quarantines) > 0 {
						t.Error("its script is in quarantine")
					}
					h.Trace.Want(strings.TrimSpace(strings.Repeat("other ", 12)))
					h.Lift(in)
				})
				ok = true
				fire(1)
				if calls != 11 {
					t.Error("Lift did not wake it")
				}
			})
		})
	}
}

func TestLateFailuresOfManyCallsInFlightAreOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		calls := 0
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
					calls++
					v, err := c.Do("sleep", float64(100-calls)) // the last call fails first
					return c.Await(v, err, func(*runtimetest.Call, runtime.Value, error) (runtime.Value, error) { return nil, errBoom })
				})
			}))
			for range 20 {
				notice(h, runtime.Target{})
			}
		})
		time.Sleep(time.Second)
		h.Run(func() {
			notice(h, runtime.Target{})
			if calls != 20 {
				t.Errorf("called %d times after 20 failures", calls)
			}
			if got := h.Seen.Take(); len(got) != 21 {
				t.Errorf("%d reports, want 20 failures and one that says it is skipped", len(got))
			}
		})
	})
}

func TestPayloadIsOneViewForAllScripts(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		var seen []runtime.Value
		keep := func(c *runtimetest.Call) {
			c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
				seen = append(seen, c.Arg(0))
				if c.Get("text") != "x" {
					t.Errorf("text: %v", c.Get("text"))
				}
				return nil, nil
			})
		}
		h.Use(h.Script("project/a.toy", runtimetest.JS, keep), h.Script("project/b.toy", runtimetest.Lua, keep))
		notice(h, runtime.Target{})
		if len(seen) != 2 || seen[0] != seen[1] {
			t.Errorf("%v", seen)
		}
	})
}

func TestHeard(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		if runtimetest.Notice.Heard(h.Host, runtime.Target{}) {
			t.Error("heard by nobody")
		}
		off := runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error { return nil })
		if !runtimetest.Notice.Heard(h.Host, runtime.Target{}) {
			t.Error("not heard")
		}
		off()
	})
}
