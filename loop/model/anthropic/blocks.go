package anthropic

import (
	"encoding/json"
	"strings"

	"dshsh/loop/model"
	"dshsh/loop/model/internal/wire"
)

// block is a block of the reply that is being put together.
type block struct {
	index     int    // among ours; -1 until the first piece of a text came
	kind      string // a model.Block type
	text      strings.Builder
	id, name  string          // of a call
	input     json.RawMessage // of a call that came at once
	signature string
	redacted  string
	ended     bool
}

// begin takes the start of the service's block number at.
func (s *stream) begin(at int, c *piece) {
	if old := s.at[at]; old != nil {
		s.end(old)
	}
	b := &block{index: -1}
	s.at[at] = b
	switch c.Type {
	case "text":
		b.kind = model.BlockText
		s.write(b, c.Text)
	case "thinking":
		// Also one without any text must go back: it has a signature.
		b.kind = model.BlockReasoning
		s.open(b)
		b.signature = c.Signature
		s.write(b, c.Thinking)
	case "redacted_thinking":
		b.kind, b.redacted = model.BlockReasoning, c.Data
		s.open(b)
	case "tool_use":
		b.kind, b.id, b.name, b.input = model.BlockToolCall, c.ID, c.Name, c.Input
		if b.id == "" || s.ids[b.id] { // a result could not be matched to its call
			b.id = wire.NewID()
		}
		s.ids[b.id] = true
		s.Calls++
		s.open(b)
		s.Push(model.NewToolCallDelta(b.index, b.id, b.name, ""))
	default:
		s.at[at] = nil
	}
}

// open makes b the next of our blocks.
func (s *stream) open(b *block) {
	b.index = len(s.blocks)
	s.blocks = append(s.blocks, b)
	s.Push(model.NewBlockStart(b.index, b.kind))
}

// delta takes a piece of the service's block number at. One that was never begun begins
// with it.
func (s *stream) delta(at int, d *delta) {
	b, begun := s.at[at]
	if !begun {
		kind := map[string]string{"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use"}[d.Type]
		s.begin(at, &piece{Type: kind})
		b = s.at[at]
	}
	if b == nil || b.ended {
		return
	}
	switch {
	case d.Type == "text_delta" && b.kind == model.BlockText:
		s.write(b, d.Text)
	case d.Type == "thinking_delta" && b.kind == model.BlockReasoning:
		s.write(b, d.Thinking)
	case d.Type == "signature_delta" && b.kind == model.BlockReasoning:
		b.signature += d.Signature
	case d.Type == "input_json_delta" && b.kind == model.BlockToolCall && d.PartialJSON != "":
		b.text.WriteString(d.PartialJSON)
		s.Push(model.NewToolCallDelta(b.index, "", "", d.PartialJSON))
	}
}

// write adds to a block of text or reasoning.
func (s *stream) write(b *block, piece string) {
	if piece == "" {
		return
	}
	if b.index < 0 {
		s.open(b)
	}
	b.text.WriteString(piece)
	s.chars(piece)
	if b.kind == model.BlockText {
		s.Push(model.NewTextDelta(b.index, piece))
	} else {
		s.Push(model.NewReasoningDelta(b.index, piece))
	}
}

// end closes a block. A text of which nothing came is none.
func (s *stream) end(b *block) {
	if b.ended {
		return
	}
	b.ended = true
	switch {
	case b.index < 0:
	case b.kind == model.BlockToolCall:
		s.Push(model.NewBlockEnd(b.index, model.ToolCall(b.id, b.name, b.arguments())))
	default:
		s.Push(model.NewBlockEnd(b.index, model.Block{Type: b.kind, Text: b.text.String()}))
	}
}

// arguments returns those of a call, as the model wrote them: in pieces, or at once.
func (b *block) arguments() string {
	switch {
	case b.text.Len() > 0:
		return model.ScrubJSON(b.text.String())
	case len(b.input) > 0 && string(b.input) != "null":
		return model.ScrubJSON(string(b.input))
	}
	return "{}"
}

// replay returns the replay state of the message, nil if nothing need go back.
func (s *stream) replay() json.RawMessage {
	state := replay{API: api, Blocks: make([]*signature, len(s.blocks))}
	found := false
	for i, b := range s.blocks {
		switch {
		case b.redacted != "":
			state.Blocks[i] = &signature{Redacted: b.redacted}
		case b.signature != "":
			state.Blocks[i] = &signature{Signature: b.signature, Sum: sum(b.text.String())}
		default:
			continue
		}
		found = true
	}
	if !found {
		return nil
	}
	raw, _ := json.Marshal(state) // strings always marshal
	return raw
}
