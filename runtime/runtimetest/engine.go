package runtimetest

import (
	"fmt"
	"strings"
	"sync"

	"dshsh/runtime"
)

// Kind is how a toy script's VM behaves.
type Kind string

const (
	// JS has one stack: nothing may wait inside, what waits gives a Promise, and jobs run
	// when the outermost call returns.
	JS Kind = "js"
	// Lua parks the goroutine that waits.
	Lua Kind = "lua"
)

// Toy is the engine of the language "toy". A script's text is "KIND NAME", where NAME is
// that of a Go function given to Define, which is its top level.
type Toy struct {
	mu   sync.Mutex // guards all below
	tops map[string]func(*Call) error
	made int
	open map[*VM]struct{}
}

var _ runtime.Engine = (*Toy)(nil)

// Engine makes a toy engine.
func Engine() *Toy {
	return &Toy{tops: map[string]func(*Call) error{}, open: map[*VM]struct{}{}}
}

// Define gives the top level of the scripts whose text names it.
func (e *Toy) Define(name string, top func(*Call) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tops[name] = top
}

// Language implements runtime.Engine.
func (*Toy) Language() string { return "toy" }

// Extensions implements runtime.Engine.
func (*Toy) Extensions() []string { return []string{".toy"} }

// Compile implements runtime.Engine.
func (e *Toy) Compile(src runtime.Source) (runtime.Program, error) {
	kind, name, _ := strings.Cut(strings.TrimSpace(string(src.Code)), " ")
	e.mu.Lock()
	defer e.mu.Unlock()
	top := e.tops[name]
	if top == nil || kind != string(JS) && kind != string(Lua) {
		return nil, &runtime.ScriptError{Script: src.ID, Name: "SyntaxError", Message: fmt.Sprintf("no such toy: %q", src.Code),
			Pos: runtime.Position{File: src.File, Line: 1}, Source: string(src.Code)}
	}
	return &program{e: e, kind: Kind(kind), file: src.File, top: top}, nil
}

// Made counts the VMs that were made, Open those that have not been closed.
func (e *Toy) Made() int { e.mu.Lock(); defer e.mu.Unlock(); return e.made }

// Open lists the scripts whose VMs have not been closed.
func (e *Toy) Open() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ids []string
	for vm := range e.open {
		ids = append(ids, vm.in.ID)
	}
	return ids
}

type program struct {
	e    *Toy
	kind Kind
	file string
	top  func(*Call) error
}

func (p *program) NewVM(in *runtime.Instance) (runtime.VM, error) {
	vm := &VM{program: p, in: in, th: in.Host().Thread, waiting: map[*pending]struct{}{}}
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	p.e.made++
	p.e.open[vm] = struct{}{}
	return vm, nil
}

// fn is a toy script's function.
type fn struct {
	vm *VM
	f  Function
}

// Function is the body of a toy script's function. In a JS VM it may return a *Promise.
type Function func(c *Call) (runtime.Value, error)

func (f *fn) VM() runtime.VM { return f.vm }

// Call is one call of a toy script's function: what the body can do.
type Call struct {
	*VM
	Args []runtime.Value
}

// Arg is the i-th argument, or nil.
func (c *Call) Arg(i int) runtime.Value {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return nil
}

// Get reads a field of the first argument.
func (c *Call) Get(field string) runtime.Value {
	v, _ := c.Args[0].(*runtime.View).Get(field)
	return v
}

// Opts is ctx.on's second argument.
type Opts = map[string]any

// On is ctx.on(event, opts, fn); opts may be nil.
func (c *Call) On(event string, opts Opts, f Function) (off *runtime.GoFunc, err error) {
	return c.OnFor(nil, event, opts, f)
}

// OnFor is agent.ctx.on(event, opts, fn).
func (c *Call) OnFor(scope any, event string, opts Opts, f Function) (off *runtime.GoFunc, err error) {
	args := []runtime.Value{event, c.Func(f)}
	if opts != nil {
		args = []runtime.Value{event, opts, c.Func(f)}
	}
	v, err := c.Method(c.in.Ctx(scope), "on", args...)
	off, _ = v.(*runtime.GoFunc)
	return off, err
}

// MustOn is On where an error ends the top level.
func (c *Call) MustOn(event string, opts Opts, f Function) *runtime.GoFunc {
	off, err := c.On(event, opts, f)
	if err != nil {
		panic(thrown{err})
	}
	return off
}

// Func makes a function of the script.
func (c *Call) Func(f Function) runtime.Func { return &fn{c.VM, f} }

// Do is ctx.NAME(args).
func (c *Call) Do(name string, args ...runtime.Value) (runtime.Value, error) {
	return c.Method(c.in.Ctx(nil), name, args...)
}

// Method calls a method of a live object. In a JS VM one that waits gives a *Promise.
func (c *Call) Method(o runtime.Object, name string, args ...runtime.Value) (runtime.Value, error) {
	m := o.Class().Lookup(name)
	if m == nil {
		return nil, fmt.Errorf("%s has no %q", o.Class().Name, name)
	}
	return c.run(m.Waits, func() (runtime.Value, error) { return c.in.Invoke(m, o, args) })
}

// Next calls the next of a waterfall, which is the second argument.
func (c *Call) Next(args ...runtime.Value) (runtime.Value, error) {
	next := c.Args[1].(*runtime.GoFunc)
	return c.run(next.Waits, func() (runtime.Value, error) { return c.in.InvokeFunc(next, args) })
}

// Undo calls a function that On, Do("after", ...) or another member returned.
func (c *Call) Undo(f *runtime.GoFunc) error {
	_, err := c.in.InvokeFunc(f, nil)
	return err
}

// Wait waits for ch, as a member of a module would: in a JS VM it gives a *Promise.
func (c *Call) Wait(ch <-chan struct{}) (runtime.Value, error) {
	return c.run(true, func() (runtime.Value, error) { return nil, c.th.Wait(ch, c.in.Context()) })
}
