package render

import (
	"strings"

	"dshsh/loop/model"
	"dshsh/session"
)

// stepView is what has been shown of the reply of the current step. Only the Renderer
// that holds it uses it.
type stepView struct {
	turn, step int64
	blocks     map[int]*blockView
	open       int    // index of the block whose unfinished line is pending
	pending    string // that line, made visible; "" for none
	heldCR     bool   // a \r whose next character has not come yet
	blanks     int    // empty lines held back until more text comes
	attemptEnd bool   // the attempt has finished; another chunk begins a new one
}

// blockView is one block of the reply as it was streamed. Only its stepView uses it.
type blockView struct {
	kind  string          // model.BlockText, BlockReasoning, BlockToolCall
	text  strings.Builder // all of it, to compare with the message
	lines int             // printed so far

	markdown markdownView
}

// chunk shows one streamed chunk by whole lines.
func (r *Renderer) chunk(rec session.Record, out *lines) {
	var d struct {
		Turn  int64       `json:"turn"`
		Step  int64       `json:"step"`
		Chunk model.Chunk `json:"chunk"`
	}
	if !read(rec, &d) {
		return
	}
	s := &r.step
	if s.turn != d.Turn || s.step != d.Step || s.attemptEnd {
		r.flushStream(out)
		*s = stepView{turn: d.Turn, step: d.Step}
	}
	index := 0
	if d.Chunk.Index != nil {
		index = *d.Chunk.Index
	}
	switch d.Chunk.Type {
	case model.ChunkBlockStart:
		r.block(index, d.Chunk.BlockType, out)
	case model.ChunkTextDelta:
		r.delta(r.block(index, model.BlockText, out), d.Chunk.Text, out)
	case model.ChunkReasoningDelta:
		r.delta(r.block(index, model.BlockReasoning, out), d.Chunk.Text, out)
	case model.ChunkBlockEnd:
		if b := d.Chunk.Block; b != nil && (b.Type == model.BlockText || b.Type == model.BlockReasoning) {
			v := r.block(index, b.Type, out)
			// The end is authoritative: a block that came in one piece is shown now.
			if rest, ok := strings.CutPrefix(b.Text, v.text.String()); ok && rest != "" {
				r.delta(v, rest, out)
			}
		}
		r.flushStream(out)
	case model.ChunkFinish:
		r.flushStream(out)
		s.attemptEnd = true
	}
}

// block returns the view of a block, making it the one whose line is pending.
func (r *Renderer) block(index int, kind string, out *lines) *blockView {
	s := &r.step
	v := s.blocks[index]
	if v != nil && s.open == index {
		return v
	}
	r.flushStream(out)
	if v == nil {
		if s.blocks == nil {
			s.blocks = map[int]*blockView{}
		}
		v = &blockView{kind: kind}
		s.blocks[index] = v
	}
	s.open, s.blanks = index, 0
	return v
}

// delta adds streamed text to the pending line and prints what has become whole.
func (r *Renderer) delta(v *blockView, text string, out *lines) {
	s := &r.step
	v.text.WriteString(text)
	if s.heldCR {
		text, s.heldCR = "\r"+text, false
	}
	// Whether a \r is a line end can only be told from what follows it.
	if t, ok := strings.CutSuffix(text, "\r"); ok {
		text, s.heldCR = t, true
	}
	s.pending += Visible(text)
	for {
		line, rest, whole := strings.Cut(s.pending, "\n")
		if !whole {
			break
		}
		s.pending = ""
		r.proseLine(v, line, out)
		s.pending = rest
	}
	if r.formats(v) {
		r.markdownPending(v, s.pending, out)
		return
	}
	// A paragraph may be one line of a thousand characters: it is shown row by row.
	if room := r.room(r.proseIndent(v)); room > 0 && len(s.pending) > room {
		line := expandTabs(s.pending)
		for {
			end, next := wrapPoint(line, room)
			if next == len(line) {
				break
			}
			r.proseRow(v, line[:end], out)
			line = line[next:]
		}
		s.pending = line
	}
}

