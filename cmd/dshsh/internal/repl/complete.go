package repl

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// completion is a list of candidates on the screen. Editor.mu guards it.
type completion struct {
	cands  []Candidate
	chosen int    // -1 until Tab is pressed again
	line   []rune // the line before any was chosen
	pos    int
}

// complete starts a completion, or steps to another candidate of the one that is shown.
// Editor.mu is held.
func (e *Editor) complete(step int) {
	if c := e.comp; c != nil {
		if c.chosen < 0 && step < 0 {
			c.chosen = 0 // backwards from none is the last
		}
		c.chosen = (c.chosen + step + len(c.cands)) % len(c.cands)
		b := &e.cur.buf
		b.text, b.pos = slices.Clone(c.line), c.pos
		b.replace(c.cands[c.chosen])
		return
	}
	if e.cfg.Complete == nil || e.cur.ask != nil {
		e.ring()
		return
	}
	run := e.compRun
	line, pos := string(e.cur.buf.text), len(string(e.cur.buf.text[:e.cur.buf.pos]))
	go func() {
		defer e.contain("completion")
		cands := e.cfg.Complete(line, pos)
		e.mu.Lock()
		defer e.redraw()
		defer e.mu.Unlock()
		if e.compRun == run {
			e.completed(cands, pos)
		}
	}()
}

// completed takes over the candidates for the line as it still is. Editor.mu is held.
func (e *Editor) completed(cands []Candidate, pos int) {
	cands = slices.DeleteFunc(slices.Clone(cands), func(c Candidate) bool {
		return c.From < 0 || c.From > pos || !utf8.ValidString(c.Text)
	})
	if len(cands) == 0 {
		e.ring()
		return
	}
	b := &e.cur.buf
	if len(cands) == 1 {
		b.replace(cands[0])
		return
	}
	line := string(b.text)
	if common := commonPrefix(cands); common != "" && common != line[cands[0].From:pos] {
		b.replace(Candidate{From: cands[0].From, Text: common})
	}
	e.comp = &completion{cands: cands, chosen: -1, line: slices.Clone(b.text), pos: b.pos}
}

// replace puts a candidate in the place of what stands between its start and the cursor.
func (b *buffer) replace(c Candidate) {
	before := string(b.text[:b.pos])
	b.cut(utf8.RuneCountInString(before[:min(c.From, len(before))]), b.pos)
	b.insert([]rune(c.Text))
}

// commonPrefix returns what all candidates begin with; "" if they begin in different
// places.
func commonPrefix(cands []Candidate) string {
	p := cands[0].Text
	for _, c := range cands[1:] {
		if c.From != cands[0].From {
			return ""
		}
		n := 0
		for n < len(p) && n < len(c.Text) && p[n] == c.Text[n] {
			n++
		}
		p = p[:n]
	}
	for !utf8.ValidString(p) {
		p = p[:len(p)-1]
	}
	return strings.Clone(p)
}
