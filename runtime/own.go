package runtime

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Scripts have events of their own, for each other: named my/..., emitted with ctx.emit,
// with a JSON value as the payload. They need no declaration.

// OwnPrefix begins the names of scripts' own events.
const OwnPrefix = "my/"

var ownName = regexp.MustCompile(`^my(/[A-Za-z0-9._-]+)+$`)

// Own is an event of the scripts' own, which a program may hear, and fire, as well. The
// payload is a JSON value.
func (h *Host) Own(name string) (Emit[Value], error) {
	switch {
	case !strings.HasPrefix(name, OwnPrefix):
		if h.catalogue.byName[name] != nil {
			return Emit[Value]{}, fmt.Errorf("%q is not for scripts to emit: the name of an event of their own begins with my/", name)
		}
		return Emit[Value]{}, fmt.Errorf("bad event name %q: the name of a script's own event begins with my/", name)
	case !ownName.MatchString(name) || len(name) > 100:
		return Emit[Value]{}, fmt.Errorf("bad event name %q: want my/NAME, of letters, digits, dots, dashes and slashes, 100 in all at most", name)
	}
	e := h.own[name]
	if e == nil {
		e = &Event{Name: name, Mode: ModeEmit, SkipQuarantined: true, Doc: "An event of the scripts' own."}
		if h.own == nil {
			h.own = map[string]*Event{}
		}
		h.own[name] = e
	}
	return Emit[Value]{e}, nil
}

// eventNamed is what ctx.on subscribes to.
func (h *Host) eventNamed(name string) (*Event, error) {
	if !strings.HasPrefix(name, OwnPrefix) {
		return h.catalogue.Lookup(name)
	}
	e, err := h.Own(name)
	return e.Event, err
}

// Holder is an owner that holds a generation: what happens on its behalf is told to that
// one's scripts.
type Holder interface{ Generation() *Generation }

// ctxEmit tells the listeners that hear what happens to the script's owner, if it is one
// through agent.ctx, or else those for all.
func ctxEmit(c *Call) (Value, error) {
	var name string
	var payload Value
	if err := c.Unpack("event", &name, "payload?", &payload); err != nil {
		return nil, err
	}
	h := c.Instance.host
	raw, err := AppendJSON(nil, payload, "payload")
	if err != nil {
		return nil, fmt.Errorf("ctx.emit: %w", err)
	}
	e, err := h.Own(name)
	if err != nil {
		return nil, fmt.Errorf("ctx.emit: %w", err)
	}
	x := c.Self.(*Ctx)
	t := Target{Scope: x.scope, Gen: x.in.generation(x.scope)}
	ls := t.generation(h).listeners(e.Event)
	if len(ls) == 0 {
		return nil, nil
	}
	if err := e.fire(h, &t, ls, ValueOf(json.RawMessage(raw)), true); err != nil {
		return nil, fmt.Errorf("ctx.emit: %w", err)
	}
	return nil, nil
}

// generation is the one whose scripts hear what the script tells: that of the owner on
// whose behalf it runs, or the newest, or the last that still has the script.
func (in *Instance) generation(scope any) *Generation {
	h := in.host
	for _, owner := range []any{scope, h.Thread.CurrentHook().Owner()} {
		if o, ok := owner.(Holder); ok && o.Generation() != nil && o.Generation().Contains(in) {
			return o.Generation()
		}
	}
	if h.current.Contains(in) {
		return h.current
	}
	var newest *Generation
	for g := range h.generations {
		if slices.Contains(g.Instances, in) && (newest == nil || g.N > newest.N) {
			newest = g
		}
	}
	return newest
}
