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

func TestRule04_StartThatEndsReturnsAtItsEnd(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	var s steps
	do(t, th, func() {
		s.add("before")
		th.Start(func() { th.Assert(); s.add("started") })
		th.Assert()
		s.add("after")
	})
	s.want(t, "before started after")
}

func TestRule04_StartThatLeavesGivesControlBackFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		var s steps
		do(t, th, func() {
			th.Start(func() {
				s.add("started")
				for range 2 {
					if err := th.Sleep(time.Second); err != nil {
						t.Error(err)
					}
					s.add("slept")
				}
			})
			s.add("back")
			time.Sleep(5 * time.Second) // the caller keeps the thread: the other cannot come back
			s.add("end")
		})
		time.Sleep(5 * time.Second)
		s.want(t, "started back end slept slept")
	})
}

func TestRule04_StartedChainMayWaitWhereItsCallerMayNot(t *testing.T) {
	th := newThread(t, runtime.ThreadOptions{})
	do(t, th, func() {
		js := &runtime.Entry{NoWait: true}
		th.Enter(js)
		th.Start(func() {
			if !th.CanWait() {
				t.Error("a started chain cannot wait")
			}
			if err := th.Away(func() {}); err != nil {
				t.Error(err)
			}
		})
		if th.CanWait() {
			t.Error("the caller can wait after Start")
		}
		if err := th.Wait(nil); !errors.Is(err, runtime.ErrCannotWait) {
			t.Errorf("Wait: %v", err)
		}
		th.Exit(js, nil)
	})
}

func TestRule04_NestedStartsHandBackToWhoStartedThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		var s steps
		do(t, th, func() {
			th.Start(func() {
				s.add("a")
				th.Start(func() {
					s.add("b")
					th.Start(func() { s.add("c") })
					s.add("b2")
					_ = th.Sleep(time.Second)
					s.add("b3")
					th.Start(func() { s.add("d"); _ = th.Sleep(time.Second); s.add("d2") })
					s.add("b4")
				})
				s.add("a2")
				_ = th.Sleep(3 * time.Second)
				s.add("a3")
			})
			s.add("end")
		})
		time.Sleep(5 * time.Second)
		s.want(t, "a b c b2 a2 end b3 d b4 d2 a3")
	})
}

func TestRule04_FramesAreSavedTopFirstAndRestoredBottomFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		var s steps
		frame := func(name string) *runtime.Entry {
			return &runtime.Entry{Save: func() { s.add("-%s", name) }, Restore: func() { s.add("+%s", name) }}
		}
		do(t, th, func() {
			x, y := frame("x"), frame("y")
			th.Enter(x)
			th.Enter(y)
			_ = th.Away(func() { s.add("away") })
			th.Start(func() {
				z := frame("z")
				th.Enter(z)
				s.add("started")
				_ = th.Sleep(time.Second)
				th.Exit(z, nil)
			})
			s.add("back")
			th.Exit(y, nil)
			th.Exit(x, nil)
		})
		time.Sleep(2 * time.Second)
		s.want(t, "-y -x away +x +y -y -x started -z +x +y back +z")
	})
}

func TestRule04_TheHookTravelsIntoStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t, runtime.ThreadOptions{})
		do(t, th, func() {
			h := runtime.NewHook(context.Background(), nil, 0)
			defer h.End()
			old := th.SetHook(h)
			th.Start(func() {
				if th.CurrentHook() != h {
					t.Error("the hook did not come along")
				}
				_ = th.Sleep(time.Second)
				if th.CurrentHook() != h {
					t.Error("the hook was lost while away")
				}
				th.SetHook(nil)
			})
			if th.CurrentHook() != h {
				t.Error("the started chain changed its caller's hook")
			}
			th.SetHook(old)
			_ = th.Sleep(2 * time.Second)
		})
	})
}

// deep nests emits from listeners until one is refused, and returns how deep it was.
func deep(h *runtimetest.Host, between func(fn func())) int {
	depth := 0
	var fire func()
	off := runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error {
		depth++
		between(fire)
		return nil
	})
	defer off()
	fire = func() { runtimetest.Notice.Fire(h.Host, runtime.Target{}, runtimetest.NoticePayload{}) }
	fire()
	return depth
}

func TestRule12_DispatchesNestThirtyTwoDeep(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		if n := deep(h, func(fn func()) { fn() }); n != 32 {
			t.Errorf("nested %d deep", n)
		}
		fails := h.Seen.Take()
		if len(fails) != 1 || fails[0] != "toy/notice: "+runtime.ErrTooDeep.Error() {
			t.Errorf("reported %q, want one error", fails)
		}
	})
}

func TestRule12_DepthIsCarriedThroughStartWhileAttached(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		if n := deep(h, func(fn func()) { h.Thread.Start(fn) }); n != 32 {
			t.Errorf("nested %d deep", n)
		}
		if n := len(h.Seen.Take()); n != 1 {
			t.Errorf("%d errors", n)
		}
	})
}

func TestRule12_AChainThatHasLeftItsCallerNestsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		hops := 0
		var off func()
		h.Run(func() {
			var fire func()
			off = runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error {
				if hops++; hops < 100 {
					h.Thread.Start(func() {
						_ = h.Thread.Sleep(time.Millisecond)
						fire()
					})
				}
				return nil
			})
			fire = func() { runtimetest.Notice.Fire(h.Host, runtime.Target{}, runtimetest.NoticePayload{}) }
			fire()
		})
		time.Sleep(time.Second)
		h.Run(off)
		if hops != 100 {
			t.Errorf("ended after %d", hops)
		}
	})
}

func TestRule12_WaterfallAndSerialCountTooAndUnwind(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		var errs []error
		off := runtimetest.Check.On(h.Host, func(p runtimetest.CheckPayload) error {
			_, err := runtimetest.Rewrite.Run(h.Host, runtime.Target{}, runtimetest.Text{}, func(x runtimetest.Text) (runtimetest.Text, error) {
				return x, runtimetest.Check.Run(h.Host, runtime.Target{}, p)
			})
			errs = append(errs, err)
			return err
		})
		offRewrite := runtimetest.Rewrite.On(h.Host, func(x runtimetest.Text, next func(runtimetest.Text) (runtimetest.Text, error)) (runtimetest.Text, error) {
			return next(x)
		})
		for range 2 { // the second time everything has been unwound
			errs = nil
			if err := runtimetest.Check.Run(h.Host, runtime.Target{}, runtimetest.CheckPayload{}); !errors.Is(err, runtime.ErrTooDeep) {
				t.Errorf("Run: %v", err)
			}
			if len(errs) != 16 {
				t.Errorf("%d serial dispatches nested", len(errs))
			}
		}
		off()
		offRewrite()
	})
}
