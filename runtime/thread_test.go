package runtime_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
)

// newThread is a debug thread that must be free, and without goroutines, at the end.
func newThread(t *testing.T, o runtime.ThreadOptions) *runtime.Thread {
	t.Helper()
	o.Debug = true
	if o.OnPanic == nil {
		o.OnPanic = func(p *runtime.PanicError) { t.Errorf("unexpected panic: %v\n%s", p, p.Stack) }
	}
	th := runtime.NewThread(o)
	t.Cleanup(func() {
		mustFree(t, th)
		th.Close()
	})
	return th
}

// mustFree fails the test when somebody still owns the thread.
func mustFree(t *testing.T, th *runtime.Thread) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := th.Do(ctx, func() {}); err != nil {
		t.Errorf("the thread was not given up: %v", err)
	}
}

// do runs fn on the thread and fails the test when it cannot.
func do(t *testing.T, th *runtime.Thread, fn func()) {
	t.Helper()
	if err := th.Do(t.Context(), fn); err != nil {
		t.Fatalf("Do: %v", err)
	}
}

// steps records what happened, in order; safe for use by several goroutines.
type steps struct {
	mu  sync.Mutex
	all []string
}

func (s *steps) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, fmt.Sprintf(format, args...))
}

func (s *steps) want(t *testing.T, want string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.all, " "); got != want {
		t.Errorf("happened: %s\n    want: %s", got, want)
	}
}

func TestRule01_DoIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		var s steps
		hold := make(chan struct{})
		for i := range 20 {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // fake time: the order of arrival
				_ = th.Do(context.Background(), func() {
					s.add("%d", i)
					if i == 0 {
						<-hold // not Away: the thread stays taken while the others queue
					}
				})
			}()
		}
		time.Sleep(time.Second)
		close(hold)
		synctest.Wait()
		s.want(t, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19")
	})
}

func TestRule01_DoContextBoundsTheWaitOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		cause := errors.New("no patience")
		do(t, th, func() {
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			errc := make(chan error)
			go func() { errc <- th.Do(ctx, func() { t.Error("ran after its context had ended") }) }()
			if err := <-errc; !errors.Is(err, cause) {
				t.Errorf("Do: %v, want the cause", err)
			}
		})
		ctx, cancel := context.WithCancel(context.Background())
		ran := false
		if err := th.Do(ctx, func() { cancel(); ran = true }); err != nil || !ran {
			t.Errorf("a context that ends while fn runs: ran %v, %v", ran, err)
		}
	})
}

func TestRule01_DoFromOnTheThreadIsDetectedInDebug(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	inner := func() (v any) {
		defer func() { v = recover() }()
		_ = th.Do(context.Background(), func() {})
		return nil
	}
	do(t, th, func() {
		if inner() == nil {
			t.Error("Do inside Do did not panic")
		}
		th.Start(func() {
			if inner() == nil {
				t.Error("Do inside Start did not panic")
			}
			if err := th.Away(func() {
				if v := inner(); v != nil {
					t.Errorf("Do while away from a started chain: %v", v)
				}
			}); err != nil {
				t.Error(err)
			}
		})
		if inner() == nil {
			t.Error("Do after Start did not panic")
		}
	})
}

func TestRule01_AssertPanicsOffTheThread(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	defer func() {
		if recover() == nil {
			t.Error("Away off the thread did not panic")
		}
	}()
	_ = th.Away(func() {})
}

func TestRule01_HereTellsWhoIsOnTheThread(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	var deep func(n int, fn func())
	deep = func(n int, fn func()) {
		if n == 0 {
			fn()
			return
		}
		deep(n-1, fn)
	}
	check := func(where string, want bool) {
		t.Helper()
		for _, n := range []int{0, 126, 127, 128, 129, 500} { // around the size of the buffer it reads the stack with
			deep(n, func() {
				if got := runtime.Here(); got != want {
					t.Errorf("%s, %d calls deep: %v, want %v", where, n, got, want)
				}
			})
		}
	}
	check("outside", false)
	posted := make(chan struct{})
	do(t, th, func() {
		check("Do", true)
		if err := th.Away(func() { check("Away", false) }); err != nil {
			t.Error(err)
		}
		th.Start(func() {
			check("Start", true)
			_ = th.Away(func() { check("Away in Start", false) })
			check("Start, later", true)
		})
		th.Post(func() { check("Post", true); close(posted) })
	})
	<-posted
}

func TestRule01_PostKeepsOrderAndNeverBlocks(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	var got []int
	do(t, th, func() {
		for i := range 1000 {
			th.Post(func() { got = append(got, i) })
		}
		if len(got) != 0 {
			t.Error("a posted function ran inside the caller")
		}
	})
	do(t, th, func() {
		if len(got) != 1000 || !slices.IsSorted(got) {
			t.Errorf("ran %d posts, sorted %v", len(got), slices.IsSorted(got))
		}
	})
}

func TestRule01_PostRunsBeforeAnyLaterDo(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				ran := false
				th.Post(func() { ran = true })
				do(t, th, func() {
					if !ran {
						t.Error("a Do overtook a function posted before it")
					}
				})
			}
		})
	}
	wg.Wait()
}

func TestRule01_PostRunsBeforeAChainThatIsAwayComesBack(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	for range 1000 {
		ran := false
		do(t, th, func() {
			if err := th.Away(func() { th.Post(func() { ran = true }) }); err != nil {
				t.Error(err)
			}
			if !ran {
				t.Error("the waiter came back before what was posted while it was away")
			}
		})
	}
}

