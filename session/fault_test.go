package session_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dshsh/session"
	"dshsh/session/sessiontest"
)

// life does everything to sessions that writes, and hands every step to try.
func life(t *testing.T, dir string, fs *sessiontest.Faults, try func(what string, step func() error)) {
	opt := session.Options{FS: fs, Validator: newTurns, Now: new(sessiontest.Clock).Now}
	s, err := session.OpenStore(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	var l *session.Log
	do := func(e session.Entry) {
		try("append "+string(e.Data), func() error {
			if l == nil {
				return errors.New("not open")
			}
			_, err := l.Append(e)
			return err
		})
	}
	shut := func() {
		try("sync", func() error { return l.Sync() })
		_ = l.Close() // the lock is gone whatever it returns
	}
	try("create", func() error {
		l, err = s.Create(session.Header{ID: "a"})
		return err
	})
	if l == nil {
		return
	}
	do(start(1))
	do(note("one"))
	try("sync", func() error { return l.Sync() })
	do(note("two"))
	shut()
	if f, err := os.OpenFile(filepath.Join(dir, "a.jsonl"), os.O_WRONLY|os.O_APPEND, 0); err == nil {
		_, _ = f.WriteString(`{"type":"torn`)
		_ = f.Close()
	}
	l = nil
	try("open", func() error {
		var lg *session.Log
		if lg, _, err = s.Open("a"); err == nil {
			l = lg
		}
		return err
	})
	if l == nil {
		return
	}
	do(start(2))
	do(end())
	var f *session.Log
	try("fork", func() error {
		var lg *session.Log
		if lg, err = s.Fork(l.Header(), l.Records(), session.Last, "b"); err == nil {
			f = lg
		}
		return err
	})
	if f != nil {
		l, f = f, l
		do(note("in the child"))
		shut()
		l = f
	}
	do(note("three"))
	shut()
	broken := filepath.Join(dir, "broken.jsonl")
	_ = os.WriteFile(broken, []byte(head("broken")+row("note", 1, "1")), 0o600)
	try("repair", func() error {
		_, err := s.Repair("broken", "")
		return err
	})
}

// contents returns the sessions of a folder as text.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, id := range []string{"a", "b", "broken", "broken.repaired"} {
		text, err := os.ReadFile(filepath.Join(dir, id+".jsonl"))
		fmt.Fprintf(&b, "%s: %v\n%s\n", id, err == nil, text)
	}
	return b.String()
}

