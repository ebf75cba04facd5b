package runtime_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

type text = runtimetest.Text

// wraps calls next and passes on what it gives.
func wraps(h *runtimetest.Host, name string) runtimetest.Function {
	return func(c *runtimetest.Call) (runtime.Value, error) {
		h.Trace.Add("%s<", name)
		v, err := c.Next()
		return c.Await(v, err, func(_ *runtimetest.Call, v runtime.Value, err error) (runtime.Value, error) {
			h.Trace.Add(">%s", name)
			return v, err
		})
	}
}

// answers gives v without calling next.
func answers(h *runtimetest.Host, name string, v runtime.Value) runtimetest.Function {
	return func(*runtimetest.Call) (runtime.Value, error) {
		h.Trace.Add("%s", name)
		return v, nil
	}
}

// rewrite runs toy/rewrite on "x" around a base that marks the text, with one script of
// these listeners in force, in each kind of VM.
func rewrite(t *testing.T, fns func(h *runtimetest.Host) []runtimetest.Function, check func(h *runtimetest.Host, got text, err error)) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runtimetest.NewHost(t)
				h.Run(func() {
					h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
						for i, f := range fns(h) {
							c.At(i + 1)
							c.MustOn("toy/rewrite", nil, f)
						}
					}))
					check(runRewrite(h))
				})
			})
		})
	}
}

func runRewrite(h *runtimetest.Host) (*runtimetest.Host, text, error) {
	got, err := runtimetest.Rewrite.Run(h.Host, runtime.Target{}, text{Text: "x"}, func(x text) (text, error) {
		h.Trace.Add("base(%s)", x.Text)
		x.Text += "."
		return x, nil
	})
	return h, got, err
}

func outcomes(h *runtimetest.Host) string {
	var all []string
	for _, d := range h.Seen.Decisions {
		var layers []string
		for _, l := range d.Layers {
			layers = append(layers, fmt.Sprintf("%s:%d %s", l.Script, l.Line, l.Outcome))
		}
		all = append(all, strings.Join(layers, ", ")+" = "+d.Decided)
	}
	return strings.Join(all, "; ")
}

func TestB080_TheFirstListenerWrapsTheOthers(t *testing.T) {
	rewrite(t, func(h *runtimetest.Host) []runtimetest.Function {
		return []runtimetest.Function{wraps(h, "a"), wraps(h, "b")}
	}, func(h *runtimetest.Host, got text, err error) {
		h.Trace.Want("a< b< base(x) >b >a")
		if got.Text != "x." || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		if o := outcomes(h); o != "" {
			t.Errorf("passing on is no decision: %s", o)
		}
	})
}

func TestAListenerThatReturnsNothingAbstains(t *testing.T) {
	for name, v := range map[string]runtime.Value{"nothing": nil, "an empty object": map[string]any{}, "an empty view": runtime.ValueOf(struct{}{})} {
		t.Run(name, func(t *testing.T) {
			rewrite(t, func(h *runtimetest.Host) []runtimetest.Function {
				withNext := func(c *runtimetest.Call) (runtime.Value, error) {
					h.Trace.Add("a<")
					inner, err := c.Next()
					return c.Await(inner, err, func(_ *runtimetest.Call, _ runtime.Value, err error) (runtime.Value, error) {
						h.Trace.Add(">a")
						return v, err
					})
				}
				return []runtimetest.Function{withNext, answers(h, "b", v), answers(h, "c", map[string]any{"text": "c"})}
			}, func(h *runtimetest.Host, got text, err error) {
				h.Trace.Want("a< b c >a")
				if got.Text != "c" || err != nil {
					t.Errorf("%+v, %v", got, err)
				}
				if o := outcomes(h); o != "project/a.toy:1 passed, project/a.toy:2 abstained, project/a.toy:3 answered = answered" {
					t.Errorf("recorded %s", o)
				}
			})
		})
	}
}

