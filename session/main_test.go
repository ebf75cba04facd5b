package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"dshsh/session"
	"dshsh/session/sessiontest"
)

func TestMain(m *testing.M) {
	if cmd := os.Getenv("SESSION_TEST_CHILD"); cmd != "" && child != nil {
		os.Exit(child(cmd))
	}
	goleak.VerifyTestMain(m)
}

// What the tests of a system with processes and pipes in its file system set.
var (
	child    func(cmd string) int    // what the test binary does as a second process
	makeFIFO func(path string) error // nil: there are none
)

// turns is a small validator: a turn opens with turn/start {turn:N}, closes with turn/end, and N counts up. Types that it
// does not know must be ignorable.
type turns struct {
	open   bool
	hole   bool // records are missing here: take up the thread where it is offered
	last   int
	checks int
	seen   []session.Record
}

func newTurns() session.Validator { return &turns{} }

func (v *turns) Check(r session.Record) error {
	v.checks++
	var d struct{ Turn int }
	switch r.Type {
	case "turn/start":
		if err := json.Unmarshal(r.Data, &d); err != nil {
			return err
		}
		if v.open && !v.hole {
			return errors.New("a turn is open")
		}
		if d.Turn != v.last+1 && !(v.hole && d.Turn > v.last) {
			return fmt.Errorf("turn %d where %d must begin", d.Turn, v.last+1)
		}
	case "turn/end":
		if !v.open && !v.hole {
			return errors.New("no turn is open")
		}
	case "note", "user/message", "assistant/message", session.EndSeed:
	default:
		if !r.Ignorable {
			return errors.New("unknown type")
		}
	}
	return nil
}

func (v *turns) Commit(r session.Record) {
	switch r.Type {
	case "turn/start":
		var d struct{ Turn int }
		_ = json.Unmarshal(r.Data, &d)
		v.open, v.hole, v.last = true, false, d.Turn
	case "turn/end":
		v.open = false
	case session.LostRecord:
		v.hole = true
	}
	v.seen = append(v.seen, r)
}

func (v *turns) Closers() []session.Entry {
	if !v.open {
		return nil
	}
	return []session.Entry{{Type: "note", Data: json.RawMessage(`"cut"`)}, {Type: "turn/end", Data: json.RawMessage(`{"reason":{"kind":"interrupted"}}`)}}
}

func (v *turns) Closed() bool { return !v.open }

// entry makes an entry; data is JSON.
func entry(typ, data string) session.Entry {
	return session.Entry{Type: typ, Data: json.RawMessage(data)}
}

func start(turn int) session.Entry { return entry("turn/start", fmt.Sprintf(`{"turn":%d}`, turn)) }
func end() session.Entry           { return entry("turn/end", `{"reason":{"kind":"completed"}}`) }
func note(text string) session.Entry {
	b, _ := json.Marshal(text)
	return entry("note", string(b))
}

// must appends entries that have to be taken.
func must(t testing.TB, l *session.Log, entries ...session.Entry) {
	t.Helper()
	for _, e := range entries {
		if _, err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
}

func openStore(t testing.TB, opt session.Options) *session.Store {
	t.Helper()
	s, err := session.OpenStore(t.TempDir(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t testing.TB, s *session.Store, id string) *session.Log {
	t.Helper()
	l, err := s.Create(session.Header{ID: id, Cwd: "/project"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func reopen(t testing.TB, s *session.Store, id string) (*session.Log, *session.Report) {
	t.Helper()
	l, rep, err := s.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, rep
}

func closeLog(t testing.TB, l *session.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// put makes a session of a file's text.
func put(t testing.TB, s *session.Store, id, text string) {
	t.Helper()
	write(t, filepath.Join(s.Dir(), id+".jsonl"), text)
}

// lines renders records as the log has them.
func lines(t testing.TB, records []session.Record) []string {
	t.Helper()
	var out []string
	for _, r := range records {
		b, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

func sameRecords(t testing.TB, what string, got, want []session.Record) {
	t.Helper()
	if g, w := lines(t, got), lines(t, want); !slices.Equal(g, w) {
		t.Fatalf("%s: got\n  %s\nwant\n  %s", what, strings.Join(g, "\n  "), strings.Join(w, "\n  "))
	}
}

func wantCode(t testing.TB, err error, code session.Code, words ...string) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("got error %v, want %s", err, string(code))
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// checked is a store with the toy validator and a clock that stands still, checked when the test ends.
func checked(t testing.TB) *session.Store {
	return sessiontest.Store(t, session.Options{Validator: newTurns, Now: new(sessiontest.Clock).Now})
}
