// Package sessiontest helps to test what uses package session: logs whose files are checked when the test ends, a
// file system that fails on demand, and a clock that does not depend on the day.
package sessiontest

import (
	"sync"
	"testing"
	"time"

	"dshsh/session"
)

// Store returns a store in a folder of its own. When the test ends, every session in it is checked, so it fails the
// test if any is damaged or has a torn tail. Logs must be closed by then: New does it by itself, t.Cleanup after Store
// is early enough. NoSync is set unless the file system is the test's own.
func Store(t testing.TB, opt session.Options) *session.Store {
	t.Helper()
	opt.NoSync = opt.NoSync || opt.FS == nil
	s, err := session.OpenStore(t.TempDir(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CheckAll(t, s) })
	return s
}

// New returns a fresh log in a store of its own, closed and checked when the test ends.
func New(t testing.TB, opt session.Options) *session.Log {
	t.Helper()
	l, err := Store(t, opt).Create(session.Header{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// CheckAll fails the test for every session of the store that is not a whole log.
func CheckAll(t testing.TB, s *session.Store) {
	t.Helper()
	infos, err := s.List()
	if err != nil {
		t.Error(err)
	}
	for _, info := range infos {
		rep, err := s.Check(info.ID)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, p := range rep.Problems {
			t.Errorf("%s:%d: %s", rep.Path, p.Line, p.Message)
		}
		if rep.Torn != nil {
			t.Errorf("%s:%d: %d bytes of a torn tail", rep.Path, rep.Torn.Line, rep.Torn.Bytes)
		}
	}
}

// Clock is a clock for Options.Now: it begins at 2026-01-02 03:04:05 UTC and moves by Step at each reading. Any
// goroutine may use it.
type Clock struct {
	Step time.Duration // set before use

	mu  sync.Mutex // guards now
	now time.Time
}

// Now returns the time and moves the clock on.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.IsZero() {
		c.now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	}
	now := c.now
	c.now = c.now.Add(c.Step)
	return now
}

// Advance moves the clock on by d.
func (c *Clock) Advance(d time.Duration) {
	c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d - c.Step)
}
