package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Hook is one awaited call of a listener. It travels with the chain, into Start and,
// by the JavaScript binding, across awaits, so that whatever the listener calls knows
// on whose behalf it runs. Methods are called on the thread unless they say otherwise;
// a nil *Hook is valid and stands for "nobody waits": emit listeners, timers, commands
// and spawned functions run with it.
type Hook struct {
	owner  any   // who waits for this listener, such as an agent; nil = nobody
	origin *Hook // of a spawned function or a timer: on whose account it runs, if on another's

	// Most listeners answer without having waited: the context, and the timer of the
	// clock, are made when somebody asks for them.
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  bool
	asking []*question // put to the person and not answered
	wall   wallClock
}

// question is one that a listener waits for, or should.
type question struct {
	name string   // of the call: "ui.confirm"
	pos  Position // where it was put
}

// NewHook returns a hook that ends with ctx, or when its wall time limit is used up (0
// = none). owner is whoever waits for the listener, compared by ==.
func NewHook(ctx context.Context, owner any, limit time.Duration) *Hook {
	if ctx == nil {
		ctx = context.Background()
	}
	h := &Hook{owner: owner, parent: ctx}
	if limit > 0 {
		h.wall.limit, h.wall.left, h.wall.since = limit, limit, time.Now()
	}
	return h
}

// Owner is who waits for the listener, or nil.
func (h *Hook) Owner() any {
	if h == nil {
		return nil
	}
	return h.owner
}

// Context ends when the listener is given up; its cause says why.
func (h *Hook) Context() context.Context {
	if h == nil {
		return context.Background()
	}
	if h.ctx == nil {
		h.ctx, h.cancel = context.WithCancelCause(h.parent)
		if h.ended {
			h.cancel(errHookOver)
		} else {
			h.wall.start(h.expire)
		}
	}
	return h.ctx
}

func (h *Hook) expire() {
	h.cancel(fmt.Errorf("%w: no answer in %v", ErrDeadline, h.wall.limit))
}

// Cause is why the listener has been given up, or nil: context.Cause of its context,
// which it does not make for that.
func (h *Hook) Cause() error {
	switch {
	case h == nil:
		return nil
	case h.ctx == nil && h.ended:
		return errHookOver
	case h.ctx == nil && h.parent.Err() != nil:
		return context.Cause(h.parent)
	case h.ctx == nil && !h.wall.over():
		return nil
	}
	return context.Cause(h.Context())
}

// End releases the hook's clock and context. What still waits on it ends.
func (h *Hook) End() {
	if h == nil {
		return
	}
	h.ended = true
	h.wall.stop()
	if h.ctx != nil {
		h.cancel(errHookOver)
	}
}

// NotAwaited withdraws what the function of in still asks the person now that it has
// returned: one that did not wait for the answer has decided without it, so it has
// failed, with what this returns (it wraps ErrNotAwaited). nil when nothing is open.
func (h *Hook) NotAwaited(in *Instance) error {
	if h == nil || len(h.asking) == 0 {
		return nil
	}
	q := h.asking[0]
	err := &ScriptError{Script: in.ID, Pos: q.pos, Name: "Error", Err: ErrNotAwaited,
		Message: fmt.Sprintf("%s was not awaited: write await ctx.%[1]s(...)", q.name)}
	if h.Cause() == nil {
		h.Context()
		h.cancel(err)
	}
	return err
}

// asks notes a question; the returned function that it is over.
func (h *Hook) asks(c *Call) (over func()) {
	if h == nil {
		return func() {}
	}
	q := &question{c.Name, c.Where}
	h.asking = append(h.asking, q)
	return func() { h.asking = slices.DeleteFunc(h.asking, func(x *question) bool { return x == q }) }
}

// root is on whose account h runs.
func (h *Hook) root() *Hook {
	if h != nil && h.origin != nil {
		return h.origin
	}
	return h
}

// over says that nobody waits for the listener any more.
func (h *Hook) over() bool { return h == nil || h.Cause() != nil }

// Pause stops the wall clock while the listener is inside next(), ctx.ui or whenIdle.
// Calls nest.
func (h *Hook) Pause() { h.pause() }

// Unpause undoes one Pause.
func (h *Hook) Unpause() { h.unpause() }

func (h *Hook) pause() {
	if h != nil {
		h.wall.pause()
	}
}

