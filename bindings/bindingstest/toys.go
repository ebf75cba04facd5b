package bindingstest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"dshsh/runtime"
)

// The toy catalogue: one event of every mode, and one for each thing that a payload can
// carry. Immutable.
var (
	// Emit is test/emit.
	Emit = runtime.NewEmit[Note]("test/emit", "A note, observed.", runtime.Sample{})
	// Lazy is test/lazy: its field heavy counts how often it is converted.
	Lazy = runtime.NewEmit[LazyNote]("test/lazy", "A note with a costly field.", runtime.Sample{})
	// Serial is test/serial.
	Serial = runtime.NewSerial[Note]("test/serial", "A note, awaited.", runtime.Sample{})
	// Contained is test/contained: it goes on after a throw.
	Contained = runtime.NewSerial[Note]("test/contained", "A note, awaited; throws are contained.", runtime.Sample{}, runtime.Contained())
	// Parallel is test/parallel.
	Parallel = runtime.NewParallel[Note]("test/parallel", "A note, awaited by all at once.", runtime.Sample{})
	// Live is test/live: live objects and a signal.
	Live = runtime.NewSerial[LivePayload]("test/live", "Something live.", runtime.Sample{})
	// Decide is test/decide: a waterfall that takes nothing through next.
	Decide = runtime.NewWaterfall("test/decide", "A question.", runtime.Sample{}, runtime.Rules[Note, Answer]{
		Outcome: func(a Answer) string { return a.Kind },
	})
	// Tool is test/tool: a waterfall that can be filtered, and takes {arguments} through next.
	Tool = runtime.NewWaterfall("test/tool", "A tool call.", runtime.Sample{}, runtime.Rules[ToolCall, Answer]{
		Outcome: func(a Answer) string { return a.Kind },
		Next: func(p ToolCall, _ *runtime.Listener, v runtime.Value) (ToolCall, error) {
			var change struct {
				Arguments json.RawMessage `json:"arguments"`
			}
			if err := runtime.Decode(v, &change); err != nil {
				return p, err
			}
			p.Arguments = change.Arguments
			return p, nil
		},
	})
	// Rewrite is test/rewrite: a waterfall from note to note.
	Rewrite = runtime.NewWaterfall("test/rewrite", "A note, to be replaced.", runtime.Sample{}, runtime.Rules[Note, Note]{
		Next: func(_ Note, _ *runtime.Listener, v runtime.Value) (n Note, err error) {
			return n, runtime.Decode(v, &n)
		},
	})
)

// Catalogue returns the toy events.
func Catalogue() *runtime.Catalogue {
	return runtime.NewCatalogue(Emit.Event, Lazy.Event, Serial.Event, Contained.Event, Parallel.Event, Live.Event, Decide.Event, Tool.Event, Rewrite.Event)
}

// Note is the plain payload. Immutable once fired.
type Note struct {
	Text string          `json:"text,omitempty"`
	N    int             `json:"n,omitempty"`
	Data json.RawMessage `json:"data,omitempty"` // any JSON
	List []string        `json:"list,omitempty"`
}

// LazyNote has a field that is dear to convert.
type LazyNote struct {
	Text  string `json:"text"`
	Heavy *Heavy `json:"heavy"`
}

// Heavy counts its conversions. Used on the thread.
type Heavy struct{ count int }

// MarshalJSON counts.
func (h *Heavy) MarshalJSON() ([]byte, error) {
	h.count++
	return []byte(`{"weight":1000}`), nil
}

// LivePayload carries live things.
type LivePayload struct {
	Agent  *Toy            `json:"agent"`
	Text   string          `json:"text,omitempty"`
	Signal *runtime.Signal `json:"signal"`
}

