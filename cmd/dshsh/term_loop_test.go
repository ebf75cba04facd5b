package main_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// waits is a call that runs until the file go is there, without a question.
const waits = `call bash {"command":"touch begun; until test -e go || ! test -d $PWD; do sleep 0.02; done"}`

// TestPromptIsLiveWhileATurnRuns: Enter steers, >> queues, /queue and the status line show
// it, /inject adds without a wake.
func TestPromptIsLiveWhileATurnRuns(t *testing.T) {
	t.Parallel()
	s := opened(t, place{}, "--approve", "all")
	s.enter(waits)
	s.waitFile("begun")
	s.working()
	s.enter("say steered")
	s.WaitFor("noted for the next step")
	s.enter(">> say queued")
	s.WaitFor("queued: 1 waiting")
	s.WaitFor("2 queued · working, Ctrl-C cancels")
	s.enter("/queue")
	s.WaitFor("1: next step: say steered")
	s.WaitFor("2: say queued")
	s.write("go", "")
	s.WaitMatch(`(?m)^queued$`)
	s.ready()
	s.in("\nsteered\n", "\nqueued\n")
	s.enter("/queue")
	s.WaitFor("nothing waits")
	s.enter("/inject some context")
	s.WaitFor("1 queued")
	s.enter("/queue clear")
	s.WaitFor("[1 message taken back from the queue]")
	s.enter("/inject other context")
	s.WaitFor("1 queued")
	s.enter("say last")
	s.WaitMatch(`(?m)^last$`)
	s.quit()
	recs := s.log()
	if n := count(recs, "turn/start", ""); n != 3 {
		t.Errorf("%d turns, want the call with what was steered, the queued one, the last", n)
	}
	if n := count(recs, "user/message", "some context"); n != 0 {
		t.Error("what was cleared was sent")
	}
	if n := count(recs, "user/message", "other context"); n != 1 {
		t.Errorf("injected %d times", n)
	}
}

// TestCtrlC: once cancels and keeps the queue, twice drops it, at an idle empty prompt it
// leaves; what is half typed is kept by a cancel and dropped when nothing runs.
func TestCtrlC(t *testing.T) {
	t.Parallel()
	s := opened(t, place{}, "--approve", "all")
	s.enter(waits)
	s.waitFile("begun")
	s.working()
	s.enter(">> say one")
	s.WaitFor("queued: 1 waiting")
	s.Type("half")
	s.WaitLine("> half", 6)
	s.Type(repltest.CtrlC)
	s.WaitFor("1 queued stay")
	s.WaitFor("[cancelled]")
	s.WaitUntil("idle with the line kept", func() bool {
		_, y := s.Cursor()
		return s.Row(y) == "> half" && s.Row(y+1) == "offline · 1 queued"
	})
	s.Type(repltest.CtrlC)
	s.WaitFor("[1 message taken back from the queue]")
	s.WaitUntil("an empty queue", func() bool {
		_, y := s.Cursor()
		return s.Row(y+1) == "offline"
	})
	s.Type(repltest.CtrlC) // the line
	s.ready()
	s.clear()
	s.enter(waits)
	s.WaitFor("* bash")
	s.working()
	s.Type(repltest.CtrlC)
	s.WaitFor("[cancelled]")
	s.ready()
	s.Type(repltest.CtrlC)
	s.WaitFor("Ctrl-C again leaves")
	s.clear()
	s.enter("hang")
	s.streaming()
	s.Type(repltest.CtrlC)
	s.WaitFor("[cancelled]")
	s.ready()
	s.in("Waiting until this is cancelled", "[the reply was cut off here]", "[cancelled]")
	s.clear()
	// Parked input goes with the next message.
	s.enter("hang")
	s.working()
	s.enter(">> say parked")
	s.WaitFor("queued: 1 waiting")
	s.enter("/cancel")
	s.WaitFor("[cancelled]")
	s.enter("say woken")
	s.WaitMatch(`(?m)^woken$`)
	s.in("\nparked\n", "\nwoken\n")
	s.ready()
	s.enter("/cancel")
	s.WaitFor("nothing runs")
	s.Type(repltest.CtrlC)
	if code := s.WaitExit(repltest.Deadline); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.CheckSane()
}

// TestSessionsAtThePrompt: /new begins one, /resume lists and goes on with one, through the
// same lines as when they were live; --continue does so at the start.
func TestSessionsAtThePrompt(t *testing.T) {
	t.Parallel()
	s := opened(t, place{})
	s.enter("say in the first")
	s.WaitMatch(`(?m)^in the first$`)
	s.ready()
	first := strings.TrimSuffix(filepath.Base(s.sessions()[0]), ".jsonl")
	s.enter("/new")
	s.WaitFor("new session ")
	s.ready()
	s.enter("say in the second")
	s.WaitMatch(`(?m)^in the second$`)
	s.ready()
	s.clear()
	s.enter("/resume")
	s.WaitFor(first)
	s.WaitFor("(this one)")
	s.enter("/resume " + first)
	s.WaitMatch(`(?m)^> say in the first\n\nin the first$`)
	s.ready()
	s.enter("say in the first again")
	s.WaitMatch(`(?m)^in the first again$`)
	s.ready()
	s.enter("/resume nothing")
	s.WaitFor("no such session")
	s.enter("/resume " + first)
	s.WaitFor("is open in this shell")
	s.quit()
	if n := len(s.sessions()); n != 2 {
		t.Errorf("%d sessions", n)
	}
	s = opened(t, place{dir: s.dir, home: s.home}, "-c")
	s.WaitMatch(`(?m)^in the first again$`)
	s.in("> say in the first\n", "> say in the first again\n\nin the first again")
	s.enter("/new")
	s.WaitFor("new session ")
	s.quit()
	if n := len(s.sessions()); n != 2 {
		t.Errorf("%d sessions: one that nothing was said in was kept", n)
	}
}

