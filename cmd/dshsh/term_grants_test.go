package main_test

import (
	"fmt"
	"strings"
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// reader is a script that needs something, and reads a file at every turn.
func reader(needs string) string {
	return fmt.Sprintf("ctx.need(%s);\nctx.on('agent/turn-starting', async () => {\n"+
		"  await require('dshsh/fs').read('note.txt').then((t) => ctx.log('it says ' + t), (e) => ctx.log(e.code));\n});\n", needs)
}

// TestNeedsAreAskedForOnce: the folder first, then what its script needs; the answer lasts,
// and a save that needs more waits for one of its own.
func TestNeedsAreAskedForOnce(t *testing.T) {
	t.Parallel()
	files := map[string]string{".dshsh/scripts/r.js": reader("{ read: ['*.txt'] }"), "note.txt": "this"}
	s := open(t, place{files: files, rows: 50})
	s.WaitFor("y / n / show")
	s.Type("y", repltest.Enter)
	s.WaitFor("r.js needs, in this folder:\n  read *.txt\nGrant it? y / n / show")
	s.Type("n", repltest.Enter)
	s.WaitFor("r.js does without")
	s.ready()
	s.enter("say hi")
	s.WaitFor("[r.js] NOT_GRANTED")
	s.ready()
	s.enter("/scripts")
	s.WaitFor("needs read *.txt (not granted)")
	s.enter("/scripts trust")
	s.WaitUntil("second question", func() bool { return strings.Count(s.text(), "Grant it?") == 2 })
	s.Type("y", repltest.Enter)
	s.WaitFor("r.js has what it needs")
	s.ready()
	s.enter("say hi")
	s.WaitFor("[r.js] it says this")
	s.ready()
	s.quit()

	s = opened(t, place{dir: s.dir, home: s.home, rows: 50})
	s.enter("say hi")
	s.WaitFor("[r.js] it says this")
	s.ready()
	if strings.Contains(s.text(), "Grant it?") {
		t.Errorf("asked again:\n%s", s.text())
	}

	// It needs more: the version in force stays until that is answered.
	s.write("note.txt", "that")
	s.write(".dshsh/scripts/r.js", reader("{ read: ['*.txt'], http: ['api.example.com'] }"))
	s.WaitFor("r.js has changed and needs more now:\n  http api.example.com\nUntil you say so, the version in force stays.")
	s.WaitFor("Grant it? y / n / show")
	s.Type("n", repltest.Enter)
	s.WaitFor("not taken")
	s.ready()
	s.enter("/scripts")
	s.WaitMatch(`project/r\.js .*\n +needs read \*\.txt\n`)
	s.enter("say hi")
	s.WaitFor("[r.js] it says that")
	s.ready()
	s.enter("/reload")
	s.WaitUntil("the question again", func() bool { return strings.Count(s.text(), "Grant it? y / n / show") == 2 })
	s.Type("y", repltest.Enter)
	s.WaitFor("scripts 1 -> 2  r.js changed")
	s.ready()
	s.enter("/scripts")
	s.WaitFor("needs read *.txt; http api.example.com\n")
	s.quit()

	// What was answered counts as what was taken: nothing is asked at the next start.
	s = opened(t, place{dir: s.dir, home: s.home})
	s.WaitFor(" in force: ")
	s.quit()
}

// The question about a grant says what it leads to, and shows the script.
func TestTheGrantQuestionShows(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		".dshsh/scripts/yes.js":  "require('./_lib');\nctx.need({ approve: ['bash'] });\nctx.on('tools/pre-execute', () => ({ kind: 'allow' }));\n",
		".dshsh/scripts/_lib.js": "exports.x = 'of the module';\n",
	}
	s := open(t, place{files: files, rows: 60, cols: 120}, "--trust")
	s.WaitFor("  approve bash  (it decides in your place: bash may run without asking you)\nGrant it? y / n / show")
	s.Type("show", repltest.Enter)
	s.WaitFor("--- _lib.js\nexports.x = 'of the module';")
	s.WaitFor("--- yes.js\nrequire('./_lib');\nctx.need({ approve: ['bash'] });")
	s.WaitUntil("the question again", func() bool { return strings.Count(s.text(), "Grant it?") == 2 })
	s.Type("n", repltest.Enter)
	s.ready()
	s.quit()

	cmd := s.command(place{}, "scripts", "trust")
	cmd.Stdin = strings.NewReader("show\ny\n")
	out, err := cmd.CombinedOutput()
	if text := string(out); err != nil || strings.Count(text, "Grant it?") != 2 || !strings.Contains(text, "--- yes.js\nrequire") || !strings.HasSuffix(text, "granted; --revoke takes it back\n") {
		t.Errorf("%v:\n%s", err, text)
	}
}
