package openai_test

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
)

func TestText_Chunks(t *testing.T) {
	p, _ := provider(t, openai.Options{}, modeltest.WireText("hello there"))
	chunks, err := read(t.Context(), p, request())
	if err != nil {
		t.Fatal(err)
	}
	want := []model.Chunk{
		model.NewBlockStart(0, model.BlockText),
		model.NewTextDelta(0, "hello "),
		model.NewTextDelta(0, "there"),
		model.NewBlockEnd(0, model.Text("hello there")),
		model.NewUsage(model.Usage{InputTokens: 11, OutputTokens: 7}),
		model.NewFinish(model.FinishStop),
	}
	if !reflect.DeepEqual(chunks, want) {
		t.Errorf("got %+v\nwant %+v", chunks, want)
	}
}

// shape is a reply and what must become of it.
type shape struct {
	name  string
	reply modeltest.Wire
	want  string // as show has it
	says  string // part of the failure's message
}

func (s shape) check(t *testing.T) {
	t.Run(s.name, func(t *testing.T) {
		p, _ := provider(t, openai.Options{}, s.reply)
		chunks, err := read(t.Context(), p, request())
		if got := show(chunks, err); got != s.want {
			t.Errorf("got\n%s\nwant\n%s", got, s.want)
		}
		if s.says != "" && (err == nil || !strings.Contains(err.Error(), s.says)) {
			t.Errorf("got the message %q, want it to say %q", err, s.says)
		}
	})
}

func TestR066_Comments(t *testing.T) {
	shape{"keep-alive", modeltest.Steps(
		modeltest.Comment("keep-alive"),
		modeltest.Comment(" OPENROUTER PROCESSING"),
		modeltest.TextDelta("one "),
		modeltest.Comment("keep-alive"),
		modeltest.Raw(":\n"),
		modeltest.TextDelta("two"),
	).Then(modeltest.Finish("stop")...), "text one two\nstop", ""}.check(t)
}

// recorded is a stream with what makes line ends and characters hard.
const recorded = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"a\u2028b 界\"}}]}\n\n" +
	": comment\n\n" +
	"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" 😀\\n\"},\"finish_reason\":null}]}\n\n" +
	"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
	"data: [DONE]\n\n"

const recordedShown = "text a\u2028b 界 😀\n\nstop"

func TestR068_CRLF(t *testing.T) {
	crlf := strings.ReplaceAll(recorded, "\n", "\r\n")
	var split []modeltest.Step
	for _, piece := range strings.SplitAfter(crlf, "\r") {
		split = append(split, modeltest.Raw(piece))
	}
	for _, s := range []shape{
		{name: "LF", reply: modeltest.Steps(modeltest.Raw(recorded))},
		{name: "CRLF", reply: modeltest.Steps(modeltest.Raw(crlf))},
		{name: "CRLF flushed between CR and LF", reply: modeltest.Steps(split...)},
		{name: "CR", reply: modeltest.Steps(modeltest.Raw(strings.ReplaceAll(recorded, "\n", "\r")))},
		{name: "no space", reply: modeltest.Steps(modeltest.Raw(strings.ReplaceAll(recorded, "data: ", "data:")))},
	} {
		s.want = recordedShown
		s.check(t)
	}
}

func TestR069_SplitCharacters(t *testing.T) {
	shape{"every byte alone", modeltest.Steps(modeltest.Bytewise(recorded)), recordedShown, ""}.check(t)
}

func TestR070_LongLines(t *testing.T) {
	for _, n := range []int{70 << 10, 1 << 20, 6 << 20} {
		arguments := `{"content":"` + strings.Repeat("x", n) + `"}`
		p, _ := provider(t, openai.Options{}, modeltest.Steps(
			modeltest.ToolDelta(0, "c1", "write", arguments)).Then(modeltest.Finish("tool_calls")...))
		chunks, err := read(t.Context(), p, request())
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if got := fold(chunks).Blocks()[0].Arguments; got != arguments {
			t.Errorf("%d bytes: %d came", len(arguments), len(got))
		}
	}
}

func TestR077_EmptyChoices(t *testing.T) {
	p, _ := provider(t, openai.Options{}, modeltest.Steps(
		modeltest.Frame(`{"choices":[],"prompt_filter_results":[]}`),
		modeltest.Frame(`{"choices":[{"index":0,"delta":{"content":"hi"}}],"usage":null}`),
		modeltest.Frame(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}`),
		modeltest.Frame(`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":1}}}`),
		modeltest.Done(),
	))
	chunks, err := read(t.Context(), p, request())
	if got := show(chunks, err); got != "text hi\nstop" {
		t.Errorf("got %s", got)
	}
	n := 0
	for _, c := range chunks {
		if c.Type == model.ChunkUsage {
			n++
		}
	}
	want := &model.Usage{InputTokens: 5, OutputTokens: 2, CacheReadTokens: 3, ReasoningTokens: 1}
	if got := fold(chunks).Usage(); n != 1 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d usage chunks, the last %+v; want one %+v", n, got, want)
	}
}

