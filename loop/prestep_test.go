package loop_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

type preNext = func(loop.PreStepPayload) (loop.StepDecision, error)

// preStep adds a Go listener.
func (w *world) preStep(fn func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error)) (off func()) {
	w.do(func() { off = loop.PreStep.On(w.h.Host, fn) })
	return off
}

func reject(loop.PreStepPayload, preNext) (loop.StepDecision, error) {
	return loop.StepDecision{Kind: "reject"}, nil
}

func enter(ms ...model.Message) loop.StepDecision {
	return loop.StepDecision{Kind: "enter", Messages: ms}
}

// onceOnly runs fn at the first proposal and passes the others on.
func onceOnly(fn func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error)) func(loop.PreStepPayload, preNext) (loop.StepDecision, error) {
	done := false
	return func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) {
		if done {
			return next(p)
		}
		done = true
		return fn(p, next)
	}
}

func TestB002_LiveEventOrder(t *testing.T) {
	w := newWorld(t, always("ok"), withTools()).create()
	w.do(func() {
		h := w.h.Host
		note := func(format string, args ...any) { w.notes.note(format, args...) }
		loop.SessionEvent.On(h, func(p loop.RecordPayload) error {
			if p.Event.Type != loop.RecChunk {
				note("record %s", p.Event.Type)
			}
			return nil
		})
		loop.InboxInserted.On(h, func(loop.InboxPayload) error { note("inserted"); return nil })
		loop.InboxClaimed.On(h, func(p loop.InboxPayload) error { note("claimed %d", p.Turn); return nil })
		loop.AgentStatus.On(h, func(p loop.StatusPayload) error { note("%s", p.Status); return nil })
		loop.TurnStarted.On(h, func(loop.TurnPayload) error { note("turn-start"); return nil })
		loop.TurnStarting.On(h, func(loop.TurnPayload) error { note("turn-starting"); return nil })
		loop.TurnStopping.On(h, func(loop.TurnPayload) error { note("turn-stopping"); return nil })
		loop.TurnEnded.On(h, func(loop.TurnEndPayload) error { note("turn-end"); return nil })
		loop.AssemblePrompt.On(h, func(p loop.AssemblePayload, next func(loop.AssemblePayload) (loop.Assembly, error)) (loop.Assembly, error) {
			note("assemble")
			return next(p)
		})
		loop.PreStep.On(h, func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) {
			note("pre-step %d.%d", p.Turn, p.Step)
			return next(p)
		})
		loop.AgentRequest.On(h, func(p loop.StepPayload, next func(loop.StepPayload) (model.Config, error)) (model.Config, error) {
			note("request")
			return next(p)
		})
		loop.LLMStream.On(h, func(p loop.StreamPayload, next func(loop.StreamPayload) (*loop.Reply, error)) (*loop.Reply, error) {
			note("stream")
			return next(p)
		})
		loop.TurnContinuation.On(h, func(p loop.TurnPayload, next func(loop.TurnPayload) (loop.Continuation, error)) (loop.Continuation, error) {
			note("continuation")
			return next(p)
		})
	})
	w.prompt("hi")
	w.check(w.noted(), `
		record agent/inbox/spliced
		inserted
		running
		record turn/start
		turn-start
		record agent/inbox/spliced
		claimed 1
		assemble
		pre-step 1.1
		turn-starting
		record step/start
		record user/message
		request
		record request/header
		record request/context
		stream
		record assistant/message
		record step/end
		continuation
		turn-stopping
		record turn/end
		turn-end
		idle`)
}

func TestB006_EmptyWakeOwnsATurnButNoStep(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.preStep(func(loop.PreStepPayload, preNext) (loop.StepDecision, error) { return enter(), nil })
	w.prompt("m")
	w.check(w.skeleton("hook"), "agent/inbox/spliced\nturn/start 1\nagent/inbox/spliced\nturn/end 1 completed")
}

func TestB007_AnEmptyFirstStepStopsTheDrain(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.preStep(func(loop.PreStepPayload, preNext) (loop.StepDecision, error) { return enter(), nil })
	w.do(func() { _ = w.a.Followup(msg("a")); _ = w.a.Followup(msg("b")) })
	w.wait()
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
	w.do(func() {
		if texts(w.a.Inbox().NextTurn()) != "b" {
			t.Error("b is gone")
		}
	})
}

