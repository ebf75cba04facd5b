package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

func TestRule13_AnActivityKeepsTheGenerationItBeganWith(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		shared := h.Script("project/a.toy", runtimetest.JS, listeners(h, "shared"))
		old := h.Script("project/b.toy", runtimetest.JS, listeners(h, "old"))
		first := h.Use(shared, old)
		turn := first.Hold()
		second := h.Use(shared, h.Script("project/b.toy", runtimetest.JS, listeners(h, "new")))
		if first.N != 1 || second.N != 2 || h.Current() != second || !second.Contains(shared) || second.Contains(old) {
			t.Errorf("generations %d and %d", first.N, second.N)
		}
		notice(h, runtime.Target{Gen: turn})
		h.Trace.Want("shared old")
		notice(h, runtime.Target{})
		h.Trace.Want("shared new")
		third := h.Use(shared)
		if open := len(h.Toy.Open()); open != 2 {
			t.Errorf("%d scripts alive, want the shared one and the one that the turn holds", open)
		}
		again := turn.Hold()
		turn.Release()
		if old.Context().Err() != nil {
			t.Error("disposed while it was still held")
		}
		again.Release()
		if !errors.Is(context.Cause(old.Context()), runtime.ErrUnloaded) {
			t.Errorf("not disposed: %v", context.Cause(old.Context()))
		}
		if shared.Context().Err() != nil || !third.Contains(shared) {
			t.Error("the shared script is gone")
		}
	})
}

func TestOffersAreThoseOfTheGenerationInOrder(t *testing.T) {
	h := runtimetest.NewHost(t)
	a := h.Agent("a")
	offer := func(names ...string) func(*runtimetest.Call) {
		return func(c *runtimetest.Call) {
			for _, n := range names {
				c.Instance().Register("command", n, n+"@"+c.Instance().File, nil, c.Where())
			}
		}
	}
	h.Run(func() {
		x := h.Script("project/x.toy", runtimetest.JS, offer("one", "two"))
		y := h.Script("project/y.toy", runtimetest.JS, offer("two"))
		g := h.Use(x, y)
		mine := y.Register("command", "three", "mine", a, runtime.Position{})
		y.Register("tool", "four", nil, nil, runtime.Position{})
		list := func(owner any) string {
			var all []string
			for _, r := range g.Offers("command", owner) {
				all = append(all, r.Name)
			}
			return strings.Join(all, " ")
		}
		if got := list(nil); got != "one two two" {
			t.Errorf("for all: %s", got)
		}
		if got := list(a); got != "one two two three" {
			t.Errorf("for a: %s", got)
		}
		if r := g.Find("command", "two", nil); r == nil || r.Spec != "two@y.toy" || r.Instance != y {
			t.Errorf("the last one of a name does not win: %+v", r)
		}
		if g.Find("command", "three", nil) != nil || g.Find("command", "three", a) != mine {
			t.Error("scope of an offer")
		}
		mine.Remove()
		mine.Remove()
		y.Register("command", "three", nil, a, runtime.Position{})
		h.DropScope(a)
		if got := list(a); got != "one two two" {
			t.Errorf("after the owner has gone: %s", got)
		}
	})
}

func TestWhileLoadingOnlyRegisteringAndReadingWork(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				a := h.Agent("a")
				nothing := func(*runtimetest.Call) (runtime.Value, error) { return nil, nil }
				h.Run(func() {
					in := h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						for name, try := range map[string]func() (runtime.Value, error){
							"ctx.sleep":      func() (runtime.Value, error) { return c.Do("sleep", 1.0) },
							"agent.whenIdle": func() (runtime.Value, error) { return c.Method(a, "whenIdle") },
						} {
							v, err := try()
							if p, ok := v.(*runtimetest.Promise); ok {
								p.Then(func(_ *runtimetest.Call, _ runtime.Value, err error) (runtime.Value, error) {
									if !errors.Is(err, runtime.ErrLoading) {
										t.Errorf("%s: %v", name, err)
									}
									return nil, nil
								})
							} else if err == nil || err.Error() != name+": not while loading" {
								t.Errorf("%s: %v", name, err)
							}
						}
						for name, args := range map[string][]runtime.Value{
							"on": {"toy/notice", c.Func(nothing)}, "log": {"x"}, "now": nil, "effect": {c.Func(nothing)},
							"after": {1.0, c.Func(nothing)}, "spawn": {c.Func(nothing)},
						} {
							if _, err := c.Do(name, args...); err != nil {
								t.Errorf("ctx.%s: %v", name, err)
							}
						}
						if id, err := c.Instance().Property(a.Class().Lookup("id"), a); id != "a" || err != nil {
							t.Errorf("agent.id: %v, %v", id, err)
						}
					})
					h.Discard(in)
				})
			})
		})
	}
}

