package anthropic_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/anthropic"
	"dshsh/loop/model/modeltest"
)

// events returns a reply of these events; each is JSON without the braces, its type first.
func events(data ...string) modeltest.Wire {
	var steps []modeltest.Step
	for _, d := range data {
		kind, rest, _ := strings.Cut(d, " ")
		if rest != "" {
			rest = "," + rest
		}
		steps = append(steps, modeltest.Raw("event: "+kind+"\ndata: {\"type\":\""+kind+"\""+rest+"}\n\n"))
	}
	return modeltest.Steps(steps...)
}

const (
	starts = `message_start "message":{"usage":{"input_tokens":5,"output_tokens":1}}`
	stops  = `message_stop`
)

func begins(at int, block string) string {
	return `content_block_start "index":` + strconv.Itoa(at) + `,"content_block":{` + block + `}`
}
func piece(at int, delta string) string {
	return `content_block_delta "index":` + strconv.Itoa(at) + `,"delta":{` + delta + `}`
}
func text(at int, s string) string { return piece(at, `"type":"text_delta","text":`+strconv.Quote(s)) }
func input(at int, s string) string {
	return piece(at, `"type":"input_json_delta","partial_json":`+strconv.Quote(s))
}
func ends(at int) string { return `content_block_stop "index":` + strconv.Itoa(at) }
func reason(s string) string {
	return `message_delta "delta":{"stop_reason":"` + s + `"},"usage":{"output_tokens":3}`
}

const (
	textBlock = `"type":"text","text":""`
	toolBlock = `"type":"tool_use","id":"c1","name":"ls","input":{}`
)

func TestShapes(t *testing.T) {
	subject.Check(t,
		shape("events and blocks of unknown types", events(starts, `news "x":1`,
			begins(0, `"type":"server_tool_use","id":"s","name":"web_search"`), input(0, `{"query":"x"}`), ends(0),
			begins(1, textBlock), text(1, "hi"), piece(1, `"type":"citations_delta","citation":{}`), ends(1), reason("end_turn"), stops), "text hi\nstop", ""),
		shape("interleaved blocks", events(starts, begins(0, textBlock), begins(1, toolBlock), text(0, "a"), input(1, `{"p"`), text(0, "b"),
			ends(0), input(1, `:1}`), ends(1), reason("tool_use"), stops), "call c1 ls {\"p\":1}\ntext ab\ntool-calls", ""),
		shape("an empty text", events(starts, begins(0, textBlock), ends(0), begins(1, toolBlock), ends(1), reason("tool_use"), stops), "call c1 ls {}\ntool-calls", ""),
		shape("a call that came at once", events(starts, begins(0, `"type":"tool_use","id":"c1","name":"ls","input":{"p":1}`), ends(0), reason("tool_use"), stops), "call c1 ls {\"p\":1}\ntool-calls", ""),
		shape("a call without an id", events(starts, begins(0, `"type":"tool_use","name":"ls"`), ends(0), reason("tool_use"), stops), "call (new) ls {}\ntool-calls", ""),
		shape("a block that was not begun", events(starts, text(0, "hi"), reason("end_turn"), stops), "text hi\nstop", ""),
		shape("a piece of another kind", events(starts, begins(0, textBlock), text(0, "hi"), input(0, "{"), ends(0), text(0, "late"), reason("end_turn"), stops), "text hi\nstop", ""),
		shape("no event names", modeltest.Steps(modeltest.Frame(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`),
			modeltest.Frame(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`), modeltest.Frame("[DONE]")), "text hi\nstop", ""),
		shape("stop_sequence", events(starts, text(0, "hi"), reason("stop_sequence"), stops), "text hi\nstop", ""),
		shape("pause_turn", events(starts, text(0, "I search"), reason("pause_turn"), stops), "text I search\nmax-tokens", ""),
		shape("the context window is full", events(starts, text(0, "half"), reason("model_context_window_exceeded"), stops), "text half\nCONTEXT_WINDOW_EXCEEDED", "compact"),
		shape("R081 a refusal tells why", events(starts, `message_delta "delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"It is about viruses."}}`, stops),
			"CONTENT_FILTER", "before anything came (It is about viruses); put the request"),
		shape("R081 a refusal of a category", events(starts, `message_delta "delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":null}}`, stops), "CONTENT_FILTER", "(cyber)"),
		shape("R083 a call that did not end", events(starts, begins(0, toolBlock), reason("tool_use"), stops), "call c1 ls \nTRANSPORT", "the last tool call was not complete"),
		shape("R083 a call whose end was not told", events(starts, begins(0, toolBlock), input(0, `{"p":1}`), reason("tool_use"), stops), "call c1 ls {\"p\":1}\ntool-calls", ""),
		shape("R087 an unpaired surrogate", events(starts, piece(0, `"type":"text_delta","text":"a\ud83d!"`), begins(1, toolBlock), input(1, `{"a":"\ud83d"}`), ends(1), reason("tool_use"), stops),
			"text a\uFFFD!\ncall c1 ls {\"a\":\"\\ufffd\"}\ntool-calls", ""),
	)
}

