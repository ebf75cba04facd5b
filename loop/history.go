package loop

import (
	"encoding/json"

	"dshsh/loop/model"
	"dshsh/session"
)

// history is the surface: the records that the model sees, as messages. It is a fold, so
// that a request does not cost a walk over the log. Used on the host thread.
type history struct {
	nodes []node
	cache []model.Message // the messages of nodes
	// context is the newest runtime context among them, or nil.
	context *model.Message
}

type node struct {
	seq int64
	msg model.Message
	has bool // false for an assistant message without content: it stands, but is not sent
}

func decodeData(rec session.Record, dst any) bool { return json.Unmarshal(rec.Data, dst) == nil }

// messageOf reads the message of a surface record.
func messageOf(rec session.Record) (model.Message, bool) {
	switch rec.Type {
	case RecUserMessage:
		var m model.Message
		return m, decodeData(rec, &m)
	case RecAssistant:
		var r AssistantMessage
		ok := decodeData(rec, &r)
		return r.Message, ok && len(r.Message.Content) > 0
	case RecToolResult:
		var r ToolResultRecord
		return r.Message, decodeData(rec, &r)
	}
	return model.Message{}, false
}

func (h *history) fold(rec session.Record) {
	m, ok := messageOf(rec)
	n := node{seq: rec.Seq, msg: m, has: ok}
	if op := rec.SurfaceOp; op.Replace {
		var keep []node
		placed := false
		for _, old := range h.nodes {
			if old.seq >= op.Start && old.seq <= op.End {
				if !placed {
					keep, placed = append(keep, n), true
				}
				continue
			}
			keep = append(keep, old)
		}
		if !placed {
			keep = append(keep, n)
		}
		h.nodes, h.cache, h.context = nil, nil, nil
		for _, n := range keep {
			h.push(n)
		}
		return
	}
	h.push(n)
}

func (h *history) push(n node) {
	h.nodes = append(h.nodes, n)
	if n.has {
		h.cache = append(h.cache, n.msg)
	}
	if isContext(n) {
		h.context = &n.msg
	}
}

// contextText is the newest runtime context that the model can see. One that is not a
// single text block is taken as none, and superseded.
func (h *history) contextText() (text string, ok bool) {
	if h.context == nil {
		return "", false
	}
	if c := h.context.Content; len(c) == 1 && c[0].Type == model.BlockText {
		return c[0].Text, true
	}
	return "", true
}

func isContext(n node) bool {
	return n.has && n.msg.Source.Kind == model.SourcePlugin && n.msg.Source.Plugin == PromptPlugin
}

// derive is the conversation as the next request sends it. The slice is capped: the
// history may grow behind it without the holder seeing it.
func (h *history) derive() []model.Message { return h.cache[:len(h.cache):len(h.cache)] }

// DeriveMessages is the conversation that a log amounts to, from scratch.
func DeriveMessages(records []session.Record) []model.Message {
	var h history
	for _, rec := range records {
		if rec.SurfaceOp != nil {
			h.fold(rec)
		}
	}
	return h.derive()
}
