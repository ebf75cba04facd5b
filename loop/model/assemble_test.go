package model_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"dshsh/loop/model"
)

func assemble(chunks ...model.Chunk) *model.Assembler {
	a := model.NewAssembler()
	for _, c := range chunks {
		a.Add(c)
	}
	return a
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func TestB109_Assembly(t *testing.T) {
	stop := model.NewFinish(model.FinishStop)
	for _, tc := range []struct {
		name   string
		chunks []model.Chunk
		want   []model.Block
	}{
		{"interleaved indexes stand in first-seen order", []model.Chunk{
			model.NewBlockStart(3, model.BlockReasoning),
			model.NewBlockStart(1, model.BlockText),
			model.NewTextDelta(1, "he"),
			model.NewReasoningDelta(3, "thi"),
			model.NewTextDelta(1, "llo"),
			model.NewReasoningDelta(3, "nk"),
			model.NewBlockEnd(1, model.Text("hello")),
			model.NewBlockEnd(3, model.Reasoning("think")),
			stop,
		}, []model.Block{model.Reasoning("think"), model.Text("hello")}},

		{"block-end is authoritative and later pieces are ignored", []model.Chunk{
			model.NewBlockStart(0, model.BlockText),
			model.NewTextDelta(0, "draft"),
			model.NewBlockEnd(0, model.Text("final")),
			model.NewTextDelta(0, " tail"),
			model.NewBlockEnd(0, model.Text("second end")),
			stop,
		}, []model.Block{model.Text("final")}},

		{"unclosed blocks are put together from deltas", []model.Chunk{
			model.NewBlockStart(0, model.BlockReasoning),
			model.NewReasoningDelta(0, "a"),
			model.NewTextDelta(1, "b"), // no start either
			model.NewToolCallDelta(2, "c9", "bash", `{"a":`),
			model.NewToolCallDelta(2, "", "", `1}`),
		}, []model.Block{model.Reasoning("a"), model.Text("b"), model.ToolCall("c9", "bash", `{"a":1}`)}},

		{"a missing tool id becomes call-<index>", []model.Chunk{
			model.NewToolCallDelta(4, "", "ls", `{}`),
			model.NewBlockEnd(7, model.ToolCall("", "cat", `{}`)),
		}, []model.Block{model.ToolCall("call-4", "ls", `{}`), model.ToolCall("call-7", "cat", `{}`)}},

		{"an id that comes late is taken", []model.Chunk{
			model.NewToolCallDelta(0, "", "ls", `{`),
			model.NewToolCallDelta(0, "c1", "ignored", `}`),
		}, []model.Block{model.ToolCall("c1", "ls", `{}`)}},

		{"what does not fit is ignored", []model.Chunk{
			{Type: "ping"},
			{Type: model.ChunkTextDelta, Text: "no index"},
			{Type: model.ChunkBlockEnd, Index: model.At(0)},
			model.NewBlockStart(0, model.BlockText),
			model.NewReasoningDelta(0, "wrong kind"),
			model.NewTextDelta(0, "right"),
			model.NewBlockStart(1, model.BlockImage), // never closed: cannot be made up
			stop,
			model.NewTextDelta(0, " after the finish"),
		}, []model.Block{model.Text("right")}},

		{"nothing", nil, []model.Block{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := assemble(tc.chunks...)
			equal(t, "blocks", a.Blocks(), tc.want)
			equal(t, "finish", a.Finish(), model.Finish{Kind: model.FinishStop})
			equal(t, "again", a.Blocks(), tc.want) // asking changes nothing
		})
	}
}

func TestB109_UnclosedThenMore(t *testing.T) {
	a := assemble(model.NewTextDelta(0, "one"))
	before := a.Blocks()
	a.Add(model.NewTextDelta(0, " two"))
	equal(t, "earlier result", before, []model.Block{model.Text("one")})
	equal(t, "later result", a.Blocks(), []model.Block{model.Text("one two")})
}

func TestB039_Interrupted(t *testing.T) {
	image := model.Block{Type: model.BlockImage, Attachment: json.RawMessage(`{"id":1}`)}
	for _, tc := range []struct {
		name   string
		chunks []model.Chunk
		want   []model.Block
	}{
		{"open and closed text and reasoning are kept in order", []model.Chunk{
			model.NewReasoningDelta(0, "why"),
			model.NewBlockEnd(0, model.Reasoning("why")),
			model.NewTextDelta(1, "par"),
			model.NewTextDelta(1, "tial"),
		}, []model.Block{model.Reasoning("why"), model.Text("partial")}},
		{"blank ones are dropped", []model.Chunk{
			model.NewTextDelta(0, " \n\t"),
			model.NewBlockEnd(1, model.Reasoning("\u00a0")),
			model.NewBlockStart(2, model.BlockText),
		}, nil},
		{"tool calls are dropped, finished or not", []model.Chunk{
			model.NewTextDelta(0, "let me see"),
			model.NewBlockEnd(1, model.ToolCall("c1", "ls", "{}")),
			model.NewToolCallDelta(2, "c2", "ls", "{"),
		}, []model.Block{model.Text("let me see")}},
		{"unknown open blocks are dropped, closed ones kept", []model.Chunk{
			model.NewBlockStart(0, model.BlockImage),
			model.NewBlockEnd(1, image),
		}, []model.Block{image}},
		{"nothing", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			equal(t, "kept", assemble(tc.chunks...).Interrupted(), tc.want)
		})
	}
}