func TestErrorInsideA200(t *testing.T) {
	begin := text(0, "so far")
	said := func(kind, message string) string {
		return `error "error":{"type":"` + kind + `","message":"` + message + `"},"request_id":"req_7"`
	}
	subject.Check(t,
		shape("overloaded", events(starts, begin, said("overloaded_error", "Overloaded")), "text so far\nSERVER", "instead of finishing the reply: Overloaded"),
		shape("rate limit", events(starts, said("rate_limit_error", "slow down")), "RATE_LIMIT", "slow down"),
		shape("api_error", events(starts, begin, said("api_error", "Internal server error")), "text so far\nSERVER", ""),
		shape("timeout", events(starts, said("timeout_error", "too slow")), "TIMEOUT", ""),
		shape("invalid request", events(said("invalid_request_error", "no")), "UNKNOWN", ""),
		shape("in a body", modeltest.Status(200, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "SERVER", "Overloaded"),
	)
	p, _ := provider(t, anthropic.Options{}, events(starts, said("overloaded_error", "Overloaded")))
	_, err := read(t.Context(), p, request())
	if f := failure(t, err); f.RequestID != "req_7" {
		t.Errorf("the request id is %q", f.RequestID)
	}
}

func TestStatus(t *testing.T) {
	for _, tc := range []struct {
		status     int
		kind, said string
		code       string
	}{
		{400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", model.CodeContextWindow},
		{400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000", model.CodeContextWindow},
		{400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", model.CodeQuota},
		{400, "invalid_request_error", "messages.0.content: Field required", model.CodeUnknown},
		{401, "authentication_error", "invalid x-api-key", model.CodeInvalidCredential},
		{403, "permission_error", "not yours", model.CodeInvalidCredential},
		{404, "not_found_error", "model: claude-9", model.CodeUnknown},
		{413, "request_too_large", "Request exceeds the maximum size", model.CodeContextWindow},
		{429, "rate_limit_error", "slow down", model.CodeRateLimit},
		{500, "api_error", "Internal server error", model.CodeServer},
		{529, "overloaded_error", "Overloaded", model.CodeServer},
	} {
		p, _ := provider(t, anthropic.Options{}, modeltest.Status(tc.status, map[string]string{"Retry-After": "7"},
			`{"type":"error","error":{"type":"`+tc.kind+`","message":"`+tc.said+`"},"request_id":"req_7"}`))
		_, err := p.Stream(t.Context(), request())
		f := failure(t, err)
		if f.Code != tc.code || f.Status != tc.status || f.RequestID != "req_7" || !strings.Contains(f.Message, strings.TrimRight(tc.said, ".")) ||
			f.ProviderRetryAfterMs == nil || *f.ProviderRetryAfterMs != 7000 {
			t.Errorf("%d %s: got %+v", tc.status, tc.said, f)
		}
	}
}

func TestNotStreamed(t *testing.T) {
	subject.Check(t,
		shape("all kinds", modeltest.Status(200, nil, `{"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hi"},`+
			`{"type":"tool_use","id":"a","name":"ls","input":{"p":1}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`),
			"reasoning hm\ntext hi\ncall a ls {\"p\":1}\ntool-calls", ""),
		shape("nothing", modeltest.Status(200, nil, `{"content":[],"stop_reason":"end_turn"}`), "EMPTY_RESPONSE", ""),
		shape("no stop_reason", modeltest.Status(200, nil, `{"content":[{"type":"text","text":"hi"}]}`), "text hi\nTRANSPORT", "no stop_reason"),
		shape("R086 blank lines ahead", modeltest.Steps(modeltest.Raw(strings.Repeat("\n", 5000)), modeltest.Raw(`{"content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`)), "text hi\nstop", ""),
	)
}

func TestUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		reply modeltest.Wire
		want  *model.Usage
	}{
		"cumulative": {events(`message_start "message":{"usage":{"input_tokens":5,"cache_read_input_tokens":10,"cache_creation_input_tokens":20,"output_tokens":1}}`,
			text(0, "hi"), `message_delta "delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}`, stops),
			&model.Usage{InputTokens: 35, OutputTokens: 9, CacheReadTokens: 10, CacheWriteTokens: 20, ReasoningTokens: 4}},
		"corrected": {events(`message_start "message":{"usage":{"input_tokens":5,"cache_read_input_tokens":10}}`, text(0, "hi"),
			`message_delta "delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":7,"cache_read_input_tokens":0,"output_tokens":9}`, stops),
			&model.Usage{InputTokens: 7, OutputTokens: 9}},
		"R077 none": {events(text(0, "hi"), `message_delta "delta":{"stop_reason":"end_turn"},"usage":null`, stops), nil},
	} {
		p, _ := provider(t, anthropic.Options{}, tc.reply)
		chunks, err := read(t.Context(), p, request())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, c := range chunks {
			if c.Type == model.ChunkUsage {
				n++
			}
		}
		if got := fold(chunks).Usage(); !reflect.DeepEqual(got, tc.want) || n > 1 {
			t.Errorf("%s: got %+v in %d chunks, want %+v", name, got, n, tc.want)
		}
	}
}

// TestR075_ThinkingGoesBack has thinking of which only the signature comes, or nothing
// but what the service hides, in front of a call.
func TestR075_ThinkingGoesBack(t *testing.T) {
	p, server := provider(t, anthropic.Options{}, events(starts,
		begins(0, `"type":"thinking","thinking":"","signature":""`), piece(0, `"type":"signature_delta","signature":"c2ln"`), ends(0),
		begins(1, `"type":"redacted_thinking","data":"aGlk"`), ends(1),
		begins(2, toolBlock), ends(2), reason("tool_use"), stops))
	server.Otherwise(modeltest.WireText("ok"))
	req := request()
	chunks, err := read(t.Context(), p, req)
	if err != nil {
		t.Fatal(err)
	}
	config := model.Config{Provider: "anthropic", Model: req.Model}
	// To disk and back, as on resume.
	raw, err := json.Marshal([]model.Message{user("hi"), fold(chunks).Message("m", config), results(model.ToolResult("c1", false, model.Text("x")))})
	if err != nil {
		t.Fatal(err)
	}
	const call = `{"type":"tool_use","id":"c1","name":"ls","input":{}}`
	for _, tc := range []struct {
		name   string
		change func(m *model.Message)
		want   string
	}{
		{"unchanged", func(*model.Message) {}, `[{"type":"thinking","thinking":"","signature":"c2ln"},{"type":"redacted_thinking","data":"aGlk"},` + call + `]`},
		{"another model", func(m *model.Message) { m.Source.Model = "other" }, `[` + call + `]`},
		{"another provider", func(m *model.Message) { m.Source.Provider = "deepseek" }, `[` + call + `]`},
		{"no state", func(m *model.Message) { m.Source.ReplayState = nil }, `[` + call + `]`},
		{"the state of something else", func(m *model.Message) {
			m.Source.ReplayState = json.RawMessage(`{"blocks":[{"signature":"x"},null,null]}`)
		}, `[` + call + `]`},
		{"a block is gone", func(m *model.Message) { m.Content = m.Content[1:] }, `[` + call + `]`},
		{"a text that was not signed", func(m *model.Message) { m.Content[0].Text = "[removed]" }, `[{"type":"redacted_thinking","data":"aGlk"},` + call + `]`},
		{"no call behind it", func(m *model.Message) {
			m.Content = m.Content[:2]
			m.Source.ReplayState = model.PruneReplay(m.Source.ReplayState, []bool{true, true, false})
		}, ""},
	} {
		var history []model.Message
		if err := json.Unmarshal(raw, &history); err != nil {
			t.Fatal(err)
		}
		tc.change(&history[1])
		if _, err := read(t.Context(), p, request(history...)); err != nil {
			t.Fatal(err)
		}
		requests := server.Requests()
		got := ""
		for _, m := range bodyOf(t, requests[len(requests)-1]).Messages {
			if m.Role == "assistant" {
				got = string(m.Content)
			}
		}
		if got != tc.want {
			t.Errorf("%s: got  %s\nwant %s", tc.name, got, tc.want)
		}
	}
}
