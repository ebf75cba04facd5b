package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/policy"
	"dshsh/loop/tool"
)

type judgeNext = func(loop.PreExecutePayload) (loop.Judgement, error)

// judge adds a Go listener to tools/pre-execute.
func (w *world) judge(fn func(p loop.PreExecutePayload, next judgeNext) (loop.Judgement, error)) {
	w.do(func() { loop.PreExecute.On(w.h.Host, fn) })
}

type postNext = func(loop.PostPayload) (loop.PostDecision, error)

func (w *world) post(fn func(p loop.PostPayload, next postNext) (loop.PostDecision, error)) {
	w.do(func() { loop.PostExecute.On(w.h.Host, fn) })
}

// oneCall makes a world that calls echo once, with text "r".
func oneCall(t *testing.T, change ...func(*loop.Config)) *world {
	p := modeltest.New(modeltest.Tool("c1", "echo", `{"text":"r"}`)).Otherwise(modeltest.Text("ok"))
	return newWorld(t, p, append([]func(*loop.Config){withTools(echo{})}, change...)...)
}

func (w *world) result() string { return strings.Join(w.results(), "\n") }

// testPolicy is a policy for tests.
type testPolicy struct {
	def   func(policy.Call) policy.Decision
	guard func(policy.Call) policy.Decision
}

func (g testPolicy) Default(c policy.Call) policy.Decision {
	if g.def == nil {
		return policy.Decision{Kind: policy.Allow}
	}
	return g.def(c)
}

func (g testPolicy) Guard(c policy.Call) policy.Decision {
	if g.guard == nil {
		return policy.Decision{}
	}
	return g.guard(c)
}

func asks(policy.Call) policy.Decision { return policy.Decision{Kind: policy.Ask, Reason: "it asks"} }

func withPolicy(g testPolicy, approve func(context.Context, loop.Question) (loop.Answer, error)) func(*loop.Config) {
	return func(c *loop.Config) { c.Policy, c.Approve = g, approve }
}

func TestB149_StageOrder(t *testing.T) {
	note := func(w **world, what string) func(policy.Call) policy.Decision {
		return func(policy.Call) policy.Decision {
			(*w).notes.note("%s", what)
			return policy.Decision{Kind: policy.Ask}
		}
	}
	var w *world
	w = oneCall(t, withTools(finalizing{echo: echo{body: func(context.Context, *tool.Exec) { w.do(func() { w.notes.note("body") }) }}, note: func() { w.notes.note("finalize") }}),
		withPolicy(testPolicy{def: note(&w, "default"), guard: func(policy.Call) policy.Decision { w.notes.note("guard"); return policy.Decision{} }},
			func(context.Context, loop.Question) (loop.Answer, error) {
				w.notes.note("person")
				return loop.Answer{Allow: true}, nil
			})).create()
	w.judge(func(p loop.PreExecutePayload, next judgeNext) (loop.Judgement, error) {
		w.notes.note("pre")
		return next(p)
	})
	w.do(func() {
		loop.ApprovalRequest.On(w.h.Host, func(p loop.ApprovalPayload, next func(loop.ApprovalPayload) (loop.Approval, error)) (loop.Approval, error) {
			w.notes.note("approval")
			return next(p)
		})
		loop.ToolsExecute.On(w.h.Host, func(c loop.ToolCall, next func(loop.ToolCall) (loop.ToolResult, error)) (loop.ToolResult, error) {
			w.notes.note("execute")
			return next(c)
		})
		loop.ToolsResult.On(w.h.Host, func(loop.PostPayload) error { w.notes.note("result"); return nil })
	})
	w.post(func(p loop.PostPayload, next postNext) (loop.PostDecision, error) {
		w.notes.note("post")
		return next(p)
	})
	w.prompt("go")
	w.check(w.noted(), "pre\ndefault\nguard\napproval\nperson\nexecute\nbody\npost\nfinalize\nresult")
	w.check(w.skeleton("agent/inbox", "turn", "step", "user", "assistant"), "tool/call\napproval/asked\napproval/decided\ntool/result")
}

// finalizing is a tool that puts the last hand to its content.
type finalizing struct {
	echo
	note  func()
	final func(content []model.Block, isError bool) ([]model.Block, error)
}