func TestUsage_InEveryFrame(t *testing.T) {
	p, _ := provider(t, openai.Options{}, modeltest.Steps(
		modeltest.Frame(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`),
		modeltest.Frame(`{"choices":[{"delta":{"content":"b"},"finish_reason":"stop","usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_cache_hit_tokens":4}}]}`),
		modeltest.Done(),
	))
	chunks, err := read(t.Context(), p, request())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fold(chunks).Usage(), (&model.Usage{InputTokens: 5, OutputTokens: 2, CacheReadTokens: 4}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestR078_Length(t *testing.T) {
	for _, s := range []shape{
		{"cut in a string", modeltest.Steps(
			modeltest.TextDelta("I write."),
			modeltest.ToolDelta(0, "c1", "write", `{"content":"half a`),
		).Then(modeltest.Finish("length")...), "text I write.\nmax-tokens", ""},
		{"arguments that happen to parse", modeltest.Steps(
			modeltest.ToolDelta(0, "c1", "write", `{"path":"x"}`),
		).Then(modeltest.Finish("length")...), "max-tokens", ""},
		{"text", modeltest.Steps(modeltest.TextDelta("half")).Then(modeltest.Finish("length")...), "text half\nmax-tokens", ""},
		{"Mistral's word", modeltest.Steps(modeltest.TextDelta("half")).Then(modeltest.Finish("model_length")...), "text half\nmax-tokens", ""},
	} {
		s.check(t)
	}
}

func TestR079_ArgumentsNotWhole(t *testing.T) {
	// The call is passed on as it is, so that it fails as a call and the model hears of it.
	shape{"tool_calls", modeltest.Steps(
		modeltest.ToolDelta(0, "c1", "bash", `{"command":"rm -r bui`),
	).Then(modeltest.Finish("tool_calls")...), `call c1 bash {"command":"rm -r bui` + "\ntool-calls", ""}.check(t)
}

func TestR081_ContentFilter(t *testing.T) {
	for _, s := range []shape{
		{"empty", modeltest.Steps(modeltest.Delta(`{"role":"assistant"}`)).Then(modeltest.Finish("content_filter")...),
			"CONTENT_FILTER", "content filter stopped the reply before anything came"},
		{"half a sentence", modeltest.Steps(modeltest.TextDelta("Well, ")).Then(modeltest.Finish("content_filter")...),
			"text Well, \nCONTENT_FILTER", "after 6 characters"},
		{"refusal", modeltest.Steps(modeltest.Delta(`{"refusal":"I will not."}`)).Then(modeltest.Finish("stop")...),
			"text I will not.\nstop", ""},
	} {
		s.check(t)
	}
	p, _ := provider(t, openai.Options{}, modeltest.Steps(modeltest.TextDelta("x")).Then(modeltest.Finish("content_filter")...))
	chunks, _ := read(t.Context(), p, request())
	if u := fold(chunks).Usage(); u == nil || u.InputTokens != 11 {
		t.Errorf("usage of a filtered reply: %+v", u)
	}
}

func TestR083_EarlyEnd(t *testing.T) {
	half := modeltest.TextDelta("half a sen")
	tool := modeltest.ToolDelta(0, "c1", "bash", `{"command":"ls"}`)
	const clean, broken = "closed the reply in an orderly way before it was complete", "broke in the middle of the reply"
	for _, s := range []shape{
		{"clean, half a sentence", modeltest.Steps(half), "text half a sen\nTRANSPORT", clean + ": after 10 characters no finish_reason had come"},
		{"clean, a complete tool call", modeltest.Steps(tool), "call c1 bash {\"command\":\"ls\"}\nTRANSPORT", clean + ": after 0 characters and a tool call"},
		{"cut", modeltest.Steps(half, modeltest.Cut()), "text half a sen\nTRANSPORT", broken},
		{"cut, a complete tool call", modeltest.Steps(tool, modeltest.Cut()), "call c1 bash {\"command\":\"ls\"}\nTRANSPORT", broken},
		{"reset", modeltest.Steps(half, modeltest.Reset()), "text half a sen\nTRANSPORT", broken},
		{"clean, nothing at all", modeltest.Steps(modeltest.Headers(200, nil)), "TRANSPORT", clean + ": before anything came"},
		{"clean, only comments", modeltest.Steps(modeltest.Comment("x")), "TRANSPORT", clean},
		{"clean, within a frame", modeltest.Steps(half, modeltest.Raw(`data: {"choices":[{"delta":{"cont`)), "text half a sen\nTRANSPORT", clean},
		{"cut, within a frame", modeltest.Steps(half, modeltest.Raw(`data: {"choices":[{"delta":{"cont`), modeltest.Cut()), "text half a sen\nTRANSPORT", broken},
		{"DONE without a finish_reason", modeltest.Steps(half, modeltest.Done()), "text half a sen\nTRANSPORT", clean + ": after 10 characters [DONE] came, but no finish_reason"},
	} {
		s.check(t)
	}
}

