package runtime_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

// says is a listener that records its name.
func says(h *runtimetest.Host, name string) runtimetest.Function {
	return func(*runtimetest.Call) (runtime.Value, error) {
		h.Trace.Add("%s", name)
		return nil, nil
	}
}

func notice(h *runtimetest.Host, t runtime.Target) {
	runtimetest.Notice.Fire(h.Host, t, runtimetest.NoticePayload{Text: "x"})
}

// listeners is a script's top level that subscribes to toy/notice; a name with a ^ is
// prepended.
func listeners(h *runtimetest.Host, names ...string) func(*runtimetest.Call) {
	return func(c *runtimetest.Call) {
		for _, name := range names {
			c.MustOn("toy/notice", runtimetest.Opts{"prepend": strings.HasPrefix(name, "^")}, says(h, name))
		}
	}
}

func TestOrderIsGoThenLayersThenFilesThenRegistration(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		bundled := h.Script("bundled/z.toy", runtimetest.JS, listeners(h, "z1", "^z2"))
		user := h.Script("user/a.toy", runtimetest.Lua, listeners(h, "a1", "a2"))
		projectB := h.Script("project/b.toy", runtimetest.JS, listeners(h, "b1", "^b2", "b3"))
		projectC := h.Script("project/c.toy", runtimetest.Lua, listeners(h, "c1", "^c2", "^c3"))
		cli := h.Script("cli/0.toy", runtimetest.JS, listeners(h, "^cli"))
		h.Use(bundled, user, projectB, projectC, cli)
		goSays := func(name string) func(runtimetest.NoticePayload) error {
			return func(runtimetest.NoticePayload) error { h.Trace.Add("%s", name); return nil }
		}
		offs := []func(){
			runtimetest.Notice.On(h.Host, goSays("go1")),
			runtimetest.Notice.On(h.Host, goSays("^go2"), runtime.Prepended()),
			runtimetest.Notice.On(h.Host, goSays("go3")),
		}
		notice(h, runtime.Target{})
		h.Trace.Want("^go2 go1 go3 ^z2 z1 a1 a2 ^c3 ^c2 ^b2 b1 b3 c1 ^cli")
		for _, off := range offs {
			off()
			off()
		}
		notice(h, runtime.Target{})
		h.Trace.Want("^z2 z1 a1 a2 ^c3 ^c2 ^b2 b1 b3 c1 ^cli")
	})
}

func TestOnceIsRemovedBeforeItRuns(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/notice", runtimetest.Opts{"once": true}, func(*runtimetest.Call) (runtime.Value, error) {
				h.Trace.Add("once")
				notice(h, runtime.Target{})
				return nil, nil
			})
			c.MustOn("toy/notice", nil, says(h, "each"))
		}))
		off := runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error { h.Trace.Add("go"); return nil }, runtime.Once())
		defer off()
		notice(h, runtime.Target{})
		h.Trace.Want("go once each each")
		notice(h, runtime.Target{})
		h.Trace.Want("each")
	})
}

func TestB227_TheListIsFixedAtTheStartOfADispatch(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		var offs []*runtime.GoFunc
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/notice", nil, func(c *runtimetest.Call) (runtime.Value, error) {
				h.Trace.Add("a")
				for _, off := range offs {
					if err := c.Undo(off); err != nil {
						t.Error(err)
					}
				}
				offs = nil
				c.MustOn("toy/notice", nil, says(h, "new"))
				return nil, nil
			})
			offs = append(offs,
				c.MustOn("toy/notice", nil, says(h, "b")),
				c.MustOn("toy/notice", runtimetest.Opts{"once": true}, says(h, "c")))
		}))
		notice(h, runtime.Target{})
		h.Trace.Want("a b c")
		notice(h, runtime.Target{})
		h.Trace.Want("a new")
	})
}