func (f finalizing) FinalizeContent(content []model.Block, isError bool) ([]model.Block, error) {
	if f.note != nil {
		f.note()
	}
	if f.final != nil {
		return f.final(content, isError)
	}
	return nil, nil
}

func TestB150_Deny(t *testing.T) {
	for file, code := range map[string]string{
		"f.js":  `ctx.on('tools/pre-execute', { filter: { tool: 'echo' } }, () => ({ kind: 'deny', reason: 'not here' }))`,
		"f.lua": `ctx.on('tools/pre-execute', { filter = { tool = 'echo' } }, function() return { kind = 'deny', reason = 'not here' } end)`,
	} {
		w := oneCall(t, withEngines, withTools(echo{body: func(context.Context, *tool.Exec) { t.Error("the body ran") }}))
		w.script(file, code)
		w.create()
		w.post(func(p loop.PostPayload, next postNext) (loop.PostDecision, error) {
			w.notes.note("post")
			return next(p)
		})
		w.prompt("go")
		w.check(w.result(), "c1 error Error: not here")
		w.check(w.noted(), "post")
		if d := w.decisions(); len(d) != 1 || d[0].Decided != "deny" || d[0].CallID != "c1" || string(d[0].Input) != `{"text":"r"}` {
			t.Errorf("%s: %+v", file, d)
		}
	}
}

// decisions lists the hook/decision records.
func (w *world) decisions() (out []loop.HookDecision) {
	for _, r := range w.records() {
		if d, ok := decoded[loop.HookDecision](r, loop.RecHookDecision); ok {
			out = append(out, d)
		}
	}
	return out
}

func TestB151_Ask(t *testing.T) {
	answer := func(a loop.Answer, err error) func(context.Context, loop.Question) (loop.Answer, error) {
		return func(context.Context, loop.Question) (loop.Answer, error) { return a, err }
	}
	cases := []struct {
		name          string
		approve       func(context.Context, loop.Question) (loop.Answer, error)
		want, outcome string
	}{
		{"nobody", nil, "c1 error Error: it asks (nobody is there to approve it)", "unavailable"},
		{"yes", answer(loop.Answer{Allow: true}, nil), "c1 - r", "allowed-once"},
		{"no", answer(loop.Answer{}, nil), "c1 error Error: the user said no", "rejected"},
		{"no with a reason", answer(loop.Answer{Reason: "not now"}, nil), "c1 error Error: not now", "rejected"},
		{"failed", answer(loop.Answer{}, errors.New("no terminal")), "c1 error Error: denied, because a policy failed: no terminal", "unavailable"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := oneCall(t, withPolicy(testPolicy{def: asks}, c.approve)).create()
			w.prompt("go")
			w.check(w.result(), c.want)
			for _, r := range w.records() {
				if d, ok := decoded[loop.ApprovalDecided](r, loop.RecApprovalDecided); ok && d.Outcome != c.outcome {
					t.Errorf("recorded %s, want %s", d.Outcome, c.outcome)
				}
			}
		})
	}
	t.Run("cancelled while it is asked", func(t *testing.T) {
		var w *world
		w = oneCall(t, withPolicy(testPolicy{def: asks}, func(ctx context.Context, q loop.Question) (loop.Answer, error) {
			w.a.Cancel(byUser, loop.CancelOptions{})
			if ctx.Err() == nil {
				t.Error("the approver has another signal")
			}
			return loop.Answer{Allow: true}, nil
		})).create()
		w.prompt("go")
		if !strings.Contains(w.result(), "ABORTED_BEFORE_DISPATCH") {
			t.Error(w.result())
		}
	})
	t.Run("a script's allow does not lift it, its deny decides", func(t *testing.T) {
		for code, want := range map[string]string{
			`ctx.on('approval/request', () => ({ kind: 'allow' }))`:                 "c1 error Error: it asks (nobody is there to approve it)",
			`ctx.on('approval/request', () => ({ kind: 'deny', reason: 'never' }))`: "c1 error Error: never",
			`ctx.on('approval/request', () => { throw new Error('broken') })`:       "c1 error Error: denied, because a policy failed: f.js:1: approval/request: broken",
			`ctx.on('tools/pre-execute', () => ({ kind: 'allow' }))`:                "c1 error Error: it asks (nobody is there to approve it)",
		} {
			w := oneCall(t, withEngines, withPolicy(testPolicy{def: asks}, nil))
			w.script("f.js", code)
			w.create().prompt("go")
			w.check(w.result(), want)
		}
	})
}

