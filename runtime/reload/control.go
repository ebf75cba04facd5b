package reload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Reload looks at the files at once and tries everything that is not in force, what
// failed before or was rolled back included. What is held stays held: Take and Drop are
// for that. ctx bounds the wait for the thread.
func (m *Manager) Reload(ctx context.Context) (r Report, err error) {
	err = m.do(ctx, func(ctx context.Context) (err error) {
		r, err = m.attempt(ctx, &attempt{trigger: TriggerReload, byHand: true})
		return err
	})
	return r, err
}

// Off takes a script out of force and keeps it out, whatever is saved, until On or the
// end of the manager. It is the way out when a script, or its stand-in, denies
// everything. Scripts that waited for it to be mended are tried right after.
func (m *Manager) Off(ctx context.Context, name string) (r Report, err error) {
	err = m.do(ctx, func(ctx context.Context) error {
		s, err := m.resolve(name)
		if err != nil {
			return err
		}
		a := &attempt{trigger: TriggerOff}
		a.begin(m)
		if m.off[s.id] {
			m.notices(a, s.id+" is off already")
			r = m.finish(a)
			return nil
		}
		denied := s.live.standIn()
		err = m.edit(ctx, a, func(next map[string]*live) bool {
			moves := next[s.id] != nil
			delete(next, s.id)
			return moves
		})
		if err == nil {
			m.off[s.id] = true
			s.settle()
			m.release(s.id)
			switch {
			case denied:
				m.notices(a, s.file+" switched off until dshsh ends: "+m.stillDenied())
			case a.report.Old == a.report.New:
				m.notices(a, s.file+" is off until dshsh ends")
			}
		}
		r = m.finish(a)
		return err
	})
	return r, err
}

// stillDenied says whether tool calls are denied by other scripts that did not load.
func (m *Manager) stillDenied() string {
	for _, s := range m.ordered() {
		if s.live.standIn() {
			return "tool calls are still denied because of " + s.file
		}
	}
	return "tool calls are no longer denied"
}

// release has the scripts that waited for another one tried without it.
func (m *Manager) release(id string) {
	for _, s := range m.scripts {
		for _, w := range s.waits {
			if w == id {
				s.waits, s.last, s.gone = nil, nil, false
				m.watch.note("")
				break
			}
		}
	}
}

// finish publishes and tells what an attempt came to.
func (m *Manager) finish(a *attempt) Report {
	m.publish()
	m.notify(a.report)
	return a.report
}

// On switches a script on again: one that is off is loaded from its file, one that is in
// quarantine is let go, one that failed is tried again. When it cannot be loaded, the
// error says why and it stays as it was.
func (m *Manager) On(ctx context.Context, name string) (r Report, err error) {
	err = m.do(ctx, func(ctx context.Context) error {
		s, err := m.resolve(name)
		if err != nil {
			return err
		}
		if s.held != nil {
			return fmt.Errorf("%s is held: take it or drop it", s.id)
		}
		wasOff := m.off[s.id]
		if !wasOff && s.failure == nil && s.live != nil {
			return m.lift(ctx, s, &r)
		}
		if wasOff {
			delete(m.off, s.id)
			s.first = false // a failure leaves it off, and denies nothing
		}
		r, err = m.attempt(ctx, &attempt{trigger: TriggerOn, byHand: true, only: map[string]bool{s.id: true}})
		switch {
		case err != nil:
		case s.failure != nil:
			err = s.failure
		case s.held != nil:
			return fmt.Errorf("%s is held: take it or drop it", s.id)
		case s.refused:
			err = fmt.Errorf("%s is not taken", s.id)
		}
		if err != nil && wasOff {
			m.off[s.id] = true
			m.publish()
		}
		return err
	})
	return r, err
}

// lift lets a script that is in force out of quarantine, and wakes its listeners that
// are skipped.
func (m *Manager) lift(ctx context.Context, s *script, r *Report) error {
	a := &attempt{trigger: TriggerOn}
	a.begin(m)
	line := s.id + " is in force already"
	err := m.c.Host.Do(ctx, func() {
		was := s.live.in.Quarantined() != nil
		m.c.Host.Lift(s.live.in)
		switch now := s.live.in.Quarantined(); {
		case now != nil:
			line = fmt.Sprintf("%s stays in quarantine: %v", s.id, now)
		case was:
			line = s.id + " is out of quarantine"
		}
	})
	if err != nil {
		return err
	}
	m.notices(a, line)
	*r = m.finish(a)
	return nil
}

// Take brings held changes into force, together; who has put one off is not asked again,
// but what the gate has held may still be held by Ask, as the report says then. It
// is an error when one is not held, or is no longer what was shown: then the newer
// content goes through the gate.
func (m *Manager) Take(ctx context.Context, names ...string) (Report, error) {
	return m.take(ctx, names, nil)
}

