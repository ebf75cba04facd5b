package lua

import (
	"errors"
	"strings"

	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

var errTooDeep = errors.New("stack overflow: calls, pcalls and coroutines are nested too deeply")

// push begins a strand above the current one, for a pcall.
func (vm *machine) push() *strand {
	if vm.cur.depth >= maxStrands {
		return nil
	}
	var s *strand
	if n := len(vm.spare); n > 0 {
		s, vm.spare = vm.spare[n-1], vm.spare[:n-1]
	} else {
		s = &strand{L: vm.newThread(128, true)}
	}
	s.up, s.depth = vm.cur, vm.cur.depth+1
	vm.cur = s
	vm.base.G.CurrentThread = s.L
	return s
}

// pop ends s, whatever strands a raised error has left above it.
func (vm *machine) pop(s *strand, clean bool) {
	vm.cur = s.up
	vm.base.G.CurrentThread = s.up.L
	if clean && !s.fat && len(vm.spare) < maxIdle && !vm.closed {
		s.up, s.native = nil, 0
		s.L.Env = vm.base.Env
		vm.spare = append(vm.spare, s)
	}
}

// protected calls a function, the first of call, with the others, on a stack of its own:
// gopher-lua's own pcall detaches the variables of every caller when an error is raised,
// and an xpcall leaves those of the callee attached.
func (vm *machine) protected(call []glua.LValue) (results []glua.LValue, err error) {
	s := vm.push()
	if s == nil {
		return nil, errTooDeep
	}
	for _, v := range call {
		s.L.Push(v)
	}
	err = protect(s.L, len(call)-1, glua.MultRet)
	if err == nil {
		results = stackFrom(s.L, 1)
		s.L.SetTop(0)
		s.fat = s.fat || len(results) > 10000
	}
	vm.pop(s, err == nil)
	return results, err
}

// stackFrom is the values on L from the given index on.
func stackFrom(L *glua.LState, from int) (values []glua.LValue) {
	for i, n := from, L.GetTop(); i <= n; i++ {
		values = append(values, L.Get(i))
	}
	return values
}

// callable says whether gopher-lua can call v.
func callable(L *glua.LState, v glua.LValue) bool {
	return v.Type() == glua.LTFunction || L.GetMetaField(v, "__call").Type() == glua.LTFunction
}

func (vm *machine) pcall(L *glua.LState) int {
	f := L.CheckAny(1)
	if !callable(L, f) {
		L.Push(glua.LFalse)
		L.Push(glua.LString("attempt to call a " + f.Type().String() + " value"))
		return 2
	}
	results, err := vm.protected(stackFrom(L, 1))
	if err != nil {
		return vm.caught(L, err, nil)
	}
	return pushAll(L, results)
}

func (vm *machine) xpcall(L *glua.LState) int {
	f := L.CheckAny(1)
	handler := L.CheckFunction(2)
	if !callable(L, f) {
		return vm.caught(L, errors.New("attempt to call a "+f.Type().String()+" value"), handler)
	}
	L.Remove(2)
	results, err := vm.protected(stackFrom(L, 1))
	if err != nil {
		return vm.caught(L, err, handler)
	}
	return pushAll(L, results)
}

func pushAll(L *glua.LState, results []glua.LValue) int {
	L.SetTop(0)
	L.Push(glua.LTrue)
	for _, r := range results {
		L.Push(r)
	}
	return len(results) + 1
}

// caught is how a protected call ends that failed: false and the error, except that it
// cannot hold a kill.
func (vm *machine) caught(L *glua.LState, err error, handler *glua.LFunction) int {
	if vm.killed() {
		vm.raise(L, vm.ctx.Err())
	}
	obj := vm.errorValue(err)
	if s, ok := obj.(glua.LString); ok {
		obj = glua.LString(direct(string(s)))
	}
	vm.noteCaught(obj, err)
	if handler != nil {
		if results, herr := vm.protected([]glua.LValue{handler, obj}); herr != nil {
			if vm.killed() {
				vm.raise(L, vm.ctx.Err())
			}
			obj = vm.errorValue(herr)
		} else {
			obj = glua.LNil
			if len(results) > 0 {
				obj = results[0]
			}
		}
	}
	L.SetTop(0)
	L.Push(glua.LFalse)
	L.Push(obj)
	return 2
}

// direct mends the words of gopher-lua for a library function that pcall has called
// itself: it has no place there, and no name.
func direct(msg string) string {
	if rest, ok := strings.CutPrefix(msg, " bad argument"); ok {
		return "bad argument" + strings.Replace(rest, " to main chunk", "", 1)
	}
	return msg
}

// errorValue is what Lua was thrown. A Go panic that is no Lua error is a fault of the
// host: it is reported even if the script then holds it.
func (vm *machine) errorValue(err error) glua.LValue {
	var ae *glua.ApiError
	if !errors.As(err, &ae) {
		return vm.newError(err)
	}
	if ae.Type == glua.ApiErrorPanic {
		if ae.Object.String() == growPanic {
			return vm.newError(errTooDeep)
		}
		ierr := &internalError{ae.Object.String(), ae.StackTrace}
		vm.host.Report(runtime.Failure{Instance: vm.in, What: "internal", Err: ierr})
		return vm.newError(ierr)
	}
	return ae.Object
}

// growPanic is what a growing call stack panics with when it is full.
const growPanic = "lua callstack overflow"

// internalError is a Go panic below a Lua frame, outside of what the host called.
type internalError struct{ msg, stack string }

func (e *internalError) Error() string { return "internal error: " + e.msg }

// call calls fn on L's own stack, from a library function: gsub, sort and the like.
// Waiting inside works; yielding does not, and says so.
func (vm *machine) call(L *glua.LState, nargs, nret int) {
	s := vm.cur
	s.native++
	L.Call(nargs, nret)
	s.native--
}

// openCoroutines replaces the library: each coroutine has the VM's context whenever it was
// made, nesting is limited, and one that another hook is inside of is refused.
func (vm *machine) openCoroutines() {
	vm.lib("coroutine", map[string]glua.LGFunction{
		"create":      vm.coCreate,
		"wrap":        vm.coWrap,
		"resume":      vm.coResume,
		"yield":       vm.coYield,
		"status":      vm.coStatus,
		"running":     vm.coRunning,
		"isyieldable": vm.coYieldable,
	})
}

// coContext is a coroutine's context. Beside what the VM's does it ends a coroutine that
// has yielded from where gopher-lua cannot yield: inside a metamethod or an iterator it
// goes on running there although control has gone to the resumer.
type coContext struct {
	*vmContext
	co     *glua.LState
	broken bool // it has yielded where it cannot
	tail   bool // it has yielded in a tail call of its body: what comes back ends it
}

var errYield = errors.New("attempt to yield across a metamethod or iterator")

func (c *coContext) Done() <-chan struct{} {
	if c.co.Parent == nil {
		return closedChan
	}
	return c.vmContext.Done()
}

func (c *coContext) Err() error {
	if c.co.Parent == nil && !c.vm.killed() {
		c.co.Dead, c.broken = true, true
		return errYield
	}
	return c.vmContext.Err()
}

func (vm *machine) coNew(fn *glua.LFunction) *glua.LState {
	if fn.IsG {
		fn = vm.trampoline(fn)
	}
	co := vm.newThread(128, false)
	co.SetContext(&coContext{vmContext: vm.ctx, co: co})
	co.Push(fn) // where the first resume finds it
	return co
}

// trampolineName is the chunk of the host's own that no place is given in.
const trampolineName = "[coroutine]"

// trampoline calls a Go function from Lua: as the body of a coroutine gopher-lua would
// lose its results.
func (vm *machine) trampoline(fn *glua.LFunction) *glua.LFunction {
	proto, err := vm.program.engine.compile(trampolineName, []byte("local f = ... return function(...) return f(...) end"))
	if err != nil {
		panic(err)
	}
	vm.base.Push(vm.base.NewFunctionFromProto(proto))
	vm.base.Push(fn)
	vm.base.Call(1, 1)
	f := vm.base.Get(-1).(*glua.LFunction)
	vm.base.Pop(1)
	return f
}

func (vm *machine) coCreate(L *glua.LState) int {
	L.Push(vm.coNew(L.CheckFunction(1)))
	return 1
}

func (vm *machine) coWrap(L *glua.LState) int {
	co := vm.coNew(L.CheckFunction(1))
	L.Push(L.NewFunction(func(L *glua.LState) int {
		results, err := vm.resume(L, co, 1)
		if err != nil {
			L.Error(vm.errorValue(err), 0)
		}
		L.SetTop(0)
		for _, r := range results {
			L.Push(r)
		}
		return len(results)
	}))
	return 1
}

func (vm *machine) coResume(L *glua.LState) int {
	co := L.CheckThread(1)
	results, err := vm.resume(L, co, 2)
	if err != nil {
		return vm.caught(L, err, nil)
	}
	return pushAll(L, results)
}

// resume runs co until it yields, ends or fails, with L's arguments from the given one on.
func (vm *machine) resume(L, co *glua.LState, from int) ([]glua.LValue, error) {
	if co.Dead {
		return nil, vm.plain(L, "cannot resume a dead coroutine")
	}
	if co.Parent != nil || co.Context() == vm.ctx {
		for s := vm.cur; s != nil; s = s.up {
			if s.L == co {
				return nil, vm.plain(L, "cannot resume a coroutine that is running")
			}
		}
		return nil, vm.plain(L, "cannot resume a coroutine that another hook is inside of")
	}
	args := stackFrom(L, from)
	ctx := co.Context().(*coContext)
	if ctx.tail { // gopher-lua has no frame left that could return it
		co.Dead = true
		return args, nil
	}
	if vm.cur.depth >= maxStrands {
		return nil, errTooDeep
	}
	s := &strand{L: co, up: vm.cur, depth: vm.cur.depth + 1, co: true}
	var fn *glua.LFunction
	if _, started := co.GetStack(0); !started {
		fn, _ = co.Get(1).(*glua.LFunction)
	}
	vm.cur = s
	state, results, err := vm.enterCoroutine(L, co, fn, args)
	vm.cur = s.up
	vm.base.G.CurrentThread = s.up.L
	if state == glua.ResumeError {
		var ae *glua.ApiError
		if errors.As(err, &ae) {
			if ae.Object.String() == growPanic {
				err = errTooDeep
			}
			vm.note(ae.Object, co)
		}
		return nil, err
	}
	ctx.tail = state == glua.ResumeOK && !co.Dead
	return results, nil
}

// enterCoroutine is LState.Resume, with an error for a yield that gopher-lua could not
// carry out: that unwinds the resumer as well, with its message lost.
func (vm *machine) enterCoroutine(L, co *glua.LState, fn *glua.LFunction, args []glua.LValue) (state glua.ResumeState, results []glua.LValue, err error) {
	defer func() {
		if co.Context().(*coContext).broken && recover() != nil {
			state, results, err = glua.ResumeError, nil, errYield
		}
	}()
	state, err, results = L.Resume(co, fn, args...)
	return state, results, err
}

// plain is an error as Lua's own functions raise it: a string that begins with the place.
func (vm *machine) plain(L *glua.LState, msg string) error {
	return &glua.ApiError{Type: glua.ApiErrorRun, Object: glua.LString(vm.placed(msg))}
}

func (vm *machine) coYield(L *glua.LState) int {
	switch {
	case !vm.cur.co && vm.inCoroutine():
		vm.raisef(L, "attempt to yield across a pcall")
	case !vm.cur.co:
		vm.raisef(L, "attempt to yield from outside a coroutine")
	case vm.cur.native > 0:
		vm.raisef(L, "attempt to yield across a callback of a library function")
	}
	return -1
}

// inCoroutine says whether any strand below is a coroutine.
func (vm *machine) inCoroutine() bool { return vm.coroutine() != nil }

// coroutine is the innermost coroutine that runs, or nil.
func (vm *machine) coroutine() *glua.LState {
	for s := vm.cur; s != nil; s = s.up {
		if s.co {
			return s.L
		}
	}
	return nil
}

func (vm *machine) coStatus(L *glua.LState) int {
	co := L.CheckThread(1)
	switch {
	case co.Dead:
		L.Push(glua.LString("dead"))
	case co == vm.coroutine():
		L.Push(glua.LString("running"))
	case co.Parent != nil:
		L.Push(glua.LString("normal"))
	default:
		L.Push(glua.LString("suspended"))
	}
	return 1
}

func (vm *machine) coRunning(L *glua.LState) int {
	if co := vm.coroutine(); co != nil {
		L.Push(co)
	} else {
		L.Push(glua.LNil)
	}
	return 1
}

func (vm *machine) coYieldable(L *glua.LState) int {
	L.Push(glua.LBool(vm.cur.co && vm.cur.native == 0))
	return 1
}
