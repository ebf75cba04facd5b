package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

const (
	guardDenies   = "ctx.on('tools/pre-execute', { filter: { tool: 'bash' } }, (call) => {\n  return { kind: 'deny', reason: 'no shell today' };\n});\n"
	guardAbstains = "ctx.on('tools/pre-execute', { filter: { tool: 'bash' } }, (call) => {\n});\n"
	guardBroken   = "ctx.on('tools/pre-execute', { filter: { tool: 'bash' } }, (call) => {\n  return { kind: ;\n});\n"
)

// TestGuardIsObeyedAsItIsSaved is the life of a policy: trusted, in force, changed, broken
// and mended while the shell runs (R044, R049).
func TestGuardIsObeyedAsItIsSaved(t *testing.T) {
	t.Parallel()
	s := open(t, place{files: map[string]string{".dshsh/scripts/guard.js": guardDenies}})
	s.WaitFor("scripts that are not trusted: guard.js")
	s.WaitFor("y / n / show")
	s.Type("y", repltest.Enter)
	s.WaitFor("guard.js added  +1 listener")
	s.ready()
	s.clear()

	s.enter(callHi)
	s.WaitFor("bash gave an error")
	s.ready()
	s.in("* bash echo hi\n  ! Error: no shell today (guard.js:1)\n")

	s.write(".dshsh/scripts/guard.js", guardAbstains)
	s.saved("scripts 1 -> 2  guard.js changed")
	s.clear()
	s.enter(callHi)
	s.WaitFor("allow bash: echo hi?")
	s.Type("y", repltest.Enter)
	s.WaitFor("bash answered")
	s.ready()

	// Saved broken: the place and the line are shown, the one before stays in force.
	s.write(".dshsh/scripts/guard.js", guardDenies)
	s.saved("scripts 2 -> 3  guard.js changed")
	s.write(".dshsh/scripts/guard.js", guardBroken)
	s.saved("guard.js:2: ")
	s.WaitFor("the version before stays in force")
	s.WaitFor("return { kind: ;")
	s.clear()
	s.enter(callHi)
	s.WaitFor("bash gave an error")
	s.ready()
	s.in("! Error: no shell today")
	s.enter("/scripts")
	s.WaitMatch(`project/guard\.js +failed \(old version stays\)\n +guard\.js:2: `)

	s.write(".dshsh/scripts/guard.js", guardAbstains)
	s.saved("scripts 3 -> 4  guard.js changed")
	s.clear()
	s.enter(callHi)
	s.WaitFor("allow bash: echo hi?")
	s.Type("n", repltest.Enter)
	s.WaitFor("the user said no")
	s.quit()

	recs := s.log()
	for generation, turns := range map[string]int{`"generation":1`: 1, `"generation":2`: 1, `"generation":3`: 1, `"generation":4`: 1} {
		if n := count(recs, "turn/start", generation); n != turns {
			t.Errorf("%d turns of %s", n, generation)
		}
	}
}

// TestScriptsOfBothLanguagesRunInFileOrder: one event, a JavaScript and a Lua guard, and
// the other way round.
func TestScriptsOfBothLanguagesRunInFileOrder(t *testing.T) {
	t.Parallel()
	js := "ctx.on('tools/pre-execute', () => console.log('the JavaScript one'));"
	lua := "ctx.on('tools/pre-execute', function() print('the Lua one') end)"
	for _, c := range []struct {
		name  string
		files map[string]string
		order []string
	}{
		{"js first", map[string]string{".dshsh/scripts/a.js": js, ".dshsh/scripts/b.lua": lua}, []string{"[a.js] the JavaScript one", "[b.lua] the Lua one"}},
		{"lua first", map[string]string{".dshsh/scripts/a.lua": lua, ".dshsh/scripts/b.js": js}, []string{"[a.lua] the Lua one", "[b.js] the JavaScript one"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := opened(t, place{files: c.files}, "--trust")
			s.WaitFor(" in force: ")
			s.enter(callHi)
			s.WaitFor("y / s / a / e / n")
			s.in(append(c.order, "allow bash")...)
			s.Type("y", repltest.Enter)
			s.WaitFor("bash answered")
			s.ready()
			s.quit()
		})
	}
}

