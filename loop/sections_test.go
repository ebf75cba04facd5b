package loop_test

import (
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/runtime"
)

// system is the system prompt of the n-th request.
func (w *world) system(n int) string { return w.model.Requests()[n].System }

const sectionsJS = `
ctx.section('late', { order: 10, text: 'Last.' });
ctx.section('asked', { text: async ({ agent }) => { await ctx.sleep(1); return 'For ' + agent.options.model + ' {{model}}.'; } });
ctx.section('quoted', { literal: true, text: '{{as is}}' });
ctx.section('nothing', { text: () => undefined });
const off = ctx.section('gone', { text: 'Gone.' }); off();
let mode = 'slow';
ctx.context('second', { order: 2, text: () => 'Mode ' + mode });
ctx.context('first', { order: 1, text: 'Always.' });
ctx.command('fast', { description: '', run: () => { mode = 'fast'; } });
ctx.on('agent/created', ({ agent }) => { agent.ctx.section('late', { order: 10, text: 'Last for ' + agent.id.slice(0, 0) + 'it.' }); });`

const sectionsLua = `
ctx.section('late', { order = 10, text = 'Last.' })
ctx.section('asked', { text = function(e) ctx.sleep(1) return 'For ' .. e.agent.options.model .. ' {{model}}.' end })
ctx.section('quoted', { literal = true, text = '{{as is}}' })
ctx.section('nothing', { text = function() end })
local off = ctx.section('gone', { text = 'Gone.' })
off()
local mode = 'slow'
ctx.context('second', { order = 2, text = function() return 'Mode ' .. mode end })
ctx.context('first', { order = 1, text = 'Always.' })
ctx.command('fast', { description = '', run = function() mode = 'fast' end })
ctx.on('agent/created', function(e) e.agent.ctx.section('late', { order = 10, text = 'Last for it.' }) end)`

func TestScriptSections(t *testing.T) {
	inBoth(t, sectionsJS, sectionsLua, func(t *testing.T, file, code string) {
		w := newWorld(t, always("ok"), withEngines, func(c *loop.Config) {
			c.Sections = []loop.PromptSection{{Name: "house", Text: "House.", Order: 5}}
		})
		var names []string
		w.do(func() {
			loop.AssemblePrompt.On(w.h.Host, func(p loop.AssemblePayload, next func(loop.AssemblePayload) (loop.Assembly, error)) (loop.Assembly, error) {
				names = nil
				for _, s := range p.Sections {
					names = append(names, s.Name)
				}
				return next(p)
			})
		})
		w.script(file, code)
		w.create()
		w.prompt("one")
		w.check(w.system(0), "For m m.\n\n{{as is}}\n\nHouse.\n\nLast for it.")
		id := "cli/" + file
		w.check(strings.Join(names, " "), "house "+id+"/asked "+id+"/quoted "+id+"/late")
		w.check(w.sent(1), "one|Runtime context, as of now:\n\nAlways.\n\nMode slow")
		w.prompt("two") // unchanged context is not repeated
		w.check(w.sent(2), "one|Runtime context, as of now:\n\nAlways.\n\nMode slow|ok|two")
		if _, err := w.command("fast", ""); err != nil {
			t.Fatal(err)
		}
		w.prompt("three")
		if got := w.sent(3); !strings.HasSuffix(got, "|three|Runtime context, as of now:\n\nAlways.\n\nMode fast") {
			t.Error(got)
		}
		w.do(func() { w.h.Activate(nil) })
		w.prompt("four")
		w.check(w.system(3), "House.")
		if got := w.sent(4); !strings.HasSuffix(got, "|four|Runtime context: none.") {
			t.Error(got)
		}
	})
}

