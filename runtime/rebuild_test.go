package runtime_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

// overruns computes until it is stopped.
func overruns(c *runtimetest.Call) (runtime.Value, error) {
	c.Compute(time.Hour)
	return nil, nil
}

// overrun makes the script's VM useless: it must have a listener of toy/flush that
// computes for ever.
func overrun(t *testing.T, h *runtimetest.Host) {
	t.Helper()
	if err := runtimetest.Flush.Run(h.Host, runtime.Target{}, runtimetest.NoticePayload{}); !errors.Is(err, runtime.ErrDeadline) {
		t.Errorf("Flush: %v", err)
	}
}

func TestRule11_AnOverrunFailsTheOtherPendingCallsOfItsVM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) { return c.Wait(nil) })
				c.MustOn("toy/flush", nil, overruns)
				c.MustOn("toy/notice", nil, says(h, "alive"))
			}))
			h.Thread.Start(func() {
				if err := check(h, runtime.Target{}); !errors.Is(err, runtime.ErrLost) {
					t.Errorf("Check: %v", err)
				}
				h.Trace.Add("lost")
			})
			overrun(t, h)
			notice(h, runtime.Target{})
			_ = h.Thread.Sleep(time.Millisecond)
			h.Trace.Want("alive lost")
			if h.Toy.Made() != 1 {
				t.Error("rebuilt although the VM can be used")
			}
		})
	})
}

func TestRule11_ALuaCallThatIsParkedSurvivesAnothersOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.Lua, func(c *runtimetest.Call) {
				c.MustOn("toy/check", nil, sleepsThen(h, "parked", nil, nil))
				c.MustOn("toy/flush", nil, overruns)
			}))
			h.Thread.Start(func() {
				if err := check(h, runtime.Target{}); err != nil {
					t.Errorf("Check: %v", err)
				}
			})
			overrun(t, h)
			_ = h.Thread.Sleep(time.Second)
			h.Trace.Want("parked< >parked")
		})
	})
}

func TestRule11_ARebuildRebindsByOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		a := h.Agent("a")
		h.Run(func() {
			n := 0
			scoped := func(c *runtimetest.Call) { _, _ = c.OnFor(a, "toy/notice", nil, says(h, "scoped")) }
			var top *runtimetest.Call
			var off *runtime.GoFunc
			in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				n++
				top = c
				name := func(s string) string { return s + string(rune('0'+n)) }
				c.Fragile = true
				c.Instance().Register("command", "stays", n, nil, c.Where())
				c.Instance().Register("command", "goes", n, nil, c.Where())
				c.MustOn("toy/notice", nil, says(h, name("first")))
				c.MustOn("toy/notice", runtimetest.Opts{"once": true}, says(h, name("once")))
				off = c.MustOn("toy/notice", nil, says(h, name("unsubscribed")))
				c.MustOn("toy/notice", runtimetest.Opts{"prepend": true}, says(h, name("pre")))
				c.MustOn("toy/decide", runtimetest.Opts{"filter": runtimetest.Opts{"tool": "a*"}}, says(h, name("decide")))
				c.MustOn("toy/flush", nil, overruns)
			})
			h.Seen.OnRebuilt = func(*runtime.Instance) { scoped(top) }
			g := h.Use(in)
			scoped(top)
			old := in.VM()
			top.MustOn("toy/notice", nil, says(h, "late"))
			notice(h, a.Target())
			h.Trace.Want("pre1 first1 once1 unsubscribed1 scoped late")
			g.Find("command", "goes", nil).Remove()
			if err := top.Undo(off); err != nil {
				t.Error(err)
			}

			overrun(t, h)
			if in.Epoch() != 1 || in.VM() == old || h.Toy.Made() != 2 || len(h.Toy.Open()) != 1 {
				t.Errorf("epoch %d, made %d, open %v", in.Epoch(), h.Toy.Made(), h.Toy.Open())
			}
			if got := strings.Join(h.Seen.Rebuilds, " "); got != "project/a.toy" || in.Quarantined() != nil {
				t.Errorf("rebuilt %s, quarantine %v", got, in.Quarantined())
			}
			notice(h, a.Target())
			h.Trace.Want("pre2 first2 scoped") // what was registered later is not back
			if r := g.Find("command", "stays", nil); r == nil || r.Spec != 2 {
				t.Errorf("the command is the old one: %+v", r)
			}
			if g.Find("command", "goes", nil) != nil {
				t.Error("a command that was taken back is there again")
			}
			overrun(t, h) // and again
			notice(h, runtime.Target{})
			h.Trace.Want("pre3 first3")
		})
	})
}

