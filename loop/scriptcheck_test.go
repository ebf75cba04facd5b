package loop_test

import (
	"strings"
	"testing"

	"dshsh/loop"
)

// A filter or an approval that names a tool which there is not is told of before the first
// turn begins, once, with the nearest name; those of scripts and patterns count.
func TestAFilterThatNamesNoTool(t *testing.T) {
	for file, code := range map[string]string{
		"f.js": `ctx.on('tools/pre-execute', { filter: { tool: ['ecko', 'mine', 'ech*', 'zz*'] } }, () => {})
			ctx.need({ approve: ['ecko', 'mine', 'ech*'] })
			ctx.on('agent/created', ({ agent }) => agent.ctx.tool({ name: 'mine', description: 'd', execute: () => 'x' }))`,
		"f.lua": `ctx.on('tools/pre-execute', { filter = { tool = { 'ecko', 'mine', 'ech*', 'zz*' } } }, function() end)
			ctx.need({ approve = { 'ecko', 'mine', 'ech*' } })
			ctx.on('agent/created', function(e) e.agent.ctx.tool({ name = 'mine', description = 'd', execute = function() return 'x' end }) end)`,
	} {
		t.Run(file, func(t *testing.T) {
			w := newWorld(t, always("ok"), withEngines, withTools(echo{}))
			w.script(file, code)
			w.create()
			w.until("told", func() bool { w.poke(); return len(w.notes.logged) > 0 })
			w.prompt("go")
			w.prompt("again")
			w.check(strings.Join(w.notes.logged, "\n"), `line 1: the filter of tools/pre-execute names the tool "ecko", which there is not (did you mean "echo"?)
				line 1: the filter of tools/pre-execute names the tool "zz*", which there is not
				ctx.need: approve names the tool "ecko", which there is not (did you mean "echo"?)`)
		})
	}
}

// Of two tools or commands of one name the later is in force, which is said when either of
// them comes into force.
func TestTwins(t *testing.T) {
	for lang, code := range map[string]string{
		"js":  "ctx.tool({ name: 'mine', description: 'd', execute: () => 'FILE' })\nctx.command('deploy', { description: 'd', run: () => 'FILE' })\nctx.command('own-FILE', { description: 'd', run: () => '' })",
		"lua": "ctx.tool({ name = 'mine', description = 'd', execute = function() return 'FILE' end })\nctx.command('deploy', { description = 'd', run = function() return 'FILE' end })\nctx.command('own-FILE', { description = 'd', run = function() end })",
	} {
		t.Run(lang, func(t *testing.T) {
			w := newWorld(t, always("ok"), withEngines, withTools(echo{}))
			w.create()
			for _, file := range []string{"a." + lang, "b." + lang} {
				w.script(file, strings.ReplaceAll(code, "FILE", file[:1]))
			}
			w.until("told", func() bool { w.poke(); return len(w.notes.logged) >= 2 })
			w.prompt("go")
			w.check(strings.Join(w.notes.logged, "\n"), strings.ReplaceAll(`the tool mine is also in a.X:1; that of b.X:1 is in force, since it comes later
				the command deploy is also in a.X:2; that of b.X:2 is in force, since it comes later`, "X", lang))
			w.do(func() {
				if r := w.h.Current().Find(loop.OfferCommand, "deploy", w.a); r == nil || r.Instance.File != "b."+lang {
					t.Error("another one is in force")
				}
			})
		})
	}
}
