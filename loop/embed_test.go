package loop_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

func TestAsk(t *testing.T) {
	ask := func(w *world, text string) (string, error) { return w.h.Ask(context.Background(), w.a, text) }
	w := newWorld(t, modeltest.New(modeltest.Tool("c", "echo", "{}"), modeltest.Text("done"), modeltest.Truncated("cut"), modeltest.Fail("SERVER", "down"), modeltest.Hang("partial")),
		withTools(echo{})).create()
	if got, err := ask(w, "go"); got != "done" || err != nil {
		t.Error(got, err)
	}
	if got, err := ask(w, "go"); got != "cut" || err != loop.ErrMaxTokens {
		t.Error(got, err)
	}
	var f *model.Failure
	if got, err := ask(w, "go"); got != "" || !errors.As(err, &f) || f.Code != "SERVER" {
		t.Error(got, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	go func() {
		w.streaming("partial")
		cancel(why)
	}()
	if _, err := w.h.Ask(ctx, w.a, "go"); err != why {
		t.Error(err)
	}
	if !strings.HasSuffix(w.turns(), "turn/end 4 aborted/parent") {
		t.Error(w.turns())
	}
	off := w.onPreStep(func(loop.PreStepPayload) (loop.StepDecision, error) { return loop.StepDecision{Kind: "reject"}, nil })
	if _, err := ask(w, "go"); err != loop.ErrBlocked {
		t.Error(err)
	}
	w.do(off)
	w.do(func() {
		loop.TurnStarting.On(w.h.Host, func(loop.TurnPayload) error { w.a.Cancel(byUser, loop.CancelOptions{}); return nil })
	})
	var cause *loop.Cause
	if _, err := ask(w, "go"); !errors.As(err, &cause) || cause.Kind != loop.CauseUser {
		t.Error(err)
	}
	w.gone(w.a)
	if _, err := ask(w, "go"); !errors.Is(err, loop.ErrDisposed) {
		t.Error(err)
	}
}

func TestScript_ReplacesOneOfItsName(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines).create()
	put := func(file, code string) {
		t.Helper()
		w.do(func() {
			if err := w.h.Script(file, code); err != nil {
				t.Error(err)
			}
		})
	}
	put("b.js", `ctx.on('agent/turn-start', () => { ctx.log('b1') })`)
	put("a.lua", `ctx.on('agent/turn-start', function() ctx.log('a') end)`)
	put("b.js", `ctx.on('agent/turn-start', () => { ctx.log('b2') })`)
	w.prompt("go")
	w.check(w.noted(), "a\nb2")
	w.do(func() {
		err := w.h.Script("b.js", "\nnope(")
		if err == nil || !strings.Contains(err.Error(), "b.js:") {
			t.Error(err)
		}
		if err := w.h.Script("c.py", ""); err == nil {
			t.Error("a language that there is no engine for")
		}
		if n := len(w.h.Current().Instances); n != 2 {
			t.Errorf("%d scripts", n)
		}
	})
}

func TestNewReply_AGoListenerAnswersForTheModel(t *testing.T) {
	w := newWorld(t, modeltest.New()).create()
	w.do(func() {
		loop.LLMStream.On(w.h.Host, func(p loop.StreamPayload, _ func(loop.StreamPayload) (*loop.Reply, error)) (*loop.Reply, error) {
			return loop.NewReply(func(context.Context) (model.Stream, error) {
				return &chunks{[]model.Chunk{model.NewTextDelta(0, "canned"), model.NewFinish(model.FinishStop)}}, nil
			}), nil
		})
	})
	if got, err := w.h.Ask(context.Background(), w.a, "go"); got != "canned" || err != nil || len(w.model.Requests()) != 0 {
		t.Error(got, err)
	}
}

// chunks is a stream of what it holds.
type chunks struct{ left []model.Chunk }

func (s *chunks) Next() (model.Chunk, error) {
	if len(s.left) == 0 {
		return model.Chunk{}, io.EOF
	}
	c := s.left[0]
	s.left = s.left[1:]
	return c, nil
}

func (s *chunks) Close() error { return nil }

func TestOpenStore_HoldsLogsToTheLoopsRules(t *testing.T) {
	store, err := loop.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, always("ok"), func(c *loop.Config) { c.Store = store }).create()
	w.prompt("go")
	if rep, err := store.Check(w.a.ID()); err != nil || rep.Damaged() {
		t.Error(rep, err)
	}
}
