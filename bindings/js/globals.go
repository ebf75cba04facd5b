package js

import (
	"strings"
	"time"

	"github.com/dop251/goja"

	"dshsh/runtime"
)

// probe awaits a microtask by syntax, not by anything that a script could replace.
var probeProgram = goja.MustCompile(internalPrefix+"probe", "(async (f) => { await null; f(); })", true)

// globals gives a new VM what scripts find in it.
func (v *vm) globals() error {
	g := v.rt.GlobalObject()
	promise := v.rt.Get("Promise").(*goja.Object)
	v.natives.promise = promise
	v.natives.resolve, _ = goja.AssertFunction(promise.Get("resolve"))
	v.natives.then, _ = goja.AssertFunction(promise.Get("prototype").(*goja.Object).Get("then"))
	v.natives.noop, _ = goja.AssertFunction(v.rt.ToValue(func(goja.FunctionCall) goja.Value { return goja.Undefined() }))

	v.hide(g, "ctx", v.wrapObject(v.in.Ctx(nil)))
	v.hide(g, "console", v.rt.NewDynamicObject(&console{v: v}))
	for name, f := range map[string]func(goja.FunctionCall) goja.Value{
		"setTimeout":     func(c goja.FunctionCall) goja.Value { return v.setTimer("setTimeout", c, false) },
		"setInterval":    func(c goja.FunctionCall) goja.Value { return v.setTimer("setInterval", c, true) },
		"setImmediate":   func(c goja.FunctionCall) goja.Value { return v.setTimer("setImmediate", c, false) },
		"clearTimeout":   v.clearTimer,
		"clearInterval":  v.clearTimer,
		"clearImmediate": v.clearTimer,
		"queueMicrotask": v.queueMicrotask,
	} {
		v.hide(g, name, v.native(name, f))
	}
	return nil
}

// answerer is the probe of heal, made when it is needed.
func (v *vm) probe() (goja.Callable, error) {
	x, err := v.rt.RunProgram(probeProgram)
	if err != nil {
		return nil, err
	}
	f, _ := goja.AssertFunction(x)
	return f, nil
}

// console is the console object; its functions are made when they are first read.
type console struct {
	v       *vm
	methods map[string]goja.Value
}

var consoleLevels = map[string]string{"log": "log", "info": "info", "warn": "warn", "error": "error", "debug": "debug", "trace": "debug"}

// Get implements goja.DynamicObject.
func (c *console) Get(key string) goja.Value {
	if f, ok := c.methods[key]; ok {
		return f
	}
	level, ok := consoleLevels[key]
	if !ok {
		return nil
	}
	f := c.v.native(key, func(fc goja.FunctionCall) goja.Value {
		c.v.in.Log(level, c.v.format(fc.Arguments))
		return goja.Undefined()
	})
	c.Set(key, f)
	return f
}

// Set implements goja.DynamicObject.
func (c *console) Set(key string, val goja.Value) bool {
	if c.methods == nil {
		c.methods = map[string]goja.Value{}
	}
	c.methods[key] = val
	return true
}

// Has implements goja.DynamicObject.
func (c *console) Has(key string) bool {
	_, ok := c.methods[key]
	return ok || consoleLevels[key] != ""
}

// Delete implements goja.DynamicObject.
func (c *console) Delete(key string) bool { delete(c.methods, key); return true }

// Keys implements goja.DynamicObject.
func (c *console) Keys() []string { return []string{"debug", "error", "info", "log", "trace", "warn"} }

// format prints values as console.log does: texts as they are, errors with their stack,
// the rest as JSON where it has one.
func (v *vm) format(args []goja.Value) string {
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = v.display(a)
	}
	return strings.Join(parts, " ")
}

func (v *vm) display(x goja.Value) string {
	o, ok := x.(*goja.Object)
	if !ok {
		return x.String()
	}
	if o.ClassName() == "Error" {
		if s := text(o.Get("stack")); s != "" {
			return strings.TrimRight(s, "\n")
		}
		return o.String()
	}
	val, err := v.export(x, nil, "")
	if err != nil {
		return "[" + err.Error() + "]"
	}
	return runtime.Display(val)
}

