package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
)

// The error path is a contract of seven lines. The first three are fixtures 3, 4 and 5;
// the rest are here, each in Go, JavaScript and Lua.

type errorCase struct {
	name    string
	golang  func(w *world)
	js, lua string
	answers []modeltest.Answer
	change  []func(*loop.Config)
	prompts int // how often "go" is prompted; default 1
	check   func(t *testing.T, w *world, lang string)
}

var errBroken = errors.New("broken")

// where is how an error names the script's line.
func where(lang, event string) string {
	return map[string]string{"go": "", "js": "f.js:1: " + event + ": ", "lua": "f.lua:1: " + event + ": "}[lang]
}

func call1() []modeltest.Answer {
	return []modeltest.Answer{modeltest.Tool("c1", "echo", `{"text":"r"}`)}
}

var errorCases = []errorCase{
	{
		name:    "4 a throw in tools/pre-execute denies and names script and line",
		answers: call1(),
		golang: func(w *world) {
			loop.PreExecute.On(w.h.Host, func(loop.PreExecutePayload, judgeNext) (loop.Judgement, error) { return loop.Judgement{}, errBroken })
		},
		js:  `ctx.on('tools/pre-execute', () => { throw new Error('broken') })`,
		lua: `ctx.on('tools/pre-execute', function() error('broken') end)`,
		check: func(t *testing.T, w *world, lang string) {
			w.check(w.result(), "c1 error Error: denied, because a policy failed: "+where(lang, "tools/pre-execute")+"broken")
		},
	},
	{
		name:    "4 catching an inner failure does not lift it",
		answers: call1(),
		golang: func(w *world) {
			loop.PreExecute.On(w.h.Host, func(loop.PreExecutePayload, judgeNext) (loop.Judgement, error) { return loop.Judgement{}, errBroken })
		},
		js:  `ctx.on('tools/pre-execute', async (c, next) => { try { await next() } catch (e) {} return { kind: 'allow' } }); ctx.on('tools/pre-execute', () => { throw new Error('broken') })`,
		lua: `ctx.on('tools/pre-execute', function(c, next) pcall(next) return { kind = 'allow' } end) ctx.on('tools/pre-execute', function() error('broken') end)`,
		check: func(t *testing.T, w *world, lang string) {
			if !strings.Contains(w.result(), "broken") {
				t.Error(w.result())
			}
		},
	},
	{
		name:    "4 a throw in approval/request denies",
		answers: call1(),
		change: []func(*loop.Config){withPolicy(testPolicy{def: asks}, func(context.Context, loop.Question) (loop.Answer, error) {
			return loop.Answer{Allow: true}, nil
		})},
		golang: func(w *world) {
			loop.ApprovalRequest.On(w.h.Host, func(loop.ApprovalPayload, func(loop.ApprovalPayload) (loop.Approval, error)) (loop.Approval, error) {
				return loop.Approval{}, errBroken
			})
		},
		js:  `ctx.on('approval/request', () => { throw new Error('broken') })`,
		lua: `ctx.on('approval/request', function() error('broken') end)`,
		check: func(t *testing.T, w *world, lang string) {
			w.check(w.result(), "c1 error Error: denied, because a policy failed: "+where(lang, "approval/request")+"broken")
		},
	},
	{
		name:    "4 a throw in tools/post-execute makes an error result: a redactor fails closed",
		answers: call1(),
		golang: func(w *world) {
			loop.PostExecute.On(w.h.Host, func(loop.PostPayload, postNext) (loop.PostDecision, error) { return loop.PostDecision{}, errBroken })
		},
		js:  `ctx.on('tools/post-execute', () => { throw new Error('broken') })`,
		lua: `ctx.on('tools/post-execute', function() error('broken') end)`,
		check: func(t *testing.T, w *world, lang string) {
			w.check(w.result(), "c1 error Error: "+where(lang, "tools/post-execute")+"broken")
			if strings.Contains(w.sent(2), "|r") {
				t.Error("the result reached the model: ", w.sent(2))
			}
		},
	},
	{
		name: "5 a throw in an emit is contained, told once and recorded",
		golang: func(w *world) {
			loop.TurnStarted.On(w.h.Host, func(loop.TurnPayload) error { return errBroken })
			loop.TurnStarted.On(w.h.Host, func(loop.TurnPayload) error { w.notes.note("the other ran"); return nil })
		},
		js:  `ctx.on('agent/turn-start', () => { throw new Error('broken') }); ctx.on('agent/turn-start', () => { ctx.log('the other ran') })`,
		lua: `ctx.on('agent/turn-start', function() error('broken') end) ctx.on('agent/turn-start', function() ctx.log('the other ran') end)`,
		check: func(t *testing.T, w *world, lang string) {
			w.check(w.noted(), "the other ran")
			w.check(w.skeleton("agent/inbox", "step", "user", "assistant", "hook"), "turn/start 1\nturn/end 1 completed")
			if len(w.notes.failures) != 1 {
				t.Errorf("told %d times", len(w.notes.failures))
			}
			if n := w.logged(loop.RecHookError); lang != "go" && n != 1 {
				t.Errorf("recorded %d times", n)
			}
		},
	},
	{
		name: "6 a rejected promise and a late Lua error are throws",
		golang: func(w *world) {
			loop.TurnStarting.On(w.h.Host, func(p loop.TurnPayload) error { return errBroken })
		},
		js:  `ctx.on('agent/turn-starting', async () => { await ctx.sleep(1); throw new Error('broken') })`,
		lua: `ctx.on('agent/turn-starting', function() ctx.sleep(1) error('broken') end)`,
		check: func(t *testing.T, w *world, lang string) {
			w.check(w.turns(), "turn/start 1\nturn/end 1 error UNKNOWN \"broken\"")
		},
	},
	{
		name:    "6 a deadline is a throw, and blames the script",
		answers: call1(),
		change:  []func(*loop.Config){func(c *loop.Config) { c.Limits = runtime.Limits{Sync: 80, Wall: 300} }},
		golang: func(w *world) {
			loop.PreExecute.On(w.h.Host, func(loop.PreExecutePayload, judgeNext) (loop.Judgement, error) {
				return loop.Judgement{}, fmt.Errorf("slow: %w", runtime.ErrDeadline)
			})
		},
		js:  `ctx.on('tools/pre-execute', () => { while (true) {} })`,
		lua: `ctx.on('tools/pre-execute', function() while true do end end)`,
		check: func(t *testing.T, w *world, lang string) {
			if got := w.result(); !strings.Contains(got, "deadline exceeded") || !strings.Contains(got, strings.TrimSuffix(where(lang, "tools/pre-execute"), "1: tools/pre-execute: ")) {
				t.Error(got)
			}
			w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
		},
	},
	{
		name:    "6 a listener that never settles is given up",
		answers: call1(),
		change:  []func(*loop.Config){func(c *loop.Config) { c.Limits = runtime.Limits{Sync: 80, Wall: 100} }},
		golang: func(w *world) {
			loop.PreExecute.On(w.h.Host, func(loop.PreExecutePayload, judgeNext) (loop.Judgement, error) {
				return loop.Judgement{}, runtime.ErrDeadline
			})
		},
		js:  `ctx.on('tools/pre-execute', () => new Promise(() => {}))`,
		lua: `ctx.on('tools/pre-execute', function() ctx.sleep(60000) end)`,
		check: func(t *testing.T, w *world, lang string) {
			if got := w.result(); !strings.Contains(got, "deadline exceeded") {
				t.Error(got)
			}
		},
	},
	{
		name:    "7 five failures in a row quarantine, and the guard goes on denying",
		answers: repeat(7, call1()[0]),
		prompts: 7,
		js:      `ctx.on('tools/pre-execute', () => { throw new Error('broken') }); ctx.on('agent/turn-start', () => { ctx.log('emit') })`,
		lua:     `ctx.on('tools/pre-execute', function() error('broken') end) ctx.on('agent/turn-start', function() ctx.log('emit') end)`,
		check: func(t *testing.T, w *world, lang string) {
			got := w.results()
			if len(got) != 7 || !strings.Contains(got[4], "broken") || !strings.Contains(got[5], "quarantined") || !strings.Contains(got[6], "quarantined") {
				t.Error(strings.Join(got, "\n"))
			}
			if n := strings.Count(w.noted(), "emit"); n != 5 {
				t.Errorf("its emit listener ran %d times", n)
			}
			if w.logged(loop.RecQuarantined) != 1 || len(w.notes.quarantined) != 1 {
				t.Error("not told once")
			}
		},
	},
	{
		name:    "7 an emit listener that fails five times is skipped alone",
		prompts: 7,
		js:      `ctx.on('agent/turn-start', () => { ctx.log('bad'); throw new Error('broken') }); ctx.on('agent/turn-start', () => { ctx.log('good') })`,
		lua:     `ctx.on('agent/turn-start', function() ctx.log('bad') error('broken') end) ctx.on('agent/turn-start', function() ctx.log('good') end)`,
		check: func(t *testing.T, w *world, lang string) {
			if bad, good := strings.Count(w.noted(), "bad"), strings.Count(w.noted(), "good"); bad != 5 || good != 7 {
				t.Errorf("bad ran %d times, good %d", bad, good)
			}
			if len(w.notes.quarantined) != 0 {
				t.Error(w.notes.quarantined)
			}
		},
	},
	{
		name:    "7 a quarantined agent/pre-step rejects",
		prompts: 7,
		js:      `ctx.on('agent/pre-step', () => { throw new Error('broken') })`,
		lua:     `ctx.on('agent/pre-step', function() error('broken') end)`,
		check: func(t *testing.T, w *world, lang string) {
			var ends []string
			for _, s := range w.types() {
				if strings.HasPrefix(s, loop.RecTurnEnd) {
					ends = append(ends, strings.Fields(s)[2])
				}
			}
			w.check(strings.Join(ends, " "), "error error error error error blocked blocked")
		},
	},
}

func repeat(n int, a modeltest.Answer) (out []modeltest.Answer) {
	for range n {
		out = append(out, a, modeltest.Text("ok"))
	}
	return out
}

func TestErrorPath(t *testing.T) {
	for _, c := range errorCases {
		for _, lang := range []string{"go", "js", "lua"} {
			if lang == "go" && c.golang == nil {
				continue // quarantine is for scripts
			}
			t.Run(c.name+"/"+lang, func(t *testing.T) {
				w := newWorld(t, modeltest.New(c.answers...).Otherwise(modeltest.Text("ok")), append([]func(*loop.Config){withTools(echo{}), withEngines}, c.change...)...)
				switch lang {
				case "go":
					w.do(func() { c.golang(w) })
				case "js":
					w.script("f.js", c.js)
				case "lua":
					w.script("f.lua", c.lua)
				}
				w.create()
				for range max(c.prompts, 1) {
					w.prompt("go")
				}
				c.check(t, w, lang)
			})
		}
	}
}
