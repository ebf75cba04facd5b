package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
	"dshsh/session"
)

var errObserver = errors.New("observer broke")

// errorsSeen notes agent/error as "error TURN.STEP message".
func (w *world) errorsSeen() {
	w.do(func() {
		loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error {
			w.notes.note("error %d.%d %s", p.Turn, p.Step, runtime.Message(p.Error))
			return nil
		})
	})
}

// On turn/start, step/start and step/end an observer's throw fails the turn (DESIGN section
// 3, error path 5); on every other record it is contained. Either way the record stays and
// the other observers hear it.
func TestB178_SessionEventObservers(t *testing.T) {
	for _, tc := range []struct{ typ, turns string }{
		{loop.RecTurnStart, `turn/start 1
			turn/end 1 error UNKNOWN "observer broke"`},
		{loop.RecStepStart, `turn/start 1
			step/start 1.1
			step/end 1.1
			turn/end 1 error UNKNOWN "observer broke"`},
		{loop.RecStepEnd, `turn/start 1
			step/start 1.1
			step/end 1.1
			turn/end 1 error UNKNOWN "observer broke"`},
		{loop.RecTurnEnd, contained}, {loop.RecAssistant, contained}, {loop.RecUserMessage, contained}, {loop.RecChunk, contained},
		{loop.RecToolCall, contained2}, {loop.RecToolResult, contained2}, {loop.RecInboxSpliced, contained}, {loop.RecRequestHeader, contained},
	} {
		t.Run(tc.typ, func(t *testing.T) {
			answers := []modeltest.Answer{modeltest.Text("ok")}
			if tc.turns == contained2 {
				answers = []modeltest.Answer{modeltest.Tool("c", "echo", "{}"), modeltest.Text("ok")}
			}
			w := newWorld(t, modeltest.New(answers...), withTools(echo{})).create()
			w.errorsSeen()
			heard := 0
			w.do(func() {
				loop.SessionEvent.On(w.h.Host, func(p loop.RecordPayload) error {
					if p.Event.Type == tc.typ {
						return errObserver
					}
					return nil
				})
				loop.SessionEvent.On(w.h.Host, func(p loop.RecordPayload) error {
					if p.Event.Type == tc.typ {
						heard++
					}
					return nil
				})
			})
			w.prompt("go")
			w.check(w.skeleton("agent/inbox", "user", "assistant", "tool"), tc.turns)
			if heard != w.logged(tc.typ) || heard == 0 {
				t.Errorf("the later observer heard %d of %d", heard, w.logged(tc.typ))
			}
			if strings.Contains(tc.turns, "error") {
				if len(w.notes.logged) != 1 {
					t.Errorf("agent/error: %v", w.notes.logged)
				}
			} else if len(w.notes.logged) != 0 || len(w.notes.failures) != heard {
				t.Errorf("agent/error %v, %d contained failures of %d", w.notes.logged, len(w.notes.failures), heard)
			}
			w.balanced()
		})
	}
}

const (
	contained = `turn/start 1
			step/start 1.1
			step/end 1.1
			turn/end 1 completed`
	contained2 = `turn/start 1
			step/start 1.1
			step/end 1.1
			step/start 1.2
			step/end 1.2
			turn/end 1 completed`
)

// balanced checks that the whole log is one that the validator accepts, with no turn open.
func (w *world) balanced() {
	w.t.Helper()
	v := loop.NewValidator()
	for _, r := range w.records() {
		if err := v.Check(r); err != nil {
			w.t.Errorf("record %d (%s): %v", r.Seq, r.Type, err)
		}
		v.Commit(r)
	}
	if !v.(session.Boundary).Closed() || len(v.Closers()) != 0 {
		w.t.Errorf("a turn is open:\n%s", strings.Join(w.types(), "\n"))
	}
}

