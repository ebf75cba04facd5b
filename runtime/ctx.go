package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Ctx is the `ctx` object of one script, or the same restricted to one owner as
// `agent.ctx`. Used on the thread.
type Ctx struct {
	in    *Instance
	scope any
}

// Class implements Object.
func (c *Ctx) Class() *Class { return c.in.host.ctxClass }

// Instance is the script.
func (c *Ctx) Instance() *Instance { return c.in }

// Scope is the owner that registrations are restricted to, or nil.
func (c *Ctx) Scope() any { return c.scope }

// ListenOptions are ctx.on's second argument.
type ListenOptions struct {
	Prepend bool         `json:"prepend,omitempty"`
	Once    bool         `json:"once,omitempty"`
	Filter  *FilterShape `json:"filter,omitempty"`
}

// FilterShape is ctx.on's filter, matched in Go before a VM is entered.
type FilterShape struct {
	Tool  Globs             `json:"tool,omitempty"`
	Agent string            `json:"agent,omitempty"`
	Args  map[string]string `json:"args,omitempty"` // argument name -> RE2
}

// Globs is one pattern or a list of them; * stands for any run of characters.
type Globs []string

// newCtxClass is ctx: what every host offers, then what the embedder adds.
func newCtxClass(more []*Member) *Class {
	return &Class{Name: "ctx", Doc: "What a script can do.", Members: append([]*Member{
		{Name: "on", Load: true, Doc: "Subscribes to an event. Returns a function that unsubscribes.",
			Signature: "(event: string, opts?: ListenOptions, fn: Function): () => void", Fn: ctxOn},
		{Name: "emit", Doc: "Fires an event of the scripts' own, named my/...; the payload is a JSON value.", Signature: "(event: `my/${string}`, payload?: any): void", Fn: ctxEmit},
		{Name: "ui", Doc: "The person at the prompt.", Signature: "UI", Get: func(Object) (Value, error) { return theUI, nil }},
		{Name: "effect", Load: true, Doc: "Runs fn when the script comes into force; the function that it returns is run when the script goes.",
			Signature: "(fn: () => void | (() => void)): void", Fn: ctxEffect},
		{Name: "log", Load: true, Doc: "Shows a line, with the script's name.", Signature: "(...values: unknown[]): void", Fn: ctxLog},
		{Name: "now", Load: true, Doc: "The host's time in milliseconds since 1970.", Signature: "(): number",
			Fn: func(c *Call) (Value, error) { return c.Instance.host.now().UnixMilli(), c.Unpack() }},
		{Name: "sleep", Waits: true, Doc: "Waits for so many milliseconds.", Signature: "(ms: number): Promise<void>", Fn: ctxSleep},
		{Name: "after", Load: true, Doc: "Runs fn once, ms milliseconds from now. Returns a function that cancels it.",
			Signature: "(ms: number, fn: () => void): () => void", Fn: ctxAfter},
		{Name: "spawn", Load: true, Doc: "Runs fn on its own: it may wait even where the caller may not.", Signature: "(fn: () => void): void", Fn: ctxSpawn},
		needMember,
	}, more...)}
}

func ctxOn(c *Call) (Value, error) {
	x := c.Self.(*Ctx)
	args := c.Args
	var name string
	var opts ListenOptions
	var fn Func
	var err error
	if len(args) > 2 {
		err = c.Unpack("event", &name, "opts?", &opts, "fn", &fn)
	} else {
		err = c.Unpack("event", &name, "fn", &fn)
	}
	if err != nil {
		return nil, err
	}
	e, err := x.in.host.eventNamed(name)
	if err != nil {
		return nil, fmt.Errorf("ctx.on: %w", err)
	}
	l := &Listener{Event: e, Instance: x.in, fn: fn, Pos: c.Where, Scope: x.scope, prepend: opts.Prepend, once: opts.Once, shape: opts.Filter}
	if opts.Filter != nil {
		if l.filter, err = compileFilter(e, opts.Filter); err != nil {
			return nil, err
		}
	}
	l.tally = x.in.newTally(l.Scope, e)
	x.in.listeners = append(slices.Clip(x.in.listeners), l)
	if x.in.state == stateLoading {
		x.in.topListeners = append(x.in.topListeners, l)
	}
	x.in.host.changed()
	return remover("off", func() { x.in.dropListener(l) }), nil
}

// remover is a function for scripts that undoes something, once.
func remover(name string, fn func()) *GoFunc {
	return &GoFunc{Name: name, Fn: func(c *Call) (Value, error) {
		if fn != nil {
			fn()
			fn = nil
		}
		return nil, nil
	}}
}

func (in *Instance) dropListener(l *Listener) {
	l.gone = true
	keep := in.listeners[:0:0]
	for _, x := range in.listeners {
		if x != l {
			keep = append(keep, x)
		}
	}
	in.listeners = keep
	in.host.changed()
}

