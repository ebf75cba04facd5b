package loop

import (
	"encoding/json"
	"fmt"
	"slices"

	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/session"
)

// history is the surface: the records that the model sees, as messages. It is a fold, so
// that a request does not cost a walk over the log. Used on the host thread.
type history struct {
	nodes []node
	cache []model.Message // the messages of nodes
	// context is the newest runtime context among them, or nil.
	context *model.Message
	tokens  int // of the messages, an estimate
	// unanswered are the calls of the newest assistant message that have no result yet.
	unanswered []string
}

type node struct {
	seq    int64
	msg    model.Message
	tokens int  // an estimate; 0 where has is not
	has    bool // false for an assistant message without content: it stands, but is not sent
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
	if ok {
		n.tokens = model.EstimateMessage(m)
	}
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
		*h = history{}
		for _, n := range keep {
			h.push(n)
		}
		return
	}
	h.push(n)
}

func (h *history) push(n node) {
	h.nodes = append(h.nodes, n)
	h.tokens += n.tokens
	if n.has {
		h.send(n)
	}
	if isContext(n) {
		h.context = &n.msg
	}
}

// send adds a message to what is sent. A model takes a call only together with its
// result: one that the log does not have, because the step failed in between, is made up
// for here, so that one failed step does not spoil all requests after it.
func (h *history) send(n node) {
	if n.msg.Source.Kind == model.SourceTool {
		h.unanswered = slices.DeleteFunc(h.unanswered, func(id string) bool { return id == n.msg.Source.CallID })
		h.cache = append(h.cache, n.msg)
		return
	}
	for _, id := range h.unanswered {
		h.cache = append(h.cache, resultMessage(fmt.Sprintf("unanswered-%s-%d", id, n.seq), id, errorResult(tool.OutcomeUnknown())))
	}
	h.unanswered = nil
	h.cache = append(h.cache, n.msg)
	for _, b := range n.msg.ToolCalls() {
		h.unanswered = append(h.unanswered, b.ID)
	}
}

func resultMessage(id, callID string, res ToolResult) model.Message {
	return model.Message{
		ID: id, Role: model.RoleUser, Source: model.Source{Kind: model.SourceTool, CallID: callID},
		Content: []model.Block{{Type: model.BlockToolResult, ToolCallID: callID, Content: res.Content, IsError: res.IsError}},
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
