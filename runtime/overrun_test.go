package runtime_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

// endless is a script that spawns n functions which compute without end, begins a timer,
// and observes.
func endless(h *runtimetest.Host, n int) *runtime.Instance {
	return h.Script("project/a.toy", runtimetest.Lua, func(c *runtimetest.Call) {
		for range n {
			_, _ = c.Do("spawn", c.Func(overruns))
		}
		_, _ = c.Do("after", float64(time.Hour/time.Millisecond), c.Func(says(h, "timer")))
		c.MustOn("toy/check", nil, says(h, "heard"))
	})
}

func TestTenOverrunsInAMinuteQuarantineTheScriptAndEndItsOwnWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Seen.Tolerant = true
		var in *runtime.Instance
		h.Run(func() { in = endless(h, 1000); h.Use(in) })
		begun := time.Now()
		time.Sleep(2 * time.Hour)
		h.Trace.Want("") // neither the other functions nor the timer
		h.Run(func() {
			if q := h.Seen.Quarantines; len(q) != 1 || !strings.Contains(q[0], "project/a.toy: it had to be stopped 10 times") {
				t.Errorf("quarantined: %q after %v", q, time.Since(begun))
			}
			if n := len(h.Seen.Take()); n > 10 {
				t.Errorf("%d failures", n)
			}
			if err := check(h, runtime.Target{}); err == nil {
				t.Error("its listener ran")
			}
			h.Lift(in)
			if err := check(h, runtime.Target{}); err != nil {
				t.Errorf("after the quarantine: %v", err)
			}
		})
		h.Trace.Want("heard")
		h.Run(func() { in.After(time.Second, "test", func(*runtime.Hook) error { h.Trace.Add("again"); return nil }) })
		time.Sleep(time.Minute)
		h.Trace.Want("again")
	})
}

func TestOverrunsAMinuteApartAreForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Seen.Tolerant = true
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.Lua, func(c *runtimetest.Call) {
				for i := range 30 {
					_, _ = c.Do("after", float64(70_000*i), c.Func(overruns))
				}
			}))
		})
		time.Sleep(time.Hour)
		h.Run(func() {
			if len(h.Seen.Quarantines) > 0 || len(h.Seen.Take()) != 30 {
				t.Errorf("quarantined: %q", h.Seen.Quarantines)
			}
		})
	})
}

func TestAnEndingHostRunsNoBackgroundWorkAndGivesUpAfterTwoOverruns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Seen.Tolerant = true
		var in *runtime.Instance
		h.Run(func() {
			in = endless(h, 1000)
			h.Use(in)
			h.EndBackground()
			in.Spawn("spawn", func(*runtime.Hook) error { h.Trace.Add("late"); return nil })
		})
		time.Sleep(time.Hour)
		h.Run(func() {
			if f := h.Seen.Take(); len(f) > 0 {
				t.Errorf("it ran: %q", f)
			}
			in := h.Script("project/b.toy", runtimetest.Lua, func(c *runtimetest.Call) {
				for range 50 {
					c.MustOn("toy/notice", nil, overruns)
				}
			})
			h.Use(in)
			begun := time.Now()
			notice(h, runtime.Target{})
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("50 endless listeners held the thread for %v", took)
			}
			if len(h.Seen.Take()) != 2 {
				t.Error("not two of them ran")
			}
		})
	})
}

func TestDisposersThatComputeWithoutEndAreGivenUpAfterTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.Lua, func(c *runtimetest.Call) {
				for range 50 {
					_, _ = c.Do("effect", c.Func(func(c *runtimetest.Call) (runtime.Value, error) { return c.Func(overruns), nil }))
				}
			}))
		})
		synctest.Wait()
		h.Run(func() {
			begun := time.Now()
			h.Use()
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("disposing took %v", took)
			}
			if f := h.Seen.Take(); len(f) != 2 {
				t.Errorf("failures: %q", f)
			}
		})
	})
}

func TestNoMoreThanTenThousandSpawnedFunctionsAndTimersWait(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		h.Use(h.Script("project/a.toy", runtimetest.Lua, func(c *runtimetest.Call) {
			c.MustOn("toy/check", nil, func(c *runtimetest.Call) (runtime.Value, error) {
				for _, name := range []string{"spawn", "after"} {
					args := []runtime.Value{c.Func(says(h, "ran"))}
					if name == "after" {
						args = append([]runtime.Value{float64(3600_000)}, args...)
					}
					for i := range 10_001 {
						_, err := c.Do(name, args...)
						if (err != nil) != (i == 10_000) {
							t.Fatalf("%s, the %d. time: %v", name, i+1, err)
						}
						if err != nil && !strings.Contains(err.Error(), "that wait already") {
							t.Error(err)
						}
					}
				}
				return nil, nil
			})
		}))
		if err := check(h, runtime.Target{}); err != nil {
			t.Error(err)
		}
	})
	h.Run(func() { h.Use() })
	h.Trace.Take()
}
