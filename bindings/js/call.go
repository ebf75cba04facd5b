package js

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dop251/goja"

	"dshsh/runtime"
)

// fn is a script's function. It is comparable: the same function is the same Func.
type fn struct {
	v   *vm
	obj *goja.Object
}

// VM implements runtime.Func.
func (f fn) VM() runtime.VM { return f.v }

// call is one call of a script's function from Go, from its beginning to the settling of
// what it promised. What the script does on its account, across awaits, is traced to it.
type call struct {
	hook *runtime.Hook
	done chan struct{} // closed when settled; nil while nobody waits
	late func(error)   // of a Notify: told of a rejection
	val  runtime.Value
	err  error
	over bool // settled or given up
}

// settle ends the call with what its promise came to, once.
func (c *call) settle(v *vm, val runtime.Value, err error) {
	if c.over {
		return
	}
	c.over = true
	c.val, c.err = val, err
	delete(v.pending, c)
	if c.done != nil {
		close(c.done)
	}
	if c.late != nil && err != nil {
		late := c.late
		v.after = append(v.after, func() { late(err) })
	}
}

// failPending ends every pending call with err.
func (v *vm) failPending(err error) {
	for c := range v.pending {
		c.settle(v, nil, err)
	}
}

func (v *vm) own(f runtime.Func) (*goja.Object, error) {
	jf, ok := f.(fn)
	if !ok || jf.v != v {
		return nil, runtime.ErrLost
	}
	return jf.obj, nil
}

// Call implements runtime.VM.
func (v *vm) Call(hook *runtime.Hook, f runtime.Func, args ...runtime.Value) (runtime.Value, error) {
	obj, err := v.own(f)
	if err != nil {
		return nil, err
	}
	if !v.th.CanWait() {
		return nil, runtime.ErrCannotWait
	}
	old := v.th.SetHook(hook)
	defer v.th.SetHook(old)
	c := &call{hook: hook}
	if err := v.enter(c, func() error { return v.begin(c, obj, args) }); err != nil {
		c.settle(v, nil, err)
		return nil, err
	}
	if !c.over {
		v.await(c)
	}
	return c.val, c.err
}

// Notify implements runtime.VM.
func (v *vm) Notify(f runtime.Func, late func(error), args ...runtime.Value) error {
	obj, err := v.own(f)
	if err != nil {
		return err
	}
	old := v.th.SetHook(nil)
	defer v.th.SetHook(old)
	c := &call{late: late}
	return v.enter(c, func() error { return v.begin(c, obj, args) })
}

// begin calls obj and looks at what it returned: an answer, or a promise. A throw is
// returned; a rejection settles the call. In an entry.
func (v *vm) begin(c *call, obj *goja.Object, args []runtime.Value) error {
	call, ok := goja.AssertFunction(obj)
	if !ok {
		return errors.New("not a function")
	}
	jargs := make([]goja.Value, len(args))
	for i, a := range args {
		jargs[i] = v.toJS(a)
	}
	ret, err := call(goja.Undefined(), jargs...)
	if err != nil {
		return err
	}
	return v.follow(c, ret)
}

// follow settles c with ret, now or when the promise that it is does.
func (v *vm) follow(c *call, ret goja.Value) error {
	p, ok := promiseOf(ret)
	if !ok {
		thenable, err := v.isThenable(ret)
		if err != nil {
			return err
		}
		if !thenable {
			if c.late != nil {
				c.settle(v, nil, nil) // what an observer returns is ignored
				return nil
			}
			val, err := v.answer(ret)
			if err != nil {
				return err
			}
			c.settle(v, val, nil)
			return v.drain(ret)
		}
		// Whatever has a then is taken for a promise, as await does.
		return v.whenSettled(c, ret)
	}
	switch p.State() {
	case goja.PromiseStateFulfilled:
		val, err := v.answer(p.Result())
		c.settle(v, val, err)
		return v.drain(p.Result())
	case goja.PromiseStateRejected:
		v.looked(p)
		err := v.errorOfValue(p.Result(), nil)
		if isFatal(err) {
			return err
		}
		c.settle(v, nil, err)
		return nil
	}
	return v.whenSettled(c, ret)
}

// answer reads what a call gave.
func (v *vm) answer(x goja.Value) (runtime.Value, error) {
	val, err := v.exportTop(x)
	var se *runtime.ScriptError // its own code threw on the way
	if _, thrown := err.(*goja.Exception); !thrown && err != nil && !errors.As(err, &se) && !isFatal(err) {
		err = &runtime.ResultError{Err: err}
	}
	return val, err
}

// whenSettled settles c when the promise does.
func (v *vm) whenSettled(c *call, promise goja.Value) error {
	if v.awaiter == nil {
		f, err := v.helper(awaitProgram)
		if err != nil {
			return err
		}
		v.awaiter = f
	}
	v.pending[c] = struct{}{}
	_, err := v.awaiter(goja.Undefined(), promise,
		v.rt.ToValue(func(fc goja.FunctionCall) goja.Value {
			defer v.guardNative()
			val, err := v.answer(fc.Argument(0))
			c.settle(v, val, err)
			return goja.Undefined()
		}),
		v.rt.ToValue(func(fc goja.FunctionCall) goja.Value {
			defer v.guardNative()
			err := v.errorOfValue(fc.Argument(0), nil)
			if isFatal(err) {
				panic(err)
			}
			c.settle(v, nil, err)
			return goja.Undefined()
		}))
	return err
}

