package reload

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dshsh/runtime"
)

// unit is a compiled script with the text that it was compiled from. Immutable, except
// that its snapshot grows when the program requires something late.
type unit struct {
	prog runtime.Program
	snap *snapshot
}

// live is a script that is in force, or a stand-in (unit nil). Immutable.
type live struct {
	unit   *unit
	in     *runtime.Instance
	offers Counts // registered while loading

	gen   int       // the generation with which it came into force, set then
	since time.Time // and when
}

func (l *live) standIn() bool { return l != nil && l.unit == nil }

// script is what is known of one identity. Used by the manager's goroutine.
type script struct {
	id, file   string
	layer      runtime.Layer
	path, root string

	live *live     // in the newest generation; nil = not in it
	last *snapshot // what the last attempt or decision was about; nil = there was none
	gone bool      // then the file was gone

	noticed time.Time // the earliest moment at which what is not dealt with yet can have come
	failure error     // why the last attempt failed
	listing string    // what lay beside it then
	retries int       // made since, on the suspicion that it may find what it lacked
	retry   time.Time // when another one is allowed
	waits   []string  // tried together with these, which failed
	with    []string  // these failed while it was not believed yet: it came together with them
	held    *Candidate
	refused bool    // the gate, or Drop, said no to last
	dropped bool    // it was Drop, of what the gate had held
	back    bool    // a rollback took it out of force
	before  *member // what was in force when it was switched off
	first   bool    // it was there at the start and has never loaded
}

// same says whether the files are what snap holds.
func (f *found) same(snap *snapshot, v *view) bool {
	if f.root == "" {
		return snap.text().same(f.text)
	}
	return snap.matches(f.root, v.read)
}

// unchanged says whether the last attempt or decision was about what there is now.
func (s *script) unchanged(f *found, v *view) bool {
	if f == nil {
		return s.gone
	}
	return !s.gone && s.last != nil && f.same(s.last, v)
}

// inForce says whether what there is now is in force already.
func (s *script) inForce(f *found, v *view) bool {
	return f != nil && s.live != nil && !s.live.standIn() && f.same(s.live.unit.snap, v)
}

// lacked says whether a script that failed may find now what it lacked then: something
// beside it has changed.
func (s *script) lacked(f *found, v *view, now time.Time) bool {
	return s.failure != nil && s.held == nil && f != nil && f.root != "" && v.listing[f.root] != s.listing && !now.Before(s.retry)
}

// decided notes what an attempt or decision was about.
func (s *script) decided(c *change) {
	if c.snap != nil {
		s.last = c.snap
	}
	s.gone = c.f == nil
}

// fails notes a failure. Retries on suspicion become rarer: one that computes until it is
// stopped must not be started again by every file that changes beside it.
func (s *script) fails(c *change, again bool, now time.Time) {
	s.failure, s.listing = c.err, c.listing
	if !again {
		s.retries, s.retry = 0, time.Time{}
		return
	}
	s.retry = now.Add(min(time.Minute, 250*time.Millisecond<<min(s.retries, 10)))
	s.retries++
}

// open says that what is on the disk is not what is in force, for whatever reason.
func (s *script) open() bool {
	return s.failure != nil || s.waits != nil || s.refused || s.back || s.live == nil
}

// settle ends every open question about the script.
func (s *script) settle() {
	s.noticed = time.Time{}
	s.failure, s.waits, s.with, s.held, s.refused, s.dropped, s.back = nil, nil, nil, nil, false, false, false
}

// snapshots are those whose files matter: what is in force and what was tried last.
func (s *script) snapshots() []*snapshot {
	var out []*snapshot
	if s.live != nil && !s.live.standIn() {
		out = append(out, s.live.unit.snap)
	}
	if s.last != nil && (len(out) == 0 || s.last != out[0]) {
		out = append(out, s.last)
	}
	return out
}

// ordered lists the known scripts by layer, then file name.
func (m *Manager) ordered() []*script {
	return slices.SortedFunc(maps.Values(m.scripts), func(a, b *script) int {
		return cmp.Or(cmp.Compare(a.layer, b.layer), strings.Compare(a.file, b.file))
	})
}

// change is one script of an attempt. Used by the manager's goroutine, and on the thread
// while that waits for it.
type change struct {
	s        *script
	kind     Kind
	f        *found // nil when the script is gone
	snap     *snapshot
	since    time.Time
	listing  string // what lay beside the script when the attempt began
	approved bool   // Take or On: the gate and Ask have been answered

	unit    *unit
	in      *runtime.Instance
	offers  Counts
	hash    string
	err     error
	verdict Verdict // of Ask
}

// newChange prepares an attempt on what there is now.
func (m *Manager) newChange(s *script, f *found, v *view) *change {
	c := &change{s: s, f: f, kind: Changed, since: s.noticed, verdict: Take}
	switch {
	case f == nil:
		c.kind = Removed
	case s.live == nil:
		c.kind = Added
	}
	if f == nil {
		return c
	}
	c.snap = newSnapshot(f.root, f.file, f.text)
	c.listing = m.listing(v, f.root)
	for _, old := range s.snapshots() {
		for _, rel := range old.names() {
			if rel != old.main && f.root != "" && !strings.HasSuffix(rel, linkMark) {
				c.snap.offer(rel, current(f.root, rel, v.read))
			}
		}
	}
	return c
}

// notice keeps the earliest moment at which a change can have come: its event, else the
// last look that did not find it.
func (m *Manager) notice(s *script, f *found, v *view, seen map[string]window) {
	var paths []string
	switch {
	case f == nil:
		paths = []string{filepath.Join(s.root, s.file)}
	case s.last == nil || f.root == "":
		paths = []string{filepath.Join(f.root, f.file)}
	default:
		for _, rel := range s.last.differing(f.root, v.read) {
			paths = append(paths, filepath.Join(f.root, rel))
		}
	}
	for _, p := range paths {
		at := m.lastLook
		if w, ok := seen[p]; ok {
			at = w.first
		}
		s.noticed = earliest(s.noticed, at)
	}
}

// files describes the change to whoever decides about it.
func (c *change) files() []FileChange {
	var old *snapshot
	if l := c.s.live; l != nil && !l.standIn() {
		old = l.unit.snap
	}
	names := map[string]bool{}
	if old != nil {
		for _, rel := range old.names() {
			names[rel] = true
		}
	}
	if c.snap != nil {
		for _, rel := range c.snap.all() {
			names[rel] = true
		}
	}
	var out []FileChange
	for _, rel := range slices.Sorted(maps.Keys(names)) {
		var was, is *file
		if old != nil {
			was = old.get(rel)
		}
		if c.snap != nil {
			is = c.snap.either(rel)
		}
		if was != nil && is != nil && was.same(is) || strings.HasSuffix(rel, linkMark) {
			continue
		}
		fc := FileChange{Path: filepath.Join(c.s.root, rel)}
		if was != nil {
			fc.Old = was.code
		}
		if is != nil {
			fc.New = is.code
		}
		out = append(out, fc)
	}
	return out
}

func (m *Manager) candidate(c *change) Candidate {
	cand := Candidate{ID: c.s.id, File: c.s.file, Path: c.s.path, Layer: c.s.layer, Kind: c.kind, Files: c.files(),
		Dropped: c.s.dropped && c.since.IsZero()}
	if !c.since.IsZero() {
		cand.Since = m.c.Now().Add(-time.Since(c.since))
	}
	if c.snap != nil {
		cand.Hash = c.snap.hashAll()
	}
	if l := c.s.live; l != nil && !l.standIn() {
		cand.OldHash = l.in.Hash
	}
	return cand
}