// ToolCall is a tool payload.
type ToolCall struct {
	Agent     *Toy            `json:"agent"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// ToolName implements runtime.ToolPayload.
func (c ToolCall) ToolName() string { return c.Name }

// ToolArgument implements runtime.ToolPayload.
func (c ToolCall) ToolArgument(name string) (string, bool) {
	var args map[string]any
	if json.Unmarshal(c.Arguments, &args) != nil {
		return "", false
	}
	s, ok := args[name].(string)
	return s, ok
}

// Answer is what the deciding waterfalls give.
type Answer struct {
	Kind      string          `json:"kind" enum:"allow|deny|ask"`
	Reason    string          `json:"reason,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Toy is a live object with every sort of member. Used on the thread.
type Toy struct {
	Name string

	gate chan struct{} // closed by release
	n    int
}

// Class implements runtime.Object.
func (*Toy) Class() *runtime.Class { return toyClass }

// ErrToy is what a toy's failing methods return; it has the code TOY.
var ErrToy error = toyError{}

type toyError struct{}

func (toyError) Error() string     { return "the toy is broken" }
func (toyError) ErrorCode() string { return "TOY" }

func toy(c *runtime.Call) *Toy { return c.Self.(*Toy) }

var toyClass = &runtime.Class{Name: "toy", Doc: "A live toy.", Members: []*runtime.Member{
	{Name: "id", Get: func(o runtime.Object) (runtime.Value, error) { return o.(*Toy).Name, nil }},
	{Name: "self", Get: func(o runtime.Object) (runtime.Value, error) { return o, nil }},
	{Name: "count", Get: func(o runtime.Object) (runtime.Value, error) { return int64(o.(*Toy).n), nil }},
	{Name: "reader", GetFor: func(_ runtime.Object, in *runtime.Instance) (runtime.Value, error) { return in.Layer.String(), nil }},
	{Name: "broken", Get: func(runtime.Object) (runtime.Value, error) { return nil, fmt.Errorf("toy.broken: %w", ErrToy) }},
	{Name: "bump", Fn: func(c *runtime.Call) (runtime.Value, error) {
		toy(c).n++
		return int64(toy(c).n), c.Unpack()
	}},
	{Name: "greet", Fn: func(c *runtime.Call) (runtime.Value, error) {
		var content string
		opts := struct {
			Loud  bool   `json:"loud,omitempty"`
			Style string `json:"style,omitempty" enum:"plain|fancy"`
			Times int    `json:"times,omitempty"`
		}{}
		if err := c.Unpack("content", &content, "opts?", &opts); err != nil {
			return nil, err
		}
		if opts.Loud {
			content += "!"
		}
		return "hello " + content, nil
	}},
	{Name: "fail", Fn: func(c *runtime.Call) (runtime.Value, error) { return nil, fmt.Errorf("toy.fail: %w", ErrToy) }},
	{Name: "panic", Fn: func(c *runtime.Call) (runtime.Value, error) { panic("toy panics") }},
	{Name: "pause", Waits: true, Doc: "Waits for release.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		if toy(c).gate == nil {
			toy(c).gate = make(chan struct{})
		}
		return "released", c.Instance.Host().Thread.Wait(toy(c).gate)
	}},
	{Name: "release", Fn: func(c *runtime.Call) (runtime.Value, error) {
		if toy(c).gate == nil {
			toy(c).gate = make(chan struct{})
		}
		close(toy(c).gate)
		return nil, nil
	}},
	{Name: "whenIdle", Waits: true, Doc: "Leaves the thread once.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		return "idle", c.Instance.Host().Thread.Away(func() {})
	}},
	{Name: "failLater", Waits: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		if err := c.Instance.Host().Thread.Away(func() {}); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("toy.failLater: %w", ErrToy)
	}},
	{Name: "panicLater", Waits: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		_ = c.Instance.Host().Thread.Away(func() {})
		panic("toy panics later")
	}},
}}

// box is a live object that holds data. Used on the thread.
type box struct {
	m map[string]runtime.Value
}

var boxClass = &runtime.Class{Name: "box", Doc: "Holds data.", Members: []*runtime.Member{
	{Name: "size", Get: func(o runtime.Object) (runtime.Value, error) { return int64(len(o.(*box).m)), nil }},
}}

// Class implements runtime.Object.
func (*box) Class() *runtime.Class { return boxClass }

// Keys implements runtime.Bag.
func (b *box) Keys() []string { return slices.Sorted(maps.Keys(b.m)) }

// Get implements runtime.Bag.
func (b *box) Get(key string) (runtime.Value, bool) { v, ok := b.m[key]; return v, ok }

// Set implements runtime.Bag.
func (b *box) Set(key string, v runtime.Value) error {
	raw, err := runtime.AppendJSON(nil, v, "box."+key)
	if err == nil {
		b.m[key] = runtime.ValueOf(json.RawMessage(raw))
	}
	return err
}

// Delete implements runtime.Bag.
func (b *box) Delete(key string) error { delete(b.m, key); return nil }

// tester is ctx.test. Used on the thread.
type tester struct{ b *bench }

// Class implements runtime.Object.
func (*tester) Class() *runtime.Class { return testerClass }

func of(c *runtime.Call) *bench { return c.Self.(*tester).b }

