package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
)

// sent returns what the provider sends as messages, each as role and JSON of the rest.
func sent(t *testing.T, make func(openai.Options) *openai.Provider, req *model.Request) []string {
	t.Helper()
	server := modeltest.NewServer(t, modeltest.WireText("ok"))
	p := make(openai.Options{BaseURL: server.URL})
	t.Cleanup(p.CloseIdleConnections)
	if _, err := read(t.Context(), p, req); err != nil {
		t.Fatal(err)
	}
	var body struct{ Messages []map[string]any }
	if err := json.Unmarshal(server.Requests()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range body.Messages {
		role := m["role"]
		delete(m, "role")
		rest, _ := json.Marshal(m)
		out = append(out, fmt.Sprintf("%v %s", role, rest))
	}
	return out
}

func TestMessages(t *testing.T) {
	call := model.ToolCall("c1", "ls", "{}")
	ok := model.ToolResult("c1", false, model.Text("files"))
	const callSent = `assistant {"content":"","tool_calls":[{"function":{"arguments":"{}","name":"ls"},"id":"c1","type":"function"}]}`
	for _, tc := range []struct {
		name     string
		messages []model.Message
		want     []string
	}{
		{"a call and its result", []model.Message{user("x"), assistant(call), results(ok)},
			[]string{`user {"content":"x"}`, callSent, `tool {"content":"files","tool_call_id":"c1"}`}},
		{"an error keeps its text", []model.Message{assistant(call), results(model.ToolResult("c1", true, model.Text("exit 1"), model.Text("stderr")))},
			[]string{callSent, `tool {"content":"exit 1\n\nstderr","tool_call_id":"c1"}`}},
		{"an empty result", []model.Message{assistant(call), results(model.ToolResult("c1", false))},
			[]string{callSent, `tool {"content":"(no output)","tool_call_id":"c1"}`}},
		{"an empty error", []model.Message{assistant(call), results(model.ToolResult("c1", true))},
			[]string{callSent, `tool {"content":"(error without a message)","tool_call_id":"c1"}`}},
		{"R119 a call without a result", []model.Message{assistant(call), user("go on")},
			[]string{callSent, `tool {"content":"(no result: the call was not run to its end)","tool_call_id":"c1"}`, `user {"content":"go on"}`}},
		{"a note between a call and its result", []model.Message{assistant(call), user("note"), results(ok)},
			[]string{callSent, `tool {"content":"files","tool_call_id":"c1"}`, `user {"content":"note"}`}},
		{"results in another order, in one message", []model.Message{
			assistant(call, model.ToolCall("c2", "cat", "{}")), results(model.ToolResult("c2", false, model.Text("two")), ok)},
			[]string{`assistant {"content":"","tool_calls":[{"function":{"arguments":"{}","name":"ls"},"id":"c1","type":"function"},{"function":{"arguments":"{}","name":"cat"},"id":"c2","type":"function"}]}`,
				`tool {"content":"files","tool_call_id":"c1"}`, `tool {"content":"two","tool_call_id":"c2"}`}},
		{"a result without a call", []model.Message{results(ok), user("x")},
			[]string{`user {"content":"Result of an earlier tool call:\nfiles"}`, `user {"content":"x"}`}},
		{"the same id in two turns", []model.Message{assistant(call), results(ok), assistant(call), results(model.ToolResult("c1", false, model.Text("again")))},
			[]string{callSent, `tool {"content":"files","tool_call_id":"c1"}`, callSent, `tool {"content":"again","tool_call_id":"c1"}`}},
		{"empty messages are left out", []model.Message{user(""), assistant(), assistant(model.Reasoning("hm")), user("x")},
			[]string{`user {"content":"x"}`}},
		{"system messages", []model.Message{{Role: model.RoleSystem, Content: []model.Block{model.Text("be brief")}}, user("x")},
			[]string{`system {"content":"be brief"}`, `user {"content":"x"}`}},
		{"an image that cannot be sent", []model.Message{{Role: model.RoleUser, Content: []model.Block{{Type: model.BlockImage, Attachment: json.RawMessage(`{"id":7}`)}}}},
			[]string{`user {"content":"(an image that cannot be sent)"}`}},
		{"R079 arguments that are not JSON", []model.Message{assistant(model.ToolCall("c1", "ls", `{"a":`)), results(ok)},
			[]string{`assistant {"content":"","tool_calls":[{"function":{"arguments":"{\"invalid_arguments\":\"{\\\"a\\\":\"}","name":"ls"},"id":"c1","type":"function"}]}`, `tool {"content":"files","tool_call_id":"c1"}`}},
		{"arguments that are no object, or none", []model.Message{assistant(model.ToolCall("c1", "ls", `[1]`), model.ToolCall("c2", "", ""))},
			[]string{`assistant {"content":"","tool_calls":[{"function":{"arguments":"{\"invalid_arguments\":\"[1]\"}","name":"ls"},"id":"c1","type":"function"},{"function":{"arguments":"{}","name":"unnamed"},"id":"c2","type":"function"}]}`,
				`tool {"content":"(no result: the call was not run to its end)","tool_call_id":"c1"}`, `tool {"content":"(no result: the call was not run to its end)","tool_call_id":"c2"}`}},
		{"a name that no service takes", []model.Message{assistant(model.ToolCall("c1", "multi tool.use/é", `{}`)), results(ok)},
			[]string{`assistant {"content":"","tool_calls":[{"function":{"arguments":"{}","name":"multi_tool_use__"},"id":"c1","type":"function"}]}`, `tool {"content":"files","tool_call_id":"c1"}`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := sent(t, openai.New, request(tc.messages...))
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tc.want) {
				t.Errorf("got\n%q\nwant\n%q", got, tc.want)
			}
		})
	}
}