// TestNewEndsWhatRuns: the turn of the session that is left is closed, its processes are
// gone, and nothing of it is shown in the new one.
func TestNewEndsWhatRuns(t *testing.T) {
	t.Parallel()
	s := opened(t, place{}, "--approve", "all")
	s.enter(`call bash {"command":"echo $$ >pid.tmp; mv pid.tmp pid; until test -e go || ! test -d $PWD; do sleep 0.02; done; echo old words"}\`)
	s.enter("say old words")
	s.waitFile("pid")
	s.working()
	s.enter(">> say queued words")
	s.WaitFor("queued: 1 waiting")
	s.clear()
	s.enter("/new")
	s.WaitFor("new session ")
	s.gone("pid")
	s.ready()
	s.enter("say new words")
	s.WaitMatch(`(?m)^new words$`)
	s.ready()
	if strings.Contains(s.text(), "old words") || strings.Contains(s.text(), "queued words") {
		t.Errorf("something of the other session is shown:\n%s", s.text())
	}
	s.quit()
	recs, err := readSession(s.sessions()[0])
	if err != nil {
		t.Fatal(err)
	}
	if n := count(recs, "turn/end", `"disposed"`); n != 1 {
		t.Errorf("%d turns were closed", n)
	}
}

// TestSlashCommands: what there is, what there is not, and what scripts add.
func TestSlashCommands(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, files: map[string]string{
		".dshsh/scripts/cmds.js": "ctx.command('hello', { description: 'greets', run: (args, { agent }) => `hello ${args} of ${agent.status}` });\n" +
			"ctx.command('fails', { description: 'throws', run: () => { throw new Error('not so'); } });",
		".dshsh/scripts/cmds.lua": "ctx.command('hallo', { description = 'grüßt', run = function(args) ctx.sleep(1) return 'hallo ' .. args end })",
	}}, "--trust")
	s.WaitFor(" in force: ")
	s.enter("/help")
	s.WaitFor("/quit")
	for _, c := range []string{"/help", "/new", "/resume", "/scripts", "/reload", "/queue", "/inject", "/cancel", "/model", "/quit"} {
		s.WaitMatch(`(?m)^  ` + c + ` `)
	}
	s.WaitMatch(`/hello +greets \(cmds.js\)`)
	s.WaitMatch(`/hallo +grüßt \(cmds.lua\)`)
	s.enter("/hello world")
	s.WaitFor("hello world of idle")
	s.enter("/hallo Welt")
	s.WaitMatch(`(?m)^hallo Welt$`)
	s.enter("/fails")
	s.WaitMatch(`/fails: cmds.js:2: .*not so`)
	s.enter("/quti")
	s.WaitFor("there is no /quti: did you mean /quit?")
	s.enter("/reload")
	s.WaitFor("nothing has changed")
	s.enter("/model")
	s.WaitFor("model: offline")
	s.enter("/model openai/gpt")
	s.WaitMatch(`offline provider has one model|is not configured`)
	s.enter("/scripts")
	s.WaitMatch(`project/cmds\.js +in force`)
	s.WaitMatch(`project/cmds\.lua +in force`)
	s.Type("/he", repltest.Tab)
	s.WaitFor("/help")
	s.Type(repltest.CtrlU)
	s.ready()
	s.quit()
	if len(s.sessions()) != 0 {
		t.Error("a session was kept, though nothing was said")
	}
}

// TestHelpFitsTheTerminal: no word is broken, however narrow it is.
func TestHelpFitsTheTerminal(t *testing.T) {
	t.Parallel()
	s := opened(t, place{cols: 40, rows: 100})
	s.clear()
	s.enter("/help")
	s.WaitFor("/quit")
	s.ready()
	for _, row := range s.Screen() {
		if strings.HasPrefix(row, "]") || strings.HasPrefix(row, ".") {
			t.Errorf("a broken row %q in\n%s", row, s.text())
		}
	}
	s.in("  /new                  begin a new\n", "\n  /scripts [on|off NAME, trust,\nrollback]\n", "list the\n")
	s.quit()
}

// TestModelIsSwitched: /model is for the next request, of this session.
func TestModelIsSwitched(t *testing.T) {
	t.Parallel()
	m := newServer(t, "text one\ntext two")
	s := opened(t, place{env: m.env()})
	s.WaitFor("dshsh on openai/gpt-")
	s.enter("/model other-model")
	s.WaitFor("model: openai/other-model")
	s.enter("first")
	s.WaitMatch(`(?m)^one$`)
	s.ready()
	s.enter("/model offline")
	s.WaitFor("model: offline")
	s.enter("say offline words")
	s.WaitMatch(`(?m)^offline words$`)
	s.ready()
	s.enter("/model openai/third")
	s.WaitFor("model: openai/third")
	s.enter("last")
	s.WaitMatch(`(?m)^two$`)
	s.quit()
	for i, want := range []string{"other-model", "third"} {
		if got := m.Requests()[i].JSON()["model"]; got != want {
			t.Errorf("request %d went to %v, want %s", i+1, got, want)
		}
	}
}

// TestManyTurnsInOneShell: nothing that is kept from turn to turn gets in the way.
func TestManyTurnsInOneShell(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 12}, "--approve", "all")
	for i := range 12 {
		s.enter("say turn number " + strconv.Itoa(i))
		s.WaitMatch(`(?m)^turn number ` + strconv.Itoa(i) + `$`)
		s.ready()
	}
	s.quit()
	if n := count(s.log(), "turn/end", "completed"); n != 12 {
		t.Errorf("%d turns completed", n)
	}
}