func TestOnlyAnAnswerSkipsTheInnerLayers(t *testing.T) {
	rewrite(t, func(h *runtimetest.Host) []runtimetest.Function {
		return []runtimetest.Function{wraps(h, "a"), answers(h, "b", map[string]any{"text": "b", "lines": []any{"1"}}), wraps(h, "c")}
	}, func(h *runtimetest.Host, got text, err error) {
		h.Trace.Want("a< b >a")
		if !reflect.DeepEqual(got, text{Text: "b", Lines: []string{"1"}}) || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestAnEmptyListIsAnAnswer(t *testing.T) {
	list := runtime.NewWaterfall[text, []string]("toy/list", "", runtime.Sample{}, runtime.Rules[text, []string]{})
	h := runtimetest.NewHost(t, func(c *runtime.HostConfig) { c.Events = runtime.NewCatalogue(list.Event) })
	h.Run(func() {
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/list", nil, answers(h, "a", []any{}))
		}))
		got, err := list.Run(h.Host, runtime.Target{}, text{}, func(text) ([]string, error) { return []string{"base"}, nil })
		if err != nil || len(got) != 0 {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestNextTwiceIsAnError(t *testing.T) {
	rewrite(t, func(h *runtimetest.Host) []runtimetest.Function {
		return []runtimetest.Function{func(c *runtimetest.Call) (runtime.Value, error) {
			v, err := c.Next()
			return c.Await(v, err, func(c2 *runtimetest.Call, _ runtime.Value, _ error) (runtime.Value, error) {
				v, err := c.Next()
				return c2.Await(v, err, func(_ *runtimetest.Call, v runtime.Value, err error) (runtime.Value, error) { return v, err })
			})
		}}
	}, func(h *runtimetest.Host, _ text, err error) {
		if !errors.Is(err, runtime.ErrNextTwice) {
			t.Errorf("Run: %v", err)
		}
		h.Trace.Want("base(x)")
	})
	h := runtimetest.NewHost(t)
	h.Run(func() {
		defer runtimetest.Rewrite.On(h.Host, func(x text, next func(text) (text, error)) (text, error) {
			_, err1 := next(x)
			_, err2 := next(x)
			return x, errors.Join(err1, err2)
		})()
		if _, _, err := runRewrite(h); !errors.Is(err, runtime.ErrNextTwice) {
			t.Errorf("Go: %v", err)
		}
	})
}

func TestNextAfterTheAnswerIsAnError(t *testing.T) {
	var late *runtimetest.Call
	rewrite(t, func(h *runtimetest.Host) []runtimetest.Function {
		return []runtimetest.Function{func(c *runtimetest.Call) (runtime.Value, error) {
			late = c
			return map[string]any{"text": "mine"}, nil
		}}
	}, func(h *runtimetest.Host, got text, err error) {
		if got.Text != "mine" || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		v, err := late.Next()
		_, _ = late.Await(v, err, func(_ *runtimetest.Call, _ runtime.Value, err error) (runtime.Value, error) {
			h.Trace.Add("%v", err)
			return nil, nil
		})
		h.Trace.Want("the listener has already answered")
	})
}

func TestANextThatIsNotAwaitedIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.MustOn("toy/rewrite", nil, func(c *runtimetest.Call) (runtime.Value, error) {
					_, err := c.Next()
					h.Trace.Add("answered")
					return map[string]any{"text": "mine"}, err
				})
			}))
			got, err := runtimetest.Rewrite.Run(h.Host, runtime.Target{}, text{Text: "x"}, func(x text) (text, error) {
				err := h.Thread.Sleep(time.Hour)
				h.Trace.Add("base")
				return x, err
			})
			if err != nil || got.Text != "mine" {
				t.Errorf("%+v, %v", got, err)
			}
			h.Trace.Want("answered base")
		})
	})
}

