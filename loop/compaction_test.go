package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/session"
	"pgregory.net/rapid"
)

// blob is a tool with a long result.
type blob struct{}

func (blob) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "blob", Description: "Gives a long text.", Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (blob) Execute(context.Context, json.RawMessage, *tool.Exec) (tool.Result, error) {
	return tool.TextResult(strings.Repeat("some words of a long result ", 60)), nil
}

// summariser answers requests for a summary with text, others as the script says.
func summariser(text string, answers ...modeltest.Answer) *modeltest.Provider {
	var n atomic.Int64
	return modeltest.New().Otherwise(modeltest.Func(func(_ context.Context, req *model.Request) modeltest.Answer {
		if req.Purpose == model.PurposeSummary {
			return modeltest.Text(text)
		}
		i := int(n.Add(1)) - 1
		if i < len(answers) {
			return answers[i]
		}
		return modeltest.Text("ok")
	}))
}

// conversation says what the next request would send, a message a line.
func (w *world) conversation() string {
	var out []string
	w.do(func() {
		for _, m := range w.a.Session().Messages() {
			text := m.PlainText()
			for _, c := range m.ToolCalls() {
				text += "call " + c.ID
			}
			out = append(out, m.Role+": "+text)
		}
	})
	return strings.Join(out, "\n")
}

// sound checks the log, and that it amounts to the live conversation.
func (w *world) sound() {
	w.t.Helper()
	for _, err := range loop.Verify(w.records()) {
		w.t.Error(err)
	}
	live, _ := json.Marshal(w.a.Session().Messages())
	derived, _ := json.Marshal(loop.DeriveMessages(w.records()))
	if string(live) != string(derived) {
		w.t.Errorf("live    %s\nderived %s", live, derived)
	}
}

func (w *world) compact(instructions string) (err error) {
	w.t.Helper()
	w.do(func() { err = w.a.Compact(instructions) })
	return err
}

const summaryOfGo = "user: The earlier part of this conversation was replaced by this summary, to make room:\n\nS\n\n" +
	"The person's last message in that part, word for word:\n\n"

func TestCompactReplacesTheConversationByRecords(t *testing.T) {
	w := newWorld(t, summariser("S", modeltest.Text("one"), modeltest.Text("two")), withStore(t, nil)).create()
	w.prompt("first")
	w.prompt("second")
	var after []loop.CompactedPayload
	w.do(func() {
		loop.CompactionAfter.On(w.h.Host, func(p loop.CompactedPayload) error { after = append(after, p); return nil })
	})
	before := len(w.records())
	if err := w.compact("keep the numbers"); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, r := range w.records()[before:] {
		types = append(types, r.Type)
	}
	w.check(strings.Join(types, "\n"), "compaction/start\ncompaction/summary\nuser/message\ncompaction/end")
	start, _ := decoded[loop.CompactionStart](w.records()[before], loop.RecCompactionStart)
	sum, _ := decoded[loop.CompactionSummary](w.records()[before+1], loop.RecCompactionSummary)
	if start.Turn != nil || start.CompactionID != sum.CompactionID || !sum.LLMStreamCall || sum.Summary != "S" || sum.Usage == nil || sum.Provider != "fake" {
		t.Errorf("%+v %+v", start, sum)
	}
	if op := w.records()[before+2].SurfaceOp; !op.Replace || (loop.SeqRange{Start: op.Start, End: op.End}) != sum.ShadowedRange {
		t.Errorf("%+v, %+v", op, sum.ShadowedRange)
	}
	w.check(w.conversation(), summaryOfGo+"second")
	if ask := w.model.Last(); !strings.Contains(ask.Messages[0].PlainText(), "keep the numbers") || !strings.Contains(ask.Messages[0].PlainText(), "[Person]\nfirst") {
		t.Error(ask.Messages[0].PlainText())
	}
	if len(after) != 1 || after[0].Summary != "S" || after[0].Reason != loop.CompactCommand {
		t.Errorf("%+v", after)
	}
	w.sound()
	w.prompt("third")
	live := w.conversation()
	w.resumed()
	w.check(w.conversation(), live)
	w.sound()
	parent := w.a.ID()
	w.fork(parent, session.Last)
	w.check(w.conversation(), live)
	if err := w.compact(""); err != nil { // it works on after a fork, and takes in the first summary
		t.Fatal(err)
	}
	w.check(w.conversation(), summaryOfGo+"third")
	w.sound()
}

