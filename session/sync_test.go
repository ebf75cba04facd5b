package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"dshsh/session"
	"dshsh/session/sessiontest"
)

func TestSyncIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate chan struct{}
		fs := sessiontest.NewFaults(nil)
		s := sessiontest.Store(t, session.Options{FS: fs})
		l := create(t, s, "a")
		syncs := func() (n int) {
			for _, c := range fs.Calls() {
				if c.Op == sessiontest.Sync {
					n++
				}
			}
			return n
		}
		before := syncs()
		gate = make(chan struct{})
		fs.Set(func(c sessiontest.Call) *sessiontest.Fault {
			if c.Op != sessiontest.Sync {
				return nil
			}
			return &sessiontest.Fault{Then: func() { <-gate }}
		})
		done := make(chan error, 21)
		run := func(n int) {
			for range n {
				go func() { done <- l.Sync() }()
			}
			synctest.Wait()
		}
		must(t, l, note("one"))
		run(10)
		if n := syncs() - before; n != 1 {
			t.Errorf("%d fsyncs for ten callers", n)
		}
		must(t, l, note("two")) // does not wait for the fsync, and is not covered by it
		run(10)
		if len(done) != 0 {
			t.Error("a sync returned before its fsync")
		}
		close(gate)
		for range 20 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := syncs() - before; n != 2 {
			t.Errorf("%d fsyncs for twenty callers in two waves", n)
		}
		if err := l.Sync(); err != nil || syncs()-before != 2 {
			t.Error("a sync of nothing new costs an fsync")
		}
		closeLog(t, l)
	})
}

func TestCloseWaitsForASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		fs := sessiontest.NewFaults(nil)
		s := sessiontest.Store(t, session.Options{FS: fs})
		l := create(t, s, "a")
		must(t, l, note("one"))
		fs.FailNext(sessiontest.Sync, sessiontest.Fault{Then: func() { <-gate }})
		done := make(chan error, 2)
		go func() { done <- l.Sync() }()
		synctest.Wait()
		go func() { done <- l.Close() }()
		synctest.Wait()
		if len(done) != 0 {
			t.Error("closed beneath a sync")
		}
		close(gate)
		if err := errors.Join(<-done, <-done, l.Close(), l.Sync()); err != nil {
			t.Error(err)
		}
	})
}

func TestFailedSyncThatLostNothing(t *testing.T) {
	fs := sessiontest.NewFaults(nil)
	s := sessiontest.Store(t, session.Options{FS: fs})
	l := create(t, s, "a")
	must(t, l, note("one"))
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	for i := range 30 { // several pieces of the comparison
		must(t, l, note(fmt.Sprint(i, strings.Repeat("x", 100_000))))
	}
	for range 2 {
		fs.FailNext(sessiontest.Sync, sessiontest.Fault{Err: sessiontest.Broken})
		wantCode(t, l.Sync(), session.SyncFailed, l.Path(), "input/output error", "power failure", "/fork")
		must(t, l, note("goes on"))
	}
	if err := l.Sync(); err != nil {
		t.Error(err)
	}
	closeLog(t, l)
}

func TestFailedSyncThatLostRecords(t *testing.T) {
	fs := sessiontest.NewFaults(nil)
	s := openStore(t, session.Options{FS: fs})
	l := create(t, s, "a")
	must(t, l, note("one"))
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	must(t, l, note("two"))
	fs.FailNext(sessiontest.Sync, sessiontest.Fault{Err: sessiontest.Broken, Lose: true})
	wantCode(t, l.Sync(), session.Lost, l.Path(), "/fork")
	_, err := l.Append(note("three"))
	wantCode(t, err, session.Lost)
	wantCode(t, l.Sync(), session.Lost)
	if l.Len() != 2 {
		t.Error("the records in memory are gone")
	}
	f, err := s.Fork(l.Header(), l.Records(), session.Last, "b")
	if err != nil {
		t.Fatal(err)
	}
	must(t, f, note("three"))
	closeLog(t, f)
	wantCode(t, l.Close(), session.Lost)
	l, rep := reopen(t, s, "a") // the lock is free, and what was synced is there
	if l.Len() != 2 || rep.Torn == nil || string(l.Records()[0].Data) != `"one"` {
		t.Errorf("%d %+v", l.Len(), rep)
	}
	closeLog(t, l)
}

func TestFailedSyncThatCannotBeJudged(t *testing.T) {
	fs := sessiontest.NewFaults(nil)
	s := openStore(t, session.Options{FS: fs})
	l := create(t, s, "a")
	must(t, l, note("one"))
	fs.Set(func(c sessiontest.Call) *sessiontest.Fault {
		if c.Op == sessiontest.Sync || c.Op == sessiontest.Read {
			return &sessiontest.Fault{Err: sessiontest.Broken}
		}
		return nil
	})
	wantCode(t, l.Sync(), session.Lost)
	fs.Set(nil)
	wantCode(t, l.Close(), session.Lost)
}
