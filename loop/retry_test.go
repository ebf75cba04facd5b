package loop_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

type recNext = func(loop.RequestErrorPayload) (loop.Recovery, error)

func (w *world) onFailure(fn func(p loop.RequestErrorPayload, next recNext) (loop.Recovery, error)) {
	w.do(func() { loop.RequestError.On(w.h.Host, fn) })
}

func TestB117_B118_UnhandledFailure(t *testing.T) {
	for name, a := range map[string]modeltest.Answer{
		"in band": modeltest.Fail("SERVER", "broken"),
		"thrown":  modeltest.Refuse(&model.Failure{Code: "SERVER", Message: "broken"}),
		"midway":  modeltest.Play(modeltest.SendText(0, "par"), modeltest.Break(&model.Failure{Code: "SERVER", Message: "broken"})),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, modeltest.New(a)).create()
			w.do(func() {
				loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error {
					var f *model.Failure
					if !errors.As(p.Error, &f) || f.Code != "SERVER" {
						t.Error(p.Error)
					}
					w.notes.note("error %d.%d", p.Turn, p.Step)
					return nil
				})
				_ = w.a.Followup(msg("a"))
				_ = w.a.Followup(msg("b"))
			})
			w.wait()
			w.check(w.skeleton("agent/inbox", "user"), "turn/start 1\nstep/start 1.1\nstep/end 1.1\nturn/end 1 error SERVER \"broken\"")
			w.check(w.noted(), "error 1.1")
			var last model.Chunk
			for _, r := range w.records() {
				if d, ok := decoded[loop.ChunkRecord](r, loop.RecChunk); ok {
					last = d.Chunk
				}
			}
			if last.Type != model.ChunkFinish || last.Reason.Kind != model.FinishError {
				t.Errorf("the failure is not in band: %+v", last)
			}
		})
	}
}

func TestB119_AFinishAbortedWithoutOurCancelIsAnError(t *testing.T) {
	fin := model.Chunk{Type: model.ChunkFinish, Reason: &model.Finish{Kind: model.FinishAborted, Failure: &model.Failure{Code: model.CodeAborted, Message: "gone"}}}
	w := newWorld(t, modeltest.New(modeltest.Reply(fin))).create()
	w.prompt("hi")
	w.check(w.turns(), "turn/start 1\nturn/end 1 error ABORTED \"gone\"")
}

func TestB120_B121_B122_RetryInsideTheStep(t *testing.T) {
	half := modeltest.Play(modeltest.SendText(0, "half"), modeltest.Break(&model.Failure{Code: "SERVER", Message: "broken"}))
	w := newWorld(t, modeltest.New(half, modeltest.Fail("SERVER", "broken"), modeltest.Text("good"))).create()
	requests := 0
	w.onRequest(func(p loop.StepPayload, next cfgNext) (model.Config, error) { requests++; return next(p) })
	w.onFailure(func(p loop.RequestErrorPayload, next recNext) (loop.Recovery, error) {
		open := w.logged(loop.RecStepStart) - w.logged(loop.RecStepEnd)
		w.notes.note("%d.%d %s %s open %d", p.Turn, p.Step, p.Provider, p.Failure.Code, open)
		return loop.Recovery{Kind: "retry"}, nil
	})
	w.prompt("hi")
	w.check(w.noted(), "1.1 fake SERVER open 1\n1.1 fake SERVER open 1")
	w.check(w.skeleton("agent/inbox", "user", "llm", "hook"), "turn/start 1\nstep/start 1.1\nassistant/message\nstep/end 1.1\nturn/end 1 completed")
	if requests != 3 || len(w.model.Requests()) != 3 {
		t.Errorf("%d agent/request, %d requests", requests, len(w.model.Requests()))
	}
	for _, r := range w.records() {
		if d, ok := decoded[loop.AssistantMessage](r, loop.RecAssistant); ok {
			if model.PlainText(d.Message.Content) != "good" || int64(len(w.records())-2)-r.SourceEventSeqs[0] > 10 {
				t.Errorf("%s from %v", r.Data, r.SourceEventSeqs)
			}
		}
	}
}

func TestB123_NoActionIsTerminal(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Fail("SERVER", "broken"))).create()
	w.onFailure(func(p loop.RequestErrorPayload, next recNext) (loop.Recovery, error) { return loop.Recovery{}, nil })
	w.prompt("hi")
	if len(w.model.Requests()) != 1 {
		t.Error("tried again")
	}
}

func TestB124_AThrowingRecoveryListener(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Fail("SERVER", "broken"))).create()
	w.onFailure(func(loop.RequestErrorPayload, recNext) (loop.Recovery, error) {
		return loop.Recovery{}, errors.New("listener")
	})
	w.prompt("hi")
	w.check(w.turns(), "turn/start 1\nturn/end 1 error UNKNOWN \"listener\"")
}

