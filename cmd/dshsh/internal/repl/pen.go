package repl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
)

// frame is all that is to be drawn below the output: a snapshot. It is immutable.
type frame struct {
	prompt string
	text   []rune
	pos    int
	label  func(rune) string
	footer []string // at most cols cells each

	cols, rows int
	resized    bool // the terminal's size has changed since the last frame
	reflow     bool // and the terminal wraps its lines anew then
	fresh      bool // the cursor may be anywhere: begin on a row of its own
	bell       bool
}

// frame takes the snapshot. Editor.mu is held.
func (e *Editor) frame() *frame {
	in := e.cur
	labels := map[rune]string{}
	for _, r := range in.buf.text {
		if isPasteMark(r) {
			labels[r] = e.pastes.label(r)
		}
	}
	return &frame{
		prompt: in.prompt, text: slices.Clone(in.buf.text), pos: in.buf.pos,
		label:  func(r rune) string { return labels[r] },
		footer: e.footer(), cols: e.cols, rows: e.rows,
		resized: e.resized, reflow: e.reflow, fresh: e.fresh, bell: e.bell,
	}
}

// footer returns the rows under the line: a search, a word about the last key, the
// completions, the status. Editor.mu is held.
func (e *Editor) footer() []string {
	var rows []string
	dim := func(s string) {
		s = render.Clip(s, e.cols)
		if e.color {
			s = "\x1b[2m" + s + "\x1b[0m"
		}
		rows = append(rows, s)
	}
	if s := e.search; s != nil {
		what := "search back: "
		if s.failed {
			what = "search back, not found: "
		}
		dim(what + render.Visible(string(s.query)))
	}
	if e.hint != "" {
		dim(e.hint)
	}
	if e.comp != nil {
		rows = append(rows, e.comp.rows(e.cols, e.color)...)
	}
	if e.status != "" {
		s := e.status
		if !strings.ContainsRune(s, 0x1b) {
			s = render.Clip(s, e.cols)
		}
		rows = append(rows, s)
	}
	return rows
}

// maxCandidates is how many rows of completions are shown.
const maxCandidates = 8

// rows lays the candidates out in columns. Editor.mu is held.
func (c *completion) rows(cols int, color bool) []string {
	wide := 0
	labels := make([]string, len(c.cands))
	for i, cand := range c.cands {
		labels[i] = strings.ReplaceAll(render.Visible(cmp.Or(cand.Label, cand.Text)), "\n", " ")
		wide = max(wide, render.Width(labels[i]))
	}
	wide = min(wide+2, max(cols, 1))
	per := max(cols/wide, 1)
	first := 0
	if c.chosen >= per*maxCandidates { // the chosen one is among those that are shown
		first = (c.chosen/per - maxCandidates + 1) * per
	}
	var rows []string
	for i := first; i < len(labels) && len(rows) < maxCandidates; i += per {
		var b strings.Builder
		for j := i; j < min(i+per, len(labels)); j++ {
			s := render.Clip(labels[j], wide)
			pad := strings.Repeat(" ", max(wide-render.Width(s), 0))
			switch {
			case j != c.chosen:
			case color:
				s = "\x1b[7m" + s + "\x1b[0m"
			case pad != "": // without colours the chosen one is marked in the gap
				pad = "<" + pad[1:]
			}
			b.WriteString(s + pad)
		}
		rows = append(rows, strings.TrimRight(b.String(), " "))
	}
	if rest := len(labels) - first - len(rows)*per; rest > 0 {
		rows[len(rows)-1] = render.Clip(fmt.Sprintf("... %d more", rest+per), cols)
	}
	return rows
}

// pen knows what of the edited line is on the screen and writes the bytes that change it.
// The terminal's cursor is always on the line, so that the next change can find it, and
// everything below the line's first row is the pen's: it never touches the rows above.
// The writing goroutine alone uses it.
type pen struct {
	widths []int // of the rows that are drawn
	cursor place // where in them the cursor is
}

// home returns what moves the cursor to the first cell of the drawn rows.
func (p *pen) home(f *frame) string {
	up := p.cursor.row
	if f != nil && f.resized && f.reflow && f.cols > 0 {
		up = p.cursor.col / f.cols
		for _, w := range p.widths[:min(p.cursor.row, len(p.widths))] {
			up += max((w+f.cols-1)/f.cols, 1)
		}
	}
	if up == 0 {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA", up)
}

// erase takes the line from the screen.
func (p *pen) erase() string {
	s := p.home(nil) + "\x1b[J"
	*p = pen{}
	return s
}

// clearScreen is a line of output that clears the screen: what was printed before Ctrl-L
// goes, what comes after stays. No other text holds its control byte.
const clearScreen = "\f\n"

// draw returns the bytes that show block, whole lines, in the place of the line, and the
// line below it; without a frame the line is erased.
func (p *pen) draw(block string, f *frame) string {
	var b strings.Builder
	if f == nil {
		b.WriteString(p.erase())
	} else {
		if f.fresh {
			// A row of spaces, less one, ends on this row only if the cursor was at its
			// start; else it ends on the next. So nothing that stands there is lost.
			b.WriteString(modesOn + strings.Repeat(" ", max(f.cols-1, 0)) + "\r")
		} else {
			b.WriteString(p.home(f))
		}
		b.WriteString("\x1b[J")
	}
	for i, part := range strings.Split(block, clearScreen) {
		if i > 0 {
			b.WriteString("\x1b[H\x1b[2J")
		}
		b.WriteString(strings.ReplaceAll(part, "\n", "\r\n"))
	}
	*p = pen{}
	if f != nil {
		p.line(&b, f)
	}
	return b.String()
}

// line draws the frame at the cursor, which is at the start of an empty row.
func (p *pen) line(b *strings.Builder, f *frame) {
	l := layout{width: max(f.cols, 1), label: f.label}
	rows, cursor := l.lay(f.prompt, f.text, f.pos, nil)
	// A line may be taller than the terminal: then the rows around the cursor are shown.
	footer := f.footer[:min(len(f.footer), max(f.rows-2, 0))]
	room := max(f.rows-1-len(footer), 1)
	if first := cursor.row - room + 1; first > 0 {
		rows = rows[first:]
		cursor.row -= first
	}
	rows = append(rows[:min(len(rows), room):min(len(rows), room)], footer...)

	// Without autowrap a terminal that takes a character for wider than it is cuts the
	// row, which does not change how many rows there are.
	b.WriteString("\x1b[?7l")
	for i, row := range rows {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(row)
		p.widths = append(p.widths, render.Width(row))
	}
	b.WriteString("\x1b[?7h\r")
	if up := len(rows) - 1 - cursor.row; up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
	if cursor.col > 0 {
		fmt.Fprintf(b, "\x1b[%dC", cursor.col)
	}
	if f.bell {
		b.WriteByte(7)
	}
	p.cursor = cursor
}
