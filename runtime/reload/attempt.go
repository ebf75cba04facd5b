package reload

import (
	"cmp"
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"dshsh/runtime"
)

// attempt is one try to bring what is on the disk into force. Used by the manager's
// goroutine.
type attempt struct {
	trigger Trigger
	byHand  bool            // believe what is there at once, and try all that is not in force
	only    map[string]bool // the scripts that it is about, with those that wait for them; nil = all
	take    bool            // what was shown of them is not asked about again
	began   time.Time
	report  Report
	doubted []*script // what this attempt leaves alone because it is not believed yet
}

// attempt looks at the files and deals with what has changed. The error is that the
// thread or the manager has ended, or ctx; then nothing has been done.
func (m *Manager) attempt(ctx context.Context, a *attempt) (Report, error) {
	a.begin(m)
	var seen map[string]window
	if a.only == nil {
		seen = m.watch.take()
		m.lingers = time.Time{}
	}
	v := m.look()
	m.noteBroken(a, v)
	if line := m.hint(v.odd); line != "" {
		m.notices(a, line)
	}
	if line := m.watchNotice(); line != "" {
		m.notices(a, line)
	}
	batch, again := m.diff(a, v, seen)
	err := m.try(ctx, a, v, batch, false)
	if err == nil && len(again) > 0 {
		err = m.try(ctx, a, v, again, true)
	}
	if a.only == nil {
		m.lastLook = a.began
		m.schedulePoll()
	}
	m.publish()
	// What was required for the first time is not watched yet; it may have changed since.
	for _, s := range m.scripts {
		m.scanNeeds(v, s)
	}
	if m.watch.sync(v) {
		m.watch.note("")
	}
	m.notify(a.report)
	return a.report, err
}

func (a *attempt) begin(m *Manager) {
	a.began = time.Now()
	a.report = Report{Trigger: a.trigger, Old: m.gen, New: m.gen}
}

func (m *Manager) notices(a *attempt, lines ...string) {
	a.report.Notices = append(a.report.Notices, lines...)
}

// noteBroken tells of folders that cannot be read, once.
func (m *Manager) noteBroken(a *attempt, v *view) {
	if lines := v.brokenLines(); !slices.Equal(lines, m.brokenSaid) {
		m.brokenSaid = lines
		m.notices(a, lines...)
	}
}

func (v *view) brokenLines() []string {
	var lines []string
	for _, err := range v.broken {
		lines = append(lines, err.Error())
	}
	return lines
}

// diff says what is to be tried: what has changed since the last attempt with those that
// were tried together with it, and, apart, those that failed and may find now what they
// lacked.
func (m *Manager) diff(a *attempt, v *view, seen map[string]window) (batch, again []*change) {
	in := map[string]bool{}
	add := func(list *[]*change, s *script, f *found) {
		c := m.newChange(s, f, v)
		switch {
		case a.take && a.only[s.id]:
			c.approved = s.unchanged(f, v) // else it is not what was shown
		case a.trigger == TriggerOn && f != nil:
			c.approved = m.compiled(c, v) != nil // it has been in force, as it is
		}
		in[s.id] = true
		*list = append(*list, c)
	}
	m.meet(a, v)
	settled := map[string]bool{} // nobody needs to wait for these any longer
	for _, s := range m.ordered() {
		if a.only != nil && !a.only[s.id] {
			continue
		}
		f := v.scripts[s.id]
		unchanged := s.unchanged(f, v)
		if !unchanged && a.trigger != TriggerStart {
			m.notice(s, f, v, seen)
		}
		switch {
		case f == nil && v.keep[s.layer]:
		case m.off[s.id]:
			if f == nil {
				m.forget(s)
			} else if !unchanged { // so that On knows since when it is what it is
				if a.trigger == TriggerSave && s.last != nil {
					m.notices(a, s.file+" changed; it is off")
				}
				s.last, s.gone = newSnapshot(f.root, f.file, f.text), false
			}
		case m.lingering(a, s, f, v, unchanged, seen):
		case f == nil && s.live == nil:
			if s.failure != nil || s.held != nil {
				a.report.Mended = append(a.report.Mended, s.id)
			}
			settled[s.id] = true
			m.forget(s)
		case s.inForce(f, v):
			if s.failure != nil || s.waits != nil || s.held != nil {
				a.report.Mended = append(a.report.Mended, s.id)
			}
			settled[s.id] = true
			s.settle()
			s.last, s.gone = s.live.unit.snap, false
		case !unchanged && !a.byHand && m.failing(s.with) != nil:
			m.wait(a, m.newChange(s, f, v), m.failing(s.with))
		case !unchanged || a.take || a.byHand && s.held == nil && s.open():
			add(&batch, s, f)
		case s.lacked(f, v, a.began):
			add(&again, s, f)
		}
	}
	for _, list := range []*[]*change{&batch, &again} {
		for _, c := range *list {
			settled[c.s.id] = true
		}
		for _, s := range m.ordered() {
			waits := slices.ContainsFunc(s.waits, func(id string) bool { return settled[id] })
			if _, unsure := m.doubts[s.id]; waits && !in[s.id] && !unsure && !m.off[s.id] {
				add(list, s, v.scripts[s.id])
			}
		}
	}
	return batch, again
}

