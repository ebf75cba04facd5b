package session_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dshsh/session"
	"dshsh/session/sessiontest"
)

func TestList(t *testing.T) {
	clock := &sessiontest.Clock{Step: time.Second}
	s := sessiontest.Store(t, session.Options{Now: clock.Now, Validator: newTurns})
	first, second, third := create(t, s, "zz"), create(t, s, "mm"), create(t, s, "aa")
	must(t, third, note("x"))
	must(t, first, start(1), note("newest"))
	closeLog(t, second)
	closeLog(t, first)
	infos, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range infos {
		got = append(got, fmt.Sprintf("%s %d %v %v %q", i.ID, i.Records, i.Holder != nil, i.Scanned, i.Warning))
		if i.Header.Cwd != "/project" || i.Size == 0 || i.Path == "" || i.Updated < i.Header.CreatedAt {
			t.Errorf("%+v", i)
		}
	}
	want := "zz 2 false true \"\"\naa 1 true true \"\"\nmm 0 false true \"\""
	if g := strings.Join(got, "\n"); g != want {
		t.Errorf("got\n%s\nwant\n%s", g, want)
	}
	if infos[0].Updated != first.Records()[1].Time {
		t.Error("not the last record's time")
	}
	closeLog(t, third)
}

func TestNewest(t *testing.T) {
	clock := &sessiontest.Clock{Step: time.Second}
	s := sessiontest.Store(t, session.Options{Now: clock.Now})
	_, err := s.Newest("")
	wantCode(t, err, session.NotFound)
	for _, h := range []session.Header{{ID: "a", Cwd: "/one"}, {ID: "b", Cwd: "/two"}, {ID: "c", Cwd: "/one", Origin: "subagent"}} {
		l, err := s.Create(h)
		if err != nil {
			t.Fatal(err)
		}
		must(t, l, note("x"))
		closeLog(t, l)
	}
	for cwd, want := range map[string]string{"/one": "a", "/two": "b", "": "b"} {
		if info, err := s.Newest(cwd); err != nil || info.ID != want {
			t.Errorf("%s: %s %v", cwd, info.ID, err)
		}
	}
	_, err = s.Newest("/three")
	wantCode(t, err, session.NotFound, "/three")
}

func TestResolve(t *testing.T) {
	s := openStore(t, session.Options{NoSync: true})
	for _, id := range []string{"abc1", "abd2", "abd", "x.repaired"} {
		closeLog(t, create(t, s, id))
	}
	for partial, want := range map[string]string{"abc": "abc1", "abd": "abd", "c1": "abc1", "2": "abd2", "x": "x.repaired"} {
		if id, err := s.Resolve(partial); err != nil || id != want {
			t.Errorf("%s: %s %v", partial, id, err)
		}
	}
	_, err := s.Resolve("ab")
	wantCode(t, err, session.NotFound, "abd2, abd, abc1")
	_, err = s.Resolve("zzz")
	wantCode(t, err, session.NotFound)
	_, err = s.Resolve("../abc")
	wantCode(t, err, session.InvalidID)
}