func TestR087_Request(t *testing.T) {
	call := assistant(model.ToolCall("c1", "write", `{"a":"\ud83d"}`))
	bytes := results(model.ToolResult("c1", false, model.Text("\xff \xed\xa0\xbd \xc3\x28")))
	got := sent(t, openai.New, request(call, bytes))
	want := []string{
		`assistant {"content":"","tool_calls":[{"function":{"arguments":"{\"a\":\"\\ufffd\"}","name":"write"},"id":"c1","type":"function"}]}`,
		"tool {\"content\":\"\uFFFD \uFFFD\uFFFD\uFFFD \uFFFD(\",\"tool_call_id\":\"c1\"}",
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestR073_ReasoningGoesBack has a service that, like DeepSeek, refuses a history whose
// tool turns lack their reasoning.
func TestR073_ReasoningGoesBack(t *testing.T) {
	server := modeltest.NewServer(t,
		modeltest.Steps(modeltest.ReasoningDelta("I need "), modeltest.ReasoningDelta("a list."),
			modeltest.ToolDelta(0, "c1", "ls", "{}")).Then(modeltest.Finish("tool_calls")...),
	).Otherwise(modeltest.WireFunc(func(r *modeltest.Recorded) modeltest.Wire {
		var body struct {
			Messages []struct {
				Role             string
				ReasoningContent *string `json:"reasoning_content"`
			}
		}
		_ = json.Unmarshal(r.Body, &body)
		for _, m := range body.Messages {
			if m.Role == "assistant" && m.ReasoningContent == nil {
				return modeltest.Status(400, nil, `{"error":{"message":"The reasoning_content in the thinking mode must be passed back to the API.","type":"invalid_request_error"}}`)
			}
		}
		return modeltest.WireText("done")
	}))
	p := openai.DeepSeek(openai.Options{BaseURL: server.URL})
	t.Cleanup(p.CloseIdleConnections)

	chunks, err := read(t.Context(), p, request())
	if err != nil {
		t.Fatal(err)
	}
	// To disk and back, as on resume.
	raw, err := json.Marshal([]model.Message{user("hi"), fold(chunks).Message("m", model.Config{}), results(model.ToolResult("c1", false, model.Text("x")))})
	if err != nil {
		t.Fatal(err)
	}
	var history []model.Message
	if err := json.Unmarshal(raw, &history); err != nil {
		t.Fatal(err)
	}
	// With an answer of its own without reasoning, and one that another model gave.
	history = append(history, assistant(model.Text("fine")), user("more"), assistant(model.ToolCall("c2", "ls", "{}")), results(model.ToolResult("c2", false)))
	if _, err := read(t.Context(), p, request(history...)); err != nil {
		t.Fatal(err)
	}
	got := sent(t, openai.DeepSeek, request(history...))
	if want := `assistant {"content":"","reasoning_content":"I need a list.","tool_calls":[{"function":{"arguments":"{}","name":"ls"},"id":"c1","type":"function"}]}`; got[1] != want {
		t.Errorf("got  %s\nwant %s", got[1], want)
	}

	plain := openai.New(openai.Options{BaseURL: server.URL})
	t.Cleanup(plain.CloseIdleConnections)
	if _, err := read(t.Context(), plain, request(history...)); err == nil {
		t.Error("the plain flavour sent reasoning, too")
	}
}

func TestDeepSeek_NoToolsNoReasoning(t *testing.T) {
	talk := []model.Message{user("x"), assistant(model.Reasoning("hm"), model.Text("y")), user("z")}
	if got, want := sent(t, openai.DeepSeek, request(talk...))[1], `assistant {"content":"y"}`; got != want {
		t.Errorf("without tools: got %s, want %s", got, want)
	}
	req := request(talk...)
	req.Tools = []model.ToolSpec{{Name: "ls"}}
	if got, want := sent(t, openai.DeepSeek, req)[1], `assistant {"content":"y","reasoning_content":"hm"}`; got != want {
		t.Errorf("with tools: got %s, want %s", got, want)
	}
	req.Messages[1].Source.Provider = "anthropic"
	if got, want := sent(t, openai.DeepSeek, req)[1], `assistant {"content":"y","reasoning_content":""}`; got != want {
		t.Errorf("of another provider: got %s, want %s", got, want)
	}
}

func TestDeepSeek_ThinkingOff(t *testing.T) {
	server := modeltest.NewServer(t).Otherwise(modeltest.WireText("ok"))
	for _, flavour := range []struct {
		make func(openai.Options) *openai.Provider
		want string
	}{{openai.DeepSeek, `"thinking":{"type":"disabled"}`}, {openai.New, `"reasoning_effort":"none"`}} {
		p := flavour.make(openai.Options{BaseURL: server.URL})
		t.Cleanup(p.CloseIdleConnections)
		req := request()
		req.ReasoningEffort = "none"
		if _, err := read(t.Context(), p, req); err != nil {
			t.Fatal(err)
		}
		requests := server.Requests()
		if body := requests[len(requests)-1].Body; !bytes.Contains(body, []byte(flavour.want)) {
			t.Errorf("%s lacks %s", body, flavour.want)
		}
	}
}

func TestB099_PrefixIsStable(t *testing.T) {
	server := modeltest.NewServer(t).Otherwise(modeltest.WireText("ok"))
	p := openai.New(openai.Options{BaseURL: server.URL})
	t.Cleanup(p.CloseIdleConnections)
	history := []model.Message{user("x"), assistant(model.ToolCall("c1", "ls", "{}")), results(model.ToolResult("c1", false, model.Text("files")))}
	for _, n := range []int{1, 3, 3} {
		req := request(history[:n]...)
		req.Tools = []model.ToolSpec{{Name: "ls"}}
		if _, err := read(t.Context(), p, req); err != nil {
			t.Fatal(err)
		}
	}
	r := server.Requests()
	upToMessages := r[0].Body[:bytes.LastIndex(r[0].Body, []byte(`],"tools"`))]
	if !bytes.HasPrefix(r[1].Body, upToMessages) || !bytes.Equal(r[1].Body, r[2].Body) {
		t.Errorf("bodies:\n%s\n%s\n%s", r[0].Body, r[1].Body, r[2].Body)
	}
}

func TestUsage_Refused(t *testing.T) {
	refusal := modeltest.Status(400, nil, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`)
	p, server := provider(t, openai.Options{}, refusal, modeltest.WireText("a"), modeltest.WireText("b"))
	for range 2 {
		if _, err := read(t.Context(), p, request()); err != nil {
			t.Fatal(err)
		}
	}
	var asked []bool
	for _, r := range server.Requests() {
		asked = append(asked, bytes.Contains(r.Body, []byte(`"include_usage":true`)))
	}
	if fmt.Sprint(asked) != "[true false false]" {
		t.Errorf("asked for usage: %v", asked)
	}
}

func TestUsage_RefusedForEver(t *testing.T) {
	refusal := modeltest.Status(400, nil, `{"error":{"message":"stream_options"}}`)
	p, server := provider(t, openai.Options{}, refusal, refusal)
	_, err := read(t.Context(), p, request())
	if f := failure(t, err); f.Status != 400 || len(server.Requests()) != 2 {
		t.Errorf("%+v after %d requests", f, len(server.Requests()))
	}
}

func TestMaxTokens_NewName(t *testing.T) {
	refusal := modeltest.Status(400, nil, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","code":"unsupported_parameter"}}`)
	p, server := provider(t, openai.Options{}, refusal, modeltest.WireText("a"))
	req := request()
	req.MaxTokens = 50
	if _, err := read(t.Context(), p, req); err != nil {
		t.Fatal(err)
	}
	r := server.Requests()
	if !bytes.Contains(r[0].Body, []byte(`"max_tokens":50`)) || !bytes.Contains(r[1].Body, []byte(`"max_completion_tokens":50`)) ||
		bytes.Contains(r[1].Body, []byte(`"max_tokens"`)) {
		t.Errorf("bodies:\n%s\n%s", r[0].Body, r[1].Body)
	}
}

func TestRequestIsNotChanged(t *testing.T) {
	req := request(user("x\xff"), assistant(model.ToolCall("", "", "{")))
	before, _ := json.Marshal(req)
	sent(t, openai.New, req)
	if after, _ := json.Marshal(req); !bytes.Equal(before, after) {
		t.Error("the request was written to")
	}
}
