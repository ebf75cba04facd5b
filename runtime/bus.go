package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Listener is one subscription. Used on the thread; the fields given at its making do
// not change.
type Listener struct {
	Event    *Event
	Instance *Instance // nil for a Go listener
	Pos      Position  // where the script subscribed
	Scope    any       // hears only this owner's events; nil = all

	fn      Func
	gofn    any // func(P) error, or func(P, func(P) (R, error)) (R, error)
	prepend bool
	once    bool
	gone    bool // unsubscribed or spent; a dispatch in progress still calls it
	spent   bool // a once listener that has been called
	shape   *FilterShape
	filter  *filter // compiled from shape

	tally *tally // outlives the VM: a rebuild gives it to the listener's successor
}

// tally counts a listener's failures in a row. Calls overlap, and an emit listener may
// fail long after it has returned, so calls are numbered: first to last is the row, and
// a failure belongs to it when its number is next to it.
type tally struct {
	calls       int // begun
	first, last int
	fails       int // in the row; less than its length where a call told nothing

	skip bool // an emit listener that failed too often
}

func (c *tally) begin() int { c.calls++; return c.calls }

// failed notes that call n failed and returns how many did in a row.
func (c *tally) failed(n int) int {
	switch {
	case n > c.last+1:
		c.first, c.last, c.fails = n, n, 0
	case n == c.last+1:
		c.last = n
	case n == c.first-1:
		c.first = n
	case n < c.first:
		return 0 // of an older row, which a success has ended
	}
	c.fails++
	return c.fails
}

// neither notes that call n tells nothing: it does not end the row.
func (c *tally) neither(n int) {
	if n == c.last+1 {
		c.last = n
	}
}

func (c *tally) reset() { c.first, c.last, c.fails, c.skip = c.calls+1, c.calls, 0, false }

// maxFails in a row quarantine a script whose listener decides or is awaited, and
// silence an emit listener (DESIGN section 3, error path 7).
const maxFails = 5

// Target says whom a dispatch concerns. The zero value is the whole host.
type Target struct {
	Gen     *Generation     // whose listeners hear it; nil = the newest
	Scope   any             // the owner: reaches listeners scoped to it, and is who waits
	AgentID string          // for filter.agent
	Ctx     context.Context // ends what is awaited; nil = never
	Turn    int
	Step    int
	CallID  string
	Only    *Instance     // only this script's listeners; nil = all
	Except  *Listener     // not this one: it caused what is told
	Limit   time.Duration // wall time of each awaited listener; 0 = Limits.Wall
}

func (t *Target) generation(h *Host) *Generation {
	if t.Gen != nil {
		return t.Gen
	}
	return h.current
}

func (t *Target) cause() error {
	if t.Ctx != nil && t.Ctx.Err() != nil {
		return context.Cause(t.Ctx)
	}
	return nil
}

// hears says whether a listener is meant, its filter included.
func hears[P any](l *Listener, t *Target, p P) bool {
	return l.meant(t) && (l.filter == nil || l.filter.match(t, p))
}

func (l *Listener) meant(t *Target) bool {
	return !l.tally.skip && l != t.Except && (l.Scope == nil || l.Scope == t.Scope) && (t.Only == nil || l.Instance == t.Only)
}

func (f *filter) match(t *Target, p any) bool {
	if f.agent != "" && f.agent != t.AgentID {
		return false
	}
	tp, _ := p.(ToolPayload)
	if len(f.tool) > 0 {
		found := false
		for _, rx := range f.tool {
			found = found || tp != nil && rx.MatchString(tp.ToolName())
		}
		if !found {
			return false
		}
	}
	for name, rx := range f.args {
		if tp == nil {
			return false
		}
		if text, ok := tp.ToolArgument(name); !ok || !rx.MatchString(text) {
			return false
		}
	}
	return true
}

// spend takes a once listener out before it runs. It reports false for one that a nested
// dispatch has spent. In quarantine it does not run, so it stays.
func (l *Listener) spend(h *Host) bool {
	switch {
	case !l.once:
		return true
	case l.spent:
		return false
	case l.Instance == nil:
		l.spent = true
		h.dropGo(l)
	case l.Instance.quarantine == nil:
		l.spent = true
		l.Instance.dropListener(l)
	}
	return true
}