// TakeShown is Take for what a person was shown. It is an error, and nothing is taken, when
// one of them is held with other content by now: the answer was not about that.
func (m *Manager) TakeShown(ctx context.Context, shown ...Candidate) (Report, error) {
	var names []string
	was := map[string]Candidate{}
	for _, c := range shown {
		names = append(names, c.ID)
		was[c.ID] = c
	}
	return m.take(ctx, names, func(is Candidate) error {
		if c := was[is.ID]; c.Hash != is.Hash || c.Kind != is.Kind {
			return changedSince(is.ID)
		}
		return nil
	})
}

func changedSince(id string) error {
	return fmt.Errorf("%s %w: look at it again", id, ErrNotShown)
}

func (m *Manager) take(ctx context.Context, names []string, check func(held Candidate) error) (r Report, err error) {
	err = m.do(ctx, func(ctx context.Context) error {
		only := map[string]bool{}
		for _, name := range names {
			s, err := m.heldScript(name)
			if err == nil && check != nil {
				err = check(*s.held)
			}
			if err != nil {
				return err
			}
			only[s.id] = true
		}
		if r, err = m.attempt(ctx, &attempt{trigger: TriggerTake, byHand: true, take: true, only: only}); err != nil {
			return err
		}
		for id := range only {
			// What the gate held may wait for Ask now.
			if s := m.scripts[id]; s != nil && s.held != nil && !s.held.Asked {
				return changedSince(id)
			}
		}
		return nil
	})
	return r, err
}

// Drop gives up held changes: what is in force stays until the files change again. Reload
// puts them to Gate once more, which is told that they were dropped.
func (m *Manager) Drop(ctx context.Context, names ...string) error {
	return m.do(ctx, func(context.Context) error {
		var drop []*script
		for _, name := range names {
			s, err := m.heldScript(name)
			if err != nil {
				return err
			}
			drop = append(drop, s)
		}
		for _, s := range drop {
			asked := s.held.Asked
			s.settle()
			s.refused, s.dropped = true, !asked
		}
		m.publish()
		return nil
	})
}

func (m *Manager) heldScript(name string) (*script, error) {
	s, err := m.resolve(name)
	if err == nil && s.held == nil {
		err = fmt.Errorf("%s: %w", s.id, ErrNotHeld)
	}
	return s, err
}

// Rollback takes the last change back that was made by saving, in new VMs; used again it
// goes one change further back. A script that is off stays off. What is on the disk is
// not changed, and comes into force again when it is saved or by Reload.
func (m *Manager) Rollback(ctx context.Context) (r Report, err error) {
	err = m.do(ctx, func(ctx context.Context) error {
		left := len(m.history)
		var back undo
		for len(back) == 0 {
			if left == 0 {
				return fmt.Errorf("rolling back scripts: %w", ErrNoOlder)
			}
			left--
			back = m.effective(m.history[left])
		}
		a := &attempt{trigger: TriggerRollback}
		a.begin(m)
		if err := m.rollback(ctx, a, back); err != nil {
			return fmt.Errorf("rolling back scripts: %w", err)
		}
		m.history = m.history[:left]
		r = m.finish(a)
		return nil
	})
	return r, err
}

// effective is what of u would change anything now.
func (m *Manager) effective(u undo) undo {
	out := undo{}
	for id, mem := range u {
		s := m.scripts[id]
		live := s != nil && s.live != nil
		switch {
		case m.off[id]:
		case mem == nil && live, mem != nil && !(live && s.live.unit == mem.unit):
			out[id] = mem
		}
	}
	return out
}

// rollback activates what back holds.
func (m *Manager) rollback(ctx context.Context, a *attempt, back undo) error {
	var loaded []*change
	for _, id := range slices.Sorted(maps.Keys(back)) {
		mem := back[id]
		if mem == nil {
			continue
		}
		s := m.scripts[id]
		if s == nil {
			s = &script{id: mem.id, file: mem.file, layer: mem.layer, path: mem.path, root: mem.root, gone: true}
		}
		c := &change{s: s, unit: mem.unit, snap: mem.unit.snap}
		loaded = append(loaded, c)
		if err := errors.Join(m.load(ctx, c), c.err); err != nil {
			m.discard(loaded)
			return err
		}
	}
	for _, c := range loaded {
		m.scripts[c.s.id] = c.s
	}
	err := m.edit(ctx, a, func(next map[string]*live) bool {
		for id, mem := range back {
			if mem == nil {
				delete(next, id)
			}
		}
		for _, c := range loaded {
			c.in.Hash = c.hash
			next[c.s.id] = &live{unit: c.unit, in: c.in, offers: c.offers}
		}
		return true
	})
	if err != nil {
		m.discard(loaded)
		return err
	}
	for id := range back {
		if s := m.scripts[id]; s != nil {
			s.back = true
		}
	}
	for _, c := range loaded {
		m.notices(a, fmt.Sprintf("%s is the version %.8s of %s again", c.s.file, c.hash, back[c.s.id].since.Format("15:04:05")))
	}
	return nil
}
