package model

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Assembler folds the chunks of one reply into the blocks of an assistant message.
//
// Blocks stand in the order in which their indexes were first seen. A block-end gives
// the whole block and whatever comes for that index afterwards is ignored; a block that
// was never closed is put together from its deltas. A tool call without an id becomes
// call-<index>. What follows the finish chunk is ignored.
//
// An Assembler is used on one goroutine at a time. What its methods return is not
// changed by later calls to Add.
type Assembler struct {
	parts       []*part // in first-seen order
	usage       *Usage
	finish      *Finish
	replayState json.RawMessage
}

// part is a block that is being put together.
type part struct {
	index  int
	kind   string // a Block type, from block-start or else from the first delta
	text   strings.Builder
	id     string
	name   string
	closed *Block // what the block-end said
}

// NewAssembler returns an Assembler that has seen nothing.
func NewAssembler() *Assembler { return &Assembler{} }

// Add takes the next chunk. Chunks of unknown type, deltas that do not fit their block
// and chunks that lack what their type needs are ignored: they are logged as they came,
// and refusing a reply because of them would help nobody.
func (a *Assembler) Add(c Chunk) {
	if a.finish != nil {
		return
	}
	switch c.Type {
	case ChunkBlockStart:
		if c.Index != nil {
			a.part(*c.Index, c.BlockType)
		}
	case ChunkTextDelta:
		a.delta(c, BlockText, c.Text)
	case ChunkReasoningDelta:
		a.delta(c, BlockReasoning, c.Text)
	case ChunkToolCallDelta:
		if p := a.delta(c, BlockToolCall, c.ArgumentsDelta); p != nil {
			if p.id == "" {
				p.id = c.ID
			}
			if p.name == "" {
				p.name = c.Name
			}
		}
	case ChunkBlockEnd:
		if c.Index == nil || c.Block == nil {
			return
		}
		if p := a.part(*c.Index, c.Block.Type); p.closed == nil {
			b := *c.Block
			if b.Type == BlockToolCall && b.ID == "" {
				b.ID = callID(p.index)
			}
			p.closed = &b
		}
	case ChunkUsage:
		if c.Usage != nil {
			u := *c.Usage
			a.usage = &u
		}
	case ChunkFinish:
		f := Finish{Kind: FinishStop}
		if c.Reason != nil {
			f = *c.Reason
		}
		a.finish, a.replayState = &f, c.ReplayState
	}
}

// part returns the block at index, which it opens with the given kind when it is new.
func (a *Assembler) part(index int, kind string) *part {
	// From the back: deltas belong to the newest block nearly always.
	for i := len(a.parts) - 1; i >= 0; i-- {
		if a.parts[i].index == index {
			return a.parts[i]
		}
	}
	p := &part{index: index, kind: kind}
	a.parts = append(a.parts, p)
	return p
}

// delta adds text to the chunk's block and returns it, or nil when the chunk has no
// place in it.
func (a *Assembler) delta(c Chunk, kind, text string) *part {
	if c.Index == nil {
		return nil
	}
	p := a.part(*c.Index, kind)
	if p.kind == "" {
		p.kind = kind
	}
	if p.closed != nil || p.kind != kind {
		return nil
	}
	p.text.WriteString(text)
	return p
}

// block returns the part as a block; false when it is of a kind that cannot be put
// together from deltas and was not closed.
func (p *part) block() (Block, bool) {
	if p.closed != nil {
		return *p.closed, true
	}
	switch p.kind {
	case BlockText, BlockReasoning:
		return Block{Type: p.kind, Text: p.text.String()}, true
	case BlockToolCall:
		id := p.id
		if id == "" {
			id = callID(p.index)
		}
		return ToolCall(id, p.name, p.text.String()), true
	}
	return Block{}, false
}

func callID(index int) string { return "call-" + strconv.Itoa(index) }

// Blocks returns the content of the assistant message: every block, but no tool calls
// when the reply was cut by the token limit, because their arguments cannot be trusted
// to be whole. The result is never nil.
func (a *Assembler) Blocks() []Block {
	blocks, _ := a.blocks()
	return blocks
}

// blocks returns the blocks of the message and, for each block that streamed, whether it
// is among them.
func (a *Assembler) blocks() (blocks []Block, kept []bool) {
	blocks = make([]Block, 0, len(a.parts))
	cut := a.Finish().Kind == FinishMaxTokens
	for _, p := range a.parts {
		b, ok := p.block()
		if !ok {
			continue
		}
		keep := !cut || b.Type != BlockToolCall
		if keep {
			blocks = append(blocks, b)
		}
		kept = append(kept, keep)
	}
	return blocks, kept
}

// Interrupted returns what is kept of a reply that was cancelled: text and reasoning
// that is not blank, closed or not, in the order it streamed, and closed blocks of other
// kinds; never a tool call. It is empty when nothing is worth keeping, and then no
// message should be recorded.
func (a *Assembler) Interrupted() []Block {
	var blocks []Block
	for _, p := range a.parts {
		b, ok := p.block()
		switch {
		case !ok, b.Type == BlockToolCall:
		case (b.Type == BlockText || b.Type == BlockReasoning) && strings.TrimSpace(b.Text) == "":
		default:
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// Finish returns how the reply ended; a reply without a finish chunk counts as stop.
func (a *Assembler) Finish() Finish {
	if a.finish == nil {
		return Finish{Kind: FinishStop}
	}
	return *a.finish
}

// Finished reports whether a finish chunk was seen.
func (a *Assembler) Finished() bool { return a.finish != nil }

// Usage returns the newest usage that the reply reported, or nil if it reported none.
func (a *Assembler) Usage() *Usage {
	if a.usage == nil {
		return nil
	}
	u := *a.usage
	return &u
}

// ReplayState returns the provider's replay state for Source.ReplayState, kept in step
// with Blocks: see PruneReplay. It is nil when there is none.
func (a *Assembler) ReplayState() json.RawMessage {
	_, kept := a.blocks()
	return PruneReplay(a.replayState, kept)
}

// Message returns the assistant message with the given id, as answered by the model
// that the request named.
func (a *Assembler) Message(id string, config Config) Message {
	return Message{
		ID:      id,
		Role:    RoleAssistant,
		Content: a.Blocks(),
		Source: Source{
			Kind:        SourceModel,
			Provider:    config.Provider,
			Model:       config.Model,
			ReplayState: a.ReplayState(),
		},
	}
}

// PruneReplay keeps a replay state in step with the message it belongs to when blocks
// are dropped. Replay state is the provider's own and opaque, except for this one
// convention: when it is a JSON object with a member "blocks" that is an array with one
// entry per block of the message, the entries of dropped blocks are removed. kept says
// for each of the original blocks whether it stays. A state that has blocks to lose but
// does not follow the convention is dropped, since it may speak of what is gone.
func PruneReplay(state json.RawMessage, kept []bool) json.RawMessage {
	dropped := false
	for _, k := range kept {
		dropped = dropped || !k
	}
	if len(state) == 0 || !dropped {
		return state
	}
	var object map[string]json.RawMessage
	var entries []json.RawMessage
	if json.Unmarshal(state, &object) != nil ||
		json.Unmarshal(object["blocks"], &entries) != nil || len(entries) != len(kept) {
		return nil
	}
	left := make([]json.RawMessage, 0, len(entries))
	for i, e := range entries {
		if kept[i] {
			left = append(left, e)
		}
	}
	// Neither Marshal can fail: every part was valid JSON a moment ago.
	object["blocks"], _ = json.Marshal(left)
	pruned, _ := json.Marshal(object)
	return pruned
}
