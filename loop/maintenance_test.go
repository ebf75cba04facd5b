package loop_test

import (
	"context"
	"errors"
	"testing"

	"dshsh/loop"
)

func TestB062_MaintenanceOwnsTheAgentButIsIdle(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.statuses()
	boom := errors.New("boom")
	w.do(func() {
		err := w.a.RunMaintenance(func(ctx context.Context) error {
			if w.a.Status() != loop.StatusIdle || ctx.Err() != nil {
				t.Error(w.a.Status(), ctx.Err())
			}
			return boom
		})
		if err != boom {
			t.Error(err)
		}
	})
	w.check(w.noted(), "")
}

func TestB063_MaintenanceRefusesWhenBusy(t *testing.T) {
	w := hung(t)
	w.do(func() {
		err := w.a.RunMaintenance(func(context.Context) error { return nil })
		if err == nil || err.Error() != `agent "`+w.a.ID()+`" already has active work` {
			t.Error(err)
		}
		w.a.Cancel(byUser, loop.CancelOptions{})
	})
	w.wait()
	w.do(func() {
		_ = w.a.RunMaintenance(func(context.Context) error {
			if err := w.a.RunMaintenance(func(context.Context) error { return nil }); err == nil {
				t.Error("nested maintenance")
			}
			return nil
		})
	})
}

// maintained runs body inside a maintenance task.
func (w *world) maintained(body func(ctx context.Context)) {
	w.do(func() { _ = w.a.RunMaintenance(func(ctx context.Context) error { body(ctx); return nil }) })
	w.wait()
}

func TestB064_AWakeBehindMaintenanceIsLatched(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.maintained(func(context.Context) {
		_ = w.a.Followup(msg("m"))
		if w.logged(loop.RecTurnStart) != 0 {
			t.Error("a turn inside maintenance")
		}
	})
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
}

func TestB065_ALatchedWakeThatIsRemoved(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.maintained(func(context.Context) {
		_ = w.a.Followup(withID("w", "w"))
		_, _ = w.a.Inbox().Remove("w")
	})
	w.check(w.turns(), "")
}

func TestB067_SteeringBehindMaintenance(t *testing.T) {
	for _, aborted := range []bool{false, true} {
		w := newWorld(t, always("ok")).create()
		w.maintained(func(context.Context) {
			want := "s/"
			if aborted {
				w.a.Cancel(byUser, loop.CancelOptions{})
				want = "/s"
			}
			_ = w.a.Steer(msg("s"))
			if got := texts(w.a.Inbox().NextStep()) + "/" + texts(w.a.Inbox().NextTurn()); got != want {
				t.Errorf("aborted %v: %s", aborted, got)
			}
		})
		w.check(w.turns(), "turn/start 1\nturn/end 1 completed")
	}
}
