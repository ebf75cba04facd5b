package lua_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/lua"
	"dshsh/runtime"
)

var errBroken = errors.New("the host is broken")

// rig is a host whose scripts find ctx.rig: give(...) hands values to the test, take
// reads one from it, gate() waits until the test opens it, yield leaves the thread once.
type rig struct {
	t      testing.TB
	host   *runtime.Host
	engine runtime.Engine
	in     *runtime.Instance // the script that was loaded last

	given []runtime.Value
	take  runtime.Value
	gate  chan struct{}
	inner runtime.Func

	mu       sync.Mutex // guards failures and logs
	failures []runtime.Failure
	logs     []string
}

type rigObject struct{ r *rig }

func (o *rigObject) Class() *runtime.Class { return rigClass }

func rigOf(c *runtime.Call) *rig { return c.Self.(*rigObject).r }

var rigClass = &runtime.Class{Name: "rig", Members: []*runtime.Member{
	{Name: "give", Load: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		rigOf(c).given = append(rigOf(c).given, c.Args...)
		return nil, nil
	}},
	{Name: "take", Load: true, Get: func(o runtime.Object) (runtime.Value, error) { return o.(*rigObject).r.take, nil }},
	{Name: "me", Load: true, Get: func(o runtime.Object) (runtime.Value, error) { return o, nil }},
	{Name: "fresh", Load: true, Get: func(o runtime.Object) (runtime.Value, error) { return &rigObject{o.(*rigObject).r}, nil }},
	{Name: "gate", Waits: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		return "opened", c.Instance.Host().Thread.Wait(rigOf(c).gate, c.Instance.Context())
	}},
	{Name: "yield", Waits: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		return nil, c.Instance.Host().Thread.Away(func() {})
	}},
	{Name: "fail", Load: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		return nil, fmt.Errorf("rig.fail: %w", errBroken)
	}},
	{Name: "panic", Load: true, Fn: func(c *runtime.Call) (runtime.Value, error) { panic("rig panics") }},
	{Name: "where", Load: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		return fmt.Sprintf("%s:%d", c.Where.File, c.Where.Line), nil
	}},
	{Name: "keep", Load: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		return nil, c.Unpack("fn", &rigOf(c).inner)
	}},
	{Name: "callKept", Doc: "Calls what another script has kept.", Waits: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		fn := rigOf(c).inner
		return fn.VM().Call(c.Instance.Host().Thread.CurrentHook(), fn, c.Args...)
	}},
}}

func newRig(t testing.TB, limits runtime.Limits) *rig {
	r := &rig{t: t, engine: lua.Engine(), gate: make(chan struct{})}
	r.host = runtime.NewHost(runtime.HostConfig{
		Events: bindingstest.Catalogue(), Engines: []runtime.Engine{r.engine}, Limits: limits, Observer: r,
		Members: []*runtime.Member{{Name: "rig", Load: true, Get: func(runtime.Object) (runtime.Value, error) { return &rigObject{r}, nil }}},
		Thread:  runtime.ThreadOptions{Debug: true},
		Now:     func() time.Time { return time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC) },
	})
	t.Cleanup(func() {
		r.host.Close()
	})
	return r
}

func (r *rig) Failed(f runtime.Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, f)
}
func (r *rig) Decided(runtime.Decision)             {}
func (r *rig) Quarantined(*runtime.Instance, error) {}
func (r *rig) Rebuilt(*runtime.Instance)            { r.t.Error("a Lua VM was rebuilt") }
func (r *rig) Logged(_ *runtime.Instance, l, s string) {
	r.mu.Lock()
	r.logs = append(r.logs, l+" "+s)
	r.mu.Unlock()
}
func (r *rig) failed() []runtime.Failure { r.mu.Lock(); defer r.mu.Unlock(); return r.failures }

func (r *rig) do(fn func()) {
	r.t.Helper()
	if err := r.host.Do(context.Background(), fn); err != nil {
		r.t.Fatalf("on the thread: %v", err)
	}
}

// load loads scripts, as name and source, and puts them in force.
func (r *rig) load(nameAndSource ...string) {
	r.t.Helper()
	if err := r.tryLoad(nameAndSource...); err != nil {
		r.t.Fatalf("load: %v", err)
	}
}

func (r *rig) tryLoad(nameAndSource ...string) (err error) {
	r.t.Helper()
	r.do(func() {
		var ins []*runtime.Instance
		for i := 0; i < len(nameAndSource); i += 2 {
			name := nameAndSource[i]
			var p runtime.Program
			if p, err = r.engine.Compile(runtime.Source{ID: "project/" + name, File: name, Code: []byte(nameAndSource[i+1])}); err != nil {
				return
			}
			if r.in, err = r.host.Load(runtime.ScriptFile{ID: "project/" + name, File: name, Layer: runtime.LayerProject, Program: p}); err != nil {
				return
			}
			ins = append(ins, r.in)
		}
		r.host.Activate(ins)
	})
	return err
}

// eval runs the body of a listener that may wait, and gives what it handed to give, as
// JSON, and its error.
func (r *rig) eval(body string) (string, error) {
	r.t.Helper()
	r.load("a.lua", "local rig, give = ctx.rig, ctx.rig.give; ctx.on('test/serial', function(ev) "+body+"\nend)")
	return r.fire("")
}

// fire fires test/serial with a text.
func (r *rig) fire(text string) (out string, err error) {
	r.t.Helper()
	r.do(func() {
		r.given = nil
		err = bindingstest.Serial.Run(r.host, runtime.Target{}, bindingstest.Note{Text: text})
		out = r.said()
	})
	return out, err
}

func (r *rig) said() string {
	parts := make([]string, len(r.given))
	for i, v := range r.given {
		parts[i] = runtime.Display(v)
	}
	return strings.Join(parts, " ")
}

// expect evaluates and compares.
func (r *rig) expect(body, want string) {
	r.t.Helper()
	got, err := r.eval(body)
	if err != nil {
		r.t.Errorf("%s\nerror: %v", strings.TrimSpace(body), err)
		return
	}
	if got != want {
		r.t.Errorf("%s\n got %s\nwant %s", strings.TrimSpace(body), got, want)
	}
}

// expectError evaluates and compares the error's text.
func (r *rig) expectError(body, want string) *runtime.ScriptError {
	r.t.Helper()
	out, err := r.eval(body)
	var se *runtime.ScriptError
	if !errors.As(err, &se) {
		r.t.Errorf("%s\nerror %v (gave %s), want a script error", strings.TrimSpace(body), err, out)
		return &runtime.ScriptError{}
	}
	if !strings.Contains(se.Error(), want) {
		r.t.Errorf("%s\nerror %s\nwant  %s", strings.TrimSpace(body), se.Error(), want)
	}
	return se
}

// decide runs test/decide on the thread.
func decide(r *rig) (bindingstest.Answer, error) {
	return bindingstest.Decide.Run(r.host, runtime.Target{}, bindingstest.Note{}, func(bindingstest.Note) (bindingstest.Answer, error) {
		return bindingstest.Answer{Kind: "allow"}, nil
	})
}

// tool runs test/tool and gives the arguments that reached the base.
func tool(r *rig, args string) (got string, err error) {
	r.do(func() {
		_, err = bindingstest.Tool.Run(r.host, runtime.Target{}, bindingstest.ToolCall{Name: "bash", Arguments: []byte(args)},
			func(c bindingstest.ToolCall) (bindingstest.Answer, error) {
				got = string(c.Arguments)
				return bindingstest.Answer{Kind: "allow"}, nil
			})
	})
	return got, err
}
