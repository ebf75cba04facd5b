package lua

import (
	"context"
	"errors"
	"fmt"
	"time"

	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

// machine is one script's Lua state, its runtime.VM. All of it is used on the host thread, except what Done of
// its context returns, which is a channel.
type machine struct {
	in      *runtime.Instance
	host    *runtime.Host
	program *program
	base    *glua.LState // makes threads and runs nothing itself
	ctx     *vmContext

	regs            // of the chain that runs
	idle   []*visit // entries that are not in use
	spare  []*strand
	active int // entries that are open, parked ones included

	loading bool
	closed  bool
	chunks  map[string]bool // names that Lua may put before a message

	viewMT, objectMT, errorMT, nullMT, intMT, foreignMT *glua.LTable
	arrayMT, mapMT                                      *glua.LTable // what json.array and json.object set
	null                                                *glua.LUserData
	stringLib                                           *glua.LTable

	objects objectCache
	ids     identities
	modules map[string]*module // required files, by their real path
	asking  []*module          // being required, outermost first
	regexps map[string]*regexpEntry
	random  func() float64 // what math.randomseed has made; nil = the host's
	started time.Time
	trace   *errorTrace
	misses  runtime.Misses
}

var _ runtime.VM = (*machine)(nil)

// regs is what of a VM belongs to the goroutine that runs in it. A chain that leaves the
// thread takes it along.
type regs struct {
	cur  *strand       // the Lua stack that runs
	kill chan struct{} // closed when the entry at hand must end; nil outside entries
}

// strand is one Lua stack in use: an entry's, a pcall's or a resumed coroutine's.
type strand struct {
	L      *glua.LState
	up     *strand // who runs it, up to the entry
	depth  int     // how many strands of the chain lie below
	native int     // library functions on it that are calling back
	fat    bool    // has grown; not kept
	co     bool    // a coroutine
}

// maxStrands is how deep pcall and coroutines may nest. Each level takes Go stack.
const maxStrands = 120

// vmContext is the one context of a VM. gopher-lua asks Done before every instruction,
// so what it returns can change from one call to the next: it is the kill channel of the
// entry that runs, whatever coroutine it is in and whenever that was made. Used on the
// host thread.
type vmContext struct{ vm *machine }

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

var errKilled = errors.New("stopped: computed for too long")

func (c *vmContext) Done() <-chan struct{} {
	if c.vm.closed {
		return closedChan
	}
	return c.vm.kill
}

func (c *vmContext) Err() error {
	if c.vm.closed {
		return runtime.ErrUnloaded
	}
	return errKilled
}
func (*vmContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (*vmContext) Value(any) any               { return nil }

// AfterFunc keeps context.WithCancel from starting a goroutine or keeping a list.
func (*vmContext) AfterFunc(func()) func() bool { return func() bool { return true } }

var _ context.Context = (*vmContext)(nil)

// killed reports whether the entry at hand has been told to end.
func (vm *machine) killed() bool {
	if vm.closed {
		return true
	}
	select {
	case <-vm.kill:
		return true
	default:
		return false
	}
}

func newVM(p *program, in *runtime.Instance) *machine {
	vm := &machine{in: in, host: in.Host(), program: p, chunks: map[string]bool{p.src.File: true}}
	vm.started = vm.host.Now()
	vm.base = glua.NewState(glua.Options{
		RegistrySize: 128, RegistryMaxSize: registryMax, RegistryGrowStep: 1024,
		CallStackSize: 8, MinimizeStackMemory: true, SkipOpenLibs: true,
	})
	vm.base.G.MainThread, vm.base.G.CurrentThread = vm.base, vm.base
	vm.ctx = &vmContext{vm}
	vm.openLibs()
	return vm
}

const registryMax = 1 << 18

// newThread makes a Lua thread with the VM's context. The base has none, so nothing is
// derived from it. Entries and pcalls get a call stack of fixed size: the growing one
// panics where it should raise, which leaves upvalues open on a thread that is used again.
func (vm *machine) newThread(registry int, fixed bool) *glua.LState {
	vm.base.Options = glua.Options{
		RegistrySize: registry, RegistryMaxSize: registryMax, RegistryGrowStep: 1024,
		CallStackSize: 512, MinimizeStackMemory: !fixed, SkipOpenLibs: true,
	}
	L, _ := vm.base.NewThread()
	L.Panic = raised
	L.SetContext(vm.ctx)
	return L
}

// visit is one stay in the VM, from enter to leave. Kept for reuse.
type visit struct {
	vm    *machine
	entry runtime.Entry
	meter runtime.Meter
	blank runtime.Meter // what meter starts from
	kill  chan struct{}
	hit   bool // kill is closed; guarded by the watchdog's mutex while the visit is open
	strand
	outer regs // before the visit
	saved regs // while the chain is away
}

func (vm *machine) newVisit() *visit {
	v := &visit{vm: vm, kill: make(chan struct{})}
	v.L = vm.newThread(1024, true)
	v.blank = *vm.in.NewMeter(func() {
		if !v.hit {
			v.hit = true
			close(v.kill)
		}
	})
	v.entry.VM = vm
	v.entry.Save = func() {
		v.saved = vm.regs
		vm.regs = regs{}
	}
	v.entry.Restore = func() {
		vm.regs = v.saved
		if vm.cur != nil {
			vm.base.G.CurrentThread = vm.cur.L
		}
	}
	return v
}

// enter begins a stay on the current chain. Nested stays of one chain share the outermost
// one's meter and kill channel.
func (vm *machine) enter(noWait bool) *visit {
	var v *visit
	if n := len(vm.idle); n > 0 {
		v, vm.idle = vm.idle[n-1], vm.idle[:n-1]
	} else {
		v = vm.newVisit()
	}
	v.outer = vm.regs
	v.entry.NoWait = noWait
	v.entry.Meter = nil
	v.depth = 0
	if vm.cur != nil {
		v.depth = vm.cur.depth + 1
	}
	if vm.kill == nil {
		v.meter = v.blank
		v.entry.Meter = &v.meter
		vm.kill = v.kill
	}
	vm.host.Thread.Enter(&v.entry)
	vm.cur = &v.strand
	vm.base.G.CurrentThread = v.L
	vm.active++
	return v
}

// leave ends the stay and reports whether it was interrupted.
func (vm *machine) leave(v *visit, clean bool) (interrupted bool) {
	interrupted = vm.host.Thread.Exit(&v.entry, nil)
	vm.regs = v.outer
	if vm.cur != nil {
		vm.base.G.CurrentThread = vm.cur.L
	}
	if vm.active--; vm.active == 0 {
		vm.trace = nil
	}
	switch {
	case vm.closed:
		if vm.active == 0 {
			vm.base.Close()
		}
	case !clean || interrupted || v.fat || len(vm.idle) >= maxIdle:
		// A thread that an error went through is not used again, nor a meter that the
		// watchdog may still be speaking of.
	default:
		v.native = 0
		v.L.Env = vm.base.Env
		vm.idle = append(vm.idle, v)
	}
	return interrupted
}

// maxIdle is how many threads a VM keeps for its next calls.
const maxIdle = 8

// Load runs the top level.
func (vm *machine) Load() error {
	vm.loading = true
	defer func() { vm.loading = false }()
	_, err := vm.run(vm.base.NewFunctionFromProto(vm.program.proto), true, nil)
	var se *runtime.ScriptError
	if errors.As(err, &se) && se.Pos.File == vm.program.src.File {
		se.Source = sourceLine(vm.program.src.Code, se.Pos.Line)
	}
	return err
}

// Call calls fn on the caller's goroutine and waits for it.
func (vm *machine) Call(hook *runtime.Hook, fn runtime.Func, args ...runtime.Value) (runtime.Value, error) {
	f, err := vm.own(fn)
	if err != nil {
		return nil, err
	}
	v, err := vm.run(f, false, args)
	overran := errors.Is(err, runtime.ErrDeadline) || errors.Is(err, runtime.ErrMemory)
	if hook != nil && hook.Context().Err() != nil && !overran {
		return nil, context.Cause(hook.Context())
	}
	return v, err
}

// Notify calls fn where it may not wait. Nothing comes later, so late is never called.
func (vm *machine) Notify(fn runtime.Func, _ func(error), args ...runtime.Value) error {
	f, err := vm.own(fn)
	if err != nil {
		return err
	}
	_, err = vm.run(f, true, args)
	return err
}

func (vm *machine) own(fn runtime.Func) (*glua.LFunction, error) {
	if vm.closed {
		return nil, runtime.ErrUnloaded
	}
	f, ok := fn.(function)
	if !ok || f.vm != vm {
		return nil, runtime.ErrLost
	}
	return f.fn, nil
}

// run is every entry: it calls fn on a thread of its own and reads what it returns,
// which nobody wants where the call may not wait.
func (vm *machine) run(fn *glua.LFunction, noWait bool, args []runtime.Value) (out runtime.Value, err error) {
	if vm.closed {
		return nil, runtime.ErrUnloaded
	}
	v := vm.enter(noWait)
	done := false
	defer func() {
		if !done { // the goroutine ends inside, by Goexit
			vm.leave(v, false)
		}
	}()
	L := v.L
	L.Push(fn)
	for _, a := range args {
		L.Push(vm.toLua(a))
	}
	var perr error
	if v.depth > maxStrands {
		perr = errTooDeep
	} else {
		perr = protect(L, len(args), glua.MultRet)
	}
	if perr == nil {
		if !noWait && L.GetTop() > 0 {
			out, err = vm.result(L, fn)
		}
		v.fat = v.fat || L.GetTop() > 10000
		L.SetTop(0)
	} else {
		err = vm.scriptError(perr)
	}
	clean := perr == nil
	done = true
	if closed := vm.closed; vm.leave(v, clean) {
		return nil, vm.overrun(v.entry.Meter, err)
	} else if closed && err != nil {
		return nil, vm.unloaded(err)
	}
	return out, err
}

// result reads what a function returned: one value. An answer must not get lost behind
// nothing, as in Lua's own `return nil, "why"`, nor a table behind another value; a text
// and a count, as gsub gives them, are the text.
func (vm *machine) result(L *glua.LState, fn *glua.LFunction) (runtime.Value, error) {
	first := L.Get(1)
	for i, n := 2, L.GetTop(); i <= n; i++ {
		if more := L.Get(i); more != glua.LNil && (first == glua.LNil || more.Type() == glua.LTTable) {
			return nil, vm.badResult(fn, fmt.Errorf("%s, then a %s: return one value, or raise an error", first.Type(), more.Type()))
		}
	}
	v, err := vm.toValue(first)
	if err != nil {
		return nil, vm.badResult(fn, err)
	}
	return v, nil
}

func (vm *machine) badResult(fn *glua.LFunction, err error) error {
	e := &runtime.ScriptError{Script: vm.in.ID, Name: "Error", Err: &runtime.ResultError{Err: err}}
	e.Message = e.Err.Error()
	if fn.Proto != nil {
		e.Pos = runtime.Position{File: fn.Proto.SourceName, Line: fn.Proto.LineDefined}
	}
	return e
}

// Where is the script's line that is running.
func (vm *machine) Where() runtime.Position {
	for s := vm.cur; s != nil; s = s.up {
		for _, d := range frames(s.L) {
			if p, ok := linePosition(s.L, d); ok {
				return p
			}
		}
	}
	return runtime.Position{}
}

func linePosition(L *glua.LState, d *glua.Debug) (runtime.Position, bool) {
	if _, err := L.GetInfo("Sl", d, glua.LNil); err != nil || d.What == "G" || d.CurrentLine <= 0 || d.Source == trampolineName {
		return runtime.Position{}, false
	}
	return runtime.Position{File: d.Source, Line: d.CurrentLine}, true
}

// Close ends the VM. Entries that are open, parked ones included, are stopped at their
// next instruction; the state is let go when the last of them is back.
func (vm *machine) Close() {
	if vm.closed {
		return
	}
	vm.closed = true
	vm.idle, vm.spare = nil, nil
	if vm.active == 0 {
		vm.base.Close()
	}
}

// function is a Lua function as Go holds it; the same one is always equal. Immutable.
type function struct {
	vm *machine
	fn *glua.LFunction
}

var _ runtime.Func = function{}

// VM implements runtime.Func.
func (f function) VM() runtime.VM { return f.vm }
