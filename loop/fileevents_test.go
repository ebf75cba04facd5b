package loop_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/loop/tool/fs"
	"dshsh/loop/tool/todo"
)

// fileWorld has the file tools in a fresh folder, where f holds "old\n", and a model that makes these calls,
// NAME JSON each, in a step of its own.
func fileWorld(t *testing.T, calls ...string) (w *world, dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var answers []modeltest.Answer
	for i, c := range calls {
		name, args, _ := strings.Cut(c, " ")
		answers = append(answers, modeltest.Tool(fmt.Sprint("c", i+1), name, args))
	}
	return newWorld(t, modeltest.New(answers...).Otherwise(modeltest.Text("ok")), withTools(fs.New(fs.Config{Dir: dir}).Tools()...), withEngines), dir
}

type intentNext = func(loop.FileChangePayload) (loop.FileDecision, error)

func TestFileEventsTellWhatHappens(t *testing.T) {
	w, dir := fileWorld(t, `read {"path":"f"}`, `edit {"path":"f","old":"old","new":"new"}`, `write {"path":"g","content":"made\n"}`)
	f, g := filepath.Join(dir, "f"), filepath.Join(dir, "g")
	hash := func(s string) string { return tool.Hash([]byte(s))[:8] }
	note := func(what string) func(p loop.FileChangePayload, next intentNext) (loop.FileDecision, error) {
		return func(p loop.FileChangePayload, next intentNext) (loop.FileDecision, error) {
			if _, err := os.Stat(g); err == nil {
				t.Error("the file is there before it may be")
			}
			if !strings.Contains(p.Diff, "\n+") || p.Call.Agent != w.a || p.Call.Signal == nil {
				t.Errorf("%+v", p)
			}
			w.notes.note("%s %s %.8s %s %s", what, p.Path, p.Hash, p.Call.CallID, p.Call.Name)
			return next(p)
		}
	}
	w.do(func() {
		loop.WriteIntent.On(w.h.Host, note("write"))
		loop.EditIntent.On(w.h.Host, note("edit"))
		loop.FileObserved.On(w.h.Host, func(p loop.FileSeenPayload) error {
			w.notes.note("seen %s %.8s %s", p.Path, p.Hash, p.Call.CallID)
			return nil
		})
	})
	w.create().prompt("go")
	w.check(w.noted(), strings.Join([]string{
		"seen " + f + " " + hash("old\n") + " c1",
		"edit " + f + " " + hash("old\n") + " c2 edit", "seen " + f + " " + hash("new\n") + " c2",
		"write " + g + "  c3 write", "seen " + g + " " + hash("made\n") + " c3",
	}, "\n"))
}

func TestFileIntentsDeny(t *testing.T) {
	for name, c := range map[string]struct{ file, code, want string }{
		"js":      {"g.js", `ctx.on('fs/write-intent', ({ path, diff, call }) => { if (diff.includes('+bad') && call.name === 'write' && path.endsWith('/f')) return { kind: 'deny', reason: 'no bad' } })`, "no bad"},
		"lua":     {"g.lua", `ctx.on('fs/write-intent', function(e) if e.diff:find('+bad', 1, true) and e.call.name == 'write' then return { kind = 'deny', reason = 'no bad' } end end)`, "no bad"},
		"filter":  {"g.js", `ctx.on('fs/write-intent', { filter: { tool: 'write' } }, () => ({ kind: 'deny', reason: 'no bad' }))`, "no bad"},
		"throw":   {"g.js", `ctx.on('fs/write-intent', () => { throw new Error('broken') })`, "g.js:1: fs/write-intent: broken"},
		"reject":  {"g.js", `ctx.on('fs/write-intent', async () => { await null; throw new Error('broken') })`, "g.js:1: fs/write-intent: broken"},
		"outer":   {"g.js", "ctx.on('fs/write-intent', () => ({ kind: 'allow' }));\nctx.on('fs/write-intent', () => ({ kind: 'deny', reason: 'no bad' }))", "no bad"},
		"unknown": {"g.js", `ctx.on('fs/write-intent', () => ({ kind: 'maybe' }))`, "maybe"},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := fileWorld(t, `write {"path":"f","content":"bad\n"}`)
			w.script(c.file, c.code)
			w.create().prompt("go")
			if got := w.result(); !strings.HasPrefix(got, "c1 error Error: ") || !strings.Contains(got, c.want) {
				t.Errorf("%q", got)
			}
			if data, _ := os.ReadFile(filepath.Join(dir, "f")); string(data) != "old\n" {
				t.Errorf("the file holds %q", data)
			}
		})
	}
}

func TestFileIntentIsAskedOnlyOfTheKind(t *testing.T) {
	w, dir := fileWorld(t, `write {"path":"f","content":"good\n"}`)
	w.script("g.js", `ctx.on('fs/edit-intent', () => ({ kind: 'deny' }))`)
	w.create().prompt("go")
	if data, _ := os.ReadFile(filepath.Join(dir, "f")); string(data) != "good\n" {
		t.Errorf("%q, %s", data, w.result())
	}
}

func TestCancelWhileAFileIntentWaits(t *testing.T) {
	w, dir := fileWorld(t, `write {"path":"f","content":"bad\n"}`)
	w.script("g.js", `ctx.on('fs/write-intent', ({ call }) => { ctx.log('asked'); return new Promise(() => {}) })`)
	w.create()
	w.do(func() { _ = w.a.Followup(loop.UserMessage("go")) })
	w.awaitNote("asked")
	w.a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
	w.wait()
	if got := w.result(); !strings.HasPrefix(got, "c1 ABORTED ") {
		t.Errorf("%q", got)
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "f")); string(data) != "old\n" {
		t.Errorf("the file holds %q", data)
	}
}

func TestObserverThatThrowsIsContained(t *testing.T) {
	w, _ := fileWorld(t, `read {"path":"f"}`)
	w.do(func() {
		loop.FileObserved.On(w.h.Host, func(loop.FileSeenPayload) error { return errors.New("observer broke") })
	})
	w.create().prompt("go")
	w.check(strings.TrimSpace(w.result()), "c1 - old")
}

func TestTodosAreRecorded(t *testing.T) {
	list := `{"todos":[{"content":"one","status":"completed"},{"content":"two","status":"pending"}]}`
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "todo", list), modeltest.Tool("c2", "todo", `{"todos":[{"content":"x","status":"later"}]}`)).Otherwise(modeltest.Text("ok")), withTools(todo.New())).create()
	w.prompt("go")
	var found []string
	for _, r := range w.records() {
		if r.Type == loop.RecTodos {
			found = append(found, string(r.Data))
		}
	}
	w.check(strings.Join(found, "\n"), list)
	if got := w.results(); !strings.HasPrefix(got[0], "c1 - the list has 2 items") || !strings.HasPrefix(got[1], "c2 "+tool.CodeInvalidArgs) {
		t.Errorf("%q", got)
	}
}
