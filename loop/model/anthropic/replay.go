package anthropic

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	"dshsh/loop/model"
)

// api marks replay states of this package.
const api = "anthropic-messages"

// replay is the replay state of a message: what must go back with its reasoning. Blocks
// has an entry for each block of the message, as model.PruneReplay wants it, null for
// those that need none.
type replay struct {
	API    string       `json:"api"`
	Blocks []*signature `json:"blocks"`
}

// signature vouches for a block of thinking, or is one that the service keeps to itself.
type signature struct {
	Signature string `json:"signature,omitempty"`
	Redacted  string `json:"redacted,omitempty"`
	// Sum is of the text that was signed: a text that was changed since then, by a script
	// that removes secrets, would be refused.
	Sum string `json:"sum,omitempty"`
}

func sum(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return strconv.FormatUint(h.Sum64(), 16)
}

// block is the block to send back; text is the reasoning's.
func (s *signature) block(text string) wireBlock {
	if s.Redacted != "" {
		return wireBlock{Type: "redacted_thinking", Data: s.Redacted}
	}
	return wireBlock{Type: "thinking", Thinking: &text, Signature: s.Signature}
}

// signatures returns what goes back with each block of an assistant message, nil if
// nothing does: reasoning of another provider or model, and such as was never signed, is
// not sent. What it says is lost to the model; the service would take it for its own
// words if it came as text.
func (p *Provider) signatures(m *model.Message, modelName string) []*signature {
	var state replay
	if m.Source.Provider != p.options.Name || m.Source.Model != modelName ||
		json.Unmarshal(m.Source.ReplayState, &state) != nil ||
		state.API != api || len(state.Blocks) != len(m.Content) {
		return nil
	}
	for i, s := range state.Blocks {
		if s != nil && s.Redacted == "" && (s.Signature == "" || s.Sum != sum(m.Content[i].Text)) {
			state.Blocks[i] = nil
		}
	}
	return state.Blocks
}