func TestB227_AReloadDoesNotTouchADispatchInProgress(t *testing.T) {
	for _, mode := range []string{"emit", "serial", "waterfall", "parallel"} {
		t.Run(mode, func(t *testing.T) {
			h := runtimetest.NewHost(t)
			reload := func() {
				h.Use(h.Script("project/a.toy", runtimetest.Lua, func(c *runtimetest.Call) {
					for _, e := range []string{"toy/notice", "toy/check", "toy/rewrite", "toy/flush"} {
						c.MustOn(e, nil, says(h, "new"))
					}
				}))
			}
			h.Run(func() {
				h.Use(h.Script("project/a.toy", runtimetest.Lua, func(c *runtimetest.Call) {
					for _, e := range []string{"toy/notice", "toy/check", "toy/rewrite", "toy/flush"} {
						c.MustOn(e, nil, func(*runtimetest.Call) (runtime.Value, error) {
							h.Trace.Add("old")
							if h.Current().N == 1 {
								reload()
							}
							return nil, nil
						})
						c.MustOn(e, nil, says(h, "old2"))
					}
				}))
				fire := func() {
					var err error
					switch mode {
					case "emit":
						notice(h, runtime.Target{})
					case "serial":
						err = runtimetest.Check.Run(h.Host, runtime.Target{}, runtimetest.CheckPayload{})
					case "parallel":
						err = runtimetest.Flush.Run(h.Host, runtime.Target{}, runtimetest.NoticePayload{})
					case "waterfall":
						_, err = runtimetest.Rewrite.Run(h.Host, runtime.Target{}, runtimetest.Text{}, base)
					}
					if err != nil {
						t.Error(err)
					}
				}
				fire()
				h.Trace.Want("old old2")
				if open := h.Toy.Open(); len(open) != 1 {
					t.Errorf("the old script was not disposed after the dispatch: %v", open)
				}
				fire()
				h.Trace.Want("new")
			})
		})
	}
}

// base is the innermost layer of Rewrite: it gives the text back.
func base(x runtimetest.Text) (runtimetest.Text, error) { return x, nil }

func TestFilters(t *testing.T) {
	h := runtimetest.NewHost(t)
	a, b := h.Agent("a"), h.Agent("b")
	call := func(a *runtimetest.Agent, tool string, args map[string]any) {
		_, err := runtimetest.Decide.Run(h.Host, a.Target(), runtimetest.CallPayload{Agent: a, Tool: tool, Arguments: args},
			func(runtimetest.CallPayload) (runtimetest.Decision, error) {
				return runtimetest.Decision{Kind: "allow"}, nil
			})
		if err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		filter runtimetest.Opts
		want   string
	}{
		{runtimetest.Opts{}, "1 2 3 4 5"},
		{runtimetest.Opts{"tool": "bash"}, "1 4"},
		{runtimetest.Opts{"tool": "BASH"}, ""},
		{runtimetest.Opts{"tool": "ba"}, ""},
		{runtimetest.Opts{"tool": "*"}, "1 2 3 4 5"},
		{runtimetest.Opts{"tool": "fs.*"}, "3 5"},
		{runtimetest.Opts{"tool": []any{"write", "*sh"}}, "1 2 4"},
		{runtimetest.Opts{"agent": "b"}, "4 5"},
		{runtimetest.Opts{"args": runtimetest.Opts{"command": `\brm\b`}}, "1"},
		{runtimetest.Opts{"args": runtimetest.Opts{"command": "^$"}}, ""},
		{runtimetest.Opts{"args": runtimetest.Opts{"n": "^7$"}}, "2"},
		{runtimetest.Opts{"tool": "bash", "agent": "b", "args": runtimetest.Opts{"command": "ls"}}, "4"},
	} {
		t.Run(fmt.Sprint(c.filter), func(t *testing.T) {
			h.Run(func() {
				var nr string
				h.Use(h.Script("project/a.toy", runtimetest.JS, func(s *runtimetest.Call) {
					s.MustOn("toy/decide", runtimetest.Opts{"filter": c.filter}, func(*runtimetest.Call) (runtime.Value, error) {
						h.Trace.Add("%s", nr)
						return nil, nil
					})
				}))
				for i, f := range []func(){
					func() { call(a, "bash", map[string]any{"command": "rm -r x"}) },
					func() { call(a, "write", map[string]any{"n": 7}) },
					func() { call(a, "fs.read", nil) },
					func() { call(b, "bash", map[string]any{"command": "ls farm"}) },
					func() { call(b, "fs.write", nil) },
				} {
					nr = fmt.Sprint(i + 1)
					f()
				}
				h.Trace.Want(c.want)
			})
		})
	}
}

