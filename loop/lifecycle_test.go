package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/runtime"
	"dshsh/session"
)

// named are options with an id.
func (w *world) named(id string) loop.CreateOptions {
	o := w.options()
	o.Header.ID = id
	return o
}

// agent makes a further agent.
func (w *world) agent(o loop.CreateOptions) loop.Agent {
	w.t.Helper()
	var a loop.Agent
	w.do(func() {
		var err error
		if a, err = w.h.Create(o); err != nil {
			w.t.Error(err)
		}
	})
	if a == nil {
		w.t.FailNow()
	}
	return a
}

func TestB219_CreationOrder(t *testing.T) {
	w := newWorld(t, always("ok"))
	listed := func() bool { _, ok := w.h.Agent("a"); return ok }
	note := func(what string) { w.notes.note("%s %v", what, listed()) }
	o := w.named("a")
	o.Setup = func(loop.Agent) error {
		note("setup")
		// Setup may wait, and somebody else may use the thread meanwhile.
		if err := w.h.Thread.Away(func() { w.do(func() { note("elsewhere") }) }); err != nil {
			t.Error(err)
		}
		note("setup end")
		return nil
	}
	o.Commit = func(loop.Agent) error {
		note("commit")
		if w.h.Thread.CanWait() {
			t.Error("commit may wait")
		}
		return nil
	}
	w.do(func() {
		loop.SessionCreated.On(w.h.Host, func(loop.SessionPayload) error { note("session/created"); return nil })
		loop.AgentCreated.On(w.h.Host, func(loop.AgentPayload) error { note("agent/created"); return nil })
		loop.AgentSessionStart.On(w.h.Host, func(p loop.SessionStartPayload) error { note(p.Source); return nil })
	})
	w.a = w.agent(o)
	w.prompt("go")
	w.check(w.noted(), `
		setup false
		elsewhere false
		setup end false
		commit false
		session/created true
		agent/created true
		startup true`)
}

func TestB219_ASecondCreationOfTheSameID(t *testing.T) {
	for _, store := range []bool{false, true} {
		w := newWorld(t, always("ok"), func(c *loop.Config) {
			if store {
				withStore(t, nil)(c)
			}
		})
		o := w.named("a")
		o.Setup = func(loop.Agent) error {
			if _, err := w.h.Create(w.named("a")); !errors.Is(err, session.Exists) {
				t.Errorf("during the creation: %v", err)
			}
			return nil
		}
		a := w.agent(o)
		w.do(func() {
			if _, err := w.h.Create(w.named("a")); !errors.Is(err, session.Exists) {
				t.Errorf("afterwards: %v", err)
			}
			if err := a.Followup(msg("x")); err != nil {
				t.Errorf("the first was disturbed: %v", err)
			}
		})
	}
}

func TestB220_SessionStartSeedsContext(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines)
	w.script("f.js", `ctx.on('agent/session-start', async ({ agent }) => { await ctx.sleep(5); agent.inject('from the script'); ctx.log('start') })`)
	w.do(func() {
		loop.AgentSessionStart.On(w.h.Host, func(loop.SessionStartPayload) error { return errObserver })
		var err error
		if w.a, err = w.h.Create(w.options()); err != nil {
			t.Error(err)
		}
		_ = w.a.Followup(msg("prompt")) // claimed before the listeners have run
	})
	w.wait()
	w.prompt("again")
	if got := w.sent(1); got != "from the script|prompt" {
		t.Error(got)
	}
	if src := w.model.Requests()[0].Messages[0].Source; src.Kind != model.SourcePlugin || src.Plugin != "cli/f.js" {
		t.Errorf("%+v", src)
	}
	if w.noted() != "start" || len(w.notes.failures) != 1 {
		t.Error(w.noted(), w.notes.failures)
	}
	w.balanced()
	w.reconstruct()
}