func TestNextTakesTheChangesThatItsEventAllows(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			h := runtimetest.NewHost(t)
			decide := func(event string, arg func(c *runtimetest.Call) []runtime.Value) (args map[string]any, err error) {
				h.Use(h.Script("project/a.toy", kind, func(c *runtimetest.Call) {
					c.MustOn(event, nil, func(c *runtimetest.Call) (runtime.Value, error) {
						v, err := c.Next(arg(c)...)
						return c.Await(v, err, func(_ *runtimetest.Call, v runtime.Value, err error) (runtime.Value, error) { return v, err })
					})
				}))
				if event == "toy/rewrite" {
					_, _, err = runRewrite(h)
					return nil, err
				}
				_, err = runtimetest.Decide.Run(h.Host, runtime.Target{}, runtimetest.CallPayload{Tool: "t", Arguments: map[string]any{"a": int64(1)}},
					func(p runtimetest.CallPayload) (runtimetest.Decision, error) {
						args = p.Arguments
						return runtimetest.Decision{Kind: "allow"}, nil
					})
				return args, err
			}
			h.Run(func() {
				for name, c := range map[string]struct {
					event string
					arg   func(c *runtimetest.Call) []runtime.Value
					args  map[string]any
					err   string
				}{
					"nothing":     {"toy/decide", func(*runtimetest.Call) []runtime.Value { return nil }, map[string]any{"a": int64(1)}, ""},
					"nil":         {"toy/decide", func(*runtimetest.Call) []runtime.Value { return []runtime.Value{nil} }, map[string]any{"a": int64(1)}, ""},
					"the payload": {"toy/decide", func(c *runtimetest.Call) []runtime.Value { return c.Args[:1] }, map[string]any{"a": int64(1)}, ""},
					"a change": {"toy/decide", func(*runtimetest.Call) []runtime.Value {
						return []runtime.Value{map[string]any{"arguments": map[string]any{"b": true}}}
					}, map[string]any{"b": true}, ""},
					"another field": {"toy/decide", func(*runtimetest.Call) []runtime.Value { return []runtime.Value{map[string]any{"argumens": 1}} }, nil, `next: unknown field "argumens" (did you mean "arguments"?)`},
					"two":           {"toy/decide", func(*runtimetest.Call) []runtime.Value { return []runtime.Value{nil, nil} }, nil, "next: got 2 arguments, want at most 1"},
					"no changes":    {"toy/rewrite", func(*runtimetest.Call) []runtime.Value { return []runtime.Value{map[string]any{"text": "y"}} }, nil, "next: toy/rewrite takes no changes through next; return them instead"},
					"same payload":  {"toy/rewrite", func(c *runtimetest.Call) []runtime.Value { return c.Args[:1] }, nil, ""},
				} {
					args, err := decide(c.event, c.arg)
					if c.err == "" && err != nil || c.err != "" && (err == nil || runtime.Message(err) != c.err) {
						t.Errorf("%s: %v, want %q", name, err, c.err)
					}
					if !reflect.DeepEqual(args, c.args) {
						t.Errorf("%s: inner layers saw %v, want %v", name, args, c.args)
					}
					h.Trace.Take()
				}
			})
		})
	}
}

func TestAnAnswerThatDoesNotFitIsAThrowThatNamesTheField(t *testing.T) {
	for want, v := range map[string]runtime.Value{
		`the answer does not fit: unknown kind "alow" (did you mean "allow"?)`:             map[string]any{"kind": "alow"},
		`the answer does not fit: unknown kind "xyzzy12345", want one of allow, deny, ask`: map[string]any{"kind": "xyzzy12345"},
		`the answer does not fit: missing field "kind", want one of allow, deny, ask`:      map[string]any{"reason": "r"},
		`the answer does not fit: unknown field "raeson" (did you mean "reason"?)`:         map[string]any{"kind": "deny", "raeson": "r"},
		`the answer does not fit: reason: got number, want string`:                         map[string]any{"kind": "deny", "reason": int64(1)},
		`the answer does not fit: got boolean, want object`:                                true,
		`the answer does not fit: got list, want object`:                                   []any{int64(1)},
		`the answer does not fit: unknown field "agent", want one of kind, reason`:         runtime.ValueOf(runtimetest.CallPayload{Agent: &runtimetest.Agent{}}),
		`the answer does not fit: got string, want object`:                                 "allow",
	} {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.At(7)
				c.MustOn("toy/decide", nil, answers(h, "a", v))
			}))
			_, err := runtimetest.Decide.Run(h.Host, runtime.Target{}, runtimetest.CallPayload{}, func(runtimetest.CallPayload) (runtimetest.Decision, error) {
				h.Trace.Add("base")
				return runtimetest.Decision{Kind: "allow"}, nil
			})
			var se *runtime.ScriptError
			if !errors.As(err, &se) || se.Message != want || se.Pos.Line != 7 || se.Script != "project/a.toy" {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			h.Trace.Want("a")
		})
	}
}

func TestAFailureInsideStaysTheInnerScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			outer := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) { c.MustOn("toy/rewrite", nil, wraps(h, "a")) })
			lua := h.Script("project/b.toy", runtimetest.Lua, func(c *runtimetest.Call) { c.MustOn("toy/rewrite", nil, wraps(h, "b")) })
			inner := h.Script("project/c.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.At(3)
				c.MustOn("toy/rewrite", nil, fails)
			})
			h.Use(outer, lua, inner)
			for range 5 {
				_, _, err := runRewrite(h)
				if err == nil || err.Error() != "c.toy:3: toy/rewrite: boom" || !errors.Is(err, errBoom) {
					t.Errorf("Run: %v", err)
				}
			}
			if outer.Quarantined() != nil || lua.Quarantined() != nil || inner.Quarantined() == nil {
				t.Errorf("in quarantine: outer %v, middle %v, inner %v", outer.Quarantined(), lua.Quarantined(), inner.Quarantined())
			}
			want := "project/a.toy:0 passed, project/b.toy:0 passed, project/c.toy:3 failed = failed"
			if d := h.Seen.Decisions; len(d) != 5 || outcomes(h) != strings.TrimSuffix(strings.Repeat(want+"; ", 5), "; ") || d[0].Layers[2].Message != "boom" {
				t.Errorf("recorded %s", outcomes(h))
			}
			h.Trace.Take()
		})
	})
}

func TestABaseThatFailsPassesThroughUncounted(t *testing.T) {
	for _, how := range []string{"error", "panic"} {
		t.Run(how, func(t *testing.T) {
			h := runtimetest.NewHost(t)
			h.Run(func() {
				in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
					c.MustOn("toy/rewrite", nil, wraps(h, "a"))
					c.MustOn("toy/rewrite", nil, func(c *runtimetest.Call) (runtime.Value, error) {
						v, err := c.Next()
						return c.Await(v, err, func(_ *runtimetest.Call, v runtime.Value, err error) (runtime.Value, error) {
							return nil, nil // swallows it
						})
					})
				})
				h.Use(in)
				fail := func(text) (text, error) {
					if how == "panic" {
						panic(errBoom)
					}
					return text{Text: "half"}, errBoom
				}
				for range 6 {
					got, err := runtimetest.Rewrite.Run(h.Host, runtime.Target{}, text{}, fail)
					if !errors.Is(err, errBoom) || got.Text != "" {
						t.Fatalf("%+v, %v", got, err)
					}
				}
				if in.Quarantined() != nil || len(h.Seen.Decisions) > 0 {
					t.Errorf("quarantine %v, recorded %s", in.Quarantined(), outcomes(h))
				}
				h.Use()
				if _, err := runtimetest.Rewrite.Run(h.Host, runtime.Target{}, text{}, fail); !errors.Is(err, errBoom) {
					t.Errorf("nobody listens: %v", err)
				}
				h.Trace.Take()
			})
		})
	}
}

func TestGoLayersDecideAndAreRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		fn   func(x text, next func(text) (text, error)) (text, error)
		want string
		rec  string
	}{
		"passes on":       {func(x text, next func(text) (text, error)) (text, error) { return next(x) }, "x.", ""},
		"changes payload": {func(x text, next func(text) (text, error)) (text, error) { x.Text = "y"; return next(x) }, "y.", ""},
		"answers":         {func(text, func(text) (text, error)) (text, error) { return text{Text: "go"}, nil }, "go", ":0 answered = answered"},
		"changes result": {func(x text, next func(text) (text, error)) (text, error) {
			r, err := next(x)
			r.Text += "!"
			return r, err
		}, "x.!", ":0 answered, project/a.toy:0 abstained = answered"},
		"fails":            {func(text, func(text) (text, error)) (text, error) { return text{}, errBoom }, "boom", ":0 failed = failed"},
		"panics":           {func(text, func(text) (text, error)) (text, error) { panic(errBoom) }, "internal error: boom", ":0 failed = failed"},
		"fails after next": {func(x text, next func(text) (text, error)) (text, error) { _, _ = next(x); return x, errBoom }, "boom", ":0 failed, project/a.toy:0 abstained = failed"},
	} {
		t.Run(name, func(t *testing.T) {
			h := runtimetest.NewHost(t)
			h.Run(func() {
				h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) { c.MustOn("toy/rewrite", nil, says(h, "a")) }))
				defer runtimetest.Rewrite.On(h.Host, c.fn)()
				_, got, err := runRewrite(h)
				if err != nil {
					got.Text = err.Error()
				}
				if got.Text != c.want || outcomes(h) != c.rec {
					t.Errorf("%q, recorded %q\nwant %q, %q", got.Text, outcomes(h), c.want, c.rec)
				}
				h.Trace.Take()
			})
		})
	}
}