// TestSaveDuringATurnIsForTheNext: a turn keeps the scripts that it began with, for every
// call (R046), whatever the person answers about what was saved meanwhile.
func TestSaveDuringATurnIsForTheNext(t *testing.T) {
	t.Parallel()
	version := func(v string) map[string]string {
		return map[string]string{
			"scripts/a.js": "const v = require('./lib/v.js');\n" +
				"for (const e of ['tools/pre-execute', 'tools/post-execute'])\n  ctx.on(e, (c) => { console.log(e, c.callId, v, '" + v + "'); });",
			"scripts/b.lua":    "ctx.on('tools/pre-execute', function(c) print('pre ' .. c.callId .. ' " + v + "') end)",
			"scripts/lib/v.js": "module.exports = 'lib " + v + "';",
		}
	}
	home := t.TempDir()
	save := func(v string) {
		own := &shell{t: t, dir: home}
		for name, text := range version(v) {
			own.write(name, text)
		}
	}
	save("v1")
	s := opened(t, place{home: home, rows: 60}, "--approve", "all")
	s.WaitFor(" in force: ")
	s.enter(`call bash {"command":"touch one; until test -e go || ! test -d $PWD; do sleep 0.02; done"}\`)
	s.enter(`call bash {"command":"echo two"}`)
	s.waitFile("one")
	save("v2")
	s.WaitFor("Take the change?")
	s.Type("y", repltest.Enter)
	s.WaitFor("scripts 1 -> 2")
	s.write("go", "")
	s.WaitFor("2 calls ran")
	s.ready()
	s.in("pre-execute offline-1 lib v1 v1", "pre offline-1 v1", "scripts 1 -> 2", "post-execute offline-1 lib v1 v1",
		"pre-execute offline-2 lib v1 v1", "pre offline-2 v1", "post-execute offline-2 lib v1 v1")
	if strings.Contains(s.text(), "! Error") {
		t.Errorf("a call failed:\n%s", s.text())
	}
	s.clear()
	s.enter(`call bash {"command":"echo three"}`)
	s.WaitFor("bash answered")
	s.ready()
	s.in("pre-execute offline-3 lib v2 v2", "pre offline-3 v2", "post-execute offline-3 lib v2 v2")
	s.quit()
}

// TestNewScriptWorksAtOnce: R045, and a rollback, and switching off and on.
func TestNewScriptWorksAtOnce(t *testing.T) {
	t.Parallel()
	s := opened(t, place{}, "--trust")
	s.write(".dshsh/scripts/guard.js", guardDenies)
	s.WaitFor("scripts 0 -> 1  guard.js added")
	s.enter(callHi)
	s.WaitFor("no shell today")
	s.ready()

	s.enter("/scripts off guard.js")
	s.WaitFor("scripts 1 -> 2  guard.js switched off")
	s.clear()
	s.enter(callHi)
	s.WaitFor("allow bash: echo hi?")
	s.Type("n", repltest.Enter)
	s.WaitFor("the user said no")
	s.ready()
	s.enter("/scripts")
	s.WaitMatch(`project/guard\.js +off`)

	s.enter("/scripts on guard.js")
	s.WaitFor("scripts 2 -> 3  guard.js switched on")
	s.enter("/scripts rollback")
	s.WaitFor("scripts 3 -> 4  guard.js removed  rolled back")
	s.enter("/scripts")
	s.WaitMatch(`project/guard\.js +rolled back\n`)
	s.enter("/reload")
	s.WaitFor("scripts 4 -> 5  guard.js added")
	s.enter("/scripts on guard.js")
	s.WaitFor("project/guard.js is in force already")
	s.enter("/scripts")
	s.WaitMatch(`project/guard\.js +in force\n +version [0-9a-f]{8}, 1 listener, in force since \d\d:\d\d:\d\d \(scripts 5\)`)
	s.enter("/queue foo")
	s.WaitFor("/queue clear change it")
	s.enter("/inject look")
	s.WaitFor("goes with your next message")
	s.enter("/scripts on nothing.js")
	s.WaitFor("nothing.js")
	s.quit()
}

// TestPromptOpensBesideABrokenPolicy: R003, R027. Nothing runs past the stand-in, the good
// ones work, and the way out is shown; mending the file is enough.
func TestPromptOpensBesideABrokenPolicy(t *testing.T) {
	t.Parallel()
	s := opened(t, place{files: map[string]string{
		".dshsh/scripts/a.js":     "ctx.on('agent/turn-start', () => console.log('a is there'));",
		".dshsh/scripts/guard.js": guardBroken,
		".dshsh/scripts/z.lua":    "ctx.on('agent/turn-start', function() print('z is there') end)",
	}}, "--trust")
	s.WaitFor("guard.js:2: ")
	s.WaitFor("return { kind: ;")
	s.enter(callHi)
	s.WaitFor("bash gave an error")
	s.ready()
	s.in("[a.js] a is there", "[z.lua] z is there", "! Error: denied: the policy")
	s.WaitFor("/scripts off guard.js")
	s.clear()
	s.write(".dshsh/scripts/guard.js", guardAbstains)
	s.WaitFor("guard.js")
	s.ready()
	s.enter(callHi)
	s.WaitFor("allow bash: echo hi?")
	s.Type("y", repltest.Enter)
	s.WaitFor("bash answered")
	s.ready()
	s.quit()
}

// TestSaveInTwoSteps: R040. A file that is emptied and written a moment later denies all
// the while.
func TestSaveInTwoSteps(t *testing.T) {
	t.Parallel()
	s := opened(t, place{files: map[string]string{".dshsh/scripts/guard.js": guardDenies}}, "--trust", "--approve", "all")
	s.WaitFor(" in force: ")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		path := filepath.Join(s.dir, ".dshsh/scripts/guard.js")
		for i := 0; ; i++ {
			_ = os.WriteFile(path, nil, 0o644)
			select {
			case <-time.After(40 * time.Millisecond): // as an editor may take
			case <-stop:
			}
			_ = os.WriteFile(path, []byte(guardDenies+"// "+strconv.Itoa(i)+"\n"), 0o644)
			select {
			case <-time.After(40 * time.Millisecond):
			case <-stop:
				return
			}
		}
	}()
	for i := range 10 {
		s.enter(fmt.Sprintf(`call bash {"command":"touch made%d"}`, i))
		s.WaitFor(fmt.Sprintf("* bash touch made%d\n", i))
		s.ready()
	}
	close(stop)
	<-done
	s.quit()
	if made, _ := filepath.Glob(filepath.Join(s.dir, "made*")); len(made) > 0 {
		t.Errorf("ran: %v", made)
	}
	if n := count(s.log(), "tool/result", "no shell today"); n != 10 {
		t.Errorf("denied %d of 10 times", n)
	}
}

// TestR041_R043_ManySavedAtOnce: All that were saved together come into force, and what
// editors leave behind is neither run nor complained about.
func TestR041_R043_ManySavedAtOnce(t *testing.T) {
	t.Parallel()
	files := func(v string) map[string]string {
		out := map[string]string{}
		for i := range 5 {
			name, text := fmt.Sprintf(".dshsh/scripts/s%d.js", i), "ctx.effect(() => { console.log('force "+v+"') });\nctx.on('agent/turn-start', () => console.log('turn "+v+"'));"
			if i%2 == 1 {
				name, text = fmt.Sprintf(".dshsh/scripts/s%d.lua", i), "ctx.effect(function() print('force "+v+"') end)\nctx.on('agent/turn-start', function() print('turn "+v+"') end)"
			}
			out[name] = text
		}
		return out
	}
	s := opened(t, place{rows: 70, files: files("v1")}, "--trust")
	s.WaitFor(" in force: ")
	dir := filepath.Join(s.dir, ".dshsh/scripts")
	if err := os.Symlink("user@host.1234:99", filepath.Join(dir, ".#s0.js")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "x.js"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s0.js~", "#s0.js#", ".s0.js.swp", "4913", "s0.js.orig", "_s.js", "s.d.ts", "s.test.js"} {
		s.write(".dshsh/scripts/"+name, "this is no script")
	}
	for name, text := range files("v2") {
		s.write(name, text)
	}
	s.WaitUntil("five new scripts", func() bool { return strings.Count(s.text(), "] force v2") == 5 })
	s.enter("say hi")
	s.WaitMatch(`(?m)^hi$`)
	s.ready()
	if n := strings.Count(s.text(), "] turn v2"); n != 5 || strings.Contains(s.text(), "turn v1") {
		t.Errorf("%d of 5 are new:\n%s", n, s.text())
	}
	if strings.Contains(s.Raw(), "no script") || strings.Contains(s.Raw(), "x.js") {
		t.Errorf("something was said of what is no script:\n%s", s.text())
	}
	s.quit()
}

// TestTrustIsAskedFor: n leaves the scripts out, show shows them, and the answer y lasts.
func TestTrustIsAskedFor(t *testing.T) {
	t.Parallel()
	s := open(t, place{files: map[string]string{".dshsh/scripts/guard.js": guardDenies}})
	s.WaitFor("y / n / show")
	s.Type("show", repltest.Enter)
	s.WaitFor("--- guard.js")
	s.WaitFor("reason: 'no shell today'")
	s.WaitUntil("second question", func() bool { return strings.Count(s.text(), "y / n / show") == 2 })
	s.Type("n", repltest.Enter)
	s.WaitFor("the scripts do not run")
	s.ready()
	s.enter(callHi)
	s.WaitFor("allow bash: echo hi?")
	s.Type("n", repltest.Enter)
	s.WaitFor("the user said no")
	s.ready()
	s.quit()

	s = open(t, place{dir: s.dir, home: s.home})
	s.WaitFor("y / n / show")
	s.Type("y", repltest.Enter)
	s.WaitFor("guard.js added")
	s.ready()
	s.quit()

	s = opened(t, place{dir: s.dir, home: s.home})
	s.WaitFor("1 script in force: guard.js")
	s.enter(callHi)
	s.WaitFor("no shell today")
	s.ready()
	// A save in a trusted folder is taken and remembered.
	s.write(".dshsh/scripts/guard.js", guardAbstains)
	s.WaitFor("scripts 1 -> 2")
	s.quit()
	s = opened(t, place{dir: s.dir, home: s.home})
	s.WaitFor(" in force: ")
	s.quit()
}

// TestEndlessScriptsEndAtTheDeadline: a loop in a hook is stopped and named, and the next
// turn works.
func TestEndlessScriptsEndAtTheDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, text, blamed string }{
		{"js", "spin.js", "ctx.on('tools/pre-execute', (call) => {\n  if (call.arguments.command.includes('spin'))\n    while (true) {}\n});", `spin.js:[23]: tools/pre-execute: deadline exceeded`},
		{"lua", "spin.lua", "ctx.on('tools/pre-execute', function(call)\n  if call.arguments.command:find('spin') then\n    while true do end\n  end\nend)", `spin.lua:3: tools/pre-execute: deadline exceeded`},
		{"js after await", "later.js", "ctx.on('tools/pre-execute', async (call) => {\n  await ctx.sleep(1);\n  if (call.arguments.command.includes('spin'))\n    while (true) {}\n});", `later.js:[34]: tools/pre-execute: deadline exceeded`},
		{"lua after sleep", "later.lua", "ctx.on('tools/pre-execute', function(call)\n  ctx.sleep(1)\n  if call.arguments.command:find('spin') then\n    while true do end\n  end\nend)", `later.lua:4: tools/pre-execute: deadline exceeded`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := opened(t, place{cols: 120, files: map[string]string{".dshsh/scripts/" + c.file: c.text}}, "--trust", "--approve", "all")
			s.WaitFor(" in force: ")
			s.enter(`call bash {"command":"touch spin"}`)
			s.WaitFor("bash gave an error")
			s.ready()
			s.WaitMatch("! Error: denied, because a policy failed: " + c.blamed)
			if s.exists("spin") {
				t.Error("the call ran")
			}
			s.clear()
			s.enter(callHi)
			s.WaitFor("bash answered")
			s.ready()
			s.quit()
		})
	}
}

// TestSaveBesideAToolIsAskedAbout: a guard that its subject can replace is none. What the
// tool did is not taken before somebody has looked; n keeps what is in force.
func TestSaveBesideAToolIsAskedAbout(t *testing.T) {
	t.Parallel()
	deny := strings.ReplaceAll(guardDenies, "(call) => {", "(call) => {\n  if (!call.arguments.command.includes('FORBIDDEN')) return;")
	s := opened(t, place{files: map[string]string{".dshsh/scripts/guard.js": deny, "open.js": guardAbstains}}, "--trust", "--approve", "all")
	s.WaitFor(" in force: ")
	// A way round the guards of paths, which no text of a command shows.
	s.write("round.sh", "cp open.js .dshsh/scri*/guard.js")
	s.enter(`call bash {"command":"sh round.sh"}`)
	s.WaitFor("Changed while a tool or program ran, or a question was open: guard.js")
	s.WaitFor("Take the change? y / n / show")
	s.Type("show", repltest.Enter)
	s.WaitMatch(`(?m)^-.*no shell today`)
	s.WaitUntil("second question", func() bool { return strings.Count(s.text(), "Take the change?") == 2 })
	s.Type("n", repltest.Enter)
	s.WaitFor("not taken")
	s.ready()
	s.clear()
	s.enter(`call bash {"command":"touch FORBIDDEN"}`)
	s.WaitFor("bash gave an error")
	s.ready()
	s.WaitFor("no shell today")
	if s.exists("FORBIDDEN") {
		t.Error("it ran")
	}
	s.quit()
}
