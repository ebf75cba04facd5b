package reload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dshsh/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask is the toy event: every listener answers with the word that its script gave it.
var ask = runtime.NewSerial[struct{}]("ask", "Asks every script for its word.", runtime.Sample{})

// toy is a script language of one instruction a line, as small as the cases allow:
//
//	say WORD      answer WORD when asked
//	need FILE     run FILE while loading
//	bundle FILE   run FILE's lines as part of this one, read while compiling
//	find FILE     like need, but FILE is looked for on the disk first, as a resolver does
//	fail WORD     fail to load
//	syntax WORD   fail to compile
//	grow FILE     answer with the text of FILE, read when asked
type toy struct {
	mu      sync.Mutex
	answers []string
	vms     atomic.Int64 // open ones
	made    atomic.Int64 // all
	parsed  atomic.Int64
	pause   func() // called in the middle of loading
	parse   func() // called while compiling
}

func (e *toy) Language() string     { return "toy" }
func (e *toy) Extensions() []string { return []string{".js", ".mjs", ".ts", ".lua"} }

type toyProgram struct {
	e     *toy
	src   runtime.Source
	lines []string
}

type toyFunc struct {
	vm   *toyVM
	word string
	late string
}

func (f *toyFunc) VM() runtime.VM { return f.vm }

func (e *toy) Compile(src runtime.Source) (runtime.Program, error) {
	e.parsed.Add(1)
	if e.parse != nil {
		e.parse()
	}
	p := &toyProgram{e: e, src: src}
	for n, line := range strings.Split(string(src.Code), "\n") {
		op, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch op {
		case "syntax":
			return nil, &runtime.ScriptError{Script: src.ID, Pos: runtime.Position{File: src.File, Line: n + 1}, Name: "SyntaxError", Message: "unexpected " + arg, Source: line}
		case "bundle":
			code, err := src.Read(filepath.Join(src.Dir, arg))
			if err != nil {
				return nil, err
			}
			p.lines = append(p.lines, strings.Split(string(code), "\n")...)
		default:
			p.lines = append(p.lines, line)
		}
	}
	return p, nil
}

func (p *toyProgram) NewVM(in *runtime.Instance) (runtime.VM, error) {
	p.e.vms.Add(1)
	p.e.made.Add(1)
	return &toyVM{p: p, in: in}, nil
}

type toyVM struct {
	p    *toyProgram
	in   *runtime.Instance
	line int
}

func (vm *toyVM) Load() error {
	if vm.p.e.pause != nil {
		vm.p.e.pause()
	}
	return vm.run(vm.p.src.File, vm.p.lines)
}

func (vm *toyVM) run(file string, lines []string) error {
	for n, line := range lines {
		vm.line = n + 1
		op, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
		path := filepath.Join(vm.p.src.Dir, arg)
		switch op {
		case "":
		case "say":
			vm.on(&toyFunc{vm: vm, word: arg})
		case "grow":
			vm.on(&toyFunc{vm: vm, late: path})
		case "fail":
			return &runtime.ScriptError{Script: vm.in.ID, Pos: runtime.Position{File: file, Line: n + 1}, Name: "Error", Message: arg}
		case "find", "need":
			if op == "find" {
				if _, err := os.Stat(path); err != nil {
					return fmt.Errorf("cannot find %s", arg)
				}
			}
			code, err := vm.p.src.Read(path)
			if err != nil {
				return fmt.Errorf("%s: %w", arg, err)
			}
			if err := vm.run(arg, strings.Split(string(code), "\n")); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown instruction %q", op)
		}
	}
	return nil
}

func (vm *toyVM) on(f *toyFunc) {
	x := vm.in.Ctx(nil)
	if _, err := vm.in.Invoke(x.Class().Lookup("on"), x, []runtime.Value{"ask", f}); err != nil {
		panic(err)
	}
}

func (vm *toyVM) Call(_ *runtime.Hook, fn runtime.Func, _ ...runtime.Value) (runtime.Value, error) {
	f := fn.(*toyFunc)
	word := f.word
	if f.late != "" {
		code, err := vm.p.src.Read(f.late)
		if err != nil {
			return nil, err
		}
		word = strings.TrimSpace(string(code))
	}
	vm.p.e.mu.Lock()
	defer vm.p.e.mu.Unlock()
	vm.p.e.answers = append(vm.p.e.answers, word)
	return nil, nil
}

func (vm *toyVM) Notify(runtime.Func, func(error), ...runtime.Value) error { return nil }
func (vm *toyVM) Where() runtime.Position {
	return runtime.Position{File: vm.p.src.File, Line: vm.line}
}
func (vm *toyVM) Close() { vm.p.e.vms.Add(-1) }