// TestR083_Ended has replies that are whole though something is missing behind the
// finish_reason.
func TestR083_Ended(t *testing.T) {
	end := modeltest.Frame(`{"choices":[{"delta":{"content":"all"},"finish_reason":"stop"}]}`)
	for _, s := range []shape{
		{"no DONE", modeltest.Steps(end), "text all\nstop", ""},
		{"no blank line either", modeltest.Steps(modeltest.Raw(`data: {"choices":[{"delta":{"content":"all"},"finish_reason":"stop"}]}`)), "text all\nstop", ""},
		{"cut", modeltest.Steps(end, modeltest.Cut()), "text all\nstop", ""},
		{"reset", modeltest.Steps(end, modeltest.Reset()), "text all\nstop", ""},
		{"rubbish behind it", modeltest.Steps(end, modeltest.Frame(`<eof>`)), "text all\nstop", ""},
	} {
		s.check(t)
	}
}

func TestR086_BlankLines(t *testing.T) {
	blank := modeltest.Raw(strings.Repeat("\n", 5000))
	for _, s := range []shape{
		{"ahead of a stream", modeltest.Steps(append([]modeltest.Step{blank, modeltest.TextDelta("hi")}, modeltest.Finish("stop")...)...), "text hi\nstop", ""},
		{"ahead of a body", modeltest.Steps(blank, modeltest.Raw(`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`)), "text hi\nstop", ""},
	} {
		s.check(t)
	}
}

