package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
)

var byUser = loop.Cause{Kind: loop.CauseUser}

// hung makes a world in a turn that hangs after "partial".
func hung(t *testing.T, then ...modeltest.Answer) *world {
	w := newWorld(t, modeltest.New(append([]modeltest.Answer{modeltest.Hang("partial")}, then...)...)).create()
	w.do(func() { _ = w.a.Followup(msg("go")) })
	w.streaming("partial")
	return w
}

// turns is the skeleton of turns alone.
func (w *world) turns() string {
	return w.skeleton("agent/inbox", "step", "user", "assistant", "tool", "hook")
}

func (w *world) statuses() {
	w.do(func() {
		loop.AgentStatus.On(w.h.Host, func(p loop.StatusPayload) error { w.notes.note("%s", p.Status); return nil })
	})
}

func TestB035_CancelWhileIdleIsNothing(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() { w.a.Cancel(byUser, loop.CancelOptions{}) })
	w.prompt("m")
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
}

func TestB036_CancelWhileIdleClearsParkedWork(t *testing.T) {
	for _, keep := range []bool{false, true} {
		w := newWorld(t, always("ok")).create()
		w.do(func() { _ = w.a.Inject(msg("c")) })
		w.inboxEvents()
		w.do(func() { w.a.Cancel(byUser, loop.CancelOptions{KeepInbox: keep}) })
		want := "discarded c"
		if keep {
			want = ""
		}
		w.check(w.noted(), want)
		if w.logged(loop.RecTurnStart) != 0 {
			t.Error("a turn")
		}
	}
}

func TestB037_CausesAreRecorded(t *testing.T) {
	for _, c := range []loop.Cause{byUser, {Kind: loop.CauseParent}, {Kind: loop.CauseHook, Reason: "budget"}} {
		w := hung(t)
		w.do(func() { w.a.Cancel(c, loop.CancelOptions{}) })
		w.wait()
		w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/"+c.Kind)
	}
}

func TestB039_InterruptedContent(t *testing.T) {
	chunks := func(cs ...model.Chunk) modeltest.Answer {
		return modeltest.Play(modeltest.Send(cs...), modeltest.Block())
	}
	cases := []struct {
		name   string
		answer modeltest.Answer
		want   string
	}{
		{"open text", chunks(model.NewBlockStart(0, model.BlockText), model.NewTextDelta(0, "a")), "text:a"},
		{"blank text", chunks(model.NewBlockStart(0, model.BlockText), model.NewTextDelta(0, "  ")), ""},
		{"reasoning and a tool call", chunks(
			model.NewBlockStart(0, model.BlockReasoning), model.NewReasoningDelta(0, "r"),
			model.NewBlockStart(1, model.BlockToolCall), model.NewToolCallDelta(1, "c", "echo", "{}"),
			model.NewBlockEnd(1, model.ToolCall("c", "echo", "{}"))), "reasoning:r"},
		{"only a tool call", chunks(model.NewBlockStart(0, model.BlockToolCall), model.NewToolCallDelta(0, "c", "echo", "{}")), ""},
		{"usage stays", chunks(model.NewTextDelta(0, "a"), model.NewUsage(model.Usage{InputTokens: 3, OutputTokens: 1})), "text:a usage"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, modeltest.New(c.answer)).create()
			n := 0
			w.do(func() { _ = w.a.Followup(msg("go")) })
			w.until("streamed", func() bool { n = w.logged(loop.RecChunk); return n > 0 && w.model.Stats().Hanging == 1 && w.drained() })
			w.a.Cancel(byUser, loop.CancelOptions{})
			w.wait()
			var got []string
			for _, r := range w.records() {
				if d, ok := decoded[loop.AssistantMessage](r, loop.RecAssistant); ok {
					if !d.Interrupted {
						t.Error("not marked")
					}
					for _, b := range d.Message.Content {
						got = append(got, b.Type+":"+b.Text)
					}
					if d.Usage != nil {
						got = append(got, "usage")
					}
					if len(r.SourceEventSeqs) != w.logged(loop.RecChunk) {
						t.Errorf("%d sources, %d chunks", len(r.SourceEventSeqs), w.logged(loop.RecChunk))
					}
				}
			}
			w.check(strings.Join(got, " "), c.want)
		})
	}
}

