package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dshsh/session"
	"dshsh/session/sessiontest"
)

func TestB188_Envelope(t *testing.T) {
	clock := &sessiontest.Clock{Step: time.Second}
	s := sessiontest.Store(t, session.Options{Now: clock.Now})
	l := create(t, s, "a")
	data := []byte(`{"text":"<ä>"}`)
	first, err := l.Append(session.Entry{Type: "user/message", Data: data, SurfaceOp: &session.SurfaceOp{}})
	if err != nil {
		t.Fatal(err)
	}
	copy(data, `{"TEXT"`) // what was handed over is not what is kept
	must(t, l, session.Entry{Type: "my/x", Data: json.RawMessage(`null`), Ignorable: true})
	must(t, l, session.Entry{
		Type: "assistant/message", Data: json.RawMessage(" [1,\n\t2]\r\n"),
		SurfaceOp: &session.SurfaceOp{Replace: true, Start: 0, End: 1}, SourceEventSeqs: []int64{1, 0},
	})
	must(t, l, session.Entry{Type: "assistant/message", Data: json.RawMessage(`""`), SurfaceOp: &session.SurfaceOp{}, SourceEventSeqs: []int64{}})
	if first.Seq != 0 || first.Time == 0 || string(first.Data) != `{"text":"<ä>"}` {
		t.Errorf("first record: %+v", first)
	}
	closeLog(t, l)
	want := `{"version":0,"id":"a","createdAt":T,"cwd":"/project"}
{"type":"user/message","seq":0,"time":T,"data":{"text":"<ä>"},"surfaceOp":"append"}
{"type":"my/x","seq":1,"time":T,"data":null,"ignorable":true}
{"type":"assistant/message","seq":2,"time":T,"data":[1,2],"surfaceOp":{"op":"replace","start":0,"end":1},"sourceEventSeqs":[1,0]}
{"type":"assistant/message","seq":3,"time":T,"data":"","surfaceOp":"append","sourceEventSeqs":[]}
`
	text := read(t, l.Path())
	got := text
	for _, r := range l.Records() {
		got = strings.Replace(got, `"time":`+itoa(r.Time), `"time":T`, 1)
	}
	got = strings.Replace(got, itoa(l.Header().CreatedAt), "T", 1)
	if got != want {
		t.Errorf("file:\n%s\nwant:\n%s", got, want)
	}

	_, records, _, err := s.Read("a")
	if err != nil {
		t.Fatal(err)
	}
	sameRecords(t, "read back", records, l.Records())
	if records[1].SourceEventSeqs != nil || records[3].SourceEventSeqs == nil {
		t.Error("absent and empty sourceEventSeqs are not kept apart")
	}
	var back session.Record
	if err := json.Unmarshal([]byte(lines(t, records)[2]), &back); err != nil {
		t.Fatal(err)
	}
	sameRecords(t, "through encoding/json", []session.Record{back}, records[2:3])
}

func itoa(n int64) string { b, _ := json.Marshal(n); return string(b) }

func TestB188_BadEnvelope(t *testing.T) {
	l := session.Memory(session.Header{}, session.Options{})
	must(t, l, note("0"), note("1"))
	for name, e := range map[string]session.Entry{
		"no type":        entry("", "{}"),
		"odd type":       entry("a b", "{}"),
		"quoted type":    entry(`a"b`, "{}"),
		"long type":      entry(strings.Repeat("x", 200), "{}"),
		"range":          {Type: "x", Data: json.RawMessage("{}"), SurfaceOp: &session.SurfaceOp{Replace: true, Start: 1, End: 0}},
		"range ahead":    {Type: "x", Data: json.RawMessage("{}"), SurfaceOp: &session.SurfaceOp{Replace: true, Start: 1, End: 3}},
		"range negative": {Type: "x", Data: json.RawMessage("{}"), SurfaceOp: &session.SurfaceOp{Replace: true, Start: -1, End: 1}},
		"range unused":   {Type: "x", Data: json.RawMessage("{}"), SurfaceOp: &session.SurfaceOp{End: 1}},
	} {
		_, err := l.Append(e)
		t.Run(name, func(t *testing.T) { wantCode(t, err, session.InvalidRecord) })
	}
	if l.Len() != 2 {
		t.Errorf("%d records", l.Len())
	}
}

