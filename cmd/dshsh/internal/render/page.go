package render

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// newParser is one for CommonMark and struck text. A Renderer makes it when it is first
// wanted: most runs show no Markdown. The package goldmark/extension is left out, whose
// patterns would be compiled at every start. A line of dashes below a paragraph is a rule:
// were it to make a heading of it, as in CommonMark, no row could be shown before the end.
func newParser() parser.Parser {
	inline := append(parser.DefaultInlineParsers(), util.Prioritized(strikes{}, 500))
	return parser.NewParser(parser.WithInlineParsers(inline...), parser.WithBlockParsers(
		util.Prioritized(parser.NewThematicBreakParser(), 200), util.Prioritized(parser.NewListParser(), 300),
		util.Prioritized(parser.NewListItemParser(), 400), util.Prioritized(parser.NewCodeBlockParser(), 500),
		util.Prioritized(parser.NewATXHeadingParser(), 600), util.Prioritized(parser.NewFencedCodeBlockParser(), 700),
		util.Prioritized(parser.NewBlockquoteParser(), 800), util.Prioritized(parser.NewHTMLBlockParser(), 900),
		util.Prioritized(parser.NewParagraphParser(), 1000)))
}

// page lays one block of Markdown out in rows. One call of the Renderer uses it.
type page struct {
	r    *Renderer
	rows []string
	src  []byte
	// open says that the text has a sign that begins something, such as emphasis, which
	// text to come may end.
	open bool
}

// prefix stands before rows: first before the next one, rest before those that follow.
// A value.
type prefix struct{ first, rest string }

func (p prefix) add(first, rest string) prefix { return prefix{p.first + first, p.rest + rest} }

// next is the prefix once its first row has been written.
func (p prefix) next() prefix { return prefix{p.rest, p.rest} }

// document lays out text, whole lines that have been made visible.
func (p *page) document(s string, at prefix) {
	lines := strings.Split(s, "\n")
	if i := tableAt(lines); i >= 0 {
		if i > 0 {
			p.document(strings.Join(lines[:i], "\n"), at)
			at = at.next()
		}
		p.table(lines[i:], at)
		return
	}
	if p.r.parser == nil {
		p.r.parser = newParser()
	}
	p.src = []byte(s)
	p.blocks(p.r.parser.Parse(text.NewReader(p.src)), at)
}

// blocks lays out the children of n and returns what stands before the next row.
func (p *page) blocks(n ast.Node, at prefix) prefix {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if c.PreviousSibling() != nil && c.HasBlankPreviousLines() {
			p.rows = append(p.rows, strings.TrimRight(at.rest, " "))
		}
		before := len(p.rows)
		p.block(c, at)
		if len(p.rows) > before {
			at = at.next()
		}
	}
	return at
}

func (p *page) block(n ast.Node, at prefix) {
	switch n := n.(type) {
	case *ast.Heading:
		style := "1"
		if n.Level == 1 {
			style = "1;4"
		}
		p.prose(n, style, at)
	case *ast.ThematicBreak:
		p.row(at, p.r.dim(strings.Repeat("-", min(p.r.room(Width(at.first)), 40))))
	case *ast.List:
		p.list(n, at)
	case *ast.Blockquote:
		bar := p.r.dim("| ")
		p.blocks(n, at.add(bar, bar))
	case *ast.CodeBlock, *ast.FencedCodeBlock, *ast.HTMLBlock:
		style := "36"
		if n.Kind() == ast.KindHTMLBlock {
			style = ""
		}
		for i := range n.Lines().Len() {
			seg := n.Lines().At(i)
			p.plain(strings.TrimRight(string(seg.Value(p.src)), "\n"), style, at)
			at = at.next()
		}
	default:
		p.prose(n, "", at)
	}
}

// list lays out a list.
func (p *page) list(l *ast.List, at prefix) {
	number := l.Start
	for c := l.FirstChild(); c != nil; c = c.NextSibling() {
		if c.PreviousSibling() != nil && c.HasBlankPreviousLines() {
			p.rows = append(p.rows, strings.TrimRight(at.rest, " "))
		}
		marker := "- "
		if l.IsOrdered() {
			marker = fmt.Sprintf("%d%c ", number, l.Marker)
			number++
		}
		before := len(p.rows)
		p.blocks(c, at.add(marker, strings.Repeat(" ", len(marker))))
		if len(p.rows) == before { // an empty item
			p.row(at, strings.TrimRight(marker, " "))
		}
		at = at.next()
	}
}

// row writes one row behind the prefix.
func (p *page) row(at prefix, s string) {
	p.rows = append(p.rows, strings.TrimRight(at.first+s, " "))
}

// plain writes a line as it is, wrapped.
func (p *page) plain(line, style string, at prefix) {
	for row := range rows(line, p.r.room(Width(at.first))) {
		if style != "" {
			row = p.r.paint(style, row)
		}
		p.row(at, row)
		at = at.next()
	}
}

