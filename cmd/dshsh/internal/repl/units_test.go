package repl

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"dshsh/cmd/dshsh/internal/render"
)

func keysString(keys []key) string {
	var b strings.Builder
	for _, k := range keys {
		switch k.kind {
		case keyText:
			b.WriteString(k.text)
		case keyPaste:
			fmt.Fprintf(&b, "{paste %q}", k.text)
		default:
			fmt.Fprintf(&b, "{%d}", k.kind)
		}
	}
	return b.String()
}

// TestDecoder feeds each input whole and cut in every place; the keys are the same.
func TestDecoder(t *testing.T) {
	k := func(kinds ...keyKind) string {
		var keys []key
		for _, kind := range kinds {
			keys = append(keys, key{kind: kind})
		}
		return keysString(keys)
	}
	for _, c := range []struct{ in, want string }{
		{"abc世界👨‍👩‍👧", "abc世界👨‍👩‍👧"},
		{"\r\n", k(keyEnter, keyEnter)},
		{"\x1b[A\x1bOB\x1b[1;5C\x1b[3~", k(keyUp, keyDown, keyWordRight, keyDelete)},
		{"\x1b\r\x1b[13;2u", k(keyNewline, keyNewline)},
		{"\x1b[200~a\rb\r\nc\x1b[A\x1b[201~d", `{paste "a\nb\nc\x1b[A"}d`},
		{"\x1b[200~\x1b[201~", `{paste ""}`},
		{"a\x1b[12;40Rb\x1b[?62;4cc\x1b[?2026;2$yd", "abcd"},
		{"a\x1b]11;rgb:00/00/00\x07b\x1b]52;c;aGk=\x1b\\c\x1bP1$r0m\x1b\\d\x1b_x\x1b\\e", "abcde"},
		{"a\x1b[<35;1;2Mb\x1b[M !\"c\x1b[Id", "abcd"},
		{"a\x1bxb\x1b世c", "abc"},
		{"a\xffb", "a\ufffdb"},
		{"a\u009bb", "a\ufffdb"},
		{"\x1b\x1b[A", k(keyEscape, keyUp)},
		{"\x1b[1\x1b[B", k(keyDown)},
		{"\x00\x1d\x1f", ""},
		{"\x03\x04\x1a", k(keyInterrupt, keyEOF, keySuspend)},
	} {
		for cut := 0; cut <= len(c.in); cut++ {
			var d decoder
			keys := append(d.feed([]byte(c.in[:cut])), d.feed([]byte(c.in[cut:]))...)
			keys = append(keys, d.timeout()...)
			if got := keysString(keys); got != c.want {
				t.Errorf("%q cut at %d: %s, want %s", c.in, cut, got, c.want)
			}
		}
	}
}

func TestDecoderTab(t *testing.T) {
	for in, want := range map[string]string{
		"\t": fmt.Sprintf("{%d}", keyTab), "ab\t": fmt.Sprintf("ab{%d}", keyTab), "a\tb": "a\tb",
	} {
		var d decoder
		if got := keysString(d.feed([]byte(in))); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestDecoderPasteWithoutEnd(t *testing.T) {
	var d decoder
	if got := d.feed([]byte("\x1b[200~abc")); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := d.feed([]byte{3}); len(got) != 1 || got[0].kind != keyInterrupt {
		t.Errorf("Ctrl-C in an endless paste: %v", got)
	}
	if got := keysString(d.feed([]byte("x"))); got != "x" {
		t.Errorf("afterwards: %s", got)
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte("\x1b[200~a\x1b[201~\x1b]0;x\x07世\xff"), 3)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		cut = min(max(cut, 0), len(in))
		var d decoder
		keys := append(d.feed(in[:cut]), d.feed(in[cut:])...)
		for _, k := range append(keys, d.timeout()...) {
			if !utf8.ValidString(k.text) {
				t.Fatalf("%q is not UTF-8", k.text)
			}
			if k.kind == keyText && strings.ContainsFunc(k.text, func(r rune) bool {
				return r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0
			}) {
				t.Fatalf("control bytes as text: %q", k.text)
			}
		}
	})
}

