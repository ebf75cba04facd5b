package main_test

import (
	"strconv"
	"strings"
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

const callHi = `call bash {"command":"echo hi"}`

func TestPromptAsksRunsAndShows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cols     int
		question string
	}{{80, "allow bash: echo hi? y / s / a / e / n"}, {40, "bash: echo hi\ns this session, a always: echo hi, in\nthis project\nallow bash? y / s / a / e / n"}} {
		t.Run(strconv.Itoa(c.cols), func(t *testing.T) {
			t.Parallel()
			s := opened(t, place{cols: c.cols})
			s.in("offline provider", "DEEPSEEK_API_KEY", "/help")
			s.clear()
			s.enter(callHi)
			s.WaitFor(c.question)
			s.Type("y", repltest.Enter)
			s.WaitFor("bash answered:")
			s.ready()
			s.in("> call bash", "* bash echo hi", c.question+" y\n  hi\n", "bash answered:")
			s.clear()
			s.enter(callHi)
			s.WaitFor(c.question)
			s.Type("n", repltest.Enter)
			s.WaitFor("bash gave an error")
			s.ready()
			s.in(c.question+" n\n  ! Error: the user said no\n", "bash gave an error")
			s.quit()
			recs := s.log()
			if a, r := count(recs, "approval/decided", "allowed-once"), count(recs, "approval/decided", "rejected"); a != 1 || r != 1 {
				t.Errorf("decided: %d allowed, %d rejected", a, r)
			}
		})
	}
}

// TestAnswerIsAskedForAgain: what is no answer neither allows nor denies.
func TestAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := opened(t, place{})
	s.enter(`call bash {"command":"touch made"}`)
	s.WaitFor("? y / s / a / e / n")
	s.Type("perhaps", repltest.Enter)
	s.WaitUntil("the question with an empty answer", func() bool {
		_, y := s.Cursor()
		return strings.HasSuffix(s.Row(y), "y / s / a / e / n") && strings.Count(s.text(), "perhaps") <= 1
	})
	if s.exists("made") {
		t.Fatal("it ran")
	}
	s.Type("YES", repltest.Enter)
	s.WaitFor("bash answered")
	if !s.exists("made") {
		t.Error("it did not run")
	}
	// Ctrl-C at a question cancels the turn.
	s.enter(`call bash {"command":"touch other"}`)
	s.WaitFor("touch other? y / s / a / e / n")
	s.Type(repltest.CtrlC)
	s.WaitFor("[cancelled]")
	s.ready()
	if s.exists("other") {
		t.Error("it ran")
	}
	s.quit()
}

// TestAlwaysLasts: what was allowed for good is not asked about again, also after a new
// start, and can be taken back; other words are asked about.
func TestAlwaysLasts(t *testing.T) {
	t.Parallel()
	s := opened(t, place{})
	s.enter(callHi)
	s.WaitFor("s this session, a always: echo hi, in this project\nallow bash: echo hi? y / s / a / e / n")
	s.Type("a", repltest.Enter)
	s.WaitFor("rule saved: allow bash: echo hi, in " + s.dir)
	s.WaitFor("bash answered")
	s.ready()
	s.enter(`call bash {"command":"echo other"}`)
	s.WaitFor("allow bash: echo other? y / s / a / e / n")
	s.Type("s", repltest.Enter)
	s.ready()
	s.clear()
	s.enter("calls bash {\"command\":\"echo other\"} | bash {\"command\":\"echo hi\"}")
	s.WaitFor("2 calls ran")
	s.ready()
	s.enter("/rules")
	s.WaitFor("  1  user    allow bash: echo hi, in")
	s.WaitFor("  2  session allow bash: echo other, in")
	s.quit()
	if n := count(s.log(), "approval/decided", `"rule":"bash: echo hi, in `); n != 2 {
		t.Errorf("decided by the rule: %d times", n)
	}

	s = opened(t, place{dir: s.dir, home: s.home})
	s.enter(callHi)
	s.WaitFor("bash answered")
	s.ready()
	s.enter(`call bash {"command":"echo hi; rm x"}`)
	s.WaitFor("allow bash: echo hi; rm x? y / n")
	s.Type("a", repltest.Enter)
	s.WaitFor("only once: rm is allowed one call at a time")
	s.Type("n, keep x", repltest.Enter)
	s.WaitFor("Error: the user said no: keep x")
	s.ready()
	s.enter("/rules rm 1")
	s.WaitFor("removed: user    allow bash: echo hi")
	s.clear()
	s.enter(callHi)
	s.WaitFor("allow bash: echo hi? y / s / a / e / n")
	s.Type("n", repltest.Enter)
	s.ready()
	s.quit()
}