func TestGuardsRunLastOnTheFinalArguments(t *testing.T) {
	g := testPolicy{guard: func(c policy.Call) policy.Decision {
		if strings.Contains(string(c.Args), "forbidden") {
			return policy.Decision{Kind: policy.Deny, Reason: "protected"}
		}
		return policy.Decision{}
	}}
	w := oneCall(t, withEngines, withPolicy(g, nil))
	w.script("f.js", `ctx.on('tools/pre-execute', () => ({ kind: 'allow', arguments: { text: 'forbidden' } }))`)
	w.create().prompt("go")
	w.check(w.result(), "c1 error Error: protected")
}

func TestR006_ALaterAbstentionKeepsARewrite(t *testing.T) {
	rewrite := map[string]string{
		"js":  `ctx.on('tools/pre-execute', (c) => c.pass === 1 ? { kind: 'allow', arguments: { text: 'NEW' } } : undefined)`,
		"lua": `ctx.on('tools/pre-execute', function(c) if c.pass == 1 then return { kind = 'allow', arguments = { text = 'NEW' } } end end)`,
	}
	through := map[string]string{
		"js":  `ctx.on('tools/pre-execute', (c, next) => next({ arguments: { text: 'NEW' } }))`,
		"lua": `ctx.on('tools/pre-execute', function(c, next) return next({ arguments = { text = 'NEW' } }) end)`,
	}
	nothing := map[string]string{"js": `ctx.on('tools/pre-execute', () => ({}))`, "lua": `ctx.on('tools/pre-execute', function() end)`}
	for _, a := range []map[string]string{rewrite, through} {
		for _, langs := range [][2]string{{"js", "lua"}, {"lua", "js"}} {
			for _, first := range []bool{true, false} {
				w := oneCall(t, withEngines)
				if first {
					w.script("a."+langs[0], a[langs[0]])
				}
				w.script("b."+langs[1], nothing[langs[1]])
				if !first {
					w.script("c."+langs[0], a[langs[0]])
				}
				w.create().prompt("go")
				w.check(w.result(), "c1 - NEW")
				found := false
				for _, r := range w.records() {
					if d, ok := decoded[loop.ToolRewritten](r, loop.RecToolRewritten); ok {
						found = string(d.Arguments) == `{"text":"NEW"}` && len(d.By) == 1
					}
					if d, ok := decoded[loop.ToolCallRecord](r, loop.RecToolCall); ok && d.Arguments != `{"text":"r"}` {
						t.Error("the call's record was rewritten")
					}
				}
				if !found {
					t.Error("no tool/rewritten")
				}
			}
		}
	}
}

func TestRewrittenArgumentsAreJudgedAgain(t *testing.T) {
	cases := map[string]struct{ outer, inner, want string }{
		"an outer guard sees what an inner layer made": {
			`ctx.on('tools/pre-execute', (c) => c.arguments.text === 'bad' ? { kind: 'deny', reason: 'bad text' } : undefined)`,
			`ctx.on('tools/pre-execute', (c) => c.pass === 1 ? { kind: 'allow', arguments: { text: 'bad' } } : undefined)`,
			"c1 error Error: bad text"},
		"its author may say it again": {
			`ctx.on('tools/pre-execute', () => undefined)`,
			`ctx.on('tools/pre-execute', (c) => ({ kind: 'allow', arguments: { text: c.arguments.text + '!' } }))`,
			"c1 - r!"},
		"another's second rewrite is a denial": {
			`ctx.on('tools/pre-execute', (c) => c.pass === 2 ? { kind: 'allow', arguments: { text: 'other' } } : undefined)`,
			`ctx.on('tools/pre-execute', (c) => c.pass === 1 ? { kind: 'allow', arguments: { text: 'new' } } : undefined)`,
			"c1 error Error: cli/a.js: rewrites arguments that have already been judged"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := oneCall(t, withEngines)
			w.script("a.js", c.outer)
			w.script("b.js", c.inner)
			w.create().prompt("go")
			w.check(w.result(), c.want)
		})
	}
}

