package runtime

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Verdict is what one listener did in a waterfall. Shape of a record: JSON tags.
type Verdict struct {
	Script     string  `json:"script,omitempty"` // "" for a Go listener
	Line       int     `json:"line,omitempty"`
	Hash       string  `json:"hash,omitempty"`
	Generation int     `json:"generation"`
	Outcome    string  `json:"outcome"` // "abstained", "passed", "failed", "aborted", or the answer's name
	Message    string  `json:"message,omitempty"`
	Ms         float64 `json:"ms"`
}

// Decision is a finished waterfall in which a layer failed or answered something else
// than nothing or the inner result.
type Decision struct {
	Target  Target
	Event   *Event
	Payload any
	Layers  []Verdict // outermost first
	Decided string    // the outcome's name, or "failed"
}

// On subscribes a Go listener: it calls next for the inner layers' result and returns
// its own.
func (w Waterfall[P, R]) On(h *Host, fn func(p P, next func(P) (R, error)) (R, error), opts ...ListenOption) (off func()) {
	return h.addGo(w.Event, fn, opts)
}

// Heard says whether anybody listens.
func (w Waterfall[P, R]) Heard(h *Host, t Target) bool {
	return len(t.generation(h).listeners(w.Event)) > 0
}

// Run nests the listeners around base, the first outermost, and returns what comes out.
// A listener that returns nothing abstains: if it has not called next, it is called for
// it; else the inner result stands. Only an answer skips the inner layers. A throw, or
// a panic of base, is the layer returning that error. When t.Ctx ends, so does the
// dispatch, with its cause. Where the thread may not be given up and anybody listens it
// is ErrCannotWait.
func (w Waterfall[P, R]) Run(h *Host, t Target, p P, base func(P) (R, error)) (R, error) {
	if ls := t.generation(h).listeners(w.Event); len(ls) > 0 {
		return w.run(h, t, ls, p, base)
	}
	err := t.cause()
	var r R
	if err == nil {
		r, err = unheard(base, p)
	}
	if cause := t.cause(); cause != nil {
		err = cause
	}
	if err != nil {
		var zero R
		return zero, err
	}
	return r, nil
}

func unheard[P, R any](base func(P) (R, error), p P) (r R, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = recovered(v)
		}
	}()
	return base(p)
}

func (w Waterfall[P, R]) run(h *Host, t Target, ls []*Listener, p P, base func(P) (R, error)) (R, error) {
	var zero R
	if err := h.await(w.Event); err != nil {
		return zero, err
	}
	defer h.Thread.unnest(false)
	g := t.generation(h).Hold()
	defer g.Release()
	run := &waterfallRun[P, R]{w: w, h: h, t: &t, ls: ls, base: base, gen: g.N}
	r, err := run.inside(0, p)
	if cause := t.cause(); cause != nil {
		return zero, cause // what its layers made of the end is no decision
	}
	if run.changed {
		d := Decision{Target: t, Event: w.Event, Payload: p, Layers: run.layers, Decided: "failed"}
		if err == nil {
			d.Decided = w.rules.Outcome(r)
		}
		h.tell(func(o Observer) { o.Decided(d) })
	}
	return r, err
}

type waterfallRun[P, R any] struct {
	w       Waterfall[P, R]
	h       *Host
	t       *Target
	ls      []*Listener
	base    func(P) (R, error)
	gen     int
	layers  []Verdict
	began   []time.Time // of each layer
	changed bool
}

// inside is layer with what panics in there contained: nobody outside may take half a
// result for one.
func (run *waterfallRun[P, R]) inside(i int, p P) (r R, err error) {
	err = guard(func() (err error) {
		r, err = run.layer(i, p)
		return err
	})
	if err != nil {
		var zero R
		return zero, err
	}
	return r, nil
}

// layer runs the i-th listener and everything inside it.
func (run *waterfallRun[P, R]) layer(i int, p P) (R, error) {
	var zero R
	for ; i < len(run.ls); i++ {
		if err := run.t.cause(); err != nil {
			return zero, err
		}
		l := run.ls[i]
		if !hears(l, run.t, p) || run.w.SkipQuarantined && l.quarantined() != nil || !l.spend(run.h) {
			continue
		}
		if l.Instance == nil {
			return run.goLayer(i, l, p)
		}
		return run.scriptLayer(i, l, p)
	}
	if err := run.t.cause(); err != nil {
		return zero, err
	}
	return run.base(p)
}

func (run *waterfallRun[P, R]) goLayer(i int, l *Listener, p P) (r R, err error) {
	fn := l.gofn.(func(P, func(P) (R, error)) (R, error))
	in := &innerCall[R]{}
	place := run.begin(Verdict{})
	err = run.h.callGo(run.t, func() (err error) {
		r, err = fn(p, func(p P) (R, error) {
			if in.called {
				var zero R
				in.twice = ErrNextTwice
				return zero, ErrNextTwice
			}
			in.called = true
			in.r, in.err = run.inside(i+1, p)
			return in.r, in.err
		})
		return err
	})
	if err == nil && in.twice != nil {
		err = in.twice
		var zero R
		r = zero
	}
	answered := err == nil && !(in.called && in.err == nil && reflect.DeepEqual(r, in.r))
	run.end(place, in, r, answered, err)
	return r, err
}

// begin notes that a layer runs, end what became of it.
func (run *waterfallRun[P, R]) begin(v Verdict) (place int) {
	v.Generation = run.gen
	run.layers = append(run.layers, v)
	run.began = append(run.began, time.Now())
	return len(run.layers) - 1
}