func TestWhatIsBegunWhileLoadingWaitsForTheActivation(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				top := func(c *runtimetest.Call) {
					for _, s := range []string{"s1", "s2"} {
						_, _ = c.Do("spawn", c.Func(says(h, s)))
					}
					_, _ = c.Do("after", 20.0, c.Func(says(h, "t1")))
					_, _ = c.Do("after", 15.0, c.Func(says(h, "t2")))
					cancelled, _ := c.Do("after", 1.0, c.Func(says(h, "never")))
					if err := c.Undo(cancelled.(*runtime.GoFunc)); err != nil {
						t.Error(err)
					}
					for _, e := range []string{"e1", "e2"} {
						_, _ = c.Do("effect", c.Func(func(c *runtimetest.Call) (runtime.Value, error) {
							h.Trace.Add("%s", e)
							return c.Func(says(h, "-"+e)), nil
						}))
					}
				}
				h.Run(func() {
					h.Discard(h.Script("project/never.toy", kind, top))
				})
				time.Sleep(time.Second)
				h.Trace.Want("")
				h.Run(func() { h.Use(h.Script("project/a.toy", kind, top)) })
				time.Sleep(time.Second)
				h.Trace.Want("s1 s2 e1 e2 t2 t1")
				h.Run(func() { h.Use() })
				h.Trace.Want("-e2 -e1")
			})
		})
	}
}

func TestTimersDueTogetherFireInOrder(t *testing.T) {
	h := runtimetest.NewHost(t)
	done := make(chan struct{})
	var got []int
	h.Run(func() {
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			for i := range 200 {
				_, _ = c.Do("after", 0.0, c.Func(func(*runtimetest.Call) (runtime.Value, error) {
					if got = append(got, i); i == 199 {
						close(done)
					}
					return nil, nil
				}))
			}
		}))
	})
	<-done
	h.Run(func() {
		if len(got) != 200 || !slices.IsSorted(got) {
			t.Errorf("%d timers, in order: %v", len(got), slices.IsSorted(got))
		}
	})
}

func TestSpawnedFunctionsBeginInOrderAndOthersGetTheThreadBetweenThem(t *testing.T) {
	h := runtimetest.NewHost(t)
	const many = 200
	n := 0
	done := make(chan struct{})
	h.Run(func() {
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			for i := range many {
				_, _ = c.Do("spawn", c.Func(func(c *runtimetest.Call) (runtime.Value, error) {
					if n != i {
						t.Errorf("%d began as number %d", i, n)
					}
					if n++; n == many {
						close(done)
					}
					return nil, nil
				}))
			}
		}))
	})
	got := -1
	h.Run(func() { got = n })
	<-done
	if got == many {
		t.Error("a Do had to wait for all spawned functions")
	}
}

