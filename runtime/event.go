package runtime

import (
	"fmt"
	"reflect"
)

// Mode is how an event is dispatched.
type Mode string

// The modes. Emit: every listener, at once, nothing awaited, what they return ignored.
// Serial: one after the other, awaited; the first throw ends it. Waterfall: nested, the
// first listener outermost, each with a next. Parallel: all started, all awaited.
const (
	ModeEmit      Mode = "emit"
	ModeSerial    Mode = "serial"
	ModeWaterfall Mode = "waterfall"
	ModeParallel  Mode = "parallel"
)

// Event is a declared event, as data: what typings, documents and ctx.on read. Events
// are package variables made by the declarers below; immutable after init.
type Event struct {
	Name    string
	Mode    Mode
	Payload reflect.Type
	Result  reflect.Type // of a waterfall; else nil
	Doc     string
	Samples Sample

	// Contained says that a serial event goes on after a listener's throw, which is
	// reported instead.
	Contained bool
	// SkipQuarantined says that a quarantined script's listeners are skipped here. Emits
	// always skip them; elsewhere they fail.
	SkipQuarantined bool
}

// Sample is a listener in each language. A sample that does not run fails the tests.
type Sample struct{ JS, Lua string }

// Option adjusts a declaration.
type Option func(*Event)

// Contained makes a serial event go on after a throw.
func Contained() Option { return func(e *Event) { e.Contained = true } }

// SkipQuarantined has quarantined scripts skipped instead of failing the dispatch.
func SkipQuarantined() Option { return func(e *Event) { e.SkipQuarantined = true } }

func declare(name string, mode Mode, payload, result reflect.Type, doc string, s Sample, opts []Option) *Event {
	e := &Event{Name: name, Mode: mode, Payload: payload, Result: result, Doc: doc, Samples: s, SkipQuarantined: mode == ModeEmit}
	for _, o := range opts {
		o(e)
	}
	return e
}

// Filters are the keys that ctx.on's filter may use: "tool", "agent", "args". Found out
// when it is asked for: looking into 40 payloads would be felt at every start.
func (e *Event) Filters() (keys []string) {
	if e.Payload == nil {
		return nil // of the scripts' own
	}
	if e.Payload.Implements(reflect.TypeFor[ToolPayload]()) {
		keys = append(keys, "tool", "args")
	}
	if _, ok := planOf(e.Payload).byName["agent"]; ok {
		keys = append(keys, "agent")
	}
	return keys
}

// ToolPayload is a payload that speaks of a tool call: it can be filtered by the tool's
// name and the text of a top-level argument.
type ToolPayload interface {
	ToolName() string
	ToolArgument(name string) (text string, ok bool)
}

// Emit is a declared emit event with payload P.
type Emit[P any] struct{ *Event }

// Serial is a declared serial event with payload P.
type Serial[P any] struct{ *Event }

// Parallel is a declared parallel event with payload P.
type Parallel[P any] struct{ *Event }

// Waterfall is a declared waterfall event with payload P and result R. The functions
// are set at the declaration and may be nil.
type Waterfall[P, R any] struct {
	*Event
	rules *Rules[P, R]
}

// Rules adapt a waterfall to its event.
type Rules[P, R any] struct {
	// Decode reads a script's answer; the default is the strict Decode into an R.
	Decode func(p P, l *Listener, v Value) (R, error)
	// Next applies what a script gave to next(...) to the payload of the inner layers.
	// Without it next takes nothing but the payload itself.
	Next func(p P, l *Listener, v Value) (P, error)
	// Merge combines a layer's own answer with the inner layers'. The default: own
	// failure, else own answer, else inner.
	Merge func(Merging[P, R]) (R, error)
	// Outcome names an answer in the decision record; the default is "answered".
	Outcome func(R) string
	// View is what a script sees of an R that next gave it; the default is ValueOf.
	View func(R) Value
	// Quarantine is a quarantined script's answer; without it the layer fails.
	Quarantine func(script string) (R, error)
}

// Merging is one layer of a waterfall that has settled.
type Merging[P, R any] struct {
	Payload  P
	Listener *Listener
	Own      R     // its answer, if Answered
	Answered bool  // false: it abstained, passed the inner result on, or failed
	Err      error // it failed
	// Called says that the listener called next, so that Inner has its result at hand.
	Called bool
	// Inner runs the inner layers, once; called again it gives the same.
	Inner func() (R, error)
	// Within are the inner listeners of other scripts that are meant: those that an answer
	// skips where Inner is not called.
	Within func() []*Listener
}

// NewEmit declares an emit event.
func NewEmit[P any](name, doc string, s Sample, opts ...Option) Emit[P] {
	return Emit[P]{declare(name, ModeEmit, reflect.TypeFor[P](), nil, doc, s, opts)}
}

// NewSerial declares a serial event.
func NewSerial[P any](name, doc string, s Sample, opts ...Option) Serial[P] {
	return Serial[P]{declare(name, ModeSerial, reflect.TypeFor[P](), nil, doc, s, opts)}
}

// NewParallel declares a parallel event.
func NewParallel[P any](name, doc string, s Sample, opts ...Option) Parallel[P] {
	return Parallel[P]{declare(name, ModeParallel, reflect.TypeFor[P](), nil, doc, s, opts)}
}

// NewWaterfall declares a waterfall event.
func NewWaterfall[P, R any](name, doc string, s Sample, rules Rules[P, R], opts ...Option) Waterfall[P, R] {
	if rules.Decode == nil {
		rules.Decode = func(_ P, _ *Listener, v Value) (R, error) {
			var r R
			err := Decode(v, &r)
			return r, err
		}
	}
	if rules.Merge == nil {
		rules.Merge = func(m Merging[P, R]) (R, error) {
			if m.Err != nil || m.Answered {
				return m.Own, m.Err
			}
			return m.Inner()
		}
	}
	if rules.Outcome == nil {
		rules.Outcome = func(R) string { return "answered" }
	}
	if rules.View == nil {
		rules.View = func(r R) Value { return ValueOf(r) }
	}
	return Waterfall[P, R]{declare(name, ModeWaterfall, reflect.TypeFor[P](), reflect.TypeFor[R](), doc, s, opts), &rules}
}

// Catalogue is the set of events that ctx.on knows. Immutable.
type Catalogue struct {
	events []*Event
	byName map[string]*Event
	hint   func(name string) string
}

// WithHint says what a name that is no event is instead; "" where there is nothing to
// say. It returns the catalogue. Before use.
func (c *Catalogue) WithHint(hint func(name string) string) *Catalogue {
	c.hint = hint
	return c
}

// NewCatalogue collects declared events; two of one name are a programming error.
func NewCatalogue(events ...*Event) *Catalogue {
	c := &Catalogue{events: events, byName: map[string]*Event{}}
	for _, e := range events {
		if c.byName[e.Name] != nil {
			panic("runtime: event declared twice: " + e.Name)
		}
		c.byName[e.Name] = e
	}
	return c
}

// Events lists the events in the order of their declaration.
func (c *Catalogue) Events() []*Event { return c.events }

// Lookup finds an event; the error names the nearest one.
func (c *Catalogue) Lookup(name string) (*Event, error) {
	if e := c.byName[name]; e != nil {
		return e, nil
	}
	names := make([]string, 0, len(c.events))
	for _, e := range c.events {
		names = append(names, e.Name)
	}
	if c.hint != nil {
		if hint := c.hint(name); hint != "" {
			return nil, fmt.Errorf("unknown event %q: %s", name, hint)
		}
	}
	return nil, fmt.Errorf("unknown event %q%s", name, didYouMean(name, names))
}