func TestRule11_AfterARebuildTimersSpawnsAndEffectsAreTheNewVMs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		n := 0
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				n++
				c.Fragile = true
				name := func(s string) string { return s + string(rune('0'+n)) }
				_, _ = c.Do("after", 1000.0, c.Func(says(h, name("timer"))))
				_, _ = c.Do("spawn", c.Func(says(h, name("spawn"))))
				undo := says(h, name("undo"))
				_, _ = c.Do("effect", c.Func(func(c *runtimetest.Call) (runtime.Value, error) { return c.Func(undo), nil }))
				c.MustOn("toy/flush", nil, overruns)
			}))
		})
		synctest.Wait()
		h.Run(func() { overrun(t, h) })
		time.Sleep(time.Minute)
		h.Trace.Want("spawn1 spawn2 timer2")
		h.Run(func() { h.Use() })
		h.Trace.Want("undo2")
	})
}

func TestRule11_AListenerWhoseVMWasReplacedDuringTheDispatchFailsOrIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.Fragile = true
				for _, e := range []string{"toy/notice", "toy/rewrite"} {
					c.MustOn(e, nil, overruns)
					c.MustOn(e, nil, says(h, e))
				}
			}))
			notice(h, runtime.Target{})
			h.Trace.Want("")
			if got := h.Seen.Take(); len(got) != 1 || !strings.Contains(got[0], "deadline exceeded") {
				t.Errorf("reported %q", got)
			}
			notice(h, runtime.Target{})
			_, _, err := runRewrite(h)
			if !errors.Is(err, runtime.ErrDeadline) {
				t.Errorf("Rewrite: %v", err)
			}
			h.Seen.Take()
		})
	})
}

func TestRule11_NoSecondTry(t *testing.T) {
	for name, again := range map[string]func(h *runtimetest.Host, c *runtimetest.Call) error{
		"fails":    func(*runtimetest.Host, *runtimetest.Call) error { return errBoom },
		"overruns": func(_ *runtimetest.Host, c *runtimetest.Call) error { c.Compute(time.Hour); return nil },
		"registers more": func(h *runtimetest.Host, c *runtimetest.Call) error {
			c.MustOn("toy/notice", nil, says(h, "more"))
			return nil
		},
		"registers another filter": func(h *runtimetest.Host, c *runtimetest.Call) error {
			c.MustOn("toy/decide", runtimetest.Opts{"filter": runtimetest.Opts{"tool": "b"}}, says(h, "x"))
			return nil
		},
		"registers a command": func(_ *runtimetest.Host, c *runtimetest.Call) error {
			c.Instance().Register("command", "x", nil, nil, c.Where())
			return nil
		},
		"needs more": func(_ *runtimetest.Host, c *runtimetest.Call) error {
			_, err := c.Do("need", map[string]any{"read": "**"})
			return err
		},
		"registers less": func(*runtimetest.Host, *runtimetest.Call) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				h.Run(func() {
					n, well := 0, false
					in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
						n++
						c.Fragile = true
						c.MustOn("toy/flush", nil, overruns)
						var err error
						switch {
						case n > 1 && !well:
							if err = again(h, c); err != nil {
								panic(err)
							}
						case strings.HasPrefix(name, "registers another"):
							c.MustOn("toy/decide", runtimetest.Opts{"filter": runtimetest.Opts{"tool": "a"}}, says(h, "x"))
						case name == "registers less":
							c.MustOn("toy/decide", nil, says(h, "x"))
						}
					})
					h.Use(in)
					overrun(t, h)
					if n != 2 || !errors.Is(in.Quarantined(), runtime.ErrDeadline) || len(h.Seen.Rebuilds) > 0 {
						t.Errorf("top level ran %d times, quarantine %v, rebuilds %v", n, in.Quarantined(), h.Seen.Rebuilds)
					}
					if _, err := runtimetest.Decide.Run(h.Host, runtime.Target{}, runtimetest.CallPayload{Tool: "a"}, allow); err != nil {
						t.Error(err)
					}
					h.Lift(in) // another try, by hand
					if n != 3 || in.Quarantined() == nil {
						t.Errorf("Lift of a script that still cannot start: ran %d times, %v", n, in.Quarantined())
					}
					well = true
					h.Lift(in)
					if n != 4 || in.Quarantined() != nil {
						t.Errorf("Lift: ran %d times, %v", n, in.Quarantined())
					}
					overrun(t, h) // the listeners are the new VM's
					h.Trace.Take()
				})
			})
		})
	}
}

