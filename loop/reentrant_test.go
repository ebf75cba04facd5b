package loop_test

import (
	"context"
	"errors"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
)

// Listeners that act on the agent while it tells them of something.

func TestB040_AListenerThatQueuesWhatACancelDrops(t *testing.T) {
	for _, tc := range []struct {
		name         string
		send         func(w *world, m model.Message) error
		turns, after string
	}{
		{"without waking", func(w *world, m model.Message) error { return w.a.Send(m, loop.NextTurn, false) },
			"turn/start 1\nturn/end 1 aborted/user", "p"},
		{"waking", func(w *world, m model.Message) error { return w.a.Steer(m) },
			"turn/start 1\nturn/end 1 aborted/user\nturn/start 2\nturn/end 2 completed", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := hung(t, modeltest.Text("ok"))
			w.do(func() {
				_ = w.a.Followup(withID("p", "p"))
				n := 0
				off := loop.InboxDiscarded.On(w.h.Host, func(p loop.InboxPayload) error {
					if n++; n > 1 {
						t.Error("the cancel clears what came after it")
						return nil
					}
					return tc.send(w, p.Message)
				})
				w.a.Cancel(byUser, loop.CancelOptions{})
				off()
			})
			w.wait()
			w.check(w.turns(), tc.turns)
			w.do(func() {
				if got := texts(w.a.Inbox().NextTurn()) + texts(w.a.Inbox().NextStep()); got != tc.after {
					t.Errorf("left: %q", got)
				}
			})
		})
	}
}

func TestB010_AMessagesComingIsToldBeforeItsLeaving(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		loop.InboxDiscarded.On(w.h.Host, func(p loop.InboxPayload) error {
			_, err := w.a.Inbox().Remove("new") // is there already, and nobody has heard of it
			return err
		})
	})
	w.inboxEvents()
	w.do(func() {
		_ = w.a.Inject(withID("old", "old"))
		_, _ = w.a.Inbox().Replace("old", withID("new", "new"))
	})
	w.check(w.noted(), "inserted old\ndiscarded old\ninserted new\ndiscarded new")
}

func TestB062_MaintenanceThatWaitsForItsOwnAgent(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	other := w.agent(w.options())
	w.do(func() {
		_ = other.Followup(msg("go"))
		err := w.a.RunMaintenance(func(ctx context.Context) error {
			if w.h.Initiator() != w.a {
				t.Error("another initiator")
			}
			if err := other.WhenIdle(ctx); err != nil {
				t.Error(err)
			}
			return w.a.WhenIdle(ctx)
		})
		var cycle *runtime.CycleError
		if !errors.As(err, &cycle) {
			t.Error(err)
		}
	})
}
