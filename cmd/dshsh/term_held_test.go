package main_test

import (
	"strings"
	"testing"
	"time"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

const guardCounts = "ctx.on('tools/pre-execute', (c) => console.log('pre', c.callId, 'VERSION'));\n" +
	"ctx.on('tools/post-execute', (c) => { console.log('post', c.callId, 'VERSION'); });\n"

// TestR046_ASaveBesideBashIsHeldAndThenTaken: a project's script is saved while a tool
// that may write runs. The call keeps the version that it began with; what was held is in
// force after the answer y, and the tool's result is good.
func TestR046_ASaveBesideBashIsHeldAndThenTaken(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, files: map[string]string{".dshsh/scripts/guard.js": guardVersion("v1")}}, "--trust", "--approve", "all")
	s.WaitFor(" in force: ")
	s.enter(`call bash {"command":"touch one; until test -e go || ! test -d $PWD; do sleep 0.02; done; echo ok"}`)
	s.waitFile("one")
	s.write(".dshsh/scripts/guard.js", guardVersion("v2"))
	s.WaitFor("Changed while a tool or program ran, or a question was open: guard.js")
	s.WaitFor("Take the change? y / n / show")
	s.Type("y", repltest.Enter)
	s.WaitFor("scripts 1 -> 2  guard.js changed")
	s.write("go", "")
	s.WaitFor("bash answered")
	s.ready()
	s.in("pre offline-1 v1", "post offline-1 v1")
	s.clear()
	s.enter(callHi)
	s.WaitFor("bash answered")
	s.ready()
	s.in("pre offline-2 v2", "post offline-2 v2")
	s.quit()
	if n := count(s.log(), "tool/result", "ok"); n < 1 {
		t.Error("the result of the call is gone")
	}
}

// TestR046_ASaveBesideAToolThatOnlyReads is not held: it comes into force for the next
// turn, and the call keeps its version.
func TestR046_ASaveBesideAToolThatOnlyReads(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, files: map[string]string{
		".dshsh/scripts/guard.js": guardVersion("v1"),
		".dshsh/scripts/slow.lua": "ctx.tool({ name = 'slow', description = 'waits', execute = function() print('it runs') ctx.sleep(1500) return 'ok' end })",
	}}, "--trust", "--approve", "all")
	s.WaitFor(" in force: ")
	s.enter(`call slow {}`)
	s.WaitFor("it runs")
	s.write(".dshsh/scripts/guard.js", guardVersion("v2"))
	s.WaitFor("scripts 1 -> 2  guard.js changed")
	s.WaitFor("slow answered")
	s.ready()
	s.in("pre offline-1 v1", "scripts 1 -> 2", "post offline-1 v1")
	s.clear()
	s.enter(`call slow {}`)
	s.WaitFor("slow answered")
	s.ready()
	s.in("pre offline-2 v2", "post offline-2 v2")
	s.quit()
}

func guardVersion(v string) string { return strings.ReplaceAll(guardCounts, "VERSION", v) }

// A change that was answered with n is asked about again by /reload, and not taken before.
func TestReloadAsksAgainAboutWhatWasRefused(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, cols: 160, files: map[string]string{".dshsh/scripts/guard.js": guardVersion("v1")}}, "--trust", "--approve", "all")
	s.WaitFor(" in force: ")
	s.enter(`call bash {"command":"touch one; until test -e go || ! test -d $PWD; do sleep 0.02; done; echo ok"}`)
	s.waitFile("one")
	s.write(".dshsh/scripts/guard.js", guardVersion("v2"))
	s.WaitFor("Take the change? y / n / show")
	s.Type("n", repltest.Enter)
	s.WaitFor("not taken: the scripts in force stay; a save, or `/reload`, brings the question back")
	s.write("go", "")
	s.ready()
	s.clear()
	s.enter("/reload")
	s.WaitFor("Take the change? y / n / show")
	if strings.Contains(s.text(), "1 -> 2") {
		t.Errorf("taken without an answer:\n%s", s.text())
	}
	s.Type("y", repltest.Enter)
	s.WaitFor("scripts 1 -> 2  guard.js changed")
	s.ready()
	s.quit()
}

