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
	cache []model.Message // what derive gave; nil when the nodes have changed otherwise than at the tail
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
		h.nodes, h.cache = keep, nil
		for _, n := range keep {
			if n.has {
				h.cache = append(h.cache, n.msg)
			}
		}
		return
	}
	h.nodes = append(h.nodes, n)
	if ok {
		h.cache = append(h.cache, m)
	}
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