func TestRule11_ARebuildDoesNotRunOnSomebodysBehalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.Fragile = true
				if h.Thread.CurrentHook() != nil {
					t.Error("the top level runs under a hook")
				}
				c.MustOn("toy/check", nil, overruns)
			}))
			if err := check(h, runtime.Target{}); !errors.Is(err, runtime.ErrDeadline) {
				t.Errorf("Check: %v", err)
			}
		})
	})
}

func TestRule11_AScriptThatDiesOfItsReplayIsQuarantined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		deadly := true
		h.Seen.OnRebuilt = func(in *runtime.Instance) {
			runtimetest.Notice.Fire(h.Host, runtime.Target{Only: in}, runtimetest.NoticePayload{})
		}
		h.Run(func() {
			in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.Fragile = true
				c.MustOn("toy/flush", nil, overruns)
				c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
					if deadly {
						return overruns(c)
					}
					return nil, nil
				})
			})
			h.Use(in)
			overrun(t, h)
			if h.Toy.Made() != 2 || !errors.Is(in.Quarantined(), runtime.ErrDeadline) {
				t.Errorf("%d VMs, quarantine %v", h.Toy.Made(), in.Quarantined())
			}
			h.Lift(in)
			if h.Toy.Made() != 3 || in.Quarantined() == nil {
				t.Errorf("lifted while it still dies: %d VMs, quarantine %v", h.Toy.Made(), in.Quarantined())
			}
			deadly = false
			h.Lift(in)
			if h.Toy.Made() != 4 || in.Quarantined() != nil {
				t.Errorf("%d VMs, quarantine %v", h.Toy.Made(), in.Quarantined())
			}
			h.Seen.Take()
		})
	})
}

// A guard that overruns whenever it is asked takes its VM along each time. Its failures
// count in a row all the same, wherever it is registered.
func TestRule11_FailuresInARowSurviveARebuild(t *testing.T) {
	register := map[string]func(c *runtimetest.Call, a *runtimetest.Agent, f runtimetest.Function){
		"at the top": func(c *runtimetest.Call, _ *runtimetest.Agent, f runtimetest.Function) {
			c.MustOn("toy/check", nil, f)
		},
		"for an owner, when that is replayed": func(c *runtimetest.Call, a *runtimetest.Agent, f runtimetest.Function) {
			c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
				_, err := c.OnFor(a, "toy/check", nil, f)
				return nil, err
			})
		},
		"in a listener, later": func(c *runtimetest.Call, _ *runtimetest.Agent, f runtimetest.Function) {
			c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
				c.MustOn("toy/check", nil, f)
				return nil, nil
			})
		},
	}
	for name, register := range register {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				a := h.Agent("a")
				h.Run(func() {
					healthy := false
					in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
						c.Fragile = true
						register(c, a, func(c *runtimetest.Call) (runtime.Value, error) {
							if healthy {
								return nil, nil
							}
							return overruns(c)
						})
					})
					replay := func() { runtimetest.Notice.Fire(h.Host, runtime.Target{Only: in}, runtimetest.NoticePayload{}) }
					h.Seen.OnRebuilt = func(*runtime.Instance) { replay() }
					h.Use(in)
					replay()
					fail := func(n int) {
						for range n {
							if err := check(h, a.Target()); !errors.Is(err, runtime.ErrDeadline) {
								t.Errorf("Check: %v", err)
							}
						}
					}
					fail(4)
					healthy = true
					if err := check(h, a.Target()); err != nil {
						t.Errorf("Check: %v", err)
					}
					healthy = false
					fail(4)
					if in.Quarantined() != nil {
						t.Errorf("in quarantine although the fifth call went well: %v", in.Quarantined())
					}
					fail(1)
					if !errors.Is(in.Quarantined(), runtime.ErrDeadline) || len(h.Seen.Quarantines) != 1 {
						t.Errorf("quarantine %v, told of %q", in.Quarantined(), h.Seen.Quarantines)
					}
					if made := h.Toy.Made(); made != 10 {
						t.Errorf("%d VMs, want one more than the 9 overruns", made)
					}
					h.Lift(in)
					fail(4)
					if in.Quarantined() != nil {
						t.Errorf("after Lift failures do not count from zero: %v", in.Quarantined())
					}
				})
			})
		})
	}
}

// An emit listener that has been silenced stays so when its VM is replaced.
func TestRule11_ASilencedListenerStaysSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			calls := 0
			h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.Fragile = true
				c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) { calls++; return overruns(c) })
			}))
			for range 8 {
				notice(h, runtime.Target{})
			}
			if calls != 5 {
				t.Errorf("called %d times, want 5", calls)
			}
			h.Seen.Take()
		})
	})
}
