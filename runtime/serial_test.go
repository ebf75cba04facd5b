package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

// sleepsThen is a listener that records its name after a while and answers.
func sleepsThen(h *runtimetest.Host, name string, v runtime.Value, err error) runtimetest.Function {
	return func(c *runtimetest.Call) (runtime.Value, error) {
		h.Trace.Add("%s<", name)
		x, e := c.Do("sleep", 10.0)
		return c.Await(x, e, func(*runtimetest.Call, runtime.Value, error) (runtime.Value, error) {
			h.Trace.Add(">%s", name)
			return v, err
		})
	}
}

func check(h *runtimetest.Host, t runtime.Target) error {
	return runtimetest.Check.Run(h.Host, t, runtimetest.CheckPayload{Text: "x"})
}

func TestSerialAwaitsEachAndIgnoresWhatTheyReturn(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				h.Run(func() {
					h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						c.MustOn("toy/check", nil, sleepsThen(h, "a", "an answer", nil))
						c.MustOn("toy/check", nil, sleepsThen(h, "b", map[string]any{"kind": "deny"}, nil))
						c.MustOn("toy/check", nil, says(h, "c"))
					}))
					if err := check(h, runtime.Target{}); err != nil {
						t.Error(err)
					}
					h.Trace.Want("a< >a b< >b c")
				})
			})
		})
	}
}

func TestSerialEndsWithTheFirstThrow(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				h.Run(func() {
					h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						c.At(9)
						c.MustOn("toy/check", nil, sleepsThen(h, "a", nil, errBoom))
						c.MustOn("toy/check", nil, says(h, "b"))
					}))
					err := check(h, runtime.Target{})
					var se *runtime.ScriptError
					if !errors.As(err, &se) || !errors.Is(err, errBoom) || err.Error() != "a.toy:9: toy/check: boom" {
						t.Errorf("Run: %v", err)
					}
					h.Trace.Want("a< >a")
				})
			})
		})
	}
}

func TestSerialGoListenerThrowsAndPanics(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		off := runtimetest.Check.On(h.Host, func(runtimetest.CheckPayload) error { return errBoom })
		if err := check(h, runtime.Target{}); err != errBoom {
			t.Errorf("Run: %v", err)
		}
		off()
		defer runtimetest.Check.On(h.Host, func(runtimetest.CheckPayload) error { panic(errBoom) })()
		var p *runtime.PanicError
		if err := check(h, runtime.Target{}); !errors.As(err, &p) || !errors.Is(err, errBoom) {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestContainedSerialGoesOnAndReports(t *testing.T) {
	contained := runtime.NewSerial[runtimetest.CheckPayload]("toy/contained", "", runtime.Sample{}, runtime.Contained())
	h := runtimetest.NewHost(t, func(c *runtime.HostConfig) { c.Events = runtime.NewCatalogue(contained.Event) })
	h.Run(func() {
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/contained", nil, fails)
			c.MustOn("toy/contained", nil, says(h, "b"))
		}))
		if err := contained.Run(h.Host, runtime.Target{}, runtimetest.CheckPayload{}); err != nil {
			t.Error(err)
		}
		h.Trace.Want("b")
		if got := h.Seen.Take(); len(got) != 1 {
			t.Errorf("reported %q", got)
		}
	})
}

func TestRule09_AnEndedContextEndsADispatchWithItsCause(t *testing.T) {
	cause := errors.New("cancelled by the user")
	swallow := func(h *runtimetest.Host) runtimetest.Function {
		return func(c *runtimetest.Call) (runtime.Value, error) {
			v, err := c.Wait(nil) // for ever
			return c.Await(v, err, func(_ *runtimetest.Call, _ runtime.Value, err error) (runtime.Value, error) {
				h.Trace.Add("%v", err)
				return map[string]any{"text": "kept going"}, nil
			})
		}
	}
	for _, kind := range kinds {
		for _, mode := range []string{"serial", "waterfall"} {
			t.Run(string(kind)+" "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := runtimetest.NewHost(t)
					ctx, cancel := context.WithCancelCause(context.Background())
					h.Run(func() {
						h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
							for _, e := range []string{"toy/check", "toy/rewrite"} {
								c.MustOn(e, nil, swallow(h))
								c.MustOn(e, nil, says(h, "inner"))
							}
						}))
						run := func() (err error) {
							if mode == "serial" {
								return check(h, runtime.Target{Ctx: ctx})
							}
							_, err = runtimetest.Rewrite.Run(h.Host, runtime.Target{Ctx: ctx}, runtimetest.Text{}, func(x runtimetest.Text) (runtimetest.Text, error) {
								h.Trace.Add("base")
								return x, nil
							})
							return err
						}
						time.AfterFunc(time.Second, func() { cancel(cause) })
						if err := run(); err != cause {
							t.Errorf("Run: %v, want the cause", err)
						}
						h.Trace.Want(cause.Error())
						// And when it has ended before.
						if err := run(); err != cause {
							t.Errorf("Run: %v, want the cause", err)
						}
						h.Trace.Want("")
						h.Use()
						if err := run(); err != cause {
							t.Errorf("nobody listens: %v, want the cause", err)
						}
						h.Trace.Want("")
						if len(h.Seen.Decisions) > 0 {
							t.Errorf("recorded %+v", h.Seen.Decisions)
						}
					})
				})
			})
		}
	}
}

