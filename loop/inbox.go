package loop

import (
	"fmt"
	"slices"

	"dshsh/loop/model"
	"dshsh/runtime"
)

// inbox is what waits for the agent: two ordered lists, a fold of the agent/inbox/spliced
// records. Used on the host thread.
type inbox struct {
	turn, step []pending
}

// pending is a message that waits. n orders arrivals over both lists, so that a cancel
// from another goroutine clears what was there when it was called and nothing younger.
type pending struct {
	model.Message
	n uint64
}

func (b *inbox) list(target string) *[]pending {
	if target == NextStep {
		return &b.step
	}
	return &b.turn
}

// waiting lists all that waits, what is for the next step first.
func (b *inbox) waiting() []model.Message { return append(messagesOf(b.step), messagesOf(b.turn)...) }

func (b *inbox) empty() bool { return len(b.turn) == 0 && len(b.step) == 0 }

func (b *inbox) find(id string) (target string, i int, ok bool) {
	for _, target := range []string{NextStep, NextTurn} {
		for i, m := range *b.list(target) {
			if m.ID == id {
				return target, i, true
			}
		}
	}
	return "", 0, false
}

// apply folds one splice.
func (b *inbox) apply(s Spliced, number func() uint64) {
	l := b.list(s.Target)
	start := min(max(s.Start, 0), len(*l))
	end := min(start+s.RemovedCount, len(*l))
	var in []pending
	for _, m := range s.Inserted {
		in = append(in, pending{m, number()})
	}
	out := make([]pending, 0, len(*l)-(end-start)+len(in))
	out = append(out, (*l)[:start]...)
	out = append(out, in...)
	*l = append(out, (*l)[end:]...)
}

func messagesOf(ps []pending) []model.Message {
	out := make([]model.Message, len(ps))
	for i, p := range ps {
		out[i] = p.Message
	}
	return out
}

// Inbox shows what waits for an agent and edits it. Used on the host thread. Edits never
// wake the agent.
type Inbox struct {
	a   *agent
	who string // on whose behalf: a script, or the agent's id for Go
}

// NextTurn lists the queued prompts.
func (b *Inbox) NextTurn() []model.Message { return messagesOf(b.a.inbox.turn) }

// NextStep lists steering and context for the next step.
func (b *Inbox) NextStep() []model.Message { return messagesOf(b.a.inbox.step) }

// HasPending reports whether anything waits.
func (b *Inbox) HasPending() bool { return !b.a.inbox.empty() }

// Append queues a message at a list's tail without waking the agent.
func (b *Inbox) Append(target string, m model.Message) error {
	return b.insert(target, len(*b.a.inbox.list(target)), m)
}

// Prepend queues a message at a list's head without waking the agent.
func (b *Inbox) Prepend(target string, m model.Message) error { return b.insert(target, 0, m) }

func (b *Inbox) insert(target string, at int, m model.Message) error {
	_, err := b.Splice(target, at, 0, m)
	return err
}

// Replace puts m in the place of a pending message; false when it is not pending.
func (b *Inbox) Replace(id string, m model.Message) (bool, error) { return b.swap(id, m) }

// Remove takes a pending message out; false when it is not pending.
func (b *Inbox) Remove(id string) (bool, error) { return b.swap(id) }

// swap replaces one pending message. The place is looked up when the change is carried
// out, since other changes may have been put off together with it.
func (b *Inbox) swap(id string, ms ...model.Message) (bool, error) {
	target, i, ok := b.a.inbox.find(id)
	if !ok {
		return false, nil
	}
	if err := b.a.room(b.who, false); err != nil {
		return false, err
	}
	for j := range ms {
		var err error
		if ms[j], err = b.a.prepare(ms[j]); err != nil {
			return false, err
		}
		if err := b.a.checkID(ms[j].ID, (*b.a.inbox.list(target))[i:i+1], nil); err != nil {
			return false, err
		}
	}
	var err error
	b.a.h.later(b.who, func() {
		if target, i, ok := b.a.inbox.find(id); ok {
			err = b.a.splice(target, i, 1, ms, "canceled")
		}
	})
	return err == nil, err
}

// Clear removes everything, next-step first.
func (b *Inbox) Clear() (err error) {
	if err := b.a.room(b.who, false); err != nil {
		return err
	}
	b.a.h.later(b.who, func() { err = b.a.clear(b.a.arrivals.Load()) })
	return err
}

// Splice removes count messages from start on and puts ms in their place; coordinates
// are normalised as arrays do it: a negative start counts from the end.
func (b *Inbox) Splice(target string, start, count int, ms ...model.Message) (removed []model.Message, err error) {
	if target != NextTurn && target != NextStep {
		return nil, fmt.Errorf("unknown inbox %q, want %s or %s", target, NextTurn, NextStep)
	}
	l := *b.a.inbox.list(target)
	if start < 0 {
		start = max(0, len(l)+start)
	}
	start = min(start, len(l))
	count = min(max(count, 0), len(l)-start)
	prepared := make([]model.Message, len(ms))
	for i, m := range ms {
		if prepared[i], err = b.a.prepare(m); err != nil {
			return nil, err
		}
		if err := b.a.checkID(prepared[i].ID, l[start:start+count], prepared[:i]); err != nil {
			return nil, err
		}
	}
	if count == 0 && len(ms) == 0 {
		return nil, nil
	}
	adds := slices.ContainsFunc(ms[min(count, len(ms)):], func(m model.Message) bool { return m.Source.Kind == model.SourcePlugin })
	if err := b.a.room(b.who, adds); err != nil {
		return nil, err
	}
	removed = messagesOf(l[start : start+count])
	b.a.h.later(b.who, func() { err = b.a.splice(target, start, count, prepared, "canceled") })
	return removed, err
}