func TestCompactNeedsSomethingToSummarise(t *testing.T) {
	w := newWorld(t, summariser("S", modeltest.Text("one"))).create()
	if err := w.compact(""); err == nil || !strings.Contains(err.Error(), "nothing to summarise") {
		t.Error(err)
	}
	w.prompt("first")
	if err := w.compact(""); err != nil {
		t.Fatal(err)
	}
	if err := w.compact(""); err == nil || !strings.Contains(err.Error(), "nothing to summarise") {
		t.Error("a lone summary was summarised: ", err)
	}
}

func TestB063_CompactRefusesWhenBusy(t *testing.T) {
	w := hung(t)
	if err := w.compact(""); err == nil || !strings.Contains(err.Error(), "already has active work") {
		t.Error(err)
	}
	w.a.Cancel(byUser, loop.CancelOptions{})
	w.wait()
}

func TestAFailedSummaryLosesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		answer modeltest.Answer
		calls  int
		want   string
	}{
		"error": {modeltest.Fail(model.CodeInvalidCredential, "no key"), 1, "no key"},
		"empty": {modeltest.Reply(model.NewFinish(model.FinishStop)), 3, "no text"},
		"cut":   {modeltest.Truncated("half a summ"), 3, "cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			p := modeltest.New(modeltest.Text("one")).Otherwise(modeltest.Func(func(_ context.Context, req *model.Request) modeltest.Answer {
				if req.Purpose != model.PurposeSummary {
					return modeltest.Text("ok")
				}
				calls++
				return c.answer
			}))
			w := newWorld(t, p).create()
			w.prompt("first")
			before := w.conversation()
			err := w.compact("")
			if err == nil || !strings.Contains(err.Error(), c.want) || calls != c.calls {
				t.Errorf("%d calls: %v", calls, err)
			}
			last := w.records()[len(w.records())-1]
			if end, ok := decoded[loop.CompactionEnd](last, loop.RecCompactionEnd); !ok || end.Error == nil {
				t.Errorf("%s %s", last.Type, last.Data)
			}
			w.check(w.conversation(), before)
			w.sound()
			w.prompt("goes on")
		})
	}
}

func TestCancelDuringCompaction(t *testing.T) {
	p := modeltest.New(modeltest.Text("one")).Otherwise(modeltest.Hang("a part"))
	w := newWorld(t, p).create()
	w.prompt("first")
	before := w.conversation()
	done := make(chan error, 1)
	w.h.Thread.Go(context.Background(), func() { done <- w.a.Compact("") })
	w.until("compacting", func() bool { return w.logged(loop.RecCompactionStart) == 1 })
	w.a.Cancel(byUser, loop.CancelOptions{})
	if err := <-done; err == nil {
		t.Error("no error")
	}
	w.wait()
	w.check(w.conversation(), before)
	w.sound()
}

// overflowing refuses conversations of more than limit bytes, as one that counts would.
func overflowing(limit int, next func(req *model.Request) modeltest.Answer) *modeltest.Provider {
	return modeltest.New().Otherwise(modeltest.Func(func(_ context.Context, req *model.Request) modeltest.Answer {
		b, _ := json.Marshal(req.Messages)
		if len(b) > limit {
			return modeltest.Fail(model.CodeContextWindow, "too long")
		}
		return next(req)
	}))
}

func TestAnOverflowIsCompactedAndTheStepTriedAgain(t *testing.T) {
	p := overflowing(20_000, func(req *model.Request) modeltest.Answer {
		if req.Purpose == model.PurposeSummary {
			return modeltest.Text("S")
		}
		if last := req.Messages[len(req.Messages)-1].PlainText(); last == "more" {
			return modeltest.Text(strings.Repeat("words and more of them ", 300))
		}
		return modeltest.Text("ok")
	})
	w := newWorld(t, p).create()
	for range 4 {
		w.prompt("more")
	}
	if got := w.turns(); strings.Contains(got, "error") || w.logged(loop.RecCompactionSummary) == 0 {
		t.Errorf("%d compactions\n%s", w.logged(loop.RecCompactionSummary), got)
	}
	if w.logged(loop.RecStepStart) != 4 {
		t.Errorf("%d steps", w.logged(loop.RecStepStart))
	}
	w.sound()
}

func TestAnOverflowThatCannotBeShortenedFailsTheTurn(t *testing.T) {
	calls := 0
	p := modeltest.New(modeltest.Text("one")).Otherwise(modeltest.Func(func(_ context.Context, req *model.Request) modeltest.Answer {
		calls++
		return modeltest.Fail(model.CodeContextWindow, "too long")
	}))
	w := newWorld(t, p).create()
	w.prompt("first")
	w.prompt("second")
	got := w.turns()
	if !strings.Contains(got, "turn/end 2 error CONTEXT_WINDOW_EXCEEDED") || !strings.Contains(got, "/compact") || calls > 20 {
		t.Errorf("%d calls\n%s", calls, got)
	}
	w.sound()
}

