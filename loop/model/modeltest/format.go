package modeltest

import (
	"net/http"
	"strconv"
	"strings"
)

// format writes the pieces of a reply as one kind of service sends them. One exchange
// uses it, on the goroutine of its handler.
type format interface {
	// begin is what stands before the first piece; empty where it is there already.
	begin(content string) string
	text(s string) string
	reasoning(s string) string
	tool(index int, id, name, arguments string) string
	// finish gives the end of the reply without what done gives, in two parts: the reason,
	// and the usage where that follows it.
	finish(reason string) (end, usage string)
	done() string
}

// formatOf returns the format that is spoken at an address, or nil.
func formatOf(path string) format {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return chat{}
	case strings.HasSuffix(path, "/messages"):
		return &messages{tools: map[int]int{}}
	}
	return nil
}

// Render returns the bytes that steps send at an address that ends in path, for a test
// that sends them in a way of its own.
func Render(path string, steps ...Step) string {
	var b recorder
	e := &exchange{w: &b, format: formatOf(path)}
	for _, step := range steps {
		step(e)
	}
	return b.String()
}

// recorder is a response of which only the body counts.
type recorder struct {
	strings.Builder
	header http.Header
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *recorder) WriteHeader(int) {}

// chat is OpenAI's Chat Completions.
type chat struct{}

func frame(data string) string { return "data: " + data + "\n\n" }

func (chat) delta(delta string) string {
	return frame(`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`)
}

func (c chat) begin(content string) string {
	return c.delta(`{"role":"assistant","content":` + content + `}`)
}

func (c chat) text(s string) string { return c.delta(`{"content":` + quote(s) + `}`) }

func (c chat) reasoning(s string) string { return c.delta(`{"reasoning_content":` + quote(s) + `}`) }

func (c chat) tool(index int, id, name, arguments string) string {
	head := ""
	if id != "" {
		head = `"id":` + quote(id) + `,"type":"function",`
	}
	function := `"arguments":` + quote(arguments)
	if name != "" {
		function = `"name":` + quote(name) + `,` + function
	}
	return c.delta(`{"tool_calls":[{"index":` + strconv.Itoa(index) + `,` + head + `"function":{` + function + `}}]}`)
}

func (chat) finish(reason string) (end, usage string) {
	return frame(`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":` + quote(reason) + `}]}`),
		frame(`{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`)
}

func (chat) done() string { return frame("[DONE]") }

// messages is Anthropic's Messages. Its blocks follow one another: a piece of another
// kind ends the block before it. A thinking block gets a signature when it ends.
type messages struct {
	started bool
	blocks  int         // that were begun
	open    string      // type of the newest block, while it is open
	tools   map[int]int // number of a call to its block
}

func event(name, fields string) string {
	return "event: " + name + "\n" + frame(`{"type":`+quote(name)+fields+`}`)
}

func (m *messages) begin(string) string {
	if m.started {
		return ""
	}
	m.started = true
	return event("message_start", `,"message":{"id":"msg_test","type":"message","role":"assistant","model":"test-model","content":[],`+
		`"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":1}}`)
}

func (m *messages) delta(index int, delta string) string {
	return event("content_block_delta", `,"index":`+strconv.Itoa(index)+`,"delta":`+delta)
}

// block ends the open block and begins one of the type.
func (m *messages) block(kind, content string) string {
	s := m.begin("") + m.end()
	m.open = kind
	m.blocks++
	return s + event("content_block_start", `,"index":`+strconv.Itoa(m.blocks-1)+`,"content_block":`+content)
}

func (m *messages) end() (s string) {
	if m.open == "" {
		return ""
	}
	at := m.blocks - 1
	if m.open == "thinking" {
		s = m.delta(at, `{"type":"signature_delta","signature":"sig-`+strconv.Itoa(at)+`"}`)
	}
	m.open = ""
	return s + event("content_block_stop", `,"index":`+strconv.Itoa(at))
}

func (m *messages) text(s string) (out string) {
	if m.open != "text" {
		out = m.block("text", `{"type":"text","text":""}`)
	}
	return out + m.delta(m.blocks-1, `{"type":"text_delta","text":`+quote(s)+`}`)
}

func (m *messages) reasoning(s string) (out string) {
	if m.open != "thinking" {
		out = m.block("thinking", `{"type":"thinking","thinking":"","signature":""}`)
	}
	return out + m.delta(m.blocks-1, `{"type":"thinking_delta","thinking":`+quote(s)+`}`)
}

func (m *messages) tool(index int, id, name, arguments string) (out string) {
	at, begun := m.tools[index]
	if !begun {
		out = m.block("tool_use", `{"type":"tool_use","id":`+quote(id)+`,"name":`+quote(name)+`,"input":{}}`)
		at = m.blocks - 1
		m.tools[index] = at
	}
	return out + m.delta(at, `{"type":"input_json_delta","partial_json":`+quote(arguments)+`}`)
}

func (m *messages) finish(reason string) (end, usage string) {
	switch reason {
	case "stop":
		reason = "end_turn"
	case "length":
		reason = "max_tokens"
	case "tool_calls":
		reason = "tool_use"
	case "content_filter":
		reason = "refusal"
	}
	return m.begin("") + m.end() + event("message_delta", `,"delta":{"stop_reason":`+quote(reason)+
		`,"stop_sequence":null},"usage":{"output_tokens":7}`), ""
}

func (m *messages) done() string { return event("message_stop", "") }
