package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"dshsh/session"
	"dshsh/session/sessiontest"
)

// golden writes a log with all kinds of lines and returns its text.
func golden(t testing.TB) string {
	t.Helper()
	s := checked(t)
	l := create(t, s, "g")
	must(t, l, start(1), session.Entry{Type: "user/message", Data: json.RawMessage(`{"text":"häß\n{\"x\":1}"}`), SurfaceOp: &session.SurfaceOp{}},
		session.Entry{Type: "my/x", Data: json.RawMessage(`[[],{},-0.5e+3,null]`), Ignorable: true},
		session.Entry{Type: "assistant/message", Data: json.RawMessage(`""`), SurfaceOp: &session.SurfaceOp{Replace: true, Start: 1, End: 2}, SourceEventSeqs: []int64{2, 1}},
		end(), start(2), note(strings.Repeat("x", 40)), end())
	closeLog(t, l)
	l, _ = reopen(t, s, "g")
	must(t, l, start(3), note("open"))
	closeLog(t, l)
	return read(t, l.Path())
}

// Every prefix of a log is what a crash can leave. It opens to the longest whole prefix.
func TestEveryPrefix(t *testing.T) {
	whole := golden(t)
	header := strings.IndexByte(whole, '\n') + 1
	s := sessiontest.Store(t, session.Options{Validator: newTurns})
	_, all, _, err := func() (session.Header, []session.Record, *session.Report, error) {
		put(t, s, "g", whole)
		return s.Read("g")
	}()
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(s.Dir(), "g.jsonl"))
	for cut := header; cut <= len(whole); cut++ {
		id := fmt.Sprint("p", cut)
		put(t, s, id, whole[:cut])
		n := strings.Count(whole[:cut], "\n") - 1
		torn := cut - strings.LastIndexByte(whole[:cut], '\n') - 1
		_, records, rep, err := s.Read(id)
		if err != nil || len(records) != n || rep.Damaged() || (rep.Torn != nil) != (torn > 0) {
			t.Fatalf("cut at %d: read %d of %d records, %+v, %v", cut, len(records), n, rep, err)
		}
		l, rep, err := s.Open(id)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		sameRecords(t, id, l.Records()[:n], all[:n])
		if torn > 0 {
			if rep.Torn.Bytes != int64(torn) || rep.Torn.Line != n+2 || read(t, rep.Torn.SavedAs) != whole[cut-torn:cut] {
				t.Fatalf("cut at %d: %+v", cut, rep.Torn)
			}
		} else if rep.Torn != nil {
			t.Fatalf("cut at %d: %+v", cut, rep.Torn)
		}
		must(t, l, note("on"))
		closeLog(t, l)
		again, rep, err := s.Open(id)
		if err != nil || rep.Torn != nil {
			t.Fatalf("cut at %d, opened again: %+v %v", cut, rep, err)
		}
		sameRecords(t, id, again.Records()[:l.Len()], l.Records())
		closeLog(t, again)
		if cut%16 != 0 { // the store's own check at the end takes a sample
			_ = os.Remove(again.Path())
		}
	}
}

// Without a whole header there is no session: the file is left as it is, listed, and repair makes one.
func TestHeaderCut(t *testing.T) {
	whole := golden(t)
	s := openStore(t, session.Options{Validator: newTurns, NoSync: true})
	for cut := range strings.IndexByte(whole, '\n') + 1 {
		id := fmt.Sprint("h", cut)
		put(t, s, id, whole[:cut])
		_, _, err := s.Open(id)
		wantCode(t, err, session.Damaged, ":1: the header is")
		if read(t, filepath.Join(s.Dir(), id+".jsonl")) != whole[:cut] {
			t.Fatal("it was changed")
		}
		m, err := s.Repair(id, "")
		if err != nil || m.Records != 0 {
			t.Fatalf("%+v %v", m, err)
		}
		l, _ := reopen(t, s, m.ID)
		closeLog(t, l)
	}
	infos, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		if (info.Warning == "") != strings.HasSuffix(info.ID, ".repaired") {
			t.Errorf("%s: warning %q", info.ID, info.Warning)
		}
	}
}