func TestNothingFitsTheSummaryIsMechanical(t *testing.T) {
	p := overflowing(3_000, func(req *model.Request) modeltest.Answer {
		if req.Purpose == model.PurposeSummary {
			return modeltest.Fail(model.CodeContextWindow, "too long")
		}
		return modeltest.Text(strings.Repeat("words and more of them ", 40))
	})
	w := newWorld(t, p).create()
	for range 4 {
		w.prompt("more")
	}
	if got := w.turns(); strings.Count(got, "completed") != 4 {
		t.Error(got)
	}
	if got := w.conversation(); !strings.Contains(got, "No model could summarise it") {
		t.Error(got)
	}
	if !strings.Contains(strings.Join(w.notes.capped, "\n"), "a list of its messages stands in its place") {
		t.Error(w.notes.capped)
	}
	w.sound()
}

func TestCompactionBeforeVetoesPinsAndSummarises(t *testing.T) {
	for _, lang := range []struct{ file, veto, sum, pin string }{
		{"c.js", "ctx.on('compaction/before', () => ({ kind: 'veto' }))", "ctx.on('compaction/before', () => ({ summary: 'mine' }))",
			"ctx.on('compaction/before', ({ seqs }) => ({ pin: [seqs[0]] }))"},
		{"c.lua", "ctx.on('compaction/before', function() return { kind = 'veto' } end)", "ctx.on('compaction/before', function() return { summary = 'mine' } end)",
			"ctx.on('compaction/before', function(e) return { pin = { e.seqs[1] } } end)"},
	} {
		world := func(code string) *world {
			w := newWorld(t, summariser("S", modeltest.Text("one"), modeltest.Tool("c1", "echo", `{"text":"r"}`)), withEngines, withTools(echo{}))
			w.script(lang.file, code)
			w.create()
			w.prompt("first")
			w.prompt("second")
			return w
		}
		w := world(lang.veto)
		before := w.conversation()
		if err := w.compact(""); err == nil || !strings.Contains(err.Error(), "compaction/before") || w.logged(loop.RecCompactionStart) != 0 {
			t.Error(err)
		}
		w.check(w.conversation(), before)

		w = world(lang.sum)
		if err := w.compact(""); err != nil {
			t.Fatal(err)
		}
		w.check(w.conversation(), strings.Replace(summaryOfGo, "\n\nS\n\n", "\n\nmine\n\n", 1)+"second")
		sum, _ := decoded[loop.CompactionSummary](w.records()[len(w.records())-3], loop.RecCompactionSummary)
		if sum.LLMStreamCall {
			t.Error("a script's summary counts as the model's")
		}

		w = world(lang.pin)
		if err := w.compact(""); err != nil {
			t.Fatal(err)
		}
		w.check(w.conversation(), "user: first\n"+summaryOfGo+"second")
		w.sound()
	}
}

func TestAPinInTheMiddleKeepsCallAndResultTogether(t *testing.T) {
	w := newWorld(t, summariser("S", modeltest.Tool("c1", "echo", `{"text":"r"}`), modeltest.Text("one"), modeltest.Text("two")), withTools(echo{})).create()
	w.prompt("first")
	w.prompt("second")
	var call int64
	for _, r := range w.records() {
		if r.Type == loop.RecToolResult {
			call = r.Seq
		}
	}
	w.do(func() {
		loop.CompactionBefore.On(w.h.Host, func(_ loop.CompactionPayload, _ func(loop.CompactionPayload) (loop.Compaction, error)) (loop.Compaction, error) {
			return loop.Compaction{Pin: []int64{call}}, nil
		})
	})
	if err := w.compact(""); err != nil {
		t.Fatal(err)
	}
	w.check(w.conversation(), summaryOfGo+"second\nassistant: call c1\nuser: r\n"+
		"user: [More of the earlier messages stood here. The summary above covers them.]")
	if w.logged(loop.RecCompactionPrune) != 1 {
		t.Error(w.types())
	}
	w.sound()
}

func TestB088_RuntimeContextIsToldAgainAfterACompaction(t *testing.T) {
	w := newWorld(t, summariser("S", modeltest.Text("one")), func(c *loop.Config) {
		c.Contexts = []loop.ContextProvider{{Name: "mode", Text: func(loop.Agent) string { return "Mode: read-only." }}}
	}).create()
	w.prompt("first")
	if err := w.compact(""); err != nil {
		t.Fatal(err)
	}
	w.prompt("second")
	if got := w.conversation(); strings.Count(got, "Mode: read-only.") != 1 {
		t.Error(got)
	}
}

