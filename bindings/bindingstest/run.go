package bindingstest

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"dshsh/runtime"
)

//go:embed testdata/*.txtar
var testdata embed.FS

// Run runs the whole suite in one language.
func Run(t *testing.T, e runtime.Engine) { RunFS(t, e, testdata, "testdata/*.txtar") }

// RunFS runs the cases that match glob, for what only one language has.
func RunFS(t *testing.T, e runtime.Engine, fsys fs.FS, glob string) {
	t.Helper()
	files, err := fs.Glob(fsys, glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases match %s: %v", glob, err)
	}
	for _, f := range files {
		data, err := fs.ReadFile(fsys, f)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) { RunCase(t, e, data) })
	}
}

// RunCase runs one case; see the package documentation for its form.
func RunCase(t *testing.T, e runtime.Engine, data []byte) {
	t.Helper()
	c := parse(t, data, e.Language())
	if len(c.scripts) == 0 {
		if c.differs == "" {
			t.Fatalf("the case has no %s script and no line `differs: reason`", e.Language())
		}
		t.Skipf("differs: %s", c.differs)
	}
	b := newBench(t, e, c)
	b.run()
	b.compare()
}

// testCase is a parsed case. Immutable.
type testCase struct {
	lang     string
	differs  string
	limits   runtime.Limits
	scripts  []txtar.File
	files    []txtar.File
	fire     []string
	sections map[string]string
	marks    []mark
}

type mark struct {
	file string
	line int
	rx   *regexp.Regexp
	hit  bool
}

var (
	scriptName = regexp.MustCompile(`^[a-z]\.(js|lua)$`)
	markText   = regexp.MustCompile(`(?m)^.*(?://|--)! (".*")\s*$`)
)

func parse(t *testing.T, data []byte, lang string) *testCase {
	t.Helper()
	ar := txtar.Parse(data)
	c := &testCase{lang: lang, sections: map[string]string{}}
	for line := range strings.Lines(string(ar.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "differs":
			c.differs = value
		case "limits":
			c.limits = parseLimits(t, value)
		}
	}
	for _, f := range ar.Files {
		ext := filepath.Ext(f.Name)
		base := strings.TrimSuffix(f.Name, ext)
		switch {
		case scriptName.MatchString(f.Name):
			if ext == "."+lang {
				c.scripts = append(c.scripts, f)
				c.addMarks(t, f)
			}
		case f.Name == "fire":
			c.fire = lines(string(f.Data))
		case isSection(f.Name):
			if _, ok := c.sections[f.Name]; !ok {
				c.sections[f.Name] = string(f.Data)
			}
		case isSection(base):
			if ext == "."+lang {
				c.sections[base] = string(f.Data)
			}
		default:
			c.files = append(c.files, f)
			c.addMarks(t, f)
		}
	}
	return c
}

func isSection(name string) bool {
	return slices.Contains([]string{"trace", "answers", "failures", "decisions", "logs", "load"}, name)
}

func parseLimits(t *testing.T, text string) (l runtime.Limits) {
	t.Helper()
	for f := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(f, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		dst := map[string]*int64{"sync": &l.Sync, "wall": &l.Wall, "grace": &l.Grace}[key]
		if err != nil || dst == nil {
			t.Fatalf("limits: bad item %q", f)
		}
		*dst = n
	}
	return l
}

func (c *testCase) addMarks(t *testing.T, f txtar.File) {
	t.Helper()
	for i, line := range strings.Split(string(f.Data), "\n") {
		m := markText.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		text, err := strconv.Unquote(m[1])
		if err != nil {
			t.Fatalf("%s:%d: %v", f.Name, i+1, err)
		}
		c.marks = append(c.marks, mark{file: f.Name, line: i + 1, rx: regexp.MustCompile(text)})
	}
}

func lines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// bench is one run of one case. Its fields are used on the thread, those below mu from
// anywhere.
type bench struct {
	t      *testing.T
	c      *testCase
	engine runtime.Engine
	host   *runtime.Host
	toy    *Toy
	heavy  *Heavy
	box    *box
	signal *runtime.Signal
	stop   context.CancelCauseFunc
	done   chan struct{} // one item per ctx.test.done()

	changed chan struct{} // capacity 1: something was added to got

	mu   sync.Mutex // guards got and errs
	got  map[string][]string
	errs []*runtime.ScriptError
}

