package main_test

import (
	"strings"
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// TestWordsAboutScripts: what is said where something is mistyped, left out or cancelled.
func TestWordsAboutScripts(t *testing.T) {
	t.Parallel()
	const one = "ctx.command('pick', { description: 'asks', run: () => ctx.ui.confirm('Sure?') });\nctx.tool({ name: 'dice', description: 'd', parameters: {}, execute: () => 'six' });\n"
	s := opened(t, place{files: map[string]string{".dshsh/scripts/count.js": one, ".dshsh/scripts/net.js": "require('./_lib');\n", ".dshsh/scripts/_lib.js": "1;\n"}}, "--trust")
	s.WaitFor("2 scripts in force: count.js and net.js  1 command  1 tool ")
	s.enter("/scripts off count")
	s.WaitFor("no such script: count (did you mean count.js?)")
	s.ready()
	s.enter("/scripts rollback")
	s.WaitFor("nothing that was saved since the start is left to undo")
	s.ready()
	s.enter("/scripts of count.js")
	s.WaitFor("there is no /scripts of (did you mean off?)")
	s.ready()
	s.write(".dshsh/scripts/_lib.js", "2;\n")
	s.saved("_lib.js changed (net.js)")
	s.ready()
	s.clear()
	s.enter("/pick")
	s.WaitFor("Sure? y / n")
	s.Type("perhaps", repltest.Enter)
	s.WaitFor("that is no answer to the question above: type y or n; Ctrl-C to give none")
	s.Type(repltest.CtrlC)
	s.WaitFor("/pick: cancelled")
	s.ready()
	s.in("/pick: cancelled\n")
	s.quit()
}

// TestTrustSaysThatThereIsNothingToGrant (and what asks again).
func TestTrustSaysThatThereIsNothingToGrant(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, dir: t.TempDir(), home: t.TempDir()}
	s.write(".dshsh/scripts/a.js", "ctx.on('tools/result', () => {});\n")
	out, err := s.command(place{}, "scripts", "trust").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "there is nothing to grant") || !strings.Contains(string(out), "a save while no dshsh runs here asks again") {
		t.Errorf("%v\n%s", err, out)
	}
}
