package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/session"
)

// gated is a tool whose bodies wait until they are released by call id. safe says which
// calls may run beside others.
type gated struct {
	w    *world
	safe bool

	mu      sync.Mutex // guards what follows
	gates   map[string]chan struct{}
	started []string
	open    bool
}

func (g *gated) Spec() model.ToolSpec {
	name := "exclusive"
	if g.safe {
		name = "safe"
	}
	return model.ToolSpec{Name: name, Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (g *gated) ConcurrencySafe(json.RawMessage) bool { return g.safe }

func (g *gated) gate(id string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates == nil {
		g.gates = map[string]chan struct{}{}
	}
	if g.gates[id] == nil {
		g.gates[id] = make(chan struct{})
		if g.open {
			close(g.gates[id])
		}
	}
	return g.gates[id]
}

func (g *gated) Execute(_ context.Context, _ json.RawMessage, x *tool.Exec) (tool.Result, error) {
	ch := g.gate(x.CallID)
	g.mu.Lock()
	g.started = append(g.started, x.CallID)
	g.mu.Unlock()
	g.w.poke()
	<-ch
	return tool.TextResult("r" + x.CallID), nil
}

func (g *gated) release(ids ...string) {
	for _, id := range ids {
		if ch := g.gate(id); !g.isOpen() {
			close(ch)
		}
	}
}

func (g *gated) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// running names the calls whose bodies have started, sorted: which of several that start
// together comes first is the scheduler's.
func (g *gated) running() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(g.started)), " ")
}

// openAll lets every body end, so that a test that failed does not hang.
func (g *gated) openAll() {
	g.mu.Lock()
	g.open = true
	for _, ch := range g.gates {
		select {
		case <-ch:
		default:
			close(ch)
		}
	}
	g.mu.Unlock()
}

// calls is one assistant message with calls "c1:safe c2:exclusive".
func calls(spec string) modeltest.Answer {
	var cs []modeltest.Call
	for _, c := range strings.Fields(spec) {
		id, name, _ := strings.Cut(c, ":")
		cs = append(cs, modeltest.Call{ID: id, Name: name, Arguments: "{}"})
	}
	return modeltest.Tools(cs...)
}

// pool makes a world with a safe and an exclusive gated tool.
func pool(t *testing.T, parallel int, spec string) (w *world, safe, exclusive *gated) {
	safe, exclusive = &gated{safe: true}, &gated{}
	w = newWorld(t, modeltest.New(calls(spec)).Otherwise(modeltest.Text("done")), withTools(safe, exclusive), func(c *loop.Config) { c.Parallel = parallel })
	safe.w, exclusive.w = w, w
	t.Cleanup(func() { safe.openAll(); exclusive.openAll() })
	w.create()
	w.do(func() { _ = w.a.Followup(msg("go")) })
	return w, safe, exclusive
}

// calling is the order of calls and results in the log.
func (w *world) calling() string {
	var out []string
	for _, r := range w.records() {
		if d, ok := decoded[loop.ToolCallRecord](r, loop.RecToolCall); ok {
			out = append(out, "call "+d.CallID)
		}
		if d, ok := decoded[loop.ToolResultRecord](r, loop.RecToolResult); ok {
			out = append(out, "result "+d.Message.Source.CallID)
		}
	}
	return strings.Join(out, ", ")
}

func TestB130_ToolCallIsLoggedBeforeAnyPolicy(t *testing.T) {
	w := newWorld(t, modeltest.New(calls("c1:echo"), modeltest.Text("ok")), withTools(echo{})).create()
	w.judge(func(p loop.PreExecutePayload, _ judgeNext) (loop.Judgement, error) {
		w.check(w.calling(), "call c1")
		return loop.Judgement{Kind: loop.Deny, Reason: "no"}, nil
	})
	w.prompt("go")
	w.check(w.calling(), "call c1, result c1")
}

func TestB131_SafeSiblingsOverlap(t *testing.T) {
	w, safe, _ := pool(t, 10, "c1:safe c2:safe c3:safe")
	w.until("all started", func() bool { w.poke(); return safe.running() == "c1 c2 c3" })
	safe.release("c1", "c2", "c3")
	w.wait()
}