// ListenOption adjusts a Go listener.
type ListenOption func(*Listener)

// Ender is an owner that says when it has ended. Registering for it is then refused: with
// an error in scripts, with a panic in Go, where it is a mistake of the program.
type Ender interface{ Ended() error }

func ended(owner any) error {
	if e, ok := owner.(Ender); ok {
		return e.Ended()
	}
	return nil
}

// Scoped has the listener hear only one owner's events; it goes with Host.DropScope. The
// owner may be an Ender.
func Scoped(owner any) ListenOption { return func(l *Listener) { l.Scope = owner } }

// Prepended puts the listener first among the Go listeners.
func Prepended() ListenOption { return func(l *Listener) { l.prepend = true } }

// Once removes the listener before it runs.
func Once() ListenOption { return func(l *Listener) { l.once = true } }

func (h *Host) addGo(e *Event, fn any, opts []ListenOption) (off func()) {
	l := &Listener{Event: e, gofn: fn, tally: &tally{}}
	for _, o := range opts {
		o(l)
	}
	if err := ended(l.Scope); err != nil {
		panic(fmt.Errorf("listening to %s: %w", e.Name, err))
	}
	old := h.golisteners[e]
	if l.prepend {
		h.golisteners[e] = append([]*Listener{l}, old...)
	} else {
		h.golisteners[e] = append(old[:len(old):len(old)], l)
	}
	h.changed()
	return func() { h.dropGo(l) }
}

func (h *Host) dropGo(l *Listener) {
	if l.gone {
		return
	}
	l.gone = true
	var keep []*Listener
	for _, x := range h.golisteners[l.Event] {
		if x != l {
			keep = append(keep, x)
		}
	}
	h.golisteners[l.Event] = keep
	h.changed()
}

// failed counts the failure of a listener's call n. One that was cut off, by the end of
// its turn or of its script, has neither failed nor succeeded.
func (h *Host) failed(t *Target, l *Listener, n int, err error, awaited bool) {
	if t.cause() != nil || errors.Is(err, ErrUnloaded) {
		l.tally.neither(n)
		return
	}
	fails := l.tally.failed(n)
	if fails < maxFails || l.tally.skip {
		return
	}
	if awaited {
		h.quarantine(l.Instance, fmt.Errorf("%s failed %d times in a row, the last time with: %w", l.Event.Name, fails, err))
		return
	}
	l.tally.skip = true
	h.report(Failure{Target: *t, Event: l.Event, Listener: l, Instance: l.Instance,
		Err: inEvent(fmt.Errorf("failed %d times in a row and is skipped from now on; `/scripts on %s` wakes it", fails, l.Instance.File), l)})
}

func guard(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
	}()
	return fn()
}

// quarantined is what a quarantined script's listener fails with, or nil.
func (l *Listener) quarantined() error {
	if l.Instance == nil || l.Instance.quarantine == nil {
		return nil
	}
	q := l.Instance.quarantine
	return &ScriptError{Script: l.Instance.ID, Event: l.Event.Name, Pos: l.Pos, Name: "Error", Message: q.Error(), Err: q}
}

// usable refuses a listener whose VM has been replaced or closed since the dispatch
// fixed its list.
func (l *Listener) usable() error {
	in := l.Instance
	if in.state >= stateClosing {
		return ErrUnloaded
	}
	if l.fn.VM() != in.vm {
		return ErrLost
	}
	return nil
}

// call runs an awaited script listener and waits for it.
func (h *Host) call(t *Target, l *Listener, hook *Hook, args ...Value) (Value, error) {
	in := l.Instance
	if err := l.usable(); err != nil {
		return nil, inEvent(err, l)
	}
	in.hold()
	defer in.release()
	old := h.Thread.SetHook(hook)
	defer h.Thread.SetHook(old)
	h.awaits(hook, l)
	defer h.settled(hook)
	var v Value
	err := guard(func() (err error) {
		v, err = in.vm.Call(hook, l.fn, args...)
		if err == nil {
			err = hook.NotAwaited(in)
		}
		return err
	})
	return v, inEvent(err, l)
}