func TestSubscribingWronglyIsALoadErrorThatSaysWhatIsRight(t *testing.T) {
	h := runtimetest.NewHost(t)
	fn := func(*runtimetest.Call) (runtime.Value, error) { return nil, nil }
	for _, c := range []struct {
		event string
		opts  runtimetest.Opts
		want  string
	}{
		{"toy/notise", nil, `ctx.on: unknown event "toy/notise" (did you mean "toy/notice"?)`},
		{"other", nil, `ctx.on: unknown event "other"`},
		{"toy/notice", runtimetest.Opts{"onse": true}, `ctx.on: for parameter opts: unknown field "onse" (did you mean "once"?)`},
		{"toy/notice", runtimetest.Opts{"once": "yes"}, `ctx.on: for parameter opts: once: got string, want boolean`},
		{"toy/notice", runtimetest.Opts{"filter": runtimetest.Opts{"tools": "x"}}, `ctx.on: for parameter opts: filter: unknown field "tools" (did you mean "tool"?)`},
		{"toy/notice", runtimetest.Opts{"filter": runtimetest.Opts{"tool": "x"}}, `ctx.on: toy/notice cannot be filtered by "tool" (it can be by agent)`},
		{"toy/notice", runtimetest.Opts{"filter": runtimetest.Opts{"args": runtimetest.Opts{"a": "x"}}}, `ctx.on: toy/notice cannot be filtered by "args" (it can be by agent)`},
		{"toy/rewrite", runtimetest.Opts{"filter": runtimetest.Opts{"agent": "x"}}, `ctx.on: toy/rewrite cannot be filtered by "agent" (it can be by nothing)`},
		{"toy/decide", runtimetest.Opts{"filter": runtimetest.Opts{"args": runtimetest.Opts{"a": "("}}}, "ctx.on: filter.args.a: error parsing regexp: missing closing ): `(`"},
		{"toy/decide", runtimetest.Opts{"filter": runtimetest.Opts{"tool": 7}}, `ctx.on: for parameter opts: filter.tool: want a string or a list of strings`},
		{"toy/decide", runtimetest.Opts{"filter": "bash"}, `ctx.on: for parameter opts: filter: got string, want object`},
	} {
		h.Run(func() {
			_, err := h.Load("project/a.toy", runtimetest.JS, func(s *runtimetest.Call) error {
				s.At(3)
				_, err := s.On(c.event, c.opts, fn)
				return err
			})
			var se *runtime.ScriptError
			if !errors.As(err, &se) || se.Message != c.want {
				t.Errorf("%s %v:\n got %v\nwant %s", c.event, c.opts, err, c.want)
			} else if se.Error() != "a.toy:3: "+c.want {
				t.Errorf("place: %s", se)
			}
			if open := h.Toy.Open(); len(open) > 0 {
				t.Error("a script that did not load was not disposed")
			}
		})
	}
}

func TestScopedListenersHearOneOwnerAndGoWithIt(t *testing.T) {
	h := runtimetest.NewHost(t)
	a, b := h.Agent("a"), h.Agent("b")
	h.Run(func() {
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/notice", nil, says(h, "all"))
			if _, err := c.OnFor(a, "toy/notice", nil, says(h, "a")); err != nil {
				t.Error(err)
			}
		}))
		off := runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error { h.Trace.Add("go-b"); return nil }, runtime.Scoped(b))
		for _, target := range []runtime.Target{{}, a.Target(), b.Target()} {
			notice(h, target)
			h.Trace.Add("|")
		}
		h.Trace.Want("all | all a | go-b all |")
		h.DropScope(nil)
		h.DropScope(a)
		h.DropScope(b)
		notice(h, a.Target())
		notice(h, b.Target())
		h.Trace.Want("all all")
		off()
	})
}

func TestTargetOnlyAndExcept(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		a := h.Script("project/a.toy", runtimetest.JS, listeners(h, "a1", "a2"))
		b := h.Script("project/b.toy", runtimetest.JS, listeners(h, "b"))
		h.Use(a, b)
		off := runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error { h.Trace.Add("go"); return nil })
		defer off()
		notice(h, runtime.Target{Only: a})
		h.Trace.Want("a1 a2")
		notice(h, runtime.Target{Except: a.Listeners()[1]})
		h.Trace.Want("go a1 b")
	})
}

func TestAnAwaitedDispatchSaysAtOnceThatItCannotWait(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		run := func() (errs []error) {
			_, err := runtimetest.Rewrite.Run(h.Host, runtime.Target{}, runtimetest.Text{}, base)
			return []error{err,
				runtimetest.Check.Run(h.Host, runtime.Target{}, runtimetest.CheckPayload{}),
				runtimetest.Flush.Run(h.Host, runtime.Target{}, runtimetest.NoticePayload{}),
			}
		}
		h.Thread.Atomic(func() {
			for i, err := range run() {
				if err != nil {
					t.Errorf("%d: nobody listens: %v", i, err)
				}
			}
		})
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			for _, e := range []string{"toy/check", "toy/rewrite", "toy/flush"} {
				c.MustOn(e, nil, says(h, "called"))
			}
		}))
		for range 10 { // not counted against the script
			h.Thread.Atomic(func() {
				for i, err := range run() {
					if !errors.Is(err, runtime.ErrCannotWait) {
						t.Errorf("%d: %v", i, err)
					}
				}
			})
		}
		h.Trace.Want("")
		if err := errors.Join(run()...); err != nil {
			t.Error(err)
		}
		h.Trace.Want("called called called")
	})
}
