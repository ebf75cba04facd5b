package anthropic

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"dshsh/loop/model"
	"dshsh/loop/model/internal/wire"
)

// The request, as it goes over the wire.
type (
	wireRequest struct {
		Model         string        `json:"model"`
		MaxTokens     int           `json:"max_tokens"`
		System        []wireBlock   `json:"system,omitempty"`
		Tools         []wireTool    `json:"tools,omitempty"`
		Messages      []wireMessage `json:"messages"`
		Stream        bool          `json:"stream"`
		Temperature   *float64      `json:"temperature,omitempty"`
		StopSequences []string      `json:"stop_sequences,omitempty"`
		Thinking      *thinking     `json:"thinking,omitempty"`
		OutputConfig  *outputConfig `json:"output_config,omitempty"`
	}
	thinking struct {
		Type         string `json:"type"`
		BudgetTokens int    `json:"budget_tokens,omitempty"`
		Display      string `json:"display,omitempty"`
	}
	outputConfig struct {
		Effort string `json:"effort"`
	}
	wireMessage struct {
		Role    string      `json:"role"`
		Content []wireBlock `json:"content"`
	}
	// wireBlock has what any type of block needs.
	wireBlock struct {
		Type      string          `json:"type"`
		Text      string          `json:"text,omitempty"`
		Thinking  *string         `json:"thinking,omitempty"` // wanted also when empty
		Signature string          `json:"signature,omitempty"`
		Data      string          `json:"data,omitempty"`
		Source    *wireSource     `json:"source,omitempty"`
		ID        string          `json:"id,omitempty"`
		Name      string          `json:"name,omitempty"`
		Input     json.RawMessage `json:"input,omitempty"`
		ToolUseID string          `json:"tool_use_id,omitempty"`
		Content   []wireBlock     `json:"content,omitempty"`
		IsError   bool            `json:"is_error,omitempty"`

		CacheControl *cacheControl `json:"cache_control,omitempty"`
	}
	wireSource struct {
		Type      string `json:"type"`
		URL       string `json:"url,omitempty"`
		MediaType string `json:"media_type,omitempty"`
		Data      string `json:"data,omitempty"`
	}
	wireTool struct {
		Name         string          `json:"name"`
		Description  string          `json:"description,omitempty"`
		InputSchema  json.RawMessage `json:"input_schema"`
		CacheControl *cacheControl   `json:"cache_control,omitempty"`
	}
	cacheControl struct {
		Type string `json:"type"`
	}
)

var ephemeral = &cacheControl{Type: "ephemeral"}

func textBlock(s string) wireBlock { return wireBlock{Type: "text", Text: s} }