func TestB110_UsageAndEmptyCompletion(t *testing.T) {
	a := assemble(model.NewFinish(model.FinishStop))
	equal(t, "blocks", a.Blocks(), []model.Block{})
	if a.Usage() != nil {
		t.Errorf("usage without a usage chunk: %+v", a.Usage())
	}
	a = assemble(
		model.NewUsage(model.Usage{InputTokens: 1}),
		model.NewUsage(model.Usage{InputTokens: 5, OutputTokens: 7}),
		model.NewTextDelta(0, "x"),
	)
	equal(t, "usage", a.Usage(), &model.Usage{InputTokens: 5, OutputTokens: 7})
}

func TestB111_SourceAndReplayState(t *testing.T) {
	finish := model.NewFinish(model.FinishStop)
	finish.ReplayState = json.RawMessage(`{"k":1}`)
	got := assemble(model.NewTextDelta(0, "hi"), finish).Message("m1", model.Config{Provider: "p", Model: "m", MaxTokens: 3})
	equal(t, "message", got, model.Message{
		ID: "m1", Role: model.RoleAssistant, Content: []model.Block{model.Text("hi")},
		Source: model.Source{Kind: model.SourceModel, Provider: "p", Model: "m", ReplayState: json.RawMessage(`{"k":1}`)},
	})
}

func TestB113_MaxTokensDropsToolCalls(t *testing.T) {
	finish := model.NewFinish(model.FinishMaxTokens)
	finish.ReplayState = json.RawMessage(`{"blocks":["a","b","c"],"v":1}`)
	a := assemble(
		model.NewTextDelta(0, "text"),
		model.NewToolCallDelta(1, "c1", "write", `{"path":"x"`),
		model.NewBlockEnd(2, model.Reasoning("r")),
		model.NewUsage(model.Usage{OutputTokens: 9}),
		finish,
	)
	equal(t, "blocks", a.Blocks(), []model.Block{model.Text("text"), model.Reasoning("r")})
	equal(t, "finish", a.Finish().Kind, model.FinishMaxTokens)
	equal(t, "replay state", string(a.ReplayState()), `{"blocks":["a","c"],"v":1}`)
	equal(t, "usage", a.Usage(), &model.Usage{OutputTokens: 9})

	only := assemble(model.NewBlockEnd(0, model.ToolCall("c", "n", "{}")), model.NewFinish(model.FinishMaxTokens))
	equal(t, "only a call", only.Blocks(), []model.Block{})
}

func TestPruneReplay(t *testing.T) {
	for _, tc := range []struct {
		state string
		kept  []bool
		want  string
	}{
		{`{"x":1}`, []bool{true}, `{"x":1}`},
		{`"opaque"`, nil, `"opaque"`},
		{`"opaque"`, []bool{true, false}, ``},
		{`{"blocks":[1]}`, []bool{true, false}, ``}, // not one entry a block
		{`{"blocks":[1,null]}`, []bool{false, true}, `{"blocks":[null]}`},
		{``, []bool{false}, ``},
	} {
		if got := model.PruneReplay(json.RawMessage(tc.state), tc.kept); string(got) != tc.want {
			t.Errorf("PruneReplay(%s, %v) = %s, want %s", tc.state, tc.kept, got, tc.want)
		}
	}
}

// TestChunk_JSON pins the log's vocabulary.
func TestChunk_JSON(t *testing.T) {
	ms := int64(1500)
	for _, tc := range []struct {
		chunk model.Chunk
		want  string
	}{
		{model.NewBlockStart(0, model.BlockText), `{"type":"block-start","index":0,"blockType":"text"}`},
		{model.NewTextDelta(20, "a"), `{"type":"text-delta","index":20,"text":"a"}`},
		{model.NewToolCallDelta(1, "c", "n", "{"), `{"type":"tool-call-delta","index":1,"id":"c","name":"n","argumentsDelta":"{"}`},
		{model.NewBlockEnd(0, model.Text("a")), `{"type":"block-end","index":0,"block":{"type":"text","text":"a"}}`},
		{model.NewUsage(model.Usage{InputTokens: 1}), `{"type":"usage","usage":{"inputTokens":1,"outputTokens":0}}`},
		{model.NewFinish(model.FinishStop), `{"type":"finish","reason":{"kind":"stop"}}`},
		{
			model.NewFailureFinish(&model.Failure{Message: "slow down", Code: model.CodeRateLimit, Status: 429, ProviderRetryAfterMs: &ms}),
			`{"type":"finish","reason":{"kind":"error","failure":{"message":"slow down","code":"RATE_LIMIT","status":429,"providerRetryAfterMs":1500}}}`,
		},
		{model.NewFailureFinish(&model.Failure{Message: "x", Code: model.CodeAborted}), `{"type":"finish","reason":{"kind":"aborted","failure":{"message":"x","code":"ABORTED"}}}`},
	} {
		got, err := json.Marshal(tc.chunk)
		if err != nil || string(got) != tc.want {
			t.Errorf("got %s, %v\nwant %s", got, err, tc.want)
		}
	}
}

func BenchmarkAssembler_TextDelta(b *testing.B) {
	a := model.NewAssembler()
	c := model.NewTextDelta(0, "word ")
	b.ReportAllocs()
	for b.Loop() {
		a.Add(c)
	}
}