func TestR005_FailedIsNotAbstained(t *testing.T) {
	w := oneCall(t, withEngines)
	w.script("a.js", `ctx.on('tools/pre-execute', () => { throw new Error('broken') })`)
	w.script("b.lua", `ctx.on('tools/pre-execute', function() end)`)
	w.create().prompt("go")
	w.check(w.result(), "c1 error Error: denied, because a policy failed: a.js:1: tools/pre-execute: broken")
	d := w.decisions()
	if len(d) != 1 || d[0].Decided != "failed" || d[0].Layers[0].Outcome != "failed" {
		t.Errorf("%+v", d)
	}
}

func TestR004_AGuardIsNeverSwitchedOffQuietly(t *testing.T) {
	p := modeltest.New()
	for range 7 {
		p.Add(modeltest.Tool("c1", "echo", `{"text":"r"}`), modeltest.Text("ok"))
	}
	w := newWorld(t, p, withTools(echo{body: func(context.Context, *tool.Exec) { t.Error("a call ran") }}), withEngines)
	w.script("g.js", `let n = 0; ctx.on('tools/pre-execute', () => { if (++n <= 5) throw new Error('broken ' + n); return { kind: 'deny', reason: 'no' } })`)
	w.create()
	for range 7 {
		w.prompt("go")
	}
	if len(w.notes.quarantined) != 1 || w.logged(loop.RecQuarantined) != 1 {
		t.Errorf("quarantined: %v, %d records", w.notes.quarantined, w.logged(loop.RecQuarantined))
	}
	if got := w.results(); len(got) != 7 || !strings.Contains(got[6], "quarantined") {
		t.Error(got)
	}
}

func TestB155_PostExecute(t *testing.T) {
	cases := map[string]struct{ code, want string }{
		"accept":               {`{ kind: 'accept' }`, "c1 - r"},
		"content":              {`{ kind: 'accept', content: 'new' }`, "c1 - new"},
		"blocks":               {`{ kind: 'accept', content: [{ type: 'text', text: 'new' }] }`, "c1 - new"},
		"value":                {`{ kind: 'accept', value: { a: 1 } }`, `c1 - {"a":1}`},
		"content and value":    {`{ kind: 'accept', content: 'x', value: 1 }`, "c1 error Error: f.js:1: tools/post-execute: the answer does not fit: content and value exclude each other"},
		"block":                {`{ kind: 'block', feedback: 'not that' }`, "c1 error not that"},
		"block without words":  {`{ kind: 'block' }`, "c1 error Error: the result was blocked by a policy"},
		"feedback with accept": {`{ kind: 'accept', feedback: 'x' }`, `c1 error Error: f.js:1: tools/post-execute: the answer does not fit: "feedback" belongs to {kind:"block"}`},
		"an unknown kind":      {`{ kind: 'acept' }`, `c1 error Error: f.js:1: tools/post-execute: the answer does not fit: unknown kind "acept" (did you mean "accept"?)`},
		"nothing":              {`undefined`, "c1 - r"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := oneCall(t, withEngines)
			w.script("f.js", `ctx.on('tools/post-execute', () => (`+c.code+`))`)
			w.create().prompt("go")
			w.check(w.result(), c.want)
		})
	}
}

func TestR009_ReplacedTextDoesNotReachTheModel(t *testing.T) {
	for file, code := range map[string]string{
		"f.js":  `ctx.on('tools/post-execute', ({ result }) => ({ kind: 'accept', content: result.content[0].text.replaceAll('TOPSECRET7', '[cut]') }))`,
		"f.lua": `ctx.on('tools/post-execute', function(e) return { kind = 'accept', content = (e.result.content[1].text:gsub('TOPSECRET7', '[cut]')) } end)`,
	} {
		p := modeltest.New(modeltest.Tool("c1", "echo", `{"text":"is"}`)).Otherwise(modeltest.Text("ok"))
		w := newWorld(t, p, withTools(secret{}), withEngines)
		w.script(file, code)
		w.create().prompt("go")
		if got := w.sent(2); got != "go||it is [cut]" {
			t.Error(file, got)
		}
		for _, r := range w.records() {
			if strings.Contains(string(r.Data), "TOPSECRET7") {
				t.Errorf("%s: the log holds it: %s", file, r.Data)
			}
		}
	}
}

type secret struct{ echo }

func (secret) Execute(context.Context, json.RawMessage, *tool.Exec) (tool.Result, error) {
	return tool.TextResult("it is TOPSECRET7"), nil
}