func TestB189_LosslessJSONOnly(t *testing.T) {
	s := checked(t)
	l := create(t, s, "a")
	for _, data := range []string{
		"", " ", "undefined", "NaN", "Infinity", "-", "01", "1.", "1e", "{", "[1,]", `{"a":1,}`, `{a:1}`, `"a`, "\"\xff\"", "\"\xed\xa0\x80\"",
		`"\x"`, `"\u12"`, "\"a\nb\"", "{} {}", "\x00", "nul", strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
	} {
		if _, err := l.Append(entry("note", data)); !errors.Is(err, session.InvalidRecord) {
			t.Errorf("%.20q: %v", data, err)
		}
	}
	if l.Len() != 0 || strings.Count(read(t, l.Path()), "\n") != 1 {
		t.Error("something was logged")
	}
	// What is valid is kept to the last digit.
	whole := []string{"-0", "1e400", "123456789012345678901234567890", `"\ud800"`, `"\u0000\/"`, "0.1000", `{"a":1,"a":2}`, "\"\u2028\"",
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000)}
	for _, data := range whole {
		must(t, l, entry("note", data))
	}
	closeLog(t, l)
	l, _ = reopen(t, s, "a")
	for i, data := range whole {
		if got := string(l.Records()[i].Data); got != data {
			t.Errorf("got %.40s want %.40s", got, data)
		}
	}
	closeLog(t, l)
}

// surface is a validator for B190, which is its business: the log hands it the markers as they are.
type surface struct{ turns }

func (*surface) Check(r session.Record) error {
	if (r.Type == "user/message") != (r.SurfaceOp != nil) {
		return errors.New("surfaceOp belongs to user/message")
	}
	return nil
}

func TestB190_SurfaceMarkersAreTheValidators(t *testing.T) {
	l := session.Memory(session.Header{}, session.Options{Validator: func() session.Validator { return &surface{} }})
	_, err := l.Append(entry("user/message", "{}"))
	wantCode(t, err, session.Refused, "surfaceOp belongs to")
	_, err = l.Append(session.Entry{Type: "note", Data: json.RawMessage("1"), SurfaceOp: &session.SurfaceOp{}})
	wantCode(t, err, session.Refused)
	must(t, l, session.Entry{Type: "user/message", Data: json.RawMessage("{}"), SurfaceOp: &session.SurfaceOp{}})
}

func TestB191_SourceReferences(t *testing.T) {
	l := session.Memory(session.Header{}, session.Options{})
	must(t, l, note("0"), note("1"), note("2"))
	with := func(seqs ...int64) session.Entry {
		return session.Entry{Type: "assistant/message", Data: json.RawMessage("{}"), SurfaceOp: &session.SurfaceOp{}, SourceEventSeqs: seqs}
	}
	for name, e := range map[string]session.Entry{
		"later": with(0, 7), "itself": with(3), "negative": with(-1), "twice": with(0, 1, 0), "twice in a row": with(2, 2),
		"without surfaceOp": {Type: "x", Data: json.RawMessage("{}"), SourceEventSeqs: []int64{0}},
	} {
		if _, err := l.Append(e); !errors.Is(err, session.InvalidRecord) {
			t.Errorf("%s: %v", name, err)
		}
	}
	sources := []int64{2, 0, 1}
	rec, err := l.Append(with(sources...))
	if err != nil {
		t.Fatal(err)
	}
	sources[0] = 9
	if !slices.Equal(rec.SourceEventSeqs, []int64{2, 0, 1}) || !slices.Equal(l.Records()[3].SourceEventSeqs, []int64{2, 0, 1}) {
		t.Error("the caller's slice is shared")
	}
}

func TestB181_Veto(t *testing.T) {
	s := checked(t)
	l := create(t, s, "a")
	must(t, l, start(1))
	before := read(t, l.Path())
	_, err := l.Append(start(2))
	wantCode(t, err, session.Refused, "record 1 (turn/start)", "a turn is open")
	if l.Len() != 1 || read(t, l.Path()) != before {
		t.Error("a refused record left a trace")
	}
	rec, err := l.Append(end())
	if err != nil || rec.Seq != 1 {
		t.Errorf("the next append has seq %d, %v", rec.Seq, err)
	}
	closeLog(t, l)
}

// inner is a validator that appends while it is told of a record, which no observer may do either.
type inner struct {
	turns
	log *session.Log
	err error
}

func (v *inner) Commit(session.Record) { _, v.err = v.log.Append(note("inner")) }

