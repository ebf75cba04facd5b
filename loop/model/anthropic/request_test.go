package anthropic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/anthropic"
	"dshsh/loop/model/modeltest"
)

// body is what was sent, as far as tests look at it.
type body struct {
	Model        string
	MaxTokens    int `json:"max_tokens"`
	System       json.RawMessage
	Tools        json.RawMessage
	Temperature  *float64
	Thinking     json.RawMessage
	OutputConfig json.RawMessage `json:"output_config"`
	Messages     []struct {
		Role    string
		Content json.RawMessage
	}
}

var mark = regexp.MustCompile(`,"cache_control":\{"type":"ephemeral"\}`)

// bodyOf decodes a request and takes the marks for the cache out of the messages.
func bodyOf(t *testing.T, r *modeltest.Recorded) body {
	t.Helper()
	var b body
	if err := json.Unmarshal(r.Body, &b); err != nil {
		t.Fatal(err)
	}
	for i := range b.Messages {
		b.Messages[i].Content = mark.ReplaceAll(b.Messages[i].Content, nil)
	}
	return b
}

// sent returns what a provider sends for a request.
func sent(t *testing.T, req *model.Request) body {
	t.Helper()
	p, server := provider(t, anthropic.Options{}, modeltest.WireText("ok"))
	if _, err := read(t.Context(), p, req); err != nil {
		t.Fatal(err)
	}
	return bodyOf(t, server.Requests()[0])
}

func TestMessages(t *testing.T) {
	call := model.ToolCall("c1", "ls", "{}")
	ok := model.ToolResult("c1", false, model.Text("files"))
	system := model.Message{Role: model.RoleSystem, Content: []model.Block{model.Text("be brief")}}
	image := func(url string) model.Message {
		return model.Message{Role: model.RoleUser, Content: []model.Block{{Type: model.BlockImage, Attachment: json.RawMessage(`{"url":"` + url + `"}`)}}}
	}
	const (
		x        = `user [{"type":"text","text":"x"}]`
		callSent = `assistant [{"type":"tool_use","id":"c1","name":"ls","input":{}}]`
		noResult = `{"type":"text","text":"(no result: the call was not run to its end)"}`
	)
	result := func(rest string) string { return `user [{"type":"tool_result","tool_use_id":"c1",` + rest }
	for _, tc := range []struct {
		name     string
		messages []model.Message
		want     []string
	}{
		{"a call and its result", []model.Message{user("x"), assistant(call), results(ok)},
			[]string{x, callSent, result(`"content":[{"type":"text","text":"files"}]}]`)}},
		{"an error", []model.Message{user("x"), assistant(call), results(model.ToolResult("c1", true, model.Text("exit 1"), model.Text(" ")))},
			[]string{x, callSent, result(`"content":[{"type":"text","text":"exit 1"}],"is_error":true}]`)}},
		{"an empty error", []model.Message{user("x"), assistant(call), results(model.ToolResult("c1", true))},
			[]string{x, callSent, result(`"content":[{"type":"text","text":"(error without a message)"}],"is_error":true}]`)}},
		{"R112 a call without a result", []model.Message{user("x"), assistant(call), user("go on")},
			[]string{x, callSent, result(`"content":[` + noResult + `],"is_error":true},{"type":"text","text":"go on"}]`)}},
		{"R112 the call is the end", []model.Message{user("x"), assistant(call)},
			[]string{x, callSent, result(`"content":[` + noResult + `],"is_error":true}]`)}},
		{"R113 arguments that never finished", []model.Message{user("x"), assistant(model.ToolCall("c1", "ls", `{"a":`)), results(ok)},
			[]string{x, `assistant [{"type":"tool_use","id":"c1","name":"ls","input":{"invalid_arguments":"{\"a\":"}}]`, result(`"content":[{"type":"text","text":"files"}]}]`)}},
		{"a note between a call and its result", []model.Message{user("x"), assistant(call), user("note"), results(ok)},
			[]string{x, callSent, result(`"content":[{"type":"text","text":"files"}]},{"type":"text","text":"note"}]`)}},
		{"R119 results in another order, one missing", []model.Message{user("x"), assistant(model.ToolCall("c0", "a", ""), call, model.ToolCall("c2", "b", "")),
			results(model.ToolResult("c2", false, model.Text("two"))), results(ok)},
			[]string{x, `assistant [{"type":"tool_use","id":"c0","name":"a","input":{}},{"type":"tool_use","id":"c1","name":"ls","input":{}},{"type":"tool_use","id":"c2","name":"b","input":{}}]`,
				`user [{"type":"tool_result","tool_use_id":"c0","content":[` + noResult + `],"is_error":true},{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"files"}]},` +
					`{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"two"}]}]`}},
		{"a result without a call", []model.Message{results(ok), user("x")},
			[]string{`user [{"type":"text","text":"Result of an earlier tool call:\nfiles"},{"type":"text","text":"x"}]`}},
		{"messages of one role become one", []model.Message{user("x"), user("y"), assistant(model.Text("a")), assistant(model.Text("b")), user("z")},
			[]string{`user [{"type":"text","text":"x"},{"type":"text","text":"y"}]`, `assistant [{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `user [{"type":"text","text":"z"}]`}},
		{"what is empty is left out", []model.Message{user(""), user("x"), assistant(), assistant(model.Reasoning("hm")), assistant(model.Text(" \n")), user("\t")}, []string{x}},
		{"R114 foreign reasoning", []model.Message{user("x"), assistant(model.Reasoning("hm"), model.Text("a")), user("x")}, []string{x, `assistant [{"type":"text","text":"a"}]`, x}},
		{"the first is the user's, and the last", []model.Message{assistant(model.Text("a"))},
			[]string{`user [{"type":"text","text":"(the beginning of the conversation is missing)"}]`, `assistant [{"type":"text","text":"a"}]`, `user [{"type":"text","text":"(go on)"}]`}},
		{"nothing", []model.Message{user("")}, []string{`user [{"type":"text","text":"(go on)"}]`}},
		{"system messages", []model.Message{system, user("x"), assistant(model.Text("a")), system, user("x")},
			[]string{x, `assistant [{"type":"text","text":"a"}]`, `user [{"type":"text","text":"be brief"},{"type":"text","text":"x"}]`}},
		{"images", []model.Message{image("data:image/jpeg;base64,AAAA"), image("https://x.example/a.png"), image("data:image/tiff;base64,AAAA"), image("file:///a.png")},
			[]string{`user [{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"https://x.example/a.png"}},` +
				`{"type":"text","text":"(an image that cannot be sent)"},{"type":"text","text":"(an image that cannot be sent)"}]`}},
		{"an image as a result", []model.Message{user("x"), assistant(call), results(model.ToolResult("c1", false, image("data:image/png;base64,AAAA").Content...))},
			[]string{x, callSent, result(`"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]`)}},
		{"a name that the service refuses", []model.Message{user("x"), assistant(model.ToolCall("c1", "multi tool.use/é", "[1]")), results(ok)},
			[]string{x, `assistant [{"type":"tool_use","id":"c1","name":"multi_tool_use__","input":{"invalid_arguments":"[1]"}}]`, result(`"content":[{"type":"text","text":"files"}]}]`)}},
		{"R087 bytes that are not text", []model.Message{user("x"), assistant(model.ToolCall("c1", "ls", `{"a":"\ud83d"}`)), results(model.ToolResult("c1", false, model.Text("\xff")))},
			[]string{x, `assistant [{"type":"tool_use","id":"c1","name":"ls","input":{"a":"\ufffd"}}]`, result(`"content":[{"type":"text","text":"\ufffd"}]}]`)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, m := range sent(t, request(tc.messages...)).Messages {
				got = append(got, m.Role+" "+string(m.Content))
			}
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tc.want) {
				t.Errorf("got\n%q\nwant\n%q", got, tc.want)
			}
		})
	}
}