// drained says that the log has what the fake has sent: it lags by at most a moment.
func (w *world) drained() bool { w.poke(); return w.logged(loop.RecChunk) >= 2 }

func TestB040_DefaultCancelDropsEverything(t *testing.T) {
	w := hung(t)
	w.statuses()
	w.do(func() {
		_ = w.a.Followup(msg("q"))
		_ = w.a.Steer(msg("s"))
		w.a.Cancel(byUser, loop.CancelOptions{})
		n := len(w.records())
		w.check(spliceList(w.splices()[len(w.splices())-2:]).String(), "next-step@0 -1 +0 canceled\nnext-turn@0 -1 +0 canceled")
		if describe(w.records()[n-1]) != loop.RecInboxSpliced {
			t.Error("the abort went ahead of the clearing")
		}
	})
	w.wait()
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/user")
	w.check(w.noted(), "idle")
}

func TestB041_KeepInboxParks(t *testing.T) {
	w := hung(t, modeltest.Text("one"), modeltest.Text("two"))
	w.do(func() { _ = w.a.Followup(msg("q")); w.a.Cancel(byUser, loop.CancelOptions{KeepInbox: true}) })
	w.wait()
	w.do(func() {
		if texts(w.a.Inbox().NextTurn()) != "q" {
			t.Error("q is gone")
		}
	})
	w.prompt("later")
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/user\nturn/start 2\nturn/end 2 completed\nturn/start 3\nturn/end 3 completed")
	if w.sent(2) != "go|partial|q" || w.sent(3) != "go|partial|q|one|later" {
		t.Error(w.sent(2), w.sent(3))
	}
}

func TestB042_KeepInboxCannotRestoreWhatIsClaimed(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() { _ = w.a.Followup(msg("m")); w.a.Cancel(byUser, loop.CancelOptions{KeepInbox: true}) })
	w.wait()
	w.check(w.skeleton(), "agent/inbox/spliced\nturn/start 1\nagent/inbox/spliced\nturn/end 1 aborted/user")
}

func TestB043_BurstThenCancel(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.inboxEvents()
	w.do(func() {
		_ = w.a.Followup(msg("a"))
		_ = w.a.Followup(msg("b"))
		w.a.Cancel(byUser, loop.CancelOptions{})
	})
	w.wait()
	w.check(w.skeleton("agent/inbox"), "turn/start 1\nturn/end 1 aborted/user")
	w.check(w.noted(), "inserted a\nclaimed a 1\ninserted b\ndiscarded b")
}

func TestB044_WakingInputAfterTheAbortIsLatched(t *testing.T) {
	w := hung(t, modeltest.Text("ok"))
	w.do(func() { w.a.Cancel(byUser, loop.CancelOptions{KeepInbox: true}); _ = w.a.Followup(msg("b")) })
	w.wait()
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/user\nturn/start 2\nturn/end 2 completed")
}