// TestBufferNeverCutsAClusterSomewhere edits at random: the cursor is always between
// clusters, the text always valid.
func TestBufferNeverCutsAClusterSomewhere(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", " ", "世", "e\u0301", "👨‍👩‍👧", "🇩🇪", "한", "\n", "-", "क्षि"}
	for range 200 {
		var b buffer
		for range 60 {
			switch rnd.IntN(12) {
			case 0:
				b.pos = b.left(b.pos)
			case 1:
				b.pos = b.right(b.pos)
			case 2:
				b.cut(b.left(b.pos), b.pos)
			case 3:
				b.cut(b.pos, b.right(b.pos))
			case 4:
				b.pos = b.wordLeft(b.pos)
			case 5:
				b.pos = b.wordRight(b.pos)
			case 6:
				b.transpose()
			default:
				b.insert([]rune(pieces[rnd.IntN(len(pieces))]))
			}
			if b.pos < 0 || b.pos > len(b.text) {
				t.Fatalf("cursor at %d of %d", b.pos, len(b.text))
			}
			before := string(b.text[:b.pos])
			for s := string(b.text); len(s) > 0; {
				c, _ := render.Cluster(s)
				s = s[len(c):]
				if at := len(string(b.text)) - len(s); at >= len(before) {
					if at-len(c) < len(before) && at > len(before) {
						t.Fatalf("cursor inside %q of %q", c, string(b.text))
					}
					break
				}
			}
		}
	}
}

func TestLayout(t *testing.T) {
	label := func(rune) string { return "[paste #1, 3 lines]" }
	for _, c := range []struct {
		prompt, text string
		pos, width   int
		rows         []string
		cursor       place
	}{
		{"> ", "", 0, 10, []string{"> "}, place{0, 2}},
		{"> ", "12345678", 8, 10, []string{"> 12345678", ""}, place{1, 0}},
		{"> ", "12345678", 7, 10, []string{"> 12345678", ""}, place{0, 9}},
		{"> ", "1234567界", 7, 10, []string{"> 1234567", "界"}, place{1, 0}},
		{"> ", "a\nb", 3, 10, []string{"> a", "  b"}, place{1, 3}},
		{"> ", "12345678\nb", 8, 10, []string{"> 12345678", "  b"}, place{0, 9}},
		{"> ", "a\tb\x07", 3, 20, []string{"> a    b^G"}, place{0, 8}},
		{"> ", "a\U00100000b", 2, 10, []string{"> a[paste ", "#1, 3 line", "s]b"}, place{2, 2}},
		{"> ", "\u0301a", 0, 10, []string{"> \u25cc\u0301a"}, place{0, 2}},
		{"a prompt wider than it", "x", 1, 10, []string{"x"}, place{0, 1}},
		{"\x1b[31m> \x1b[0m", "x", 1, 10, []string{"\x1b[31m> \x1b[0mx"}, place{0, 3}},
		{"", "界界", 2, 1, []string{"界", "界", ""}, place{2, 0}},
	} {
		l := layout{width: c.width, label: label}
		rows, cursor := l.lay(c.prompt, []rune(c.text), c.pos, nil)
		if !slices.Equal(rows, c.rows) || cursor != c.cursor {
			t.Errorf("%q %q: %q %v, want %q %v", c.prompt, c.text, rows, cursor, c.rows, c.cursor)
		}
	}
}

func TestVertical(t *testing.T) {
	l := layout{width: 10, label: func(rune) string { return "" }}
	text := []rune("123456789012\nab\n世界世界世")
	for _, c := range []struct {
		pos, delta, want int
		ok               bool
	}{
		{3, -1, 0, false}, {3, 1, 12, true}, {12, 1, 15, true}, {15, 1, 17, true},
		{18, -1, 15, true}, {14, 1, 16, true}, {21, 1, 0, false}, {8, 1, 13, true},
	} {
		if got, ok := l.vertical("> ", text, c.pos, c.delta); ok != c.ok || ok && got != c.want {
			t.Errorf("%d %+d: %d %v, want %d %v", c.pos, c.delta, got, ok, c.want, c.ok)
		}
	}
}

func TestPastesFromOutsideAreNoPlaceholders(t *testing.T) {
	var p pastes
	line := p.runes("\U00100000x") // a rune of the user's that is one of ours
	big := strings.Repeat("y", 600)
	line = append(line, p.runes(big)...)
	if got := p.expand(line); got != "\U00100000x"+big {
		t.Errorf("expand: %.20q", got)
	}
}

