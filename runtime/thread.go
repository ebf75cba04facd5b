package runtime

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"time"
)

// ErrCannotWait is what Away, Wait and everything built on them return where the
// thread may not be given up: below a JavaScript frame, inside an emit, in a posted
// function. It is returned before anything has been started.
var ErrCannotWait = errors.New("cannot wait here: use ctx.spawn")

// ErrThreadClosed is returned by Do after Close.
var ErrThreadClosed = errors.New("host thread is closed")

// Thread is the one logical thread of a host: a lock with an owner. Agent state, the
// inbox, event dispatch and every VM are touched only by whoever owns it. Ownership
// belongs to a chain, the stack of VM entries of one goroutine; the thread knows its
// current chain, so code on it needs no token.
//
// Do, Go, Post, Cancel-like marks and Close may be called from any goroutine. Away,
// Wait, Sleep, Start, Enter, Exit and the hook accessors are called on the thread.
type Thread struct {
	sem chan struct{} // capacity 1; holding its token is owning the thread
	cur *chain        // the current chain; touched by the owner only

	postMu sync.Mutex // guards posts
	posts  []func()

	clock clock

	wg     sync.WaitGroup // goroutines begun by Go, Start and Post
	closed chan struct{}
	once   sync.Once

	// onPanic receives what a recovered goroutine or posted function panicked with.
	// Set before use.
	onPanic func(*PanicError)

	// debug makes misuse a panic: Do from on the thread, on-thread calls from off it.
	// A goroutine id costs microseconds, so only tests set it, before use.
	debug bool
	owner uint64 // goroutine id of the owner, kept in debug only
}

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

// ThreadOptions configures NewThread. The zero value is usable.
type ThreadOptions struct {
	// OnPanic is told of every panic recovered where no caller can be told: a posted
	// function, a goroutine begun by Go. It is called on the thread.
	OnPanic func(*PanicError)
	// OnStuck is called once, from the watchdog's goroutine and not on the thread, when
	// an entry has not come back StuckAfter past its deadline: native work that no
	// interrupt reaches. who is Meter.Who.
	OnStuck func(who string)
	// StuckAfter defaults to 5 s.
	StuckAfter time.Duration
	// Debug makes misuse of the thread a panic. For tests.
	Debug bool
}

// NewThread returns a free thread.
func NewThread(o ThreadOptions) *Thread {
	t := &Thread{sem: make(chan struct{}, 1), closed: make(chan struct{}), onPanic: o.OnPanic, debug: o.Debug}
	t.clock.onStuck = o.OnStuck
	t.clock.stuckAfter = o.StuckAfter
	if t.clock.stuckAfter <= 0 {
		t.clock.stuckAfter = 5 * time.Second
	}
	return t
}

// PanicError is a panic that was recovered on the thread.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("internal error: %v", p.Value) }

// Unwrap gives the panicked value if it was an error.
func (p *PanicError) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

func recovered(v any) *PanicError { return &PanicError{Value: v, Stack: debug.Stack()} }

// Do enters from outside and runs fn on a fresh chain, first come, first served. ctx
// bounds only the wait for the thread. A panic in fn is returned as *PanicError. Do
// from on the thread would wait for itself: it is a programming error, which Debug
// detects.
func (t *Thread) Do(ctx context.Context, fn func()) (err error) {
	if t.debug && t.onThread() {
		panic("runtime: Thread.Do from on the thread")
	}
	if err := t.acquire(ctx); err != nil {
		return err
	}
	t.setCurrent(&chain{})
	defer t.release()
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
	}()
	fn()
	return nil
}

// Go starts a goroutine that enters as Do does. It may be called from on the thread;
// fn then runs some time after the caller has given the thread up.
func (t *Thread) Go(ctx context.Context, fn func()) {
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
		err := t.Do(ctx, fn)
		var p *PanicError
		if errors.As(err, &p) {
			t.report(p)
		}
	}()
}

// Post has fn run on the thread, on an empty stack, where it may not wait. It never
// blocks; posted functions run in the order of their posting, before any later Do.
// Whoever gives the thread up next runs them; if it is free, a goroutine does.
func (t *Thread) Post(fn func()) {
	t.postMu.Lock()
	t.posts = append(t.posts, fn)
	t.postMu.Unlock()
	select {
	case t.sem <- struct{}{}:
		t.wg.Add(1)
		go func() {
			defer t.wg.Done()
			t.release()
		}()
	default:
	}
}

// Close refuses later Do calls and waits for the goroutines that the thread began. It
// is called off the thread, when everything that those goroutines wait for has been
// cancelled.
func (t *Thread) Close() {
	t.once.Do(func() { close(t.closed) })
	t.wg.Wait()
	t.clock.stop()
}

func (t *Thread) acquire(ctx context.Context) error {
	select {
	case t.sem <- struct{}{}:
	default:
		var done <-chan struct{}
		if ctx != nil {
			done = ctx.Done()
		}
		select {
		case t.sem <- struct{}{}:
		case <-done:
			return fmt.Errorf("waiting for the host thread: %w", context.Cause(ctx))
		}
	}
	select {
	case <-t.closed:
		t.release()
		return ErrThreadClosed
	default:
		return nil
	}
}