func TestRetirementEndsTimersAndSpawnedFunctions(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				var turn *runtime.Generation
				h.Run(func() {
					turn = h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						_, _ = c.Do("after", 1000.0, c.Func(says(h, "timer")))
						_, _ = c.Do("spawn", c.Func(func(c *runtimetest.Call) (runtime.Value, error) {
							v, err := c.Wait(nil)
							return c.Await(v, err, func(_ *runtimetest.Call, _ runtime.Value, err error) (runtime.Value, error) {
								h.Trace.Add("%v", err)
								return nil, err // not reported: it was told to end
							})
						}))
						_, _ = c.Do("effect", c.Func(func(c *runtimetest.Call) (runtime.Value, error) {
							return c.Func(says(h, "undone")), nil
						}))
						c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
							h.Trace.Add("heard")
							_, err := c.Do("spawn", c.Func(says(h, "spawned")))
							return nil, err
						})
					})).Hold()
				})
				time.Sleep(time.Millisecond)
				h.Run(func() { h.Use() })
				synctest.Wait()
				h.Trace.Want("script unloaded")
				time.Sleep(time.Minute)
				h.Run(func() { notice(h, runtime.Target{Gen: turn}) })
				synctest.Wait()
				h.Trace.Want("heard")
				h.Run(func() { turn.Release() })
				h.Trace.Want("undone")
			})
		})
	}
}

func TestDisposalRefusesEntriesThenUndoesThenCloses(t *testing.T) {
	h := runtimetest.NewHost(t)
	var in *runtime.Instance
	var fn runtime.Func
	done := make(chan struct{})
	h.Run(func() {
		in = h.Script("project/a.toy", runtimetest.Lua, func(c *runtimetest.Call) {
			fn = c.Func(says(h, "called"))
			c.Instance().Register("command", "x", nil, nil, c.Where())
			c.MustOn("toy/notice", nil, says(h, "heard"))
			undo := func(name string, err error) runtimetest.Function {
				return func(c *runtimetest.Call) (runtime.Value, error) {
					in := c.Instance()
					h.Trace.Add("%s:%v:%d:%d", name, context.Cause(in.Context()), len(in.Listeners()), len(h.Toy.Open()))
					if h.Thread.CurrentHook() != nil {
						t.Error("a disposer runs on somebody's behalf")
					}
					_, lerr := c.Do("log", "bye")
					notice(h, runtime.Target{}) // does not come back into the script
					return nil, errors.Join(err, lerr)
				}
			}
			for i, err := range []error{nil, errBoom, nil} {
				_, _ = c.Do("effect", c.Func(func(c *runtimetest.Call) (runtime.Value, error) {
					if i == 2 {
						close(done)
					}
					return c.Func(undo(string(rune('a'+i)), err)), nil
				}))
			}
		})
		h.Use(in)
	})
	<-done
	h.Run(func() {
		h.Use()
		h.Trace.Want("c:script unloaded:0:1 b:script unloaded:0:1 a:script unloaded:0:1")
		if got := h.Seen.Take(); len(got) != 1 || got[0] != "effect: a.toy: boom" {
			t.Errorf("reported %q", got)
		}
		if len(h.Seen.Lines) != 3 {
			t.Errorf("logged %q", h.Seen.Lines)
		}
		if _, err := in.Invoke(h.CtxClass().Lookup("log"), in.Ctx(nil), nil); !errors.Is(err, runtime.ErrUnloaded) {
			t.Errorf("a disposed script may log: %v", err)
		}
		if _, err := in.VM().Call(nil, fn); !errors.Is(err, runtime.ErrUnloaded) {
			t.Errorf("a disposed script can be called: %v", err)
		}
	})
}