func TestB179_LiveEmitsAreContainedPerListener(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Text("ok"), modeltest.Fail("UNKNOWN", "no")), withEngines)
	w.script("f.js", `
		for (const e of ['agent/status', 'agent/inbox/inserted', 'agent/inbox/claimed', 'agent/error', 'agent/turn-start', 'agent/turn-end'])
			ctx.on(e, async () => { await null; throw new Error('later ' + e) })`)
	heard := map[string]int{}
	w.do(func() {
		h := w.h.Host
		throwAndHear(h, loop.AgentStatus, heard)
		throwAndHear(h, loop.InboxInserted, heard)
		throwAndHear(h, loop.InboxClaimed, heard)
		throwAndHear(h, loop.AgentError, heard)
		throwAndHear(h, loop.TurnStarted, heard)
		throwAndHear(h, loop.TurnEnded, heard)
		loop.AgentSessionStart.On(h, func(loop.SessionStartPayload) error { return errObserver })
		loop.AgentSessionStart.On(h, func(loop.SessionStartPayload) error { heard["agent/session-start"]++; return nil })
	})
	w.create()
	w.prompt("a")
	w.prompt("b")
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed\nturn/start 2\nturn/end 2 error UNKNOWN \"no\"")
	for event, n := range map[string]int{"agent/status": 4, "agent/inbox/inserted": 2, "agent/inbox/claimed": 2, "agent/error": 1,
		"agent/turn-start": 2, "agent/turn-end": 2, "agent/session-start": 1} {
		if heard[event] != n {
			t.Errorf("%s: the later listener heard %d, want %d", event, heard[event], n)
		}
		thrown, later := 0, 0
		for _, f := range w.notes.failures {
			switch {
			case f.Event == nil || f.Event.Name != event:
			case errors.Is(f.Err, errObserver):
				thrown++
			case runtime.Message(f.Err) == "later "+event:
				later++
			}
		}
		if thrown != n || later != n && event != "agent/session-start" {
			t.Errorf("%s: %d throws and %d rejections were reported, want %d", event, thrown, later, n)
		}
	}
}

func throwAndHear[P any](h *runtime.Host, e runtime.Emit[P], heard map[string]int) {
	e.On(h, func(P) error { return errObserver })
	e.On(h, func(P) error { heard[e.Name]++; return nil })
}

func TestB180_AThrowInACreationNotificationVetoes(t *testing.T) {
	for _, tc := range []struct{ event, disposed string }{
		{"session/created", "session/created\nsession/disposed"},
		{"agent/created", "session/created\nagent/created\nagent/disposed\nsession/disposed"},
	} {
		t.Run(tc.event, func(t *testing.T) {
			w := newWorld(t, always("ok"), withStore(t, nil))
			w.lifecycleEvents()
			var off func()
			w.do(func() {
				if tc.event == "agent/created" {
					off = loop.AgentCreated.On(w.h.Host, func(loop.AgentPayload) error { return errObserver })
				} else {
					off = loop.SessionCreated.On(w.h.Host, func(loop.SessionPayload) error { return errObserver })
				}
				o := w.options()
				o.Header.ID = "vetoed"
				if _, err := w.h.Create(o); err != errObserver {
					t.Errorf("got %v", err)
				}
				if _, ok := w.h.Agent("vetoed"); ok || len(w.h.Agents()) != 0 {
					t.Error("it is listed")
				}
				w.check(w.noted(), tc.disposed)
				off()
				if _, err := w.h.Create(o); err != nil {
					t.Errorf("the id is not free: %v", err)
				}
			})
		})
	}
	t.Run("a rejection is contained", func(t *testing.T) {
		w := newWorld(t, always("ok"), withEngines)
		w.script("f.js", `ctx.on('agent/created', async () => { await null; throw new Error('later') })`)
		w.create()
		w.prompt("go")
		if len(w.notes.failures) != 1 || runtime.Message(w.notes.failures[0].Err) != "later" {
			t.Error(w.notes.failures)
		}
	})
	t.Run("a script's throw", func(t *testing.T) {
		w := newWorld(t, always("ok"), withEngines)
		w.script("f.lua", `ctx.on('agent/created', function() error('not here') end)`)
		w.do(func() {
			_, err := w.h.Create(w.options())
			if err == nil || !strings.HasSuffix(err.Error(), "f.lua:1: agent/created: not here") || len(w.h.Agents()) != 0 {
				t.Error(err)
			}
		})
	})
}

// lifecycleEvents notes the events of creation and disposal.
func (w *world) lifecycleEvents() {
	w.do(func() {
		h := w.h.Host
		loop.SessionCreated.On(h, func(loop.SessionPayload) error { w.notes.note("session/created"); return nil })
		loop.AgentCreated.On(h, func(loop.AgentPayload) error { w.notes.note("agent/created"); return nil })
		loop.AgentDisposed.On(h, func(loop.AgentPayload) error { w.notes.note("agent/disposed"); return nil })
		loop.SessionDisposed.On(h, func(loop.SessionPayload) error { w.notes.note("session/disposed"); return nil })
	})
}

func (w *world) options() loop.CreateOptions {
	return loop.CreateOptions{Options: loop.Options{Provider: w.model.Name(), Model: "m"}}
}

