package lua

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

// thrown is an error of Go's as Lua holds it: userdata with the fields message, code,
// name, value, script, line and stack. tostring and .. give its message with the place
// where it was raised, and the string methods work on that text. Immutable.
type thrown struct {
	err   error
	place string // "guard.lua:3: ", or ""
}

func (t *thrown) text() string { return t.place + runtime.Message(t.err) }

// newError makes the Lua value of an error.
func (vm *machine) newError(err error) *glua.LUserData {
	return &glua.LUserData{Value: &thrown{err, vm.placed("")}, Env: vm.base.Env, Metatable: vm.errorMT}
}

// raise throws a Go error into the script. It does not return.
func (vm *machine) raise(L *glua.LState, err error) { L.Error(vm.newError(err), 0) }

// raisef throws a message as Lua's own functions do. It does not return.
func (vm *machine) raisef(L *glua.LState, format string, args ...any) {
	L.Error(glua.LString(vm.placed(fmt.Sprintf(format, args...))), 0)
}

// placed puts the place that runs before a message.
func (vm *machine) placed(msg string) string {
	return placeOf(vm.Where()) + msg
}

// placeOf is a place as Lua writes it before a message.
func placeOf(p runtime.Position) string {
	if p.Line == 0 {
		return ""
	}
	return p.File + ":" + strconv.Itoa(p.Line) + ": "
}

func (vm *machine) openErrors() {
	vm.errorMT = vm.metatable("error", map[string]glua.LGFunction{
		"__index":    vm.errorIndex,
		"__tostring": func(L *glua.LState) int { L.Push(glua.LString(errorText(L.Get(1)))); return 1 },
		"__concat": func(L *glua.LState) int {
			L.Push(glua.LString(errorText(L.Get(1)) + errorText(L.Get(2))))
			return 1
		},
	})
}

// errorText is the text of an operand of .. beside an error.
func errorText(v glua.LValue) string {
	if u, ok := v.(*glua.LUserData); ok {
		if t, ok := u.Value.(*thrown); ok {
			return t.text()
		}
	}
	return v.String()
}

func (vm *machine) errorIndex(L *glua.LState) int {
	t := L.CheckUserData(1).Value.(*thrown)
	key := L.CheckString(2)
	shape := runtime.ShapeOf(t.err)
	var v runtime.Value
	switch key {
	case "message":
		v = shape.Message
	case "name":
		v = shape.Name
	case "code":
		if shape.Code != "" {
			v = shape.Code
		}
	case "value":
		v = shape.Value
	case "script":
		if shape.Script != "" {
			v = shape.Script
		}
	case "line":
		if shape.Line != 0 {
			v = int64(shape.Line)
		}
	case "stack":
		v = runtime.ValueOf(shape.Stack)
	default:
		L.Push(vm.stringLib.RawGetString(key))
		return 1
	}
	L.Push(vm.toLua(v))
	return 1
}

// errorTrace remembers where a value was raised that has been caught, or that has left a
// coroutine, so that its stack is known when it is raised again. Used on the host thread.
type errorTrace struct {
	value glua.LValue
	stack stack
}

// note records the frames that a failed coroutine still has. gopher-lua has dropped the
// innermost one; if that was a Lua function, the message begins with its place.
func (vm *machine) note(obj glua.LValue, co *glua.LState) {
	below := stackOf(co)
	before := vm.traceOf(obj)
	if s, ok := obj.(glua.LString); ok && before == nil {
		if p, _, ok := vm.cutPlace(string(s)); ok && !slices.Contains(below, p) {
			before = stack{p}
		}
	}
	vm.trace = &errorTrace{value: obj, stack: before.and(below)}
}

// noteCaught records where what a pcall has caught was raised.
func (vm *machine) noteCaught(obj glua.LValue, err error) {
	if s := raisedAt(err); len(s) > 0 {
		vm.trace = &errorTrace{value: obj, stack: vm.traceOf(obj).and(s)}
	}
}