func TestB045_TheLatchWorksWithoutKeepInbox(t *testing.T) {
	t.Run("after a cancel", func(t *testing.T) {
		w := hung(t, modeltest.Text("ok"))
		w.do(func() {
			_ = w.a.Followup(msg("old"))
			w.a.Cancel(byUser, loop.CancelOptions{})
			_ = w.a.Followup(msg("b"))
		})
		w.wait()
		w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/user\nturn/start 2\nturn/end 2 completed")
		if got := w.sent(2); got != "go|partial|b" {
			t.Error(got)
		}
	})
	t.Run("from another goroutine, then a send", func(t *testing.T) {
		w := hung(t, modeltest.Text("ok"))
		w.do(func() { _ = w.a.Followup(msg("old")) })
		w.a.Cancel(byUser, loop.CancelOptions{})
		w.do(func() { _ = w.a.Followup(msg("b")) })
		w.wait()
		if got := w.sent(2); got != "go|partial|b" {
			t.Error(got)
		}
	})
	t.Run("from the signal's listener", func(t *testing.T) {
		w := newWorld(t, modeltest.New(modeltest.Hang("partial"), modeltest.Text("ok"))).create()
		w.do(func() {
			first := true
			loop.TurnStarting.On(w.h.Host, func(p loop.TurnPayload) error {
				if first {
					first = false
					p.Signal.OnAbort(func() { _ = w.a.Followup(msg("b")) })
				}
				return nil
			})
			_ = w.a.Followup(msg("go"))
		})
		w.streaming("partial")
		w.a.Cancel(byUser, loop.CancelOptions{})
		w.wait()
		w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/user\nturn/start 2\nturn/end 2 completed")
	})
	t.Run("inside the running notification", func(t *testing.T) {
		w := newWorld(t, always("ok")).create()
		w.do(func() {
			first := true
			loop.AgentStatus.On(w.h.Host, func(p loop.StatusPayload) error {
				if p.Status == loop.StatusRunning && first {
					first = false
					w.a.Cancel(byUser, loop.CancelOptions{})
					return w.a.Followup(msg("new"))
				}
				return nil
			})
			_ = w.a.Followup(msg("old"))
		})
		w.wait()
		w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
		if w.sent(1) != "new" {
			t.Error(w.sent(1))
		}
	})
}

func TestB047_ReplayNeedsSomethingPending(t *testing.T) {
	w := hung(t)
	w.do(func() {
		w.a.Cancel(byUser, loop.CancelOptions{})
		_ = w.a.Steer(withID("s", "s"))
		_, _ = w.a.Inbox().Remove("s")
	})
	w.wait()
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/user")
}

func TestB049_FirstCauseWins(t *testing.T) {
	w := hung(t)
	var seen *loop.Cause
	w.do(func() {
		loop.TurnAborting.On(w.h.Host, func(p loop.AbortPayload) error { seen = p.Cause; return nil })
		w.a.Cancel(loop.Cause{Kind: loop.CauseParent}, loop.CancelOptions{KeepInbox: true})
		_ = w.a.Send(msg("q"), loop.NextTurn, false)
		w.a.Cancel(byUser, loop.CancelOptions{})
		if w.a.Inbox().HasPending() {
			t.Error("the second cancel did not clear")
		}
	})
	w.wait()
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/parent")
	if seen == nil || seen.Kind != loop.CauseParent {
		t.Error(seen)
	}
}

func TestB050_CancelFromTheRunningNotification(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	var off func()
	w.do(func() {
		off = loop.AgentStatus.On(w.h.Host, func(p loop.StatusPayload) error {
			w.notes.note("%s", p.Status)
			if p.Status == loop.StatusRunning {
				w.a.Cancel(byUser, loop.CancelOptions{})
			}
			return nil
		})
		loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error { w.notes.note("error"); return nil })
		_ = w.a.Followup(msg("m"))
	})
	w.wait()
	w.check(w.skeleton(), "agent/inbox/spliced\nagent/inbox/spliced")
	w.check(w.noted(), "running\nidle")
	w.do(off)
	w.prompt("later")
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
}

// onRecord calls fn at the first record of a type.
func (w *world) onRecord(typ string, fn func()) {
	w.do(func() {
		done := false
		loop.SessionEvent.On(w.h.Host, func(p loop.RecordPayload) error {
			if p.Event.Type == typ && !done {
				done = true
				fn()
			}
			return nil
		})
	})
}

