package runtime

import (
	"errors"
	"fmt"
	"time"
)

// Verdict is what one listener did in a waterfall. Shape of a record: JSON tags.
type Verdict struct {
	Script     string  `json:"script,omitempty"` // "" for a Go listener
	Line       int     `json:"line,omitempty"`
	Hash       string  `json:"hash,omitempty"`
	Generation int     `json:"generation"`
	Outcome    string  `json:"outcome"` // "abstained", "passed", "failed", or the answer's name
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

// Run nests the listeners around base, the first outermost, and returns what comes out.
// A listener that returns nothing abstains: if it has not called next, it is called for
// it; else the inner result stands. Only an answer skips the inner layers. A throw is
// the layer returning that error. When t.Ctx ends, so does the dispatch, with its cause.
func (w Waterfall[P, R]) Run(h *Host, t Target, p P, base func(P) (R, error)) (R, error) {
	ls := t.generation(h).listeners(w.Event)
	if len(ls) == 0 {
		return base(p)
	}
	var zero R
	if err := h.Thread.nest(false); err != nil {
		return zero, fmt.Errorf("%s: %w", w.Name, err)
	}
	defer h.Thread.unnest(false)
	g := t.generation(h).Hold()
	defer g.Release()
	run := &waterfallRun[P, R]{w: w, h: h, t: &t, ls: ls, base: base, gen: g.N}
	r, err := run.layer(0, p)
	if cause := t.cause(); cause != nil {
		r, err = zero, cause
	}
	if run.changed {
		d := Decision{Target: t, Event: w.Event, Payload: p, Layers: run.layers, Decided: "failed"}
		if err == nil {
			d.Decided = w.rules.Outcome(r)
		}
		if h.observer != nil {
			h.observer.Decided(d)
		}
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
	changed bool
}

// layer runs the i-th listener and everything inside it.
func (run *waterfallRun[P, R]) layer(i int, p P) (R, error) {
	var zero R
	for ; i < len(run.ls); i++ {
		if err := run.t.cause(); err != nil {
			return zero, err
		}
		l := run.ls[i]
		if !l.hears(run.t, p) || !l.spend(run.h) {
			continue
		}
		if l.Instance == nil {
			return run.goLayer(i, l, p)
		}
		if l.Instance.quarantine != nil && run.w.SkipQuarantined {
			continue
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
	called := false
	err = guard(func() (err error) {
		r, err = fn(p, func(p P) (R, error) {
			if called {
				var zero R
				return zero, ErrNextTwice
			}
			called = true
			return run.layer(i+1, p)
		})
		return err
	})
	return r, err
}

// innerCall is one layer's use of next.
type innerCall[R any] struct {
	called bool
	over   bool // the listener has answered or was given up: next is dead
	done   chan struct{}
	r      R
	err    error
	view   Value
}

func (run *waterfallRun[P, R]) scriptLayer(i int, l *Listener, p P) (R, error) {
	rules := run.w.rules
	place := len(run.layers)
	run.layers = append(run.layers, Verdict{Script: l.Instance.ID, Line: l.Pos.Line, Hash: l.Instance.Hash, Generation: run.gen})
	start := time.Now()
	in := &innerCall[R]{}
	inner := func() (R, error) {
		if !in.called {
			in.called = true
			in.r, in.err = run.layer(i+1, p)
		}
		return in.r, in.err
	}

	var own R
	var answered bool
	var ownErr error
	if q := l.Instance.quarantine; q != nil {
		ownErr = inEvent(q, l)
		if rules.Quarantine != nil {
			if own, ownErr = rules.Quarantine(l.Instance.ID); ownErr == nil {
				answered = true
			}
		}
	} else {
		own, answered, ownErr = run.ask(i, l, p, in)
	}
	outcome := "abstained"
	switch {
	case ownErr != nil && in.err != nil && errors.Is(ownErr, in.err):
		// The inner layers' failure, passed on: it stays theirs.
		ownErr, outcome = in.err, "passed"
	case ownErr != nil:
		outcome, run.changed = "failed", true
		run.layers[place].Message = Message(ownErr)
	case answered:
		outcome, run.changed = rules.Outcome(own), true
	case in.called:
		outcome = "passed"
	}
	run.layers[place].Outcome = outcome
	run.layers[place].Ms = float64(time.Since(start).Microseconds()) / 1000
	return rules.Merge(Merging[P, R]{Payload: p, Listener: l, Own: own, Answered: answered, Err: ownErr, Inner: inner})
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
		in.r, in.err = run.layer(i+1, pp)
		if in.err != nil {
			return nil, in.err
		}
		in.view = rules.View(in.r)
		return in.view, nil
	}}
	v, err := h.call(run.t, l, hook, view, next)
	in.over = true
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
	passedOn := err != nil && in.err != nil && errors.Is(err, in.err)
	if !passedOn {
		defer func() { h.settled(run.t, l, err, true) }()
	}
	if err != nil || abstains(v) || in.called && same(v, in.view) {
		return own, false, err
	}
	own, err = rules.Decode(p, l, v)
	if err != nil {
		return own, false, inEvent(fmt.Errorf("the answer does not fit: %w", err), l)
	}
	return own, true, nil
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