// meet takes note of scripts that were not there before, and of where all are now.
func (m *Manager) meet(a *attempt, v *view) {
	for id, f := range v.scripts {
		s := m.scripts[id]
		if s == nil {
			if a.only != nil {
				continue
			}
			s = &script{id: id, file: f.file, layer: f.layer, first: a.trigger == TriggerStart}
			m.scripts[id] = s
		}
		s.path, s.root = f.path, f.root
		for _, snap := range s.snapshots() {
			snap.moved(f.root)
		}
	}
}

// forget drops what is known of a script that is gone.
func (m *Manager) forget(s *script) {
	delete(m.scripts, s.id)
	delete(m.units, s.id)
	delete(m.doubts, s.id)
}

// lingering says whether a script has gone missing or empty so lately that it is not
// believed yet.
func (m *Manager) lingering(a *attempt, s *script, f *found, v *view, unchanged bool, seen map[string]window) bool {
	sign := ""
	var paths []string
	if !unchanged && !a.byHand && !m.renamed(s, f, v) {
		sign, paths = m.doubtful(s, f, v)
	}
	if sign == "" {
		delete(m.doubts, s.id)
		s.with = nil
		return false
	}
	var at time.Time
	for _, p := range paths {
		if w, ok := seen[p]; ok && w.last.After(at) {
			at = w.last
		}
	}
	due := m.doubts.believe(s.id, sign, at, a.began).Add(m.c.Linger)
	if a.began.Before(due) {
		m.lingers = earliest(m.lingers, due)
		a.doubted = append(a.doubted, s)
		return true
	}
	delete(m.doubts, s.id)
	return false
}

// renamed says whether a script that is gone is there under a name that is new: then it
// need not be waited for, and does not run twice meanwhile.
func (m *Manager) renamed(s *script, f *found, v *view) bool {
	if f != nil || s.last == nil {
		return false
	}
	for id, other := range v.scripts {
		if o := m.scripts[id]; o.last == nil && other.layer == s.layer && other.text.same(s.last.text()) {
			return true
		}
	}
	return false
}

// differs says whether a look found anything that an attempt would have to deal with.
func (m *Manager) differs(v *view, now time.Time) bool {
	for id, f := range v.scripts {
		s := m.scripts[id]
		if s == nil || !m.off[id] && (!s.unchanged(f, v) || s.lacked(f, v, now)) {
			return true
		}
	}
	for id, s := range m.scripts {
		if v.scripts[id] == nil && !v.keep[s.layer] && (m.off[id] || !s.gone) {
			return true
		}
	}
	return !slices.Equal(v.brokenLines(), m.brokenSaid)
}

// try takes a set of changes through gate, compiler and VM, and brings all of it into
// force or nothing. again: these are being tried another time on a suspicion, so a
// failure that is known is not told again.
func (m *Manager) try(ctx context.Context, a *attempt, v *view, batch []*change, again bool) error {
	batch, err := m.gate(ctx, a, batch)
	if err != nil || len(batch) == 0 {
		return err
	}
	m.compileAll(batch, v)
	for _, c := range batch {
		if c.kind != Removed && c.err == nil {
			if err := m.load(ctx, c); err != nil {
				m.discard(batch)
				return err
			}
		}
	}
	whole := true // failures that have nothing older do not hold back the others at first
	for _, c := range batch {
		if c.err != nil && !(c.s.first && (c.s.live == nil || c.s.live.standIn())) {
			whole = false
		}
	}
	if !whole {
		m.discard(batch)
		m.fail(a, batch, again)
		return nil
	}
	return m.activate(ctx, a, batch, again)
}

