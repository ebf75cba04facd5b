package js_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/js"
	"dshsh/runtime"
)

func TestMain(m *testing.M) {
	// The clock of regexp2 ends by itself, a while after the last match with a limit.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock"))
}

func TestSuite(t *testing.T) { bindingstest.Run(t, js.Engine()) }

// watcher keeps what the host reports. Used on the thread; read after the host's end.
type watcher struct {
	failures []string
	rebuilt  int
	logs     []string
}

func (w *watcher) Failed(f runtime.Failure) {
	w.failures = append(w.failures, f.What+": "+f.Err.Error())
}
func (w *watcher) Decided(runtime.Decision)     {}
func (w *watcher) Rebuilt(in *runtime.Instance) { w.rebuilt++ }
func (w *watcher) Quarantined(in *runtime.Instance, reason error) {
	w.failures = append(w.failures, "quarantined: "+reason.Error())
}
func (w *watcher) Logged(in *runtime.Instance, level, text string) { w.logs = append(w.logs, text) }

// newHost is a host that ends with the test.
func newHost(t *testing.T, l runtime.Limits) (*runtime.Host, *watcher) {
	t.Helper()
	w := &watcher{}
	h := bindingstest.NewHost(js.Engine(), l, w)
	t.Cleanup(h.Close)
	return h, w
}

// do runs fn on the thread.
func do(t *testing.T, h *runtime.Host, fn func()) {
	t.Helper()
	if err := h.Do(context.Background(), fn); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, h *runtime.Host, nameAndSource ...string) {
	t.Helper()
	do(t, h, func() {
		if err := bindingstest.Load(h, js.Engine(), nameAndSource...); err != nil {
			t.Error(err)
		}
	})
}

func yes(bindingstest.ToolCall) (bindingstest.Answer, error) {
	return bindingstest.Answer{Kind: "allow"}, nil
}

// TestR019: an async guard's deny is honoured, its rejection is a failure of the call,
// and a rejected promise that it leaves behind is reported with its place.
func TestR019(t *testing.T) {
	h, w := newHost(t, runtime.Limits{})
	load(t, h, "guard.js", `ctx.on('test/tool', async (call) => {
  await null;
  if (call.name === 'deny') return { kind: 'deny', reason: 'after a tick' };
  if (call.name === 'reject') throw new Error('cannot judge');
  Promise.reject(new Error('left behind'));
});`)
	ask := func(name string) (a bindingstest.Answer, err error) {
		do(t, h, func() { a, err = bindingstest.Tool.Run(h, runtime.Target{}, bindingstest.ToolCall{Name: name}, yes) })
		return a, err
	}
	if a, err := ask("deny"); err != nil || a.Kind != "deny" {
		t.Errorf("deny: %v, %v", a, err)
	}
	if a, err := ask("reject"); err == nil || err.Error() != "guard.js:4: test/tool: cannot judge" {
		t.Errorf("reject: %v, %v", a, err)
	}
	if a, err := ask("leave"); err != nil || a.Kind != "allow" {
		t.Errorf("leave: %v, %v", a, err)
	}
	if len(w.failures) != 1 || w.failures[0] != "promise: guard.js:5: left behind" {
		t.Errorf("reported: %q", w.failures)
	}
}

// TestR021: eight calls at a time go through the hooks of one script, which is reloaded in
// between; every call gets its own answer, from the version that it began with.
func TestR021(t *testing.T) {
	rounds := 500
	if testing.Short() {
		rounds = 50
	}
	h, w := newHost(t, runtime.Limits{})
	script := func(version int) string {
		return fmt.Sprintf(`let inside = 0;
ctx.on('test/tool', async (call, next) => {
  if (++inside !== 1) throw new Error('two at once');
  inside--;
  await ctx.sleep(0);
  await next();
  await null;
  return { kind: 'deny', reason: call.name + ' %d' };
});
ctx.on('test/contained', async (p) => { await ctx.sleep(0); });`, version)
	}
	load(t, h, "hooks.js", script(0))
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				name := fmt.Sprintf("call %d", i)
				var a bindingstest.Answer
				var err error
				do(t, h, func() {
					gen := h.Current().Hold()
					defer gen.Release()
					a, err = bindingstest.Tool.Run(h, runtime.Target{Gen: gen}, bindingstest.ToolCall{Name: name}, yes)
					if err == nil {
						err = bindingstest.Contained.Run(h, runtime.Target{Gen: gen}, bindingstest.Note{})
					}
				})
				if err != nil || a.Reason != fmt.Sprintf("%s %d", name, round) && a.Reason != fmt.Sprintf("%s %d", name, round+1) {
					t.Errorf("round %d: %s: %v, %v", round, name, a, err)
				}
			}()
		}
		load(t, h, "hooks.js", script(round+1))
		wg.Wait()
	}
	if len(w.failures) > 0 {
		t.Errorf("failures: %q", w.failures)
	}
}

