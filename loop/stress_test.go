package loop_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dshsh/bindings/js"
	"dshsh/bindings/lua"
	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/runtime"
	"dshsh/runtime/modules"
	"dshsh/session"
)

// The storm: many agents, scripts in both languages in every event, and everything that
// may happen at any moment happening at random moments. Afterwards what must hold is
// looked up in the logs, and what must never be seen was looked for all along: a nonce
// in each call's arguments and in whatever is said of it proves that a verdict has
// reached the call that asked.
//
//	go test -race ./loop -run TestStress -stress.time=60s -stress.seed=1 -v

var (
	stressTime = flag.Duration("stress.time", 0, "how long TestStress storms; 0 is the short form")
	stressSeed = flag.Uint64("stress.seed", 0, "seed of TestStress; 0 takes one from the clock")
)

const (
	stressAgents = 8
	stressRound  = 6 * time.Second // of storm, then everything must come to rest
	stressStall  = 60 * time.Second
)

func TestStress(t *testing.T) {
	seed, left := *stressSeed, *stressTime
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	if left == 0 {
		left = 1500 * time.Millisecond
	}
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), regexpClock)
	t.Logf("again: go test -race ./loop -run TestStress -stress.time=%v -stress.seed=%d", left, seed)
	s := newStorm(t, seed)
	var sizes []string
	var first, last uint64
	for n := 1; left > 0; n++ {
		d := min(left, stressRound)
		left -= d
		s.round(d)
		last = heapInUse()
		sizes = append(sizes, fmt.Sprintf("%d MB, %d goroutines", last>>20, goruntime.NumGoroutine()))
		if n == 2 {
			first = last
		}
	}
	s.h.Stop()
	s.stopped()
	t.Logf("after each round: %s", strings.Join(sizes, "; "))
	if first > 0 && last > first+first/2+(8<<20) {
		t.Errorf("memory grows: %d MB after two rounds, %d MB after all", first>>20, last>>20)
	}
	s.report()
}