func TestB132_ResultsCommitInModelOrder(t *testing.T) {
	w, safe, _ := pool(t, 10, "c1:safe c2:safe")
	w.do(func() {
		loop.PostExecute.On(w.h.Host, func(p loop.PostPayload, next func(loop.PostPayload) (loop.PostDecision, error)) (loop.PostDecision, error) {
			w.notes.note("post %s", p.CallID)
			return next(p)
		})
		loop.ToolsResult.On(w.h.Host, func(p loop.PostPayload) error { w.notes.note("result %s", p.CallID); return nil })
	})
	w.until("both started", func() bool { w.poke(); return safe.running() == "c1 c2" })
	safe.release("c2")
	w.do(func() {})
	if n := w.logged(loop.RecToolResult); n != 0 {
		t.Errorf("%d results before the first call has settled", n)
	}
	safe.release("c1")
	w.wait()
	w.check(w.calling(), "call c1, call c2, result c1, result c2")
	w.check(w.noted(), "post c1\nresult c1\npost c2\nresult c2")
}

func TestB133_PoolWithRollingRefill(t *testing.T) {
	w, safe, _ := pool(t, 2, "c1:safe c2:safe c3:safe c4:safe")
	w.until("two started", func() bool { w.poke(); return safe.running() == "c1 c2" })
	safe.release("c1")
	w.until("a third", func() bool { w.poke(); return safe.running() == "c1 c2 c3" })
	w.check(w.calling(), "call c1, call c2, result c1, call c3")
	safe.release("c2", "c3", "c4")
	w.wait()
	for _, n := range []int{0, -1} {
		w.do(func() {
			if err := w.h.SetParallel(n); err == nil {
				t.Errorf("a cap of %d was taken", n)
			}
		})
	}
}

func TestB134_AnExclusiveCallIsABarrier(t *testing.T) {
	w, safe, exclusive := pool(t, 10, "a:safe b:exclusive c:safe")
	w.until("a", func() bool { w.poke(); return safe.running() == "a" })
	w.check(w.calling(), "call a")
	safe.release("a")
	w.until("b", func() bool { w.poke(); return exclusive.running() == "b" })
	w.check(w.calling(), "call a, result a, call b")
	exclusive.release("b")
	w.until("c", func() bool { w.poke(); return safe.running() == "a c" })
	w.check(w.calling(), "call a, result a, call b, result b, call c")
	safe.release("c")
	w.wait()
}

// classify is a tool with a classifier of its own.
type classify struct {
	echo
	fn func() bool
}

func (c classify) ConcurrencySafe(json.RawMessage) bool { return c.fn() }

func TestB135_TheDefaultIsExclusive(t *testing.T) {
	cases := map[string]struct {
		tools  []tool.Tool
		script string
		call   string
		args   string
	}{
		"no classifier":      {tools: []tool.Tool{echo{}}, call: "echo"},
		"false":              {tools: []tool.Tool{classify{fn: func() bool { return false }}}, call: "echo"},
		"panics":             {tools: []tool.Tool{classify{fn: func() bool { panic("no") }}}, call: "echo"},
		"unknown tool":       {call: "nope"},
		"invalid arguments":  {tools: []tool.Tool{classify{fn: func() bool { return true }}}, call: "echo", args: `{"text":1}`},
		"script says truthy": {script: `ctx.tool({name:'s', description:'', concurrencySafe: () => 'yes', execute: () => 'x'})`, call: "s"},
		"script throws":      {script: `ctx.tool({name:'s', description:'', concurrencySafe: () => { throw new Error('x') }, execute: () => 'x'})`, call: "s"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			args := c.args
			if args == "" {
				args = "{}"
			}
			w := newWorld(t, modeltest.New(modeltest.Tools(modeltest.Call{ID: "c1", Name: c.call, Arguments: args}, modeltest.Call{ID: "c2", Name: c.call, Arguments: args})).Otherwise(modeltest.Text("ok")),
				withTools(c.tools...), withEngines)
			if c.script != "" {
				w.script("f.js", c.script)
			}
			w.create().prompt("go")
			w.check(w.calling(), "call c1, result c1, call c2, result c2")
		})
	}
	w := newWorld(t, modeltest.New(modeltest.Tools(modeltest.Call{ID: "c1", Name: "s", Arguments: "{}"}, modeltest.Call{ID: "c2", Name: "s", Arguments: "{}"})).Otherwise(modeltest.Text("ok")), withEngines)
	w.script("f.js", `ctx.tool({name:'s', description:'', concurrencySafe: () => true, execute: async () => { await ctx.sleep(1); return 'x' }})`)
	w.create().prompt("go")
	w.check(w.calling(), "call c1, call c2, result c1, result c2")
}