// A revoke in another shell is not undone by a save in this one: the save waits for an
// answer, and the folder stays untrusted until then.
func TestASaveDoesNotUndoARevoke(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, cols: 160, files: map[string]string{".dshsh/scripts/guard.js": guardVersion("v1")}}, "--trust")
	s.WaitFor(" in force: ")
	s.write(".dshsh/scripts/guard.js", guardVersion("v2"))
	s.WaitFor("scripts 1 -> 2  guard.js changed")
	s.run(place{}, "scripts", "trust", "--revoke")
	s.write(".dshsh/scripts/guard.js", guardVersion("v3"))
	s.WaitFor("The trust in this folder was taken back, and its scripts have changed: guard.js")
	s.WaitFor("Trust the folder again and take the change? y / n / show")
	s.Type("n", repltest.Enter)
	s.WaitFor("not taken: the scripts in force stay")
	s.ready()
	s.clear()
	s.write(".dshsh/scripts/guard.js", guardVersion("v4")) // no new question at every save
	s.enter("/scripts trust")
	s.WaitFor("scripts 2 -> 3  guard.js changed")
	s.ready()
	s.quit()

	s = opened(t, place{dir: s.dir, home: s.home})
	s.WaitFor(" in force: ")
	s.quit()
}

// TestWhatIsNotShownIsNotTaken: the script is another one by the time that the question is
// answered.
func TestWhatIsNotShownIsNotTaken(t *testing.T) {
	t.Parallel()
	s := open(t, place{rows: 50, files: map[string]string{".dshsh/scripts/guard.js": "console.log('as shown')"}})
	s.WaitFor("Run the scripts? y / n / show")
	s.write(".dshsh/scripts/guard.js", "console.log('as ' + 'swapped')")
	s.WaitFor("guard.js added: held")
	s.Type("y", repltest.Enter)
	s.WaitFor("project/guard.js has changed since it was shown: look at it again")
	s.WaitUntil("second question", func() bool { return strings.Count(s.text(), "Run the scripts?") == 2 })
	s.Type("n", repltest.Enter)
	s.WaitFor("the scripts do not run")
	s.ready()
	if strings.Contains(s.text(), "as swapped") {
		t.Errorf("it ran:\n%s", s.text())
	}
	s.quit()
	s = open(t, place{dir: s.dir, home: s.home, rows: 50})
	s.WaitFor("Run the scripts? y / n / show") // nothing was remembered
	s.Type("y", repltest.Enter)
	s.WaitFor("as swapped")
	s.ready()
	s.quit()
}

// TestNoToolReplacesAGuard: neither one of the user, nor later, by what a call left running.
func TestNoToolReplacesAGuard(t *testing.T) {
	t.Parallel()
	guard := "ctx.on('tools/pre-execute', { filter = { tool = 'write' } }, function() return { kind = 'deny', reason = 'guarded' } end)"
	for name, c := range map[string]struct {
		script, round, call string
		later               bool
	}{
		"of the user": {script: "home/scripts/guard.lua", round: "cd home/scri*; echo -- > guard.lua", call: "sh round.sh"},
		"later": {script: ".dshsh/scripts/guard.lua", round: "until test -e go || ! test -d $PWD; do sleep 0.1; done; cd .dsh*/scri*; echo -- > guard.lua",
			call: "setsid sh round.sh >/dev/null 2>&1 </dev/null & echo left", later: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := opened(t, place{dir: dir, home: dir + "/home", rows: 50, files: map[string]string{c.script: guard, "round.sh": c.round}}, "--trust", "--approve", "all")
			s.WaitFor(" in force: ")
			s.enter(`call bash {"command":"` + c.call + `"}`)
			s.WaitFor("bash answered")
			if c.later {
				time.Sleep(2500 * time.Millisecond) // beyond the time that a call itself casts doubt
				s.write("go", "")
			}
			s.WaitFor("Changed while a tool or program ran, or a question was open: guard.lua")
			s.Type("n", repltest.Enter)
			s.WaitFor("not taken")
			s.ready()
			s.enter(`call write {"path":"x","content":"y"}`)
			s.WaitFor("write gave an error")
			s.ready()
			if s.exists("x") {
				t.Error("it was written")
			}
			s.quit()
		})
	}
}

// A question whose last line is wider than the terminal is shown whole.
func TestAQuestionWiderThanTheTerminal(t *testing.T) {
	t.Parallel()
	s := opened(t, place{rows: 60, cols: 40, files: map[string]string{".dshsh/scripts/guard.js": guardVersion("v1")}}, "--trust")
	s.WaitFor(" in force: ")
	s.run(place{}, "scripts", "trust", "--revoke")
	s.write(".dshsh/scripts/guard.js", guardVersion("v2"))
	s.WaitFor("Trust the folder again and take\nthe change? y / n / show")
	s.Type("y", repltest.Enter)
	s.WaitFor("scripts 1 -> 2")
	s.ready()
	s.quit()
}
