package js

import (
	"github.com/dop251/goja"

	"dshsh/runtime"
)

// A live signal is what scripts know as an AbortSignal: beside the members of its class
// it has addEventListener, removeEventListener and a settable onabort, all on the class's
// own onabort, to which this package subscribes once for each signal.

func (o *liveObject) isSignal() bool { return o.class.Name == "AbortSignal" }

func (v *vm) setOnabort(o *liveObject, f goja.Value) {
	o.listen()
	o.onabort = f
}

func (v *vm) addEventListener(o *liveObject) goja.Value {
	return v.native("addEventListener", func(c goja.FunctionCall) goja.Value {
		f := c.Argument(1)
		if c.Argument(0).String() != "abort" || o.listens(f) >= 0 {
			return goja.Undefined()
		}
		o.listen()
		o.listeners = append(o.listeners, f)
		return goja.Undefined()
	})
}

func (v *vm) removeEventListener(o *liveObject) goja.Value {
	return v.native("removeEventListener", func(c goja.FunctionCall) goja.Value {
		if i := o.listens(c.Argument(1)); i >= 0 {
			o.listeners = append(o.listeners[:i:i], o.listeners[i+1:]...)
		}
		return goja.Undefined()
	})
}

func (o *liveObject) listens(f goja.Value) int {
	for i, l := range o.listeners {
		if l.SameAs(f) {
			return i
		}
	}
	return -1
}

// listen subscribes to the signal, once for all listeners of this VM. In a JavaScript
// frame.
func (o *liveObject) listen() {
	m := o.lookup("onabort")
	if o.listening || m == nil {
		return
	}
	v := o.v
	f := v.native("abort", func(goja.FunctionCall) goja.Value {
		this := v.wrapObject(o.obj)
		ev := v.rt.NewObject()
		_ = ev.Set("type", "abort")
		_ = ev.Set("target", this)
		for _, l := range append([]goja.Value{o.onabort}, o.listeners...) {
			v.dispatchTo(l, this, ev)
		}
		return goja.Undefined()
	})
	if _, err := v.in.Invoke(m, o.obj, []runtime.Value{fn{v, f}}); err != nil {
		panic(v.throwable(err))
	}
	o.listening = true
}

// dispatchTo calls one listener, a function or an object with handleEvent. One that
// throws is reported and does not keep the others from hearing.
func (v *vm) dispatchTo(l, this goja.Value, ev *goja.Object) {
	f, ok := goja.AssertFunction(l)
	if o, isObject := l.(*goja.Object); !ok && isObject {
		f, ok = goja.AssertFunction(o.Get("handleEvent"))
		this = l
	}
	if !ok {
		return
	}
	if _, err := f(this, ev); isFatal(err) {
		panic(err)
	} else if err != nil {
		serr := v.scriptError(err)
		v.after = append(v.after, func() { v.report("onabort", serr) })
	}
}