func TestAFailingScriptSectionFailsTheTurn(t *testing.T) {
	for name, tc := range map[string]struct{ js, lua, want string }{
		"throws": {`ctx.section('tone', { text: () => {
throw new Error('no tone') } })`, `ctx.section('tone', { text = function()
error('no tone') end })`, "FILE:2: section tone: no tone"},
		"rejects":   {`ctx.context('tone', { text: async () => { throw new Error('no tone') } })`, `ctx.context('tone', { text = function() ctx.sleep(1) error('no tone') end })`, "FILE:1: context tone: no tone"},
		"no string": {`ctx.section('tone', { text: () => 5 })`, `ctx.section('tone', { text = function() return 5 end })`, "FILE:1: section tone: got number, want string"},
		"malformed": {`ctx.section('tone', { text: () => 'a {{b' })`, `ctx.section('tone', { text = function() return 'a {{b' end })`, `the prompt section "cli/FILE/tone" has a malformed reference: want {{name}}; {{ as it is takes literal: true`},
		"unknown":   {`ctx.section('tone', { text: () => '{{modle}}' })`, `ctx.section('tone', { text = function() return '{{modle}}' end })`, `the prompt section "cli/FILE/tone" refers to an unknown variable "modle" (did you mean "model"?); there are: model, provider; {{ as it is takes literal: true`},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, tc.js, tc.lua, func(t *testing.T, file, code string) {
				w := newWorld(t, always("ok"), withEngines)
				var got []string
				w.do(func() {
					loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error { got = append(got, p.Error.Error()); return nil })
				})
				w.script(file, code)
				w.create()
				w.prompt("go")
				w.check(strings.Join(got, "\n"), strings.ReplaceAll(tc.want, "FILE", file))
				if !strings.Contains(w.turns(), "turn/end 1 error UNKNOWN") || len(w.model.Requests()) != 0 {
					t.Error(w.turns())
				}
				w.do(func() { w.h.Activate(nil) })
				w.prompt("again")
				if !strings.Contains(w.turns(), "turn/end 2 completed") {
					t.Error(w.turns())
				}
			})
		})
	}
}

func TestACancelEndsAScriptSection(t *testing.T) {
	inBoth(t, `ctx.section('slow', { text: async () => { ctx.log('asked'); await ctx.sleep(60000); return ''; } })`,
		`ctx.section('slow', { text = function() ctx.log('asked') ctx.sleep(60000) return '' end })`, func(t *testing.T, file, code string) {
			w := newWorld(t, always("ok"), withEngines)
			w.script(file, code)
			w.create()
			w.do(func() { _ = w.a.Followup(msg("go")) })
			w.until("asked", func() bool { w.poke(); return len(w.notes.logged) == 1 })
			w.a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
			w.wait()
			if !strings.Contains(w.turns(), "turn/end 1 aborted/user") {
				t.Error(w.turns())
			}
		})
}

func TestScriptSectionsAreCheckedAtLoad(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines)
	for code, want := range map[string]string{
		`ctx.section('', { text: 'x' })`: "ctx.section: the name is empty",
		`ctx.section('x', { text: 'On {{modle}}.' })`: `ctx.section: the section "x" refers to an unknown variable "modle" (did you mean "model"?); there are: model, provider; ` +
			"{{ as it is takes literal: true; a variable that a listener adds can be used in a text that is a function",
		`ctx.section('x', {})`:                        `ctx.section: missing field "text"`,
		`ctx.context('x', { text: 5 })`:               "ctx.context: for parameter definition: text: got number, want string or function",
		`ctx.section('x', { text: 'x', ordre: 1 })`:   `ctx.section: for parameter definition: unknown field "ordre" (did you mean "order"?)`,
		`ctx.section('x', { text: 'x', order: 'a' })`: "ctx.section: for parameter definition: order: got string, want whole number",
	} {
		e, _ := w.h.EngineFor("f.js")
		prog, err := e.Compile(runtime.Source{ID: "cli/f.js", File: "f.js", Code: []byte(code)})
		if err != nil {
			t.Fatal(err)
		}
		w.do(func() { _, err = w.h.Load(runtime.ScriptFile{ID: "cli/f.js", File: "f.js", Program: prog}) })
		if err == nil || err.Error() != "f.js:1: "+want {
			t.Errorf("%s: %v", code, err)
		}
	}
}
