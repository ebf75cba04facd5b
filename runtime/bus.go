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
	late    bool // registered after the top level ran
	gone    bool
	filter  *filter

	fails int  // in a row
	skip  bool // an emit listener that failed too often
}

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
func (l *Listener) hears(t *Target, p any) bool {
	if l.skip || l == t.Except || l.Scope != nil && l.Scope != t.Scope || t.Only != nil && l.Instance != t.Only {
		return false
	}
	return l.filter == nil || l.filter.match(t, p)
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

// spend takes a once listener out before it runs. It reports false for one that has
// already been spent by a nested dispatch.
func (l *Listener) spend(h *Host) bool {
	if !l.once {
		return true
	}
	if l.gone {
		return false
	}
	if l.Instance != nil {
		l.Instance.dropListener(l)
	} else {
		h.dropGo(l)
	}
	return true
}

// ListenOption adjusts a Go listener.
type ListenOption func(*Listener)

// Scoped has the listener hear only one owner's events; it goes with Host.DropScope.
func Scoped(owner any) ListenOption { return func(l *Listener) { l.Scope = owner } }

// Prepended puts the listener first among the Go listeners.
func Prepended() ListenOption { return func(l *Listener) { l.prepend = true } }

// Once removes the listener before it runs.
func Once() ListenOption { return func(l *Listener) { l.once = true } }

func (h *Host) addGo(e *Event, fn any, opts []ListenOption) (off func()) {
	l := &Listener{Event: e, gofn: fn}
	for _, o := range opts {
		o(l)
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

// settled counts a listener's success or failure. A listener that was cut off by the
// end of its turn has done neither.
func (h *Host) settled(t *Target, l *Listener, err error, awaited bool) {
	if err == nil {
		l.fails = 0
		return
	}
	if l.Instance == nil || t.cause() != nil {
		return
	}
	l.fails++
	if l.fails < maxFails {
		return
	}
	if awaited {
		h.quarantine(l.Instance, fmt.Errorf("%s failed %d times in a row, the last time with: %w", l.Event.Name, l.fails, err))
		return
	}
	l.skip = true
	h.report(Failure{Target: *t, Event: l.Event, Listener: l, Instance: l.Instance,
		Err: inEvent(fmt.Errorf("failed %d times in a row and is skipped from now on; `/scripts on %s` wakes it", l.fails, l.Instance.File), l)})
}

func guard(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
	}()
	return fn()
}

// usable refuses a listener whose VM has been replaced or closed since the dispatch
// fixed its list.
func (l *Listener) usable() error {
	in := l.Instance
	if in.state == stateDisposed {
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
	var v Value
	err := guard(func() (err error) {
		v, err = in.vm.Call(hook, l.fn, args...)
		return err
	})
	return v, inEvent(err, l)
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
			h.report(Failure{Target: t, Event: e.Event, Err: err})
		}
	}
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
func (e Emit[P]) fire(h *Host, t *Target, ls []*Listener, p P, contain bool) error {
	if err := h.Thread.nest(true); err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	defer h.Thread.unnest(true)
	g := t.generation(h).Hold()
	defer g.Release()
	var view Value
	var first error
	for _, l := range ls {
		if !l.hears(t, p) || l.Instance != nil && l.Instance.quarantine != nil || !l.spend(h) {
			continue
		}
		var err error
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

// notify runs an emit listener: with no hook, since nobody waits for it.
func (h *Host) notify(t *Target, l *Listener, view Value) error {
	if err := l.usable(); err != nil {
		return nil // gone between the start of the dispatch and its turn: nothing to observe with
	}
	old := h.Thread.SetHook(nil)
	defer h.Thread.SetHook(old)
	tt := *t
	err := guard(func() error {
		return l.Instance.vm.Notify(l.fn, func(err error) {
			err = inEvent(err, l)
			h.report(Failure{Target: tt, Event: l.Event, Listener: l, Instance: l.Instance, Err: err})
			h.settled(&tt, l, err, false)
		}, view)
	})
	err = inEvent(err, l)
	h.settled(t, l, err, false)
	return err
}

// On subscribes a Go listener.
func (e Serial[P]) On(h *Host, fn func(P) error, opts ...ListenOption) (off func()) {
	return h.addGo(e.Event, fn, opts)
}

// Run calls the listeners one after the other and waits for each. The first throw ends
// the dispatch and is returned, unless the event is Contained. When t.Ctx ends, the
// dispatch ends with its cause, whatever the listener made of it.
func (e Serial[P]) Run(h *Host, t Target, p P) error {
	ls := t.generation(h).listeners(e.Event)
	if len(ls) == 0 {
		return nil
	}
	if err := h.Thread.nest(false); err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	defer h.Thread.unnest(false)
	g := t.generation(h).Hold()
	defer g.Release()
	var view Value
	for _, l := range ls {
		if err := t.cause(); err != nil {
			return err
		}
		if !l.hears(&t, p) || !l.spend(h) {
			continue
		}
		var err error
		switch {
		case l.Instance == nil:
			err = guard(func() error { return l.gofn.(func(P) error)(p) })
		case l.Instance.quarantine != nil:
			if e.SkipQuarantined {
				continue
			}
			err = l.Instance.quarantine
		default:
			if view == nil {
				view = ValueOf(p)
			}
			hook := h.newHook(&t)
			_, err = h.call(&t, l, hook, view)
			hook.End()
			h.settled(&t, l, err, true)
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

// Run starts every listener, waits for all and returns their errors joined.
func (e Parallel[P]) Run(h *Host, t Target, p P) error {
	ls := t.generation(h).listeners(e.Event)
	if len(ls) == 0 {
		return nil
	}
	if !h.Thread.CanWait() {
		return ErrCannotWait
	}
	if err := h.Thread.nest(false); err != nil {
		return fmt.Errorf("%s: %w", e.Name, err)
	}
	defer h.Thread.unnest(false)
	g := t.generation(h).Hold()
	defer g.Release()
	view := ValueOf(p)
	var errs []error
	left, done := 1, make(chan struct{})
	finish := func() {
		if left--; left == 0 {
			close(done)
		}
	}
	for _, l := range ls {
		if !l.hears(&t, p) || l.Instance != nil && l.Instance.quarantine != nil || !l.spend(h) {
			continue
		}
		left++
		h.Thread.Start(func() {
			defer finish()
			var err error
			if l.Instance == nil {
				err = guard(func() error { return l.gofn.(func(P) error)(p) })
			} else {
				hook := h.newHook(&t)
				_, err = h.call(&t, l, hook, view)
				hook.End()
				h.settled(&t, l, err, true)
			}
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	finish()
	if err := h.Thread.Away(func() { <-done }); err != nil {
		return err
	}
	return errors.Join(errs...)
}