func TestR010_AfterHooksSeeFailures(t *testing.T) {
	p := modeltest.New(calls("ok:echo bad:fails gone:nope no:denied")).Otherwise(modeltest.Text("x"))
	w := newWorld(t, p, withTools(echo{}, failing{}, named{name: "denied"}), withEngines)
	w.script("f.js", `
		ctx.on('tools/pre-execute', { filter: { tool: 'denied' } }, () => ({ kind: 'deny', reason: 'no' }))
		ctx.on('tools/post-execute', ({ callId, result }) => { ctx.log(callId + ' ' + result.isError) })`)
	w.create().prompt("go")
	w.check(w.noted(), "ok false\nbad true\ngone true\nno true")
}

func TestB156_ThrowingListenersAreErrorResults(t *testing.T) {
	for event, want := range map[string]string{
		"tools/pre-execute":  "c1 error Error: denied, because a policy failed: f.js:1: tools/pre-execute: broken",
		"tools/execute":      "c1 X7 Error: f.js:1: tools/execute: broken",
		"tools/post-execute": "c1 X7 Error: f.js:1: tools/post-execute: broken",
	} {
		w := oneCall(t, withEngines)
		w.script("f.js", `ctx.on('`+event+`', () => { throw Object.assign(new Error('broken'), { code: 'X7' }) })`)
		w.create().prompt("go")
		if got := w.result(); event != "tools/pre-execute" && got != want || event == "tools/pre-execute" && !strings.Contains(got, "f.js:1: tools/pre-execute: broken") {
			t.Errorf("%s: %s", event, got)
		}
		w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
	}
}

func TestB157_UnknownTool(t *testing.T) {
	w := newWorld(t, modeltest.New(calls("c1:ecko"), modeltest.Text("ok")), withTools(echo{})).create()
	w.judge(func(p loop.PreExecutePayload, next judgeNext) (loop.Judgement, error) {
		w.notes.note("%s", p.Name)
		return next(p)
	})
	w.prompt("go")
	w.check(w.noted(), "ecko")
	w.check(w.result(), `c1 UNKNOWN_TOOL Error: unknown tool "ecko" (did you mean "echo"?)`)
}

type badValue struct{ echo }

func (badValue) Execute(context.Context, json.RawMessage, *tool.Exec) (tool.Result, error) {
	return tool.Result{Value: json.RawMessage("{no")}, nil
}

func TestB159_InvalidOutput(t *testing.T) {
	w := oneCall(t, withTools(badValue{})).create()
	seen := false
	w.post(func(p loop.PostPayload, next postNext) (loop.PostDecision, error) {
		seen = p.Result.IsError
		return next(p)
	})
	w.prompt("go")
	if !strings.HasPrefix(w.result(), "c1 INVALID_TOOL_OUTPUT") || !seen {
		t.Error(w.result(), seen)
	}
	w = newWorld(t, modeltest.New(calls("c1:s"), modeltest.Text("ok")), withEngines)
	w.script("f.js", `ctx.tool({ name: 's', description: 'x', execute: () => 7 })`)
	w.create().prompt("go")
	if !strings.HasPrefix(w.result(), "c1 INVALID_TOOL_OUTPUT") {
		t.Error(w.result())
	}
}

func TestB160_CodedFailures(t *testing.T) {
	w := newWorld(t, modeltest.New(calls("c1:fails"), modeltest.Text("ok")), withTools(failing{err: &tool.Error{Name: "Boom", Code: "BOOM", Message: "bang"}})).create()
	w.prompt("go")
	w.check(w.result(), "c1 BOOM Error: bang")
}

func TestB162_FinalizeContent(t *testing.T) {
	n := 0
	w := oneCall(t, withTools(finalizing{note: func() { n++ }, final: func(c []model.Block, isError bool) ([]model.Block, error) {
		return append(c, model.Text(" (final)")), nil
	}})).create()
	w.judge(func(loop.PreExecutePayload, judgeNext) (loop.Judgement, error) {
		return loop.Judgement{}, errors.New("policy")
	})
	w.prompt("go")
	if n != 1 || !strings.HasSuffix(w.result(), "policy (final)") {
		t.Error(n, w.result())
	}
	w = oneCall(t, withTools(finalizing{final: func([]model.Block, bool) ([]model.Block, error) { return nil, errors.New("last hand") }})).create()
	w.prompt("go")
	w.check(w.result(), "c1 error Error: last hand")
}