func TestMergeCombinesALayersAnswerWithTheInnerOnes(t *testing.T) {
	type R struct {
		Sum int `json:"sum"`
	}
	sum := runtime.NewWaterfall("toy/sum", "", runtime.Sample{}, runtime.Rules[text, R]{
		Merge: func(m runtime.Merging[text, R]) (R, error) {
			r, err := m.Inner()
			again, err2 := m.Inner()
			if r != again || !errors.Is(err2, err) {
				return r, errors.New("asked twice, the inner layers gave something else")
			}
			if m.Listener == nil || m.Payload.Text != "x" {
				return r, errors.New("the layer is not known")
			}
			if m.Err != nil {
				return r, m.Err
			}
			r.Sum += m.Own.Sum
			return r, err
		},
	})
	h := runtimetest.NewHost(t, func(c *runtime.HostConfig) { c.Events = runtime.NewCatalogue(sum.Event) })
	h.Run(func() {
		h.Use(h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
			c.MustOn("toy/sum", nil, answers(h, "a", map[string]any{"sum": int64(1)}))
			c.MustOn("toy/sum", nil, says(h, "b"))
			c.MustOn("toy/sum", nil, wraps(h, "c"))
			c.MustOn("toy/sum", nil, answers(h, "d", map[string]any{"sum": int64(10)}))
		}))
		got, err := sum.Run(h.Host, runtime.Target{}, text{Text: "x"}, func(text) (R, error) { return R{100}, nil })
		if err != nil || got.Sum != 111 {
			t.Errorf("%+v, %v", got, err)
		}
		h.Trace.Want("a b c< d >c")
	})
}

func TestDecisionsSayWhatEachLayerDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		h.Run(func() {
			in := h.Script("project/a.toy", runtimetest.JS, func(c *runtimetest.Call) {
				c.At(2)
				c.MustOn("toy/decide", nil, wraps(h, "a"))
				c.At(5)
				c.MustOn("toy/decide", runtimetest.Opts{"filter": runtimetest.Opts{"tool": "other"}}, says(h, "no"))
				c.At(8)
				c.MustOn("toy/decide", nil, sleepsThen(h, "b", map[string]any{"kind": "ask", "reason": "why"}, nil))
			})
			g := h.Use(in)
			target := runtime.Target{Turn: 3, Step: 4, CallID: "c1"}
			d, err := runtimetest.Decide.Run(h.Host, target, runtimetest.CallPayload{Tool: "bash"}, nil)
			if err != nil || d.Kind != "ask" || d.Reason != "why" {
				t.Errorf("%+v, %v", d, err)
			}
			want := runtime.Decision{Target: target, Event: runtimetest.Decide.Event, Payload: runtimetest.CallPayload{Tool: "bash"}, Decided: "ask", Layers: []runtime.Verdict{
				{Script: "project/a.toy", Line: 2, Hash: in.Hash, Generation: g.N, Outcome: "passed", Ms: 10},
				{Script: "project/a.toy", Line: 8, Hash: in.Hash, Generation: g.N, Outcome: "ask", Ms: 10},
			}}
			if got := h.Seen.Decisions; len(got) != 1 || !reflect.DeepEqual(got[0], want) {
				t.Errorf("recorded %+v\nwant     %+v", got, want)
			}
			h.Trace.Take()
		})
	})
}