func (run *waterfallRun[P, R]) end(place int, in *innerCall[R], own R, answered bool, err error) {
	v := &run.layers[place]
	v.Ms = float64(time.Since(run.began[place]).Microseconds()) / 1000
	switch {
	case in.passedOn(err):
		v.Outcome = "passed" // the inner layers' failure stays theirs
	case err != nil && run.t.cause() != nil:
		v.Outcome = "aborted" // cut off: nothing that it decided
	case err != nil:
		v.Outcome, v.Message, run.changed = "failed", Message(err), true
	case answered:
		v.Outcome, run.changed = run.w.rules.Outcome(own), true
	case in.called:
		v.Outcome = "passed"
	default:
		v.Outcome = "abstained"
	}
}

// innerCall is one layer's use of next.
type innerCall[R any] struct {
	called bool
	over   bool  // the listener has answered or was given up: next is dead
	twice  error // it has called next again: what it failed with, held by the listener or not
	done   chan struct{}
	r      R
	err    error
	view   Value
}

// passedOn says whether a layer's failure is the inner layers' own.
func (in *innerCall[R]) passedOn(err error) bool {
	return err != nil && in.err != nil && errors.Is(err, in.err)
}

func (run *waterfallRun[P, R]) scriptLayer(i int, l *Listener, p P) (R, error) {
	rules := run.w.rules
	place := run.begin(Verdict{Script: l.Instance.ID, Line: l.Pos.Line, Hash: l.Instance.Hash})
	in := &innerCall[R]{}
	m := Merging[P, R]{Payload: p, Listener: l, Within: func() []*Listener { return run.within(i, p) }, Inner: func() (R, error) {
		if !in.called {
			in.called = true
			in.r, in.err = run.inside(i+1, p)
		}
		return in.r, in.err
	}}
	if m.Err = l.quarantined(); m.Err == nil {
		m.Own, m.Answered, m.Err = run.ask(i, l, p, in)
	} else if rules.Quarantine != nil {
		m.Own, m.Err = rules.Quarantine(l.Instance.ID)
		m.Answered = m.Err == nil
	}
	run.end(place, in, m.Own, m.Answered, m.Err)
	m.Called = in.called
	if in.passedOn(m.Err) {
		m.Err = in.err
	}
	return rules.Merge(m)
}

// within are the listeners inside the i-th that other scripts have for this payload.
func (run *waterfallRun[P, R]) within(i int, p P) (ls []*Listener) {
	for _, l := range run.ls[i+1:] {
		if l.Instance != nil && l.Instance != run.ls[i].Instance && hears(l, run.t, p) {
			ls = append(ls, l)
		}
	}
	return ls
}

// ask calls the listener, waits until it has settled and its next has ended, and reads
// its answer.
func (run *waterfallRun[P, R]) ask(i int, l *Listener, p P, in *innerCall[R]) (own R, answered bool, err error) {
	h, rules := run.h, run.w.rules
	view := ValueOf(p)
	hook := h.newHook(run.t)
	defer hook.End()
	next := &GoFunc{Name: "next", Waits: true, Fn: func(c *Call) (Value, error) {
		if in.called {
			if !in.over {
				in.twice = blame(ErrNextTwice, l.Instance, l.Event.Name, l.Instance.vm.Where())
			}
			return nil, ErrNextTwice
		}
		if in.over {
			return nil, errHookOver
		}
		if len(c.Args) > 1 {
			return nil, fmt.Errorf("next: got %d arguments, want at most 1", len(c.Args))
		}
		pp := p
		if len(c.Args) == 1 && c.Args[0] != nil && !same(c.Args[0], view) {
			if rules.Next == nil {
				return nil, fmt.Errorf("next: %s takes no changes through next; return them instead", l.Event.Name)
			}
			var err error
			if pp, err = rules.Next(p, l, c.Args[0]); err != nil {
				return nil, fmt.Errorf("next: %w", err)
			}
		}
		in.called, in.done = true, make(chan struct{})
		defer close(in.done)
		hook.pause()
		defer hook.unpause()
		in.r, in.err = run.inside(i+1, pp)
		if in.err != nil {
			return nil, in.err
		}
		in.view = rules.View(in.r)
		return in.view, nil
	}}
	n := l.tally.begin()
	v, err := h.call(run.t, l, hook, view, next)
	in.over = true
	if err == nil {
		err = in.twice // catching it does not lift it
	}
	if in.done != nil {
		// Nothing outlives its dispatch: a next that was not awaited ends first.
		select {
		case <-in.done:
		default:
			if werr := h.Thread.Away(func() { <-in.done }); werr != nil && err == nil {
				err = werr
			}
		}
	}
	switch {
	case in.passedOn(err):
		l.tally.neither(n)
		return own, false, err
	case err != nil:
	case abstains(v) || in.called && same(v, in.view):
		return own, false, nil
	default:
		if own, err = rules.Decode(p, l, v); err == nil {
			return own, true, nil
		}
		err = inEvent(fmt.Errorf("the answer does not fit: %w", err), l)
	}
	h.failed(run.t, l, n, err, true)
	return own, false, err
}

// abstains: nothing, or an empty object.
func abstains(v Value) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case *View:
		return !v.list && v.Len() == 0
	}
	return false
}

// same is identity for what has one, and equality for scalars.
func same(a, b Value) bool {
	switch a.(type) {
	case []any, map[string]any:
		return false
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}
