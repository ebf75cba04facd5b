package reload

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dshsh/runtime"
)

// State is where a script stands.
type State string

// The states, as people read them.
const (
	StateInForce     State = "in force"
	StateFailed      State = "failed (old version stays)"
	StateDenies      State = "failed (denies tool calls)"
	StateAbsent      State = "failed (not loaded)"
	StateWaiting     State = "waiting" // fine, but saved together with one that failed
	StateHeld        State = "held"    // a change waits for Take or Drop
	StateRefused     State = "not taken"
	StateRolledBack  State = "rolled back" // the file is newer
	StateOff         State = "off"
	StateQuarantined State = "quarantined"
)

// Script is one script as lists show it. Immutable.
type Script struct {
	ID, File string
	Layer    runtime.Layer
	Path     string // "" in a bundle
	State    State
	// Hash is that of the version in force, Offers what it has registered; "" and nil
	// when none is.
	Hash   string
	Offers Counts
	// Generation is the one with which that version came into force, and Since when.
	Generation int
	Since      time.Time
	// Err is why it failed or is in quarantine.
	Err error
	// Waits are the scripts that it waits for.
	Waits []string
	// Held is the change that waits, or nil.
	Held *Candidate

	in   *runtime.Instance
	snap *snapshot // of the version in force
}

// InForce are the files of the version in force, as what is New; none without one. Any
// goroutine.
func (s Script) InForce() []FileChange {
	if s.snap == nil {
		return nil
	}
	var out []FileChange
	for _, rel := range s.snap.names() {
		if f := s.snap.get(rel); f != nil && !strings.HasSuffix(rel, linkMark) {
			out = append(out, FileChange{Path: filepath.Join(filepath.Dir(s.Path), rel), New: f.code})
		}
	}
	return out
}

// Status lists the scripts that are there or in force, in their order. ctx bounds the
// wait for the thread, for what only the thread knows: without it the list lacks
// quarantines. Off the thread; the callbacks that are called off it may call it.
func (m *Manager) Status(ctx context.Context) []Script {
	m.mu.Lock()
	list := slices.Clone(m.published)
	m.mu.Unlock()
	_ = m.c.Host.Do(ctx, func() { // the list is useful without
		for i := range list {
			s := &list[i]
			if s.in == nil {
				continue
			}
			s.Hash, s.Offers = s.in.Hash, countsOf(s.in)
			if q := s.in.Quarantined(); q != nil && s.State == StateInForce {
				s.State, s.Err = StateQuarantined, q
			}
		}
	})
	return list
}

// publish makes the list that Status gives.
func (m *Manager) publish() {
	var list []Script
	for _, s := range m.ordered() {
		x := Script{ID: s.id, File: s.file, Layer: s.layer, Path: s.path, State: m.state(s), Err: s.failure, Waits: s.waits, Held: s.held}
		if l := s.live; l != nil && !l.standIn() {
			x.in, x.Hash, x.Offers, x.Generation, x.Since = l.in, l.in.Hash, l.offers, l.gen, l.since
			x.snap = l.unit.snap
		}
		list = append(list, x)
	}
	m.mu.Lock()
	m.published = list
	m.mu.Unlock()
}

func (m *Manager) state(s *script) State {
	switch {
	case m.off[s.id]:
		return StateOff
	case s.held != nil:
		return StateHeld
	case s.failure != nil && s.live.standIn():
		return StateDenies
	case s.failure != nil && s.live == nil:
		return StateAbsent
	case s.failure != nil:
		return StateFailed
	case s.waits != nil:
		return StateWaiting
	case s.refused:
		return StateRefused
	case s.back:
		return StateRolledBack
	}
	return StateInForce
}
