package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"dshsh/loop/model"
	"dshsh/loop/model/internal/wire"
)

// The request, as it goes over the wire.
type (
	wireRequest struct {
		Model               string         `json:"model"`
		Messages            []wireMessage  `json:"messages"`
		Tools               []wireTool     `json:"tools,omitempty"`
		Stream              bool           `json:"stream"`
		StreamOptions       *streamOptions `json:"stream_options,omitempty"`
		MaxTokens           int            `json:"max_tokens,omitempty"`
		MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
		Temperature         *float64       `json:"temperature,omitempty"`
		Stop                []string       `json:"stop,omitempty"`
		ReasoningEffort     string         `json:"reasoning_effort,omitempty"`
		Thinking            *thinking      `json:"thinking,omitempty"`
	}
	streamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	thinking struct {
		Type string `json:"type"`
	}
	wireMessage struct {
		Role             string         `json:"role"`
		Content          any            `json:"content"` // string or []wirePart
		ReasoningContent *string        `json:"reasoning_content,omitempty"`
		ToolCalls        []wireToolCall `json:"tool_calls,omitempty"`
		ToolCallID       string         `json:"tool_call_id,omitempty"`
	}
	wirePart struct {
		Type     string     `json:"type"`
		Text     string     `json:"text,omitempty"`
		ImageURL *wireImage `json:"image_url,omitempty"`
	}
	wireImage struct {
		URL string `json:"url"`
	}
	wireToolCall struct {
		ID       string       `json:"id"`
		Type     string       `json:"type"`
		Function wireFunction `json:"function"`
	}
	wireFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	wireTool struct {
		Type     string       `json:"type"`
		Function wireToolSpec `json:"function"`
	}
	wireToolSpec struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
)

// encode returns the body of a call. The same request always gives the same bytes, and a
// longer conversation begins with the bytes of the shorter, which is what prompt caches
// look for.
func (p *Provider) encode(req *model.Request, f form) ([]byte, error) {
	w := wireRequest{
		Model:           req.Model,
		Messages:        p.messages(req),
		Stream:          true,
		Temperature:     req.Temperature,
		Stop:            req.Stop,
		ReasoningEffort: req.ReasoningEffort,
	}
	if !f.noUsage {
		w.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if f.completionLimit {
		w.MaxCompletionTokens = req.MaxTokens
	} else {
		w.MaxTokens = req.MaxTokens
	}
	if p.deepseek && req.ReasoningEffort == "none" {
		w.ReasoningEffort, w.Thinking = "", &thinking{Type: "disabled"}
	}
	for _, t := range req.Tools {
		spec := wireToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
		if len(spec.Parameters) == 0 || string(spec.Parameters) == "null" {
			spec.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		w.Tools = append(w.Tools, wireTool{Type: "function", Function: spec})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(w); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// messages maps the conversation. Services refuse one in which a tool call lacks its
// result, or a result stands anywhere but behind its call; a log can hold both (a turn
// that was cut short, a note between a call and its result, a compaction). So the
// results are put right behind their calls, in the calls' order; a call without a result
// gets one that says so, and a result without a call becomes a user's text.
func (p *Provider) messages(req *model.Request) []wireMessage {
	out := make([]wireMessage, 0, len(req.Messages)+1)
	if req.System != "" {
		out = append(out, wireMessage{Role: model.RoleSystem, Content: req.System})
	}
	replay := p.replays(req)
	taken := map[*model.Block]bool{} // results that stand behind their call already
	for i := range req.Messages {
		m := &req.Messages[i]
		switch m.Role {
		case model.RoleAssistant:
			a, empty := p.assistant(m, replay)
			if empty {
				continue
			}
			out = append(out, a)
			for _, call := range m.ToolCalls() {
				content := wire.NoResult
				if r := wire.ResultOf(req.Messages[i+1:], call.ID, taken); r != nil {
					taken[r] = true
					content = wire.ResultText(r)
				}
				out = append(out, wireMessage{Role: "tool", ToolCallID: call.ID, Content: content})
			}
		case model.RoleSystem:
			out = append(out, wireMessage{Role: model.RoleSystem, Content: wire.Join(m.Content)})
		default:
			if content := userContent(m.Content, taken); content != nil {
				out = append(out, wireMessage{Role: model.RoleUser, Content: content})
			}
		}
	}
	return out
}

// userContent maps a user message: a string, or a list of parts if there are images, or
// nil if nothing is left of it.
func userContent(blocks []model.Block, taken map[*model.Block]bool) any {
	var parts []wirePart
	images := false
	for i := range blocks {
		b := &blocks[i]
		switch {
		case b.Type == model.BlockText && b.Text != "":
			parts = append(parts, wirePart{Type: "text", Text: b.Text})
		case b.Type == model.BlockToolResult && !taken[b]:
			parts = append(parts, wirePart{Type: "text", Text: "Result of an earlier tool call:\n" + wire.ResultText(b)})
		case b.Type == model.BlockImage:
			var image wireImage
			if json.Unmarshal(b.Attachment, &image) == nil && image.URL != "" {
				parts = append(parts, wirePart{Type: "image_url", ImageURL: &image})
				images = true
			} else {
				parts = append(parts, wirePart{Type: "text", Text: "(an image that cannot be sent)"})
			}
		}
	}
	switch {
	case len(parts) == 0:
		return nil
	case images:
		return parts
	}
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = part.Text
	}
	return strings.Join(texts, "\n\n")
}

// replays reports whether a request sends reasoning back. DeepSeek ignores it in a
// conversation without tools. Where there are tools it must stand on every assistant
// message, if need be empty: DeepSeek refuses a request that lacks it behind a tool call,
// also where it reasoned nothing itself or another model wrote the message.
func (p *Provider) replays(req *model.Request) bool {
	return p.options.ReplayReasoning && (len(req.Tools) > 0 || slices.ContainsFunc(req.Messages, func(m model.Message) bool {
		return slices.ContainsFunc(m.Content, func(b model.Block) bool { return b.Type == model.BlockToolCall })
	}))
}

// assistant maps an assistant message, with its reasoning if replay says so and it is
// this provider's own; empty says that there is nothing to send.
func (p *Provider) assistant(m *model.Message, replay bool) (w wireMessage, empty bool) {
	var text, reasoning strings.Builder
	w.Role = model.RoleAssistant
	for _, b := range m.Content {
		switch b.Type {
		case model.BlockText:
			text.WriteString(b.Text)
		case model.BlockReasoning:
			reasoning.WriteString(b.Text)
		case model.BlockToolCall:
			w.ToolCalls = append(w.ToolCalls, wireToolCall{
				ID: b.ID, Type: "function",
				Function: wireFunction{Name: wire.ToolName(b.Name), Arguments: wire.Arguments(b.Arguments)},
			})
		}
	}
	// Not null beside tool calls: templates of local servers cannot do with it.
	w.Content = text.String()
	if replay {
		r := ""
		if m.Source.Provider == "" || m.Source.Provider == p.options.Name {
			r = reasoning.String()
		}
		w.ReasoningContent = &r
	}
	return w, text.Len() == 0 && len(w.ToolCalls) == 0
}
