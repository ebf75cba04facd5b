package runtime_test

import (
	"context"
	"errors"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

const chaosTime = time.Second

// chaos is everything at once; what it guards is touched without a lock, so that the
// race detector sees two owners at a time.
type chaos struct {
	th    *runtime.Thread
	owned int // touched on the thread only
	posts map[int]int
	mu    sync.Mutex // guards r
	r     *rand.Rand
}

func (c *chaos) roll(n int) int { c.mu.Lock(); defer c.mu.Unlock(); return c.r.IntN(n) }

// step does something on the thread, at most so deep.
func (c *chaos) step(ctx context.Context, depth int) {
	c.owned++
	if depth == 0 {
		return
	}
	in := func() { c.step(ctx, depth-1) }
	switch c.roll(14) {
	case 0:
		_ = c.th.Away(func() {
			if c.roll(8) == 0 {
				panic("away")
			}
			goruntime.Gosched()
		})
	case 1:
		_ = c.th.Sleep(time.Duration(c.roll(200))*time.Microsecond, ctx)
	case 2, 3, 4:
		c.th.Start(func() {
			in()
			_ = c.th.Sleep(time.Duration(c.roll(100))*time.Microsecond, ctx)
			in()
		})
	case 5:
		c.th.Start(in)
	case 6:
		c.th.Atomic(in)
	case 7:
		c.th.Go(ctx, in)
	case 8:
		c.th.Post(in)
	case 9:
		e := &runtime.Entry{VM: &machine{}, NoWait: c.roll(2) == 0, Meter: &runtime.Meter{Budget: time.Millisecond, Interrupt: func() {}}}
		c.th.Enter(e)
		defer c.th.Exit(e, func() {})
		in()
	case 10:
		h := runtime.NewHook(ctx, nil, time.Duration(c.roll(300)+1)*time.Microsecond)
		defer h.End()
		defer c.th.SetHook(c.th.SetHook(h))
		_ = c.th.Wait(nil)
		in()
	case 11:
		if c.roll(10) == 0 {
			panic("step")
		}
	case 12:
		if c.roll(20) == 0 {
			goruntime.Goexit()
		}
	default:
		in()
	}
	c.owned++
}

func TestChaosOfChains(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	panicked := 0
	c := &chaos{posts: map[int]int{}, r: rand.New(rand.NewPCG(seed, 0))}
	c.th = newThread(t, runtime.ThreadOptions{OnPanic: func(*runtime.PanicError) { panicked++ }})
	ctx, stop := context.WithCancel(context.Background())
	end := time.Now().Add(chaosTime)
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				// A goroutine of its own, since a posted function may end the one it runs on.
				onItsOwn(func() {
					c.th.Post(func() {
						if c.posts[g] > n {
							t.Errorf("post %d of %d ran after a later one", n, g)
						}
						c.posts[g] = n
					})
				})
				onItsOwn(func() {
					ctx, cancel := context.WithTimeout(ctx, time.Duration(c.roll(1000))*time.Microsecond)
					defer cancel()
					err := c.th.Do(ctx, func() {
						if c.posts[g] != n {
							t.Errorf("a Do overtook post %d of %d", n, g)
						}
						c.step(ctx, 6)
					})
					var p *runtime.PanicError
					if err != nil && !errors.As(err, &p) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Do: %v", err)
					}
				})
			}
		})
	}
	wg.Wait()
	stop()
	mustFree(t, c.th)
	do(t, c.th, func() {
		t.Logf("%d steps, %d panics", c.owned, panicked)
		if c.owned < 100 || panicked == 0 {
			t.Errorf("%d steps, %d panics: nothing happened", c.owned, panicked)
		}
	})
}

