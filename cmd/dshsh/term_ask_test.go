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
	}{{80, "allow bash: echo hi? y / n / always"}, {40, "bash: echo hi\nallow bash? y / n / always"}} {
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
	s.WaitFor("? y / n / always")
	s.Type("perhaps", repltest.Enter)
	s.WaitUntil("the question with an empty answer", func() bool {
		_, y := s.Cursor()
		return strings.HasSuffix(s.Row(y), "y / n / always") && strings.Count(s.text(), "perhaps") <= 1
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
	s.WaitFor("touch other? y / n / always")
	s.Type(repltest.CtrlC)
	s.WaitFor("[cancelled]")
	s.ready()
	if s.exists("other") {
		t.Error("it ran")
	}
	s.quit()
}

// TestAlwaysIsForTheSameCallInThisSession: other arguments, and another start, ask again.
func TestAlwaysIsForTheSameCallInThisSession(t *testing.T) {
	t.Parallel()
	s := opened(t, place{})
	s.enter(callHi)
	s.WaitFor("? y / n / always")
	s.Type("always", repltest.Enter)
	s.WaitFor("bash answered")
	s.ready()
	s.clear()
	s.enter(callHi)
	s.WaitFor("bash answered")
	s.ready()
	if strings.Contains(s.text(), "always") {
		t.Errorf("asked again:\n%s", s.text())
	}
	s.enter(`call bash {"command":"echo other"}`)
	s.WaitFor("allow bash: echo other? y / n / always")
	s.Type("n", repltest.Enter)
	s.WaitFor("the user said no")
	s.quit()
	s = opened(t, place{dir: s.dir, home: s.home}, "-c")
	s.WaitFor("the user said no") // what was there is shown again
	s.ready()
	s.clear()
	s.enter(callHi)
	s.WaitFor("allow bash: echo hi? y / n / always")
	s.Type("n", repltest.Enter)
	s.quit()
}

// TestQuestionShowsAllThatWouldHappen: what does not fit into the line, or would change a
// file, stands above it.
func TestQuestionShowsAllThatWouldHappen(t *testing.T) {
	t.Parallel()
	s := opened(t, place{files: map[string]string{"notes.txt": "one\ntwo\n"}})
	s.enter(`call bash {"command":"echo one\necho ` + strings.Repeat("long ", 20) + `end"}`)
	s.WaitFor("allow bash? y / n / always")
	s.WaitFor("long end")
	s.in("bash: echo one\necho long", "end\nallow bash?")
	s.Type("n", repltest.Enter)
	s.WaitFor("the user said no")
	s.ready()
	s.clear()
	s.enter(`call write {"path":"new.txt","content":"first line\nsecond line\n"}`)
	s.WaitFor("allow write: new.txt? y / n / always")
	s.in("  + first line\n  + second line\nallow write")
	s.Type("y", repltest.Enter)
	s.WaitFor("write answered")
	s.ready()
	s.enter(`calls read {"path":"notes.txt"} | edit {"path":"notes.txt","old":"two","new":"three"}`)
	s.WaitFor("allow edit: notes.txt? y / n / always")
	s.in("  - two\n  + three\nallow edit")
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
	s.WaitFor("? y / n / always")
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
	s.WaitFor("allow bash: touch two? y / n / always")
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
