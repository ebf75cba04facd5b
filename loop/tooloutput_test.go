package loop_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/session"
)

func TestSavedOutputsStayReadableInForks(t *testing.T) {
	var saved [][]string
	var files []string
	call := modeltest.Tool("c1", "echo", `{"text":"r"}`)
	w := newWorld(t, modeltest.New(call, modeltest.Text("ok"), call, modeltest.Text("ok"), call, modeltest.Text("ok")), withStore(t, sessionOS()),
		withTools(echo{body: func(_ context.Context, x *tool.Exec) {
			saved = append(saved, x.SavedDirs)
			files = append(files, tool.Bound([]byte(strings.Repeat("line\n", 1000)), tool.Limits{Bytes: 1024}, tool.SpillFile(x.FilesDir, x.CallID)).Path)
		}})).create()
	w.prompt("go")
	for range 2 {
		w.fork(w.a.ID(), session.Last).prompt("go")
	}
	if len(saved) != 3 || len(saved[0]) != 1 || len(saved[1]) != 2 || len(saved[2]) != 3 {
		t.Fatalf("%v", saved)
	}
	for i, f := range files {
		// Nearest first: what an ancestor saved is in the folder that stands as far back.
		if got := saved[2][2-i]; got != filepath.Dir(f) {
			t.Errorf("%d: %s is not in %s", i, f, got)
		}
		if _, err := os.Stat(f); err != nil {
			t.Error(err)
		}
	}
}

// What a tool of a script or an embedder prints is bounded too. Of an error not all is kept.
func TestEveryResultIsBounded(t *testing.T) {
	big := strings.Repeat("line\n", 100_000)
	for name, code := range map[string]string{
		"result": `ctx.tool({ name: 'big', description: 'd', parameters: { type: 'object' }, execute: () => 'first\n' + 'line\n'.repeat(100000) + 'last' })`,
		"error":  `ctx.tool({ name: 'big', description: 'd', parameters: { type: 'object' }, execute: () => { throw new Error('first\n' + 'line\n'.repeat(100000) + 'last') } })`,
		"small":  `ctx.tool({ name: 'big', description: 'd', parameters: { type: 'object' }, execute: () => 'x'.repeat(60000) })`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, modeltest.New(modeltest.Tool("c1", "big", `{}`)).Otherwise(modeltest.Text("ok")), withStore(t, sessionOS()), withEngines)
			w.script("big.js", code)
			w.create().prompt("go")
			got := w.result()
			if name == "small" {
				if got != "c1 - "+strings.Repeat("x", 60_000) {
					t.Errorf("%d bytes", len(got))
				}
				return
			}
			if name == "error" {
				if len(got) > 9<<10 || !strings.Contains(got, "first\n") || !strings.HasSuffix(got, "line\nlast") || !strings.Contains(got, "... (491,818 bytes left out) ...") {
					t.Errorf("%d bytes: %.200s", len(got), got)
				}
				return
			}
			if len(got) > 65<<10 || !strings.Contains(got, "first\n") || !strings.HasSuffix(got, "last") || !strings.Contains(got, "cut here; the whole is in ") {
				t.Fatalf("%d bytes: %.200s ... %s", len(got), got, got[max(0, len(got)-100):])
			}
			_, path, _ := strings.Cut(got, "the whole is in ")
			path, _, _ = strings.Cut(path, " ")
			if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), big) {
				t.Errorf("%v, %d bytes", err, len(data))
			}
		})
	}
}
