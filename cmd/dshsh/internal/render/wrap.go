package render

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// wrapPoint returns where to break s, one line without colours, so that its first part
// takes at most width cells: end is the length of the first part, next where the rest
// begins (behind the spaces at which it was broken). It breaks behind a space if there
// is one, else beside a wide character, else anywhere between two clusters. For a line
// that fits, end is len(s).
func wrapPoint(s string, width int) (end, next int) {
	if width <= 0 || len(s) <= width && isASCII(s) {
		return len(s), len(s)
	}
	col, i := 0, 0
	good, goodNext := 0, 0 // the last place where breaking reads well
	prevWide, prevSpace := false, false
	for i < len(s) {
		c, w := Cluster(s[i:])
		space := c == " "
		wide := w == 2
		if i > 0 && !space {
			if prevSpace || (wide || prevWide) && !closing(c) {
				good, goodNext = i, i
			}
		}
		if col+w > width && !space {
			if good > 0 {
				return trimRight(s[:good]), goodNext
			}
			if i == 0 { // one cluster wider than the terminal
				i = len(c)
			}
			return i, i
		}
		col += w
		i += len(c)
		prevWide, prevSpace = wide, space
	}
	return len(s), len(s)
}

// rows yields the rows that s, one line without colours, is wrapped into; at least one.
func rows(s string, width int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			end, next := wrapPoint(s, width)
			if !yield(s[:end]) || next == len(s) {
				return
			}
			s = s[next:]
		}
	}
}

// Wrap breaks the lines of text, which has been made visible and has no colours, between
// words so that they take at most width cells; 0 is no limit.
func Wrap(text string, width int) string {
	if width <= 0 {
		return text
	}
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		for row := range rows(line, width) {
			out = append(out, row)
		}
	}
	return strings.Join(out, "\n")
}

// closing reports whether the cluster is punctuation that must not begin a line.
func closing(c string) bool {
	r, _ := utf8.DecodeRuneInString(c)
	switch r {
	case '、', '。', '，', '．', '！', '？', '：', '；', '…', 'ー', '～', '・':
		return true
	}
	return unicode.In(r, unicode.Pe, unicode.Pf)
}

func trimRight(s string) int {
	n := len(s)
	for n > 0 && s[n-1] == ' ' {
		n--
	}
	return n
}
