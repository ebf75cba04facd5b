package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"dshsh/runtime"
)

func TestRule14_PanicsReleaseTheThread(t *testing.T) {
	boom := errors.New("boom")
	var told []*runtime.PanicError
	th := newThread(t, runtime.ThreadOptions{OnPanic: func(p *runtime.PanicError) {
		told = append(told, p)
		panic("the handler panics too")
	}})
	err := th.Do(t.Context(), func() { panic(boom) })
	var p *runtime.PanicError
	if !errors.As(err, &p) || !errors.Is(err, boom) || !strings.Contains(string(p.Stack), "panic_test.go") {
		t.Errorf("Do: %v", err)
	}
	mustFree(t, th)
	th.Post(func() { panic(boom) })
	mustFree(t, th)
	done := make(chan struct{})
	th.Go(context.Background(), func() { defer close(done); panic(boom) })
	<-done
	mustFree(t, th)
	do(t, th, func() {
		th.Start(func() { panic(boom) })
		th.Assert()
		th.Start(func() { _ = th.Away(func() { panic(boom) }) })
		th.Assert()
	})
	mustFree(t, th)
	do(t, th, func() {}) // the second Start's panic has been told by now
	for deadline := time.Now().Add(10 * time.Second); ; {
		n := 0
		do(t, th, func() { n = len(told) })
		if n == 4 || time.Now().After(deadline) {
			if n != 4 {
				t.Errorf("told of %d panics, want 4", n)
			}
			return
		}
	}
}

// onItsOwn runs fn on a goroutine and waits for its end, however it ends.
func onItsOwn(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

func TestRule14_GoexitReleasesTheThread(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	exit := func() { goruntime.Goexit() }
	onItsOwn(func() { _ = th.Do(context.Background(), exit) })
	mustFree(t, th)
	th.Go(context.Background(), exit)
	mustFree(t, th)
	onItsOwn(func() { _ = th.Do(context.Background(), func() { _ = th.Away(exit) }) })
	mustFree(t, th)
	do(t, th, func() {
		th.Start(exit)
		th.Assert()
		th.Start(func() { _ = th.Away(exit) })
		th.Assert()
	})
	mustFree(t, th)
	th.Post(exit)
	mustFree(t, th)
	for _, where := range []string{"end of Do", "Away"} {
		later := false
		onItsOwn(func() {
			_ = th.Do(context.Background(), func() {
				th.Post(exit)
				th.Post(func() { later = true })
				if where == "Away" {
					_ = th.Away(func() {})
				}
			})
		})
		mustFree(t, th)
		do(t, th, func() {
			if !later {
				t.Errorf("%s: the posts after one that ended its goroutine were lost", where)
			}
		})
	}
}
