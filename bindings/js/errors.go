package js

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/dop251/goja"

	"dshsh/runtime"
)

// internalPrefix begins the file names of code that is ours: stacks leave it out.
const internalPrefix = "dshsh:"

// goError hangs the Go error on the Error object that a script sees. It has no exported
// members: scripts can read nothing of it.
type goError struct{ err error }

// throwable is err as an Error object: the shape of runtime.ErrorShape, and behind it err
// itself, so that errors.Is finds it again when the script lets it out. In an entry.
func (v *vm) throwable(err error) *goja.Object {
	s := runtime.ShapeOf(err)
	e := v.rt.NewTypeError("%s", s.Message)
	if s.Name != "TypeError" {
		// Error.prototype, without a look at globals that a script may have replaced.
		_ = e.SetPrototype(e.Prototype().Prototype())
		if s.Name != "Error" {
			v.hide(e, "name", v.rt.ToValue(s.Name))
		}
	}
	if s.Code != "" {
		_ = e.Set("code", s.Code)
	}
	if s.Value != nil {
		v.hide(e, "value", v.toJS(s.Value))
	}
	if s.Script != "" {
		v.hide(e, "script", v.rt.ToValue(s.Script))
		v.hide(e, "line", v.rt.ToValue(s.Line))
	}
	if v.errKey == nil {
		v.errKey = goja.NewSymbol("dshsh.error")
	}
	_ = e.DefineDataPropertySymbol(v.errKey, v.rt.ToValue(&goError{err}), goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE)
	return e
}

// throwableAt is throwable for an operation that was begun at a place and has failed
// when no script was running.
func (v *vm) throwableAt(err error, at runtime.Position) *goja.Object {
	e := v.throwable(err)
	if at.Line > 0 {
		v.hide(e, "stack", v.rt.ToValue(fmt.Sprintf("%s: %s\n\tat %s:%d:%d(0)\n", text(e.Get("name")), text(e.Get("message")), at.File, at.Line, at.Col)))
	}
	return e
}