// checkID refuses an id that is already pending, apart from those that go.
func (a *agent) checkID(id string, going []pending, coming []model.Message) error {
	for _, m := range coming {
		if m.ID == id {
			return fmt.Errorf("message %q is already pending", id)
		}
	}
	for _, g := range going {
		if g.ID == id {
			return nil
		}
	}
	if _, _, ok := a.inbox.find(id); ok {
		return fmt.Errorf("message %q is already pending", id)
	}
	return nil
}

// splice is every inbox mutation: one record, then the live events. outcome is only
// recorded when something is removed; a claim gives none and emits its own event.
func (a *agent) splice(target string, start, count int, ms []model.Message, outcome string) error {
	l := *a.inbox.list(target)
	start = min(start, len(l))
	count = min(count, len(l)-start)
	removed := messagesOf(l[start : start+count])
	if len(removed) == 0 && len(ms) == 0 {
		return nil
	}
	rec := Spliced{Target: target, Start: start, RemovedCount: count, Inserted: ms}
	if rec.Inserted == nil {
		rec.Inserted = []model.Message{}
	}
	if count > 0 {
		rec.Outcome = outcome
	}
	var err error
	a.h.op(func() {
		if _, err = a.append(RecInboxSpliced, rec); err != nil {
			return
		}
		if outcome != "" {
			a.note(InboxDiscarded, 0, removed)
		}
		a.note(InboxInserted, 0, ms)
		a.tell()
	})
	return err
}

// news is a live event of the inbox that is still to be told.
type news struct {
	event runtime.Emit[InboxPayload]
	InboxPayload
}

// note puts an inbox event for each message on the list of what tell fires.
func (a *agent) note(e runtime.Emit[InboxPayload], turn int, ms []model.Message) {
	for _, m := range ms {
		a.news = append(a.news, news{e, InboxPayload{Agent: a, Message: m, Turn: turn}})
	}
}

// tell fires what was noted. What a listener does to the inbox meanwhile is told after
// that, so that nobody hears of a message's leaving before its coming.
func (a *agent) tell() {
	if a.telling {
		return
	}
	a.telling, a.told = true, 0
	defer func() { a.telling = false }()
	for len(a.news) > 0 {
		n := a.news[0]
		a.news = a.news[1:]
		a.told++
		n.event.Fire(a.h.Host, a.target(), n.InboxPayload)
	}
}

// clear removes everything that had arrived by number upTo, next-step first. It gives
// the first error, and tries both lists all the same.
func (a *agent) clear(upTo uint64) (first error) {
	a.h.op(func() {
		for _, target := range []string{NextStep, NextTurn} {
			for {
				start, n := span(*a.inbox.list(target), upTo)
				if n == 0 {
					break
				}
				if err := a.splice(target, start, n, nil, "canceled"); err != nil {
					if first == nil {
						first = err
					}
					break
				}
			}
		}
	})
	return first
}

// span finds the first run of messages that are not younger than upTo.
func span(l []pending, upTo uint64) (start, n int) {
	for start < len(l) && l[start].n > upTo {
		start++
	}
	for start+n < len(l) && l[start+n].n <= upTo {
		n++
	}
	return start, n
}

// claim takes the batch for a step: all of next-step, and at a turn boundary one prompt.
// The claimed events come after both splices.
func (a *agent) claim(turn int, boundary bool) (batch []model.Message, err error) {
	a.h.op(func() {
		take := func(target string, n int) {
			if err != nil || n == 0 {
				return
			}
			ms := messagesOf((*a.inbox.list(target))[:n])
			if err = a.splice(target, 0, n, nil, ""); err == nil {
				batch = append(batch, ms...)
			}
		}
		take(NextStep, len(a.inbox.step))
		if boundary {
			take(NextTurn, min(1, len(a.inbox.turn)))
		}
		a.note(InboxClaimed, turn, batch)
		a.tell()
	})
	return batch, err
}

// prepare completes a message: an id, a source, and text that is valid UTF-8.
func (a *agent) prepare(m model.Message) (model.Message, error) {
	if m.Role == "" {
		m.Role = model.RoleUser
	}
	if m.Role != model.RoleUser {
		return m, fmt.Errorf("a message for the inbox has role %q, want user", m.Role)
	}
	if m.Source.Kind == "" {
		m.Source.Kind = model.SourceUser
	}
	if m.ID == "" {
		m.ID = a.newID("m")
	}
	m.Content = model.CloneBlocks(m.Content)
	for i := range m.Content {
		m.Content[i].Text = model.Scrub(m.Content[i].Text)
	}
	if _, err := marshal(m); err != nil {
		return m, fmt.Errorf("non-JSON-serializable message: %w", err)
	}
	return m, nil
}
