package runtimetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"dshsh/runtime"
)

// VM is a toy virtual machine. Used on the thread.
type VM struct {
	*program
	in *runtime.Instance
	th *runtime.Thread

	// Fragile has the VM be beyond use after an interrupt, as goja is after one inside an
	// async function. A script's top level sets it.
	Fragile bool

	depth   int                   // entries, of all chains
	jobs    []func()              // JS: run when the outermost entry returns
	waiting map[*pending]struct{} // JS: calls whose promise has not settled
	running any                   // Lua: what Save and Restore keep for each chain
	line    int
	closed  bool

	mu   sync.Mutex    // guards stop
	stop chan struct{} // closed by an interrupt; nil = not interrupted
	hit  bool
}

// Instance is whose VM it is.
func (vm *VM) Instance() *runtime.Instance { return vm.in }

// Thread is the host's.
func (vm *VM) Thread() *runtime.Thread { return vm.th }

// At sets the line that runs, for Where.
func (vm *VM) At(line int) { vm.line = line }

// Where implements runtime.VM.
func (vm *VM) Where() runtime.Position { return runtime.Position{File: vm.file, Line: vm.line} }

// killed unwinds an interrupted call; thrown is MustOn's error.
type killed struct{}
type thrown struct{ err error }

// Compute keeps the thread busy for d, or until the VM is interrupted, which no script
// survives.
func (vm *VM) Compute(d time.Duration) {
	vm.mu.Lock()
	if vm.stop == nil {
		vm.stop = make(chan struct{})
	}
	stop := vm.stop
	vm.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-stop:
		panic(killed{})
	default:
	}
	select {
	case <-stop:
		panic(killed{})
	case <-t.C:
	}
}

func (vm *VM) interrupt() {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	if vm.stop == nil {
		vm.stop = make(chan struct{})
	}
	if !vm.hit {
		vm.hit = true
		close(vm.stop)
	}
}

func (vm *VM) clear() {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	vm.stop, vm.hit = nil, false
}

// enter runs body inside the VM. The error is an interrupt's or a panic's.
func (vm *VM) enter(body func()) (err error) {
	if vm.closed {
		return runtime.ErrUnloaded
	}
	e := &runtime.Entry{VM: vm, NoWait: vm.kind == JS, Meter: vm.in.NewMeter(vm.interrupt)}
	if vm.kind == Lua {
		e.Save = func() { vm.running = nil }
		e.Restore = func() { vm.running = e }
	}
	outer := vm.running
	vm.running = e
	vm.depth++
	vm.th.Enter(e)
	err = protect(body)
	if vm.depth == 1 {
		for err == nil && len(vm.jobs) > 0 {
			job := vm.jobs[0]
			vm.jobs = vm.jobs[1:]
			err = protect(job)
		}
	}
	if vm.running != e {
		panic("runtimetest: the VM's state was not saved and restored with its chain")
	}
	vm.running = outer
	vm.depth--
	fired := vm.th.Exit(e, vm.clear)
	if !errors.Is(err, errKilled) {
		return err
	}
	if !fired {
		return fmt.Errorf("stopped by an interrupt that was not meant for it")
	}
	err = vm.scriptError(fmt.Errorf("%w: computed for too long", vm.th.Cause(e.Meter)))
	if vm.kind == JS && vm.depth == 0 {
		vm.jobs = nil
		vm.failWaiting(runtime.ErrLost)
		if vm.Fragile {
			vm.in.Rebuild(err)
		}
	}
	return err
}

var errKilled = errors.New("interrupted")

func protect(body func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case killed:
			err = errKilled
		case thrown:
			err = p.err
		default:
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	body()
	return nil
}

func (vm *VM) scriptError(err error) error {
	var se *runtime.ScriptError
	if err == nil || errors.As(err, &se) && error(se) == err {
		return err
	}
	return &runtime.ScriptError{Script: vm.in.ID, Name: "Error", Message: err.Error(), Pos: vm.Where(), Code: runtime.CodeOf(err), Err: err}
}

// Load implements runtime.VM.
func (vm *VM) Load() error {
	var err error
	if eerr := vm.enter(func() { err = vm.top(&Call{VM: vm}) }); eerr != nil {
		err = eerr
	}
	return vm.scriptError(err)
}

// call runs a function of the script inside the VM.
func (vm *VM) call(f runtime.Func, args []runtime.Value) (v runtime.Value, err error) {
	g := f.(*fn)
	if g.vm != vm {
		return nil, runtime.ErrLost
	}
	eerr := vm.enter(func() { v, err = g.f(&Call{VM: vm, Args: args}) })
	if eerr != nil {
		v, err = nil, eerr
	}
	return v, err
}

// Call implements runtime.VM.
func (vm *VM) Call(_ *runtime.Hook, f runtime.Func, args ...runtime.Value) (runtime.Value, error) {
	v, err := vm.call(f, args)
	if p, ok := v.(*Promise); ok && err == nil {
		v, err = vm.await(p)
	}
	return v, vm.scriptError(err)
}

// Notify implements runtime.VM.
func (vm *VM) Notify(f runtime.Func, late func(error), args ...runtime.Value) error {
	v, err := vm.call(f, args)
	if p, ok := v.(*Promise); ok && err == nil {
		p.whenSettled(func() {
			if p.err != nil {
				late(vm.scriptError(p.err))
			}
		})
	}
	return vm.scriptError(err)
}

// Close implements runtime.VM.
func (vm *VM) Close() {
	if vm.closed {
		panic("runtimetest: VM closed twice")
	}
	vm.closed = true
	vm.failWaiting(runtime.ErrUnloaded)
	vm.e.mu.Lock()
	delete(vm.e.open, vm)
	vm.e.mu.Unlock()
}
