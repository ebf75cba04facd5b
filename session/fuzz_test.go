package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// nest is deep enough for every level of the scanner's bookkeeping.
func nest(open, shut string, n int) string {
	return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n)
}

var jsonSeeds = []string{
	"", " ", "{}", "[]", `""`, "0", "-0", "1.5e-7", "01", "1.", "-", "true", "tru", "null ", "nulll", `{"a":1,"b":[1,2,{"c":null}]}`, `{"a":1,}`, `[1,]`,
	`{"a"}`, `{"a":}`, `{1:2}`, `[1 2]`, `"\n\u0041\ud800"`, `"\x"`, `"\u00g0"`, "\"\x1f\"", "\"tab\there\"", "\"\xff\"", "\"\xc3\xa4\"", `"12345678\"`, `"1234567\"8"`,
	" [ { } , [ ] ] ", "{\"a\"\n:\t1\r}", "[}", "{]", "]", "}", `"unfinished`, `"abcdefgh`, nest("[", "]", 63), nest("[", "]", 64), nest("[", "]", 65), nest("[", "]", 200),
	nest(`{"a":`, "}", 64), nest(`[{"a":`, "}]", 100), nest(`{"a":[`, "]}", 33) + "x", nest("[", "]", maxDepth), nest("[", "]", maxDepth+1), "[" + nest("[", "]", 64) + ",{}]",
}

// The scanner takes just what encoding/json takes, as far as it is UTF-8.
func FuzzJSON(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want := json.Valid(b) && utf8.Valid(b)
		if got := checkJSON(b) == nil; got != want {
			t.Errorf("%q: got %v, encoding/json says %v", b, got, want)
		}
	})
}