func TestVerifyKnowsReplacements(t *testing.T) {
	w := newWorld(t, summariser("S", modeltest.Text("one"))).create()
	w.prompt("first")
	if err := w.compact(""); err != nil {
		t.Fatal(err)
	}
	recs := append([]session.Record{}, w.records()...)
	for i, r := range recs {
		if r.SurfaceOp != nil && r.SurfaceOp.Replace {
			op := *r.SurfaceOp
			op.Start++
			recs[i].SurfaceOp = &op
		}
	}
	if problems := loop.Verify(recs); len(problems) != 1 || !strings.Contains(problems[0].Error(), "replaces") {
		t.Error(problems)
	}
}

// TestReconstructAfterRandomCompactions: whatever is compacted and pinned, the log amounts
// to the live conversation, in this agent and in one that resumes.
func TestReconstructAfterRandomCompactions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := 0
		p := modeltest.New().Otherwise(modeltest.Func(func(_ context.Context, req *model.Request) modeltest.Answer {
			if n++; req.Purpose == model.PurposeSummary {
				return modeltest.Text("S")
			}
			if n%3 == 0 {
				return modeltest.Tool(fmt.Sprint("c", n), "blob", "{}")
			}
			return modeltest.Text("ok")
		}))
		p.ModelInfo.ContextWindow = rapid.SampledFrom([]int{0, 4000}).Draw(rt, "window")
		w := newWorld(t, p, withTools(blob{})).create()
		defer w.h.Stop()
		w.do(func() {
			loop.CompactionBefore.On(w.h.Host, func(p loop.CompactionPayload, _ func(loop.CompactionPayload) (loop.Compaction, error)) (loop.Compaction, error) {
				var c loop.Compaction
				for _, s := range p.Seqs {
					if rapid.IntRange(0, 5).Draw(rt, "pin") == 0 {
						c.Pin = append(c.Pin, s)
					}
				}
				return c, nil
			})
		})
		for range rapid.IntRange(1, 12).Draw(rt, "deeds") {
			if rapid.Bool().Draw(rt, "compact") {
				_ = w.compact("")
			} else {
				w.prompt("go")
			}
		}
		w.sound()
		live := w.conversation()
		other := newWorld(t, always("ok"))
		defer other.h.Stop()
		other.reopen(w)
		other.check(other.conversation(), live)
	})
}

func TestContextUse(t *testing.T) {
	w := newWorld(t, always("ok"), withTools(echo{}), func(c *loop.Config) {
		c.Sections = []loop.PromptSection{{Name: "persona", Text: strings.Repeat("word ", 100)}}
	})
	w.model.ModelInfo.ContextWindow = 10_000
	w.create()
	use := func() (u loop.ContextUse) {
		w.do(func() {
			var err error
			if u, err = w.a.ContextUse(); err != nil {
				t.Error(err)
			}
		})
		return u
	}
	if u := use(); u.Window != 10_000 || len(u.Parts) != 2 || u.Parts[0].Name != "persona" || u.Parts[0].Tokens != 125 {
		t.Errorf("%+v", u)
	}
	w.prompt(strings.Repeat("x", 400))
	u := use()
	var tokens, fill int
	for _, p := range u.Parts {
		tokens += p.Tokens
	}
	w.do(func() { fill, _ = w.a.ContextFill() })
	if tokens != u.Tokens || fill < tokens-50 || fill > tokens+50 || u.Threshold != 10_000-1250-500 {
		t.Errorf("fill %d: %+v", fill, u)
	}
}

func TestTheEstimateFollowsTheProvidersCount(t *testing.T) {
	count := int64(0)
	p := modeltest.New().Otherwise(modeltest.Func(func(_ context.Context, req *model.Request) modeltest.Answer {
		for _, m := range req.Messages {
			count += int64(2 * model.EstimateMessage(m))
		}
		return modeltest.Reply(model.NewUsage(model.Usage{InputTokens: count}), model.NewFinish(model.FinishStop))
	}))
	w := newWorld(t, p).create()
	w.prompt(strings.Repeat("word ", 1000))
	var fill int
	w.do(func() { fill, _ = w.a.ContextFill() })
	if fill < int(count)-20 || fill > int(count)+20 {
		t.Errorf("%d, counted %d", fill, count)
	}
	other := newWorld(t, always("ok"))
	other.reopen(w)
	other.do(func() {
		if got, _ := other.a.ContextFill(); got != fill {
			t.Errorf("%d after a resume, %d before", got, fill)
		}
	})
}