// traceOf is where a value was raised before, if that is what was noted last.
func (vm *machine) traceOf(obj glua.LValue) stack {
	if vm.trace == nil || vm.trace.value != obj {
		return nil
	}
	return vm.trace.stack
}

// raisedAt is the stack that a raised error has brought along.
func raisedAt(err error) stack {
	var ae *glua.ApiError
	if !errors.As(err, &ae) {
		return nil
	}
	s, _ := ae.Cause.(stack)
	return s
}

// and is s with what lies below it. A value that is thrown again and again does not grow.
func (s stack) and(below stack) stack {
	if all := append(slices.Clip(s), below...); len(all) <= 2*maxStack {
		return all
	}
	return s
}

// cutPlace takes Lua's own "file:line: " from the front of a message.
func (vm *machine) cutPlace(msg string) (p runtime.Position, rest string, ok bool) {
	i := strings.IndexByte(msg, ':')
	if i < 0 || !vm.chunks[msg[:i]] {
		return p, msg, false
	}
	j := i + 1
	for j < len(msg) && isDigit(msg[j]) {
		j++
	}
	n, err := strconv.Atoi(msg[i+1 : j])
	if err != nil || !strings.HasPrefix(msg[j:], ": ") {
		return p, msg, false
	}
	return runtime.Position{File: msg[:i], Line: n}, msg[j+2:], true
}

// scriptError turns what ended a call into what Go sees.
func (vm *machine) scriptError(err error) *runtime.ScriptError {
	obj := vm.errorValue(err)
	e := &runtime.ScriptError{Script: vm.in.ID, Name: "Error"}
	e.Stack = vm.traceOf(obj).and(raisedAt(err))
	vm.trace = nil
	if len(e.Stack) > 0 {
		e.Pos = e.Stack[0]
	}
	switch o := obj.(type) {
	case glua.LString:
		msg := strings.TrimLeft(string(o), " ")
		placed := false
		for {
			p, rest, ok := vm.cutPlace(msg)
			if !ok {
				break
			}
			e.Pos, msg, placed = p, rest, true
		}
		e.Message = vm.reworded(strings.ToValidUTF8(msg, "\ufffd"), e.Pos)
		if !placed { // error("text", 0): the text is what was thrown
			e.Value = e.Message
		}
	case *glua.LTable:
		vm.tableError(e, o)
	case *glua.LUserData:
		if t, ok := o.Value.(*thrown); ok {
			shape := runtime.ShapeOf(t.err)
			e.Name, e.Message, e.Code, e.Value, e.Err = shape.Name, shape.Message, shape.Code, shape.Value, t.err
			break
		}
		vm.valueError(e, obj)
	default:
		vm.valueError(e, obj)
	}
	e.Name, e.Message, e.Code = runtime.Brief(e.Name), runtime.Brief(e.Message), runtime.Brief(e.Code)
	return e
}

var indexed = regexp.MustCompile(`^attempt to index a non-table object\((\w+)\) with key `)

// reworded says in an error of gopher-lua's what it leaves out: of which object of ours a
// member was used in that line that it does not have.
func (vm *machine) reworded(msg string, at runtime.Position) string {
	switch {
	case msg == "attempt to call a non-function object":
		msg = "attempt to call a value that is no function"
	case indexed.MatchString(msg):
		msg = indexed.ReplaceAllString(msg, "attempt to index a $1 value with key ")
	default:
		return msg
	}
	if miss := vm.misses.Only(at); miss != "" {
		msg += "; " + miss
	}
	return msg
}

// tableError reads error({message = ..., code = ..., name = ...}). A table without a
// message is a thrown value.
func (vm *machine) tableError(e *runtime.ScriptError, t *glua.LTable) {
	msg, ok := t.RawGetString("message").(glua.LString)
	if !ok {
		vm.valueError(e, t)
		return
	}
	_, rest, _ := vm.cutPlace(string(msg))
	e.Message = strings.ToValidUTF8(rest, "\ufffd")
	if code, ok := t.RawGetString("code").(glua.LString); ok {
		e.Code = string(code)
	}
	if name, ok := t.RawGetString("name").(glua.LString); ok {
		e.Name = string(name)
	}
}