// Nothing in the folder is left out, and nothing that is no log makes the list fail or hang.
func TestListOddThings(t *testing.T) {
	s := openStore(t, session.Options{NoSync: true})
	put(t, s, "empty", "")
	put(t, s, "no id", head("no id"))
	put(t, s, "newer", `{"version":9,"id":"newer","createdAt":1}`+"\n")
	put(t, s, "copy", head("other"))
	put(t, s, "torn", head("torn")+row("note", 0, "1")+`{"ty`)
	put(t, s, "tornheader", head("tornheader")+`{"ty`)
	put(t, s, "binary", strings.Repeat("\x00\x01\xff", 50_000))
	put(t, s, "longheader", `{"version":0,"id":"longheader","createdAt":1,"cwd":"`+strings.Repeat("d", 200_000)+`"}`+"\n")
	if err := os.Mkdir(filepath.Join(s.Dir(), "dir.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := 9
	if makeFIFO != nil { // opening one would wait for a writer
		want += 2
		if err := errors.Join(makeFIFO(filepath.Join(s.Dir(), "fifo.jsonl")), os.Symlink("nowhere", filepath.Join(s.Dir(), "dangling.jsonl"))); err != nil {
			t.Fatal(err)
		}
	}
	infos, err := s.List()
	if err != nil || len(infos) != want {
		t.Fatalf("%d listed, %v", len(infos), err)
	}
	for _, info := range infos {
		if (info.Warning == "") != (info.ID == "longheader") {
			t.Errorf("%s: warning %q", info.ID, info.Warning)
		}
	}
	for _, id := range []string{"dir", "fifo", "dangling"} {
		if _, _, err := s.Open(id); err == nil {
			t.Errorf("%s opens", id)
		}
		if _, _, _, err := s.Read(id); err == nil {
			t.Errorf("%s can be read", id)
		}
	}
	if _, err := s.Newest("/project"); err == nil {
		t.Error("a broken session is the newest of a folder")
	}
}

// The list does not read all of large files.
func TestListIsCheap(t *testing.T) {
	bytes := map[string]int{}
	fs := sessiontest.NewFaults(nil)
	s := openStore(t, session.Options{FS: fs, NoSync: true})
	big := strings.Repeat("x", 9<<20)
	put(t, s, "big", head("big")+row("note", 0, `"`+big+`"`)+row("note", 1, `"`+big[:100_000]+`"`))
	put(t, s, "huge", head("huge")+row("note", 0, `"`+big+`"`))
	for i := range 60 {
		put(t, s, fmt.Sprint("s", i), head(fmt.Sprint("s", i))+row("note", 0, `"`+big[:1<<20]+`"`)+row("note", 1, "1"))
	}
	fs.Set(func(c sessiontest.Call) *sessiontest.Fault {
		if c.Op == sessiontest.Read {
			bytes[filepath.Base(c.Path)] += c.N
		}
		return nil
	})
	infos, err := s.List()
	if err != nil || len(infos) != 62 {
		t.Fatal(err)
	}
	total, scanned := 0, 0
	for _, n := range bytes {
		total += n
	}
	for _, info := range infos {
		if info.Scanned {
			scanned++
		}
		want := 2
		if info.ID == "huge" { // its only record is longer than what a list reads
			want = -1
		}
		if info.Records != want || info.Warning != "" {
			t.Errorf("%s: %d records, warning %q", info.ID, info.Records, info.Warning)
		}
	}
	if total > 40<<20 || bytes["big.jsonl"] > 5<<18 || bytes["huge.jsonl"] > 5<<18 || scanned < 20 || scanned > 40 {
		t.Errorf("%d bytes read, %d of big, %d of huge; %d scanned", total, bytes["big.jsonl"], bytes["huge.jsonl"], scanned)
	}
}

func TestPeek(t *testing.T) {
	s := openStore(t, session.Options{NoSync: true})
	l := create(t, s, "a")
	must(t, l, note("first"), note("second"))
	head, tail, err := s.Peek("a")
	if err != nil || len(head) != 2 || len(tail) != 0 {
		t.Errorf("%d %d %v", len(head), len(tail), err)
	}
	for range 200 {
		must(t, l, note(strings.Repeat("x", 1000)))
	}
	must(t, l, note("last"))
	head, tail, err = s.Peek("a")
	if err != nil || string(head[0].Data) != `"first"` || string(tail[len(tail)-1].Data) != `"last"` || head[len(head)-1].Seq >= tail[0].Seq {
		t.Errorf("%d %d %v", len(head), len(tail), err)
	}
	must(t, l, note(strings.Repeat("y", 200_000)))
	if head, tail, err = s.Peek("a"); err != nil || len(head) == 0 || len(tail) != 0 {
		t.Errorf("%d %d %v", len(head), len(tail), err)
	}
	closeLog(t, l)
	_, _, err = s.Peek("none")
	wantCode(t, err, session.NotFound)
}

// What a process left that died while it made a session is swept by the next that makes one, and not before its owner
// can have locked it.
func TestSweep(t *testing.T) {
	s := openStore(t, session.Options{NoSync: true})
	closeLog(t, create(t, s, "a"))
	stale, young := filepath.Join(s.Dir(), ".new", "stale"), filepath.Join(s.Dir(), ".new", "young")
	write(t, stale, "x")
	write(t, young, "x")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	closeLog(t, create(t, s, "b"))
	if _, err := os.Stat(stale); err == nil {
		t.Error("the stale file is there")
	}
	if _, err := os.Stat(young); err != nil {
		t.Error("the young file is gone")
	}
}
