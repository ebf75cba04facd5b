package render

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// Width returns how many terminal cells s takes, counted by grapheme clusters: wide
// characters and emoji are 2, combining marks 0. Colour sequences count nothing, other
// control bytes are not expected (see Visible); a tab counts as one cell. Any goroutine
// may call it.
func Width(s string) int {
	if strings.IndexByte(s, 0x1b) < 0 {
		return displaywidth.String(s)
	}
	n := 0
	for s != "" {
		esc := strings.IndexByte(s, 0x1b)
		if esc < 0 {
			return n + displaywidth.String(s)
		}
		n += displaywidth.String(s[:esc])
		s = s[esc:]
		s = s[max(sgrLen(s), 1):]
	}
	return n
}

// Cluster returns the first grapheme cluster of s, which is what a person takes for one
// character, and its width in cells (0 to 2). For "" it returns "", 0. Any goroutine may
// call it.
func Cluster(s string) (cluster string, cells int) {
	if s == "" {
		return "", 0
	}
	// Two printable ASCII characters in a row: certainly a boundary between them.
	if s[0] >= ' ' && s[0] < 0x7f && (len(s) == 1 || s[1] < utf8.RuneSelf) {
		return s[:1], 1
	}
	g := displaywidth.StringGraphemes(s)
	if !g.Next() {
		return s, displaywidth.String(s)
	}
	return g.Value(), g.Width()
}

// Clip returns s, one line without colours, cut to at most width cells; what was cut is
// marked with "..." where there is room for it. A width of 0 or less means no limit. Any
// goroutine may call it.
func Clip(s string, width int) string {
	// ASCII is never wider than it is long: most lines need no counting.
	if width <= 0 || len(s) <= width && isASCII(s) || Width(s) <= width {
		return s
	}
	tail := "..."
	if width < 8 {
		tail = ""
	}
	room, end := width-len(tail), 0
	for end < len(s) {
		c, w := Cluster(s[end:])
		if w > room {
			break
		}
		room -= w
		end += len(c)
	}
	return s[:end] + tail
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// expandTabs replaces tabs by spaces up to the next multiple of four cells, so that the
// width of a line can be counted.
func expandTabs(s string) string {
	if strings.IndexByte(s, '\t') < 0 {
		return s
	}
	var b strings.Builder
	col := 0
	for i, part := range strings.Split(s, "\t") {
		if i > 0 {
			n := 4 - col%4
			b.WriteString("    "[:n])
			col += n
		}
		b.WriteString(part)
		col += Width(part)
	}
	return b.String()
}