func TestB181_AVetoedAppendChangesNothing(t *testing.T) {
	w := vetoed(t, always("ok"), once(loop.RecInboxSpliced))
	w.inboxEvents()
	w.do(func() {
		if err := w.a.Inject(msg("a")); !errors.Is(err, errVeto) || !errors.Is(err, session.Refused) {
			t.Error(err)
		}
		if len(w.records()) != 0 || w.a.Inbox().HasPending() || w.noted() != "" {
			t.Error("something has changed")
		}
		if err := w.a.Inject(msg("b")); err != nil || w.records()[0].Seq != 0 {
			t.Error(err, "or another seq")
		}
	})
}

func TestB182_AVetoedTurnStartLeavesTheInputPending(t *testing.T) {
	w := vetoed(t, always("ok"), nth(loop.RecTurnStart, 2))
	w.errorsSeen()
	w.statuses()
	w.prompt("first")
	w.notes.logged = nil
	w.prompt("a")
	w.do(func() {
		if got := texts(w.a.Inbox().NextTurn()); got != "a" || w.a.Status() != loop.StatusIdle {
			t.Errorf("pending %s, %s", got, w.a.Status())
		}
	})
	if len(w.notes.logged) != 3 || w.notes.logged[0] != "running" || !strings.HasPrefix(w.notes.logged[1], "error 1.0 ") || w.notes.logged[2] != "idle" {
		t.Error(w.noted())
	}
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
	w.prompt("b")
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed\nturn/start 2\nturn/end 2 completed\nturn/start 3\nturn/end 3 completed")
	if got := w.sent(2); got != "first|ok|a" {
		t.Error(got)
	}
}

// nth refuses the n-th record of a type.
func nth(typ string, n int) func(session.Record) error {
	return func(r session.Record) error {
		if r.Type == typ {
			if n--; n == 0 {
				return errVeto
			}
		}
		return nil
	}
}

func TestB183_AVetoedStepStartLosesTheClaim(t *testing.T) {
	w := vetoed(t, always("ok"), once(loop.RecStepStart))
	w.errorsSeen()
	w.prompt("lost")
	if got := w.skeleton(); !strings.HasPrefix(got, "agent/inbox/spliced\nturn/start 1\nagent/inbox/spliced\nturn/end 1 error UNKNOWN") || strings.Count(got, "\n") != 3 {
		t.Error(got)
	}
	if !strings.HasPrefix(w.noted(), "error 1.0 ") || len(w.notes.logged) != 1 {
		t.Error(w.noted())
	}
	w.prompt("later")
	if got := w.sent(1); got != "later" {
		t.Error(got)
	}
	w.balanced()
}

func TestB185_AVetoedTurnEnd(t *testing.T) {
	w := vetoed(t, always("ok"), once(loop.RecTurnEnd))
	w.errorsSeen()
	w.statuses()
	w.prompt("go")
	if got := w.skeleton("agent/inbox", "user", "assistant"); got != "turn/start 1\nstep/start 1.1\nstep/end 1.1" {
		t.Error(got)
	}
	if n := w.notes.logged; len(n) != 3 || n[0] != "running" || !strings.HasPrefix(n[1], "error 1.1 ") || n[2] != "idle" {
		t.Error(n)
	}
	// It is not retried, but the next turn closes what was left open, as a resume would.
	w.prompt("again")
	w.check(w.skeleton("agent/inbox", "user", "assistant"), `
		turn/start 1
		step/start 1.1
		step/end 1.1
		turn/end 1 interrupted
		turn/start 2
		step/start 2.1
		step/end 2.1
		turn/end 2 completed`)
	w.balanced()
	if got := w.sent(2); got != "go|ok|again" {
		t.Error(got)
	}
}

func TestB185_ALogThatTakesNothingForAWhile(t *testing.T) {
	full := false
	refuse := func(r session.Record) error {
		if full {
			return errVeto
		}
		return nil
	}
	w := vetoed(t, modeltest.New(modeltest.Tool("c1", "echo", "{}"), modeltest.Text("ok")), refuse, withTools(echo{body: func(context.Context, *execT) { full = true }}))
	w.errorsSeen()
	w.prompt("go") // the result, step/end and turn/end fail
	if n := w.notes.logged; len(n) != 2 || !strings.HasPrefix(n[0], "error 1.1 ") || !strings.HasPrefix(n[1], "error 1.1 ") {
		t.Error(n)
	}
	full = false
	w.prompt("again")
	w.balanced()
	w.validRequests()
	if got := strings.Join(w.results(), "\n"); !strings.HasPrefix(got, "c1 TOOL_OUTCOME_UNKNOWN ") {
		t.Error(got)
	}
	w.check(w.turns(), "turn/start 1\nturn/end 1 interrupted\nturn/start 2\nturn/end 2 completed")
}