// encode returns the body of a call. The same request always gives the same bytes, and a
// longer conversation repeats the shorter, but for the cache's mark, which is not part of
// what the cache compares.
func (p *Provider) encode(req *model.Request) ([]byte, error) {
	w := wireRequest{
		Model:         req.Model,
		MaxTokens:     req.MaxTokens,
		Stream:        true,
		Temperature:   req.Temperature,
		StopSequences: req.Stop,
	}
	if w.MaxTokens == 0 {
		w.MaxTokens = p.Info(req.Model).MaxTokens
	}
	w.System, w.Messages = p.conversation(req)
	for _, t := range req.Tools {
		tool := wireTool{Name: t.Name, Description: t.Description, InputSchema: t.Parameters}
		if len(t.Parameters) == 0 || string(t.Parameters) == "null" {
			tool.InputSchema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		w.Tools = append(w.Tools, tool)
	}
	w.reason(p.known(req.Model).Reasoning, req.ReasoningEffort)
	w.markForCache()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(w); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// markForCache marks the end of what is the same in every request, and the end of all.
// What comes first, the tools, is covered by a mark behind it.
func (w *wireRequest) markForCache() {
	if n := len(w.System); n > 0 {
		w.System[n-1].CacheControl = ephemeral
	} else if n := len(w.Tools); n > 0 {
		w.Tools[n-1].CacheControl = ephemeral
	}
	last := w.Messages[len(w.Messages)-1].Content // neither is ever empty
	last[len(last)-1].CacheControl = ephemeral
}

// reason asks for reasoning in the way of the model, see model.Known.
func (w *wireRequest) reason(kind, effort string) {
	if effort == "minimal" {
		effort = "low" // the least that there is here
	}
	off := effort == "none"
	switch kind {
	case model.ReasoningAdaptive, model.ReasoningAlways:
		w.Temperature = nil // refused
		if off && kind == model.ReasoningAdaptive {
			w.Thinking = &thinking{Type: "disabled"}
			return
		}
		if off {
			effort = "low"
		}
		// Else the text of the thinking is left out by most of them.
		w.Thinking = &thinking{Type: "adaptive", Display: "summarized"}
	case model.ReasoningEffort: // another maker's model
		if off {
			w.Thinking = &thinking{Type: "disabled"}
			return
		}
	default:
		w.think(effort)
		return
	}
	if effort != "" {
		w.OutputConfig = &outputConfig{Effort: effort}
	}
}

// think switches thinking on, with a number of tokens that stands for the effort.
func (w *wireRequest) think(effort string) {
	const least = 1024
	budget := map[string]int{"low": 4 << 10, "medium": 12 << 10, "high": 24 << 10, "xhigh": 32 << 10, "max": 48 << 10}[effort]
	if budget = min(budget, w.MaxTokens-least); budget < least || w.unthoughtCall() {
		return
	}
	w.Thinking = &thinking{Type: "enabled", BudgetTokens: budget}
	w.Temperature = nil // refused beside it
}

// unthoughtCall reports whether the conversation ends with the results of calls in front
// of which no thinking stands, because another model made them or did not think. Then
// thinking may not be switched on before the next turn.
func (w *wireRequest) unthoughtCall() bool {
	n := len(w.Messages)
	if n < 2 || w.Messages[n-1].Content[0].Type != "tool_result" {
		return false
	}
	first := w.Messages[n-2].Content[0].Type
	return first != "thinking" && first != "redacted_thinking"
}

// conversation maps the messages. The service refuses one in which a call lacks its
// result, a result stands anywhere but at the beginning of the message behind its call,
// an id comes twice, a text is empty, or the last word is not the user's; a log can hold
// all of this. Results are put where they belong, a call without one gets one that says
// so, and a result without a call becomes a user's text.
func (p *Provider) conversation(req *model.Request) (system []wireBlock, messages []wireMessage) {
	c := conversation{taken: map[*model.Block]bool{}, ids: map[string]bool{}}
	if strings.TrimSpace(req.System) != "" {
		system = append(system, textBlock(req.System))
	}
	for i := range req.Messages {
		m := &req.Messages[i]
		switch {
		case m.Role == model.RoleAssistant:
			c.assistant(m, p.signatures(m, req.Model), req.Messages[i+1:])
		case m.Role == model.RoleSystem && len(c.messages) == 0:
			if text := wire.Join(m.Content); strings.TrimSpace(text) != "" {
				system = append(system, textBlock(text))
			}
		default: // there is no place for a system message later on
			c.add(model.RoleUser, c.user(m.Content)...)
		}
	}
	if n := len(c.messages); n == 0 || c.messages[n-1].Role == model.RoleAssistant {
		c.add(model.RoleUser, textBlock("(go on)"))
	}
	return system, c.messages
}

// conversation is the messages that were mapped so far.
type conversation struct {
	messages []wireMessage
	taken    map[*model.Block]bool // results that stand behind their call already
	ids      map[string]bool       // of calls
}

// add puts blocks at the end. Messages of the same role become one, and the first is the
// user's.
func (c *conversation) add(role string, blocks ...wireBlock) {
	if len(blocks) == 0 {
		return
	}
	n := len(c.messages)
	if n == 0 && role == model.RoleAssistant {
		c.add(model.RoleUser, textBlock("(the beginning of the conversation is missing)"))
		n++
	}
	if n > 0 && c.messages[n-1].Role == role {
		c.messages[n-1].Content = append(c.messages[n-1].Content, blocks...)
		return
	}
	c.messages = append(c.messages, wireMessage{Role: role, Content: blocks})
}

// assistant maps an assistant message and puts the results of its calls behind it. signed
// has what is to go back for each of its blocks, nil for none.
func (c *conversation) assistant(m *model.Message, signed []*signature, later []model.Message) {
	var blocks, results []wireBlock
	end := 0 // of what may be sent: thinking cannot be the last
	for i := range m.Content {
		b := &m.Content[i]
		switch {
		case b.Type == model.BlockText && strings.TrimSpace(b.Text) != "":
			blocks = append(blocks, textBlock(b.Text))
		case b.Type == model.BlockToolCall:
			id := c.newID(b.ID)
			blocks = append(blocks, wireBlock{Type: "tool_use", ID: id, Name: wire.ToolName(b.Name), Input: json.RawMessage(wire.Arguments(b.Arguments))})
			results = append(results, c.result(id, wire.ResultOf(later, b.ID, c.taken)))
		case b.Type == model.BlockReasoning && signed != nil && signed[i] != nil:
			blocks = append(blocks, signed[i].block(b.Text))
			continue
		default:
			continue
		}
		end = len(blocks)
	}
	c.add(model.RoleAssistant, blocks[:end]...)
	c.add(model.RoleUser, results...)
}

// newID returns the id that a call is sent with: made of the characters that are taken,
// of which there may be 64, and not used before. It follows from the calls so far, so it
// is the same in every later request.
func (c *conversation) newID(id string) string {
	id = wire.Or(wire.Word(id), "call")
	for try, n := id, 2; ; n++ {
		if !c.ids[try] {
			c.ids[try] = true
			return try
		}
		suffix := "_" + strconv.Itoa(n)
		try = id[:min(len(id), 64-len(suffix))] + suffix
	}
}

// result maps the result of a call; r is nil if there is none.
func (c *conversation) result(id string, r *model.Block) wireBlock {
	w := wireBlock{Type: "tool_result", ToolUseID: id, IsError: true, Content: []wireBlock{textBlock(wire.NoResult)}}
	if r == nil {
		return w
	}
	c.taken[r] = true
	w.IsError = r.IsError
	if w.Content = content(r.Content); len(w.Content) == 0 {
		w.Content = []wireBlock{textBlock(wire.ResultText(r))}
	}
	return w
}

// user maps the content of a user message.
func (c *conversation) user(blocks []model.Block) []wireBlock {
	var out []wireBlock
	for i := range blocks {
		b := &blocks[i]
		if b.Type != model.BlockToolResult {
			out = append(out, content(blocks[i:i+1])...)
		} else if !c.taken[b] {
			out = append(out, textBlock("Result of an earlier tool call:\n"+wire.ResultText(b)))
		}
	}
	return out
}

// content maps text and images; what is empty is left out.
func content(blocks []model.Block) []wireBlock {
	var out []wireBlock
	for _, b := range blocks {
		switch {
		case b.Type == model.BlockText && strings.TrimSpace(b.Text) != "":
			out = append(out, textBlock(b.Text))
		case b.Type == model.BlockImage:
			out = append(out, image(b.Attachment))
		}
	}
	return out
}

// image maps {"url": ...}, with a data URL or an address.
func image(attachment json.RawMessage) wireBlock {
	var ref struct{ URL string }
	_ = json.Unmarshal(attachment, &ref) // what is not understood has no URL
	kind, data, found := strings.Cut(strings.TrimPrefix(ref.URL, "data:"), ";base64,")
	switch {
	case strings.HasPrefix(ref.URL, "data:") && found:
		switch kind {
		case "image/png", "image/jpeg", "image/gif", "image/webp":
			return wireBlock{Type: "image", Source: &wireSource{Type: "base64", MediaType: kind, Data: data}}
		}
	case strings.HasPrefix(ref.URL, "https://"), strings.HasPrefix(ref.URL, "http://"):
		return wireBlock{Type: "image", Source: &wireSource{Type: "url", URL: ref.URL}}
	}
	return textBlock("(an image that cannot be sent)")
}
