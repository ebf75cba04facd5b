package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Clone returns a copy that shares nothing with m.
func (m Message) Clone() Message {
	m.Content = CloneBlocks(m.Content)
	m.Source.Sections = slices.Clone(m.Source.Sections)
	m.Source.ReplayState = slices.Clone(m.Source.ReplayState)
	return m
}

// CloneBlocks returns a copy of the blocks that shares nothing with them.
func CloneBlocks(blocks []Block) []Block {
	out := slices.Clone(blocks)
	for i := range out {
		out[i].Attachment = slices.Clone(out[i].Attachment)
		out[i].Content = CloneBlocks(out[i].Content)
	}
	return out
}

// Clone returns a copy that shares nothing with r.
func (r *Request) Clone() *Request {
	c := *r
	if r.Temperature != nil {
		t := *r.Temperature
		c.Temperature = &t
	}
	c.Stop = slices.Clone(r.Stop)
	c.Messages = slices.Clone(r.Messages)
	for i := range c.Messages {
		c.Messages[i] = c.Messages[i].Clone()
	}
	c.Tools = slices.Clone(r.Tools)
	for i := range c.Tools {
		c.Tools[i].Parameters = slices.Clone(c.Tools[i].Parameters)
	}
	return &c
}

// PlainText returns the message's text blocks joined; reasoning, calls and results are
// left out.
func (m Message) PlainText() string { return PlainText(m.Content) }

// PlainText returns the text blocks joined, and of tool results the text inside.
func PlainText(blocks []Block) string {
	if len(blocks) == 1 && blocks[0].Type == BlockText {
		return blocks[0].Text
	}
	var s strings.Builder
	for _, b := range blocks {
		switch b.Type {
		case BlockText:
			s.WriteString(b.Text)
		case BlockToolResult:
			s.WriteString(PlainText(b.Content))
		}
	}
	return s.String()
}

// ToolCalls returns the message's tool-call blocks, in order.
func (m Message) ToolCalls() []Block {
	var calls []Block
	for _, b := range m.Content {
		if b.Type == BlockToolCall {
			calls = append(calls, b)
		}
	}
	return calls
}

// Validate reports the first thing in m that the log and the providers could not take,
// naming its place (content[1].toolCallId: ...): an unknown role or block type, a block
// that its role cannot carry, a missing id, text that is not UTF-8, raw JSON that is not
// JSON. The name and arguments of a tool call are not checked; a model may write what it
// likes there. Valid messages give nil.
func (m Message) Validate() error {
	switch m.Role {
	case RoleSystem, RoleUser, RoleAssistant:
	default:
		return fmt.Errorf("role: got %q, want system, user or assistant", m.Role)
	}
	switch {
	case m.ID == "":
		return fmt.Errorf("id: is empty")
	case m.Source.Kind == "":
		return fmt.Errorf("source.kind: is empty")
	case len(m.Source.ReplayState) > 0 && !json.Valid(m.Source.ReplayState):
		return fmt.Errorf("source.replayState: is not JSON")
	}
	for i, b := range m.Content {
		if err := b.validate(m.Role); err != nil {
			return fmt.Errorf("content[%d].%w", i, err)
		}
	}
	return nil
}

func (b *Block) validate(role string) error {
	for _, f := range [...]struct{ name, value string }{
		{"text", b.Text}, {"id", b.ID}, {"name", b.Name}, {"arguments", b.Arguments}, {"toolCallId", b.ToolCallID},
	} {
		if !utf8.ValidString(f.value) {
			return fmt.Errorf("%s: is not valid UTF-8", f.name)
		}
	}
	switch b.Type {
	case BlockText, BlockReasoning:
	case BlockImage:
		if !json.Valid(b.Attachment) {
			return fmt.Errorf("attachment: is not JSON")
		}
	case BlockToolCall:
		switch {
		case role != RoleAssistant:
			return fmt.Errorf("type: a tool-call belongs in an assistant message, not in one of role %s", role)
		case b.ID == "":
			return fmt.Errorf("id: is empty")
		}
	case BlockToolResult:
		switch {
		case role != RoleUser:
			return fmt.Errorf("type: a tool-result belongs in a user message, not in one of role %s", role)
		case b.ToolCallID == "":
			return fmt.Errorf("toolCallId: is empty")
		}
		for i := range b.Content {
			if t := b.Content[i].Type; t == BlockToolResult || t == BlockToolCall {
				return fmt.Errorf("content[%d].type: a tool-result cannot hold a %s", i, t)
			}
			if err := b.Content[i].validate(role); err != nil {
				return fmt.Errorf("content[%d].%w", i, err)
			}
		}
	default:
		return fmt.Errorf("type: unknown block type %q", b.Type)
	}
	return nil
}

// attached begins a text block that was added to a person's message.
const attached = "\n\n[attached "

// Attached returns a block that adds a text to a message that a person wrote: a file that
// it names. what says which.
func Attached(what, text string) Block { return Text(attached + what + "]\n" + text) }

// Words is PlainText without what was added with Attached: what the person wrote.
func (m Message) Words() string { return PlainText(m.split(false)) }

// Attachments says what was added with Attached.
func (m Message) Attachments() []string {
	var out []string
	for _, b := range m.split(true) {
		what, _, _ := strings.Cut(strings.TrimPrefix(b.Text, attached), "]\n")
		out = append(out, what)
	}
	return out
}

// split is the blocks that were added, or the others. The first is always the person's.
func (m Message) split(added bool) []Block {
	var out []Block
	for i, b := range m.Content {
		if (i > 0 && b.Type == BlockText && strings.HasPrefix(b.Text, attached)) == added {
			out = append(out, b)
		}
	}
	return out
}