// rig is a host with a manager over a temporary folder of project scripts.
type rig struct {
	t    *testing.T
	e    *toy
	host *runtime.Host
	m    *Manager
	c    Config
	top  string // a temporary folder without links
	dir  string // the project's script folder in it

	mu      sync.Mutex
	reports []Report
}

func newRig(t *testing.T) *rig {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, e: &toy{}, top: top, dir: filepath.Join(top, "scripts")}
	r.mkdir(r.dir)
	r.host = runtime.NewHost(runtime.HostConfig{Events: runtime.NewCatalogue(ask.Event), Engines: []runtime.Engine{r.e}, Thread: runtime.ThreadOptions{Debug: true}})
	r.c = Config{Host: r.host, Folders: []Folder{{Layer: runtime.LayerProject, Dir: r.dir}}, Linger: 200 * time.Millisecond, Notify: func(rep Report) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reports = append(r.reports, rep)
	}}
	t.Cleanup(func() {
		if r.m != nil {
			r.m.Close()
		}
		r.host.Close()
		if n := r.e.vms.Load(); n != 0 {
			t.Errorf("%d VMs are left open", n)
		}
	})
	return r
}

func (r *rig) start() Report {
	r.t.Helper()
	r.m = New(r.c)
	rep, err := r.m.Start(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	return rep
}

func (r *rig) mkdir(dir string) {
	r.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// path is absolute as it is, else in the script folder.
func (r *rig) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.dir, name)
}

// write truncates and writes, in two steps, as most programs save.
func (r *rig) write(name string, lines ...string) {
	r.t.Helper()
	r.ok(os.WriteFile(r.path(name), []byte(strings.Join(lines, "\n")), 0o644))
}

// replace writes another file and renames it over, as careful programs save.
func (r *rig) replace(name string, lines ...string) {
	r.t.Helper()
	tmp := r.path(name) + ".tmp123"
	r.write(tmp, lines...)
	r.ok(os.Rename(tmp, r.path(name)))
}

// together has the manager see what fn does as one.
func (r *rig) together(fn func()) {
	r.t.Helper()
	r.ok(r.m.enter(context.Background(), func(context.Context) error { fn(); return nil }))
}

func (r *rig) link(to, name string) {
	r.t.Helper()
	tmp := r.path(name) + ".new"
	r.ok(os.Symlink(to, tmp))
	r.ok(os.Rename(tmp, r.path(name)))
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// said is what the scripts of a generation answer; nil = the newest.
func (r *rig) said(g *runtime.Generation) string {
	r.t.Helper()
	var out string
	r.ok(r.host.Do(context.Background(), func() {
		r.e.mu.Lock()
		r.e.answers = nil
		r.e.mu.Unlock()
		if err := ask.Run(r.host, runtime.Target{Gen: g}, struct{}{}); err != nil {
			out = "error: " + err.Error()
			return
		}
		out = strings.Join(r.e.answers, " ")
	}))
	return out
}

// until waits for a condition.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not within 10 s: %s; reports: %v", what, r.told())
		}
	}
}

// says waits for what the newest generation answers.
func (r *rig) says(want string) {
	r.t.Helper()
	got := ""
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if got = r.said(nil); got == want {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("scripts say %q after 10 s, want %q; reports: %v", got, want, r.told())
		}
	}
}

func (r *rig) told() []Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Report(nil), r.reports...)
}

// saw waits for a report.
func (r *rig) saw(what string, is func(Report) bool) Report {
	r.t.Helper()
	var out Report
	r.until(what, func() bool {
		for _, rep := range r.told() {
			if is(rep) {
				out = rep
				return true
			}
		}
		return false
	})
	return out
}

// idle waits until the manager has looked again, by hand, and has nothing to tell.
func (r *rig) idle() {
	r.t.Helper()
	r.until("nothing left to do", func() bool {
		var pending window
		r.ok(r.m.enter(context.Background(), func(context.Context) error { pending = r.m.watch.pending(); return nil }))
		return pending.first.IsZero()
	})
}

func (r *rig) status(id string) Script {
	r.t.Helper()
	for _, s := range r.m.Status(context.Background()) {
		if s.ID == id {
			return s
		}
	}
	return Script{}
}

func (r *rig) state(id string, want State) {
	r.t.Helper()
	r.until(fmt.Sprintf("%s is %q", id, want), func() bool { return r.status(id).State == want })
}

func wantErr(t *testing.T, err, want error, parts ...string) {
	t.Helper()
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Fatalf("error %q lacks %q", err, p)
		}
	}
}
