package reload

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"dshsh/runtime"
)

// keptGenerations is how far Rollback can go back.
const keptGenerations = 16

// member is one script of a generation as Rollback needs it. Immutable.
type member struct {
	id, file   string
	layer      runtime.Layer
	path, root string
	unit       *unit // nil: a stand-in
	offers     Counts
	since      time.Time // when it came into force
}

// members are the scripts that are in force, in order.
func (m *Manager) members() []member {
	var out []member
	for _, s := range m.ordered() {
		if l := s.live; l != nil {
			out = append(out, member{id: s.id, file: s.file, layer: s.layer, path: s.path, root: s.root, unit: l.unit, offers: l.offers, since: l.since})
		}
	}
	return out
}

// edit changes the set of scripts that are in force: change gets it on the thread, with
// what it holds loaded, and says whether a new generation is to be made of it. The error
// says that nothing was done; that telling of a new generation failed is a notice.
func (m *Manager) edit(ctx context.Context, a *attempt, change func(next map[string]*live) bool) error {
	before := m.members()
	next := map[string]*live{}
	for _, s := range m.scripts {
		if s.live != nil {
			next[s.id] = s.live
		}
	}
	done := false
	var failed error
	err := m.c.Host.Do(ctx, func() {
		failed = m.safely(func() {
			moves := change(next)
			done = true
			if moves {
				m.swap(next)
			}
		})
	})
	err = errors.Join(err, failed)
	if !done {
		return err
	}
	for _, s := range m.scripts {
		s.live = next[s.id]
	}
	m.told(a, before)
	if err != nil {
		m.notices(a, fmt.Sprintf("telling of generation %d: %v", m.gen, err))
	}
	return nil
}

// activate brings a set that has loaded into force. Those of it that failed are first
// ones, and get a stand-in.
func (m *Manager) activate(ctx context.Context, a *attempt, batch []*change, again bool) error {
	err := m.edit(ctx, a, func(next map[string]*live) bool {
		m.askAll(batch)
		moves := false
		for _, c := range batch {
			moves = m.place(c, next) || moves
		}
		return moves
	})
	if err != nil {
		m.discard(batch)
		return err
	}
	m.commit(a, batch, again)
	return nil
}

// askAll asks about every script that has loaded. On the thread.
func (m *Manager) askAll(batch []*change) {
	if m.c.Ask == nil {
		return
	}
	for _, c := range batch {
		if c.in == nil || c.approved && (c.s.held == nil || c.s.held.Asked) {
			continue // what the gate held has not been asked about here
		}
		var old *runtime.Instance
		if l := c.s.live; l != nil && !l.standIn() {
			old = l.in
		}
		c.verdict = m.c.Ask(old, c.in)
		if c.verdict != Take {
			m.c.Host.Discard(c.in)
			c.in = nil
		}
	}
}

// place puts one script of a set into the next generation, and says whether that changes
// anything. On the thread.
func (m *Manager) place(c *change, next map[string]*live) bool {
	s := c.s
	switch {
	case c.verdict != Take:
		return false
	case c.kind == Removed:
		delete(next, s.id)
	case c.err == nil:
		c.in.Hash = c.hash
		next[s.id] = &live{unit: c.unit, in: c.in, offers: c.offers}
	case next[s.id].standIn():
		next[s.id].in.SetFailed(c.err)
		return false
	default:
		next[s.id] = &live{in: m.c.Host.StandIn(m.scriptFile(s, nil), c.err)}
	}
	return true
}

// swap activates the next generation. On the thread.
func (m *Manager) swap(next map[string]*live) {
	var ins []*runtime.Instance
	for _, s := range m.ordered() {
		if l := next[s.id]; l != nil {
			ins = append(ins, l.in)
		}
	}
	old := m.c.Host.Current()
	g := m.c.Host.Activate(ins)
	m.gen = g.N
	for _, l := range next {
		if l.gen == 0 {
			l.gen, l.since = g.N, m.c.Now()
		}
	}
	if m.c.Activated != nil {
		m.c.Activated(old, g)
	}
}