func (v *vm) hide(o *goja.Object, name string, val goja.Value) {
	_ = o.DefineDataProperty(name, val, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
}

// scriptError is err as callers of the VM get it: a *runtime.ScriptError, unless it
// wraps one. In an entry, since it may read what a script has thrown.
func (v *vm) scriptError(err error) error {
	if err == nil {
		return nil
	}
	if ex, ok := err.(*goja.Exception); ok { // whose Unwrap may run script code
		return v.errorOfValue(ex.Value(), ex.Stack())
	}
	var se *runtime.ScriptError
	var ie *goja.InterruptedError
	var so *goja.StackOverflowError
	switch {
	case errors.As(err, &se):
		return err
	case errors.As(err, &ie):
		se := v.newError(ie.Stack())
		se.Err, se.Message = runtime.ErrLost, runtime.ErrLost.Error()
		if errors.Is(err, runtime.ErrDeadline) {
			se.Err = runtime.ErrDeadline
			se.Message = fmt.Sprintf("%s: computed for more than %v", runtime.ErrDeadline, v.syncLimit())
		}
		return se
	case errors.As(err, &so):
		se := v.newError(so.Stack())
		se.Name, se.Message = "RangeError", fmt.Sprintf("stack overflow: calls nest more than %d deep", maxStack)
		return se
	}
	return &runtime.ScriptError{Script: v.in.ID, Name: "TypeError", Message: runtime.Brief(err.Error()), Err: err}
}

// outOfMemory is an interrupt for another reason than time.
func (v *vm) outOfMemory(err error) error {
	var se *runtime.ScriptError
	if !errors.As(err, &se) {
		return err
	}
	c := *se
	c.Err, c.Message = runtime.ErrMemory, fmt.Sprintf("%s: it asked for more than 256 MiB at once", runtime.ErrMemory)
	return &c
}

func (v *vm) newError(stack []goja.StackFrame) *runtime.ScriptError {
	se := &runtime.ScriptError{Script: v.in.ID, Name: "Error"}
	setStack(se, positions(stack))
	return se
}

// errorOfValue describes what a script threw or rejected with. stack is where it was
// thrown, if known. In an entry.
func (v *vm) errorOfValue(x goja.Value, stack []goja.StackFrame) error {
	se := v.newError(stack)
	err := v.protect(func() error {
		if ex := v.rt.Try(func() { v.describe(se, x) }); ex != nil {
			return ex
		}
		return nil
	})
	if isFatal(err) {
		return err
	}
	if err != nil && se.Message == "" {
		se.Message = "an error that throws when it is read"
	}
	se.Name, se.Message, se.Code = runtime.Brief(se.Name), runtime.Brief(se.Message), runtime.Brief(se.Code)
	return se
}

func (v *vm) describe(se *runtime.ScriptError, x goja.Value) {
	o, ok := x.(*goja.Object)
	if !ok || o.ClassName() != "Error" {
		val, err := v.export(x, nil, "")
		if isFatal(err) {
			panic(err)
		}
		if err != nil {
			val = x.String()
		} else if val == nil && x != nil {
			se.Message = x.String()
			return
		}
		se.Value = val
		se.Message = runtime.Display(val)
		return
	}
	se.Name = text(o.Get("name"))
	se.Message = text(o.Get("message"))
	if se.Message == "" {
		se.Message = se.Name
	}
	se.Code = text(o.Get("code"))
	if val := o.Get("value"); val != nil {
		var err error
		if se.Value, err = v.export(val, nil, ""); isFatal(err) {
			panic(err)
		}
	}
	se.Err = v.goErrorOf(o)
	if own := parseStack(text(o.Get("stack"))); len(own) > 0 {
		setStack(se, own)
	}
	if se.Name == "TypeError" && se.Err == nil {
		se.Message = v.reworded(se.Message, se.Pos)
	}
	var inner *runtime.ScriptError
	if errors.As(se.Err, &inner) && inner.Script == v.in.ID && inner.Source != "" {
		se.Pos, se.Source = inner.Pos, inner.Source // a required file that does not parse
	}
}

// reworded says in an error of goja's what it leaves out: of which object of ours a member
// was called that it does not have, and that null is read from in the same words.
func (v *vm) reworded(msg string, at runtime.Position) string {
	if key, ok := strings.CutPrefix(msg, "Object has no member '"); ok {
		if miss := v.misses.Named(at, strings.TrimSuffix(key, "'")); miss != "" {
			return miss
		}
		return msg
	}
	if !readsNothing.MatchString(msg) {
		return msg
	}
	if !strings.HasSuffix(msg, " or null") {
		msg += " or null"
	}
	if miss := v.misses.Only(at); miss != "" {
		msg += "; " + miss
	}
	return msg
}

var readsNothing = regexp.MustCompile(`(?s)^Cannot read property '.*' of undefined( or null)?$`)

// goErrorOf finds the Go error that an Error object, or one of its causes, carries.
func (v *vm) goErrorOf(o *goja.Object) error {
	for range 8 {
		if v.errKey != nil {
			if h := o.GetSymbol(v.errKey); h != nil {
				if ge, ok := h.Export().(*goError); ok {
					return ge.err
				}
			}
		}
		cause, ok := o.Get("cause").(*goja.Object)
		if !ok {
			return nil
		}
		o = cause
	}
	return nil
}

func setStack(se *runtime.ScriptError, stack []runtime.Position) {
	se.Stack = stack
	if len(stack) > 0 {
		se.Pos = stack[0]
	}
}

// asException finds a thrown value in err.
func asException(err error, ex **goja.Exception) bool { return errors.As(err, ex) }

func positions(stack []goja.StackFrame) []runtime.Position {
	var out []runtime.Position
	for _, f := range stack {
		if p, ok := framePos(f); ok {
			out = append(out, p)
		}
	}
	return out
}

// framePos is where a frame is in the script's files; false for native and our own code.
func framePos(f goja.StackFrame) (runtime.Position, bool) {
	p := f.Position() // of the author's file where it was transformed
	return runtime.Position{File: p.Filename, Line: p.Line, Col: p.Column}, p.Line > 0 && isScriptFile(p.Filename)
}

func isScriptFile(name string) bool {
	return name != "" && name[0] != '<' && !strings.HasPrefix(name, internalPrefix)
}

// parseStack reads the text of an Error's stack, as goja writes it:
//
//	at name (file:line:col(pc))
//	at file:line:col(pc)
func parseStack(s string) []runtime.Position {
	var out []runtime.Position
	for line := range strings.SplitSeq(s, "\n") {
		line, ok := strings.CutPrefix(line, "\tat ")
		if !ok {
			continue
		}
		line = strings.TrimSuffix(line, ")")
		line = strings.TrimSuffix(line, ")")
		i := strings.LastIndexByte(line, '(')
		if i < 0 {
			continue
		}
		line = line[:i]
		if j := strings.LastIndex(line, " ("); j >= 0 {
			line = line[j+2:]
		}
		rest, col, ok1 := cutLast(line)
		file, row, ok2 := cutLast(rest)
		if !ok1 || !ok2 || !isScriptFile(file) {
			continue
		}
		out = append(out, runtime.Position{File: file, Line: row, Col: col})
	}
	return out
}

func cutLast(s string) (before string, n int, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(s[i+1:])
	return s[:i], n, err == nil
}
