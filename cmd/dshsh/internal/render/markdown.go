package render

import (
	"strings"

	"dshsh/loop/model"
)

// Replies are shown as Markdown where there is a terminal with colours. They are taken
// apart line by line into blocks (a paragraph, an item of a list, a line of code), each
// of which is parsed on its own as soon as it is whole: a reply is read while it comes.

// maxBlock is how many bytes a block may grow to before what there is of it is shown:
// it is parsed again as it grows.
const maxBlock = 16 << 10

// markdownView is one block of a reply's text while it comes. Only its blockView uses it.
type markdownView struct {
	lines []string // whole lines of the Markdown block that has not ended, without the indent
	size  int      // their bytes
	shown int      // rows of it that are on the screen
	tried int      // bytes of the unfinished line when rows were last looked for
	fence string   // what closes the code that lines belong to; "" outside
	lang  string   // its language
	outer int      // cells that the fence is indented
	items []int    // columns of the contents of the list items that lines may belong to
	began bool     // the block that has not ended begins a list item
}

// formats reports whether v is shown as Markdown. Without colours a person sees the bytes.
func (r *Renderer) formats(v *blockView) bool {
	return v.kind == model.BlockText && r.opts.Color && r.opts.Width > 0
}

// markdownLine takes one whole line of a reply.
func (r *Renderer) markdownLine(v *blockView, line string, out *lines) {
	m := &v.markdown
	m.tried = 0
	if m.fence != "" {
		r.codeLine(v, line, out)
		return
	}
	line = expandTabs(line)
	text := strings.TrimLeft(line, " ")
	if text == "" {
		r.endBlock(v, out)
		if v.lines > 0 {
			r.step.blanks++
		}
		return
	}
	indent := len(line) - len(text)
	item := itemWidth(text)
	if len(m.lines) == 0 || item > 0 && indent < m.contents() {
		// Does it belong to an item of a list that is on the screen already?
		r.endBlock(v, out)
		for len(m.items) > 0 && indent < m.items[len(m.items)-1] {
			m.items = m.items[:len(m.items)-1]
		}
	}
	if f := fenceOf(text); f != "" {
		r.endBlock(v, out)
		m.fence, m.outer = f, indent
		m.lang, _, _ = strings.Cut(strings.TrimSpace(strings.TrimLeft(text, f[:1])), " ")
		return
	}
	if len(m.lines) == 0 && item > 0 {
		m.began = true
		m.items = append(m.items, indent+item)
		line = line[m.margin():]
	} else {
		line = line[min(indent, m.contents()):]
	}
	m.lines = append(m.lines, line)
	m.size += len(line)
	switch {
	case heading(line) && len(m.lines) == 1 || m.size > maxBlock:
		r.endBlock(v, out)
	default:
		r.someRows(v, "", out)
	}
}

// contents is the column at which lines of the block begin.
func (m *markdownView) contents() int {
	if n := len(m.items); n > 0 && !m.began {
		return m.items[n-1]
	} else if n > 0 {
		return m.margin()
	}
	return 0
}

// margin is how many cells the block is indented: an item of a list stands where its
// marker does.
func (m *markdownView) margin() int {
	n := len(m.items)
	if m.began {
		n--
	}
	if n == 0 {
		return 0
	}
	return m.items[n-1]
}

// markdownPending looks whether rows of an unfinished line can be shown: a paragraph may
// be one line of a thousand characters.
func (r *Renderer) markdownPending(v *blockView, pending string, out *lines) {
	m := &v.markdown
	if m.fence != "" || len(pending)-m.tried < r.room(0) || len(pending) > maxBlock {
		return
	}
	m.tried = len(pending)
	pending = expandTabs(pending)
	text := strings.TrimLeft(pending, " ")
	indent := len(pending) - len(text)
	if item := itemWidth(text); len(m.lines) == 0 || item > 0 && indent < m.contents() {
		return // a block begins here: its line has to be whole first
	}
	r.someRows(v, pending[min(indent, m.contents()):], out)
}

// someRows shows the rows of the open block that can change no more, whatever follows.
// The last one always can.
func (r *Renderer) someRows(v *blockView, pending string, out *lines) {
	m := &v.markdown
	rows, settled := r.markdownRows(m, pending)
	if settled {
		r.blockRows(v, rows[:max(len(rows)-1, 0)], out)
	}
}

