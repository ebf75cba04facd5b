package session_test

import (
	"encoding/json"
	"testing"

	"dshsh/session"
)

func TestSmoke(t *testing.T) {
	s, err := session.OpenStore(t.TempDir(), session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Create(session.Header{Cwd: "/x"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Append(session.Entry{Type: "a/b", Data: json.RawMessage(`{"x":1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, rep, err := s.Open(l.ID())
	t.Logf("%+v", rep)
	if err != nil {
		t.Fatal(err)
	}
	if l.Len() != 4 || l.FirstLive() != 3 {
		t.Fatal(l.Len(), l.FirstLive())
	}
	_, _, err = s.Open(l.ID())
	t.Log(err)
	l.Close()
}