func (h *Hook) unpause() {
	if h != nil {
		h.wall.unpause()
	}
}

// wallClock is a stoppable countdown. The zero value counts nothing.
type wallClock struct {
	limit time.Duration // 0 = none; set before use

	mu     sync.Mutex // guards all below; the timer fires on its own goroutine
	left   time.Duration
	since  time.Time
	paused int
	timer  *time.Timer
	expire func() // once started: what happens at the end
}

// start has expire called when the time is used up, at once if it is already.
func (w *wallClock) start(expire func()) {
	if w.limit == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire = expire
	if w.paused == 0 {
		w.charge()
		w.arm()
	}
	if w.left <= 0 {
		expire()
	}
}

// over says that the time is used up.
func (w *wallClock) over() bool {
	if w.limit == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused == 0 {
		w.charge()
	}
	return w.left <= 0
}

func (w *wallClock) charge() {
	now := time.Now()
	w.left -= now.Sub(w.since)
	w.since = now
}

func (w *wallClock) arm() {
	if w.timer == nil {
		w.timer = time.AfterFunc(max(w.left, 0), w.expire)
		return
	}
	w.timer.Reset(max(w.left, 0))
}

func (w *wallClock) pause() {
	if w.limit == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused++; w.paused == 1 {
		w.charge()
		w.halt()
	}
}

func (w *wallClock) unpause() {
	if w.limit == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused--; w.paused == 0 {
		w.since = time.Now()
		if w.expire != nil {
			w.arm()
		}
	}
}

func (w *wallClock) stop() {
	if w.limit == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = 1 << 20 // never restarts
	w.halt()
}

func (w *wallClock) halt() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// CurrentHook is the hook on whose behalf the current chain runs, or nil.
func (t *Thread) CurrentHook() *Hook { t.Assert(); return t.cur.hook }

// SetHook makes h the current chain's hook and returns the one before.
func (t *Thread) SetHook(h *Hook) *Hook {
	t.Assert()
	old := t.cur.hook
	t.cur.hook = h
	return old
}

// CycleError is a wait that could never end: a listener waits for something that, in
// the end, waits for that very listener.
type CycleError struct {
	// Path names who waits for whom, from the owner of the listener back to itself: "a",
	// "b", "a".
	Path []string
}

func (e *CycleError) Error() string {
	if len(e.Path) == 2 {
		return fmt.Sprintf("this would wait for ever: %s is waiting for this listener", e.Path[0])
	}
	return "this would wait for ever: " + strings.Join(e.Path, " waits for ")
}

// waits is the graph of whenIdle calls made inside hooks: owner -> its waits that have
// not ended. One hook can have several, when a script does not await them one by one.
// Used on the thread.
type waits map[any]map[*wait]struct{}

type wait struct{ target any }

// WaitFor runs until, which blocks until target is idle, unless that could never end
// (then *CycleError, at once). Inside a hook the edge owner -> target stands until it
// returns and the hook's wall clock is stopped; without a hook waiting is free. name
// gives what a person calls an owner.
func (h *Host) WaitFor(target any, name func(any) string, until func() error) error {
	hook := h.Thread.CurrentHook()
	if hook == nil || hook.owner == nil {
		return until()
	}
	if path := h.waits.path(target, hook.owner); path != nil {
		err := &CycleError{Path: []string{name(hook.owner)}}
		for _, o := range path {
			err.Path = append(err.Path, name(o))
		}
		return err
	}
	owned := h.waits[hook.owner]
	if owned == nil {
		owned = map[*wait]struct{}{}
		h.waits[hook.owner] = owned
	}
	edge := &wait{target}
	owned[edge] = struct{}{}
	hook.pause()
	defer func() {
		hook.unpause()
		delete(owned, edge)
		if len(owned) == 0 {
			delete(h.waits, hook.owner)
		}
	}()
	return until()
}

// path finds who waits for whom from `from` to `to`; nil when there is no way.
func (w waits) path(from, to any) []any {
	seen := map[any]bool{}
	var walk func(at any, way []any) []any
	walk = func(at any, way []any) []any {
		way = append(way, at)
		if at == to {
			return way
		}
		if seen[at] {
			return nil
		}
		seen[at] = true
		for next := range w[at] {
			if p := walk(next.target, way); p != nil {
				return p
			}
		}
		return nil
	}
	return walk(from, nil)
}