// endBlock shows what is left of the open block.
func (r *Renderer) endBlock(v *blockView, out *lines) {
	m := &v.markdown
	if len(m.lines) > 0 {
		rows, _ := r.markdownRows(m, "")
		r.blockRows(v, rows, out)
	}
	m.lines, m.size, m.shown, m.tried, m.began = nil, 0, 0, 0, false
}

// blockRows shows those of rows that are not on the screen yet.
func (r *Renderer) blockRows(v *blockView, rows []string, out *lines) {
	m := &v.markdown
	for ; m.shown < len(rows); m.shown++ {
		if rows[m.shown] == "" {
			r.step.blanks++
			continue
		}
		r.proseRow(v, rows[m.shown], out)
	}
}

// markdownRows lays the open block out, with the beginning of its next line. settled says
// that no later text changes rows before the last.
func (r *Renderer) markdownRows(m *markdownView, pending string) (rows []string, settled bool) {
	text := strings.Join(m.lines, "\n")
	if pending != "" {
		text += "\n" + pending
	}
	margin := strings.Repeat(" ", m.margin())
	p := &page{r: r}
	p.document(text, prefix{margin, margin})
	return p.rows, !p.open && !strings.Contains(text, "|")
}

// codeLine takes one line of a fenced code block, or its end.
func (r *Renderer) codeLine(v *blockView, line string, out *lines) {
	m := &v.markdown
	text := strings.TrimSpace(line)
	if f := fenceOf(text); f != "" && f[0] == m.fence[0] && len(f) >= len(m.fence) && strings.Trim(text, f[:1]) == "" {
		m.fence = ""
		return
	}
	line = expandTabs(line[min(len(line)-len(strings.TrimLeft(line, " ")), m.outer):])
	if line == "" {
		if v.lines > 0 {
			r.step.blanks++
		}
		return
	}
	margin := strings.Repeat(" ", m.margin())
	for row := range rows(line, r.room(len(margin))) {
		r.proseRow(v, margin+r.paint(codeColor(m.lang, line), row), out)
	}
}

// codeColor is the tint of a line of code.
func codeColor(lang, line string) string {
	if lang == "diff" || lang == "patch" {
		if c := diffColor(line); c != "" {
			return c
		}
	}
	return "36"
}

// diffColor is the colour of a line of a diff, "" for those that it has in common.
func diffColor(line string) string {
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		return "1"
	case strings.HasPrefix(line, "+"):
		return "32"
	case strings.HasPrefix(line, "-"):
		return "31"
	case strings.HasPrefix(line, "@@"):
		return "35"
	}
	return ""
}

// fenceOf returns the backticks or tildes that a line, without its indent, opens code
// with, or "".
func fenceOf(text string) string {
	if text == "" || text[0] != '`' && text[0] != '~' {
		return ""
	}
	n := len(text) - len(strings.TrimLeft(text, text[:1]))
	if n < 3 || text[0] == '`' && strings.Contains(text[n:], "`") {
		return ""
	}
	return text[:n]
}

// heading reports whether a line is a heading: it ends its own block.
func heading(line string) bool {
	rest := strings.TrimLeft(line, "#")
	n := len(line) - len(rest)
	return n > 0 && n <= 6 && (rest == "" || rest[0] == ' ')
}

// itemWidth returns how wide the marker of a list item is with the blanks behind it, 0
// when text, without its indent, begins none.
func itemWidth(text string) int {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	n := 1
	switch {
	case text == "":
		return 0
	case digits > 0 && digits < 10 && len(text) > digits && (text[digits] == '.' || text[digits] == ')'):
		n = digits + 1
	case text[0] != '-' && text[0] != '*' && text[0] != '+':
		return 0
	case strings.Trim(text, "- ") == "" && strings.Count(text, "-") > 2, strings.Trim(text, "* ") == "" && strings.Count(text, "*") > 2:
		return 0 // a rule
	}
	blanks := len(text[n:]) - len(strings.TrimLeft(text[n:], " "))
	if n < len(text) && blanks == 0 {
		return 0
	}
	if blanks == 0 || blanks > 4 {
		blanks = 1
	}
	return n + blanks
}
