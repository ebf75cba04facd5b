package modules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dshsh/bindings/js"
	"dshsh/bindings/lua"
	"dshsh/runtime"
	"dshsh/runtime/modules"
	"dshsh/runtime/runtimetest"
)

// needs is what a test's script declares, as ctx.need takes it.
type needs map[string][]string

// world is a host with the modules and one script in a folder of its own.
type world struct {
	t    *testing.T
	dir  string // the working folder, links resolved
	cfg  modules.Config
	host *runtime.Host
	in   *runtime.Instance

	mu      sync.Mutex // guards what follows
	granted func(runtime.Need) bool
	lines   []string
	uses    []runtime.Use
	done    chan struct{}
}

func newWorld(t *testing.T) *world {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, granted: func(runtime.Need) bool { return true }}
	w.cfg.Dir = dir
	return w
}

// file writes a file below the working folder; text "" with a slash at the end makes a folder.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) link(target, name string) {
	w.t.Helper()
	if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Granted implements runtime.Grants.
func (w *world) Granted(_ *runtime.Instance, n runtime.Need) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.granted(n) {
		return nil
	}
	return fmt.Errorf("answer the question")
}

// watcher is the world as the host's observer.
type watcher struct{ *world }

func (watcher) Failed(f runtime.Failure)             {}
func (watcher) Decided(runtime.Decision)             {}
func (watcher) Quarantined(*runtime.Instance, error) {}
func (watcher) Rebuilt(*runtime.Instance)            {}
func (o watcher) Used(_ *runtime.Instance, u runtime.Use) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uses = append(o.uses, u)
}

func (o watcher) Logged(_ *runtime.Instance, _, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if text == "done" {
		close(o.done)
		return
	}
	o.lines = append(o.lines, text)
}

// load starts a script; call is what ends in the log.
func (w *world) load(lang, code string) error {
	w.t.Helper()
	w.lines, w.uses, w.done = nil, nil, make(chan struct{})
	e := map[string]runtime.Engine{"js": js.Engine(), "lua": lua.Engine()}[lang]
	w.host = runtime.NewHost(runtime.HostConfig{Events: runtimetest.Catalogue(), Engines: []runtime.Engine{e}, Observer: watcher{w},
		Modules: modules.New(w.cfg), Grants: w, Thread: runtime.ThreadOptions{Debug: true}})
	w.t.Cleanup(w.host.Close)
	p, err := e.Compile(runtime.Source{ID: "project/a." + lang, File: "a." + lang, Code: []byte(code)})
	if err != nil {
		return err
	}
	derr := w.host.Do(context.Background(), func() {
		if w.in, err = w.host.Load(runtime.ScriptFile{ID: "project/a." + lang, File: "a." + lang, Layer: runtime.LayerProject, Program: p}); err == nil {
			w.host.Activate([]*runtime.Instance{w.in})
		}
	})
	if derr != nil {
		w.t.Fatal(derr)
	}
	return err
}

func (w *world) wait() []string {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(20 * time.Second):
		w.t.Fatalf("not done; so far: %q", w.lines)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines
}

// script has the calls, which are written alike in both languages, made one after the
// other, and their results or errors logged. L(...) makes a list, K(key, value, ...) an
// object.
func script(lang string, n needs, calls []string) string {
	raw, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	if lang == "js" {
		fmt.Fprintf(&b, "const fs = require('dshsh/fs'), exec = require('dshsh/exec'), http = require('dshsh/http');\n"+
			"const L = (...a) => a, K = (...a) => Object.fromEntries(a.flatMap((k, i) => (i %% 2 ? [] : [[k, a[i + 1]]])));\nctx.need(%s);\nctx.spawn(async () => {\n", raw)
		for _, c := range calls {
			fmt.Fprintf(&b, "  try { const v = await %s; ctx.log(v === undefined ? null : v); } catch (e) { ctx.log('! ' + e.message); }\n", c)
		}
		b.WriteString("  ctx.log('done');\n});\n")
		return b.String()
	}
	fmt.Fprintf(&b, "local fs, exec, http = require('dshsh/fs'), require('dshsh/exec'), require('dshsh/http')\n"+
		"local function L(...) return { ... } end\nlocal function K(...) local o, a = {}, { ... } for i = 1, #a, 2 do o[a[i]] = a[i + 1] end return o end\nctx.need(json.decode([==[%s]==]))\nctx.spawn(function()\n", raw)
	for _, c := range calls {
		fmt.Fprintf(&b, "  do local ok, v = pcall(function() return %s end) if ok then ctx.log(v) else ctx.log('! ' .. (type(v) == 'string' and v or v.message)) end end\n", c)
	}
	b.WriteString("  ctx.log('done')\nend)\n")
	return b.String()
}

