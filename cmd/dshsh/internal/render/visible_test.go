package render

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	for _, c := range [][2]string{
		{"plain\ttext\n", "plain\ttext\n"},
		{"", ""},
		{"\x1b[2J\x07\x00", "^[[2J^G^@"},
		{"a\r\nb\rc", "a\nb^Mc"},
		{"\x7f", "^?"},
		{"\u009b2J", `\u009b2J`},
		{"\xff\xc3", `\xff\xc3`},
		{"abc\u202edcba", `abc\u202edcba`},
		{"\U000e0041", `\U000e0041`},
		{"👨‍👩‍👧 e\u0301 ❤️ \u200c", "👨‍👩‍👧 e\u0301 ❤️ \u200c"},
		{"🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"},
		{"你好，世界", "你好，世界"},
		{"a\u2028b\ufeff", `a\u2028b\ufeff`},
	} {
		if got := Visible(c[0]); got != c[1] {
			t.Errorf("Visible(%q) = %q, want %q", c[0], got, c[1])
		}
	}
}

// TestR131_NothingActs: no byte that a terminal would act on is left, whatever is shown.
func TestR131_NothingActs(t *testing.T) {
	for name, attack := range map[string]string{
		"clear screen":  "\x1b[2J\x1b[H",
		"title":         "\x1b]0;owned\x07",
		"clipboard":     "\x1b]52;c;aGk=\x1b\\",
		"hyperlink":     "\x1b]8;;http://x\x1b\\y\x1b]8;;\x1b\\",
		"cursor report": "\x1b[6n\x1b[c",
		"8-bit CSI":     "\u009b6n",
		"raw 8-bit CSI": "\x9b6n",
		"split utf-8":   "\xc2\x1b[6n",
	} {
		for _, got := range []string{Visible(attack), Printable(attack)} {
			for i, r := range got {
				if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
					t.Errorf("%s: %q holds %U at %d", name, got, r, i)
				}
			}
			if !utf8.ValidString(got) {
				t.Errorf("%s: %q is not UTF-8", name, got)
			}
		}
	}
	if got, want := Printable("\x1b[1;31mred\x1b[0m \x1b[2J\x1b["), "\x1b[1;31mred\x1b[0m ^[[2J^[["; got != want {
		t.Errorf("Printable = %q, want %q", got, want)
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("a\x1b[2J\r\n\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := Visible(s)
		if !utf8.ValidString(got) || firstHidden(got) != len(got) && !strings.ContainsRune(got, 0x1F3F4) {
			t.Errorf("Visible(%q) = %q", s, got)
		}
	})
}

func TestWidth(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, "abc": 3, "你好": 4, "，": 2, "e\u0301": 1, "👨‍👩‍👧": 2, "🇩🇪": 2,
		"\x1b[31mred\x1b[0m": 3, "a你\x1b[1mb": 4,
	} {
		if got := Width(s); got != want {
			t.Errorf("Width(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		s     string
		width int
		want  string
	}{
		{"hello", 5, "hello"}, {"hello world", 8, "hello..."}, {"hello", 3, "hel"},
		{"你好世界和平", 9, "你好世..."}, {"你好世界", 8, "你好世界"},
		{"anything", 0, "anything"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301e\u0301"},
	} {
		if got := Clip(c.s, c.width); got != c.want || c.width > 0 && Width(got) > c.width {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.s, c.width, got, c.want)
		}
	}
}

func TestWrapPoint(t *testing.T) {
	wrap := func(s string, width int) string {
		var rows []string
		for {
			end, next := wrapPoint(s, width)
			rows = append(rows, s[:end])
			if next == len(s) {
				return strings.Join(rows, "|")
			}
			s = s[next:]
		}
	}
	for _, c := range []struct {
		s     string
		width int
		want  string
	}{
		{"one two three", 8, "one two|three"},
		{"one two three", 7, "one two|three"},
		{"abcdefghij", 4, "abcd|efgh|ij"},
		{"你好，世界。", 4, "你|好，|世|界。"},
		{"你好世界", 5, "你好|世界"},
		{"说hello好", 6, "说|hello|好"},
		{"界", 1, "界"},
		{"fits", 0, "fits"},
	} {
		if got := wrap(c.s, c.width); got != c.want {
			t.Errorf("wrap(%q, %d) = %q, want %q", c.s, c.width, got, c.want)
		}
	}
}