// ask runs an awaited listener of a script under a hook of its own and counts how it
// went.
func (h *Host) ask(t *Target, l *Listener, args ...Value) error {
	hook := h.newHook(t)
	defer hook.End()
	n := l.tally.begin()
	_, err := h.call(t, l, hook, args...)
	if returned(err) {
		err = nil // nobody looks at it
	}
	if err != nil {
		h.failed(t, l, n, err, true)
	}
	return err
}

// callGo runs an awaited Go listener. It has a hook like a script's, so that what could
// wait for ever says so; its time is not limited, since nothing could stop it.
func (h *Host) callGo(t *Target, fn func() error) error {
	hook := NewHook(t.Ctx, t.Scope, 0)
	defer hook.End()
	old := h.Thread.SetHook(hook)
	defer h.Thread.SetHook(old)
	return guard(fn)
}

// await begins a dispatch whose listeners may wait; Thread.unnest ends it.
func (h *Host) await(e *Event) error {
	err := ErrCannotWait
	if h.Thread.CanWait() {
		err = h.Thread.nest(false)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	return nil
}

func (h *Host) newHook(t *Target) *Hook {
	limit := t.Limit
	if limit == 0 {
		limit = time.Duration(h.limits.Wall) * time.Millisecond
	}
	return NewHook(t.Ctx, t.Scope, limit)
}

// On subscribes a Go listener. What it returns is a throw. Go listeners are the
// outermost layer. On the thread.
func (e Emit[P]) On(h *Host, fn func(P) error, opts ...ListenOption) (off func()) {
	return h.addGo(e.Event, fn, opts)
}

// Heard says whether anybody listens, so that a costly payload is made only then.
func (e Emit[P]) Heard(h *Host, t Target) bool { return len(t.generation(h).listeners(e.Event)) > 0 }

// Fire calls every listener, one after the other, without waiting. Failures are
// contained and reported.
func (e Emit[P]) Fire(h *Host, t Target, p P) {
	if ls := t.generation(h).listeners(e.Event); len(ls) > 0 {
		if err := e.fire(h, &t, ls, p, true); err != nil {
			f := Failure{Target: t, Event: e.Event, Err: h.tooDeep(err, e.Event)}
			if h.emitting != nil {
				f.Instance = h.emitting.Instance
			}
			h.report(f)
		}
	}
}

// tooDeep blames the listener that has fired one event too many, if it is a script's.
func (h *Host) tooDeep(err error, e *Event) error {
	l := h.emitting
	if l == nil || l.Instance == nil {
		return err
	}
	pos := l.Instance.vm.Where()
	if pos.Line == 0 {
		pos = l.Pos
	}
	return blame(ErrTooDeep, l.Instance, e.Name, pos)
}

// FireErr calls every listener and returns the first throw, for the events whose
// producer it concerns; later throws are contained, as is what happens after a listener
// has returned.
func (e Emit[P]) FireErr(h *Host, t Target, p P) error {
	ls := t.generation(h).listeners(e.Event)
	if len(ls) == 0 {
		return nil
	}
	return e.fire(h, &t, ls, p, false)
}

// fire returns the first throw where it is not contained, and a dispatch error always.
// Nobody waits for the listeners: they run without a hook.
func (e Emit[P]) fire(h *Host, t *Target, ls []*Listener, p P, contain bool) error {
	if err := h.Thread.nest(true); err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	defer h.Thread.unnest(true)
	g := t.generation(h).Hold()
	defer g.Release()
	old := h.Thread.SetHook(nil)
	defer h.Thread.SetHook(old)
	outer := h.emitting
	defer func() { h.emitting = outer }()
	var view Value
	var first error
	for _, l := range ls {
		if !hears(l, t, p) || l.Instance != nil && l.Instance.quarantine != nil || !l.spend(h) {
			continue
		}
		var err error
		h.emitting = l
		if l.Instance == nil {
			err = guard(func() error { return l.gofn.(func(P) error)(p) })
		} else {
			if view == nil {
				view = ValueOf(p)
			}
			err = h.notify(t, l, view)
		}
		switch {
		case err == nil:
		case contain || first != nil:
			h.report(Failure{Target: *t, Event: e.Event, Listener: l, Instance: l.Instance, Err: err})
		default:
			first = err
		}
	}
	return first
}

// notify runs an emit listener of a script.
func (h *Host) notify(t *Target, l *Listener, view Value) error {
	if l.usable() != nil {
		return nil // gone between the start of the dispatch and its turn: nothing to observe with
	}
	tt, n := *t, l.tally.begin()
	err := guard(func() error {
		return l.Instance.vm.Notify(l.fn, func(err error) {
			err = inEvent(err, l)
			h.report(Failure{Target: tt, Event: l.Event, Listener: l, Instance: l.Instance, Err: err})
			h.failed(&tt, l, n, err, false)
		}, view)
	})
	if err != nil {
		err = inEvent(err, l)
		h.failed(&tt, l, n, err, false)
	}
	return err
}

// On subscribes a Go listener.
func (e Serial[P]) On(h *Host, fn func(P) error, opts ...ListenOption) (off func()) {
	return h.addGo(e.Event, fn, opts)
}

// Run calls the listeners one after the other and waits for each. The first throw ends
// the dispatch and is returned, unless the event is Contained. When t.Ctx ends, the
// dispatch ends with its cause, whatever the listener made of it. Where the thread may
// not be given up and anybody listens it is ErrCannotWait.
func (e Serial[P]) Run(h *Host, t Target, p P) error {
	ls := t.generation(h).listeners(e.Event)
	if len(ls) == 0 {
		return t.cause()
	}
	if err := h.await(e.Event); err != nil {
		return err
	}
	defer h.Thread.unnest(false)
	g := t.generation(h).Hold()
	defer g.Release()
	var view Value
	for _, l := range ls {
		if err := t.cause(); err != nil {
			return err
		}
		if !hears(l, &t, p) {
			continue
		}
		q := l.quarantined()
		if q != nil && e.SkipQuarantined || !l.spend(h) {
			continue
		}
		var err error
		switch {
		case l.Instance == nil:
			err = h.callGo(&t, func() error { return l.gofn.(func(P) error)(p) })
		case q != nil:
			err = q
		default:
			if view == nil {
				view = ValueOf(p)
			}
			err = h.ask(&t, l, view)
		}
		if cause := t.cause(); cause != nil {
			return cause
		}
		if err == nil {
			continue
		}
		if !e.Contained {
			return err
		}
		h.report(Failure{Target: t, Event: e.Event, Listener: l, Instance: l.Instance, Err: err})
	}
	return nil
}

// On subscribes a Go listener.
func (e Parallel[P]) On(h *Host, fn func(P) error, opts ...ListenOption) (off func()) {
	return h.addGo(e.Event, fn, opts)
}

// Run starts every listener, waits for all and returns their errors joined, in the order
// of the listeners.
func (e Parallel[P]) Run(h *Host, t Target, p P) error {
	ls := t.generation(h).listeners(e.Event)
	if len(ls) == 0 {
		return nil
	}
	if err := h.await(e.Event); err != nil {
		return err
	}
	defer h.Thread.unnest(false)
	g := t.generation(h).Hold()
	defer g.Release()
	view := ValueOf(p)
	errs := make([]error, len(ls))
	left, done := 1, make(chan struct{})
	finish := func() {
		if left--; left == 0 {
			close(done)
		}
	}
	for i, l := range ls {
		if !hears(l, &t, p) || l.Instance != nil && l.Instance.quarantine != nil || !l.spend(h) {
			continue
		}
		left++
		h.Thread.Start(func() {
			defer finish()
			if l.Instance == nil {
				errs[i] = h.callGo(&t, func() error { return l.gofn.(func(P) error)(p) })
			} else {
				errs[i] = h.ask(&t, l, view)
			}
		})
	}
	if finish(); left > 0 {
		if err := h.Thread.Away(func() { <-done }); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