// both runs the calls in both languages, each in a world that prepare has made ready, and
// compares what they came to with want: "! PART" is an error that has the part in it,
// "~PART" anything that has.
func both(t *testing.T, n needs, prepare func(*world), calls, want []string, check func(*world)) {
	t.Helper()
	for _, lang := range []string{"js", "lua"} {
		t.Run(lang, func(t *testing.T) {
			w := newWorld(t)
			if prepare != nil {
				prepare(w)
			}
			filled := needs{}
			for k, list := range n {
				for _, p := range list {
					filled[k] = append(filled[k], strings.ReplaceAll(p, "$DIR", w.dir))
				}
			}
			var cs []string
			for _, c := range calls {
				cs = append(cs, strings.ReplaceAll(c, "$DIR", w.dir))
			}
			if err := w.load(lang, script(lang, filled, cs)); err != nil {
				t.Fatal(err)
			}
			got := w.wait()
			for i := range max(len(got), len(want)) {
				g, m := "(nothing)", "(nothing)"
				if i < len(got) {
					g = got[i]
				}
				if i < len(want) {
					m = strings.ReplaceAll(want[i], "$DIR", w.dir)
				}
				part, isErr := strings.CutPrefix(m, "! ")
				if within, ok := strings.CutPrefix(m, "~"); ok && strings.Contains(g, within) {
					continue
				}
				if isErr && (!strings.HasPrefix(g, "! ") || !strings.Contains(g, part)) || !isErr && g != m {
					t.Errorf("%s\n got %s\nwant %s", calls[min(i, len(calls)-1)], g, m)
				}
			}
			if check != nil {
				check(w)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	both(t, needs{"read": {"docs/**", "one.txt"}, "write": {"out/**"}}, func(w *world) {
		w.file("docs/a.txt", "hello")
		w.file("docs/b/c.txt", "deep")
		w.file("one.txt", "1")
		w.file("out/there.txt", "old")
		w.file("docs/bin", "\xff\xfe")
		w.link("b/c.txt", "docs/inside")
		if err := os.Chmod(filepath.Join(w.dir, "out/there.txt"), 0o600); err != nil {
			t.Fatal(err)
		}
	}, []string{
		`fs.read('docs/a.txt')`, `fs.read('./docs/b/../a.txt')`, `fs.read('$DIR/one.txt')`, `fs.read('docs/inside')`,
		`fs.list('docs')`, `fs.exists('docs/none')`, `fs.exists('docs/b')`, `fs.read('docs/none')`, `fs.read('docs/b')`, `fs.read('docs/bin')`,
		`fs.write('out/new/x.txt', 'x')`, `fs.write('out/there.txt', 'new')`, `fs.append('out/there.txt', '+')`, `fs.append('out/log', 'a')`,
		`fs.write('docs/a.txt', 'x')`, `fs.read('out/there.txt')`, `fs.read('')`, `fs.read(1)`,
	}, []string{
		"hello", "hello", "1", "deep",
		`[{"name":"a.txt","kind":"file"},{"name":"b","kind":"folder"},{"name":"bin","kind":"file"},{"name":"inside","kind":"link"}]`,
		"false", "true", "! fs.read: there is no docs/none", "! fs.read: docs/b: it is a folder", "! fs.read: docs/bin: it is not UTF-8 text",
		"null", "null", "null", "null",
		"! fs.write: not granted: project/a.", "! fs.read: not granted", "! fs.read: the path is empty", "! fs.read: for parameter path: got number, want string",
	}, func(w *world) {
		if got := w.read("out/new/x.txt") + w.read("out/there.txt") + w.read("out/log"); got != "xnew+a" {
			w.t.Errorf("written: %q", got)
		}
		if fi, err := os.Stat(filepath.Join(w.dir, "out/there.txt")); err != nil || fi.Mode().Perm() != 0o600 {
			w.t.Errorf("the mode of a written file is %v, %v", fi.Mode(), err)
		}
		if left, _ := filepath.Glob(filepath.Join(w.dir, "out", ".dshsh-*")); len(left) > 0 {
			w.t.Errorf("left behind: %q", left)
		}
		var denied []string
		for _, u := range w.uses {
			if !u.Allowed {
				denied = append(denied, u.Kind+" "+u.Target)
			}
		}
		if got := strings.Join(denied, ", "); got != "write docs/a.txt, read out/there.txt" {
			w.t.Errorf("denials told: %s", got)
		}
		if u := w.uses[0]; u != (runtime.Use{Kind: "read", Target: "docs/a.txt", Allowed: true}) {
			w.t.Errorf("the first use told: %+v", u)
		}
	})
}

// TestUnansweredNeeds: the script runs, its calls say what they wait for, and what is
// granted meanwhile works.
func TestUnansweredNeeds(t *testing.T) {
	both(t, needs{"read": {"a", "b"}}, func(w *world) {
		w.file("a", "A")
		w.file("b", "B")
		w.granted = func(n runtime.Need) bool { return n.Text == "a" }
	}, []string{`fs.read('a')`, `fs.read('b')`, `fs.read('c')`}, []string{
		"A", `! declares "read b", which waits for the user: answer the question`, "! wants read c, and it declares only a, b; add it to ctx.need({read: [...]})",
	}, nil)
}