func TestB008_OnlyLoopAddedContextSpendsNoModelCall(t *testing.T) {
	w := newWorld(t, always("ok"), withContext(func() string { return "Mode: read-only." })).create()
	w.do(func() {
		loop.AgentStatus.On(w.h.Host, func(p loop.StatusPayload) error {
			if p.Status == loop.StatusRunning {
				return w.a.Inbox().Clear()
			}
			return nil
		})
	})
	w.prompt("m")
	if n := len(w.model.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
}

func TestB009_SendDuringAModelCallJoinsTheNextTurn(t *testing.T) {
	var w *world
	w = newWorld(t, modeltest.New(modeltest.Play(modeltest.SendText(0, "one"), modeltest.Do(func() { w.do(func() { _ = w.a.Followup(msg("m2")) }) }),
		modeltest.Send(model.NewFinish(model.FinishStop))), modeltest.Text("two"))).create()
	w.statuses()
	w.prompt("m1")
	if w.sent(1) != "m1" || w.sent(2) != "m1|one|m2" {
		t.Error(w.sent(1), w.sent(2))
	}
	w.check(w.noted(), "running\nidle")
}

func TestB068_Coordinates(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", "{}"), modeltest.Text("done")), withTools(echo{})).create()
	w.preStep(func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) {
		w.notes.note("%d.%d %d", p.Turn, p.Step, len(p.Messages))
		return next(p)
	})
	w.prompt("go")
	w.check(w.noted(), "1.1 1\n1.2 0")
}

func TestB070_RejectOnTheFirstStep(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.preStep(reject)
	w.inboxEvents()
	w.do(func() {
		loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error { t.Error(p.Error); return nil })
		loop.TurnStarting.On(w.h.Host, func(loop.TurnPayload) error { t.Error("turn-starting for a rejected turn"); return nil })
	})
	w.prompt("m")
	w.check(w.skeleton("hook"), "agent/inbox/spliced\nturn/start 1\nagent/inbox/spliced\nturn/end 1 blocked")
	w.check(w.noted(), "inserted m\nclaimed m 1")
}

func TestB071_RejectStopsTheDrain(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.preStep(onceOnly(reject))
	w.do(func() { _ = w.a.Followup(msg("a")); _ = w.a.Followup(msg("b")) })
	w.wait()
	w.check(w.turns(), "turn/start 1\nturn/end 1 blocked")
	w.prompt("c")
	if w.sent(1) != "b" || w.sent(2) != "b|ok|c" {
		t.Error(w.sent(1), w.sent(2))
	}
}

func TestB072_InputStagedDuringARejectedPreStepSurvives(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.preStep(onceOnly(func(p loop.PreStepPayload, _ preNext) (loop.StepDecision, error) {
		_ = w.a.Inject(msg("c"))
		_ = w.a.Steer(msg("s"))
		return loop.StepDecision{Kind: "reject"}, nil
	}))
	w.prompt("p")
	w.do(func() {
		if texts(w.a.Inbox().NextStep()) != "c|s" {
			t.Error(texts(w.a.Inbox().NextStep()))
		}
	})
	w.check(w.turns(), "turn/start 1\nturn/end 1 blocked")
	w.prompt("q")
	if w.sent(1) != "c|s|q" {
		t.Error(w.sent(1))
	}
}

func TestB073_RejectALaterStep(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		once := false
		loop.TurnStopping.On(w.h.Host, func(loop.TurnPayload) error {
			if !once {
				once = true
				return w.a.Inject(msg("c"))
			}
			return nil
		})
	})
	w.preStep(func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) {
		if p.Step == 2 {
			return reject(p, next)
		}
		return next(p)
	})
	w.prompt("p")
	w.check(w.turns(), "turn/start 1\nturn/end 1 blocked")
	if n := len(w.model.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestB074_PassRewriteAppend(t *testing.T) {
	cases := []struct {
		name, want string
		fn         func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error)
	}{
		{"pass", "original", func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) { return next(p) }},
		{"rewrite", "rewritten", func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) {
			m := p.Messages[0]
			m.Content = []model.Block{model.Text("rewritten")}
			return enter(m), nil
		}},
		{"append", "original|more", func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) {
			m := withID("x", "more")
			m.Source = model.Source{Kind: model.SourcePlugin, Plugin: "p"}
			return enter(append(p.Messages[:1:1], m)...), nil
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, always("ok")).create()
			w.preStep(c.fn)
			w.prompt("original")
			if w.sent(1) != c.want {
				t.Error(w.sent(1))
			}
			if n := w.logged(loop.RecUserMessage); n != strings.Count(c.want, "|")+1 {
				t.Errorf("%d user messages", n)
			}
		})
	}
}

func TestB075_TheReturnedListIsAuthoritative(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.inboxEvents()
	w.preStep(onceOnly(func(p loop.PreStepPayload, _ preNext) (loop.StepDecision, error) { return enter(p.Messages[1]), nil }))
	w.do(func() { _ = w.a.Inject(msg("drop")); _ = w.a.Followup(msg("keep")) })
	w.wait()
	if w.sent(1) != "keep" || strings.Contains(w.noted(), "discarded") {
		t.Error(w.sent(1), w.noted())
	}
}

func TestB076_AnEmptyToolContinuationStillRuns(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", `{"text":"r"}`), modeltest.Text("done")), withTools(echo{})).create()
	w.prompt("go")
	if w.sent(2) != "go||r" {
		t.Error(w.sent(2))
	}
}

func TestB078_InputDuringPreStepGoesToTheFollowingStep(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.preStep(onceOnly(func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) {
		_ = w.a.Inject(msg("c"))
		_ = w.a.Steer(msg("s"))
		return next(p)
	}))
	w.prompt("p")
	if w.sent(1) != "p" || w.sent(2) != "p|ok|c|s" {
		t.Error(w.sent(1), w.sent(2))
	}
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
}

