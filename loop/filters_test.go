package loop_test

import (
	"strings"
	"testing"
)

// A filter that names a tool which there is not is told of when the first turn begins,
// once, with the nearest name; those of scripts and patterns count.
func TestAFilterThatNamesNoTool(t *testing.T) {
	for file, code := range map[string]string{
		"f.js": `ctx.on('tools/pre-execute', { filter: { tool: ['ecko', 'mine', 'ech*', 'zz*'] } }, () => {})
			ctx.on('agent/created', ({ agent }) => agent.ctx.tool({ name: 'mine', description: 'd', execute: () => 'x' }))`,
		"f.lua": `ctx.on('tools/pre-execute', { filter = { tool = { 'ecko', 'mine', 'ech*', 'zz*' } } }, function() end)
			ctx.on('agent/created', function(e) e.agent.ctx.tool({ name = 'mine', description = 'd', execute = function() return 'x' end }) end)`,
	} {
		t.Run(file, func(t *testing.T) {
			w := newWorld(t, always("ok"), withEngines, withTools(echo{}))
			w.script(file, code)
			w.create()
			if len(w.notes.logged) > 0 {
				t.Errorf("before the first turn: %q", w.notes.logged)
			}
			w.prompt("go")
			w.prompt("again")
			w.check(strings.Join(w.notes.logged, "\n"), `line 1: the filter of tools/pre-execute names the tool "ecko", which there is not (did you mean "echo"?)
				line 1: the filter of tools/pre-execute names the tool "zz*", which there is not`)
		})
	}
}