func TestCloseDisposesInReverseOrder(t *testing.T) {
	h := runtime.NewHost(runtime.HostConfig{Events: runtimetest.Catalogue(), Engines: []runtime.Engine{recordsClose{}}})
	var closed []string
	load := func(name string) *runtime.Instance {
		in, err := h.Load(runtime.ScriptFile{ID: name, File: name, Program: closer{name, &closed}})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	_ = h.Do(t.Context(), func() {
		h.Activate([]*runtime.Instance{load("a"), load("b"), load("c")})
		load("unused")
	})
	h.Close()
	h.Close()
	if got := strings.Join(closed, " "); got != "c b a unused" {
		t.Errorf("closed %s", got)
	}
	if err := h.Do(t.Context(), func() {}); !errors.Is(err, runtime.ErrThreadClosed) {
		t.Errorf("Do after Close: %v", err)
	}
	if _, err := h.EngineFor("x.py"); err == nil || err.Error() != `x.py: no script engine for ".py" files (have .a .b)` {
		t.Errorf("EngineFor: %v", err)
	}
}

// closer is a program whose VMs do nothing but tell that they are closed.
type closer struct {
	name   string
	closed *[]string
}

func (c closer) NewVM(*runtime.Instance) (runtime.VM, error) { return closing{closer: c}, nil }

type closing struct {
	runtime.VM
	closer
}

func (closing) Load() error { return nil }
func (c closing) Close()    { *c.closed = append(*c.closed, c.name) }

type recordsClose struct{ runtime.Engine }

func (recordsClose) Extensions() []string { return []string{".b", ".a"} }

func TestAFailedLoadLeavesNothingBehind(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		for name, top := range map[string]func(*runtimetest.Call) error{
			"error": func(*runtimetest.Call) error { return errBoom },
			"panic": func(*runtimetest.Call) error { panic(errBoom) },
		} {
			in, err := h.Load("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) error {
				_, _ = c.Do("spawn", c.Func(says(h, "spawned")))
				_, _ = c.Do("effect", c.Func(says(h, "effect")))
				return top(c)
			})
			if in != nil || err == nil || !strings.Contains(err.Error(), "boom") {
				t.Errorf("%s: %v, %v", name, in, err)
			}
		}
		_, err := h.Host.Load(runtime.ScriptFile{ID: "project/p.toy", File: "p.toy", Program: panics{}})
		var p *runtime.PanicError
		if !errors.As(err, &p) {
			t.Errorf("an engine that panics: %v", err)
		}
		if open := h.Toy.Open(); len(open) > 0 {
			t.Errorf("alive: %v", open)
		}
	})
	h.Trace.Want("")
}

type panics struct{}

func (panics) NewVM(*runtime.Instance) (runtime.VM, error) { panic("no VM today") }

func TestAStandInTakesPartWithoutAVM(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		in := h.StandIn(runtime.ScriptFile{ID: "project/a.toy", File: "a.toy"}, errBoom)
		g := h.Use(in, h.Script("project/b.toy", runtimetest.JS, listeners(h, "b")))
		notice(h, runtime.Target{})
		h.Trace.Want("b")
		if f := g.Failed(); len(f) != 1 || f[0] != in || in.Failed() != errBoom {
			t.Errorf("Failed: %v", f)
		}
		h.Use()
		if in.Context().Err() == nil {
			t.Error("not disposed")
		}
		h.Discard(h.StandIn(runtime.ScriptFile{ID: "project/c.toy"}, errBoom))
	})
}

func TestAgentCtxIsOneObjectForEachOwner(t *testing.T) {
	h := runtimetest.NewHost(t)
	a, b := h.Agent("a"), h.Agent("b")
	h.Run(func() {
		in := h.Script("project/a.toy", runtimetest.JS, listeners(h))
		forA, forAll := in.Ctx(a), in.Ctx(nil)
		if forA != in.Ctx(a) || forAll != in.Ctx(nil) || in.Ctx(a) == in.Ctx(b) || in.Ctx(a).Scope() != a || in.Ctx(a).Instance() != in {
			t.Error("ctx")
		}
		h.Discard(in)
	})
}

func TestSpawnedFailuresAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.At(3)
				_, _ = c.Do("spawn", c.Func(fails))
				_, _ = c.Do("after", 1.0, c.Func(fails))
				_, _ = c.Do("effect", c.Func(fails))
				_, _ = c.Do("effect", c.Func(answers(h, "e", "no function")))
			})
			h.Use(in)
			in.Spawn("module", func(*runtime.Hook) error { panic(errBoom) })
		})
		time.Sleep(time.Second)
		h.Trace.Want("e")
		h.Run(func() {
			want := []string{"spawn: a.toy:3: boom", "effect: a.toy:3: boom", "effect: ctx.effect: got string, want a function that undoes it, or nothing",
				"module: internal error: boom", "timer: a.toy:3: boom"}
			if got := h.Seen.Take(); !slices.Equal(got, want) {
				t.Errorf("reported %q\nwant     %q", got, want)
			}
		})
	})
}
