package session_test

import (
	"errors"
	"os"
	"testing"

	"dshsh/session"
)

func TestDiscard_LeavesNothingAndFreesTheID(t *testing.T) {
	s := checked(t)
	l := create(t, s, "gone")
	must(t, l, start(1))
	if err := l.Discard(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(end()); !errors.Is(err, session.Closed) {
		t.Errorf("appended: %v", err)
	}
	entries, err := os.ReadDir(s.Dir())
	for _, e := range entries {
		if e.Name() != ".new" {
			t.Errorf("%s is left", e.Name())
		}
	}
	if err != nil {
		t.Error(err)
	}
	closeLog(t, create(t, s, "gone"))
	if err := session.Memory(session.Header{}, session.Options{}).Discard(); err != nil {
		t.Error(err)
	}
}

func TestB216_ForkInMemory(t *testing.T) {
	l := session.Memory(session.Header{ID: "parent", Cwd: "/work"}, session.Options{Validator: newTurns})
	must(t, l, start(1), note("x"), end(), start(2))
	opt := session.Options{Validator: newTurns}
	c, err := session.MemoryFork(l.Header(), l.Records(), 2, "c", opt)
	if err != nil {
		t.Fatal(err)
	}
	h := c.Header()
	if h.ID != "c" || h.Cwd != "/work" || h.ParentSession != "parent" || *h.SeedLength != 3 || c.Len() != 4 || c.FirstLive() != 3 {
		t.Errorf("%+v, %d records", h, c.Len())
	}
	must(t, c, start(2), end())
	if l.Len() != 4 {
		t.Error("the parent changed")
	}
	if _, err := session.MemoryFork(l.Header(), l.Records(), session.Last, "", opt); !errors.Is(err, session.OpenTurn) {
		t.Error(err)
	}
	if _, err := session.MemoryFork(l.Header(), l.Records(), 4, "", opt); !errors.Is(err, session.InvalidBoundary) {
		t.Error(err)
	}
}
