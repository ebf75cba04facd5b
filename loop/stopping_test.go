package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool/fs"
	"dshsh/runtime"
)

func TestB169_TurnStoppingFiresAtEveryNaturalStop(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	stops := 0
	w.do(func() {
		loop.TurnStopping.On(w.h.Host, func(p loop.TurnPayload) error {
			stops++
			w.notes.note("stop %d, ended %d", p.Turn, w.logged(loop.RecStepEnd))
			if stops < 3 {
				return w.a.Steer(msg("more"))
			}
			return nil
		})
	})
	w.prompt("go")
	w.check(w.noted(), "stop 1, ended 1\nstop 1, ended 2\nstop 1, ended 3")
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
}

func TestB170_TurnStoppingIsNotFiredWhileAResponseIsOwed(t *testing.T) {
	stops := func(w *world) *int {
		n := new(int)
		w.do(func() { loop.TurnStopping.On(w.h.Host, func(loop.TurnPayload) error { *n++; return nil }) })
		return n
	}
	var w *world
	w = newWorld(t, modeltest.New(modeltest.Tool("c", "echo", "{}"), modeltest.Text("one"), modeltest.Text("two")), withTools(echo{})).create()
	w.onRecord(loop.RecAssistant, func() {})
	n := stops(w)
	w.prompt("go")
	if *n != 1 {
		t.Errorf("tool round: %d", *n)
	}
	w = newWorld(t, always("ok")).create()
	n = stops(w)
	w.onRecord(loop.RecStepEnd, func() { _ = w.a.Steer(msg("already there")) })
	w.prompt("go")
	if *n != 1 || len(w.model.Requests()) != 2 {
		t.Errorf("next-step not empty: %d", *n)
	}
	for name, change := range map[string]func(w *world){
		"blocked": func(w *world) { w.preStep(reject) },
		"error":   func(w *world) { w.model.Otherwise(modeltest.Fail("UNKNOWN", "no")) },
		"empty": func(w *world) {
			w.preStep(func(loop.PreStepPayload, preNext) (loop.StepDecision, error) { return enter(), nil })
		},
		"aborted": func(w *world) { w.onRecord(loop.RecAssistant, func() { w.a.Cancel(byUser, loop.CancelOptions{}) }) },
	} {
		w = newWorld(t, always("ok")).create()
		n = stops(w)
		change(w)
		w.prompt("go")
		if *n != 0 {
			t.Errorf("%s: %d", name, *n)
		}
	}
}

func TestB172_WhatASerialListenerReturnsIsIgnored(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines)
	w.script("a.js", `ctx.on('agent/turn-stopping', () => { ctx.log('a'); return true })`)
	w.script("b.lua", `ctx.on('agent/turn-stopping', function() ctx.log('b') return 'stop' end)`)
	w.script("c.js", `ctx.on('agent/turn-stopping', async () => { await ctx.sleep(1); ctx.log('c') })`)
	w.create().prompt("go")
	w.check(w.noted(), "a\nb\nc")
}

func TestB173_AThrowInTurnStopping(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		first := true
		loop.TurnStopping.On(w.h.Host, func(loop.TurnPayload) error {
			if first {
				first = false
				return errors.New("boom")
			}
			return nil
		})
		loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error { w.notes.note("error %d.%d", p.Turn, p.Step); return nil })
	})
	w.prompt("go")
	w.prompt("again")
	w.check(w.skeleton("agent/inbox", "user", "assistant"), `
		turn/start 1
		step/start 1.1
		step/end 1.1
		turn/end 1 error UNKNOWN "boom"
		turn/start 2
		step/start 2.1
		step/end 2.1
		turn/end 2 completed`)
	w.check(w.noted(), "error 1.1")
}

func TestB174_TurnEndReasons(t *testing.T) {
	// Each kind but interrupted, which only repair writes, is seen in the other tests; here
	// it is that a reader meets them in one vocabulary.
	for _, kind := range []string{loop.EndCompleted, loop.EndMaxTokens, loop.EndBlocked, loop.EndAborted, loop.EndError, loop.EndInterrupted} {
		if kind == "" || strings.ToLower(kind) != kind {
			t.Error(kind)
		}
	}
	w := hung(t)
	w.a.Cancel(loop.Cause{Kind: loop.CauseHook, Reason: "budget"}, loop.CancelOptions{})
	w.wait()
	for _, r := range w.records() {
		if r.Type == loop.RecTurnEnd && string(r.Data) != `{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"hook","reason":"budget"}}}` {
			t.Errorf("%s", r.Data)
		}
	}
}