// gate asks about the changes that somebody is to decide about, and returns those that
// go on. The error is that of ctx, and what the gate said does not count then.
func (m *Manager) gate(ctx context.Context, a *attempt, batch []*change) ([]*change, error) {
	var asked []*change
	var cands []Candidate
	for _, c := range batch {
		if c.s.layer != runtime.LayerBundled && !c.approved && m.c.Gate != nil {
			asked = append(asked, c)
			cands = append(cands, m.candidate(c))
		}
	}
	if len(asked) == 0 {
		return batch, nil
	}
	verdicts := m.c.Gate(ctx, cands)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	stop := map[*change]bool{}
	for i, c := range asked {
		verdict := Hold
		if i < len(verdicts) {
			verdict = verdicts[i]
		}
		if verdict != Take {
			if verdict == Hold && c.f != nil && c.s.live != nil {
				cands[i].Err = m.trial(c)
			}
			m.putOff(a, c, cands[i], verdict)
			stop[c] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(batch), func(c *change) bool { return stop[c] }), nil
}

// trial says whether a change compiles, for whoever decides about it.
func (m *Manager) trial(c *change) error {
	err := m.safely(func() { m.compile(c) })
	err = cmp.Or(err, c.err)
	c.unit, c.err = nil, nil
	return err
}

// putOff keeps what was there before, until somebody decides or the files change again.
func (m *Manager) putOff(a *attempt, c *change, cand Candidate, verdict Verdict) {
	s := c.s
	s.settle()
	if c.snap != nil {
		c.snap.adopt()
	}
	s.decided(c)
	if verdict == Hold {
		s.held = &cand
		a.report.Held = append(a.report.Held, cand)
	} else {
		s.refused = true
		a.report.Refused = append(a.report.Refused, s.id)
	}
}

// compileAll compiles off the thread, on as many processors as there are.
func (m *Manager) compileAll(batch []*change, v *view) {
	slots := make(chan struct{}, goruntime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for _, c := range batch {
		if c.kind == Removed {
			continue
		}
		if u := m.compiled(c, v); u != nil {
			c.unit, c.snap = u, u.snap
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := m.safely(func() { m.compile(c) }); err != nil {
				c.err = fmt.Errorf("%s: compiling: %w", c.s.file, err)
			}
		})
	}
	wg.Wait()
}

// compiled finds the program of the same text, if it is still known.
func (m *Manager) compiled(c *change, v *view) *unit {
	for _, u := range slices.Backward(m.units[c.s.id]) {
		if u.snap.origin == c.snap.origin && c.f.same(u.snap, v) {
			return u
		}
	}
	return nil
}

// remember keeps the last few programs of a script: an edit that is taken back, or a
// rollback, compiles nothing.
func (m *Manager) remember(id string, u *unit) {
	const most = 4
	us := slices.DeleteFunc(slices.Clone(m.units[id]), func(x *unit) bool { return x == u })
	us = append(us, u)
	m.units[id] = us[max(0, len(us)-most):]
}

func (m *Manager) compile(c *change) {
	f := c.f
	if f.text.err != nil {
		c.err = fmt.Errorf("%s cannot be read: %w", f.file, f.text.err)
		return
	}
	e, err := m.c.Host.EngineFor(f.file)
	if err != nil {
		c.err = err
		return
	}
	src := runtime.Source{ID: f.id, File: f.file, Dir: c.snap.origin, Code: f.text.code}
	if src.Dir != "" {
		src.Read = c.snap.read
	}
	prog, err := e.Compile(src)
	if err != nil {
		c.err = err
		return
	}
	c.unit = &unit{prog: prog, snap: c.snap}
}

// load runs a script in a new VM. The error is that the thread could not be entered.
func (m *Manager) load(ctx context.Context, c *change) error {
	var failed error
	err := m.c.Host.Do(ctx, func() {
		failed = m.safely(func() { c.in, c.err = m.c.Host.Load(m.scriptFile(c.s, c.unit)) })
		if c.in != nil {
			c.offers = countsOf(c.in)
		}
	})
	if failed != nil {
		c.err = fmt.Errorf("%s: loading: %w", c.s.file, failed)
	}
	if err == nil && c.err == nil {
		c.snap.close(func() { m.watch.note("") }) // so that it is watched from now on
		c.snap.noteLinks(m.links(c.snap.origin))
		c.hash = c.snap.hash()
	}
	return err
}

func (m *Manager) scriptFile(s *script, u *unit) runtime.ScriptFile {
	f := runtime.ScriptFile{ID: s.id, File: s.file, Path: s.path, Layer: s.layer}
	if u != nil {
		f.Program, f.Hash = u.prog, u.snap.hash()
	}
	return f
}

// discard gives up what was loaded for a set that does not come into force.
func (m *Manager) discard(batch []*change) {
	var ins []*runtime.Instance
	for _, c := range batch {
		if c.in != nil {
			ins = append(ins, c.in)
			c.in = nil
		}
	}
	if len(ins) > 0 {
		m.c.Host.Thread.Post(func() {
			for _, in := range ins {
				m.c.Host.Discard(in)
			}
		})
	}
}

// fail notes a set that did not come into force: those that failed keep their old
// version until they change, those that were tried with them wait for that.
func (m *Manager) fail(a *attempt, batch []*change, again bool) {
	var failed []string
	for _, c := range batch {
		if c.err != nil {
			failed = append(failed, c.s.id)
		}
	}
	for _, s := range a.doubted {
		s.with = append(s.with, failed...)
	}
	for _, c := range batch {
		s := c.s
		if c.err == nil {
			m.wait(a, c, failed)
			continue
		}
		known := again && s.failure != nil && s.failure.Error() == c.err.Error()
		s.settle()
		s.decided(c)
		s.fails(c, again, a.began)
		if !known {
			a.report.Failures = append(a.report.Failures, newFailure(c))
		}
	}
}

// wait notes a change that is fine but waits for those that came with it and failed.
func (m *Manager) wait(a *attempt, c *change, failed []string) {
	s := c.s
	if s.waits == nil {
		a.report.Waiting = append(a.report.Waiting, s.id)
	}
	s.settle()
	s.decided(c)
	s.waits = failed
}

// failing are those of the scripts that have failed and not been mended.
func (m *Manager) failing(ids []string) []string {
	var out []string
	for _, id := range ids {
		if s := m.scripts[id]; s != nil && s.failure != nil && !m.off[id] {
			out = append(out, id)
		}
	}
	return out
}
