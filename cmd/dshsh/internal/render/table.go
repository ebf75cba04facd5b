package render

import (
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// tableAt returns the index of the line that heads a table, -1 when there is none.
func tableAt(lines []string) int {
	for i := 1; i < len(lines); i++ {
		if strings.Contains(lines[i-1], "|") && delimiters(lines[i]) {
			return i - 1
		}
	}
	return -1
}

// delimiters reports whether a line is what stands below a table's head: |---|:--:|.
func delimiters(line string) bool {
	return strings.Contains(line, "-") && strings.Contains(line, "|") && strings.Trim(line, "|:- ") == ""
}

// cells takes a row of a table apart; \| is a bar in a cell.
func cells(line string) []string {
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(line, "|")
	if s, ok := strings.CutSuffix(line, "|"); ok && !strings.HasSuffix(s, `\`) {
		line = s
	}
	var out []string
	cell := ""
	for i, part := range strings.Split(line, "|") {
		if i > 0 && !strings.HasSuffix(cell, `\`) {
			out, cell = append(out, strings.TrimSpace(cell)), ""
		} else if i > 0 {
			cell = strings.TrimSuffix(cell, `\`) + "|"
		}
		cell += part
	}
	return append(out, strings.TrimSpace(cell))
}

// cell is one cell of a table, parsed, one line. A value.
func (p *page) cell(s string, style string) styled {
	if p.r.parser == nil {
		p.r.parser = newParser()
	}
	p.src = []byte(s)
	doc := p.r.parser.Parse(text.NewReader(p.src))
	if first := doc.FirstChild(); first != nil && first.NextSibling() == nil && first.FirstChild() != nil && first.FirstChild().Type() == ast.TypeInline {
		if lines := p.inline(first, style); len(lines) == 1 {
			return lines[0]
		}
	}
	l := styled{text: s}
	if style != "" && s != "" {
		l.spans = []span{{0, len(s), style}}
	}
	return l
}

// table lays a table out in columns. Where they do not fit, the widest are wrapped.
func (p *page) table(lines []string, at prefix) {
	head := cells(lines[0])
	n := len(head)
	right := make([]bool, n)
	for i, c := range cells(lines[1]) {
		if i < n {
			right[i] = strings.HasSuffix(c, ":") && !strings.HasPrefix(c, ":")
		}
	}
	var table [][]styled
	for i, line := range lines {
		if i == 1 {
			continue
		}
		style := ""
		if i == 0 {
			style = "1"
		}
		row := make([]styled, n)
		for j, c := range cells(line) {
			if j < n {
				row[j] = p.cell(c, style)
			}
		}
		table = append(table, row)
	}
	widths := fit(table, p.r.room(Width(at.first))-2*(n-1))
	for i, row := range table {
		at = p.tableRow(row, widths, right, at)
		if i == 0 {
			var rule []string
			for _, w := range widths {
				rule = append(rule, strings.Repeat("-", w))
			}
			p.row(at, p.r.dim(strings.Join(rule, "  ")))
			at = at.next()
		}
	}
}

// fit returns the columns' widths: as wide as their widest cell, or, where that is more
// than room in all, the widest made narrower, though not below 4 cells.
func fit(table [][]styled, room int) []int {
	widths := make([]int, len(table[0]))
	sum := 0
	for i := range widths {
		for _, row := range table {
			widths[i] = max(widths[i], Width(row[i].text), 1)
		}
		sum += widths[i]
	}
	for sum > room {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= 4 {
			break
		}
		widths[widest]--
		sum--
	}
	return widths
}

// tableRow writes one row of a table, whose cells may take several rows of the terminal.
func (p *page) tableRow(row []styled, widths []int, right []bool, at prefix) prefix {
	rest := slices.Clone(row)
	for {
		var b strings.Builder
		more := false
		for i, c := range rest {
			end, next := wrapPoint(c.text, widths[i])
			pad := strings.Repeat(" ", max(widths[i]-Width(c.text[:end]), 0))
			if i > 0 {
				b.WriteString("  ")
			}
			if right[i] {
				b.WriteString(pad)
			}
			b.WriteString(c.painted(p.r, 0, end))
			if !right[i] {
				b.WriteString(pad)
			}
			rest[i] = c.from(next)
			more = more || rest[i].text != ""
		}
		p.row(at, b.String())
		at = at.next()
		if !more {
			return at
		}
	}
}