func TestB051_CancelFromAStepStartObserver(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.onRecord(loop.RecStepStart, func() { w.a.Cancel(byUser, loop.CancelOptions{}) })
	w.prompt("m")
	w.check(w.skeleton("agent/inbox", "user"), "turn/start 1\nstep/start 1.1\nstep/end 1.1\nturn/end 1 aborted/user")
	if n := len(w.model.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestB052_CancelWithToolCallsPending(t *testing.T) {
	ran := 0
	w := newWorld(t, modeltest.New(modeltest.Tools(modeltest.Call{ID: "c1", Name: "echo", Arguments: "{}"}, modeltest.Call{ID: "c2", Name: "echo", Arguments: "{}"}), modeltest.Text("later")),
		withTools(echo{body: func(context.Context, *execT) { ran++ }})).create()
	w.onRecord(loop.RecAssistant, func() { w.a.Cancel(byUser, loop.CancelOptions{}) })
	w.do(func() {
		loop.ToolsResult.On(w.h.Host, func(loop.PostPayload) error { t.Error("a pipeline event"); return nil })
	})
	w.prompt("m")
	w.check(w.skeleton("agent/inbox", "user"), `
		turn/start 1
		step/start 1.1
		assistant/message
		tool/call
		tool/result
		tool/call
		tool/result
		step/end 1.1
		turn/end 1 aborted/user`)
	if got := strings.Join(w.results(), "\n"); got != "c1 ABORTED_BEFORE_DISPATCH Error: tool call aborted before dispatch\nc2 ABORTED_BEFORE_DISPATCH Error: tool call aborted before dispatch" {
		t.Error(got)
	}
	if ran != 0 {
		t.Error("a body ran")
	}
	w.prompt("again")
	if got := len(w.model.Last().Messages); got != 5 {
		t.Errorf("%d messages: %s", got, texts(w.model.Last().Messages))
	}
}

func TestB054_OneSignalPerTurn(t *testing.T) {
	w := newWorld(t, always("ok"), withTools(echo{})).create()
	seen := map[int]map[*runtime.Signal]bool{}
	see := func(turn int, s *runtime.Signal) {
		if seen[turn] == nil {
			seen[turn] = map[*runtime.Signal]bool{}
		}
		seen[turn][s] = true
	}
	w.do(func() {
		h := w.h.Host
		turn := 0
		loop.TurnStarted.On(h, func(p loop.TurnPayload) error { turn = p.Turn; return nil })
		loop.AssemblePrompt.On(h, func(p loop.AssemblePayload, next func(loop.AssemblePayload) (loop.Assembly, error)) (loop.Assembly, error) {
			see(turn, p.Signal)
			return next(p)
		})
		loop.PreStep.On(h, func(p loop.PreStepPayload, next func(loop.PreStepPayload) (loop.StepDecision, error)) (loop.StepDecision, error) {
			see(p.Turn, p.Signal)
			return next(p)
		})
		loop.AgentRequest.On(h, func(p loop.StepPayload, next func(loop.StepPayload) (model.Config, error)) (model.Config, error) {
			see(p.Turn, p.Signal)
			return next(p)
		})
		loop.TurnStopping.On(h, func(p loop.TurnPayload) error { see(p.Turn, p.Signal); return nil })
	})
	w.prompt("a")
	w.prompt("b")
	if len(seen[1]) != 1 || len(seen[2]) != 1 {
		t.Error(seen)
	}
	for s := range seen[1] {
		if seen[2][s] {
			t.Error("the signal was used twice")
		}
	}
}

func TestB055_CancelWhilePreStepIsBlockedDoesNotWaitForIt(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		loop.PreStep.On(w.h.Host, func(p loop.PreStepPayload, next func(loop.PreStepPayload) (loop.StepDecision, error)) (loop.StepDecision, error) {
			w.notes.note("in")
			err := w.h.Thread.Wait(make(chan struct{}), p.Signal.Context())
			return loop.StepDecision{Kind: "enter", Messages: p.Messages}, err
		})
		_ = w.a.Followup(msg("go"))
	})
	w.until("blocked", func() bool { w.poke(); return w.noted() == "in" })
	w.a.Cancel(byUser, loop.CancelOptions{})
	w.wait()
	w.check(w.skeleton("agent/inbox"), "turn/start 1\nturn/end 1 aborted/user")
}

func TestB056_ErrorsAfterAnAbortAreAborts(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		loop.TurnStarting.On(w.h.Host, func(p loop.TurnPayload) error {
			w.a.Cancel(byUser, loop.CancelOptions{})
			return errors.New("after the abort")
		})
		loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error { t.Error(p.Error); return nil })
	})
	w.prompt("go")
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/user")
}

func TestB057_IdleListenerReplacement(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Text("one")).Otherwise(modeltest.Hang("partial"))).create()
	w.do(func() {
		first := true
		loop.AgentStatus.On(w.h.Host, func(p loop.StatusPayload) error {
			if p.Status == loop.StatusIdle && first {
				first = false
				_ = w.a.Followup(msg("r"))
				w.a.Cancel(byUser, loop.CancelOptions{})
			}
			return nil
		})
	})
	w.prompt("go")
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed\nturn/start 2\nturn/end 2 aborted/user")
}