// TestCallIDs has ids as other services make them. Each is sent in the characters that
// are taken and once, and so again in every later request.
func TestCallIDs(t *testing.T) {
	long := strings.Repeat("x", 70)
	history := []model.Message{user("x")}
	for _, id := range []string{"call_1", "functions.ls:0", "functions.ls:0", "functions/ls:0", long, long, "", "call_1", "é"} {
		history = append(history, assistant(model.ToolCall(id, "ls", "{}")), results(model.ToolResult(id, false, model.Text("of "+id))))
	}
	valid := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	seen := map[string]bool{}
	whole := sent(t, request(history...)).Messages
	for i := 1; i < len(whole); i += 2 {
		var call []struct{ ID string }
		var result []struct {
			ID      string `json:"tool_use_id"`
			Content []struct{ Text string }
		}
		if err := json.Unmarshal(whole[i].Content, &call); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(whole[i+1].Content, &result); err != nil {
			t.Fatal(err)
		}
		id := call[0].ID
		if !valid.MatchString(id) || seen[id] || result[0].ID != id || result[0].Content[0].Text != "of "+history[i].Content[0].ID {
			t.Errorf("the call of %q is %q, its result that of %q: %q", history[i].Content[0].ID, id, result[0].ID, result[0].Content[0].Text)
		}
		seen[id] = true
	}
	for n := 1; n < len(history); n += 2 {
		for i, m := range sent(t, request(history[:n]...)).Messages {
			if !bytes.Equal(m.Content, whole[i].Content) {
				t.Errorf("message %d of %d differs from the one in the longer conversation:\n%s\n%s", i, n, m.Content, whole[i].Content)
			}
		}
	}
}