func TestNotStreamed(t *testing.T) {
	for _, s := range []shape{
		{"text", modeltest.Status(200, nil, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi","reasoning":"hm"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`),
			"reasoning hm\ntext hi\nstop", ""},
		{"tool call", modeltest.Status(200, nil, `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`),
			"call a ls {}\ntool-calls", ""},
		{"an error", modeltest.Status(200, nil, `{"error":{"message":"boom","type":"server_error"}}`), "SERVER", "boom"},
		{"a list", modeltest.Status(200, nil, `[1,2]`), "SERVER", "no model's reply"},
		{"something else", modeltest.Status(200, nil, `{"status":"ok"}`), "SERVER", "no model's reply"},
		{"no finish_reason", modeltest.Status(200, nil, `{"choices":[{"message":{"content":"hi"}}]}`), "text hi\nTRANSPORT", "no finish_reason"},
		{"a web page", modeltest.Status(200, map[string]string{"Content-Type": "text/html"}, "\n<!doctype html><title>Sign in</title>"), "UNKNOWN", "web page"},
		{"cut", modeltest.Steps(modeltest.Raw(`{"choices":[{"mess`), modeltest.Cut()), "TRANSPORT", "broke"},
	} {
		s.check(t)
	}
}

func TestErrorInsideA200(t *testing.T) {
	begin := modeltest.TextDelta("so far")
	for _, s := range []shape{
		{"error frame", modeltest.Steps(begin, modeltest.Frame(`{"error":{"message":"The server is overloaded","type":"server_error","code":null}}`), modeltest.Done()),
			"text so far\nSERVER", "The server is overloaded"},
		{"error event", modeltest.Steps(begin, modeltest.Raw("event: error\ndata: {\"message\":\"bad luck\"}\n\n")), "text so far\nSERVER", "bad luck"},
		{"error event in words", modeltest.Steps(begin, modeltest.Raw("event: error\ndata: upstream went away\n\n")), "text so far\nSERVER", "upstream went away"},
		{"as text", modeltest.Steps(modeltest.Frame(`{"error":"model not loaded"}`)), "SERVER", "model not loaded"},
		{"vLLM's", modeltest.Steps(modeltest.Frame(`{"object":"error","message":"no more","type":"BadRequestError","code":400}`)), "UNKNOWN", "no more"},
		{"a router's", modeltest.Steps(begin, modeltest.Frame(`{"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"Provider returned error","metadata":{"raw":"dead"}}}]}`)),
			"text so far\nSERVER", "Provider returned error: dead"},
		{"rate limit", modeltest.Steps(modeltest.Frame(`{"error":{"message":"slow down","type":"rate_limit_error"}}`)), "RATE_LIMIT", "slow down"},
		{"context", modeltest.Steps(modeltest.Frame(`{"error":{"code":400,"message":"the request exceeds the available context size"}}`)), "CONTEXT_WINDOW_EXCEEDED", "Compact"},
		{"DeepSeek out of resources", modeltest.Steps(begin).Then(modeltest.Finish("insufficient_system_resource")...), "text so far\nSERVER", "gave up"},
		{"behind the finish_reason", modeltest.Steps(begin).Then(modeltest.Finish("stop")[0], modeltest.Frame(`{"error":{"message":"late"}}`)), "text so far\nSERVER", "late"},
		{"no JSON", modeltest.Steps(begin, modeltest.Frame(`upstream error`)), "text so far\nSERVER", "not a piece of a reply"},
		{"an error that is none", modeltest.Steps(modeltest.Frame(`{"error":null,"choices":[{"delta":{"content":"fine"},"finish_reason":"stop"}]}`)), "text fine\nstop", ""},
	} {
		s.check(t)
	}
}

func TestShapes(t *testing.T) {
	for _, s := range []shape{
		{"reasoning, text, call", modeltest.Steps(
			modeltest.ReasoningDelta("think"), modeltest.ReasoningDelta(" more"),
			modeltest.TextDelta("I look."),
			modeltest.ToolDelta(0, "c1", "ls", "{}"),
		).Then(modeltest.Finish("tool_calls")...), "reasoning think more\ntext I look.\ncall c1 ls {}\ntool-calls", ""},
		{"stop beside a call", modeltest.Steps(modeltest.ToolDelta(0, "c1", "ls", "{}")).Then(modeltest.Finish("stop")...), "call c1 ls {}\ntool-calls", ""},
		{"tool_calls without a call", modeltest.Steps(modeltest.TextDelta("hm")).Then(modeltest.Finish("tool_calls")...), "text hm\nstop", ""},
		{"a word for the end that is new", modeltest.Steps(modeltest.TextDelta("hm")).Then(modeltest.Finish("eos")...), "text hm\nstop", ""},
		{"several choices", modeltest.Steps(modeltest.Frame(`{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"yes"}}]}`)).Then(modeltest.Finish("stop")...), "text yes\nstop", ""},
		{"Ollama's reasoning", modeltest.Steps(modeltest.Delta(`{"reasoning":"hm"}`), modeltest.TextDelta("a")).Then(modeltest.Finish("stop")...), "reasoning hm\ntext a\nstop", ""},
		{"Mistral's parts", modeltest.Steps(modeltest.Delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}`)).Then(modeltest.Finish("stop")...),
			"reasoning hm\ntext a\nstop", ""},
		{"no blank line between frames", modeltest.Steps(modeltest.Raw("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n")), "text ab\nstop", ""},
		{"text after a call", modeltest.Steps(modeltest.TextDelta("a"), modeltest.ToolDelta(0, "c1", "ls", "{"), modeltest.TextDelta("b"), modeltest.ToolDelta(0, "", "", "}")).Then(modeltest.Finish("tool_calls")...),
			"text a\ncall c1 ls {}\ntext b\ntool-calls", ""},
		{"nothing", modeltest.Steps(modeltest.Finish("stop")...), "EMPTY_RESPONSE", "nothing at all"},
		{"R087 an unpaired surrogate", modeltest.Steps(
			modeltest.Delta(`{"content":"a\ud83d!"}`),
			modeltest.ToolDelta(0, "c1", "write", `{"a":"\ud83d"}`),
		).Then(modeltest.Finish("tool_calls")...), "text a\uFFFD!\ncall c1 write {\"a\":\"\\ufffd\"}\ntool-calls", ""},
	} {
		s.check(t)
	}
}

func TestEmptyAfterTools(t *testing.T) {
	p, _ := provider(t, openai.Options{}, modeltest.Steps(modeltest.Finish("stop")...))
	result := model.Message{Role: model.RoleUser, Source: model.Source{Kind: model.SourceTool}, Content: []model.Block{model.ToolResult("c1", false)}}
	call := model.Message{Role: model.RoleAssistant, Content: []model.Block{model.ToolCall("c1", "ls", "{}")}}
	chunks, err := read(t.Context(), p, request(user("x"), call, result))
	if got := show(chunks, err); got != "stop" {
		t.Errorf("got %s", got)
	}
}

func TestNext_AfterTheEnd(t *testing.T) {
	p, _ := provider(t, openai.Options{}, modeltest.WireText("a"), modeltest.Steps(modeltest.TextDelta("a")))
	for _, want := range []error{io.EOF, io.ErrUnexpectedEOF} {
		s, err := p.Stream(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = s.Next()
		}
		_, again := s.Next()
		if !errors.Is(err, want) || again != err {
			t.Errorf("got %v, then %v; want %v twice", err, again, want)
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	}
}