func TestTornTails(t *testing.T) {
	whole := golden(t)
	n := strings.Count(whole, "\n") - 1
	for name, tail := range map[string]string{
		"half a line":         `{"type":"note","seq":11,"time":1,"da`,
		"whole but newline":   `{"type":"note","seq":11,"time":1,"data":{}}`,
		"zero bytes":          strings.Repeat("\x00", 4096),
		"zeros and newlines":  "\x00\x00\n\x00\n\n\x00",
		"blank lines":         "\n\n",
		"garbage":             "\xff\xfe\n{{{\n",
		"half lines":          "{\"type\":\n{\"type\":\"no",
		"line cut by newline": "{\"type\":\"note\",\"seq\":11,\"time\":1,\"data\":{}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := sessiontest.Store(t, session.Options{Validator: newTurns})
			put(t, s, "a", whole+tail)
			l, rep := reopen(t, s, "a")
			if l.FirstLive() != n+2 || rep.Torn == nil || rep.Torn.Offset != int64(len(whole)) || read(t, rep.Torn.SavedAs) != tail {
				t.Errorf("first live %d, %+v", l.FirstLive(), rep)
			}
			closeLog(t, l)
			// The next one gets a file of its own, the same one does not.
			write(t, l.Path(), read(t, l.Path())+"x")
			l, rep = reopen(t, s, "a")
			closeLog(t, l)
			if rep.Torn.SavedAs != filepath.Join(s.Dir(), "a.torn.2") {
				t.Error(rep.Torn.SavedAs)
			}
			write(t, l.Path(), read(t, l.Path())+tail)
			l, rep = reopen(t, s, "a")
			closeLog(t, l)
			if rep.Torn.SavedAs != filepath.Join(s.Dir(), "a.torn") {
				t.Error(rep.Torn.SavedAs)
			}
		})
	}
}

func row(typ string, seq int, data string) string {
	return fmt.Sprintf(`{"type":%q,"seq":%d,"time":%d,"data":%s}`, typ, seq, 1000+seq, data) + "\n"
}

func head(id string) string { return fmt.Sprintf(`{"version":0,"id":%q,"createdAt":1}`, id) + "\n" }

// whole is a log of three turns with a note in each: records 0 to 8 on the lines 2 to 10.
func threeTurns() []string {
	var rows []string
	for turn := 1; turn <= 3; turn++ {
		rows = append(rows, row("turn/start", len(rows), fmt.Sprintf(`{"turn":%d}`, turn)))
		rows = append(rows, row("note", len(rows), fmt.Sprintf(`"%d"`, turn)))
		rows = append(rows, row("turn/end", len(rows), `{}`))
	}
	return rows
}