func TestB175_TheDrainGoesOnOnlyAfterANormalEnd(t *testing.T) {
	cases := map[string]struct {
		answer modeltest.Answer
		change func(w *world)
		turns  int
	}{
		"completed":  {modeltest.Text("ok"), nil, 2},
		"max-tokens": {modeltest.Truncated("cut"), nil, 2},
		"error":      {modeltest.Fail("UNKNOWN", "no"), nil, 1},
		"blocked":    {modeltest.Text("ok"), func(w *world) { w.preStep(onceOnly(reject)) }, 1},
		"empty": {modeltest.Text("ok"), func(w *world) {
			w.preStep(onceOnly(func(loop.PreStepPayload, preNext) (loop.StepDecision, error) { return enter(), nil }))
		}, 1},
	}
	for name, c := range cases {
		w := newWorld(t, modeltest.New(c.answer).Otherwise(modeltest.Text("ok"))).create()
		if c.change != nil {
			c.change(w)
		}
		w.do(func() { _ = w.a.Followup(msg("a")); _ = w.a.Followup(msg("q")) })
		w.wait()
		if n := w.logged(loop.RecTurnStart); n != c.turns {
			t.Errorf("%s: %d turns", name, n)
		}
	}
}

func TestB176_LeftoverNextStepInputAfterTheClose(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		first := true
		loop.TurnStopping.On(w.h.Host, func(loop.TurnPayload) error {
			if first {
				first = false
				return w.a.Steer(msg("more"))
			}
			return nil
		})
	})
	w.preStep(func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) {
		if p.Turn == 1 && p.Step == 2 {
			_ = w.a.Inject(msg("left over"))
			return enter(), nil
		}
		return next(p)
	})
	w.prompt("go")
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed\nturn/start 2\nturn/end 2 completed")
	if got := w.sent(2); got != "go|ok|left over" {
		t.Error(got)
	}
}

func TestB177_AlwaysBalanced(t *testing.T) {
	boom := errors.New("boom")
	points := map[string]func(w *world){
		"assemble": func(w *world) {
			loop.AssemblePrompt.On(w.h.Host, func(loop.AssemblePayload, func(loop.AssemblePayload) (loop.Assembly, error)) (loop.Assembly, error) {
				return loop.Assembly{}, boom
			})
		},
		"pre-step": func(w *world) {
			loop.PreStep.On(w.h.Host, func(loop.PreStepPayload, preNext) (loop.StepDecision, error) { return loop.StepDecision{}, boom })
		},
		"turn-starting": func(w *world) { loop.TurnStarting.On(w.h.Host, func(loop.TurnPayload) error { return boom }) },
		"request": func(w *world) {
			loop.AgentRequest.On(w.h.Host, func(loop.StepPayload, cfgNext) (model.Config, error) { return model.Config{}, boom })
		},
		"stream": func(w *world) {
			loop.LLMStream.On(w.h.Host, func(loop.StreamPayload, func(loop.StreamPayload) (*loop.Reply, error)) (*loop.Reply, error) {
				return nil, boom
			})
		},
		"step-result": func(w *world) {
			loop.StepResultEvent.On(w.h.Host, func(loop.StepResultPayload, func(loop.StepResultPayload) (loop.StepResult, error)) (loop.StepResult, error) {
				return loop.StepResult{}, boom
			})
		},
		"continuation": func(w *world) {
			loop.TurnContinuation.On(w.h.Host, func(loop.TurnPayload, func(loop.TurnPayload) (loop.Continuation, error)) (loop.Continuation, error) {
				return loop.Continuation{}, boom
			})
		},
		"stopping": func(w *world) { loop.TurnStopping.On(w.h.Host, func(loop.TurnPayload) error { return boom }) },
		"panic":    func(w *world) { loop.TurnStarting.On(w.h.Host, func(loop.TurnPayload) error { panic("boom") }) },
		"disposal": func(w *world) {
			loop.TurnStarting.On(w.h.Host, func(loop.TurnPayload) error {
				w.h.Thread.Go(context.Background(), func() { _ = w.a.Dispose() })
				return nil
			})
		},
	}
	for name, install := range points {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, always("ok")).create()
			w.do(func() { install(w) })
			w.prompt("go")
			v := loop.NewValidator()
			for _, r := range w.records() {
				if err := v.Check(r); err != nil {
					t.Fatalf("record %d: %v", r.Seq, err)
				}
				v.Commit(r)
			}
			if !v.(*loop.Validator).Closed() {
				t.Errorf("left open:\n%s", w.skeleton())
			}
		})
	}
}