func TestRule09_AListenerThatDoesNotSettleIsGivenUpAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		cause := errors.New("cancelled")
		ctx, cancel := context.WithCancelCause(context.Background())
		var settle func(runtime.Value, error)
		var late *runtimetest.Call
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.MustOn("toy/rewrite", nil, func(c *runtimetest.Call) (runtime.Value, error) {
					var p *runtimetest.Promise
					late = c
					p, settle = c.Promise()
					return p, nil
				})
				c.MustOn("toy/rewrite", nil, says(h, "inner"))
			}))
			time.AfterFunc(time.Second, func() { cancel(cause) })
			start := time.Now()
			_, err := runtimetest.Rewrite.Run(h.Host, runtime.Target{Ctx: ctx}, runtimetest.Text{}, base)
			if took := time.Since(start); err != cause || took != 1250*time.Millisecond {
				t.Errorf("%v after %v", err, took)
			}
		})
		settle("what it returns later", nil)
		synctest.Wait()
		h.Run(func() {
			p, err := late.Next()
			_, err = late.Await(p, err, func(_ *runtimetest.Call, _ runtime.Value, err error) (runtime.Value, error) {
				h.Trace.Add("%v", err)
				return nil, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		h.Trace.Want("the listener has already answered")
	})
}

func TestRule09_CutOffListenersAreNotCounted(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				n := 0
				var in *runtime.Instance
				h.Run(func() {
					in = h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) {
							if n++; n%2 == 0 {
								return nil, errBoom
							}
							return c.Wait(nil)
						})
					})
					h.Use(in)
					for i := range 9 {
						if in.Quarantined() != nil {
							t.Fatalf("in quarantine after call %d, in which %d failed of themselves", i, i/2)
						}
						ctx, cancel := context.WithTimeout(context.Background(), time.Second)
						_ = check(h, runtime.Target{Ctx: ctx})
						cancel()
					}
					_ = check(h, runtime.Target{})
					if in.Quarantined() == nil {
						t.Error("five failures of its own with nothing but aborts between them: not in quarantine")
					}
				})
			})
		})
	}
}

func TestParallelStartsAllAwaitsAllAndJoinsTheirErrors(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				h.Run(func() {
					errs := []error{errors.New("e0"), errors.New("e1"), errors.New("e2")}
					h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						c.MustOn("toy/flush", nil, sleepsThen(h, "a", nil, errs[1]))
						c.MustOn("toy/flush", nil, func(*runtimetest.Call) (runtime.Value, error) { h.Trace.Add("b"); return nil, errs[2] })
						c.MustOn("toy/flush", nil, says(h, "c"))
					}))
					defer runtimetest.Flush.On(h.Host, func(runtimetest.NoticePayload) error {
						h.Trace.Add("go<")
						err := h.Thread.Sleep(time.Second)
						h.Trace.Add(">go")
						return errors.Join(err, errs[0])
					})()
					start := time.Now()
					err := runtimetest.Flush.Run(h.Host, runtime.Target{}, runtimetest.NoticePayload{})
					h.Trace.Want("go< a< b c >a >go")
					lines := strings.Split(fmt.Sprint(err), "\n")
					if want := []string{"e0", "a.toy: toy/flush: e1", "a.toy: toy/flush: e2"}; !slices.Equal(lines, want) {
						t.Errorf("joined %q, want %q", lines, want)
					}
					if took := time.Since(start); took != time.Second {
						t.Errorf("took %v", took)
					}
					defer runtimetest.Flush.On(h.Host, func(runtimetest.NoticePayload) error { panic("p") })()
					if err := runtimetest.Flush.Run(h.Host, runtime.Target{}, runtimetest.NoticePayload{}); !strings.Contains(fmt.Sprint(err), "internal error: p") {
						t.Errorf("a panic: %v", err)
					}
				})
			})
		})
	}
}