func TestR110_DamagedSessions(t *testing.T) {
	rows := threeTurns()
	without := func(i int) string { return strings.Join(append(append([]string{}, rows[:i]...), rows[i+1:]...), "") }
	with := func(i int, text string) string {
		r := append([]string{}, rows...)
		r[i] = text
		return strings.Join(r, "")
	}
	for _, tc := range []struct {
		name, text string
		line       int    // that is named
		says       string // about it
		problems   int
		records    int // in the mended copy
		lost       int
	}{
		{"line deleted", head("a") + without(4), 6, "record 4 is missing", 1, 9, 1},
		{"lines deleted", head("a") + strings.Join(rows[:1], "") + strings.Join(rows[3:], ""), 3, "records 1 to 2 are missing", 1, 9, 2},
		{"line doubled", head("a") + with(4, rows[4]+rows[4]), 7, "seq 4 where 5 must stand: it is there twice", 1, 9, 0},
		{"last line doubled", head("a") + with(8, rows[8]+rows[8]), 11, "it is there twice", 1, 9, 0},
		{"two swapped", head("a") + strings.Join(rows[:4], "") + rows[5] + rows[4] + strings.Join(rows[6:], ""), 6, "record 4 is missing", 2, 9, 0},
		{"two different for one", head("a") + with(4, rows[4]+row("note", 4, `"other"`)), 7, "it is there twice", 1, 9, 0},
		{"unknown newer type", head("a") + with(4, row("new/thing", 4, `{"k":1}`)), 6, "unknown type", 1, 9, 0},
		{"header missing", strings.Join(rows, ""), 1, "the header is missing", 1, 9, 0},
		{"header damaged", "{\"version\n" + strings.Join(rows, ""), 1, "the header is damaged", 1, 9, 0},
		{"header incomplete", "{\"version\":0}\n" + strings.Join(rows, ""), 1, "a header needs id, createdAt", 1, 9, 0},
		{"line damaged", head("a") + with(4, "\x00\x00\x00\n"), 6, "3 zero bytes", 2, 9, 1},
		{"line blank", head("a") + with(4, rows[4]+"\n"), 7, "not a whole line of JSON: it is empty", 1, 9, 0},
		{"line cut", head("a") + with(4, `{"type":"note","se`+"\n"), 6, "not a whole line of JSON", 2, 9, 1},
		{"line not ours", head("a") + with(4, `{"hello":1}`+"\n"), 6, "hello: a record has no such field", 2, 9, 1},
		{"last line not ours", head("a") + strings.Join(rows, "") + `[1]` + "\n", 11, "it is not an object", 1, 9, 0},
		{"seq far off", head("a") + with(4, row("note", 700, `"2"`)), 6, "records 4 to 699 are missing", 5, 9, 1},
		{"refused", head("a") + with(3, row("turn/start", 3, `{"turn":7}`)), 5, "turn 7 where 2 must begin", 1, 9, 1},
		{"bad envelope", head("a") + with(4, `{"type":"note","seq":4,"time":1,"data":1,"surfaceOp":"append","sourceEventSeqs":[9]}`+"\n"), 6, "not before record 4", 1, 9, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := openStore(t, session.Options{Validator: newTurns, NoSync: true})
			put(t, s, "a", tc.text)
			path := filepath.Join(s.Dir(), "a.jsonl")

			infos, err := s.List()
			if err != nil || len(infos) != 1 {
				t.Fatalf("it vanished from the list: %v %v", infos, err)
			}
			// Only what the validator or a line's inside would say takes more than a list can afford.
			if infos[0].Warning == "" && tc.name != "unknown newer type" && tc.name != "refused" && tc.name != "bad envelope" {
				t.Error("listed without a warning")
			}
			_, rep, err := s.Open("a")
			wantCode(t, err, session.Damaged, fmt.Sprintf("a.jsonl:%d: ", tc.line), tc.says)
			if len(rep.Problems) != tc.problems || rep.Problems[0].Line != tc.line {
				t.Errorf("%d problems: %+v", len(rep.Problems), rep.Problems)
			}
			if _, _, err := s.Open("a"); !errors.Is(err, session.Damaged) {
				t.Error("a refused open keeps the lock:", err)
			}
			_, records, _, err := s.Read("a")
			if err != nil || len(records) < 7 {
				t.Errorf("it does not open read-only: %d records, %v", len(records), err)
			}

			m, err := s.Repair("a", "")
			if err != nil {
				t.Fatal(err)
			}
			if read(t, path) != tc.text {
				t.Error("repair changed the original")
			}
			if m.Records != tc.records || m.Lost != tc.lost || len(m.Changes) == 0 || m.ID != "a.repaired" {
				t.Errorf("%+v", m)
			}
			fixed, err := s.Check("a.repaired")
			if err != nil || fixed.Damaged() || fixed.Torn != nil || len(fixed.Warnings) > 0 {
				t.Errorf("the mended copy: %+v %v", fixed, err)
			}
			l, _ := reopen(t, s, "a.repaired")
			if l.ID() != "a.repaired" || l.FirstLive() < tc.records {
				t.Errorf("%+v", l.Header())
			}
			closeLog(t, l)
		})
	}
}

func TestRepairKeepsUnknownEvents(t *testing.T) {
	s := openStore(t, session.Options{Validator: newTurns, NoSync: true})
	rows := threeTurns()
	rows[4] = row("new/thing", 4, `{"k":[1, 2]}`)
	put(t, s, "a", head("a")+strings.Join(rows, ""))
	m, err := s.Repair("a", "")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSuffix(rows[4], "}\n") + `,"ignorable":true}`
	if got := strings.Split(read(t, m.Path), "\n")[5]; got != want {
		t.Errorf("got %s want %s", got, want)
	}
}

func TestRepairOutput(t *testing.T) {
	s := openStore(t, session.Options{Validator: newTurns, NoSync: true})
	put(t, s, "ok", head("ok")+strings.Join(threeTurns(), ""))
	m, err := s.Repair("ok", "")
	if err != nil || m.Path != "" || m.Report.Damaged() {
		t.Errorf("nothing to mend: %+v %v", m, err)
	}
	put(t, s, "bad", head("bad")+strings.Join(threeTurns()[1:], "")+"torn")
	for i, want := range []string{"bad.repaired", "bad.repaired-2", "bad.repaired-3"} {
		m, err := s.Repair("bad", "")
		if err != nil || m.ID != want {
			t.Errorf("%d: %+v %v", i, m, err)
		}
	}
	out := filepath.Join(t.TempDir(), "mended.jsonl")
	if m, err = s.Repair("bad", out); err != nil || m.Path != out {
		t.Errorf("%+v %v", m, err)
	}
	rep, err := session.CheckFile(out, session.Options{Validator: newTurns})
	if err != nil || rep.Damaged() {
		t.Errorf("%+v %v", rep, err)
	}
	for _, taken := range []string{out, filepath.Join(s.Dir(), "bad.jsonl")} {
		_, err = s.Repair("bad", taken)
		wantCode(t, err, session.Exists, "another file")
	}
	_, err = s.Repair("none", "")
	wantCode(t, err, session.NotFound)
	put(t, s, "newer", `{"version":3,"id":"newer","createdAt":1}`+"\n")
	_, err = s.Repair("newer", "")
	wantCode(t, err, session.Newer)
	_, _, err = s.Open("newer")
	wantCode(t, err, session.Newer, "version is 3")
}

