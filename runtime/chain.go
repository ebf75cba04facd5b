package runtime

import (
	"context"
	"errors"
	"slices"
	"time"
)

// chain is one goroutine's stack of entries. Used by the owner of the thread only.
type chain struct {
	parent *chain        // set while a started chain is attached to who started it
	back   chan struct{} // closed when a started chain ends or first leaves
	frames []*Entry
	noWait int // entries and emits that forbid leaving
	depth  int // nested dispatches
	base   int // of depth, what came from the parent
	hook   *Hook
	meter  *Meter // innermost
}

// Away leaves the thread, runs fn without it and comes back. Where leaving is not
// allowed it returns ErrCannotWait and does not run fn.
func (t *Thread) Away(fn func()) error {
	t.Assert()
	c := t.cur
	if c.noWait > 0 {
		return ErrCannotWait
	}
	c.saveFrames()
	t.clock.switchTo(nil)
	defer t.resume(c) // first, so that a posted function which ends this goroutine finds it balanced
	t.leave(c)
	fn()
	return nil
}

// Wait leaves the thread until ch is closed or yields, the current hook is given up,
// or one of ctxs ends, and then returns that context's cause. The contexts are asked
// before anything is left: a cancelled waiter must not let another chain run first; and
// after the thread has been got back: what was cancelled meanwhile does not go on.
func (t *Thread) Wait(ch <-chan struct{}, ctxs ...context.Context) error {
	t.Assert()
	return t.wait(ch, t.withHook(ctxs))
}

// Sleep waits for d, or less if the current hook or one of ctxs ends.
func (t *Thread) Sleep(d time.Duration, ctxs ...context.Context) error {
	t.Assert()
	if t.cur.noWait > 0 {
		return ErrCannotWait
	}
	ctxs = t.withHook(ctxs)
	if err := causeOf(ctxs); err != nil {
		return err
	}
	ch := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(ch) })
	defer timer.Stop()
	return t.wait(ch, ctxs)
}

func (t *Thread) wait(ch <-chan struct{}, ctxs []context.Context) error {
	if err := causeOf(ctxs); err != nil {
		return err
	}
	select {
	case <-ch:
		return nil
	default:
	}
	var err error
	if aerr := t.Away(func() { err = waitAny(ch, ctxs) }); aerr != nil {
		return aerr
	}
	if err == nil {
		err = causeOf(ctxs) // ended while this chain waited for the thread
	}
	return err
}

// withHook adds the current hook's context to the caller's, whose slice stays as it is.
func (t *Thread) withHook(ctxs []context.Context) []context.Context {
	if h := t.cur.hook; h != nil {
		return append(slices.Clip(ctxs), h.Context())
	}
	return ctxs
}

func causeOf(ctxs []context.Context) error {
	for _, ctx := range ctxs {
		if ctx != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// waitAny blocks until ch yields or a context ends. Three contexts (own, hook, VM) cost
// nothing further; more are merged.
func waitAny(ch <-chan struct{}, ctxs []context.Context) error {
	var done [3]<-chan struct{}
	n := 0
	for _, ctx := range ctxs {
		if ctx == nil || ctx.Done() == nil {
			continue
		}
		if n < len(done) {
			done[n] = ctx.Done()
		}
		n++
	}
	if n > len(done) {
		merged, cancel := context.WithCancel(context.Background())
		defer cancel()
		for _, ctx := range ctxs {
			if ctx != nil {
				defer context.AfterFunc(ctx, cancel)()
			}
		}
		done[0] = merged.Done()
	}
	select {
	case <-ch:
		return nil
	case <-done[0]:
	case <-done[1]:
	case <-done[2]:
	}
	return causeOf(ctxs)
}

// CanWait reports whether the current chain may leave the thread.
func (t *Thread) CanWait() bool { t.Assert(); return t.cur.noWait == 0 }

// Start runs fn at once on a goroutine of its own, as a chain that may wait even where
// the caller may not, and returns when fn ends or first leaves the thread. It is how
// JavaScript calls whatever may wait: control comes back with no frame out of order,
// and fn goes on when the thread is free. The current hook, and while it is attached
// the dispatch depth, go with it.
func (t *Thread) Start(fn func()) {
	t.Assert()
	p := t.cur
	p.saveFrames()
	t.clock.switchTo(nil)
	c := &chain{parent: p, back: make(chan struct{}), hook: p.hook, depth: p.depth, base: p.depth}
	t.tasks.force()
	go t.runStarted(c, fn)
	<-c.back
	if t.debug {
		t.owner.Store(goid())
	}
}

func (t *Thread) runStarted(c *chain, fn func()) {
	defer t.tasks.end()
	t.setCurrent(c)
	defer t.endStarted(c)
	t.contain(fn)
}

func (t *Thread) endStarted(c *chain) {
	if c.parent != nil {
		t.handBack(c)
		return
	}
	t.release()
}

// handBack gives the thread from an attached chain to the one that started it.
func (t *Thread) handBack(c *chain) {
	p := c.parent
	c.parent = nil
	c.depth -= c.base
	c.base = 0
	p.restoreFrames()
	t.cur = p
	t.clock.switchTo(p.meter)
	if t.debug {
		t.owner.Store(0) // until the other goroutine has taken over
	}
	close(c.back)
}

func (t *Thread) leave(c *chain) {
	if c.parent != nil {
		t.handBack(c)
		return
	}
	t.release()
}

func (t *Thread) resume(c *chain) {
	select {
	case t.sem <- struct{}{}:
	default:
		// Waiting for the thread is nobody's fault: it stops the hook's wall clock.
		c.hook.pause()
		t.sem <- struct{}{}
		c.hook.unpause()
	}
	defer func() {
		t.setCurrent(c)
		c.restoreFrames()
		t.clock.switchTo(c.meter)
	}()
	if t.pending.Load() > 0 {
		c.hook.pause()
		t.drain()
		c.hook.unpause()
	}
}

func (c *chain) saveFrames() {
	for i := len(c.frames) - 1; i >= 0; i-- {
		if f := c.frames[i]; f.Save != nil {
			f.Save()
		}
	}
}

func (c *chain) restoreFrames() {
	for _, f := range c.frames {
		if f.Restore != nil {
			f.Restore()
		}
	}
}

// Nested dispatches are capped so that an event that causes itself ends with one
// visible error instead of the stack.
const maxDepth = 32

// ErrTooDeep is what a dispatch nested more than 32 deep fails with.
var ErrTooDeep = errors.New("more than 32 events are nested in each other: a listener causes its own event")

// nest begins a dispatch; atomic forbids waiting until the matching unnest.
func (t *Thread) nest(atomic bool) error {
	c := t.cur
	if c.depth >= maxDepth {
		return ErrTooDeep
	}
	c.depth++
	if atomic {
		c.noWait++
	}
	return nil
}

func (t *Thread) unnest(atomic bool) {
	t.cur.depth--
	if atomic {
		t.cur.noWait--
	}
}

// Atomic runs fn where nothing may wait, as inside an emit.
func (t *Thread) Atomic(fn func()) {
	t.Assert()
	c := t.cur
	c.noWait++
	defer func() { c.noWait-- }()
	fn()
}