// release drains the posted functions and gives the thread up. The look at the queue
// after the token is back closes the gap in which a Post saw the thread still held.
func (t *Thread) release() {
	for {
		t.drain()
		t.setCurrent(nil)
		<-t.sem
		if !t.hasPosts() {
			return
		}
		select {
		case t.sem <- struct{}{}:
		default:
			return
		}
	}
}

func (t *Thread) hasPosts() bool {
	t.postMu.Lock()
	defer t.postMu.Unlock()
	return len(t.posts) > 0
}

func (t *Thread) drain() {
	for {
		t.postMu.Lock()
		batch := t.posts
		t.posts = nil
		t.postMu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, fn := range batch {
			t.runPosted(fn)
		}
	}
}

func (t *Thread) runPosted(fn func()) {
	t.setCurrent(&chain{noWait: 1})
	defer func() {
		if v := recover(); v != nil {
			t.report(recovered(v))
		}
	}()
	fn()
}

func (t *Thread) report(p *PanicError) {
	if t.onPanic != nil {
		t.onPanic(p)
	}
}

func (t *Thread) setCurrent(c *chain) {
	t.cur = c
	if t.debug {
		t.owner = 0
		if c != nil {
			t.owner = goid()
		}
	}
}

// Away leaves the thread, runs fn without it and comes back. Where leaving is not
// allowed it returns ErrCannotWait and does not run fn.
func (t *Thread) Away(fn func()) error {
	t.Assert()
	c := t.cur
	if c.noWait > 0 {
		return ErrCannotWait
	}
	t.leave(c)
	defer t.resume(c)
	fn()
	return nil
}

// Wait leaves the thread until ch is closed or yields, the current hook is given up,
// or one of ctxs ends, and then returns that context's cause. The contexts are asked
// before anything is left: a cancelled waiter must not let another chain run first.
func (t *Thread) Wait(ch <-chan struct{}, ctxs ...context.Context) error {
	t.Assert()
	if t.cur.hook != nil {
		ctxs = append(ctxs, t.cur.hook.ctx)
	}
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
	return err
}

// Sleep waits for d, or less if the current hook or one of ctxs ends.
func (t *Thread) Sleep(d time.Duration, ctxs ...context.Context) error {
	t.Assert()
	if t.cur.noWait > 0 {
		return ErrCannotWait
	}
	if t.cur.hook != nil {
		ctxs = append(ctxs, t.cur.hook.ctx)
	}
	if err := causeOf(ctxs); err != nil {
		return err
	}
	ch := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(ch) })
	defer timer.Stop()
	return t.Wait(ch, ctxs...)
}

func causeOf(ctxs []context.Context) error {
	for _, ctx := range ctxs {
		if ctx != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// waitAny blocks until ch yields or a context ends. Three contexts are enough for
// every caller (own, hook, VM); more would be dropped, so it refuses them loudly.
func waitAny(ch <-chan struct{}, ctxs []context.Context) error {
	var done [3]<-chan struct{}
	n := 0
	for _, ctx := range ctxs {
		if ctx == nil || ctx.Done() == nil {
			continue
		}
		if n == len(done) {
			panic("runtime: Wait takes at most three contexts")
		}
		done[n] = ctx.Done()
		n++
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
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
		t.setCurrent(c)
		defer t.endStarted(c)
		defer func() {
			if v := recover(); v != nil {
				t.report(recovered(v))
			}
		}()
		fn()
	}()
	<-c.back
	if t.debug {
		t.owner = goid()
	}
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
	close(c.back)
}

func (t *Thread) leave(c *chain) {
	c.saveFrames()
	t.clock.switchTo(nil)
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
	t.setCurrent(c)
	c.restoreFrames()
	t.clock.switchTo(c.meter)
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

// Assert panics in debug builds when the caller is not on the thread.
func (t *Thread) Assert() {
	if t.debug && !t.onThread() {
		panic("runtime: called off the host thread")
	}
}

func (t *Thread) onThread() bool { return t.owner != 0 && t.owner == goid() }

// Here tells whether the calling goroutine is on a thread, by its stack: entered by Do,
// Start or a post, and not Away. It costs microseconds, so it is for rare calls that
// may come from either side, such as cancel. With several hosts in one process it
// cannot tell their threads apart.
func Here() bool {
	pcs := make([]uintptr, 256)
	frames := goruntime.CallersFrames(pcs[:goruntime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		switch f.Function {
		case "dshsh/runtime.(*Thread).Away":
			return false
		case "dshsh/runtime.(*Thread).Do", "dshsh/runtime.(*Thread).runPosted", "dshsh/runtime.(*Thread).Start.func1":
			return true
		}
		if !more {
			return false
		}
	}
}

// goid reads the goroutine's number from its stack header. It costs microseconds.
func goid() uint64 {
	var buf [40]byte
	n := goruntime.Stack(buf[:], false)
	var id uint64
	for _, b := range buf[len("goroutine "):n] {
		if b < '0' || b > '9' {
			break
		}
		id = id*10 + uint64(b-'0')
	}
	return id
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