// countWrites returns how many calls a life without faults makes that write, and what it leaves.
func countWrites(t *testing.T) (int, string) {
	t.Helper()
	dir, fs, n := t.TempDir(), sessiontest.NewFaults(nil), 0
	life(t, dir, fs, func(what string, step func() error) {
		if err := step(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	})
	for _, c := range fs.Calls() {
		if c.Op.Writes() {
			n++
		}
	}
	return n, contents(t, dir)
}

var modes = map[string]func(sessiontest.Call) sessiontest.Fault{
	"full": func(sessiontest.Call) sessiontest.Fault { return sessiontest.Fault{Err: sessiontest.Full} },
	"short": func(c sessiontest.Call) sessiontest.Fault {
		return sessiontest.Fault{Err: sessiontest.Full, Keep: c.N / 2}
	},
	"whole but failed": func(c sessiontest.Call) sessiontest.Fault {
		return sessiontest.Fault{Err: sessiontest.Broken, Keep: c.N}
	},
}

// Any one fault at any place that writes is reported, or does not matter; when the step is done again, everything is as
// if there had been none.
func TestFaultOnceAnywhere(t *testing.T) {
	total, want := countWrites(t)
	if total < 40 {
		t.Errorf("only %d calls write", total)
	}
	for mode, fault := range modes {
		for k := range total {
			dir, fs := t.TempDir(), sessiontest.NewFaults(nil)
			n, hit := 0, sessiontest.Call{}
			fs.Set(func(c sessiontest.Call) *sessiontest.Fault {
				if !c.Op.Writes() {
					return nil
				}
				if n++; n-1 != k {
					return nil
				}
				hit = c
				f := fault(c)
				return &f
			})
			life(t, dir, fs, func(what string, step func() error) {
				err := step()
				if err == nil {
					return
				}
				if hit.Op == "" {
					t.Fatalf("%s %d: %s failed before any fault: %v", mode, k, what, err)
				}
				if !strings.Contains(err.Error(), dir) {
					t.Errorf("%s %d: %s: the error names no path: %v", mode, k, what, err)
				}
				if err := step(); err != nil {
					t.Fatalf("%s %d (%s %s): %s failed again: %v", mode, k, hit.Op, hit.Path, what, err)
				}
			})
			if got := contents(t, dir); got != want {
				t.Errorf("%s %d (%s %s): got\n%s\nwant\n%s", mode, k, hit.Op, hit.Path, got, want)
			}
		}
	}
}

// The process dies at any place that writes, with any part of the write done. What it had acted on is there, and at most
// the record that was on its way beside it.
func TestDeathAnywhere(t *testing.T) {
	total, _ := countWrites(t)
	for mode, fault := range modes {
		for k := range total {
			dir, fs := t.TempDir(), sessiontest.NewFaults(nil)
			n := 0
			fs.Set(func(c sessiontest.Call) *sessiontest.Fault {
				if c.Op.Writes() {
					n++
				}
				if n <= k {
					return nil
				}
				f := sessiontest.Fault{Err: sessiontest.Broken}
				if c.Op.Writes() && n == k+1 {
					f = fault(c)
				}
				return &f
			})
			var acted, failed []string
			life(t, dir, fs, func(what string, step func() error) {
				err := step()
				if data, ok := strings.CutPrefix(what, "append "); ok {
					if err == nil {
						acted = append(acted, data)
					} else {
						failed = append(failed, data)
					}
				}
			})
			fs.Kill()
			checkAfterDeath(t, fmt.Sprintf("%s %d", mode, k), dir, acted, failed)
		}
	}
}

func checkAfterDeath(t *testing.T, what, dir string, acted, failed []string) {
	t.Helper()
	s, err := session.OpenStore(dir, session.Options{Validator: newTurns, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	infos, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, info := range infos {
		if strings.HasPrefix(info.ID, "broken") {
			continue
		}
		l, _, err := s.Open(info.ID)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		first := 0
		if n := l.Header().SeedLength; n != nil {
			first = *n
		}
		for _, r := range l.Records()[first:] {
			found[string(r.Data)]++
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, data := range acted {
		if found[data] == 0 {
			t.Errorf("%s: %s was acted on and is gone", what, data)
		}
		found[data]--
	}
	extra := 0
	for _, data := range failed {
		extra += found[data]
	}
	if extra > 1 {
		t.Errorf("%s: %d records that were never acknowledged", what, extra)
	}
	_ = os.Remove(filepath.Join(dir, "broken.jsonl"))
	sessiontest.CheckAll(t, s)
}

// A random history of appends, syncs and faults against a list in memory.
func TestModel(t *testing.T) {
	for seed := range uint64(80) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		fs := sessiontest.NewFaults(nil)
		s := sessiontest.Store(t, session.Options{FS: fs, NoSync: rnd.IntN(2) == 0})
		l := create(t, s, "a")
		var model []string
		fs.Set(func(c sessiontest.Call) *sessiontest.Fault {
			if (c.Op != sessiontest.Write && c.Op != sessiontest.Truncate && c.Op != sessiontest.Sync) || rnd.IntN(3) > 0 {
				return nil
			}
			return &sessiontest.Fault{Err: sessiontest.Full, Keep: rnd.IntN(c.N + 1)}
		})
		for i := range 60 {
			if rnd.IntN(8) == 0 {
				_ = l.Sync()
				continue
			}
			text := fmt.Sprint(i, strings.Repeat("x", rnd.IntN(200)))
			rec, err := l.Append(note(text))
			if err != nil {
				if !errors.Is(err, session.WriteFailed) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				continue
			}
			if rec.Seq != int64(len(model)) {
				t.Fatalf("seed %d: seq %d of %d", seed, rec.Seq, len(model))
			}
			model = append(model, string(rec.Data))
		}
		fs.Set(nil)
		closeLog(t, l)
		_, records, rep, err := s.Read("a")
		if err != nil || rep.Torn != nil || rep.Damaged() || len(records) != len(model) {
			t.Fatalf("seed %d: %d records of %d, %+v %v", seed, len(records), len(model), rep, err)
		}
		for i := range records {
			if string(records[i].Data) != model[i] {
				t.Fatalf("seed %d: record %d differs", seed, i)
			}
		}
	}
}

func TestR108_FailedWriteLeavesNoHalfRecord(t *testing.T) {
	fs := sessiontest.NewFaults(nil)
	s := sessiontest.Store(t, session.Options{FS: fs})
	l := create(t, s, "a")
	must(t, l, note("one"))
	fs.FailNext(sessiontest.Write, sessiontest.Fault{Err: sessiontest.Full, Keep: 20})
	_, err := l.Append(note("two"))
	wantCode(t, err, session.WriteFailed, "record 1 (note)", l.Path(), "no space left", "make room")
	if l.Len() != 1 {
		t.Error("it was committed")
	}
	// While the rest cannot be cut off, nothing follows it.
	fs.FailNext(sessiontest.Truncate, sessiontest.Fault{Err: sessiontest.Broken})
	_, err = l.Append(note("two"))
	wantCode(t, err, session.WriteFailed, "could not be cut off", "/fork")
	if text := read(t, l.Path()); strings.Count(text, "\n") != 2 {
		t.Errorf("%q", text)
	}
	must(t, l, note("two"), note("three"))
	closeLog(t, l)
	if text := read(t, l.Path()); strings.Count(text, "\n") != 4 || strings.Count(text, `"two"`) != 1 {
		t.Errorf("%q", text)
	}
}

func TestCloseCutsWhatAFailedWriteLeft(t *testing.T) {
	fs := sessiontest.NewFaults(nil)
	s := sessiontest.Store(t, session.Options{FS: fs})
	l := create(t, s, "a")
	fs.FailNext(sessiontest.Write, sessiontest.Fault{Err: sessiontest.Full, Keep: 20})
	if _, err := l.Append(note("one")); err == nil {
		t.Fatal("no error")
	}
	closeLog(t, l)
}

// R109, the log's part: with a full disk at the start, what is there can be shown, and nothing is harmed.
func TestR109_FullDiskAtTheStart(t *testing.T) {
	fs := sessiontest.NewFaults(nil)
	s := openStore(t, session.Options{FS: fs, Validator: newTurns})
	l := create(t, s, "a")
	must(t, l, start(1), note("one"))
	closeLog(t, l)
	write(t, l.Path(), read(t, l.Path())+`{"ty`)
	before := read(t, l.Path())
	fs.Set(func(c sessiontest.Call) *sessiontest.Fault {
		if c.Op == sessiontest.Write || c.Op == sessiontest.Create {
			return &sessiontest.Fault{Err: sessiontest.Full}
		}
		return nil
	})
	_, _, err := s.Open("a")
	if !errors.Is(err, sessiontest.Full) || !strings.Contains(err.Error(), "session show a") {
		t.Error(err)
	}
	if _, err := s.Create(session.Header{}); !errors.Is(err, sessiontest.Full) {
		t.Error(err)
	}
	_, records, _, err := s.Read("a")
	if err != nil || len(records) != 2 || read(t, l.Path()) != before {
		t.Errorf("%d records, %v", len(records), err)
	}
	if infos, err := s.List(); err != nil || len(infos) != 1 {
		t.Errorf("%v %v", infos, err)
	}
	fs.Set(nil)
	l, _ = reopen(t, s, "a")
	closeLog(t, l)
}

// Whoever swaps, cuts or removes the file under an open log, it is noticed before anything is written.
func TestChangedFile(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"appended": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("x")
			return errors.Join(err, f.Close())
		},
		"cut":     func(path string) error { return os.Truncate(path, 10) },
		"removed": os.Remove,
		"swapped": func(path string) error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+"~", b, 0o600), os.Rename(path+"~", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, session.Options{NoSync: true})
			l := create(t, s, "a")
			must(t, l, note("one"))
			if err := change(l.Path()); err != nil {
				t.Fatal(err)
			}
			after, _ := os.ReadFile(l.Path())
			for range 2 {
				_, err := l.Append(note("two"))
				wantCode(t, err, session.Changed, l.Path(), "/fork")
			}
			if now, _ := os.ReadFile(l.Path()); !bytes.Equal(now, after) {
				t.Error("it wrote all the same")
			}
			f, err := s.Fork(l.Header(), l.Records(), session.Last, "")
			if err != nil || string(f.Records()[0].Data) != `"one"` {
				t.Fatal(err)
			}
			closeLog(t, f)
			_ = l.Close()
		})
	}
}