func TestB195_NoReentrantAppend(t *testing.T) {
	v := &inner{}
	l := session.Memory(session.Header{}, session.Options{Validator: func() session.Validator { return v }})
	v.log = l
	must(t, l, note("outer"))
	wantCode(t, v.err, session.Busy)
	if l.Len() != 1 {
		t.Error("the inner record is in the log")
	}
	must(t, l, note("next"))
}

// watcher notes what the file and the log held when a record was committed.
type watcher struct {
	turns
	log  *session.Log
	t    *testing.T
	seen int
}

func (v *watcher) Commit(r session.Record) {
	if v.log == nil {
		return
	}
	v.seen++
	records := v.log.Records()
	if last := records[len(records)-1]; last.Seq != r.Seq {
		v.t.Errorf("record %d is committed and %d is last", r.Seq, last.Seq)
	}
	if text := read(v.t, v.log.Path()); !strings.HasSuffix(text, lines(v.t, []session.Record{r})[0]+"\n") {
		v.t.Errorf("record %d is committed and not in the file", r.Seq)
	}
}

func TestB196_CommitBeforeNotify(t *testing.T) {
	v := &watcher{t: t}
	s := sessiontest.Store(t, session.Options{Validator: func() session.Validator { return v }})
	l := create(t, s, "a")
	v.log = l
	must(t, l, note("0"), note("1"))
	if v.seen != 2 {
		t.Error("not committed")
	}
	v.log = nil
	closeLog(t, l)
}