func TestTurnContinuation(t *testing.T) {
	for file, code := range map[string]string{
		"f.js":  `let n = 0; ctx.on('agent/turn-continuation', () => n++ < 2 ? { kind: 'continue', messages: ['go on ' + n] } : undefined)`,
		"f.lua": `local n = 0 ctx.on('agent/turn-continuation', function() if n < 2 then n = n + 1 return { kind = 'continue', messages = { 'go on ' .. n } } end end)`,
	} {
		w := newWorld(t, always("ok"), withEngines)
		w.script(file, code)
		w.create()
		w.do(func() {
			loop.TurnStopping.On(w.h.Host, func(loop.TurnPayload) error { w.notes.note("stopping"); return nil })
		})
		w.prompt("go")
		if got := w.sent(3); got != "go|ok|go on 1|ok|go on 2" {
			t.Error(file, got)
		}
		w.check(w.noted(), "stopping")
		for _, m := range w.a.Session().Messages() {
			if strings.HasPrefix(texts([]model.Message{m}), "go on") && (m.Source.Kind != model.SourcePlugin || m.Source.Plugin != "cli/"+file) {
				t.Errorf("%+v", m.Source)
			}
		}
	}
	w := newWorld(t, always("ok"), withEngines)
	w.script("f.js", `ctx.on('agent/turn-continuation', () => ({ kind: 'continue' }))`)
	w.create().prompt("go")
	if got := w.turns(); !strings.Contains(got, "needs at least one message") {
		t.Error(got)
	}
}

func TestTheContinuationCap(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines, func(c *loop.Config) { c.Caps.Continuations = 3 })
	w.script("f.js", `ctx.on('agent/turn-stopping', ({ agent }) => { agent.steer('more') })`)
	w.create().prompt("go")
	if n := len(w.model.Requests()); n != 4 || len(w.notes.capped) != 1 {
		t.Errorf("%d requests, %v", n, w.notes.capped)
	}
	w.check(w.skeleton("agent/inbox", "step", "user", "assistant"), "turn/start 1\nturn/end 1 completed")
}

func TestTheCapOnTurnsThatScriptsBegin(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines, func(c *loop.Config) { c.Caps.ScriptTurns = 4 })
	w.script("f.lua", `ctx.on('agent/status', function(e) if e.status == 'idle' then e.agent:followup('again') end end)`)
	w.create().prompt("go")
	if n := w.logged(loop.RecTurnStart); n != 5 || len(w.notes.capped) == 0 {
		t.Errorf("%d turns, %v", n, w.notes.capped)
	}
	w.prompt("a person again")
	if n := w.logged(loop.RecTurnStart); n < 6 {
		t.Errorf("%d turns after the person typed", n)
	}
}

func TestMaxSteps(t *testing.T) {
	w := newWorld(t, modeltest.New().Otherwise(modeltest.Tool("c", "echo", "{}")), withTools(echo{}), func(c *loop.Config) { c.Caps.Steps = 3 }).create()
	w.prompt("go")
	if got := w.turns(); !strings.Contains(got, "turn/end 1 error CAP_STEPS") || w.logged(loop.RecStepStart) != 3 {
		t.Error(got)
	}
}

func TestStepResultReplacesTheMessage(t *testing.T) {
	for file, code := range map[string]string{
		"f.js": `ctx.on('agent/step-result', ({ message }) => message.content[0].type === 'tool-call'
			? { message: { ...message, content: [{ type: 'tool-call', id: 'c1', name: 'echo', arguments: '{"text":"other"}' }] } } : undefined)`,
		"f.lua": `ctx.on('agent/step-result', function(e) if e.message.content[1].type == 'tool-call' then
			local m = e.message:totable() m.content = { { type = 'tool-call', id = 'c1', name = 'echo', arguments = '{"text":"other"}' } } return { message = m } end end)`,
	} {
		w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", `{"text":"r"}`), modeltest.Text("ok")), withTools(echo{}), withEngines)
		w.script(file, code)
		w.create().prompt("go")
		w.check(w.result(), "c1 - other")
	}
}

