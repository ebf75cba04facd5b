package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// TestGoingBack: /rewind lists the turns and goes back before one, with its prompt in the
// line; /fork copies; /sessions lists what there is, with titles, and /resume takes a number.
func TestGoingBack(t *testing.T) {
	t.Parallel()
	s := opened(t, place{cols: 120}, "--approve", "all")
	s.enter("/rewind")
	s.WaitFor("there is no turn to go back to")
	s.enter("say the first")
	s.WaitMatch(`(?m)^the first$`)
	s.enter("say the second")
	s.WaitMatch(`(?m)^the second$`)
	s.ready()
	s.enter("/rewind")
	s.WaitFor("  1  say the first")
	s.WaitFor("  2  say the second")
	s.enter("/rewind 7")
	s.WaitFor("/rewind N: a turn from 1 to 2")
	s.enter("/rewind 2")
	s.WaitFor("back before turn 2: this is session ")
	s.WaitFor("> say the second")
	s.Type(repltest.CtrlU, "say something else", repltest.Enter)
	s.WaitMatch(`(?m)^something else$`)
	s.ready()
	s.clear()
	s.enter("/fork")
	s.WaitFor("forked: this is session ")
	s.enter("say in the fork")
	s.WaitMatch(`(?m)^in the fork$`)
	s.ready()
	s.clear()
	s.enter("/sessions")
	s.WaitFor("/resume N or /resume ID")
	if n := strings.Count(s.text(), "  say the first"); n != 3 {
		t.Errorf("%d of 3 sessions are listed with their first prompt", n)
	}
	s.in(" 1  ", "  (this one)  say the first")
	s.enter("/resume 3")
	s.WaitMatch(`(?m)^the second$`)
	s.ready()
	s.enter("/export copy.md")
	s.WaitFor("written: ")
	s.enter("/export copy.md")
	s.WaitFor("file exists")
	s.quit()
	text, err := os.ReadFile(filepath.Join(s.dir, "copy.md"))
	if err != nil || !strings.Contains(string(text), "the second") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestShow opens a call whose result was shown in part, also of turns that a resume did not
// show.
func TestShow(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60}, "--approve", "all")
	s.enter("/show")
	s.WaitFor("no tool has been called")
	s.enter(`call bash {"command":"seq 100 130"}`)
	s.WaitFor("... 25 more lines (/show 1)")
	s.ready()
	for _, word := range []string{"one", "two", "three"} {
		s.enter("say " + word)
		s.WaitMatch(`(?m)^` + word + `$`)
		s.ready()
	}
	s.quit()
	s = opened(t, place{dir: s.dir, home: s.home, rows: 60}, "--continue", "--approve", "all")
	s.WaitFor("... 1 earlier turns")
	s.enter("/show 1")
	s.WaitFor("command: seq 100 130")
	s.WaitFor("  130\n")
	s.clear()
	s.enter(`call bash {"command":"seq 200 220"}`)
	s.WaitFor("... 15 more lines (/show 2)")
	s.ready()
	s.enter("/show 3")
	s.WaitFor("/show N: a tool call from 1 to 2")
	s.quit()
}

// TestQueueIsEdited: what waits is removed, moved and changed by the numbers that were
// shown, which never mean another message than they did.
func TestQueueIsEdited(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60}, "--approve", "all")
	s.enter(waits)
	s.waitFile("begun")
	s.working()
	for i, word := range []string{"a", "b", "c"} {
		s.enter(">> say " + word)
		s.WaitFor("queued: " + string(rune('1'+i)) + " waiting")
	}
	s.enter("/queue")
	s.WaitFor("3: say c")
	s.enter("/queue mv 3 1")
	s.WaitFor("1: say c\n2: say a\n3: say b")
	s.enter("/queue rm 2")
	s.WaitFor("[1 message taken back from the queue]")
	s.enter("/queue rm 2") // b has moved up; 2 was a, and still means it
	s.WaitFor("/queue rm: message 2 is gone")
	s.enter("/queue edit 3")
	s.WaitFor("> /queue edit 2 say b")
	s.Type(" and more", repltest.Enter)
	s.WaitMatch(`(?s)is gone.*\[queue changed: 2 waiting\]`)
	s.clear()
	s.enter("/queue")
	s.WaitFor("1: say c\n2: say b and more")
	s.write("go", "")
	s.WaitMatch(`(?m)^b and more$`)
	s.ready()
	s.in("\nc\n", "\nb and more\n")
	s.quit()
}

// TestEditor: a prompt and a script are written in $EDITOR; what it wrote into a script is
// taken without a question, though a tool runs.
func TestEditor(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("its editor is a shell script")
	}
	s := opened(t, place{rows: 60, files: map[string]string{
		"editor":                  "#!/bin/sh\ncase $2 in *.js) sed -i s/v1/v2/ \"$2\";; *) printf 'say from the editor' >>\"$2\";; esac\n",
		".dshsh/scripts/guard.js": guardVersion("v1"),
	}, env: []string{"EDITOR=sh ./editor --flag"}}, "--trust", "--approve", "all")
	s.WaitFor(" in force: ")
	s.enter("/edit")
	s.WaitFor("> say from the editor")
	s.Type(repltest.Enter)
	s.WaitMatch(`(?m)^from the editor$`)
	s.ready()
	s.Type("half ", "\x18\x05")
	s.WaitFor("> half say from the editor")
	s.Type(repltest.CtrlU)
	s.enter(waits)
	s.waitFile("begun")
	s.working()
	s.enter("/edit guard.js")
	s.WaitFor("scripts 1 -> 2  guard.js changed")
	s.working()
	s.enter("/edit gard.js")
	s.WaitFor("there is no script gard.js (did you mean guard.js?)")
	s.write("go", "")
	s.ready()
	if strings.Contains(s.text(), "held") {
		t.Errorf("it was held:\n%s", s.text())
	}
	s.quit()
}

// TestToolsAndState are shown.
func TestToolsAndState(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, files: map[string]string{"scripts/count.js": `
ctx.on('agent/turn-start', ({ agent }) => { agent.state.turns = { n: 1, list: [1, 2] }; });
ctx.tool({ name: 'lucky', description: 'Gives a number. Always the same.', parameters: {}, execute: () => 'seven' });`}}, "--script", "scripts/count.js")
	s.WaitFor(" in force: ")
	s.enter("/state")
	s.WaitFor("no script keeps anything")
	s.enter("say hi")
	s.WaitMatch(`(?m)^hi$`)
	s.ready()
	s.enter("/state")
	s.WaitFor(`turns = {"list":[1,2],"n":1}`)
	s.enter("/tools")
	s.WaitMatch(`(?m)^  lucky +Gives a number\.$`)
	s.quit()
}