func TestB125_CancellationBeatsRetry(t *testing.T) {
	half := modeltest.Play(modeltest.SendText(0, "half"), modeltest.Break(&model.Failure{Code: "SERVER", Message: "broken"}))
	w := newWorld(t, modeltest.New(half)).create()
	w.onFailure(func(loop.RequestErrorPayload, recNext) (loop.Recovery, error) {
		w.a.Cancel(byUser, loop.CancelOptions{})
		return loop.Recovery{Kind: "retry"}, nil
	})
	w.prompt("hi")
	w.check(w.skeleton("agent/inbox", "user", "hook"), "turn/start 1\nstep/start 1.1\nstep/end 1.1\nturn/end 1 aborted/user")
}

// coded is an error with a code.
type coded struct{ error }

func (coded) ErrorCode() string { return "BOOM" }

func TestB126_OnlyAdapterFailuresAreOffered(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.onFailure(func(loop.RequestErrorPayload, recNext) (loop.Recovery, error) {
		t.Error("offered")
		return loop.Recovery{}, nil
	})
	w.onRequest(func(loop.StepPayload, cfgNext) (model.Config, error) { return model.Config{}, coded{errors.New("no")} })
	w.prompt("hi")
	w.check(w.turns(), "turn/start 1\nturn/end 1 error BOOM \"no\"")
	w = vetoed(t, always("ok"), once(loop.RecChunk))
	w.onFailure(func(loop.RequestErrorPayload, recNext) (loop.Recovery, error) {
		t.Error("offered")
		return loop.Recovery{}, nil
	})
	w.prompt("hi")
	if !strings.Contains(w.turns(), "UNKNOWN") {
		t.Error(w.turns())
	}
}

func TestB127_ThrownValuesThatAreNoErrors(t *testing.T) {
	for file, code := range map[string]string{
		"f.js":  `ctx.on('agent/turn-starting', () => { throw 'plain' }); ctx.on('agent/error', ({ error }) => { ctx.log(error.message + ' ' + error.value) })`,
		"f.lua": `ctx.on('agent/turn-starting', function() error('plain', 0) end) ctx.on('agent/error', function(e) ctx.log(e.error.message .. ' ' .. tostring(e.error.value)) end)`,
	} {
		w := newWorld(t, always("ok"), withEngines)
		w.script(file, code)
		w.create().prompt("hi")
		w.check(w.turns(), "turn/start 1\nturn/end 1 error UNKNOWN \"plain\"")
		if !strings.HasPrefix(w.noted(), "plain") {
			t.Error(file, w.noted())
		}
	}
}

func TestB128_RetryPolicy(t *testing.T) {
	policy := func(c *loop.Config) { c.Retry = nil }
	t.Run("backs off and gives up after five", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, modeltest.New().Otherwise(modeltest.Fail("SERVER", "broken")), policy)
			w.create()
			start := time.Now()
			w.prompt("hi")
			if n := len(w.model.Requests()); n != 6 {
				t.Errorf("%d requests", n)
			}
			if took := time.Since(start); took < 13*time.Second || took > 18*time.Second {
				t.Errorf("waited %v", took)
			}
			if w.logged(loop.RecRetry) != 5 || w.logged(loop.RecRetryStarted) != 5 {
				t.Error(w.types())
			}
			w.h.Stop()
		})
	})
	t.Run("obeys the provider's wish, up to the cap", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wish, over := int64(3000), int64(11000)
			w := newWorld(t, modeltest.New(modeltest.Refuse(&model.Failure{Code: "RATE_LIMIT", Message: "slow", ProviderRetryAfterMs: &wish}),
				modeltest.Refuse(&model.Failure{Code: "RATE_LIMIT", Message: "too slow", ProviderRetryAfterMs: &over})), policy)
			w.create()
			start := time.Now()
			w.prompt("hi")
			if took := time.Since(start); took < 3*time.Second || took > 4*time.Second || len(w.model.Requests()) != 2 {
				t.Error(took, len(w.model.Requests()))
			}
			w.h.Stop()
		})
	})
	t.Run("other codes are not tried again", func(t *testing.T) {
		w := newWorld(t, modeltest.New(modeltest.Fail("INVALID_CREDENTIAL", "no")), policy).create()
		w.prompt("hi")
		if len(w.model.Requests()) != 1 {
			t.Error("tried again")
		}
	})
	t.Run("a cancel during the wait", func(t *testing.T) {
		w := newWorld(t, modeltest.New(modeltest.Fail("SERVER", "broken")), policy).create()
		w.do(func() { _ = w.a.Followup(msg("hi")) })
		w.until("waiting", func() bool { return w.logged(loop.RecRetry) == 1 })
		w.a.Cancel(byUser, loop.CancelOptions{})
		w.wait()
		if w.logged(loop.RecRetryStarted) != 0 {
			t.Error("started again")
		}
		w.check(w.turns(), "turn/start 1\nllm/retry\nturn/end 1 aborted/user")
	})
}