// commit notes what an activation did with each script of a set.
func (m *Manager) commit(a *attempt, batch []*change, again bool) {
	for _, c := range batch {
		s := c.s
		if c.verdict != Take {
			cand := m.candidate(c)
			cand.Asked = true
			m.putOff(a, c, cand, c.verdict)
			continue
		}
		known := again && c.err != nil && s.failure != nil && s.failure.Error() == c.err.Error()
		s.settle()
		s.decided(c)
		switch {
		case c.kind == Removed:
			m.forget(s)
		case c.err != nil:
			s.fails(c, again, a.began)
			if !known {
				a.report.Failures = append(a.report.Failures, newFailure(c))
			}
		default:
			s.first = false
			m.remember(s.id, c.unit)
		}
	}
}

// told completes the report after an activation, and keeps the generation before for
// Rollback.
func (m *Manager) told(a *attempt, before []member) {
	r := &a.report
	if m.gen == r.New {
		return
	}
	r.New = m.gen
	r.Duration = time.Since(a.began)
	if r.Offers == nil {
		r.Offers = Counts{}
	}
	r.Scripts = 0
	was := map[string]member{}
	for _, mem := range before {
		was[mem.id] = mem
		r.Offers.add(mem.offers, -1)
	}
	for _, mem := range m.members() {
		old, had := was[mem.id]
		delete(was, mem.id)
		r.Offers.add(mem.offers, 1)
		if mem.unit != nil {
			r.Scripts++
		}
		switch {
		case mem.unit == nil || had && old.unit == mem.unit:
		case had:
			r.Changed = append(r.Changed, mem.id)
			if via := changedModules(old.unit, mem.unit); len(via) > 0 {
				if r.Modules == nil {
					r.Modules = map[string][]string{}
				}
				r.Modules[mem.id] = via
			}
		default:
			r.Added = append(r.Added, mem.id)
		}
	}
	for _, mem := range before {
		if _, gone := was[mem.id]; gone && mem.unit != nil {
			r.Removed = append(r.Removed, mem.id)
		}
	}
	m.remind(a, before)
}

// changedModules are the files that differ between two versions of a script; nil when its
// own file does, or there is no older one.
func changedModules(old, now *unit) []string {
	if old == nil || !old.snap.text().same(now.snap.text()) {
		return nil
	}
	var out []string
	for _, rel := range now.snap.names() {
		if was := old.snap.get(rel); (was == nil || !was.same(now.snap.get(rel))) && !strings.HasSuffix(rel, linkMark) {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	return out
}

// undo is what a change by saving replaced, for Rollback: nil stands for a script that
// was not there. Immutable.
type undo map[string]*member

// remind keeps what a new generation replaced. Switching off and on is no such change,
// unless another version came back than went.
func (m *Manager) remind(a *attempt, before []member) {
	u := undo{}
	was := map[string]*member{}
	for i := range before {
		was[before[i].id] = &before[i]
	}
	switch a.trigger {
	case TriggerStart, TriggerRollback:
		return
	case TriggerOff:
		for _, id := range a.report.Removed {
			m.scripts[id].before = was[id]
		}
		return
	case TriggerOn:
		for _, id := range a.report.Added {
			s := m.scripts[id]
			if b := s.before; b != nil && b.unit != s.live.unit {
				u[id] = b
			}
		}
	default:
		for _, ids := range [][]string{a.report.Added, a.report.Changed, a.report.Removed} {
			for _, id := range ids {
				if old := was[id]; old == nil || old.unit != nil {
					u[id] = old // no stand-in comes back
				}
			}
		}
	}
	if len(u) > 0 {
		m.history = append(m.history, u)
		m.history = m.history[max(0, len(m.history)-keptGenerations):]
	}
}