func TestEveryCataloguedEventFires(t *testing.T) {
	seen := map[string]bool{}
	files := fs.New(fs.Config{Dir: t.TempDir()})
	w := newWorld(t, modeltest.New(modeltest.Fail("SERVER", "x"), modeltest.Tool("c1", "echo", `{"text":"r"}`),
		modeltest.Tool("c2", "write", `{"path":"f","content":"a"}`), modeltest.Tool("c3", "edit", `{"path":"f","old":"a","new":"b"}`),
		modeltest.Tool("c4", "run_code", `{"code":"await tools.echo({text:'x'})"}`),
		modeltest.Text("a"), modeltest.Hang("partial")).Otherwise(modeltest.Text("ok")), withTools(echo{}, files.Write(), files.Edit(), loop.RunCode()), withEngines, withPolicy(testPolicy{def: asks}, func(context.Context, loop.Question) (loop.Answer, error) { return loop.Answer{Allow: true}, nil }))
	var code strings.Builder
	for _, e := range loop.Catalogue().Events() {
		body := ""
		switch e.Name {
		case "agent/request-error":
			body = "return { kind: 'retry' }"
		case "agent/turn-stopping":
			body = "if (!globalThis.once) { globalThis.once = true; e.agent.inject('x'); e.agent.inbox.remove(e.agent.inbox.nextStep[0].id) }"
		}
		fmt.Fprintf(&code, "ctx.on('%s', (e) => { ctx.log('%s'); %s })\n", e.Name, e.Name, body)
	}
	w.script("all.js", code.String())
	w.create()
	w.prompt("go")
	w.do(func() { _ = w.a.Followup(msg("again")) })
	w.streaming("partial")
	w.a.Cancel(byUser, loop.CancelOptions{})
	w.wait()
	w.do(func() {
		loop.TurnStarting.On(w.h.Host, func(loop.TurnPayload) error { return errors.New("for agent/error") })
	})
	w.prompt("fails")
	// What the program around the loop fires.
	w.do(func() {
		h := w.h.Host
		loop.ScriptsLoaded.Fire(h, runtime.Target{}, loop.ScriptsPayload{})
		loop.ScriptsUnloaded.Fire(h, runtime.Target{}, loop.ScriptsPayload{})
		loop.ScriptsReloadFailed.Fire(h, runtime.Target{}, loop.ReloadFailedPayload{Error: errors.New("x")})
		_, _ = loop.ReplInput.Run(h, runtime.Target{}, loop.InputPayload{Agent: w.a}, func(p loop.InputPayload) (loop.Input, error) { return loop.Input{}, nil })
		if err := w.a.Session().Flush(); err != nil {
			t.Error(err)
		}
		if err := w.a.Compact(""); err != nil {
			t.Error(err)
		}
		_ = w.a.Dispose()
	})
	for _, name := range w.notes.logged {
		seen[name] = true
	}
	for _, e := range loop.Catalogue().Events() {
		if !seen[e.Name] {
			t.Errorf("%s never fired", e.Name)
		}
	}
	for _, f := range w.notes.failures {
		t.Error(f.Err)
	}
}

// TestSamples loads every sample of the catalogue in its language: one that does not load
// must not be published.
func TestSamples(t *testing.T) {
	for _, e := range loop.Catalogue().Events() {
		for file, code := range map[string]string{"s.js": e.Samples.JS, "s.lua": e.Samples.Lua} {
			t.Run(e.Name+"/"+file, func(t *testing.T) {
				if code == "" {
					t.Fatal("no sample")
				}
				p := modeltest.New(modeltest.Tool("c1", "echo", `{"text":"r"}`)).Otherwise(modeltest.Text("ok"))
				w := newWorld(t, p, withTools(echo{}, named{name: "bash"}), withEngines)
				w.script(file, code)
				w.create().prompt("go")
				for _, f := range w.notes.failures {
					t.Error(f.Err)
				}
				for _, d := range w.decisions() {
					if d.Decided == "failed" {
						t.Errorf("%+v", d)
					}
				}
				if got := w.turns(); !strings.Contains(got, "turn/end 1 completed") {
					t.Error(got)
				}
			})
		}
	}
}
