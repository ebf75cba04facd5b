package render

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"dshsh/session"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGolden renders the records of each archive in testdata, once for every other
// section; the section's name gives the options: width=N, color, replay, agent=LABEL,
// results=N, or plain for none. A record is a line `TYPE DATA`.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			ar := parseArchive(string(data))
			recs := parseRecords(t, ar[1])
			for _, f := range ar[2:] {
				r := New(parseOptions(t, f.name))
				var got strings.Builder
				for _, rec := range recs {
					s := r.Record(rec)
					if s != "" && !strings.HasSuffix(s, "\n") {
						t.Errorf("%s: %s gave an unfinished line %q", f.name, rec.Type, s)
					}
					got.WriteString(s)
				}
				got.WriteString(r.Flush())
				show := strings.ReplaceAll(got.String(), "\x1b", "␛")
				if *update {
					f.body = show
				} else if show != f.body {
					t.Errorf("%s:\ngot:\n%s\nwant:\n%s", f.name, show, f.body)
				}
				checkWidth(t, f.name, got.String(), r.opts.Width)
			}
			if *update {
				var b strings.Builder
				for _, f := range ar {
					if f.name != "" {
						b.WriteString("-- " + f.name + " --\n")
					}
					b.WriteString(f.body)
				}
				if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// part is one section of an archive in txtar form; the first has no name.
type part struct{ name, body string }

func parseArchive(s string) []*part {
	parts := []*part{{}}
	for line := range strings.Lines(s) {
		name, ok := strings.CutPrefix(line, "-- ")
		if name, end := strings.CutSuffix(name, " --\n"); ok && end {
			parts = append(parts, &part{name: name})
			continue
		}
		parts[len(parts)-1].body += line
	}
	return parts
}

// checkWidth checks that no line is wider than the terminal.
func checkWidth(t *testing.T, name, out string, width int) {
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if w := Width(line); width > 0 && w > width {
			t.Errorf("%s: %d cells in a terminal of %d: %q", name, w, width, line)
		}
	}
}

func parseRecords(t *testing.T, f *part) []session.Record {
	t.Helper()
	if f.name != "records" {
		t.Fatalf("first section is %q, want records", f.name)
	}
	var recs []session.Record
	for line := range strings.Lines(f.body) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		typ, data, _ := strings.Cut(line, " ")
		var op *session.SurfaceOp
		if d, ok := strings.CutPrefix(data, "replace "); ok {
			data, op = d, &session.SurfaceOp{Replace: true}
		}
		if !json.Valid([]byte(data)) {
			t.Fatalf("record is no JSON: %s", line)
		}
		recs = append(recs, session.Record{Type: typ, Seq: int64(len(recs)), Data: json.RawMessage(data), SurfaceOp: op})
	}
	return recs
}

func parseOptions(t *testing.T, name string) Options {
	t.Helper()
	var o Options
	for _, word := range strings.Fields(name) {
		key, val, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(val)
		switch key {
		case "plain":
		case "width":
			o.Width = n
		case "color":
			o.Color = true
		case "replay":
			o.Replay = true
		case "agent":
			o.Agent = val
		case "results":
			o.ResultLines = n
		default:
			t.Fatalf("unknown option %q", word)
		}
	}
	return o
}

// TestBadData gives every handler data that it cannot read: nothing is shown, nothing
// panics.
func TestBadData(t *testing.T) {
	for typ := range handlers {
		for _, data := range []string{``, `null`, `[]`, `{`, `{"turn":"x"}`, `{"chunk":{"type":"text-delta","index":-1,"text":"a"}}`} {
			r := New(Options{Width: 20})
			r.Record(session.Record{Type: typ, Data: json.RawMessage(data)})
			r.Flush()
		}
	}
	if s := New(Options{}).Record(session.Record{Type: "no/such", Data: json.RawMessage(`{}`)}); s != "" {
		t.Errorf("unknown record shown as %q", s)
	}
}

// TestChunkCuts streams one text cut in every place: what is shown does not depend on it.
func TestChunkCuts(t *testing.T) {
	const text = "Hello,\r\nworld 你好，世界 e\u0301 👨‍👩‍👧 and a line that is longer than the terminal.\n\n\nEnd\r"
	show := func(parts ...string) string {
		r := New(Options{Width: 24})
		var b strings.Builder
		for _, p := range parts {
			data, _ := json.Marshal(map[string]any{"turn": 1, "step": 1,
				"chunk": map[string]any{"type": "text-delta", "index": 0, "text": p}})
			b.WriteString(r.Record(session.Record{Type: "assistant/chunk", Data: data}))
		}
		b.WriteString(r.Flush())
		return b.String()
	}
	want := show(text)
	for i := range text {
		if got := show(text[:i], text[i:]); got != want {
			t.Errorf("cut at %d:\n%s\nwant:\n%s", i, got, want)
		}
	}
	if !strings.Contains(want, "Hello,\nworld") || !strings.HasSuffix(want, "\n\n\nEnd^M\n") {
		t.Errorf("got:\n%q", want)
	}
}

// TestStreamedBeforeItsLineEnds: a paragraph is one long line; its rows are shown as they
// fill.
func TestStreamedBeforeItsLineEnds(t *testing.T) {
	r := New(Options{Width: 20})
	got := r.Record(session.Record{Type: "assistant/chunk", Data: json.RawMessage(
		`{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"one two three four five six"}}`)})
	if got != "one two three four\n" {
		t.Errorf("got %q", got)
	}
}

func TestColorFromEnv(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(k string) string {
			for i := 0; i < len(kv); i += 2 {
				if kv[i] == k {
					return kv[i+1]
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		tty  bool
		env  func(string) string
		want bool
	}{
		{true, env("TERM", "xterm"), true},
		{true, env("TERM", "xterm", "NO_COLOR", ""), true},
		{true, env("TERM", "xterm", "NO_COLOR", "1"), false},
		{true, env("TERM", "dumb"), false},
		{false, env("TERM", "xterm"), false},
	} {
		if got := ColorFromEnv(c.tty, c.env); got != c.want {
			t.Errorf("tty %v NO_COLOR %q TERM %q: %v", c.tty, c.env("NO_COLOR"), c.env("TERM"), got)
		}
	}
}

func BenchmarkChunk(b *testing.B) {
	r := New(Options{Width: 80})
	rec := session.Record{Type: "assistant/chunk", Data: json.RawMessage(
		`{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"some words, "}}`)}
	b.ReportAllocs()
	for b.Loop() {
		r.Record(rec)
		if r.step.blocks[0].text.Len() > 1<<20 {
			r.step = stepView{}
		}
	}
}