// TestGivenUp: when its turn is cancelled a listener has the grace to settle, and what it
// returns after that reaches nobody.
func TestGivenUp(t *testing.T) {
	h, _ := newHost(t, runtime.Limits{Grace: 50})
	load(t, h, "a.js", `let settle;
ctx.on('test/serial', (p) => p.text === 'never'
  ? new Promise((ok) => { settle = ok; })
  : ctx.sleep(60000).catch(() => 'in time'));
ctx.on('test/emit', () => settle('too late'));
ctx.on('test/decide', async () => { await null; return { kind: 'deny' }; });`)
	for _, text := range []string{"never", "soon"} {
		ctx, cancel := context.WithCancelCause(context.Background())
		stop := errors.New("stop")
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			do(t, h, func() { err = bindingstest.Serial.Run(h, runtime.Target{Ctx: ctx}, bindingstest.Note{Text: text}) })
		}()
		do(t, h, func() {})
		cancel(stop)
		<-done
		if !errors.Is(err, stop) {
			t.Errorf("%s: got %v, want the cause", text, err)
		}
	}
	do(t, h, func() {
		bindingstest.Emit.Fire(h, runtime.Target{}, bindingstest.Note{})
		a, err := bindingstest.Decide.Run(h, runtime.Target{}, bindingstest.Note{}, func(bindingstest.Note) (bindingstest.Answer, error) { return bindingstest.Answer{}, nil })
		if err != nil || a.Kind != "deny" {
			t.Errorf("afterwards: %v, %v", a, err)
		}
	})
}

// TestCloseWhilePending: what waits when the host ends comes back.
func TestCloseWhilePending(t *testing.T) {
	h, w := newHost(t, runtime.Limits{})
	load(t, h, "a.js", `ctx.spawn(async () => { await ctx.sleep(1e9); });
ctx.spawn(() => new Promise(() => {}));
setInterval(() => {}, 1);
setTimeout(() => {}, 1e9);
ctx.on('test/emit', () => new Promise(() => {}));
ctx.on('test/serial', () => new Promise(() => {}));`)
	done := make(chan error)
	started := make(chan struct{})
	go func() {
		_ = h.Do(context.Background(), func() {
			bindingstest.Emit.Fire(h, runtime.Target{}, bindingstest.Note{})
			close(started)
			err := bindingstest.Serial.Run(h, runtime.Target{}, bindingstest.Note{})
			go func() { done <- err }()
		})
	}()
	<-started
	h.Close()
	if err := <-done; !errors.Is(err, runtime.ErrUnloaded) {
		t.Errorf("got %v, want ErrUnloaded", err)
	}
	if len(w.failures) > 0 {
		t.Errorf("reported: %q", w.failures)
	}
}