func TestCacheMarks(t *testing.T) {
	req := request(user("x"), assistant(model.Text("a")), user("y"), user("z"))
	req.Tools = []model.ToolSpec{{Name: "a"}, {Name: "b"}}
	for _, system := range []string{"", "be brief"} {
		p, server := provider(t, anthropic.Options{}, modeltest.WireText("ok"))
		req.System = system
		if _, err := read(t.Context(), p, req); err != nil {
			t.Fatal(err)
		}
		raw := server.Requests()[0].Body
		first := `"name":"b","input_schema":{"type":"object","properties":{}},"cache_control":`
		if system != "" {
			first = `"text":"be brief","cache_control":`
		}
		if n := bytes.Count(raw, []byte("cache_control")); n != 2 || !bytes.Contains(raw, []byte(first)) ||
			!bytes.Contains(raw, []byte(`"text":"z","cache_control":{"type":"ephemeral"}}]}`)) {
			t.Errorf("%d marks: %s", n, raw)
		}
	}
}

func TestReasoning(t *testing.T) {
	warm := 0.5
	foreign := []model.Message{user("x"), assistant(model.ToolCall("c1", "ls", "{}")), results(model.ToolResult("c1", false, model.Text("y")))}
	for _, tc := range []struct {
		model, effort    string
		messages         []model.Message
		thinking, output string
		temperature      bool
	}{
		{"claude-sonnet-4-5", "", nil, "", "", true},
		{"claude-sonnet-4-5", "none", nil, "", "", true},
		{"claude-sonnet-4-5", "minimal", nil, `{"type":"enabled","budget_tokens":4096}`, "", false},
		{"claude-sonnet-4-5", "high", nil, `{"type":"enabled","budget_tokens":18976}`, "", false},
		{"claude-sonnet-4-5", "high", foreign, "", "", true}, // refused behind a call without thinking
		{"claude-sonnet-4-5", "high", append(foreign[:3:3], assistant(model.Text("a")), user("x")), `{"type":"enabled","budget_tokens":18976}`, "", false},
		{"claude-opus-4-6", "", nil, `{"type":"adaptive","display":"summarized"}`, "", false},
		{"claude-opus-4-6", "max", foreign, `{"type":"adaptive","display":"summarized"}`, `{"effort":"max"}`, false},
		{"claude-opus-4-6", "none", nil, `{"type":"disabled"}`, "", false},
		{"claude-opus-5-5", "none", nil, `{"type":"adaptive","display":"summarized"}`, `{"effort":"low"}`, false},
		{"deepseek-flash", "high", nil, "", `{"effort":"high"}`, true},
		{"deepseek-flash", "none", nil, `{"type":"disabled"}`, "", true},
		{"unheard-of", "", nil, "", "", true},
	} {
		req := request(tc.messages...)
		req.Model, req.ReasoningEffort, req.Temperature, req.MaxTokens = tc.model, tc.effort, &warm, 20_000
		b := sent(t, req)
		if string(b.Thinking) != tc.thinking || string(b.OutputConfig) != tc.output || (b.Temperature != nil) != tc.temperature {
			t.Errorf("%s, effort %q: thinking %s, output_config %s, temperature %v", tc.model, tc.effort, b.Thinking, b.OutputConfig, b.Temperature)
		}
	}
}

func TestInfo(t *testing.T) {
	list, err := model.KnownModels().With([]byte(`[{"provider": "mine", "id": "m", "contextWindow": 5, "maxOutput": 3}]`))
	if err != nil {
		t.Fatal(err)
	}
	p := anthropic.New(anthropic.Options{Name: "mine", Models: list})
	for name, want := range map[string]model.Info{
		"m":                 {ContextWindow: 5, MaxTokens: 3},
		"claude-opus-4-1":   {ContextWindow: 200_000, MaxTokens: 32_000},
		"claude-sonnet-4-6": {ContextWindow: 1_000_000, MaxTokens: 64_000},
		"unheard-of":        {MaxTokens: 32_000},
	} {
		if got := p.Info(name); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if p.Name() != "mine" || anthropic.New(anthropic.Options{}).Name() != "anthropic" {
		t.Error("the names are wrong")
	}
	req := request()
	req.Model = "claude-opus-4-1"
	if b := sent(t, req); b.MaxTokens != 32_000 {
		t.Errorf("max_tokens %d where none were asked for", b.MaxTokens)
	}
}

func TestEndpoint(t *testing.T) {
	for base, want := range map[string]string{
		"":                                  "https://api.anthropic.com/v1/messages",
		"https://x.example/anthropic":       "https://x.example/anthropic/v1/messages",
		"https://x.example/v1/":             "https://x.example/v1/messages",
		"https://x.example/v1/messages?a=b": "https://x.example/v1/messages?a=b",
	} {
		var got string
		client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			got = r.URL.String()
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
		})}
		s, err := anthropic.New(anthropic.Options{BaseURL: base, HTTPClient: client}).Stream(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if got != want {
			t.Errorf("%s becomes %s, want %s", base, got, want)
		}
	}
}

// transport answers without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRequestIsNotChanged(t *testing.T) {
	req := request(user("x\xff"), assistant(model.ToolCall("", "", "{")), user("y"))
	before, _ := json.Marshal(req)
	sent(t, req)
	if after, _ := json.Marshal(req); !bytes.Equal(before, after) {
		t.Error("the request was written to")
	}
}