// prose writes the text in n, wrapped. The lines of the author stay: a reply that breaks
// a line means it.
func (p *page) prose(n ast.Node, style string, at prefix) {
	for _, l := range p.inline(n, style) {
		for {
			end, next := wrapPoint(l.text, p.r.room(Width(at.first)))
			p.row(at, l.painted(p.r, 0, end))
			at = at.next()
			if next == len(l.text) {
				break
			}
			l = l.from(next)
		}
	}
}

// styled is a line of text with styles for parts of it. A value.
type styled struct {
	text  string
	spans []span // in order, not overlapping
}

// span is a part of a line that has a style, an SGR sequence's parameters.
type span struct {
	start, end int
	style      string
}

func (l styled) painted(r *Renderer, start, end int) string {
	var b strings.Builder
	for _, s := range l.spans {
		if s.start >= end {
			break
		}
		if s.end <= start {
			continue
		}
		from, to := max(s.start, start), min(s.end, end)
		b.WriteString(l.text[start:from])
		b.WriteString(r.paint(s.style, l.text[from:to]))
		start = to
	}
	b.WriteString(l.text[start:end])
	return b.String()
}

func (l styled) from(n int) styled {
	rest := styled{text: l.text[n:]}
	for _, s := range l.spans {
		if s.end > n {
			rest.spans = append(rest.spans, span{max(s.start-n, 0), s.end - n, s.style})
		}
	}
	return rest
}

// inline is the text in n, line by line.
func (p *page) inline(n ast.Node, style string) []styled {
	w := &inliner{page: p, out: []styled{{}}}
	w.children(n, style)
	return w.out
}

// inliner collects the text of one paragraph. Only page.inline uses it.
type inliner struct {
	page *page
	out  []styled
}

func (w *inliner) children(n ast.Node, style string) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		w.node(c, style)
	}
}

func (w *inliner) node(n ast.Node, style string) {
	src := w.page.src
	switch n := n.(type) {
	case *ast.Text:
		raw := n.Segment.Value(src)
		w.page.open = w.page.open || bytes.ContainsAny(raw, "*_`[~<&\\")
		w.put(unescape(raw), style)
		if n.SoftLineBreak() || n.HardLineBreak() {
			w.out = append(w.out, styled{})
		}
	case *ast.String:
		w.put(string(n.Value), style)
	case *ast.CodeSpan:
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			if t, ok := c.(*ast.Text); ok {
				w.put(strings.ReplaceAll(string(t.Segment.Value(src)), "\n", " "), add(style, "36"))
			}
		}
	case *ast.Emphasis:
		w.children(n, add(style, map[int]string{1: "3", 2: "1"}[n.Level]))
	case *struck:
		w.children(n, add(style, "9"))
	case *ast.Link:
		at := w.mark()
		w.children(n, add(style, "4"))
		if to := string(n.Destination); w.since(at) != to {
			w.put(" ("+to+")", add(style, "2"))
		}
	case *ast.AutoLink:
		w.put(string(n.URL(src)), add(style, "4"))
	case *ast.Image:
		w.put("[image: ", style)
		w.children(n, style)
		w.put("] ("+string(n.Destination)+")", add(style, "2"))
	case *ast.RawHTML:
		for i := range n.Segments.Len() {
			seg := n.Segments.At(i)
			w.put(string(seg.Value(src)), style)
		}
	default:
		w.children(n, style)
	}
}

func add(style, more string) string {
	if style == "" {
		return more
	}
	return style + ";" + more
}

// put appends text, which may have become dangerous again: &#27; is an escape.
func (w *inliner) put(s, style string) {
	for i, part := range strings.Split(Visible(s), "\n") {
		if i > 0 {
			w.out = append(w.out, styled{})
		}
		l := &w.out[len(w.out)-1]
		if part = expandTabs(part); part != "" && style != "" {
			l.spans = append(l.spans, span{len(l.text), len(l.text) + len(part), style})
		}
		l.text += part
	}
}

// mark is where the text ends, for since.
func (w *inliner) mark() [2]int { return [2]int{len(w.out) - 1, len(w.out[len(w.out)-1].text)} }

func (w *inliner) since(at [2]int) string {
	if at[0] != len(w.out)-1 {
		return ""
	}
	return w.out[at[0]].text[at[1]:]
}

// unescape resolves backslashes and entities.
func unescape(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 && bytes.IndexByte(raw, '&') < 0 {
		return string(raw)
	}
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		switch end := bytes.IndexByte(raw[i:], ';'); {
		case raw[i] == '\\' && i+1 < len(raw) && util.IsPunct(raw[i+1]):
			i++
			b.WriteByte(raw[i])
		case raw[i] == '&' && end > 0 && end < 40:
			b.Write(util.ResolveEntityNames(util.ResolveNumericReferences(raw[i : i+end+1])))
			i += end
		default:
			b.WriteByte(raw[i])
		}
	}
	return b.String()
}
