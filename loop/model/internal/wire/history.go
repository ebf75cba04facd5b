package wire

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"

	"dshsh/loop/model"
)

// NoResult is what a model reads in place of the result of a call that has none.
const NoResult = "(no result: the call was not run to its end)"

// ResultOf finds the result of a call in the messages behind it, before the next
// assistant message; nil if there is none that was not taken.
func ResultOf(messages []model.Message, id string, taken map[*model.Block]bool) *model.Block {
	for i := range messages {
		m := &messages[i]
		if m.Role == model.RoleAssistant {
			return nil
		}
		for j := range m.Content {
			b := &m.Content[j]
			if b.Type == model.BlockToolResult && b.ToolCallID == id && !taken[b] {
				return b
			}
		}
	}
	return nil
}

// ResultText is what the model reads of a result; an error is told by its own text.
func ResultText(r *model.Block) string {
	if s := Join(r.Content); strings.TrimSpace(s) != "" {
		return s
	}
	if r.IsError {
		return "(error without a message)"
	}
	return "(no output)"
}

// Join returns the text of blocks, images named.
func Join(blocks []model.Block) string {
	var parts []string
	for _, b := range blocks {
		switch b.Type {
		case model.BlockText:
			parts = append(parts, b.Text)
		case model.BlockImage:
			parts = append(parts, "(an image that this model was not sent)")
		}
	}
	return strings.Join(parts, "\n\n")
}

// Arguments returns what is sent of the arguments of an earlier call. Services parse
// them, so what is not a JSON object is wrapped into one.
func Arguments(raw string) string {
	raw = model.ScrubJSON(raw)
	trimmed := strings.TrimSpace(raw)
	if trimmed == "" {
		return "{}"
	}
	if trimmed[0] == '{' && json.Valid([]byte(raw)) {
		return raw
	}
	wrapped, _ := json.Marshal(map[string]string{"invalid_arguments": raw}) // a string always marshals
	return string(wrapped)
}

// ToolName returns a name that services accept in a history: a model can ask for a tool
// of any name, and that must not make every later request fail.
func ToolName(name string) string {
	if name = Word(name); name == "" {
		return "unnamed"
	}
	return name
}

// Word returns s with every character but letters, digits, _ and - replaced by _, cut
// after 64.
func Word(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
	return s[:min(len(s), 64)]
}

// AfterTool reports whether a request ended with tool results: then an empty reply is an
// answer, which says that there is nothing to add.
func AfterTool(req *model.Request) bool {
	n := len(req.Messages)
	return n > 0 && req.Messages[n-1].Source.Kind == model.SourceTool
}

// NewID returns an id for a tool call that is new in any session.
func NewID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return "call_" + hex.EncodeToString(b[:])
}