// valueError describes a thrown value that is no error, by its __tostring if it has one.
func (vm *machine) valueError(e *runtime.ScriptError, obj glua.LValue) {
	v, err := vm.toValue(obj)
	if err == nil {
		e.Value = v
	}
	switch s, ok := vm.ownText(obj); {
	case ok:
		_, rest, _ := vm.cutPlace(s)
		e.Message = strings.ToValidUTF8(rest, "\ufffd")
	case err != nil:
		e.Message = vm.text(obj)
	case obj == glua.LNil:
		e.Message = "nil"
	default:
		e.Message = runtime.Display(v)
	}
	if t, ok := obj.(*glua.LTable); ok && e.Code == "" {
		if code, ok := t.RawGetString("code").(glua.LString); ok {
			e.Code = string(code)
		}
	}
}

// ownText is what a table's __tostring gives. It is the script's code: it may loop, which
// the entry's meter ends, and fail, which counts as having none.
func (vm *machine) ownText(obj glua.LValue) (string, bool) {
	t, ok := obj.(*glua.LTable)
	if !ok {
		return "", false
	}
	mt, _ := t.Metatable.(*glua.LTable)
	if mt == nil {
		return "", false
	}
	fn, ok := mt.RawGetString("__tostring").(*glua.LFunction)
	if !ok {
		return "", false
	}
	results, err := vm.protected([]glua.LValue{fn, obj})
	if err != nil || len(results) == 0 {
		return "", false
	}
	s, ok := results[0].(glua.LString)
	return string(s), ok
}

// traceback is debug.traceback: a message, and below it the places at which it was raised,
// if it has just been caught, and those that run.
func (vm *machine) traceback(L *glua.LState) int {
	msg := L.Get(1)
	if _, ok := msg.(*glua.LState); ok {
		msg = L.Get(2)
	}
	text := ""
	switch m := msg.(type) {
	case *glua.LNilType:
	case glua.LString, glua.LNumber:
		text = m.String() + "\n"
	case *glua.LUserData:
		t, ok := m.Value.(*thrown)
		if !ok {
			L.Push(msg)
			return 1
		}
		text = t.text() + "\n"
	default:
		L.Push(msg)
		return 1
	}
	at := vm.traceOf(msg).and(vm.running())
	var b strings.Builder
	b.WriteString(text + "stack traceback:")
	for _, p := range at {
		b.WriteString("\n\t" + p.File + ":" + strconv.Itoa(p.Line))
	}
	return pushString(L, b.String())
}

// running is the places that run, innermost first, through pcalls and coroutines.
func (vm *machine) running() stack {
	var s stack
	for at := vm.cur; at != nil && len(s) < maxStack; at = at.up {
		s = s.and(stackOf(at.L))
	}
	return s
}

// overrun is the failure of an entry that the watchdog has stopped, whatever the script
// made of it.
func (vm *machine) overrun(m *runtime.Meter, err error) error {
	if errors.Is(vm.host.Thread.Cause(m), runtime.ErrMemory) {
		return vm.stopped(err, fmt.Errorf("%w: it asked for more than 256 MiB at once", runtime.ErrMemory))
	}
	budget := time.Duration(vm.host.Limits().Sync) * time.Millisecond
	return vm.stopped(err, fmt.Errorf("%w: computed for more than %v", runtime.ErrDeadline, budget))
}

// unloaded is the failure of an entry that Close has ended.
func (vm *machine) unloaded(err error) error { return vm.stopped(err, runtime.ErrUnloaded) }

func (vm *machine) stopped(err, cause error) error {
	e := &runtime.ScriptError{Script: vm.in.ID, Name: "Error", Message: cause.Error(), Err: cause}
	var se *runtime.ScriptError
	if errors.As(err, &se) {
		e.Pos, e.Stack = se.Pos, se.Stack
	}
	return e
}