// Agents, cancels, reloads and scripts of both kinds that wait, fail, overrun and nest.
func TestChaosOfScripts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := runtimetest.NewHost(t, func(c *runtime.HostConfig) { c.Limits = runtime.Limits{Sync: 3, Wall: 30, Grace: 2} })
	h.Seen.Tolerant = true
	r := rand.New(rand.NewPCG(seed, 1)) // used on the thread
	ctx, stop := context.WithCancel(context.Background())

	var listener runtimetest.Function
	listener = func(c *runtimetest.Call) (runtime.Value, error) {
		switch r.IntN(12) {
		case 0:
			return nil, errBoom
		case 1:
			return nil, nil
		case 2:
			return map[string]any{"text": "answer"}, nil
		case 3:
			if r.IntN(10) == 0 {
				c.Compute(time.Hour)
			}
		case 4:
			return c.Wait(nil)
		case 5, 6:
			v, err := c.Do("sleep", r.Float64())
			return c.Await(v, err, func(c *runtimetest.Call, _ runtime.Value, err error) (runtime.Value, error) {
				notice(h, runtime.Target{})
				return nil, err
			})
		case 7:
			_, _ = c.Do("spawn", c.Func(listener))
		case 8:
			_, _ = c.Do("after", r.Float64(), c.Func(listener))
		case 9:
			if off, err := c.On("toy/notice", runtimetest.Opts{"once": true}, says(h, "x")); err == nil && r.IntN(2) == 0 {
				_ = c.Undo(off)
			}
		case 10:
			panic("a binding's fault")
		}
		if len(c.Args) < 2 {
			return nil, nil
		}
		v, err := c.Next()
		return c.Await(v, err, func(_ *runtimetest.Call, v runtime.Value, err error) (runtime.Value, error) { return v, err })
	}
	script := func(id string) *runtime.Instance {
		kind := kinds[r.IntN(2)]
		return h.Script(id, kind, func(c *runtimetest.Call) {
			c.Fragile = r.IntN(2) == 0
			for _, e := range h.Catalogue().Events() {
				c.MustOn(e.Name, nil, listener)
			}
			_, _ = c.Do("effect", c.Func(func(c *runtimetest.Call) (runtime.Value, error) { return c.Func(listener), nil }))
		})
	}
	h.Run(func() { h.Use(script("project/a.toy"), script("project/b.toy")) })

	end := time.Now().Add(chaosTime)
	var wg sync.WaitGroup
	var turns int
	for range 6 {
		wg.Go(func() {
			for time.Now().Before(end) {
				ctx, cancel := context.WithCancel(ctx)
				h.Run(func() {
					g := h.Current().Hold()
					defer g.Release()
					tt := runtime.Target{Gen: g, Ctx: ctx, Scope: &turns}
					if r.IntN(3) == 0 {
						time.AfterFunc(time.Duration(r.IntN(3000))*time.Microsecond, cancel)
					}
					_ = check(h, tt)
					before := context.Cause(ctx)
					_, err := runtimetest.Rewrite.Run(h.Host, tt, text{}, func(x text) (text, error) {
						return x, h.Thread.Sleep(time.Duration(r.IntN(300))*time.Microsecond, ctx)
					})
					if before != nil && err != before {
						t.Errorf("cancelled, but ended with %v", err)
					}
					notice(h, tt)
					_ = runtimetest.Flush.Run(h.Host, tt, runtimetest.NoticePayload{})
					turns++
				})
				cancel()
			}
		})
	}
	wg.Go(func() {
		for reloads := 0; time.Now().Before(end); reloads++ {
			h.Run(func() {
				old := h.Current().Instances
				if r.IntN(2) == 0 {
					h.Use(script("project/a.toy"), old[1])
				} else {
					h.Use(old[0], script("project/b.toy"))
				}
				_ = h.Thread.Sleep(5 * time.Millisecond)
			})
		}
	})
	wg.Wait()
	stop()
	h.Run(func() {
		t.Logf("%d turns, %d VMs, %d failures, %d quarantines, %d rebuilds", turns, h.Toy.Made(), len(h.Seen.Failures), len(h.Seen.Quarantines), len(h.Seen.Rebuilds))
		if turns < 20 {
			t.Errorf("only %d turns", turns)
		}
	})
}
