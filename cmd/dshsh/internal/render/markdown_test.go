package render

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dshsh/session"
)

// streamed shows a reply that comes in these pieces.
func streamed(o Options, pieces []string) string {
	r := New(o)
	var b strings.Builder
	text := strings.Join(pieces, "")
	feed := func(kind string, data any) {
		raw, _ := json.Marshal(data)
		b.WriteString(r.Record(session.Record{Type: kind, Data: raw}))
	}
	feed("turn/start", map[string]any{"turn": 1})
	chunk := func(c map[string]any) { feed("assistant/chunk", map[string]any{"turn": 1, "step": 1, "chunk": c}) }
	for _, p := range pieces {
		chunk(map[string]any{"type": "text-delta", "index": 0, "text": p})
	}
	chunk(map[string]any{"type": "block-end", "index": 0, "block": map[string]any{"type": "text", "text": text}})
	chunk(map[string]any{"type": "finish", "reason": map[string]any{"kind": "stop"}})
	feed("assistant/message", map[string]any{"turn": 1, "step": 1, "message": map[string]any{
		"id": "m", "role": "assistant", "content": []any{map[string]any{"type": "text", "text": text}}}})
	feed("turn/end", map[string]any{"turn": 1, "reason": map[string]any{"kind": "completed"}})
	return b.String()
}

func TestMarkdown(t *testing.T) {
	doc, err := os.ReadFile("testdata/markdown.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, width := range []int{80, 40} {
		name := fmt.Sprintf("testdata/markdown.%d", width)
		got := streamed(Options{Width: width, Color: true}, []string{string(doc)})
		checkWidth(t, name, got, width)
		got = strings.ReplaceAll(got, "\x1b", "␛")
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(name)
		if err != nil || got != string(want) {
			t.Errorf("%s (%v):\n%s", name, err, got)
		}
	}
}

// However a reply is cut in pieces, the screen is the same in the end.
func TestMarkdownComesInPieces(t *testing.T) {
	doc, err := os.ReadFile("testdata/markdown.md")
	if err != nil {
		t.Fatal(err)
	}
	bits := append(strings.SplitAfter(string(doc), "\n"),
		"*", "**", "`", "```\n", "~~~\n", "- ", "  ", "\n", "\n\n", "|", "|-|-|\n", "# ", "> ", "1. ", "word ", "&lt;", "[a](b)", "\t", "中", "---\n", "   - x\n", "[", "<b>", "~~", "\\")
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(bits), 1, 40).Draw(t, "text"), "")
		o := Options{Width: rapid.SampledFrom([]int{12, 40, 80}).Draw(t, "width"), Color: true}
		whole := streamed(o, []string{text})
		var pieces []string
		for rest := text; rest != ""; {
			n := min(rapid.IntRange(1, 60).Draw(t, "n"), len(rest))
			for n < len(rest) && rest[n]&0xc0 == 0x80 {
				n++
			}
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := streamed(o, pieces); got != whole {
			t.Fatalf("in pieces:\n%q\nwhole:\n%q\ntext:\n%q", got, whole, text)
		}
	})
}

// Nothing that a model writes reaches the terminal as a control.
func TestMarkdownIsNeverObeyed(t *testing.T) {
	for _, text := range []string{"&#27;[2J", "&#x1b;]0;x&#7;", "`\x1b[2J`", "[a](<\x1b[2J>)", "[&#27;c](&#27;c)", "```\x1b]\n\x1b[2J\n```", "&#x9b;2J", "<a href=\"\x1b[2J\">", "| &#27;c | b |\n|-|-|\n| &#8238; | c |"} {
		got := streamed(Options{Width: 60, Color: true}, []string{text})
		for rest := got; ; {
			i := strings.IndexByte(rest, 0x1b)
			if i < 0 {
				break
			}
			n := sgrLen(rest[i:])
			if n == 0 {
				t.Errorf("%q gives %q", text, got)
				break
			}
			rest = rest[i+n:]
		}
		if strings.ContainsAny(got, "\u009b\u202e\a") {
			t.Errorf("%q gives %q", text, got)
		}
	}
}

// A paragraph is read while it comes, though not a word whose style is not known yet.
func TestMarkdownRowsComeEarly(t *testing.T) {
	r := New(Options{Width: 20, Color: true})
	say := func(text string) string {
		raw, _ := json.Marshal(map[string]any{"turn": 1, "step": 1, "chunk": map[string]any{"type": "text-delta", "index": 0, "text": text}})
		return r.Record(session.Record{Type: "assistant/chunk", Data: raw})
	}
	got := say("one two three four\n") + say("five six seven eight nine ten eleven ") + say("twelve thirteen fourteen fifteen")
	if !strings.HasPrefix(got, "one two three four\nfive six seven eight\n") {
		t.Errorf("shown so far: %q", got)
	}
	if got = say(" **sixteen seventeen eighteen nineteen twenty"); strings.Contains(got, "sixteen") {
		t.Errorf("shown before it is known to be bold: %q", got)
	}
	if got = say("**\n\n"); !strings.Contains(got, "\x1b[1msixteen") {
		t.Errorf("then: %q", got)
	}
}

// A paragraph without end costs no more than its length.
func BenchmarkMarkdownStream(b *testing.B) {
	pieces := strings.SplitAfter(strings.Repeat("some **words** of a paragraph that goes on and on, ", 40)+"\n\n", " ")
	n := 0
	for b.Loop() {
		streamed(Options{Width: 80, Color: true}, pieces)
		n += len(pieces)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/chunk")
}