// validRequests checks that every model request is one that a provider takes: each tool
// call has its result right after the message that asked for it, and each result its call.
func (w *world) validRequests() {
	w.t.Helper()
	for i, r := range w.model.Requests() {
		if err := validRequest(r); err != nil {
			w.t.Errorf("request %d: %v", i+1, err)
		}
	}
}

func validRequest(r *model.Request) error {
	open := map[string]bool{}
	for i, m := range r.Messages {
		if err := m.Validate(); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if m.Source.Kind == model.SourceTool {
			if !open[m.Source.CallID] {
				return fmt.Errorf("message %d answers %q, which nobody asked for", i, m.Source.CallID)
			}
			delete(open, m.Source.CallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("message %d comes before the results of %v", i, open)
		}
		for _, b := range m.ToolCalls() {
			open[b.ID] = true
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("no results of %v", open)
	}
	return nil
}

func TestB186_CoordinatesOfAgentError(t *testing.T) {
	fail := errors.New("no")
	for _, tc := range []struct {
		name    string
		arrange func(w *world)
		want    string
	}{
		{"before the first step", func(w *world) {
			loop.TurnStarting.On(w.h.Host, func(loop.TurnPayload) error { return fail })
		}, "error 1.0 no\nturn/end"},
		{"in the first step", func(w *world) {
			loop.AgentRequest.On(w.h.Host, func(loop.StepPayload, cfgNext) (model.Config, error) { return model.Config{}, fail })
		}, "error 1.1 no\nturn/end"},
		{"before the second step", func(w *world) {
			loop.PreStep.On(w.h.Host, func(p loop.PreStepPayload, next func(loop.PreStepPayload) (loop.StepDecision, error)) (loop.StepDecision, error) {
				if p.Step == 2 {
					return loop.StepDecision{}, fail
				}
				return next(p)
			})
		}, "error 1.1 no\nturn/end"},
		{"in the second step", func(w *world) {
			loop.AgentRequest.On(w.h.Host, func(p loop.StepPayload, next cfgNext) (model.Config, error) {
				if p.Step == 2 {
					return model.Config{}, fail
				}
				return next(p)
			})
		}, "error 1.2 no\nturn/end"},
		{"at the end", func(w *world) {
			loop.TurnStopping.On(w.h.Host, func(loop.TurnPayload) error { return fail })
		}, "error 1.2 no\nturn/end"},
		{"cancelled", func(w *world) {
			loop.TurnStopping.On(w.h.Host, func(loop.TurnPayload) error { w.a.Cancel(byUser, loop.CancelOptions{}); return fail })
		}, "turn/end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, modeltest.New(modeltest.Tool("c", "echo", "{}"), modeltest.Text("ok")), withTools(echo{})).create()
			w.errorsSeen()
			w.onRecord(loop.RecTurnEnd, func() { w.notes.note("turn/end") })
			w.do(func() { tc.arrange(w) })
			w.prompt("go")
			w.check(w.noted(), tc.want)
			w.balanced()
		})
	}
}

func TestB187_AThrowingErrorListener(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Fail("UNKNOWN", "no"), modeltest.Text("ok"))).create()
	w.do(func() { loop.AgentError.On(w.h.Host, func(loop.ErrorPayload) error { return errObserver }) })
	w.prompt("a")
	w.prompt("b")
	w.check(w.turns(), "turn/start 1\nturn/end 1 error UNKNOWN \"no\"\nturn/start 2\nturn/end 2 completed")
}

// A session/event listener that throws where that is contained is recorded as any other,
// and the others hear of it; that it throws at the record too is not.
func TestB178_ContainedThrowsOfSessionListenersAreRecorded(t *testing.T) {
	inBoth(t, `ctx.on('session/event', ({ event }) => { if (event.type === 'user/message' || event.type === 'hook/error') throw new Error('no ' + event.type); });`,
		`ctx.on('session/event', function(e) if e.event.type == 'user/message' or e.event.type == 'hook/error' then error('no ' .. e.event.type) end end)`,
		func(t *testing.T, file, code string) {
			w := newWorld(t, always("ok"), withEngines)
			w.script(file, code)
			w.create().prompt("hi")
			var got []string
			for _, r := range w.records() {
				if d, ok := decoded[loop.HookError](r, loop.RecHookError); ok {
					got = append(got, fmt.Sprintf("%s %s:%d %s", d.Event, d.Script, d.Line, d.Message))
				}
			}
			w.check(strings.Join(got, "\n"), "session/event "+"cli/"+file+":1 no user/message")
		})
}