func TestB197_Seeding(t *testing.T) {
	opt := session.Options{Validator: newTurns}
	src := session.Memory(session.Header{}, opt)
	must(t, src, start(1), note("x"), end())
	seed := src.Records()
	if src.FirstLive() != 0 {
		t.Error("a fresh log has no seed")
	}
	for name, bad := range map[string][]session.Record{
		"gap":       {seed[0], seed[2]},
		"not at 0":  seed[1:],
		"JSON":      {{Type: "note", Data: json.RawMessage("{")}},
		"envelope":  {{Type: "", Data: json.RawMessage("{}")}},
		"validator": {{Type: "turn/end", Data: json.RawMessage("{}")}},
	} {
		if _, _, err := session.MemoryFrom(session.Header{}, bad, opt); !errors.Is(err, session.Damaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l, rep, err := session.MemoryFrom(session.Header{ID: "b"}, seed, opt)
	if err != nil {
		t.Fatal(err)
	}
	if l.FirstLive() != 3 || l.Len() != 4 || !rep.EndSeed || l.Records()[3].Type != session.EndSeed {
		t.Errorf("first live %d, %d records, %+v", l.FirstLive(), l.Len(), rep)
	}
	again, rep, err := session.MemoryFrom(session.Header{ID: "b"}, l.Records(), opt)
	if err != nil || again.Len() != 4 || again.FirstLive() != 4 || rep.EndSeed {
		t.Errorf("seeded again: %d records, first live %d, %v", again.Len(), again.FirstLive(), err)
	}
	empty, _, err := session.MemoryFrom(session.Header{}, nil, opt)
	if err != nil || empty.Len() != 1 || empty.FirstLive() != 0 {
		t.Errorf("an empty seed: %d records, %v", empty.Len(), err)
	}
	if len(src.Records()) != 3 {
		t.Error("the seed was changed")
	}
}

func TestB198_ReplayEquality(t *testing.T) {
	s := checked(t)
	l := create(t, s, "a")
	must(t, l, start(1), note("x"), end())
	closeLog(t, l)
	want := l.Records()
	for range 3 {
		again, _ := reopen(t, s, "a")
		closeLog(t, again)
		if got := again.Records(); len(got) != len(want)+1 {
			t.Fatalf("%d records after opening %d", len(got), len(want))
		}
		sameRecords(t, "reopened", again.Records()[:3], want)
	}
	if n := strings.Count(read(t, l.Path()), "\n"); n != 5 {
		t.Errorf("%d lines", n)
	}
}

func TestB203_UnknownTypes(t *testing.T) {
	s := openStore(t, session.Options{Validator: newTurns})
	const header = `{"version":0,"id":"a","createdAt":5}` + "\n"
	put(t, s, "a", header+`{"type":"new/thing","seq":0,"time":1,"data":{},"ignorable":true}`+"\n")
	l, _ := reopen(t, s, "a")
	closeLog(t, l)
	put(t, s, "b", header+`{"type":"note","seq":0,"time":1,"data":{}}`+"\n"+`{"type":"new/thing","seq":1,"time":1,"data":{}}`+"\n")
	before := read(t, filepath.Join(s.Dir(), "b.jsonl"))
	_, rep, err := s.Open("b")
	wantCode(t, err, session.Damaged, "b.jsonl:3:", "new/thing", "unknown type", "session repair b")
	if rep == nil || rep.Whole != 1 {
		t.Errorf("%+v", rep)
	}
	if read(t, filepath.Join(s.Dir(), "b.jsonl")) != before {
		t.Error("a refused log was changed")
	}
	_, records, _, err := s.Read("b")
	if err != nil || len(records) != 2 {
		t.Errorf("it does not open read-only: %d records, %v", len(records), err)
	}
}

func TestB211_RepairIsCommittedBeforeResume(t *testing.T) {
	clock := &sessiontest.Clock{Step: time.Hour}
	s := sessiontest.Store(t, session.Options{Validator: newTurns, Now: clock.Now})
	l := create(t, s, "a")
	must(t, l, start(1), note("x"))
	closeLog(t, l)
	lastTime := l.Records()[1].Time
	write(t, l.Path(), read(t, l.Path())+`{"type":"no`)

	l, rep := reopen(t, s, "a")
	if rep.Torn == nil || rep.Closers != 2 || !rep.EndSeed || l.FirstLive() != 4 {
		t.Fatalf("%+v", rep)
	}
	r := l.Records()
	if len(r) != 5 || r[2].Type != "note" || r[3].Type != "turn/end" || r[4].Type != session.EndSeed {
		t.Fatalf("%v", lines(t, r))
	}
	if r[2].Time != lastTime || r[3].Time != lastTime || r[4].Time <= lastTime {
		t.Error("closers have the time of the last real record, end-seed its own")
	}
	// All of it is in the file before anybody appends.
	if n := strings.Count(read(t, l.Path()), "\n"); n != 6 {
		t.Errorf("%d lines", n)
	}
	must(t, l, start(2), end())
	closeLog(t, l)
}

func TestMemoryIsLikeAFile(t *testing.T) {
	l := session.Memory(session.Header{Cwd: "/x"}, session.Options{Validator: newTurns})
	must(t, l, start(1), end())
	if l.ID() == "" || l.Header().CreatedAt == 0 || l.Path() != "" || l.FilesDir() != "" {
		t.Errorf("%+v", l.Header())
	}
	if err := errors.Join(l.Sync(), l.Close(), l.Close(), l.Sync()); err != nil {
		t.Error(err)
	}
	_, err := l.Append(note("x"))
	wantCode(t, err, session.Closed)
	if l.Len() != 2 {
		t.Error("records are gone")
	}
}

func TestSnapshotsStay(t *testing.T) {
	l := session.Memory(session.Header{}, session.Options{})
	must(t, l, note("0"))
	snap := l.Records()
	for range 100 {
		must(t, l, note("more"))
	}
	if len(snap) != 1 || string(snap[0].Data) != `"0"` {
		t.Error("the snapshot changed")
	}
	_ = append(snap, session.Record{Type: "mine"})
	if l.Records()[1].Type == "mine" {
		t.Error("appending to a snapshot writes into the log")
	}
	data := l.Records()[0].Data
	_ = append(data, "xxxxxx"...)
	if string(l.Records()[0].Data) != `"0"` {
		t.Error("appending to data writes into the log")
	}
}

func TestCreate(t *testing.T) {
	s := checked(t)
	a := create(t, s, "a")
	if info, err := os.Stat(a.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	_, err := s.Create(session.Header{ID: "a"})
	wantCode(t, err, session.Exists, "a.jsonl", "another id")
	for _, id := range []string{"../x", "a/b", ".a", "a b", strings.Repeat("a", 101), "a.", "ä", "-a", `a\b`} {
		if _, err := s.Create(session.Header{ID: id}); !errors.Is(err, session.InvalidID) {
			t.Errorf("%q: %v", id, err)
		}
		if _, _, err := s.Open(id); !errors.Is(err, session.InvalidID) {
			t.Errorf("open %q: %v", id, err)
		}
	}
	ids := map[string]bool{}
	for range 20 {
		l := create(t, s, "")
		ids[l.ID()] = true
		closeLog(t, l)
	}
	if len(ids) != 20 {
		t.Error("ids repeat")
	}
	dir := a.FilesDir()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 || dir != filepath.Join(s.Dir(), "a.files") {
		t.Errorf("%s: %v %v", dir, info, err)
	}
	closeLog(t, a)
	_, _, err = s.Open("b")
	wantCode(t, err, session.NotFound, "session list")
}

func TestStoreMakesItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x", "sessions")
	s, err := session.OpenStore(dir, session.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if infos, err := s.List(); len(infos) != 0 || err != nil {
		t.Errorf("an absent folder lists %v, %v", infos, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("opening a store makes nothing")
	}
	closeLog(t, create(t, s, "a"))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
	file := filepath.Join(t.TempDir(), "f")
	write(t, file, "")
	if _, err := session.OpenStore(file, session.Options{}); err == nil {
		t.Error("a file is no folder")
	}
}

func TestNewID(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	var ids []string
	for i := range 1000 {
		ids = append(ids, session.NewID(at.Add(time.Duration(i)*time.Millisecond)))
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by time")
	}
	for _, id := range append(ids, session.NewID(time.Time{}), session.NewID(time.UnixMilli(0))) {
		if len(id) != 13 || session.CheckID(id) != nil || strings.ToLower(id) != id {
			t.Fatalf("id %q", id)
		}
	}
}

func TestSurfaceOpJSON(t *testing.T) {
	for in, want := range map[string]string{
		`"append"`: `"append"`, ` "append" `: `"append"`,
		`{"op":"replace","start":1,"end":2}`:     `{"op":"replace","start":1,"end":2}`,
		`{ "end":2, "op":"replace", "start":1 }`: `{"op":"replace","start":1,"end":2}`,
		`"prepend"`:                              "", `{"op":"append"}`: "", `{"op":"replace","start":1}`: "", `null`: "",
		`{"op":"replace","start":1,"end":2,"x":3}`: "", `7`: "", `{"op":"replace","start":1.5,"end":2}`: "",
	} {
		var op session.SurfaceOp
		err := op.UnmarshalJSON([]byte(in))
		out, _ := op.MarshalJSON()
		if (err == nil) != (want != "") || err == nil && string(out) != want {
			t.Errorf("%s: %s, %v", in, out, err)
		}
	}
}

func TestRecordJSONIsStrict(t *testing.T) {
	for _, in := range []string{
		`{}`, `[]`, `{"type":"a","seq":0,"time":1}`, `{"type":"a","seq":"0","time":1,"data":1}`, `{"type":"a","seq":0,"seq":0,"time":1,"data":1}`,
		`{"type":"a","seq":0,"time":1,"data":1,"extra":1}`, `{"type":"a","seq":0,"time":1,"data":1,"ignorable":false}`,
		`{"type":"a","seq":0,"time":1.5,"data":1}`, `{"type":"a","seq":null,"time":1,"data":1}`, `{"type":"a","seq":-1,"time":1,"data":1}`,
		`{"type":"a","seq":0,"time":1,"data":1,"sourceEventSeqs":null}`, `{"type":"a","seq":1,"time":1,"data":1,"surfaceOp":"append","sourceEventSeqs":[null]}`,
		`{"Type":"a","seq":0,"time":1,"data":1}`, `{"type":"a","seq":00,"time":1,"data":1}`, `{"type":7,"seq":0,"time":1,"data":1}`,
		`{"type":"a","seq":99999999999999999999,"time":1,"data":1}`, `{"type":"a","seq":0,"time":1,"data":1,"surfaceOp":null}`,
	} {
		var r session.Record
		if err := json.Unmarshal([]byte(in), &r); err == nil {
			t.Errorf("%s is taken for %+v", in, r)
		}
	}
	var r session.Record
	in := []byte(` { "data" : {"a": [ 1 ]} , "time":-5, "seq":3, "surfaceOp" : "append", "type":"\u0061", "sourceEventSeqs":[ 2, 1 ], "ignorable":true } `)
	if err := json.Unmarshal(in, &r); err != nil {
		t.Fatal(err)
	}
	clear(in)
	out, err := r.MarshalJSON()
	if want := `{"type":"a","seq":3,"time":-5,"data":{"a": [ 1 ]},"ignorable":true,"surfaceOp":"append","sourceEventSeqs":[2,1]}`; err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := json.Marshal(session.Record{Type: "a", Data: json.RawMessage("{")}); err == nil {
		t.Error("invalid data is marshalled")
	}
	if b, err := json.Marshal(r); err != nil || !bytes.Contains(b, []byte(`"seq":3`)) {
		t.Errorf("%s %v", b, err)
	}
}
