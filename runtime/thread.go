package runtime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
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

	postMu  sync.Mutex // guards posts
	posts   []func()
	pending atomic.Int64 // posted functions that have not begun
	ready   []func()     // posts taken over by the owner; the owner's
	head    int          // of ready: the next one
	posted  chain        // what each of them runs on
	spare   *chain       // of a Do that has ended, for the next; the owner's

	clock clock

	tasks  tasks // goroutines begun by Go, Start and Post
	closed chan struct{}
	once   sync.Once

	// onPanic receives what a recovered goroutine or posted function panicked with.
	// Set before use.
	onPanic func(*PanicError)

	// debug makes misuse a panic: Do from on the thread, on-thread calls from off it.
	// A goroutine id costs microseconds, so only tests set it, before use.
	debug bool
	owner atomic.Uint64 // goroutine id of the owner, kept in debug only
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
	t.tasks.changed.L = &t.tasks.mu
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
	defer t.release()
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
	}()
	t.drain() // a post that came while the thread changed hands was first
	c := t.freshChain()
	t.setCurrent(c)
	fn()
	t.spare = c
	return nil
}

// Go starts a goroutine that enters as Do does. It may be called from on the thread;
// fn then runs some time after the caller has given the thread up, in no order among
// several calls. Where Do would return an error without running fn (ctx ended first, the
// thread is closed), fn does not run and nobody is told.
func (t *Thread) Go(ctx context.Context, fn func()) {
	if !t.tasks.begin() {
		return
	}
	go func() {
		defer t.tasks.end()
		_ = t.Do(ctx, func() { t.contain(fn) })
	}()
}

// Post has fn run on the thread, on an empty stack, where it may not wait. It never
// blocks; posted functions run in the order of their posting, before any later Do and
// before a chain that is away comes back. Whoever gives the thread up or gets it next
// runs them; if it is free, a goroutine does. After Close fn may not run at all.
func (t *Thread) Post(fn func()) {
	t.postMu.Lock()
	t.posts = append(t.posts, fn)
	t.pending.Add(1)
	t.postMu.Unlock()
	select {
	case t.sem <- struct{}{}:
		if !t.tasks.beginDrain() {
			<-t.sem
			return
		}
		go func() {
			defer t.tasks.endDrain()
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
	t.tasks.close()
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
	done := false
	defer func() {
		if !done {
			t.release() // a posted function ended this goroutine (runtime.Goexit)
		}
	}()
	for {
		t.drain()
		t.setCurrent(nil)
		<-t.sem
		if t.pending.Load() == 0 {
			break
		}
		select {
		case t.sem <- struct{}{}:
			continue
		default:
		}
		break
	}
	done = true
}

// drain runs what has been posted. The owner's chain is not current meanwhile.
func (t *Thread) drain() {
	for t.pending.Load() > 0 {
		if t.head == len(t.ready) {
			t.postMu.Lock()
			t.ready, t.posts, t.head = t.posts, t.ready[:0], 0
			t.postMu.Unlock()
		}
		fn := t.ready[t.head]
		t.ready[t.head] = nil
		t.head++
		t.pending.Add(-1)
		t.runPosted(fn)
	}
}

func (t *Thread) runPosted(fn func()) {
	t.posted = chain{noWait: 1}
	t.setCurrent(&t.posted)
	t.contain(fn)
}

// contain runs fn where no caller can be told of its panic.
func (t *Thread) contain(fn func()) {
	defer func() {
		if v := recover(); v != nil {
			t.report(recovered(v))
		}
	}()
	fn()
}

// report tells onPanic. A panic in there has nobody left to be told to.
func (t *Thread) report(p *PanicError) {
	if t.onPanic == nil {
		return
	}
	defer func() { _ = recover() }()
	t.onPanic(p)
}

// freshChain is an empty one: that of the last Do, if it ended in order.
func (t *Thread) freshChain() *chain {
	c := t.spare
	t.spare = nil
	if c == nil {
		return &chain{}
	}
	*c = chain{frames: c.frames[:0]}
	return c
}

func (t *Thread) setCurrent(c *chain) {
	t.cur = c
	if t.debug {
		var id uint64
		if c != nil {
			id = goid()
		}
		t.owner.Store(id)
	}
}

// Assert panics in debug builds when the caller is not on the thread.
func (t *Thread) Assert() {
	if t.debug && !t.onThread() {
		panic("runtime: called off the host thread")
	}
}

func (t *Thread) onThread() bool {
	id := t.owner.Load()
	return id != 0 && id == goid()
}

// Here tells whether the calling goroutine is on a thread, by its stack: entered by Do,
// Start or a post, and not Away. It costs microseconds, so it is for rare calls that
// may come from either side, such as cancel. With several hosts in one process it
// cannot tell their threads apart.
func Here() bool {
	var pcs [128]uintptr
	for skip := 2; ; {
		n := goruntime.Callers(skip, pcs[:])
		frames := goruntime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f goruntime.Frame
			f, more = frames.Next()
			skip++
			switch f.Function {
			case placeAway:
				return false
			case placeDo, placePosted, placeStarted:
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// Where the stack says that the thread was taken and left.
var (
	placeAway    = funcName((*Thread).Away)
	placeDo      = funcName((*Thread).Do)
	placePosted  = funcName((*Thread).runPosted)
	placeStarted = funcName((*Thread).runStarted)
)

func funcName(fn any) string { return goruntime.FuncForPC(reflect.ValueOf(fn).Pointer()).Name() }

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