func heapInUse() uint64 {
	goruntime.GC()
	goruntime.GC() // what finalizers and weak pointers held goes with the second
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// storm is one run. Its methods may be called by any goroutine, unless said.
type storm struct {
	loop.NoNotices
	t       *testing.T
	h       *loop.Host
	files   []*stormFile // in the order of the scripts
	hand    *hand
	store   *session.Store // nil: logs are kept in memory
	rage    atomic.Bool    // the sources run
	records atomic.Int64   // written, by all agents
	calm    chan struct{}
	sources sync.WaitGroup

	mu     sync.Mutex // guards all below
	rng    *rand.Rand
	faults []string
	counts map[string]int
	ledger
}

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{t: t, rng: rand.New(rand.NewPCG(seed, 0)), counts: map[string]int{}, ledger: newLedger()}
	s.hand = &hand{s}
	s.files = s.readScripts()
	var err error
	if seed%2 == 1 {
		if s.store, err = session.OpenStore(t.TempDir(), session.Options{Validator: loop.NewValidator, NoSync: true}); err != nil {
			t.Fatal(err)
		}
	}
	s.h, err = loop.New(loop.Config{
		Store:     s.store,
		Engines:   []runtime.Engine{js.Engine(), lua.Engine()},
		Providers: []model.Provider{&stormModel{s}},
		Tools: []tool.Tool{&body{s: s, name: "echo"}, &body{s: s, name: "par", safe: true},
			&body{s: s, name: "timed", safe: true, timeout: 10 * time.Millisecond}},
		Approve:  s.approve,
		Notices:  s,
		Retry:    func(string) *loop.RetryPolicy { return &stormRetry },
		Sections: []loop.PromptSection{{Name: "storm", Text: "A storm."}},
		Members:  []*runtime.Member{{Name: "storm", Get: func(runtime.Object) (runtime.Value, error) { return s.hand, nil }}, modules.Shell()},
		Limits:   runtime.Limits{Sync: 120, Wall: 1500, Grace: 60},
		Caps:     loop.Caps{ScriptTurns: 3, Continuations: 3},
		Parallel: 3,
		Thread: runtime.ThreadOptions{
			Debug:   seed%5 == 0, // it costs more than all the rest
			OnPanic: func(p *runtime.PanicError) { s.fault("panic: %v\n%s", p.Value, p.Stack) },
			OnStuck: func(who string) { s.stalled("stuck in " + who) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.watch()
	return s
}

var stormRetry = loop.RetryPolicy{MaxRetries: 1, Codes: []string{model.CodeServer}, BaseMs: 1, MaxMs: 5}

// round storms for a while, waits until everything is at rest, and checks.
func (s *storm) round(d time.Duration) {
	s.calm = make(chan struct{})
	s.rage.Store(true)
	s.do(func() {
		for !s.reload(len(s.files), false) {
		}
	})
	for range stressAgents {
		s.newAgent()
	}
	s.start()
	time.Sleep(d)
	s.rage.Store(false)
	close(s.calm)
	s.waitFor("the sources to end", s.sources.Wait)
	s.settle()
	var all []loop.Agent
	s.do(func() { all = s.h.Agents() })
	for _, a := range all {
		s.retire(a)
	}
	s.endRound()
}

// settle waits until every agent is idle at one moment.
func (s *storm) settle() {
	s.waitFor("all agents to be idle", func() {
		for {
			busy := 0
			s.do(func() {
				for _, a := range s.h.Agents() {
					if err := a.WhenIdle(context.Background()); err != nil {
						s.fault("whenIdle outside of everything: %v", err)
					}
				}
				for _, a := range s.h.Agents() {
					if a.Status() != loop.StatusIdle {
						busy++
					}
				}
			})
			if busy == 0 {
				return
			}
		}
	})
}

// waitFor runs fn, which must end: as long as records are written, somewhere, it may
// just be slow, but not for ever.
func (s *storm) waitFor(what string, fn func()) {
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	tick := time.NewTicker(stressStall)
	defer tick.Stop()
	for seen, n := s.records.Load(), 1; ; n++ {
		select {
		case <-done:
			return
		case <-tick.C:
			now := s.records.Load()
			if now == seen || n == 5 {
				s.stalled("waited for " + what)
			}
			seen = now
		}
	}
}

// stalled ends the test with all that can be known. The thread may be held for ever, so
// nothing that needs it is asked.
func (s *storm) stalled(what string) {
	var b strings.Builder
	fmt.Fprintf(&b, "stalled: %s\n\n", what)
	s.mu.Lock()
	for _, f := range s.faults {
		fmt.Fprintln(&b, f)
	}
	for id, a := range s.agents {
		recs := a.Session().Records()
		fmt.Fprintf(&b, "\n%s:\n%s", id, tail(recs, 30))
	}
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	panic(b.String())
}

func (s *storm) do(fn func()) {
	if err := s.h.Do(context.Background(), fn); err != nil {
		s.fault("Do: %v", err)
	}
}

// fault notes what must not be.
func (s *storm) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faultLocked(format, args...)
}

func (s *storm) faultLocked(format string, args ...any) {
	const most = 30
	if len(s.faults) < most {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
	s.counts["FAULTS"]++
}

func (s *storm) count(what string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what] += n
}

// dice gives a number below n. With the same seed the same numbers come, though not to
// the same callers.
func (s *storm) dice(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.diceLocked(n)
}

func (s *storm) diceLocked(n int) int { return s.rng.IntN(max(n, 1)) }

func (s *storm) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		s.t.Error(f)
	}
	var lines []string
	for k, n := range s.counts {
		lines = append(lines, fmt.Sprintf("%7d %s", n, k))
	}
	slices.Sort(lines)
	s.t.Logf("what happened:\n%s", strings.Join(lines, "\n"))
}