func TestB163_ToolsResult(t *testing.T) {
	w := oneCall(t).create()
	w.do(func() {
		for range 2 {
			loop.ToolsResult.On(w.h.Host, func(p loop.PostPayload) error {
				w.notes.note("%s", p.Result.Content[0].Text)
				return errors.New("contained")
			})
		}
	})
	w.prompt("go")
	w.check(w.noted(), "r\nr")
	if len(w.notes.failures) != 2 {
		t.Errorf("%d failures", len(w.notes.failures))
	}
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
}

func TestB164_B165_CancellationCodes(t *testing.T) {
	cancel := func(w *world) { w.a.Cancel(byUser, loop.CancelOptions{KeepInbox: true}) }
	t.Run("a body that ignores the signal is waited for", func(t *testing.T) {
		var w *world
		w = oneCall(t, withTools(echo{body: func(_ context.Context, x *tool.Exec) { x.DeferContext(msg("kept")); cancel(w) }})).create()
		w.prompt("go")
		w.check(w.result(), "c1 ABORTED Error: tool call aborted")
		w.do(func() {
			if texts(w.a.Inbox().NextStep()) != "kept" {
				t.Error(texts(w.a.Inbox().NextStep()))
			}
		})
	})
	t.Run("a failure keeps its own error", func(t *testing.T) {
		var w *world
		w = newWorld(t, modeltest.New(calls("c1:echo")), withTools(cancelFail{cancel: func() { cancel(w) }})).create()
		w.prompt("go")
		w.check(w.result(), "c1 error Error: its own")
	})
	t.Run("in a wrapper after the body", func(t *testing.T) {
		w := oneCall(t).create()
		w.do(func() {
			loop.ToolsExecute.On(w.h.Host, func(c loop.ToolCall, next func(loop.ToolCall) (loop.ToolResult, error)) (loop.ToolResult, error) {
				r, err := next(c)
				cancel(w)
				return r, err
			})
		})
		w.prompt("go")
		w.check(w.result(), "c1 ABORTED Error: tool call aborted")
	})
	t.Run("in post-execute", func(t *testing.T) {
		w := oneCall(t).create()
		w.post(func(p loop.PostPayload, next postNext) (loop.PostDecision, error) { cancel(w); return next(p) })
		w.prompt("go")
		w.check(w.result(), "c1 ABORTED Error: tool call aborted")
	})
}

type cancelFail struct {
	echo
	cancel func()
}

func (c cancelFail) Execute(context.Context, json.RawMessage, *tool.Exec) (tool.Result, error) {
	c.cancel()
	return tool.Result{}, errors.New("its own")
}

func TestB167_Visibility(t *testing.T) {
	w := newWorld(t, always("ok"), withTools(named{name: "a"}, named{name: "b"}, named{name: "c"})).create()
	offered := func() string {
		w.prompt("x")
		var got []string
		for _, s := range w.model.Last().Tools {
			got = append(got, s.Name+":"+s.Description)
		}
		return strings.Join(got, " ")
	}
	var lift1, lift2 func()
	w.do(func() {
		var err error
		if lift1, err = w.a.Restrict([]string{"a", "b"}, nil); err != nil {
			t.Error(err)
		}
		if lift2, err = w.a.Restrict(nil, []string{"b"}); err != nil {
			t.Error(err)
		}
		if _, err = w.a.Restrict([]string{"aa"}, nil); err == nil {
			t.Error("an unknown name was taken")
		}
		_ = w.a.Use(own{named{name: "c"}})
	})
	const text = "Gives back its text."
	w.check(offered(), "a:"+text+" c:own")
	w.do(lift2)
	w.check(offered(), "a:"+text+" b:"+text+" c:own")
	w.do(lift1)
	w.check(offered(), "a:"+text+" b:"+text+" c:own")
	w.do(func() { w.a, _ = w.h.Create(loop.CreateOptions{Options: loop.Options{Provider: "fake", Model: "m"}}) })
	w.check(offered(), "a:"+text+" b:"+text+" c:"+text)
}

type own struct{ named }

func (o own) Spec() model.ToolSpec {
	s := o.named.Spec()
	s.Description = "own"
	return s
}