func TestCheckNamesEachDamagedLine(t *testing.T) {
	s := openStore(t, session.Options{NoSync: true})
	rows := threeTurns()
	rows[2], rows[6] = "oops\n", "{}\n"
	put(t, s, "a", head("a")+strings.Join(rows, "")+"tail")
	rep, err := s.Check("a")
	if err != nil {
		t.Fatal(err)
	}
	var named []int
	for _, p := range rep.Problems {
		named = append(named, p.Line)
		if at := read(t, rep.Path)[p.Offset:]; !strings.HasPrefix(at, rows[p.Line-2]) {
			t.Errorf("line %d is not at %d", p.Line, p.Offset)
		}
	}
	if fmt.Sprint(named) != "[4 5 8 9]" || rep.Torn.Line != 11 || rep.Records != 7 || rep.Whole != 2 {
		t.Errorf("%v, %+v", named, rep)
	}
	// However many lines are bad, the report stays of a size to be read.
	put(t, s, "b", head("b")+strings.Repeat("[]\n", 5000)+rows[0])
	rep, err = s.Check("b")
	if err != nil || len(rep.Problems) != 1000 || rep.More != 4000 {
		t.Errorf("%d problems and %d more, %v", len(rep.Problems), rep.More, err)
	}
	put(t, s, "c", head("c")+strings.Join(threeTurns()[:2], ""))
	s, _ = session.OpenStore(s.Dir(), session.Options{Validator: newTurns})
	if rep, err = s.Check("c"); err != nil || rep.Closers != 2 || rep.Damaged() {
		t.Errorf("%+v %v", rep, err)
	}
}

// However bad a file is, taking it apart is linear in its size and needs memory in proportion.
func TestLoadIsLinear(t *testing.T) {
	var gaps, orphans strings.Builder
	for i := range 30_000 {
		gaps.WriteString(row("note", 2*i, "1"))
	}
	for i := range 30_000 {
		gaps.WriteString(row("note", 59_999-2*i, "1"))
		orphans.WriteString(row("note", 1_000_000_000*(i+1), "1"))
	}
	for name, text := range map[string]string{
		"newlines":         head("a") + strings.Repeat("\n", 4<<20),
		"newlines, record": head("a") + strings.Repeat("\n", 4<<20) + row("note", 0, "1"),
		"all interleaved":  head("a") + gaps.String(),
		"far off":          head("a") + orphans.String(),
		"no newline":       head("a") + strings.Repeat("[", 4<<20),
		"one long string":  head("a") + row("note", 0, `"`+strings.Repeat("\\\\", 2<<20)+`"`),
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, session.Options{NoSync: true})
			put(t, s, "a", text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			rep, err := s.Check("a")
			if err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(80*len(text)+(1<<20)); got > limit {
				t.Errorf("%d bytes allocated for %d", got, len(text))
			}
			if len(rep.Problems) > 1000 {
				t.Errorf("%d problems", len(rep.Problems))
			}
			if m, err := s.Repair("a", ""); err != nil {
				t.Error(err)
			} else if m.ID != "" {
				l, _ := reopen(t, s, m.ID)
				closeLog(t, l)
			}
		})
	}
}

func TestR111_LongLines(t *testing.T) {
	s := sessiontest.Store(t, session.Options{})
	l := create(t, s, "a")
	sizes := []int{65_535, 65_536, 70_000, 12 << 20}
	for _, n := range sizes {
		must(t, l, note(strings.Repeat("x", n)))
	}
	closeLog(t, l)
	l, _ = reopen(t, s, "a")
	for i, n := range sizes {
		if got := len(l.Records()[i].Data); got != n+2 {
			t.Errorf("record %d has %d bytes", i, got)
		}
	}
	closeLog(t, l)
	if infos, err := s.List(); err != nil || infos[0].Records != 5 || infos[0].Warning != "" {
		t.Errorf("%+v %v", infos, err)
	}
}

// A copy under another name is a session of that name.
func TestCopiedFile(t *testing.T) {
	s := openStore(t, session.Options{NoSync: true})
	put(t, s, "b", head("a")+row("note", 0, "1"))
	l, rep := reopen(t, s, "b")
	if l.ID() != "b" || l.Header().ID != "b" || len(rep.Warnings) != 1 {
		t.Errorf("%+v %+v", l.Header(), rep)
	}
	closeLog(t, l)
}
