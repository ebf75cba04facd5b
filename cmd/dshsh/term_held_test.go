package main_test

import (
	"strings"
	"testing"

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
	s.enter(`call bash {"command":"touch one; until test -e go; do sleep 0.02; done; echo ok"}`)
	s.waitFile("one")
	s.write(".dshsh/scripts/guard.js", guardVersion("v2"))
	s.WaitFor("While a tool ran, scripts of this folder changed: guard.js")
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
	s.enter(`call bash {"command":"touch one; until test -e go; do sleep 0.02; done; echo ok"}`)
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
