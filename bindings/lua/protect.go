package lua

import (
	"fmt"
	"iter"
	"reflect"
	"runtime/debug"

	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

// protect calls what has been pushed on L, an empty stack, with nargs arguments, and
// gives what it raised, or a Go panic below it, as a *glua.ApiError. L is not used again
// then. It stands for LState.PCall, which writes down a line for every tail call that
// there has been before it cuts its traceback: after some seconds of tail calls that takes
// all memory, and nothing stops it.
func protect(L *glua.LState, nargs, nret int) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil: // all is well, or the goroutine ends
		case *glua.ApiError:
			err = p
		default:
			err = &glua.ApiError{Type: glua.ApiErrorPanic, Object: glua.LString(fmt.Sprint(p)), StackTrace: string(debug.Stack()), Cause: stackOf(L)}
		}
	}()
	L.Call(nargs, nret)
	return nil
}

// raised is LState.Panic of every thread but coroutines: what is at the top of the stack
// is thrown, with the stack below it.
func raised(L *glua.LState) {
	panic(&glua.ApiError{Type: glua.ApiErrorRun, Object: L.Get(-1), Cause: stackOf(L)})
}

// stack is where an error was raised, innermost first. It rides on an ApiError as its
// Cause. Immutable.
type stack []runtime.Position

func (stack) Error() string { return "stack" }

const (
	maxStack  = 20 // places that a stack names
	innermost = 12 // so many of them from its inner end
)

// stackOf names the places in which L is; of a deep stack both ends.
func stackOf(L *glua.LState) stack {
	var s stack
	for _, d := range frames(L) {
		p, ok := linePosition(L, d)
		switch {
		case !ok:
		case len(s) < maxStack:
			s = append(s, p)
		default:
			copy(s[innermost:], s[innermost+1:])
			s[maxStack-1] = p
		}
	}
	return s
}

// frames are L's calls, innermost first, with their levels as Lua counts them: each tail
// call that has replaced a frame is a level of its own, which nothing is known of.
func frames(L *glua.LState) iter.Seq2[int, *glua.Debug] {
	return func(yield func(int, *glua.Debug) bool) {
		for level := 0; ; {
			d, ok := L.GetStack(level)
			if !ok || !yield(level, d) {
				return
			}
			level += 1 + tailCalls(d)
		}
	}
}

// tailCalls says how many tail calls have replaced a frame. gopher-lua does not show it,
// and takes every such level for the outermost frame.
func tailCalls(d *glua.Debug) int {
	if f := reflect.ValueOf(d).Elem().FieldByName("frame").Elem().FieldByName("TailCall"); f.CanInt() {
		return int(f.Int())
	}
	return 0
}