var testerClass = &runtime.Class{Name: "test", Doc: "What cases need.", Members: []*runtime.Member{
	{Name: "trace", Load: true, Doc: "Adds a line to the trace.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		of(c).addTrace(c.Args)
		return nil, nil
	}},
	{Name: "done", Load: true, Doc: "Lets one `wait` line of fire go on.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		of(c).done <- struct{}{}
		return nil, c.Unpack()
	}},
	{Name: "toy", Load: true, Get: func(o runtime.Object) (runtime.Value, error) { return o.(*tester).b.toy, nil }},
	{Name: "box", Load: true, Get: func(o runtime.Object) (runtime.Value, error) { return o.(*tester).b.box, nil }},
	{Name: "type", Load: true, Doc: "How Go calls the value's type.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		var v runtime.Value
		err := c.Unpack("value?", &v)
		return runtime.TypeName(v), err
	}},
	{Name: "json", Load: true, Doc: "The value as Go writes it.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		var v runtime.Value
		if err := c.Unpack("value?", &v); err != nil {
			return nil, err
		}
		raw, err := runtime.MarshalValue(v)
		return string(raw), err
	}},
	{Name: "same", Load: true, Doc: "Whether Go gets the same thing twice.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		return len(c.Args) == 2 && c.Args[0] == c.Args[1], nil
	}},
	{Name: "data", Load: true, Doc: "Parses a JSON text in Go.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		var text string
		err := c.Unpack("text", &text)
		return runtime.ValueOf(json.RawMessage(text)), err
	}},
	{Name: "echo", Load: true, Doc: "Gives back its argument.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		var v runtime.Value
		return v, c.Unpack("value?", &v)
	}},
	{Name: "function", Load: true, Doc: "A Go function that adds one.", Get: func(o runtime.Object) (runtime.Value, error) {
		return &runtime.GoFunc{Name: "plus", Fn: func(c *runtime.Call) (runtime.Value, error) {
			var n int
			err := c.Unpack("n", &n)
			return int64(n + 1), err
		}}, nil
	}},
	{Name: "heavy", Doc: "How often test/lazy's heavy was converted.", Get: func(o runtime.Object) (runtime.Value, error) {
		return int64(o.(*tester).b.heavy.count), nil
	}},
	{Name: "cancel", Doc: "Cancels the dispatch at hand.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		var why string
		err := c.Unpack("why", &why)
		of(c).cancel(why)
		return nil, err
	}},
	{Name: "yield", Waits: true, Doc: "Leaves the thread and comes back.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		return nil, c.Instance.Host().Thread.Away(func() {})
	}},
	{Name: "emit", Doc: "Fires test/emit {text} at once.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		var text string
		if err := c.Unpack("text", &text); err != nil {
			return nil, err
		}
		Emit.Fire(c.Instance.Host(), runtime.Target{}, Note{Text: text})
		return nil, nil
	}},
	{Name: "serial", Waits: true, Doc: "Runs test/serial {text}.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		var text string
		if err := c.Unpack("text", &text); err != nil {
			return nil, err
		}
		return nil, Serial.Run(c.Instance.Host(), runtime.Target{}, Note{Text: text})
	}},
	{Name: "call", Waits: true, Doc: "Calls a function of the script and awaits it.", Fn: func(c *runtime.Call) (runtime.Value, error) {
		fn, ok := c.Args[0].(runtime.Func)
		if !ok {
			return nil, errors.New("test.call: want a function")
		}
		h := c.Instance.Host()
		return c.Instance.VM().Call(h.Thread.CurrentHook(), fn, c.Args[1:]...)
	}},
	{Name: "is", Doc: "Whether Go finds the toy's error in what fn throws.", Waits: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		var fn runtime.Func
		if err := c.Unpack("fn", &fn); err != nil {
			return nil, err
		}
		_, err := c.Instance.VM().Call(c.Instance.Host().Thread.CurrentHook(), fn)
		return errors.Is(err, ErrToy), nil
	}},
	{Name: "shape", Doc: "What Go reads of what fn throws.", Waits: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		var fn runtime.Func
		if err := c.Unpack("fn", &fn); err != nil {
			return nil, err
		}
		_, err := c.Instance.VM().Call(c.Instance.Host().Thread.CurrentHook(), fn)
		if err == nil {
			return nil, nil
		}
		s := runtime.ShapeOf(err)
		s.Stack, s.Line = nil, 0
		return runtime.ValueOf(s), nil
	}},
}}
