package runtime

import (
	"cmp"
	"context"
)

// Signal is an abort signal as scripts see it: {aborted, reason, throwIfAborted(),
// onabort(fn)}. Used on the thread. Fire is called (posted) by whoever ended the
// context.
type Signal struct {
	ctx    context.Context
	reason func(error) Value
	subs   []signalSub
	fired  bool
}

type signalSub struct {
	in    *Instance
	epoch int
	fn    Func
	gofn  func()
}

// NewSignal makes the signal of ctx. reason turns the context's cause into what scripts
// read; nil gives the message.
func NewSignal(ctx context.Context, reason func(error) Value) *Signal {
	if reason == nil {
		reason = func(err error) Value { return Message(err) }
	}
	return &Signal{ctx: ctx, reason: reason}
}

// Class implements Object.
func (*Signal) Class() *Class { return signalClass }

// Aborted reports whether the context has ended.
func (s *Signal) Aborted() bool { return s.ctx.Err() != nil }

// Context is the context that the signal shows.
func (s *Signal) Context() context.Context { return s.ctx }

// Reason is what scripts read as the reason; nil before the abort.
func (s *Signal) Reason() Value {
	if s.ctx.Err() == nil {
		return nil
	}
	return s.reason(context.Cause(s.ctx))
}

// OnAbort calls fn, on the thread, when the signal fires; at once if it has.
func (s *Signal) OnAbort(fn func()) {
	if s.fired {
		fn()
		return
	}
	s.subs = append(s.subs, signalSub{gofn: fn})
}

// Fire calls the abort listeners, once. One that fails does not stop the others: a
// script's is reported, a panic of Go goes on to the caller when all have been called.
func (s *Signal) Fire() {
	if s.fired || s.ctx.Err() == nil {
		return
	}
	s.fired = true
	subs := s.subs
	s.subs = nil
	var failed error
	for _, sub := range subs {
		err := guard(func() error { sub.run(s); return nil })
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		panic(failed)
	}
}

func (sub signalSub) run(s *Signal) {
	if sub.gofn != nil {
		sub.gofn()
		return
	}
	if in := sub.in; in.state < stateClosing && in.epoch == sub.epoch {
		in.notify("onabort", sub.fn, s.Reason())
	}
}

var signalClass = &Class{Name: "AbortSignal", Doc: "Says whether what is going on has been cancelled.", Members: []*Member{
	{Name: "aborted", Doc: "Whether the abort has happened.", Signature: "boolean",
		Get: func(o Object) (Value, error) { return o.(*Signal).Aborted(), nil }},
	{Name: "reason", Doc: "The cause of the abort.", Signature: "unknown",
		Get: func(o Object) (Value, error) { return o.(*Signal).Reason(), nil }},
	{Name: "throwIfAborted", Doc: "Throws the cause if the abort has happened.", Signature: "(): void",
		Fn: func(c *Call) (Value, error) {
			if s := c.Self.(*Signal); s.Aborted() {
				return nil, context.Cause(s.ctx)
			}
			return nil, c.Unpack()
		}},
	{Name: "onabort", Doc: "Calls fn(reason) when the abort happens.", Signature: "(fn: (reason: unknown) => void): void",
		Fn: func(c *Call) (Value, error) {
			var fn Func
			if err := c.Unpack("fn", &fn); err != nil {
				return nil, err
			}
			s := c.Self.(*Signal)
			sub := signalSub{in: c.Instance, epoch: c.Instance.epoch, fn: fn}
			if s.fired {
				sub.run(s)
			} else {
				s.subs = append(s.subs, sub)
			}
			return nil, nil
		}},
}}
