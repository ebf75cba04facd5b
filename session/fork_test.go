package session_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"dshsh/session"
	"dshsh/session/sessiontest"
)

func TestB216_Fork(t *testing.T) {
	s := checked(t)
	h := session.Header{ID: "parent", Cwd: "/project", Origin: "subagent", DelegationDepth: 2, AgentPreset: "p", ParentSession: "grand"}
	l, err := s.Create(h)
	if err != nil {
		t.Fatal(err)
	}
	must(t, l, start(1), note("x"), end(), note("between turns"))
	for _, tc := range []struct {
		boundary int64
		copies   int
	}{{session.Last, 4}, {3, 4}, {2, 3}} {
		c, err := s.Fork(l.Header(), l.Records(), tc.boundary, "")
		if err != nil {
			t.Fatal(err)
		}
		got := c.Header()
		if got.ID == "parent" || got.Cwd != "/project" || got.ParentSession != "parent" || got.SeedLength == nil || *got.SeedLength != tc.copies ||
			got.Origin != "" || got.DelegationDepth != 0 || got.AgentPreset != "" {
			t.Errorf("%+v", got)
		}
		if c.Len() != tc.copies+1 || c.FirstLive() != tc.copies || c.Records()[tc.copies].Type != session.EndSeed {
			t.Errorf("%d records, first live %d", c.Len(), c.FirstLive())
		}
		sameRecords(t, "copies", c.Records()[:tc.copies], l.Records()[:tc.copies])
		must(t, c, start(2), end()) // numbering goes on behind the seed
		closeLog(t, c)
		again, rep := reopen(t, s, c.ID())
		if again.Header().SeedLength == nil || *again.Header().SeedLength != tc.copies || rep.Torn != nil {
			t.Errorf("%+v", again.Header())
		}
		closeLog(t, again)
	}
	if l.Len() != 4 {
		t.Error("the parent changed")
	}
	// A fork of a fork, at its end: the seed's end is not marked twice.
	c, err := s.Fork(l.Header(), l.Records(), session.Last, "c")
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Fork(c.Header(), c.Records(), session.Last, "d")
	if err != nil || d.Len() != 5 || *d.Header().SeedLength != 5 || d.Header().ParentSession != "c" {
		t.Errorf("%d records, %v", d.Len(), err)
	}
	empty := create(t, s, "empty")
	for id, boundary := range map[string]int64{"e1": session.Last, "e2": -1} {
		e, err := s.Fork(empty.Header(), empty.Records(), boundary, id)
		if err != nil || *e.Header().SeedLength != 0 || e.Len() != 1 || e.FirstLive() != 0 {
			t.Errorf("%+v", err)
		}
		closeLog(t, e)
	}
	for _, open := range []*session.Log{l, c, d, empty} {
		closeLog(t, open)
	}
}

func TestB217_ForkBoundaryRules(t *testing.T) {
	s := checked(t)
	l := create(t, s, "a")
	must(t, l, start(1), note("x"), end(), start(2), note("y"))
	fork := func(boundary int64, id string) error {
		c, err := s.Fork(l.Header(), l.Records(), boundary, id)
		if err == nil {
			closeLog(t, c)
		}
		return err
	}
	wantCode(t, fork(99, "a"), session.Exists) // the id comes first
	wantCode(t, fork(99, "../x"), session.InvalidID)
	for _, boundary := range []int64{-1, -7, 5, 99} {
		wantCode(t, fork(boundary, "b"), session.InvalidBoundary, "0 to 4")
	}
	wantCode(t, fork(0, "b"), session.OpenTurn, "nothing before it is closed")
	wantCode(t, fork(3, "b"), session.OpenTurn, "is 2")
	wantCode(t, fork(session.Last, "b"), session.OpenTurn, "is 2")
	if _, _, _, err := s.Read("b"); !errors.Is(err, session.NotFound) {
		t.Error("a refused fork left a child:", err)
	}
	records := append([]session.Record{}, l.Records()[:3]...)
	records[1].Seq = 7
	_, err := s.Fork(l.Header(), records, 2, "b")
	wantCode(t, err, session.InvalidRecord, "record 1")
	_, err = s.Fork(l.Header(), l.Records()[2:], 0, "b")
	wantCode(t, err, session.InvalidRecord)
	if err := fork(2, "b"); err != nil {
		t.Error(err)
	}
	wantCode(t, fork(2, "b"), session.Exists)
	closeLog(t, l)
}

