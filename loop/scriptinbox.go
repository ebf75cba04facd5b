package loop

import (
	"fmt"
	"reflect"
	"slices"

	"dshsh/loop/model"
	"dshsh/runtime"
)

// inboxClass is the inbox as scripts see it.
var inboxClass = &runtime.Class{Name: "inbox", Doc: "What waits for the agent. Edits never wake it.", Members: []*runtime.Member{
	{Name: "nextTurn", Doc: "The queued prompts.", Signature: "Message[]",
		Get: func(o runtime.Object) (runtime.Value, error) { return runtime.ValueOf(o.(*Inbox).NextTurn()), nil }},
	{Name: "nextStep", Doc: "What the next step will get.", Signature: "Message[]",
		Get: func(o runtime.Object) (runtime.Value, error) { return runtime.ValueOf(o.(*Inbox).NextStep()), nil }},
	{Name: "hasPending", Doc: "Whether anything waits.", Signature: "boolean",
		Get: func(o runtime.Object) (runtime.Value, error) { return o.(*Inbox).HasPending(), nil }},
	{Name: "append", Doc: "Queues a message behind the others of its list.", Signature: "(target: 'next-turn' | 'next-step', message: string | MessageInput): void",
		Fn: func(c *runtime.Call) (runtime.Value, error) { return nil, inboxInsert(c, (*Inbox).Append) }},
	{Name: "prepend", Doc: "Queues a message in front of the others of its list.", Signature: "(target: 'next-turn' | 'next-step', message: string | MessageInput): void",
		Fn: func(c *runtime.Call) (runtime.Value, error) { return nil, inboxInsert(c, (*Inbox).Prepend) }},
	{Name: "replace", Doc: "Puts a message in the place of a pending one; false when that is not there.", Signature: "(id: string, message: string | MessageInput): boolean",
		Fn: inboxReplace},
	{Name: "remove", Doc: "Takes a pending message out; false when it is not there.", Signature: "(id: string): boolean",
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			var id string
			if err := c.Unpack("id", &id); err != nil {
				return nil, err
			}
			return c.Self.(*Inbox).of(c.Instance).Remove(id)
		}},
	{Name: "splice", Doc: "Removes so many messages from start on and puts others in their place, as arrays do; gives those that it removed.",
		Signature: "(target: 'next-turn' | 'next-step', start: number, deleteCount?: number, messages?: (string | MessageInput)[]): Message[]",
		Fn:        inboxSplice},
	{Name: "clear", Doc: "Removes everything.", Signature: "(): void",
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			if err := c.Unpack(); err != nil {
				return nil, err
			}
			return nil, c.Self.(*Inbox).of(c.Instance).Clear()
		}},
}}

// of is the inbox as a script uses it.
func (b *Inbox) of(in *runtime.Instance) *Inbox { return &Inbox{b.a, in.ID} }

// Class implements runtime.Object.
func (b *Inbox) Class() *runtime.Class { return inboxClass }

// message reads a message that a script puts into the inbox: it is from the script, unless
// it is one that the same edit takes out, and unchanged.
func (b *Inbox) message(c *runtime.Call, v runtime.Value, going []model.Message) (model.Message, error) {
	m, err := scriptMessage(v, c.Instance)
	if err == nil && !slices.ContainsFunc(going, func(g model.Message) bool { return reflect.DeepEqual(g, m) }) {
		m = fromScript(m, c.Instance)
	}
	return m, err
}

func inboxInsert(c *runtime.Call, insert func(*Inbox, string, model.Message) error) error {
	var target string
	var v any
	if err := c.Unpack("target", &target, "message", &v); err != nil {
		return err
	}
	b := c.Self.(*Inbox).of(c.Instance)
	m, err := b.message(c, v, nil)
	if err != nil {
		return fmt.Errorf("%s: for parameter message: %w", c.Name, err)
	}
	return insert(b, target, m)
}

func inboxReplace(c *runtime.Call) (runtime.Value, error) {
	var id string
	var v any
	if err := c.Unpack("id", &id, "message", &v); err != nil {
		return nil, err
	}
	b := c.Self.(*Inbox).of(c.Instance)
	m, err := b.message(c, v, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: for parameter message: %w", c.Name, err)
	}
	return b.Replace(id, m)
}

func inboxSplice(c *runtime.Call) (runtime.Value, error) {
	var target string
	var start, count int
	var items []any
	if err := c.Unpack("target", &target, "start", &start, "deleteCount?", &count, "messages?", &items); err != nil {
		return nil, err
	}
	b := c.Self.(*Inbox).of(c.Instance)
	if target != NextTurn && target != NextStep {
		return nil, fmt.Errorf("%s: unknown inbox %q, want %s or %s", c.Name, target, NextTurn, NextStep)
	}
	going := messagesOf(*b.a.inbox.list(target))
	ms := make([]model.Message, len(items))
	for i, v := range items {
		var err error
		if ms[i], err = b.message(c, v, going); err != nil {
			return nil, fmt.Errorf("%s: for parameter messages: [%d]: %w", c.Name, i, err)
		}
	}
	removed, err := b.Splice(target, start, count, ms...)
	if removed == nil {
		removed = []model.Message{}
	}
	return runtime.ValueOf(removed), err
}