// TestStaleInterrupt: calls that end right around their deadline never hurt the next one.
// On a busy machine any call may overrun, loading included: only an end before the limit
// is a fault.
func TestStaleInterrupt(t *testing.T) {
	const limit = 20 * time.Millisecond
	h, _ := newHost(t, runtime.Limits{Sync: limit.Milliseconds()})
	loaded := false
	for range 50 {
		do(t, h, func() {
			err := bindingstest.Load(h, js.Engine(), "a.js", `ctx.on('test/serial', (p) => { const end = Date.now() + p.n; while (Date.now() < end); });
ctx.on('test/decide', () => ({ kind: 'deny' }));`)
			if loaded = err == nil; !loaded && !errors.Is(err, runtime.ErrDeadline) {
				t.Error(err)
			}
		})
		if loaded {
			break
		}
	}
	if !loaded {
		t.Fatal("a script of two lines did not load within its limit in 50 tries")
	}
	killed, judged := 0, 0
	for i := range 60 {
		do(t, h, func() {
			h.Lift(h.Current().Instances[0])
			if err := bindingstest.Serial.Run(h, runtime.Target{}, bindingstest.Note{N: 19 + i%3}); err != nil {
				killed++
			}
			h.Lift(h.Current().Instances[0])
			start := time.Now()
			_, err := bindingstest.Decide.Run(h, runtime.Target{}, bindingstest.Note{}, nil)
			if took := time.Since(start); err == nil || took < limit {
				judged++
				if err != nil {
					t.Errorf("the next call was hit after %v: %v", took, err)
				}
			}
		})
	}
	if killed == 0 || judged == 0 {
		t.Errorf("%d calls were stopped, %d were judged", killed, judged)
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		name, code, want, source string
		line, col                int
	}{
		{"a.js", "let a = 1;\n\nlet b = ;\n", "Unexpected token ;", "let b = ;", 3, 9},
		{"a.js", "function f() {\n", "Unexpected end of input", "", 2, 1},
		{"a.js", "let a; let a;", "'a' has already been declared", "let a; let a;", 1, 12},
		{"a.mjs", "with (x) {}", "", "with (x) {}", 1, 0},
		{"a.js", "import x frm './x.js';", "Expected \"from\"", "import x frm './x.js';", 1, 10},
		{"a.js", "import './a.js';\nlet x = ;", "Unexpected \";\"", "let x = ;", 2, 9},
		{"a.js", "// import\nlet x = ;", "Unexpected token ;", "let x = ;", 2, 9},
		{"a.ts", "type A = {\n  x: ;\n}", "Unexpected \";\"", "  x: ;", 2, 6},
		{"a.js", "let a = 1;\nawait f();", "ctx.spawn(async", "await f();", 2, 1},
		{"a.ts", "let a: number = 1;\n\nlet b = /(/;\n", "Unterminated group", "let b = /(/;", 3, 9},
		{"a.js", strings.Repeat("(", 5000), "nest more than", "", 0, 0},
		{"a.js", "let a;\na" + strings.Repeat("?.a", 5000), "operators in a row", "a" + strings.Repeat("?.a", 66) + "?...", 2, 0},
		{"a.ts", "type A = 1;\n" + strings.Repeat("a=>", 5000) + "1", "operators in a row", strings.Repeat("a=>", 66) + "a=...", 2, 0},
		{"a.js", "x = '\n'", "", "x = '", 1, 0},
	} {
		_, err := js.Engine().Compile(runtime.Source{ID: "project/" + c.name, File: c.name, Code: []byte(c.code)})
		var se *runtime.ScriptError
		if !errors.As(err, &se) {
			t.Errorf("%.20q: got %v, want a ScriptError", c.code, err)
			continue
		}
		if !strings.Contains(se.Message, c.want) || se.Source != c.source || se.Pos.Line != c.line || c.col > 0 && se.Pos.Col != c.col || se.Pos.File != c.name {
			t.Errorf("%.20q: got %+v %q %q", c.code, se.Pos, se.Message, se.Source)
		}
	}
}

// TestSourceMapsAreNotRead: a comment does not make the engine open a file.
func TestSourceMapsAreNotRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "map.json")
	if err := os.WriteFile(name, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Engine().Compile(runtime.Source{ID: "a.js", File: "a.js", Code: []byte("1;\n//# sourceMappingURL=" + name)}); err != nil {
		t.Error(err)
	}
}

// TestRequireLinks: a link that leads out of the script folder is not followed, one that
// stays inside is.
func TestRequireLinks(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "scripts")
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, name); err != nil {
			t.Skip("links are what this is about: ", err) // as on Windows, where they need a right
		}
	}
	write(filepath.Join(top, "secret.js"), "module.exports = 'secret'")
	write(filepath.Join(top, "scripts-not", "x.js"), "module.exports = 'secret'")
	write(filepath.Join(dir, "lib", "in.js"), "module.exports = 'inside'")
	link(filepath.Join(top, "secret.js"), filepath.Join(dir, "out.js"))
	link(top, filepath.Join(dir, "up"))
	link(filepath.Join(dir, "lib", "in.js"), filepath.Join(dir, "in.js"))
	h, w := newHost(t, runtime.Limits{})
	var read []string
	p, err := js.Engine().Compile(runtime.Source{ID: "project/a.js", File: "a.js", Dir: dir,
		Read: func(path string) ([]byte, error) { read = append(read, path); return os.ReadFile(path) },
		Code: []byte(`for (const p of ['./out', './up/secret', './up/scripts/lib/in', './lib/../../secret', '../scripts-not/x', './in', './lib/in.js'])
  try { console.log(require(p)); } catch (e) { console.log(e.message); }`)})
	if err != nil {
		t.Fatal(err)
	}
	do(t, h, func() {
		if _, err := h.Load(runtime.ScriptFile{ID: "project/a.js", File: "a.js", Program: p}); err != nil {
			t.Error(err)
		}
	})
	want := []string{
		`require: "./out" is outside the script folder`, `require: "./up/secret" is outside the script folder`, "inside",
		`require: "./lib/../../secret" is outside the script folder`, `require: "../scripts-not/x" is outside the script folder`, "inside", "inside",
	}
	if strings.Join(w.logs, "\n") != strings.Join(want, "\n") {
		t.Errorf("got:\n%s", strings.Join(w.logs, "\n"))
	}
	if len(read) != 1 {
		t.Errorf("read %q, want one file once", read)
	}
}