func TestB137_PoliciesRunInModelOrder(t *testing.T) {
	safe := &gated{safe: true}
	w := newWorld(t, modeltest.New(calls("c1:safe c2:safe c3:safe")).Otherwise(modeltest.Text("done")), withTools(safe)).create()
	safe.w = w
	t.Cleanup(safe.openAll)
	w.judge(func(p loop.PreExecutePayload, next judgeNext) (loop.Judgement, error) {
		w.notes.note("pre %s", p.CallID)
		return next(p)
	})
	w.do(func() {
		loop.PostExecute.On(w.h.Host, func(p loop.PostPayload, next func(loop.PostPayload) (loop.PostDecision, error)) (loop.PostDecision, error) {
			w.notes.note("post %s", p.CallID)
			return next(p)
		})
		_ = w.a.Followup(msg("go"))
	})
	w.until("all started", func() bool { w.poke(); return safe.running() == "c1 c2 c3" })
	safe.release("c3", "c2", "c1")
	w.wait()
	w.check(w.noted(), "pre c1\npre c2\npre c3\npost c1\npost c2\npost c3")
}

func TestB138_DeniedAndFailedSiblingsKeepTheirSlot(t *testing.T) {
	w := newWorld(t, modeltest.New(calls("c1:echo c2:echo c3:echo"), modeltest.Text("ok")), withTools(echo{})).create()
	w.judge(func(p loop.PreExecutePayload, next judgeNext) (loop.Judgement, error) {
		switch p.CallID {
		case "c2":
			return loop.Judgement{Kind: loop.Deny, Reason: "no"}, nil
		case "c3":
			return loop.Judgement{}, errors.New("broken")
		}
		return next(p)
	})
	w.do(func() {
		loop.PostExecute.On(w.h.Host, func(p loop.PostPayload, next func(loop.PostPayload) (loop.PostDecision, error)) (loop.PostDecision, error) {
			w.notes.note("post %s", p.CallID)
			return next(p)
		})
	})
	w.prompt("go")
	w.check(strings.Join(w.results(), "\n"), "c1 - \nc2 error Error: no\nc3 error Error: denied, because a policy failed: broken")
	w.check(w.noted(), "post c1\npost c2")
}

func TestB139_ArgumentParsing(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tools(modeltest.Call{ID: "c1", Name: "x"}, modeltest.Call{ID: "c2", Name: "x", Arguments: "not json"}, modeltest.Call{ID: "c3", Name: "x", Arguments: `{"b":1,"a":[]}`}), modeltest.Text("ok"))).create()
	w.judge(func(p loop.PreExecutePayload, next judgeNext) (loop.Judgement, error) {
		w.notes.note("%s", p.Arguments)
		return next(p)
	})
	w.prompt("go")
	w.check(w.noted(), "{}\n\"not json\"\n{\"b\":1,\"a\":[]}")
	var raw []string
	for _, r := range w.records() {
		if d, ok := decoded[loop.ToolCallRecord](r, loop.RecToolCall); ok {
			raw = append(raw, d.Arguments)
		}
	}
	w.check(strings.Join(raw, "|"), `|not json|{"b":1,"a":[]}`)
}

func TestB140_AbortWhilePreExecuteWaits(t *testing.T) {
	w := newWorld(t, modeltest.New(calls("c1:echo c2:echo"), modeltest.Text("ok")), withTools(echo{body: func(context.Context, *tool.Exec) { t.Error("a body ran") }})).create()
	w.judge(func(p loop.PreExecutePayload, next judgeNext) (loop.Judgement, error) {
		w.a.Cancel(byUser, loop.CancelOptions{})
		return loop.Judgement{Kind: loop.Allow}, nil
	})
	w.prompt("go")
	if got := w.results(); len(got) != 2 || !strings.Contains(got[0], "ABORTED_BEFORE_DISPATCH") || !strings.Contains(got[1], "ABORTED_BEFORE_DISPATCH") {
		t.Error(got)
	}
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/user")
}

func TestB141_B142_AbortMidPool(t *testing.T) {
	w, safe, _ := pool(t, 2, "c1:safe c2:safe c3:safe c4:exclusive")
	w.do(func() {
		loop.PostExecute.On(w.h.Host, func(p loop.PostPayload, next func(loop.PostPayload) (loop.PostDecision, error)) (loop.PostDecision, error) {
			d, err := next(p)
			d.AdditionalContexts = append(d.AdditionalContexts, withID("k"+p.CallID, "context "+p.CallID))
			return d, err
		})
	})
	w.until("two started", func() bool { w.poke(); return safe.running() == "c1 c2" })
	safe.release("c1")
	w.until("c1 is committed and c3 started", func() bool { w.poke(); return safe.running() == "c1 c2 c3" })
	w.do(func() { w.a.Cancel(byUser, loop.CancelOptions{KeepInbox: true}) })
	safe.release("c3", "c2")
	w.wait()
	w.check(w.calling(), "call c1, call c2, result c1, call c3, result c2, result c3, call c4, result c4")
	w.check(strings.Join(w.results(), "\n"), "c1 - rc1\nc2 ABORTED Error: tool call aborted\nc3 ABORTED Error: tool call aborted\nc4 ABORTED_BEFORE_DISPATCH Error: tool call aborted before dispatch")
	w.do(func() {
		if got := texts(w.a.Inbox().NextStep()); got != "context c1" {
			t.Errorf("parked: %s", got)
		}
	})
	w.prompt("next")
	if got := w.sent(2); !strings.HasSuffix(got, "|context c1|next") {
		t.Error(got)
	}
}