func ctxEffect(c *Call) (Value, error) {
	var fn Func
	if err := c.Unpack("fn", &fn); err != nil {
		return nil, err
	}
	in, epoch := c.Instance, c.Instance.epoch
	in.Spawn("effect", func(h *Hook) error {
		if in.epoch != epoch {
			return nil
		}
		v, err := in.vm.Call(h, fn)
		if err != nil {
			return err
		}
		undo, ok := v.(Func)
		if v != nil && !ok {
			return fmt.Errorf("ctx.effect: got %s, want a function that undoes it, or nothing", TypeName(v))
		}
		if !ok {
			return nil
		}
		if in.epoch == epoch {
			in.undo = append(in.undo, func() { in.notify("effect", undo) })
		}
		return nil
	})
	return nil, nil
}

func ctxLog(c *Call) (Value, error) {
	parts := make([]string, len(c.Args))
	for i, a := range c.Args {
		parts[i] = Display(a)
	}
	c.Instance.Log("log", strings.Join(parts, " "))
	return nil, nil
}

// Display is how a value is printed: strings as they are, the rest as JSON, in which
// what has no JSON form stands in brackets, such as "[agent]".
func Display(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return "null"
	case Func, *GoFunc:
		return "[function]"
	case Object:
		return "[" + v.Class().Name + "]"
	}
	raw, err := writer{loose: true}.value(nil, v, 0)
	if err != nil {
		return "[" + err.Error() + "]"
	}
	return string(raw)
}

func millis(ms float64) time.Duration {
	const most = float64(24 * time.Hour / time.Millisecond)
	if !(ms > 0) { // NaN too
		return 0
	}
	return time.Duration(min(ms, most) * float64(time.Millisecond))
}

func ctxSleep(c *Call) (Value, error) {
	var ms float64
	if err := c.Unpack("ms", &ms); err != nil {
		return nil, err
	}
	return nil, c.Instance.host.Thread.Sleep(millis(ms), c.Instance.ctx)
}

func ctxAfter(c *Call) (Value, error) {
	var ms float64
	var fn Func
	if err := c.Unpack("ms", &ms, "fn", &fn); err != nil {
		return nil, err
	}
	in, epoch := c.Instance, c.Instance.epoch
	if err := in.tooMany(len(in.timers), "timers"); err != nil {
		return nil, fmt.Errorf("ctx.after: %w", err)
	}
	return remover("cancel", in.After(millis(ms), "timer", func(h *Hook) error {
		if in.epoch != epoch {
			return nil
		}
		_, err := in.vm.Call(h, fn)
		return err
	})), nil
}

func ctxSpawn(c *Call) (Value, error) {
	var fn Func
	if err := c.Unpack("fn", &fn); err != nil {
		return nil, err
	}
	in, epoch := c.Instance, c.Instance.epoch
	if err := in.tooMany(in.pending, "spawned functions"); err != nil {
		return nil, fmt.Errorf("ctx.spawn: %w", err)
	}
	in.Spawn("spawn", func(h *Hook) error {
		if in.epoch != epoch {
			return nil
		}
		_, err := in.vm.Call(h, fn)
		return err
	})
	return nil, nil
}

// filter is a compiled FilterShape. Immutable.
type filter struct {
	tool  []*regexp.Regexp
	agent string
	args  map[string]*regexp.Regexp
}

func compileFilter(e *Event, s *FilterShape) (*filter, error) {
	f := &filter{agent: s.Agent}
	bad := func(key string) error {
		return fmt.Errorf("ctx.on: %s cannot be filtered by %q (it can be by %s)", e.Name, key, orNothing(e.Filters()))
	}
	if s.Agent != "" && !slices.Contains(e.Filters(), "agent") {
		return nil, bad("agent")
	}
	if len(s.Tool) > 0 && !slices.Contains(e.Filters(), "tool") {
		return nil, bad("tool")
	}
	if len(s.Args) > 0 && !slices.Contains(e.Filters(), "args") {
		return nil, bad("args")
	}
	for _, g := range s.Tool {
		f.tool = append(f.tool, regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(g), `\*`, ".*")+"$"))
	}
	for name, re := range s.Args {
		rx, err := regexp.Compile(re)
		if err != nil {
			return nil, fmt.Errorf("ctx.on: filter.args.%s: %w", name, err)
		}
		if f.args == nil {
			f.args = map[string]*regexp.Regexp{}
		}
		f.args[name] = rx
	}
	return f, nil
}

func orNothing(keys []string) string {
	if len(keys) == 0 {
		return "nothing"
	}
	return strings.Join(keys, ", ")
}

// UnmarshalJSON takes one pattern or a list.
func (g *Globs) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*g = Globs{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return errors.New("want a string or a list of strings")
	}
	*g = many
	return nil
}

// ToolPattern is one tool name of a listener's filter, as the script wrote it.
type ToolPattern struct {
	Text string
	rx   *regexp.Regexp
}

// Matches says whether a tool of that name is meant.
func (p ToolPattern) Matches(name string) bool { return p.rx.MatchString(name) }

// FilterTools are the tool names that the listener's filter asks for; none = all tools.
func (l *Listener) FilterTools() []ToolPattern {
	if l.filter == nil {
		return nil
	}
	var out []ToolPattern
	for i, rx := range l.filter.tool {
		out = append(out, ToolPattern{l.shape.Tool[i], rx})
	}
	return out
}