func TestRequireWithoutFolder(t *testing.T) {
	h, _ := newHost(t, runtime.Limits{})
	do(t, h, func() {
		err := bindingstest.Load(h, js.Engine(), "a.js", "require('./x')")
		if err == nil || !strings.Contains(err.Error(), "a.js:1: require: this script has no folder") {
			t.Errorf("got %v", err)
		}
	})
}

// TestReplayable: chance and time come from the host, so that the same run repeats itself;
// and two machines of one program share nothing.
func TestReplayable(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := &watcher{}
	h := runtime.NewHost(runtime.HostConfig{Events: bindingstest.Catalogue(), Observer: w, Now: func() time.Time { return now }})
	defer h.Close()
	p, err := js.Engine().Compile(runtime.Source{ID: "project/a.js", File: "a.js", Code: []byte("globalThis.n = (globalThis.n ?? 0) + 1; console.log(n, Math.random(), new Date().toISOString(), Date.now() === ctx.now())")})
	if err != nil {
		t.Fatal(err)
	}
	do(t, h, func() {
		for range 2 {
			if _, err := h.Load(runtime.ScriptFile{ID: "project/a.js", File: "a.js", Program: p}); err != nil {
				t.Error(err)
			}
		}
		now = now.Add(time.Second)
		if _, err := h.Load(runtime.ScriptFile{ID: "project/a.js", File: "a.js", Program: p}); err != nil {
			t.Error(err)
		}
	})
	if len(w.logs) != 3 || w.logs[0] != w.logs[1] || w.logs[0] == w.logs[2] || !strings.Contains(w.logs[0], "2026-01-02T03:04:05.000Z true") {
		t.Errorf("got %q", w.logs)
	}
}

// TestForeignFunction: a function of one script is not one of another.
func TestForeignFunction(t *testing.T) {
	h, _ := newHost(t, runtime.Limits{})
	var kept runtime.Func
	do(t, h, func() {
		var vms []runtime.VM
		for _, name := range []string{"a.js", "b.js"} {
			p, err := js.Engine().Compile(runtime.Source{ID: name, File: name, Code: []byte("ctx.effect(() => {})")})
			if err != nil {
				t.Fatal(err)
			}
			in, err := h.Load(runtime.ScriptFile{ID: name, File: name, Program: p})
			if err != nil {
				t.Fatal(err)
			}
			vms = append(vms, in.VM())
		}
		kept = js.FunctionOf(vms[0], "() => 1")
		if _, err := vms[1].Call(nil, kept); !errors.Is(err, runtime.ErrLost) {
			t.Errorf("got %v", err)
		}
		if v, err := vms[0].Call(nil, kept); err != nil || v != int64(1) {
			t.Errorf("got %v, %v", v, err)
		}
		vms[0].Close()
		if _, err := vms[0].Call(nil, kept); !errors.Is(err, runtime.ErrUnloaded) {
			t.Errorf("after Close: got %v", err)
		}
	})
}

// bomb is a payload field that panics when a script reads it.
type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("bomb") }

// TestPanicInPayload: host code that panics while a script reads is an error in the
// script, and its VM goes on.
func TestPanicInPayload(t *testing.T) {
	type payload struct {
		Bomb bomb `json:"bomb"`
	}
	event := runtime.NewSerial[payload]("test/bomb", "", runtime.Sample{})
	w := &watcher{}
	h := runtime.NewHost(runtime.HostConfig{Events: runtime.NewCatalogue(event.Event), Observer: w})
	defer h.Close()
	do(t, h, func() {
		if err := bindingstest.Load(h, js.Engine(), "a.js", `ctx.on('test/bomb', async (p) => {
  await null;
  p.bomb;
});`); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := event.Run(h, runtime.Target{}, payload{}); err == nil || err.Error() != "a.js:3: test/bomb: internal error: bomb" {
				t.Errorf("got %v", err)
			}
		}
	})
	if w.rebuilt > 0 {
		t.Errorf("rebuilt %d times", w.rebuilt)
	}
}