func TestB143_SchedulerFault(t *testing.T) {
	safe := &gated{safe: true}
	refuse := func() func(session.Record) error {
		n := 0
		return func(r session.Record) error {
			if r.Type == loop.RecToolResult {
				if n++; n == 1 {
					return errVeto
				}
			}
			return nil
		}
	}()
	w := vetoed(t, modeltest.New(calls("c1:safe c2:safe c3:safe")).Otherwise(modeltest.Text("ok")), refuse, withTools(safe), func(c *loop.Config) { c.Parallel = 2 })
	safe.w = w
	t.Cleanup(safe.openAll)
	errs := 0
	w.do(func() {
		loop.AgentError.On(w.h.Host, func(loop.ErrorPayload) error { errs++; return nil })
		_ = w.a.Followup(msg("go"))
	})
	w.until("two started", func() bool { w.poke(); return safe.running() == "c1 c2" })
	safe.release("c1", "c2")
	w.wait()
	w.check(w.calling(), "call c1, call c2")
	if errs != 1 || !strings.Contains(w.turns(), "vetoed") {
		t.Error(errs, w.turns())
	}
}

func TestB144_B145_ContextsOfTools(t *testing.T) {
	w := newWorld(t, modeltest.New(calls("c1:echo c2:echo"), modeltest.Text("ok")), withTools(echo{body: func(_ context.Context, x *tool.Exec) {
		x.DeferContext(msg("body " + x.CallID))
	}})).create()
	w.do(func() {
		loop.ToolsExecute.On(w.h.Host, func(c loop.ToolCall, next func(loop.ToolCall) (loop.ToolResult, error)) (loop.ToolResult, error) {
			r, err := next(c)
			r.AdditionalContexts = append(r.AdditionalContexts, msg("wrapper "+c.CallID))
			return r, err
		})
		loop.PostExecute.On(w.h.Host, func(p loop.PostPayload, next func(loop.PostPayload) (loop.PostDecision, error)) (loop.PostDecision, error) {
			d, err := next(p)
			if p.CallID == "c2" {
				return loop.PostDecision{Kind: "block", Feedback: loop.Content{model.Text("blocked")}, AdditionalContexts: []model.Message{msg("block's own")}}, nil
			}
			d.AdditionalContexts = append(d.AdditionalContexts, msg("post "+p.CallID))
			return d, err
		})
	})
	w.prompt("go")
	if got := w.sent(2); !strings.HasSuffix(got, "||blocked|body c1|wrapper c1|post c1|block's own") {
		t.Error(got)
	}
}

func TestB145_ContextsSurviveAFailingBody(t *testing.T) {
	w := newWorld(t, modeltest.New(calls("c1:fails"), modeltest.Text("ok")), withTools(failing{})).create()
	w.prompt("go")
	if got := w.sent(2); !strings.HasSuffix(got, "|Error: broken|kept") {
		t.Error(got)
	}
}

// failing is a tool that fails after it has deferred something.
type failing struct{ err error }

func (failing) Spec() model.ToolSpec { return model.ToolSpec{Name: "fails"} }
func (f failing) Execute(_ context.Context, _ json.RawMessage, x *tool.Exec) (tool.Result, error) {
	x.DeferContext(msg("kept"))
	if f.err != nil {
		return tool.Result{}, f.err
	}
	return tool.Result{}, errors.New("broken")
}

func TestB146_ConcludeTurn(t *testing.T) {
	w := newWorld(t, modeltest.New(calls("c1:echo")), withTools(echo{body: func(_ context.Context, x *tool.Exec) { x.ConcludeTurn() }})).create()
	w.do(func() {
		loop.TurnStopping.On(w.h.Host, func(loop.TurnPayload) error { w.notes.note("stopping"); return nil })
	})
	w.prompt("go")
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
	w.check(w.noted(), "stopping")
	if n := len(w.model.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}