// helper runs a program of ours that gives a function.
func (v *vm) helper(p func() *goja.Program) (goja.Callable, error) {
	x, err := v.rt.RunProgram(p())
	if err != nil {
		return nil, err
	}
	f, ok := goja.AssertFunction(x)
	if !ok {
		return nil, errors.New("a helper is not a function")
	}
	return f, nil
}

// drain runs the jobs that reading a value may have queued (its getters are script code).
func (v *vm) drain(of goja.Value) error {
	if _, ok := of.(*goja.Object); !ok {
		return nil
	}
	if v.noop == nil {
		v.noop, _ = goja.AssertFunction(v.rt.ToValue(func(goja.FunctionCall) goja.Value { return goja.Undefined() }))
	}
	_, err := v.noop(goja.Undefined())
	return err
}

func promiseOf(x goja.Value) (*goja.Promise, bool) {
	obj, ok := x.(*goja.Object)
	if !ok || obj.ExportType() != promiseType {
		return nil, false
	}
	p, ok := obj.Export().(*goja.Promise)
	return p, ok
}

func (v *vm) isThenable(x goja.Value) (is bool, err error) {
	obj, ok := x.(*goja.Object)
	if !ok || isOurs(obj) {
		return false, nil
	}
	if ex := v.rt.Try(func() { _, is = goja.AssertFunction(obj.Get("then")) }); ex != nil {
		return false, ex
	}
	return is, nil
}

// await leaves the thread until c has settled, or gives it up: when its hook's context
// has ended it has Limits.Grace to settle all the same.
func (v *vm) await(c *call) {
	c.done = make(chan struct{})
	v.pending[c] = struct{}{}
	err := v.th.Wait(c.done, v.in.Context())
	if err == nil || c.over {
		return
	}
	if v.in.Context().Err() == nil && c.hook.Context().Err() != nil {
		grace, cancel := context.WithTimeout(v.in.Context(), time.Duration(v.in.Host().Limits().Grace)*time.Millisecond)
		old := v.th.SetHook(nil) // its context would end this wait at once
		_ = v.th.Wait(c.done, grace)
		v.th.SetHook(old)
		cancel()
	}
	c.settle(v, nil, err)
}

// saved is what a job's context replaces.
type saved struct {
	cur  *call
	hook *runtime.Hook
}

func (v *vm) push(c *call) {
	v.curs = append(v.curs, saved{v.cur, v.th.CurrentHook()})
	v.cur = c
	if c != nil {
		v.th.SetHook(c.hook)
	} else {
		v.th.SetHook(nil)
	}
}

func (v *vm) pop() {
	s := v.curs[len(v.curs)-1]
	v.curs = v.curs[:len(v.curs)-1]
	v.cur = s.cur
	v.th.SetHook(s.hook)
}

// tracker carries the current call across awaits.
type tracker vm

// Grab implements goja.AsyncContextTracker.
func (t *tracker) Grab() any { return t.cur }

// Resumed implements goja.AsyncContextTracker.
func (t *tracker) Resumed(x any) {
	c, _ := x.(*call)
	(*vm)(t).push(c)
}

// Exited implements goja.AsyncContextTracker.
func (t *tracker) Exited() { (*vm)(t).pop() }

// start runs fn, which may leave the thread, and gives the script a promise of what
// comes out. In a JavaScript frame.
func (v *vm) start(fn func() (runtime.Value, error)) goja.Value {
	c, at := v.cur, v.Where()
	var val runtime.Value
	var err error
	var ended, left bool
	var resolve, reject func(any) error
	settle := func() error {
		if err != nil {
			return reject(v.throwableAt(err, at))
		}
		return resolve(v.result(val))
	}
	v.th.Start(func() {
		val, err = fn()
		ended = true
		if left {
			v.resume(c, settle)
		}
	})
	left = true
	p, res, rej := v.rt.NewPromise()
	resolve, reject = res, rej
	if ended {
		if err := settle(); err != nil {
			panic(err)
		}
	}
	return v.rt.ToValue(p)
}

// rejected is a promise that was rejected with nobody looking, and on whose account.
type rejected struct {
	p *goja.Promise
	c *call
}

// rejection keeps the promises that are rejected and that nobody has looked at.
func (v *vm) rejection(p *goja.Promise, what goja.PromiseRejectionOperation) {
	if what == goja.PromiseRejectionReject {
		v.loose = append(v.loose, rejected{p, v.cur})
		return
	}
	v.looked(p)
}

func (v *vm) looked(p *goja.Promise) {
	v.loose = slices.DeleteFunc(v.loose, func(r rejected) bool { return r.p == p })
}

// reportLoose tells of what is left of them: an observer's is its own later failure.
func (v *vm) reportLoose() {
	loose := v.loose
	v.loose = nil
	for _, r := range loose {
		if v.closed {
			return
		}
		err := v.enter(nil, func() error { return v.errorOfValue(r.p.Result(), nil) })
		if errors.Is(err, runtime.ErrNotAwaited) {
			continue // its listener has failed with it
		}
		if r.c != nil && r.c.late != nil {
			r.c.late(err)
		} else {
			v.report("promise", err)
		}
	}
}