func TestRule01_PostedFunctionsMayNotWaitButMayStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		var s steps
		th.Post(func() {
			if th.CanWait() {
				t.Error("a posted function may wait")
			}
			if err := th.Sleep(time.Second); !errors.Is(err, runtime.ErrCannotWait) {
				t.Errorf("Sleep in a post: %v", err)
			}
			th.Start(func() {
				s.add("started")
				if err := th.Sleep(time.Second); err != nil {
					t.Error(err)
				}
				s.add("slept")
			})
			s.add("back")
		})
		th.Post(func() { s.add("next") })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s.want(t, "started back next slept")
	})
}

func TestRule01_GoEntersAfterTheCallerHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		var s steps
		do(t, th, func() {
			th.Go(context.Background(), func() { s.add("entered") })
			synctest.Wait()
			s.add("caller")
		})
		synctest.Wait()
		s.want(t, "caller entered")
	})
}

func TestRule01_CloseRefusesLaterDoAndToleratesLatePosts(t *testing.T) {
	th := runtime.NewThread(runtime.ThreadOptions{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					th.Post(func() {})
					th.Go(context.Background(), func() {})
				}
			}
		})
	}
	th.Close()
	if err := th.Do(context.Background(), func() { t.Error("ran") }); !errors.Is(err, runtime.ErrThreadClosed) {
		t.Errorf("Do after Close: %v", err)
	}
	th.Close()
	close(stop)
	wg.Wait()
}

func TestRule02_AwayLeavesTheThreadToOthers(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	do(t, th, func() {
		ran := false
		err := th.Away(func() { do(t, th, func() { ran = true }) })
		if err != nil || !ran {
			t.Errorf("ran %v, %v", ran, err)
		}
	})
}

func TestRule02_AwayComesBackWhenItsFunctionPanics(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	do(t, th, func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v", v)
			}
			th.Assert()
		}()
		_ = th.Away(func() { panic("boom") })
	})
}

func TestRule02_WaitAsksItsContextsBeforeLeaving(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	cause := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	do(t, th, func() {
		other := false
		th.Go(context.Background(), func() { other = true })
		closed := make(chan struct{})
		close(closed)
		for name, err := range map[string]error{
			"Wait":               th.Wait(nil, ctx),
			"Wait, channel done": th.Wait(closed, ctx),
			"Sleep":              th.Sleep(0, nil, ctx),
		} {
			if !errors.Is(err, cause) {
				t.Errorf("%s: %v, want the cause", name, err)
			}
		}
		if err := th.Wait(closed); err != nil {
			t.Errorf("Wait on what is done: %v", err)
		}
		if other {
			t.Error("another chain ran although nothing had to be waited for")
		}
	})
}

func TestRule02_WaitReturnsTheCauseOfWhicheverContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		for n := 1; n <= 6; n++ {
			for i := range n {
				ctxs := make([]context.Context, n)
				var cancels []context.CancelCauseFunc
				for j := range ctxs {
					ctx, cancel := context.WithCancelCause(context.Background())
					ctxs[j], cancels = ctx, append(cancels, cancel)
				}
				cause := fmt.Errorf("%d of %d", i, n)
				time.AfterFunc(time.Second, func() { cancels[i](cause) })
				do(t, th, func() {
					if err := th.Wait(nil, ctxs...); err != cause {
						t.Errorf("Wait: %v, want %v", err, cause)
					}
				})
				for _, c := range cancels {
					c(nil)
				}
			}
		}
	})
}

func TestRule02_WaitEndsWithTheCurrentHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		given := errors.New("given up")
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Second, func() { cancel(given) })
		do(t, th, func() {
			h := runtime.NewHook(ctx, nil, 0)
			defer h.End()
			defer th.SetHook(th.SetHook(h))
			spare := make([]context.Context, 2, 3)
			spare[0], spare[1] = t.Context(), t.Context()
			if err := th.Wait(nil, spare...); err != given {
				t.Errorf("Wait: %v", err)
			}
			if spare[:3][2] != nil {
				t.Error("Wait wrote into the caller's slice")
			}
			if err := th.Sleep(time.Hour, spare...); err != given {
				t.Errorf("Sleep: %v", err)
			}
		})
	})
}

func TestRule03_CannotWaitIsSaidBeforeAnythingIsStarted(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	do(t, th, func() {
		before := goruntime.NumGoroutine()
		th.Atomic(func() {
			if th.CanWait() {
				t.Error("may wait inside Atomic")
			}
			err := th.Away(func() { t.Error("Away ran its function") })
			if !errors.Is(err, runtime.ErrCannotWait) {
				t.Errorf("Away: %v", err)
			}
			if err := th.Wait(nil); !errors.Is(err, runtime.ErrCannotWait) {
				t.Errorf("Wait: %v", err)
			}
			if err := th.Sleep(time.Hour); !errors.Is(err, runtime.ErrCannotWait) {
				t.Errorf("Sleep: %v", err)
			}
		})
		if !th.CanWait() {
			t.Error("may not wait after Atomic")
		}
		if n := goruntime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines began", n-before)
		}
	})
}

func TestRule03_NoWaitBelowJSFrame(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	do(t, th, func() {
		js, lua := &runtime.Entry{NoWait: true}, &runtime.Entry{}
		th.Enter(lua)
		if !th.CanWait() {
			t.Error("may not wait in a Lua frame")
		}
		th.Enter(js)
		inner := &runtime.Entry{}
		th.Enter(inner)
		if th.CanWait() {
			t.Error("may wait in a Lua frame above a JavaScript frame")
		}
		th.Exit(inner, nil)
		th.Exit(js, nil)
		if !th.CanWait() {
			t.Error("may not wait after the JavaScript frame has returned")
		}
		th.Exit(lua, nil)
	})
}