func TestForkFrom(t *testing.T) {
	s := openStore(t, session.Options{Validator: newTurns, NoSync: true})
	l := create(t, s, "a")
	must(t, l, start(1), end())
	c, err := s.ForkFrom("a", session.Last, "b") // while it is open
	if err != nil || c.Len() != 3 || c.Header().Cwd != "/project" {
		t.Fatal(err)
	}
	closeLog(t, c)
	closeLog(t, l)
	rows := threeTurns()
	rows[7] = "oops\n"
	text := head("bad")
	for _, r := range rows {
		text += r
	}
	put(t, s, "bad", text)
	_, err = s.ForkFrom("bad", session.Last, "")
	wantCode(t, err, session.Damaged)
	_, err = s.ForkFrom("bad", 8, "")
	wantCode(t, err, session.InvalidBoundary)
	c, err = s.ForkFrom("bad", 5, "good")
	if err != nil {
		t.Fatal(err)
	}
	closeLog(t, c)
	_, err = s.ForkFrom("none", session.Last, "")
	wantCode(t, err, session.NotFound)
}

// Where a file system has no hard links the child gets its name another way, and no file is written over even so.
func TestForkWithoutLinks(t *testing.T) {
	fs := sessiontest.NewFaults(func(c sessiontest.Call) *sessiontest.Fault {
		if c.Op == sessiontest.Link {
			return &sessiontest.Fault{Err: errors.ErrUnsupported}
		}
		return nil
	})
	s := sessiontest.Store(t, session.Options{FS: fs})
	l := create(t, s, "a")
	must(t, l, note("x"))
	fs.Set(func(c sessiontest.Call) *sessiontest.Fault {
		switch c.Op {
		case sessiontest.Link, sessiontest.Rename:
			return &sessiontest.Fault{Err: sessiontest.Broken}
		}
		return nil
	})
	if _, err := s.Fork(l.Header(), l.Records(), session.Last, "b"); !errors.Is(err, sessiontest.Broken) {
		t.Error(err)
	}
	if infos, err := s.List(); err != nil || len(infos) != 1 {
		t.Errorf("%v %v", infos, err)
	}
	closeLog(t, l)
}

// A fork's records name files beside its ancestors' logs.
func TestFilesDirsOfAFork(t *testing.T) {
	s := checked(t)
	dirs := func(h session.Header) string {
		var ids []string
		for _, d := range s.FilesDirs(h) {
			if filepath.Dir(d) != s.Dir() {
				t.Errorf("%s is not in the store", d)
			}
			ids = append(ids, filepath.Base(d))
		}
		return strings.Join(ids, " ")
	}
	l, err := s.Create(session.Header{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	must(t, l, start(1), end())
	b, err := s.Fork(l.Header(), l.Records(), session.Last, "b")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Fork(b.Header(), b.Records(), session.Last, "c")
	if err != nil {
		t.Fatal(err)
	}
	for h, want := range map[string]string{dirs(l.Header()): "a.files", dirs(b.Header()): "b.files a.files", dirs(c.Header()): "c.files b.files a.files"} {
		if h != want {
			t.Errorf("%q, want %q", h, want)
		}
	}
	// Headers that somebody wrote by hand lead nowhere else, and end.
	if got := dirs(session.Header{ID: "x", ParentSession: "../a"}); got != "x.files" {
		t.Errorf("%q", got)
	}
	if got := dirs(session.Header{ID: "a", ParentSession: "c"}); got != "a.files c.files b.files" {
		t.Errorf("%q", got)
	}
	if got := dirs(session.Header{ID: "x", ParentSession: "gone"}); got != "x.files gone.files" {
		t.Errorf("%q", got)
	}
	for _, l := range []*session.Log{l, b, c} {
		closeLog(t, l)
	}
}