func TestB079_AThrowingListenerFailsTheTurn(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	boom := errors.New("boom")
	w.preStep(onceOnly(func(loop.PreStepPayload, preNext) (loop.StepDecision, error) { return loop.StepDecision{}, boom }))
	w.statuses()
	w.do(func() {
		loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error {
			if p.Error != boom {
				t.Error(p.Error)
			}
			w.notes.note("error %d.%d", p.Turn, p.Step)
			return nil
		})
		_ = w.a.Followup(msg("a"))
		_ = w.a.Followup(msg("b"))
	})
	w.wait()
	w.check(w.turns(), "turn/start 1\nturn/end 1 error UNKNOWN \"boom\"")
	w.check(w.noted(), "running\nerror 1.0\nidle")
	w.prompt("c")
	if w.sent(1) != "b" {
		t.Error(w.sent(1))
	}
}

func TestB080_OnlyAnAnswerSkipsTheInnerLayers(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	layer := func(name string, answer bool) func(loop.PreStepPayload, preNext) (loop.StepDecision, error) {
		return func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) {
			w.notes.note("%s", name)
			if answer {
				return enter(p.Messages...), nil
			}
			d, err := next(p)
			w.notes.note("%s out", name)
			return d, err
		}
	}
	w.preStep(layer("L1", false))
	off := w.preStep(layer("L2", true))
	w.preStep(layer("L3", false))
	w.prompt("a")
	w.check(w.noted(), "L1\nL2\nL1 out")
	w.do(off)
	w.notes.logged = nil
	w.prompt("b")
	w.check(w.noted(), "L1\nL3\nL3 out\nL1 out")
}

// withContext gives the host one provider of runtime context.
func withContext(text func() string) func(*loop.Config) {
	return func(c *loop.Config) {
		c.Contexts = append(c.Contexts, loop.ContextProvider{Name: "mode", Text: func(loop.Agent) string { return text() }})
	}
}

// contexts lists the runtime context messages in the log.
func (w *world) contexts() (out []model.Message) {
	for _, r := range w.records() {
		if m, ok := decoded[model.Message](r, loop.RecUserMessage); ok && m.Source.Plugin == loop.PromptPlugin {
			out = append(out, m)
		}
	}
	return out
}

func TestB083_FirstSnapshot(t *testing.T) {
	w := newWorld(t, always("ok"), withContext(func() string { return "Mode: read-only." })).create()
	w.prompt("hi")
	cs := w.contexts()
	if len(cs) != 1 || cs[0].Source.Form != "snapshot" || len(cs[0].Content) != 1 || fmt.Sprint(cs[0].Source.Sections) != "[{mode Mode: read-only.}]" {
		t.Fatalf("%+v", cs)
	}
	if got := w.sent(1); got != "hi|Runtime context, as of now:\n\nMode: read-only." {
		t.Errorf("%q", got)
	}
}

func TestB084_B085_B086_ChangesOfContext(t *testing.T) {
	mode := "a"
	w := newWorld(t, always("ok"), withContext(func() string { return mode })).create()
	w.prompt("1")
	w.prompt("2")
	if n := len(w.contexts()); n != 1 {
		t.Errorf("unchanged: %d snapshots", n)
	}
	mode = "b"
	w.prompt("3")
	if cs := w.contexts(); len(cs) != 2 || !strings.HasSuffix(texts(cs), "\n\nb") {
		t.Error(texts(cs))
	}
	mode = ""
	w.prompt("4")
	w.prompt("5")
	cs := w.contexts()
	if len(cs) != 3 || cs[2].Source.Form != "" || cs[2].Source.Sections != nil {
		t.Errorf("%+v", cs)
	}
	if n := w.logged(loop.RecRequestHeader); n != 1 {
		t.Errorf("%d headers", n)
	}
}

func TestB088_TheBaselineIsRestored(t *testing.T) {
	mode := withContext(func() string { return "a" })
	w := newWorld(t, always("ok"), mode).create()
	w.prompt("1")
	w2 := newWorld(t, always("ok"), mode)
	w2.reopen(w)
	w2.prompt("2")
	if n := len(w2.contexts()); n != 1 {
		t.Errorf("%d snapshots", n)
	}
}

func TestB089_ARejectedStepDoesNotMoveTheBaseline(t *testing.T) {
	w := newWorld(t, always("ok"), withContext(func() string { return "a" })).create()
	w.preStep(onceOnly(func(p loop.PreStepPayload, next preNext) (loop.StepDecision, error) {
		d, _ := next(p)
		w.notes.note("proposed %d", len(d.Messages))
		return loop.StepDecision{Kind: "reject"}, nil
	}))
	w.prompt("1")
	w.prompt("2")
	w.check(w.noted(), "proposed 2")
	if n := len(w.contexts()); n != 1 {
		t.Errorf("%d snapshots", n)
	}
}