func newBench(t *testing.T, e runtime.Engine, c *testCase) *bench {
	b := &bench{t: t, c: c, engine: e, toy: &Toy{Name: "toy1"}, heavy: &Heavy{}, box: &box{map[string]runtime.Value{}}, done: make(chan struct{}, 100), changed: make(chan struct{}, 1), got: map[string][]string{}}
	b.host = runtime.NewHost(runtime.HostConfig{
		Events: Catalogue(), Engines: []runtime.Engine{e}, Limits: c.limits, Observer: (*observer)(b), UI: (*person)(b),
		Members: []*runtime.Member{{Name: "test", Load: true, Doc: "What cases need.",
			Get: func(runtime.Object) (runtime.Value, error) { return &tester{b}, nil }}},
		Thread: runtime.ThreadOptions{Debug: true},
	})
	return b
}

// NewHost returns a host with the toy catalogue, and ctx without ctx.test, for a
// binding's own tests and benchmarks. The caller closes it.
func NewHost(e runtime.Engine, limits runtime.Limits, o runtime.Observer) *runtime.Host {
	return runtime.NewHost(runtime.HostConfig{Events: Catalogue(), Engines: []runtime.Engine{e}, Limits: limits, Observer: o})
}

// Load compiles and loads scripts, given as name and source, and puts them in force. On
// the thread.
func Load(h *runtime.Host, e runtime.Engine, nameAndSource ...string) error {
	var ins []*runtime.Instance
	for i := 0; i < len(nameAndSource); i += 2 {
		name := nameAndSource[i]
		p, err := e.Compile(runtime.Source{ID: "project/" + name, File: name, Code: []byte(nameAndSource[i+1])})
		if err != nil {
			return err
		}
		in, err := h.Load(runtime.ScriptFile{ID: "project/" + name, File: name, Layer: runtime.LayerProject, Program: p})
		if err != nil {
			return err
		}
		ins = append(ins, in)
	}
	h.Activate(ins)
	return nil
}

// prelude gives every script its trace, on the first line so that places stay right.
func prelude(lang string) string {
	if lang == "lua" {
		return "local trace = ctx.test.trace; "
	}
	return "const trace = ctx.test.trace; "
}

func (b *bench) run() {
	defer b.host.Close()
	b.do(b.load)
	var wg sync.WaitGroup
	for _, line := range b.c.fire {
		switch line {
		case "join":
			wg.Wait()
			continue
		case "wait":
			select {
			case <-b.done:
			case <-time.After(20 * time.Second):
				b.t.Fatalf("no ctx.test.done() came; so far: %q", b.got)
			}
			continue
		case "unload":
			b.do(func() { b.host.Activate(nil) })
			continue
		}
		if n, ok := strings.CutPrefix(line, "failures "); ok {
			b.waitFailures(n)
			continue
		}
		slot := b.slot()
		if rest, ok := strings.CutPrefix(line, "& "); ok {
			wg.Add(1)
			started := make(chan struct{})
			go func() {
				defer wg.Done()
				b.do(func() { close(started); b.fire(rest, slot) })
			}()
			<-started
			// The next line must not overtake what this one does at once.
			b.do(func() {})
			continue
		}
		b.do(func() { b.fire(line, slot) })
	}
	wg.Wait()
	b.do(func() { b.host.Activate(nil) })
}

func (b *bench) waitFailures(text string) {
	n, err := strconv.Atoi(text)
	if err != nil {
		b.t.Fatalf("fire: failures %s: %v", text, err)
	}
	late := time.After(20 * time.Second)
	for b.count("failures") < n {
		select {
		case <-b.changed:
		case <-late:
			b.t.Fatalf("not %d failures; so far: %q", n, b.got)
		}
	}
}

