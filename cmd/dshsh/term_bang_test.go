package main_test

import (
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// TestBang: ! runs a command for the person and adds what it gave to the context, !! only
// runs it; scripts judge both, nobody is asked; Ctrl-C ends it, and it runs beside a turn.
func TestBang(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, files: map[string]string{"guard.js": `
ctx.on('tools/pre-execute', { filter: { tool: 'bash' } }, (call, next) => {
  if (call.arguments.command.includes('secret')) return { kind: 'deny', reason: 'not even for ' + call.by };
  return next();
});
ctx.on('tools/post-execute', async (call, next) => {
  const r = await next();
  return { ...r, content: r.content.map((b) => ({ ...b, text: b.text.replace('hunter2', '***') })) };
});`}}, "--script", "guard.js")
	s.WaitFor(" in force: ")
	s.enter("!echo one hunter2; exit 3")
	s.WaitFor("one ***")
	s.WaitFor("1 queued")
	s.enter("!!echo only shown")
	s.WaitMatch(`(?m)^only shown$`)
	s.enter("!cat secret")
	s.WaitFor("not even for user")
	s.enter("!")
	s.WaitFor("!COMMAND runs a command")
	s.enter("!touch begun; sleep 60")
	s.waitFile("begun")
	s.Type(repltest.CtrlC)
	s.WaitFor("cancelling the command")
	s.ready()
	s.enter("say and the model")
	s.WaitMatch(`(?m)^and the model$`)
	s.ready()
	s.quit()
	recs := s.log()
	if n := count(recs, "user/message", `I ran a command:\n$ echo one hunter2; exit 3\none ***`); n != 1 {
		t.Errorf("it is in the context %d times", n)
	}
	for _, word := range []string{"only shown", "sleep 60"} {
		if n := count(recs, "user/message", word); n != 0 {
			t.Errorf("%q is in the context", word)
		}
	}
	if n := count(recs, "tool/call", ""); n != 0 {
		t.Errorf("%d calls of the model", n)
	}
	s.run(place{}, "session", "check")
}