// TestTheRuleIsEditedBeforeItIsTaken: what is shown last is what is taken.
func TestTheRuleIsEditedBeforeItIsTaken(t *testing.T) {
	t.Parallel()
	s := opened(t, place{})
	s.enter(callHi)
	s.WaitFor("allow bash: echo hi? y / s / a / e / n")
	s.Type("e", repltest.Enter)
	s.WaitFor("command: echo hi")
	s.Type(" > f", repltest.Enter)
	s.WaitFor("a rule has no ; | && >")
	s.WaitFor("command: echo hi > f") // it is there to be mended
	s.Type(strings.Repeat(repltest.Backspace, len("hi > f")), "*", repltest.Enter)
	s.WaitFor("s this session, a always: echo with any arguments, in this project\nallow bash: echo hi? y / s / a / e / n")
	s.Type("s", repltest.Enter)
	s.WaitFor("bash answered")
	s.ready()
	s.clear()
	s.enter(`call bash {"command":"echo another"}`)
	s.WaitFor("bash answered")
	s.ready()
	s.quit()
	if s.exists("../rules.toml") {
		t.Error("it was saved")
	}
}

// TestQuestionShowsAllThatWouldHappen: what does not fit into the line, or would change a
// file, stands above it.
func TestQuestionShowsAllThatWouldHappen(t *testing.T) {
	t.Parallel()
	s := opened(t, place{files: map[string]string{"notes.txt": "one\ntwo\n"}})
	s.enter(`call bash {"command":"echo one\necho ` + strings.Repeat("long ", 20) + `end"}`)
	s.WaitFor("allow bash? y / s / a / e / n")
	s.WaitFor("long end")
	s.in("bash: echo one\necho long", "end, in this project\nallow bash?")
	s.Type("n", repltest.Enter)
	s.WaitFor("the user said no")
	s.ready()
	s.clear()
	s.enter(`call write {"path":"new.txt","content":"first line\nsecond line\n"}`)
	s.WaitFor("allow write: new.txt? y / s / a / e / n")
	s.in("  @@ -0,0 +1,2 @@\n  +first line\n  +second line\ns this session, a always: write new.txt, in this project\nallow write")
	s.Type("y", repltest.Enter)
	s.WaitFor("write answered")
	s.ready()
	s.enter(`calls read {"path":"notes.txt"} | edit {"path":"notes.txt","old":"two","new":"three"}`)
	s.WaitFor("allow edit: notes.txt? y / s / a / e / n")
	s.in("  @@ -1,2 +1,2 @@\n   one\n  -two\n  +three\ns this session, a always: edit notes.txt, in this project\nallow edit")
	s.Type("y", repltest.Enter)
	s.WaitFor("2 calls ran")
	s.quit()
}

// TestQuestionKeepsWhatIsHalfTyped: it is put back behind the question, and behind a notice
// that comes meanwhile (R063).
func TestQuestionKeepsWhatIsHalfTyped(t *testing.T) {
	t.Parallel()
	home := &shell{t: t, dir: t.TempDir()}
	home.write("scripts/guard.js", "// v1")
	s := opened(t, place{home: home.dir})
	s.enter("call bash {\"command\":\"until test -e go || ! test -d $PWD; do sleep 0.02; done\"}\\")
	s.enter(`call bash {"command":"touch two"}`)
	s.WaitFor("? y / n")
	s.Type("y", repltest.Enter)
	s.working()
	s.Type("half a li")
	s.WaitLine("> half a li", 11)
	home.write("scripts/guard.js", "ctx.on('agent/turn-start', () => {})")
	s.WaitFor("guard.js changed")
	s.WaitLine("> half a li", 11)
	s.write("go", "")
	s.WaitFor("Take the change?")
	s.Type("y", repltest.Enter)
	s.WaitFor("allow bash: touch two? y / s / a / e / n")
	s.Type("y", repltest.Enter)
	s.WaitFor("2 calls ran")
	s.WaitLine("> half a li", 11)
	s.Type("ne", repltest.Enter)
	s.WaitFor("I am the offline provider")
	s.ready()
	s.quit()
	if n := count(s.log(), "user/message", "half a line"); n != 1 {
		t.Errorf("sent %d times", n)
	}
}