func (b *bench) do(fn func()) {
	if err := b.host.Do(context.Background(), fn); err != nil {
		b.t.Errorf("on the thread: %v", err)
	}
}

func (b *bench) load() {
	dir, err := filepath.EvalSymlinks(b.t.TempDir())
	if err != nil {
		b.t.Error(err)
		return
	}
	for _, f := range b.c.files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, f.Data, 0o600)); err != nil {
			b.t.Error(err)
			return
		}
	}
	var ins []*runtime.Instance
	for _, f := range b.c.scripts {
		in, err := b.loadOne(dir, f)
		if err != nil {
			b.saw(err)
			b.add("load", plain(err.Error()))
			continue
		}
		ins = append(ins, in)
	}
	b.host.Activate(ins)
}

func (b *bench) loadOne(dir string, f txtar.File) (*runtime.Instance, error) {
	id := "project/" + f.Name
	p, err := b.engine.Compile(runtime.Source{
		ID: id, File: f.Name, Dir: dir, Code: append([]byte(prelude(b.c.lang)), f.Data...), Read: os.ReadFile,
	})
	if err != nil {
		return nil, err
	}
	return b.host.Load(runtime.ScriptFile{ID: id, File: f.Name, Layer: runtime.LayerProject, Path: filepath.Join(dir, f.Name), Program: p})
}

// fire runs one event. On the thread.
func (b *bench) fire(line string, slot int) {
	name, text, _ := strings.Cut(line, " ")
	if text == "" {
		text = "{}"
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	b.stop, b.signal = stop, runtime.NewSignal(ctx, nil)
	target := runtime.Target{Ctx: ctx, Scope: b.toy, AgentID: b.toy.Name}
	note := func() (n Note) { b.payload(line, text, &n); return n }
	answer := func(v any, err error) {
		if err != nil {
			b.set(slot, err, "")
			return
		}
		raw, _ := json.Marshal(v)
		b.set(slot, nil, string(raw))
	}
	var err error
	switch name {
	case "test/emit":
		err = Emit.FireErr(b.host, target, note())
	case "test/lazy":
		p := LazyNote{Heavy: b.heavy}
		b.payload(line, text, &p)
		Lazy.Fire(b.host, target, p)
	case "test/serial":
		err = Serial.Run(b.host, target, note())
	case "test/contained":
		err = Contained.Run(b.host, target, note())
	case "test/parallel":
		err = Parallel.Run(b.host, target, note())
	case "test/live":
		p := LivePayload{Agent: b.toy, Signal: b.signal}
		b.payload(line, text, &p)
		err = Live.Run(b.host, target, p)
	case "test/decide":
		answer(Decide.Run(b.host, target, note(), func(n Note) (Answer, error) {
			b.add("trace", "base")
			return b.base(n.Text)
		}))
		return
	case "test/tool":
		p := ToolCall{Agent: b.toy}
		b.payload(line, text, &p)
		answer(Tool.Run(b.host, target, p, func(p ToolCall) (Answer, error) {
			b.add("trace", "base "+string(p.Arguments))
			return b.base("")
		}))
		return
	case "test/rewrite":
		answer(Rewrite.Run(b.host, target, note(), func(n Note) (Note, error) {
			b.add("trace", "base "+string(n.Data))
			return n, nil
		}))
		return
	default:
		b.t.Errorf("fire: unknown event %q", name)
	}
	b.set(slot, err, "ok")
}

// base is the innermost answer: the payload's text says which; "fail" makes it an error.
func (b *bench) base(text string) (Answer, error) {
	switch text {
	case "fail":
		return Answer{}, fmt.Errorf("the base fails: %w", ErrToy)
	case "deny", "ask":
		return Answer{Kind: text, Reason: "base says so"}, nil
	}
	return Answer{Kind: "allow"}, nil
}

func (b *bench) payload(line, text string, dst any) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(dst); err != nil {
		b.t.Errorf("fire: %s: %v", line, err)
	}
}

// cancel is ctx.test.cancel. On the thread.
func (b *bench) cancel(why string) {
	b.stop(errors.New(why))
	b.host.Thread.Post(b.signal.Fire)
}
