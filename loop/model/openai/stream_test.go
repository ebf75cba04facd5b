package openai_test

import (
	"reflect"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
)

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
		modeltest.Frame(`{"choices":[{"delta":{"content":"b"},"finish_reason":"stop","usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":1}}]}`),
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

func TestR086_BlankLines(t *testing.T) {
	blank := modeltest.Raw(strings.Repeat("\n", 5000))
	subject.Check(t, shape("ahead of a body", modeltest.Steps(blank, modeltest.Raw(`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`)), "text hi\nstop", ""))
}

func TestNotStreamed(t *testing.T) {
	subject.Check(t,
		shape("text", modeltest.Status(200, nil, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi","reasoning":"hm"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`),
			"reasoning hm\ntext hi\nstop", ""),
		shape("tool call", modeltest.Status(200, nil, `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`),
			"call a ls {}\ntool-calls", ""),
		shape("no finish_reason", modeltest.Status(200, nil, `{"choices":[{"message":{"content":"hi"}}]}`), "text hi\nTRANSPORT", "no finish_reason"),
	)
}

func TestErrorInsideA200(t *testing.T) {
	begin := modeltest.TextDelta("so far")
	subject.Check(t,
		shape("error frame", modeltest.Steps(begin, modeltest.Frame(`{"error":{"message":"The server is overloaded","type":"server_error","code":null}}`), modeltest.Done()),
			"text so far\nSERVER", "The server is overloaded"),
		shape("error event", modeltest.Steps(begin, modeltest.Raw("event: error\ndata: {\"message\":\"bad luck\"}\n\n")), "text so far\nSERVER", "bad luck"),
		shape("as text", modeltest.Steps(modeltest.Frame(`{"error":"model not loaded"}`)), "SERVER", "model not loaded"),
		shape("vLLM's", modeltest.Steps(modeltest.Frame(`{"object":"error","message":"no more","type":"BadRequestError","code":400}`)), "UNKNOWN", "no more"),
		shape("a router's", modeltest.Steps(begin, modeltest.Frame(`{"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"Provider returned error","metadata":{"raw":"dead"}}}]}`)),
			"text so far\nSERVER", "Provider returned error: dead"),
		shape("rate limit", modeltest.Steps(modeltest.Frame(`{"error":{"message":"slow down","type":"rate_limit_error"}}`)), "RATE_LIMIT", "slow down"),
		shape("context", modeltest.Steps(modeltest.Frame(`{"error":{"code":400,"message":"the request exceeds the available context size"}}`)), "CONTEXT_WINDOW_EXCEEDED", "Compact"),
		shape("DeepSeek out of resources", modeltest.Steps(begin).Then(modeltest.Finish("insufficient_system_resource")...), "text so far\nSERVER", "gave up"),
		shape("an error that is none", modeltest.Steps(modeltest.Frame(`{"error":null,"choices":[{"delta":{"content":"fine"},"finish_reason":"stop"}]}`)), "text fine\nstop", ""),
	)
}

func TestShapes(t *testing.T) {
	subject.Check(t,
		shape("R078 Mistral's word", modeltest.Steps(modeltest.TextDelta("half")).Then(modeltest.Finish("model_length")...), "text half\nmax-tokens", ""),
		shape("R081 a refusal", modeltest.Steps(modeltest.Delta(`{"refusal":"I will not."}`)).Then(modeltest.Finish("stop")...), "text I will not.\nstop", ""),
		shape("several choices", modeltest.Steps(modeltest.Frame(`{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"yes"}}]}`)).Then(modeltest.Finish("stop")...), "text yes\nstop", ""),
		shape("Ollama's reasoning", modeltest.Steps(modeltest.Delta(`{"reasoning":"hm"}`), modeltest.TextDelta("a")).Then(modeltest.Finish("stop")...), "reasoning hm\ntext a\nstop", ""),
		shape("Mistral's parts", modeltest.Steps(modeltest.Delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}`)).Then(modeltest.Finish("stop")...),
			"reasoning hm\ntext a\nstop", ""),
		shape("no blank line between frames", modeltest.Steps(modeltest.Raw("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n")), "text ab\nstop", ""),
		shape("text after a call", modeltest.Steps(modeltest.TextDelta("a"), modeltest.ToolDelta(0, "c1", "ls", "{"), modeltest.TextDelta("b"), modeltest.ToolDelta(0, "", "", "}")).Then(modeltest.Finish("tool_calls")...),
			"text a\ncall c1 ls {}\ntext b\ntool-calls", ""),
		shape("R087 an unpaired surrogate", modeltest.Steps(
			modeltest.Delta(`{"content":"a\ud83d!"}`),
			modeltest.ToolDelta(0, "c1", "write", `{"a":"\ud83d"}`),
		).Then(modeltest.Finish("tool_calls")...), "text a\uFFFD!\ncall c1 write {\"a\":\"\\ufffd\"}\ntool-calls", ""),
	)
}