// A record reads the same in the fast way and in the strict one, and writes back what it was.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{
		`{"type":"a","seq":0,"time":1,"data":{}}`, `{"type":"a/b","seq":12,"time":-1,"data":[1],"ignorable":true,"surfaceOp":"append","sourceEventSeqs":[1,2]}`,
		`{"type":"a","seq":5,"time":1,"data":"x","surfaceOp":{"op":"replace","start":1,"end":2},"sourceEventSeqs":[]}`, `{"seq":0,"type":"a","time":1,"data":{}}`,
		`{"type":"a","seq":9223372036854775807,"time":1,"data":{}}`, `{"type":"a","seq":00,"time":1,"data":{}}`, `{"type":"a","seq":0,"time":-0,"data":{}}`,
		`{"type":"\u0061","seq":0,"time":1,"data":{} }`, `{"type":"a","seq":0,"time":1,"data":{},"data":{}}`, `{"type":"a","seq":0,"time":1,"data":{}}x`,
		`{"type":"a","seq":0,"time":1,"data":{},"surfaceOp":"append","sourceEventSeqs":[1,]}`, `{"type":"a","seq":0,"time":1,"data":{},"sourceEventSeqs":[01]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if !utf8.Valid(line) {
			return
		}
		fast, ok := parseFast(line, nil)
		strict, err := parseStrict(line, nil)
		if ok && err != nil {
			t.Fatalf("%q: the fast way takes it, the strict one says %v", line, err)
		}
		if err != nil || checkEnvelope(&strict) != nil {
			return
		}
		out, err := strict.MarshalJSON()
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if ok {
			if out2, _ := fast.MarshalJSON(); !bytes.Equal(out, out2) {
				t.Fatalf("%q: fast %s, strict %s", line, out2, out)
			}
			if !bytes.Equal(out, line) && !bytes.ContainsAny(line, "\r\n") {
				t.Fatalf("%q: written back as %s", line, out)
			}
		}
		again, ok := parseFast(out, nil)
		if !ok && strict.Seq < 1e18 && strict.Time < 1e18 && strict.Time > -1e18 && len(strict.SourceEventSeqs) == 0 && strict.SurfaceOp == nil {
			t.Fatalf("%s: the fast way does not take what was written", out)
		}
		if out2, _ := again.MarshalJSON(); ok && !bytes.Equal(out, out2) {
			t.Fatalf("%s: read back as %s", out, out2)
		}
	})
}

// Whatever a file holds: nothing panics, no record is made up, a log that opens has every record of its whole lines,
// and a refused one is left alone and can be mended.
func FuzzOpen(f *testing.F) {
	header := `{"version":0,"id":"a","createdAt":1}` + "\n"
	rec := func(typ string, seq int, data string) string {
		return fmt.Sprintf(`{"type":%q,"seq":%d,"time":%d,"data":%s}`, typ, seq, seq, data) + "\n"
	}
	golden := header + rec("note", 0, `{"a":"ä"}`) + rec("x/y", 1, `[1,2,3]`) + rec(EndSeed, 2, "{}") +
		`{"type":"s","seq":3,"time":4,"data":1,"surfaceOp":"append","sourceEventSeqs":[0,2]}` + "\n"
	for _, s := range []string{
		"", "\n", header, golden, golden + "{", golden[:len(golden)-1], golden + golden, golden[len(header):], header + "\x00\x00\n" + rec("note", 0, "1"),
		header + rec("note", 1, "1"), header + rec("note", 0, "1") + rec("note", 0, "1"), header + rec("note", 700, "1") + rec("note", 0, "1"),
		header + "{}\n", header + "[]\n\n\n", header + `{"type":"a","seq":9223372036854775807,"time":1,"data":1}` + "\n" + rec("note", 0, "1"),
		"{\"version\":1}\n", "{\"version\":0,\"id\":7,\"createdAt\":1}\n", header + ` { "seq":0, "type":"a" ,"time":1, "data": [ 1 ] } ` + "\r\n",
	} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		clean(t, dir)
		s, err := OpenStore(dir, Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		path := s.logPath("a")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, records, rep, err := s.Read("a")
		if err != nil {
			t.Fatal(err)
		}
		notInvented(t, data, records)
		if infos, err := s.List(); err != nil || len(infos) != 1 {
			t.Fatalf("%v %v", infos, err)
		}
		l, rep2, err := s.Open("a")
		if rep.Damaged() != (err != nil) {
			t.Fatalf("checked as %+v, opens with %v", rep, err)
		}
		if err != nil {
			if now, _ := os.ReadFile(path); !bytes.Equal(now, data) {
				t.Fatal("a refused log was changed")
			}
			mends(t, s, records)
			return
		}
		if n := int64(len(data)); rep2.Torn != nil {
			data = data[:rep2.Torn.Offset]
			if rep2.Torn.Offset+rep2.Torn.Bytes != n {
				t.Fatalf("%+v", rep2.Torn)
			}
		}
		if n := bytes.Count(data, []byte{'\n'}) - 1; n != len(records) || l.Len() != n && l.Len() != n+1 {
			t.Fatalf("%d whole lines, %d records, %d in the log", n, len(records), l.Len())
		}
		if _, err := l.Append(Entry{Type: "more", Data: json.RawMessage("1")}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		again, rep3, err := s.Open("a")
		if err != nil || rep3.Torn != nil || again.FirstLive() != l.Len() {
			t.Fatalf("opened again: %+v %v", rep3, err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func clean(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// notInvented wants every record to be a line of the file.
func notInvented(t *testing.T, data []byte, records []Record) {
	t.Helper()
	var all [][]byte
	for line := range bytes.SplitSeq(data, []byte{'\n'}) {
		all = append(all, line)
	}
	at := 0
	for _, r := range records {
		for ; ; at++ {
			if at >= len(all)-1 { // the last piece has no newline
				t.Fatalf("record %d (%s) is no whole line", r.Seq, r.Type)
			}
			var d struct {
				Type string
				Seq  int64
				Data json.RawMessage
			}
			if json.Unmarshal(all[at], &d) == nil && d.Type == r.Type && d.Seq == r.Seq && bytes.Equal(d.Data, r.Data) {
				at++
				break
			}
		}
	}
}

// mends wants a repair of a to make a whole log that has only records of a, and stand-ins.
func mends(t *testing.T, s *Store, records []Record) {
	t.Helper()
	m, err := s.Repair("a", "")
	if err != nil {
		if strings.Contains(err.Error(), "version is") {
			return
		}
		t.Fatal(err)
	}
	_, mended, rep, err := s.Read(m.ID)
	if err != nil || rep.Damaged() || rep.Torn != nil || len(mended) != m.Records {
		t.Fatalf("mended: %+v %v", rep, err)
	}
	lost := 0
	for _, r := range mended {
		found := false
		for _, o := range records {
			found = found || sameRecord(o, r)
		}
		if !found {
			if r.Type != LostRecord {
				t.Fatalf("record %d (%s) was made up", r.Seq, r.Type)
			}
			lost++
		}
	}
	if lost > m.Lost {
		t.Fatalf("%d stand-ins, %d reported", lost, m.Lost)
	}
	l, _, err := s.Open(m.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