func TestQueue(t *testing.T) {
	q := queue{max: 100}
	line := strings.Repeat("x", 9) + "\n"
	for i := range 25 {
		q.add(fmt.Sprintf("%03d", i) + line[3:])
	}
	got := q.take(1 << 20)
	if !strings.HasPrefix(got, "[15 lines dropped: terminal too slow]\n015xx") || strings.Count(got, "\n") != 11 {
		t.Errorf("got %q", got)
	}
	if !q.empty() || q.bytes != 0 {
		t.Errorf("left: %+v", q)
	}
	// One block larger than the queue, and one larger than a batch.
	q.add("first\n" + strings.Repeat(line, 20))
	if got := q.take(1 << 20); !strings.HasPrefix(got, "[11 lines dropped: terminal too slow]\n") || len(got) != 38+100 {
		t.Errorf("got %d bytes %q", len(got), got)
	}
	q.add(strings.Repeat(line, 10))
	var parts []string
	for !q.empty() {
		parts = append(parts, q.take(35))
	}
	if strings.Join(parts, "") != strings.Repeat(line, 10) || len(parts) != 4 {
		t.Errorf("parts %q", parts)
	}
}

func TestMultilineRules(t *testing.T) {
	for _, c := range []struct {
		text             string
		block, backslash bool
		want             string
	}{
		{"a", false, false, "a"},
		{`a\`, false, true, `a\`},
		{`a\\`, false, false, `a\\`},
		{`"""`, true, false, `"""`},
		{"\"\"\"\na", true, false, "\"\"\"\na"},
		{"\"\"\"\na\n\"\"\"", false, false, "a"},
		{`"""a"""`, false, false, "a"},
		{"  \"\"\"a\\\nb\n\"\"\" ", false, false, "a\\\nb"},
		{`say """x`, false, false, `say """x`},
	} {
		block, backslash := unfinished(c.text)
		if block != c.block || backslash != c.backslash || unquote(c.text) != c.want {
			t.Errorf("%q: %v %v %q", c.text, block, backslash, unquote(c.text))
		}
	}
}

// TestHistoryShared: several shells end lines at the same moment; none is lost or cut.
func TestHistoryShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(path, []byte("plain old line\n\"torn"), 0o644); err != nil {
		t.Fatal(err)
	}
	const shells, lines = 4, 50
	var wg sync.WaitGroup
	for s := range shells {
		wg.Go(func() {
			h := history{path: path}
			for i := range lines {
				if err := h.save(fmt.Sprintf("shell %d\nline %d\n%s", s, i, strings.Repeat("长", i*10))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h := history{path: path}
	if err := h.load(); err != nil {
		t.Fatal(err)
	}
	if len(h.entries) != shells*lines+2 || h.entries[0] != "plain old line" {
		t.Errorf("%d entries", len(h.entries))
	}
	next := [shells]int{}
	for _, e := range h.entries[2:] {
		var s, i int
		if _, err := fmt.Sscanf(e, "shell %d\nline %d\n", &s, &i); err != nil || next[s] != i ||
			strings.Count(e, "长") != i*10 {
			t.Fatalf("entry %q: %v", e, err)
		}
		next[s]++
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

func TestHistoryIsKeptShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h := history{path: path}
	entry := strings.Repeat("e", 2000)
	for i := range 1200 {
		if err := h.save(fmt.Sprintf("%d %s", i, entry)); err != nil {
			t.Fatal(err)
		}
	}
	st, err := os.Stat(path)
	if err != nil || st.Size() > historyEntries*512+4096 {
		t.Errorf("%d bytes, %v", st.Size(), err)
	}
	if err := h.load(); err != nil || !strings.HasPrefix(h.entries[len(h.entries)-1], "1199 ") {
		t.Errorf("%d entries, %v", len(h.entries), err)
	}
	if !h.remember("x") || h.remember("x") || h.remember("") || h.remember(strings.Repeat("x", historyEntryMax+1)) {
		t.Error("what is remembered")
	}
}

func TestReflowHome(t *testing.T) {
	// Two rows of 60 cells, the cursor at column 50 of the second, in a terminal that has
	// become 40 wide: each row is two now, the cursor in the second half of its own.
	p := pen{widths: []int{60, 60}, cursor: place{1, 50}}
	if got := p.home(&frame{cols: 40, resized: true, reflow: true}); got != "\r\x1b[3A" {
		t.Errorf("reflowed: %q", got)
	}
	if got := p.home(&frame{cols: 40, resized: true}); got != "\r\x1b[1A" {
		t.Errorf("cut: %q", got)
	}
}

func BenchmarkPrint(b *testing.B) {
	e, err := NewEditor(EditorConfig{In: strings.NewReader(""), Out: discard{}})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	b.ReportAllocs()
	for b.Loop() {
		e.Print("a line of output of an ordinary length\n")
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
