package main_test

import (
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// TestSeveralAgents: one shell has several agents; what those do that are not at the prompt
// is shown with their names.
func TestSeveralAgents(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, cols: 100}, "--approve", "all")
	s.enter("say in the first")
	s.WaitMatch(`(?m)^in the first$`)
	s.ready()
	s.enter("/agent new review")
	s.WaitFor("agent review, session ")
	s.WaitFor("review · offline")
	s.enter(`call bash {"command":"touch begun; until test -e go || ! test -d $PWD; do sleep 0.02; done; echo from review"}`)
	s.waitFile("begun")
	s.working()
	s.enter("/agent end review")
	s.WaitFor("it is at the prompt")
	s.enter("/agent switch a2")
	s.WaitFor(`there is no agent "a2"; did you mean a1?`)
	s.enter("/agent switch a1")
	s.WaitFor("now with a1")
	s.WaitFor("a1 · offline · 1 more at work")
	s.enter("say meanwhile")
	s.WaitMatch(`(?m)^meanwhile$`)
	s.ready()
	s.enter("/agent")
	s.WaitMatch(`a1 +idle .*\(at the prompt\)\n *review +running`)
	s.write("go", "")
	s.WaitFor("[review]   from review")
	s.WaitFor("[review] bash answered")
	s.ready()
	s.enter("/agent switch review")
	s.WaitFor("now with review")
	s.enter("say back")
	s.WaitMatch(`(?m)^back$`)
	s.ready()
	s.enter("/agent end a1")
	s.WaitFor("a1 has ended")
	s.WaitUntil("a status line without names", func() bool {
		_, y := s.Cursor()
		return s.Row(y+1) == "offline"
	})
	s.quit()
}

// An agent that a script makes is shown with its name too.
func TestAgentsOfScriptsAreShown(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, files: map[string]string{"m.js": `
ctx.command('helper', { description: 'has another agent say something', run: async () => { const a = await ctx.agents.create({}); a.followup('say hello from a helper'); await a.whenIdle(); } });`}}, "--script", "m.js")
	s.WaitFor(" in force: ")
	s.enter("/helper")
	s.WaitFor("[a2] hello from a helper")
	s.Type(repltest.CtrlL)
	s.enter("say here")
	s.WaitMatch(`(?m)^here$`)
	s.quit()
}
