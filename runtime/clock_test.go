package runtime_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
)

// machine stands for a VM: a flag that an interrupt sets and clear resets.
type machine struct {
	runtime.VM
	name string
	flag atomic.Int32
	hits atomic.Int32
}

func (m *machine) entry(budget time.Duration) *runtime.Entry {
	return &runtime.Entry{VM: m, Meter: &runtime.Meter{Who: m.name, Budget: budget, Interrupt: func() {
		m.flag.Store(1)
		m.hits.Add(1)
	}}}
}

func (m *machine) clear() { m.flag.Store(0) }

// run enters the machine, runs fn and tells whether it was interrupted.
func (m *machine) run(th *runtime.Thread, budget time.Duration, fn func()) bool {
	e := m.entry(budget)
	th.Enter(e)
	fn()
	return th.Exit(e, m.clear)
}

// compute keeps the thread, in fake time.
func compute(d time.Duration) { time.Sleep(d) }

const budget = 2 * time.Second

func TestRule10_AnOverrunIsNoticedAtTheBudgetAndAnEighth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		for _, c := range []struct {
			busy  time.Duration
			fired bool
		}{{budget - time.Millisecond, false}, {budget + budget/8, true}} {
			do(t, th, func() {
				x := &machine{name: "x"}
				e := x.entry(budget)
				th.Enter(e)
				compute(c.busy)
				cause := th.Cause(e.Meter)
				if got := th.Exit(e, x.clear); got != c.fired || errors.Is(cause, runtime.ErrDeadline) != c.fired {
					t.Errorf("after %v: fired %v, cause %v, want %v", c.busy, got, cause, c.fired)
				}
				if x.flag.Load() != 0 {
					t.Error("the interrupt was not taken back")
				}
			})
		}
	})
}

func TestRule10_OnlyTheInnermostEntryIsChargedAndBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		do(t, th, func() {
			x, y := &machine{name: "x"}, &machine{name: "y"}
			fired := x.run(th, budget, func() {
				compute(budget / 2)
				if !y.run(th, budget, func() { compute(2 * budget) }) {
					t.Error("the inner script was not stopped")
				}
				compute(budget / 4)
			})
			if fired || x.hits.Load() > 0 {
				t.Error("the outer script was stopped for what the inner one did")
			}
		})
	})
}

func TestRule10_EntriesOfOneVMInOneChainShareAMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		do(t, th, func() {
			x, y := &machine{name: "x"}, &machine{name: "y"}
			inner := false
			fired := x.run(th, budget, func() {
				compute(budget / 2)
				y.run(th, budget, func() {
					inner = x.run(th, budget, func() { compute(budget) })
					if x.flag.Load() == 0 {
						t.Error("an inner entry took back the interrupt that the outer one has yet to see")
					}
				})
			})
			if !fired || !inner {
				t.Errorf("stopped: outer %v, inner %v, want both", fired, inner)
			}
			if x.flag.Load() != 0 {
				t.Error("the interrupt outlived its entry")
			}
		})
	})
}

func TestRule10_NotCountedWhileAwayParkedOrBelowAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		do(t, th, func() {
			x := &machine{name: "x"}
			fired := x.run(th, budget, func() {
				_ = th.Away(func() { time.Sleep(10 * budget) })
				_ = th.Sleep(10 * budget)
				th.Start(func() { compute(10 * budget) })
				th.Start(func() { compute(10 * budget); _ = th.Sleep(time.Second) })
				compute(budget / 2)
				_ = th.Sleep(time.Second)
			})
			if fired {
				t.Error("stopped for time that was not its own")
			}
		})
	})
}

func TestRule10_NotCountedWhileWaitingForTheThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		do(t, th, func() {
			x := &machine{name: "x"}
			fired := x.run(th, budget, func() {
				_ = th.Away(func() {
					go func() { _ = th.Do(t.Context(), func() { compute(10 * budget) }) }()
					synctest.Wait()
				})
			})
			if fired {
				t.Error("stopped for time that another chain used")
			}
		})
	})
}

func TestRule10_NoBudgetIsNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{OnStuck: func(who string) { t.Errorf("stuck: %s", who) }})
		do(t, th, func() {
			x := &machine{name: "x"}
			if x.run(th, 0, func() { compute(time.Hour) }) {
				t.Error("stopped")
			}
		})
	})
}

func TestRule10_InterruptsAreRepeatedUntilTheEntryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		do(t, th, func() {
			x := &machine{name: "x"}
			x.run(th, budget, func() {
				compute(budget + budget/8)
				x.flag.Store(0) // native code that swallows it
				compute(budget / 8)
				if x.flag.Load() == 0 {
					t.Error("an interrupt that was swallowed was not sent again")
				}
			})
		})
	})
}

func TestRule10_OnStuckTellsOnceWhoDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var who []string
		var at time.Duration
		start := time.Now()
		th := newThread(t, runtime.ThreadOptions{OnStuck: func(w string) { who, at = append(who, w), time.Since(start) }})
		do(t, th, func() {
			x := &machine{name: "project/x.toy"}
			x.run(th, budget, func() { compute(time.Minute) })
		})
		if len(who) != 1 || who[0] != "project/x.toy" {
			t.Errorf("OnStuck: %v", who)
		}
		if at < budget+5*time.Second || at > budget+5*time.Second+budget/8 {
			t.Errorf("OnStuck after %v", at)
		}
	})
}

// Entries that end right around their deadline: whatever happens to them, the one after
// must not be hit by their interrupt.
func TestRule10_NoStaleInterrupt(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	const budget = time.Millisecond
	stopped := 0
	do(t, th, func() {
		x := &machine{name: "x"}
		for i := range 600 {
			busy := budget + budget/8 + time.Duration(i%60-30)*10*time.Microsecond
			fired := x.run(th, budget, func() {
				for end := time.Now().Add(busy); time.Now().Before(end) && x.flag.Load() == 0; {
				}
			})
			if fired {
				stopped++
			}
			if x.flag.Load() != 0 {
				t.Fatalf("entry %d: its interrupt is still there", i)
			}
			hits := x.hits.Load()
			if x.run(th, time.Minute, func() {
				for end := time.Now().Add(20 * time.Microsecond); time.Now().Before(end); {
				}
			}) || x.hits.Load() != hits || x.flag.Load() != 0 {
				t.Fatalf("the entry after entry %d was hit", i)
			}
		}
	})
	if stopped == 0 || stopped == 600 {
		t.Errorf("%d of 600 were stopped: the deadline was not hit from both sides", stopped)
	}
}