func TestB221_AFailedCreationLeavesNothing(t *testing.T) {
	boom := errors.New("boom")
	ctx, abort := context.WithCancelCause(context.Background())
	for _, tc := range []struct {
		name   string
		adjust func(w *world, o *loop.CreateOptions)
		want   error
	}{
		{"setup fails", func(_ *world, o *loop.CreateOptions) { o.Setup = func(loop.Agent) error { return boom } }, boom},
		{"commit fails", func(_ *world, o *loop.CreateOptions) { o.Commit = func(loop.Agent) error { return boom } }, boom},
		{"aborted during setup", func(_ *world, o *loop.CreateOptions) {
			o.Ctx = ctx
			o.Setup = func(loop.Agent) error { abort(boom); return nil }
		}, boom},
		{"aborted before", func(_ *world, o *loop.CreateOptions) { o.Ctx = ctx }, boom},
		{"disposed during setup", func(_ *world, o *loop.CreateOptions) { o.Setup = func(a loop.Agent) error { return a.Dispose() } }, loop.ErrDisposed},
		{"the owner goes during setup", func(w *world, o *loop.CreateOptions) {
			owner := w.agent(w.options())
			o.Owner = owner
			o.Setup = func(loop.Agent) error { return owner.Dispose() }
		}, loop.ErrDisposed},
		{"setup leaves traces", func(w *world, o *loop.CreateOptions) {
			o.Setup = func(a loop.Agent) error {
				loop.AgentStatus.On(w.h.Host, func(loop.StatusPayload) error { t.Error("a listener is left"); return nil }, runtime.Scoped(a))
				_ = a.Inject(msg("x"))
				return boom
			}
		}, boom},
		{"woken before it fails", func(w *world, o *loop.CreateOptions) {
			o.Setup = func(a loop.Agent) error { _ = a.Followup(msg("x")); return boom }
		}, boom},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, always("ok"), withStore(t, nil))
			o := w.named("a")
			tc.adjust(w, &o)
			n := 0
			w.do(func() { n = len(w.h.Agents()) })
			w.lifecycleEvents()
			w.do(func() {
				if _, err := w.h.Create(o); !errors.Is(err, tc.want) {
					t.Errorf("got %v", err)
				}
				if len(w.h.Agents()) > n {
					t.Error("listed")
				}
			})
			if got := strings.ReplaceAll(w.noted(), "agent/disposed\nsession/disposed", ""); got != "" { // the owner's
				t.Errorf("announced: %s", got)
			}
			w.a = w.agent(w.named("a"))
			w.prompt("the id is free again")
		})
	}
}

func TestB221_TheSignalGovernsOnlyTheCreation(t *testing.T) {
	w := newWorld(t, always("ok"))
	ctx, abort := context.WithCancel(context.Background())
	o := w.options()
	o.Ctx = ctx
	w.a = w.agent(o)
	abort()
	w.prompt("go")
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
}

func TestB221_AResumeThatFailsKeepsTheSession(t *testing.T) {
	w := newWorld(t, always("ok"), withStore(t, nil))
	w.a = w.agent(w.named("a"))
	w.prompt("one")
	w.do(func() {
		if err := w.a.Dispose(); err != nil {
			t.Error(err)
		}
		o := w.options()
		o.Commit = func(loop.Agent) error { return errObserver }
		if _, _, err := w.h.Resume("a", o); !errors.Is(err, errObserver) {
			t.Error(err)
		}
		var err error
		if w.a, _, err = w.h.Resume("a", w.options()); err != nil {
			t.Fatal(err)
		}
	})
	w.prompt("two")
	if got := w.sent(2); got != "one|ok|two" {
		t.Error(got)
	}
}

func TestB223_DisposalOrder(t *testing.T) {
	w := hung(t)
	w.lifecycleEvents()
	other := w.agent(w.options())
	w.notes.logged = nil
	w.do(func() {
		loop.SessionEvent.On(w.h.Host, func(p loop.RecordPayload) error { w.notes.note("%s", p.Event.Type); return nil }, runtime.Scoped(w.a))
		loop.AgentDisposed.On(w.h.Host, func(p loop.AgentPayload) error { t.Error("a scoped listener is left"); return nil }, runtime.Scoped(w.a))
		loop.AgentStatus.On(w.h.Host, func(p loop.StatusPayload) error { w.notes.note("%s", p.Status); return nil })
		loop.AgentDisposed.On(w.h.Host, func(p loop.AgentPayload) error {
			if _, ok := w.h.Agent(w.a.ID()); ok {
				t.Error("still listed")
			}
			return nil
		})
		_ = w.a.Followup(msg("queued"))
		w.notes.logged = nil
	})
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_ = w.h.Do(context.Background(), func() { done <- w.a.Dispose() })
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	w.do(func() {
		if err := w.a.Dispose(); err != nil {
			t.Error(err)
		}
		if err := w.a.Followup(msg("x")); !errors.Is(err, loop.ErrDisposed) {
			t.Error(err)
		}
		if len(w.h.Agents()) != 1 || w.h.Agents()[0] != other {
			t.Error(w.h.Agents())
		}
	})
	w.check(w.noted(), `
		agent/inbox/spliced
		assistant/message
		step/end
		turn/end
		idle
		agent/disposed
		session/disposed`)
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/disposed")
	if n := len(w.model.Requests()); n != 1 {
		t.Errorf("%d requests: the queued prompt ran", n)
	}
}

