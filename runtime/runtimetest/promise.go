package runtimetest

import (
	"time"

	"dshsh/runtime"
)

// Promise is what a JS function returns when it has not settled. Used on the thread.
type Promise struct {
	vm      *VM
	hook    *runtime.Hook // on whose behalf what follows runs
	settled bool
	v       runtime.Value
	err     error
	after   []func()
}

// pending is a call that waits for a promise.
type pending struct {
	done chan struct{}
	over bool  // settled, failed or given up
	err  error // why it was failed from outside
}

func (w *pending) end(err error) {
	if !w.over {
		w.over, w.err = true, err
		close(w.done)
	}
}

// Promise makes one. settle may be called from anywhere, once.
func (c *Call) Promise() (p *Promise, settle func(runtime.Value, error)) {
	p = c.newPromise()
	return p, func(v runtime.Value, err error) { p.vm.th.Post(func() { p.settle(v, err) }) }
}

func (vm *VM) newPromise() *Promise { return &Promise{vm: vm, hook: vm.th.CurrentHook()} }

// settle enters the VM, so that what follows runs inside it.
func (p *Promise) settle(v runtime.Value, err error) {
	_ = p.vm.enter(func() { p.resolve(v, err) })
}

func (p *Promise) resolve(v runtime.Value, err error) {
	if inner, ok := v.(*Promise); ok && err == nil {
		inner.whenSettled(func() { p.resolve(inner.v, inner.err) })
		return
	}
	if p.settled {
		return
	}
	p.settled, p.v, p.err = true, v, err
	for _, fn := range p.after {
		p.job(fn)
	}
	p.after = nil
}

func (p *Promise) whenSettled(fn func()) {
	if p.settled {
		p.job(fn)
		return
	}
	p.after = append(p.after, fn)
}

// job has fn run when the outermost entry returns, on behalf of the promise's hook.
func (p *Promise) job(fn func()) {
	run := func() {
		old := p.vm.th.SetHook(p.hook)
		defer p.vm.th.SetHook(old)
		fn()
	}
	if p.vm.depth == 0 {
		_ = p.vm.enter(run)
		return
	}
	p.vm.jobs = append(p.vm.jobs, run)
}

// Then goes on with fn, in JavaScript's manner: what it returns is the new promise's.
func (p *Promise) Then(fn func(c *Call, v runtime.Value, err error) (runtime.Value, error)) *Promise {
	q := p.vm.newPromise()
	p.whenSettled(func() { q.resolve(fn(&Call{VM: p.vm}, p.v, p.err)) })
	return q
}

// Await goes on with fn when v has settled, whether it is a Promise (JS) or not (Lua), so
// that one body serves both kinds.
func (c *Call) Await(v runtime.Value, err error, fn func(c *Call, v runtime.Value, err error) (runtime.Value, error)) (runtime.Value, error) {
	if p, ok := v.(*Promise); ok && err == nil {
		return p.Then(fn), nil
	}
	return fn(c, v, err)
}

// run runs what may wait: inline, or in a JS VM started, for a promise.
func (vm *VM) run(waits bool, body func() (runtime.Value, error)) (runtime.Value, error) {
	if !waits || vm.kind == Lua {
		return body()
	}
	p := vm.newPromise()
	vm.th.Start(func() { p.settle(body()) })
	return p, nil
}

// await waits until p has settled. When the hook ends it has Limits.Grace to do so.
func (vm *VM) await(p *Promise) (runtime.Value, error) {
	w := &pending{done: make(chan struct{})}
	vm.waiting[w] = struct{}{}
	defer delete(vm.waiting, w)
	p.whenSettled(func() { w.end(nil) })
	if err := vm.th.Wait(w.done); err != nil {
		grace := time.NewTimer(time.Duration(vm.in.Host().Limits().Grace) * time.Millisecond)
		defer grace.Stop()
		if aerr := vm.th.Away(func() {
			select {
			case <-w.done:
			case <-grace.C:
			}
		}); aerr != nil {
			return nil, aerr
		}
		w.end(err) // given up, unless it has settled meanwhile
	}
	if w.err != nil {
		return nil, w.err
	}
	return p.v, p.err
}

// failWaiting fails the calls whose promises have not settled.
func (vm *VM) failWaiting(err error) {
	for w := range vm.waiting {
		w.end(err)
	}
}