func BenchmarkContextFill(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n, " turns"), func(b *testing.B) {
			h, err := loop.New(loop.Config{Providers: []model.Provider{always("ok")}})
			if err != nil {
				b.Fatal(err)
			}
			defer h.Stop()
			err = h.Do(context.Background(), func() {
				a, err := h.Create(loop.CreateOptions{Options: loop.Options{Provider: "fake", Model: "m"}})
				for range n {
					err = errors.Join(err, a.Followup(loop.UserMessage("go")), a.WhenIdle(context.Background()))
				}
				if err != nil {
					b.Error(err)
				}
				b.ResetTimer()
				for range b.N {
					a.ContextFill()
				}
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// small is a model whose window three prompts of long fill; summary answers for summaries.
func small(summary modeltest.Answer) *modeltest.Provider {
	p := modeltest.New().Otherwise(modeltest.Func(func(_ context.Context, req *model.Request) modeltest.Answer {
		if req.Purpose == model.PurposeSummary {
			return summary
		}
		return modeltest.Text("ok")
	}))
	p.ModelInfo.ContextWindow = 4000
	return p
}

var long = strings.Repeat("words and more of them ", 200)

func TestCancelDuringACompactionInATurn(t *testing.T) {
	w := newWorld(t, small(modeltest.Hang("a part"))).create()
	w.prompt(long)
	w.prompt(long)
	w.do(func() { _ = w.a.Followup(msg(long)) })
	w.until("compacting", func() bool { return w.logged(loop.RecCompactionStart) == 1 })
	w.a.Cancel(byUser, loop.CancelOptions{})
	w.wait()
	if got := w.turns(); !strings.HasSuffix(got, "turn/end 3 aborted/user") {
		t.Error(got)
	}
	if w.logged(loop.RecCompactionEnd) != 1 || w.logged(loop.RecCompactionSummary) != 0 {
		t.Error(w.types())
	}
	w.sound()
}

// A summary that fails before the window is full: the request goes out as it is, and the
// next steps do not try again at once.
func TestAFailedSummaryAheadOfTimeDoesNotStopTheTurn(t *testing.T) {
	w := newWorld(t, small(modeltest.Fail(model.CodeInvalidCredential, "no"))).create()
	for range 3 {
		w.prompt(long)
	}
	w.prompt("a short one")
	if got := w.turns(); strings.Count(got, "completed") != 4 || w.logged(loop.RecCompactionStart) != 1 {
		t.Errorf("%d compactions\n%s", w.logged(loop.RecCompactionStart), got)
	}
	w.sound()
}

func TestAVetoedCompactionAheadOfTimeDoesNotStopTheTurn(t *testing.T) {
	w := newWorld(t, small(modeltest.Text("S"))).create()
	reasons := ""
	w.do(func() {
		loop.CompactionBefore.On(w.h.Host, func(p loop.CompactionPayload, _ func(loop.CompactionPayload) (loop.Compaction, error)) (loop.Compaction, error) {
			reasons += p.Reason + " "
			return loop.Compaction{Kind: "veto"}, nil
		})
	})
	for range 3 {
		w.prompt(long)
	}
	if got := w.turns(); strings.Count(got, "completed") != 3 || reasons != "threshold " {
		t.Errorf("%q\n%s", reasons, got)
	}
}

func TestR073_WhatAReplyMustBeSentBackWithSurvivesACompaction(t *testing.T) {
	w := newWorld(t, small(modeltest.Text("S"))).create()
	w.prompt(long)
	w.prompt(long)
	w.model.Add(modeltest.Reply(model.NewBlockStart(0, model.BlockReasoning), model.NewBlockEnd(0, model.Block{Type: model.BlockReasoning, Text: "because"}),
		model.NewBlockStart(1, model.BlockToolCall), model.NewBlockEnd(1, model.ToolCall("c1", "none", "{}")),
		model.Chunk{Type: model.ChunkFinish, Reason: &model.Finish{Kind: model.FinishToolCalls}, ReplayState: json.RawMessage(`{"sig":"x"}`)}))
	w.prompt("short")
	if err := w.compact(""); err != nil {
		t.Fatal(err)
	}
	last := w.a.Session().Messages()
	for _, m := range last {
		if m.Role == model.RoleAssistant && len(m.ToolCalls()) == 1 {
			if m.Content[0].Text != "because" || string(m.Source.ReplayState) == "" {
				t.Errorf("%+v", m)
			}
			return
		}
	}
	t.Errorf("the last exchange is gone: %s", w.conversation())
}