// flushStream prints the unfinished line.
func (r *Renderer) flushStream(out *lines) {
	s := &r.step
	v := s.blocks[s.open]
	if v == nil {
		return
	}
	if s.heldCR {
		s.pending, s.heldCR = s.pending+"^M", false
	}
	if s.pending != "" {
		line := s.pending
		s.pending = ""
		r.proseLine(v, line, out)
	}
	r.endBlock(v, out)
	s.blanks = 0
}

// proseLine prints one whole line of text or reasoning, wrapped. Empty lines wait until
// something follows them, and are dropped at the start and the end of a block.
func (r *Renderer) proseLine(v *blockView, line string, out *lines) {
	if r.formats(v) {
		r.markdownLine(v, line, out)
		return
	}
	line = expandTabs(strings.TrimRight(line, " "))
	if line == "" {
		if v.lines > 0 {
			r.step.blanks++
		}
		return
	}
	for row := range rows(line, r.room(r.proseIndent(v))) {
		r.proseRow(v, row, out)
	}
}

// proseRow prints one row.
func (r *Renderer) proseRow(v *blockView, row string, out *lines) {
	if v.kind == model.BlockReasoning {
		r.begin(sectionReasoning, out)
	} else {
		r.begin(sectionText, out)
	}
	for ; r.step.blanks > 0; r.step.blanks-- {
		out.add("")
	}
	v.lines++
	if v.kind == model.BlockReasoning {
		row = r.dim("~ " + row)
	}
	out.add(row)
}

func (r *Renderer) proseIndent(v *blockView) int {
	if v.kind == model.BlockReasoning {
		return 2
	}
	return 0
}

// assistantMessage ends a reply. What was streamed stands on the screen already; a
// message that says something else (it was not streamed, or a listener replaced it) is
// shown whole.
func (r *Renderer) assistantMessage(rec session.Record, out *lines) {
	var d struct {
		Turn        int64         `json:"turn"`
		Step        int64         `json:"step"`
		Message     model.Message `json:"message"`
		Interrupted bool          `json:"interrupted"`
	}
	if !read(rec, &d) {
		return
	}
	r.flushStream(out)
	s := &r.step
	streamed := s.turn == d.Turn && s.step == d.Step && len(s.blocks) > 0
	if !streamed || !s.shows(d.Message.Content, d.Interrupted) {
		if streamed && s.hasProse() {
			r.note(out, (*Renderer).yellow, "[the reply was replaced before it was recorded]")
		}
		*s = stepView{turn: d.Turn, step: d.Step}
		for i, b := range d.Message.Content {
			if b.Type == model.BlockText || b.Type == model.BlockReasoning {
				r.delta(r.block(i, b.Type, out), b.Text, out)
				r.flushStream(out)
			}
		}
	}
	r.step = stepView{}
	if d.Interrupted {
		r.note(out, (*Renderer).yellow, "[the reply was cut off here]")
	}
}

// shows reports whether the streamed blocks say what the message says. Of a cut reply
// the message may keep less than was streamed.
func (s *stepView) shows(content []model.Block, cut bool) bool {
	for _, kind := range []string{model.BlockText, model.BlockReasoning} {
		want := ""
		for _, b := range content {
			if b.Type == kind {
				want += b.Text
			}
		}
		got := s.all(kind)
		if got != want && !(cut && strings.HasPrefix(got, want)) {
			return false
		}
	}
	return true
}

// all joins what was streamed of one kind, in the order of the blocks' indices.
func (s *stepView) all(kind string) string {
	var b strings.Builder
	for i, left := 0, len(s.blocks); left > 0 && i < 1<<16; i++ {
		if v := s.blocks[i]; v != nil {
			left--
			if v.kind == kind {
				b.WriteString(v.text.String())
			}
		}
	}
	return b.String()
}

func (s *stepView) hasProse() bool {
	return s.all(model.BlockText) != "" || s.all(model.BlockReasoning) != ""
}