func TestB058_CancelInsideASessionEventListenerAborts(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		_ = w.a.Send(msg("parked"), loop.NextTurn, false)
		_ = w.a.Send(msg("more"), loop.NextTurn, false)
	})
	w.onRecord(loop.RecStepStart, func() { w.a.Cancel(byUser, loop.CancelOptions{}) })
	w.do(func() { _ = w.a.Steer(msg("go")) })
	w.wait()
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/user")
	w.do(func() {
		if w.a.Inbox().HasPending() {
			t.Error("the inbox was not cleared")
		}
	})
	for _, f := range w.notes.failures {
		t.Error(f.Err)
	}
}

func TestB060_WhenIdleFollowsReplacementWork(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		n := 0
		loop.AgentStatus.On(w.h.Host, func(p loop.StatusPayload) error {
			if n++; p.Status == loop.StatusIdle && n < 5 {
				return w.a.Followup(msg("again"))
			}
			return nil
		})
	})
	w.prompt("go")
	if n := w.logged(loop.RecTurnEnd); n != 3 {
		t.Errorf("%d turns were over", n)
	}
	w2 := vetoed(t, always("ok"), once(loop.RecTurnStart))
	w2.prompt("a run that fails before its turn opens")
}

func TestB061_WhenIdleIsNotPerMessage(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() { _ = w.a.Followup(msg("a")); _ = w.a.Followup(msg("b")) })
	w.wait()
	if n := w.logged(loop.RecTurnEnd); n != 2 {
		t.Errorf("%d turns", n)
	}
}

func TestNoLostWake(t *testing.T) {
	t.Run("from agent/turn-end", func(t *testing.T) {
		w := newWorld(t, always("ok")).create()
		w.do(func() {
			n := 0
			loop.TurnEnded.On(w.h.Host, func(loop.TurnEndPayload) error {
				if n++; n == 1 {
					return w.a.Steer(msg("more"))
				}
				return nil
			})
		})
		w.prompt("go")
		w.check(w.turns(), "turn/start 1\nturn/end 1 completed\nturn/start 2\nturn/end 2 completed")
	})
	t.Run("from session/event on turn/end, after a failed turn", func(t *testing.T) {
		w := newWorld(t, modeltest.New(modeltest.Fail("UNKNOWN", "no"), modeltest.Text("ok"))).create()
		w.onRecord(loop.RecTurnEnd, func() { _ = w.a.Followup(msg("more")) })
		w.prompt("go")
		w.check(w.turns(), "turn/start 1\nturn/end 1 error UNKNOWN \"no\"\nturn/start 2\nturn/end 2 completed")
	})
	t.Run("from outside while the turn's end is synced", func(t *testing.T) {
		fs := &slowSync{FS: sessionOS(), entered: make(chan struct{}), release: make(chan struct{})}
		w := newWorld(t, always("ok"), withStore(t, fs)).create()
		w.do(func() { _ = w.a.Followup(msg("go")) })
		<-fs.entered
		w.do(func() { _ = w.a.Steer(msg("during the sync")) })
		close(fs.release)
		w.wait()
		w.check(w.turns(), "turn/start 1\nturn/end 1 completed\nturn/start 2\nturn/end 2 completed")
	})
}

func TestCancelNeverQueuesBehindAScript(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Hang("partial"))).create()
	w.do(func() { _ = w.a.Followup(msg("go")) })
	w.streaming("partial")
	inside, release := make(chan struct{}), make(chan struct{})
	go func() { _ = w.h.Do(context.Background(), func() { close(inside); <-release }) }()
	<-inside
	w.a.Cancel(byUser, loop.CancelOptions{}) // the thread is held: it must return, and the socket must close
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.model.Wait(ctx, func(s modeltest.Stats) bool { return s.Open == 0 }); err != nil {
		t.Error("the stream went on: ", err)
	}
	close(release)
	w.wait()
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/user")
}
