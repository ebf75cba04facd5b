package repl

import (
	"fmt"
	"strings"
	"unicode"

	"dshsh/cmd/dshsh/internal/render"
)

// indent stands before every line of text but the first.
const indent = "  "

// place is a cell of the screen, counted from the first row of the edited text. It is a
// value.
type place struct{ row, col int }

// layout lays the prompt and the text out in rows of at most width cells. It never relies
// on the terminal to wrap, so it knows where each cluster is.
type layout struct {
	width int
	label func(mark rune) string // how a paste is displayed

	rows []string
	row  strings.Builder
	col  int
}

// lay returns the rows and the place of the cursor at pos. at, if not nil, is told the
// place of every cluster and of the end. prompt may hold colours. Pure.
func (l *layout) lay(prompt string, text []rune, pos int, at func(i int, p place)) ([]string, place) {
	l.rows, l.col = nil, 0
	l.row.Reset()
	if w := render.Width(prompt); w < l.width {
		l.row.WriteString(prompt)
		l.col = w
	}
	var cursor place
	mark := func(i int) {
		if l.col >= l.width { // the cursor cannot stand behind the last cell
			l.wrap()
		}
		if i == pos {
			cursor = place{len(l.rows), l.col}
		}
		if at != nil {
			at(i, place{len(l.rows), l.col})
		}
	}
	b := buffer{text: text}
	for i := 0; i < len(text); {
		n := b.clusterLen(i)
		if text[i] == '\n' {
			// Before the end of a line that fills its row the cursor stands on the last cell.
			p := place{len(l.rows), min(l.col, l.width-1)}
			if i == pos {
				cursor = p
			}
			if at != nil {
				at(i, p)
			}
			l.wrap()
			if l.width > 4*len(indent) {
				l.row.WriteString(indent)
				l.col = len(indent)
			}
			i++
			continue
		}
		shown, w := l.display(text[i : i+n])
		if w > 2 { // a label or an escape: ASCII, which may be broken anywhere
			mark(i)
			for _, r := range shown {
				l.put(string(r), 1)
			}
		} else {
			if l.col+w > l.width && l.col > 0 {
				l.wrap()
			}
			if i <= pos && pos < i+n {
				cursor = place{len(l.rows), l.col}
			}
			if at != nil {
				at(i, place{len(l.rows), l.col})
			}
			l.put(shown, w)
		}
		i += n
	}
	mark(len(text))
	l.wrap()
	return l.rows, cursor
}

func (l *layout) put(s string, w int) {
	if l.col+w > l.width && l.col > 0 {
		l.wrap()
	}
	l.row.WriteString(s)
	l.col += w
}

func (l *layout) wrap() {
	l.rows = append(l.rows, l.row.String())
	l.row.Reset()
	l.col = 0
}

// display returns how a cluster is shown, and its width.
func (l *layout) display(cluster []rune) (string, int) {
	r := cluster[0]
	switch {
	case isPasteMark(r):
		s := render.Visible(l.label(r))
		return s, render.Width(s)
	case r == '\t':
		return "    ", 4
	case len(cluster) == 1 && r >= ' ' && r < 0x7f:
		return string(r), 1
	}
	s := render.Visible(string(cluster))
	w := render.Width(s)
	if w == 0 { // alone it would join what stands before it, or be seen by nobody
		if unicode.IsMark(r) {
			return "\u25cc" + s, 1
		}
		s = fmt.Sprintf(`\u%04x`, r)
		w = len(s)
	}
	return s, w
}

// echo returns how a line that was submitted stays on the screen: whole lines, which
// the terminal wraps.
func echo(prompt string, text []rune, label func(rune) string) string {
	var b strings.Builder
	b.WriteString(prompt)
	var plain []rune
	flush := func() {
		b.WriteString(strings.ReplaceAll(render.Visible(string(plain)), "\n", "\n"+indent))
		plain = plain[:0]
	}
	for _, r := range text {
		if isPasteMark(r) {
			flush()
			b.WriteString(render.Visible(label(r)))
		} else {
			plain = append(plain, r)
		}
	}
	flush()
	b.WriteByte('\n')
	return b.String()
}

// vertical returns the position in text that is delta rows (-1 or 1) from pos on the
// screen and nearest to its column, and false if there is no such row.
func (l *layout) vertical(prompt string, text []rune, pos, delta int) (int, bool) {
	_, cursor := l.lay(prompt, text, pos, nil)
	best, bestCol, found := 0, -1, false
	l.lay(prompt, text, pos, func(i int, p place) {
		if p.row == cursor.row+delta && (!found || p.col <= cursor.col && p.col > bestCol) {
			best, bestCol, found = i, p.col, true
		}
	})
	return best, found
}