// setTimer is setTimeout and its kin, on Instance.After.
func (v *vm) setTimer(name string, c goja.FunctionCall, repeat bool) goja.Value {
	f, ok := c.Argument(0).(*goja.Object)
	if _, callable := goja.AssertFunction(c.Argument(0)); !ok || !callable {
		panic(v.rt.NewTypeError("%s: got no function", name))
	}
	var d time.Duration
	if name != "setImmediate" {
		d = time.Duration(max(0, min(c.Argument(1).ToFloat(), 86400e3)) * float64(time.Millisecond))
	}
	if repeat {
		d = max(d, time.Millisecond) // an interval of nothing would never let anybody else in
	}
	var args []runtime.Value
	if len(c.Arguments) > 2 {
		args = v.exportArgs(name, c.Arguments[2:])
	}
	v.timerN++
	id := v.timerN
	if v.timers == nil {
		v.timers = map[int64]func(){}
	}
	var arm func()
	arm = func() {
		v.timers[id] = v.in.After(d, name, func(h *runtime.Hook) error {
			if v.closed || v.dead || v.timers[id] == nil {
				return nil
			}
			if repeat {
				arm() // first, so that the callback can clear it
			} else {
				delete(v.timers, id)
			}
			_, err := v.Call(h, fn{v, f}, args...)
			return err
		})
	}
	arm()
	return v.rt.ToValue(id)
}

func (v *vm) clearTimer(c goja.FunctionCall) goja.Value {
	id := c.Argument(0).ToInteger()
	if stop := v.timers[id]; stop != nil {
		stop()
		delete(v.timers, id)
	}
	return goja.Undefined()
}

func (v *vm) queueMicrotask(c goja.FunctionCall) goja.Value {
	if _, ok := goja.AssertFunction(c.Argument(0)); !ok {
		panic(v.rt.NewTypeError("queueMicrotask: got no function"))
	}
	p, err := v.natives.resolve(v.natives.promise)
	if err != nil {
		panic(err)
	}
	if _, err := v.natives.then(p, c.Argument(0)); err != nil {
		panic(err)
	}
	return goja.Undefined()
}

// setOnabort, addEventListener and removeEventListener give a signal what JavaScript
// expects of an AbortSignal, on its class's onabort.
func (v *vm) setOnabort(o *liveObject, f goja.Value) { o.listen(); o.onabort = f }

func (v *vm) addEventListener(o *liveObject) goja.Value {
	return v.native("addEventListener", func(c goja.FunctionCall) goja.Value {
		if c.Argument(0).String() == "abort" {
			o.listen()
			o.listeners = append(o.listeners, c.Argument(1))
		}
		return goja.Undefined()
	})
}

func (v *vm) removeEventListener(o *liveObject) goja.Value {
	return v.native("removeEventListener", func(c goja.FunctionCall) goja.Value {
		for i, f := range o.listeners {
			if f.SameAs(c.Argument(1)) {
				o.listeners = append(o.listeners[:i:i], o.listeners[i+1:]...)
				break
			}
		}
		return goja.Undefined()
	})
}

// listen subscribes once, for all listeners of the signal.
func (o *liveObject) listen() {
	if o.listening {
		return
	}
	o.listening = true
	v := o.v
	m := o.lookup("onabort")
	if m == nil {
		return
	}
	f := v.native("abort", func(c goja.FunctionCall) goja.Value {
		ev := v.rt.NewObject()
		_ = ev.Set("type", "abort")
		_ = ev.Set("target", v.wrapObject(o.obj))
		for _, l := range append([]goja.Value{o.onabort}, o.listeners...) {
			if f, ok := goja.AssertFunction(l); ok {
				if _, err := f(v.wrapObject(o.obj), ev); err != nil {
					panic(err)
				}
			}
		}
		return goja.Undefined()
	})
	if _, err := v.in.Invoke(m, o.obj, []runtime.Value{fn{v, f}}); err != nil {
		o.listening = false
		panic(v.throwable(err))
	}
}