func TestB223_DisposalFromTheRunningNotification(t *testing.T) {
	for _, lang := range []string{"go", "emit without waiting"} {
		w := newWorld(t, always("ok")).create()
		w.do(func() {
			loop.AgentStatus.On(w.h.Host, func(p loop.StatusPayload) error {
				if p.Status == loop.StatusRunning {
					return w.a.Dispose()
				}
				return nil
			})
			_ = w.a.Followup(msg("go"))
		})
		w.gone(w.a)
		w.check(w.turns(), "")
		if len(w.notes.failures) != 0 {
			t.Error(lang, w.notes.failures)
		}
	}
}

// gone waits until an agent's disposal is complete.
func (w *world) gone(a loop.Agent) {
	w.t.Helper()
	w.do(func() {
		if err := a.Dispose(); err != nil {
			w.t.Error(err)
		}
		if _, ok := w.h.Agent(a.ID()); ok {
			w.t.Error("still listed")
		}
	})
}

func TestB223_DisposalFromAListenerThatTheAgentWaitsFor(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		loop.TurnStarting.On(w.h.Host, func(loop.TurnPayload) error { return w.a.Dispose() })
		_ = w.a.Followup(msg("go"))
	})
	w.gone(w.a)
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/disposed")
}

func TestB223_DisposalDuringMaintenanceWaitsForIt(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		_ = w.a.RunMaintenance(func(ctx context.Context) error {
			w.h.Thread.Go(context.Background(), func() { _ = w.a.Dispose() })
			return w.h.Thread.Away(func() { <-ctx.Done() })
		})
	})
	w.gone(w.a)
}

func TestB223_DisposalDoesNotWaitForASessionStartListener(t *testing.T) {
	w := newWorld(t, always("ok"))
	w.do(func() {
		loop.AgentSessionStart.On(w.h.Host, func(loop.SessionStartPayload) error { return w.h.Thread.Wait(make(chan struct{})) })
	})
	w.create()
	w.do(func() { _ = w.a.Followup(msg("go")) })
	w.gone(w.a)
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/disposed")
}

func TestB224_DisposalInACreationListener(t *testing.T) {
	for _, tc := range []struct{ event, want string }{
		{"session/created", "session/created\nlater true\nsession/disposed"},
		{"agent/created", "session/created\nagent/created\nlater true\nagent/disposed\nsession/disposed"},
	} {
		w := newWorld(t, always("ok"), withStore(t, nil))
		w.lifecycleEvents()
		later := func() { _, ok := w.h.Agent("a"); w.notes.note("later %v", ok) }
		w.do(func() {
			if tc.event == "agent/created" {
				loop.AgentCreated.On(w.h.Host, func(p loop.AgentPayload) error { return p.Agent.Dispose() })
				loop.AgentCreated.On(w.h.Host, func(loop.AgentPayload) error { later(); return nil })
			} else {
				loop.SessionCreated.On(w.h.Host, func(p loop.SessionPayload) error { a, _ := w.h.Agent(p.Session.ID()); return a.Dispose() })
				loop.SessionCreated.On(w.h.Host, func(loop.SessionPayload) error { later(); return nil })
			}
			if _, err := w.h.Create(w.named("a")); !errors.Is(err, loop.ErrDisposed) {
				t.Error(err)
			}
			if _, ok := w.h.Agent("a"); ok {
				t.Error("listed")
			}
		})
		w.check(w.noted(), tc.want)
	}
}

func TestB224_ACreationListenerWakesAnotherVetoes(t *testing.T) {
	w := newWorld(t, always("ok"), withStore(t, nil))
	w.lifecycleEvents()
	w.do(func() {
		loop.AgentCreated.On(w.h.Host, func(p loop.AgentPayload) error { w.a = p.Agent; return p.Agent.Followup(msg("go")) })
		off := loop.AgentCreated.On(w.h.Host, func(loop.AgentPayload) error { return errObserver })
		if _, err := w.h.Create(w.named("a")); err != errObserver {
			t.Error(err)
		}
		off()
	})
	w.check(w.turns(), "turn/start 1\nturn/end 1 aborted/disposed")
	w.check(w.noted(), "session/created\nagent/created\nagent/disposed\nsession/disposed")
	w.agent(w.named("a"))
	w.wait()
}
