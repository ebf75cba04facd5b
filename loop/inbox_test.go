package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/session"
)

// texts is the plain text of messages.
func texts(ms []model.Message) string {
	var out []string
	for _, m := range ms {
		out = append(out, model.PlainText(m.Content))
	}
	return strings.Join(out, "|")
}

// sent is the text of what the n-th request held (from 1).
func (w *world) sent(n int) string {
	w.t.Helper()
	reqs := w.model.Requests()
	if len(reqs) < n {
		w.t.Fatalf("only %d requests", len(reqs))
	}
	return texts(reqs[n-1].Messages)
}

// splices lists the inbox records.
func (w *world) splices() []loop.Spliced {
	var out []loop.Spliced
	for _, r := range w.records() {
		if r.Type == loop.RecInboxSpliced {
			var s loop.Spliced
			if err := json.Unmarshal(r.Data, &s); err != nil {
				w.t.Error(err)
			}
			out = append(out, s)
		}
	}
	return out
}

func (s spliceList) String() string {
	var out []string
	for _, x := range s {
		line := fmt.Sprintf("%s@%d -%d +%d", x.Target, x.Start, x.RemovedCount, len(x.Inserted))
		if x.Outcome != "" {
			line += " " + x.Outcome
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

type spliceList []loop.Spliced

// inboxEvents notes the live inbox events as they come.
func (w *world) inboxEvents() {
	w.do(func() {
		loop.InboxInserted.On(w.h.Host, func(p loop.InboxPayload) error {
			w.notes.note("inserted %s", model.PlainText(p.Message.Content))
			return nil
		})
		loop.InboxClaimed.On(w.h.Host, func(p loop.InboxPayload) error {
			w.notes.note("claimed %s %d", model.PlainText(p.Message.Content), p.Turn)
			return nil
		})
		loop.InboxDiscarded.On(w.h.Host, func(p loop.InboxPayload) error {
			w.notes.note("discarded %s", model.PlainText(p.Message.Content))
			return nil
		})
	})
}

func (w *world) noted() string { return strings.Join(w.notes.logged, "\n") }

func msg(text string) model.Message { return loop.UserMessage(text) }

func withID(id, text string) model.Message {
	m := loop.UserMessage(text)
	m.ID = id
	return m
}

func always(reply string) *modeltest.Provider {
	return modeltest.New().Otherwise(modeltest.Text(reply))
}

func TestB010_EveryMutationIsOneRecord(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.inboxEvents()
	w.do(func() {
		b := w.a.Inbox()
		_ = b.Append(loop.NextTurn, withID("a", "a"))
		_ = b.Prepend(loop.NextTurn, withID("b", "b"))
		if ok, _ := b.Replace("a", withID("c", "c")); !ok {
			t.Error("a was not replaced")
		}
		if ok, _ := b.Remove("b"); !ok {
			t.Error("b was not removed")
		}
		_, _ = b.Splice(loop.NextStep, 0, 0, withID("d", "d"), withID("e", "e"))
		_ = b.Clear()
		_ = b.Clear()
		_, _ = b.Splice(loop.NextStep, 0, 5)
	})
	w.check(spliceList(w.splices()).String(), `
		next-turn@0 -0 +1
		next-turn@0 -0 +1
		next-turn@1 -1 +1 canceled
		next-turn@0 -1 +0 canceled
		next-step@0 -0 +2
		next-step@0 -2 +0 canceled
		next-turn@0 -1 +0 canceled`)
	w.check(w.noted(), `
		inserted a
		inserted b
		discarded a
		inserted c
		discarded b
		inserted d
		inserted e
		discarded d
		discarded e
		discarded c`)
}

func TestB011_ClaimAtATurnBoundary(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		for _, m := range []string{"a", "b"} {
			_ = w.a.Inject(msg(m))
		}
		_ = w.a.Send(msg("p"), loop.NextTurn, false)
		_ = w.a.Send(msg("q"), loop.NextTurn, false)
	})
	w.inboxEvents()
	w.do(func() {
		_ = w.a.Steer(msg("s"))
		w.check(w.noted(), "inserted s\nclaimed a 1\nclaimed b 1\nclaimed s 1\nclaimed p 1")
		if got := texts(w.a.Inbox().NextTurn()); got != "q" {
			t.Errorf("left: %s", got)
		}
		ss := w.splices()
		w.check(spliceList(ss[len(ss)-2:]).String(), "next-step@0 -3 +0\nnext-turn@0 -1 +0")
	})
	w.wait()
	if got := w.sent(1); got != "a|b|s|p" {
		t.Error(got)
	}
}

func TestB012_ClaimInsideATurnTakesNoPrompt(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", "{}"), modeltest.Text("one"), modeltest.Text("two")))
	w.h.Stop()
	w = newWorld(t, w.model, withTools(echo{body: func(context.Context, *tool.Exec) {
		w.do(func() { _ = w.a.Inject(msg("a")); _ = w.a.Send(msg("p"), loop.NextTurn, false) })
	}}))
	w.create()
	w.prompt("go")
	if got := w.sent(2); !strings.HasSuffix(got, "|a") {
		t.Errorf("step 2 got %s", got)
	}
	if got := w.sent(3); !strings.HasSuffix(got, "|p") {
		t.Errorf("turn 2 got %s", got)
	}
}

func TestB013_ClaimedIsNeverDiscarded(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.inboxEvents()
	w.do(func() {
		_ = w.a.Inject(withID("c", "c"))
		_, _ = w.a.Inbox().Remove("c")
		_ = w.a.Followup(msg("p"))
	})
	w.wait()
	w.check(w.noted(), "inserted c\ndiscarded c\ninserted p\nclaimed p 1")
}

func TestB014_InjectParksWithoutWaking(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		_ = w.a.Inject(msg("c"))
		if w.a.Status() != loop.StatusIdle {
			t.Error("woken")
		}
	})
	w.check(w.skeleton(), "agent/inbox/spliced")
	w.prompt("p")
	if got := w.sent(1); got != "c|p" {
		t.Error(got)
	}
}

// running makes a world whose tool echo runs body while the turn waits for it.
func running(t *testing.T, body func(w *world), answers ...modeltest.Answer) *world {
	var w *world
	w = newWorld(t, modeltest.New(answers...), withTools(echo{body: func(context.Context, *tool.Exec) { w.do(func() { body(w) }) }}))
	return w.create()
}

func TestB015_InjectWhileATool(t *testing.T) {
	w := running(t, func(w *world) { _ = w.a.Inject(msg("x")); _ = w.a.Inject(msg("y")) },
		modeltest.Tool("c1", "echo", `{"text":"r"}`), modeltest.Text("done"))
	w.prompt("go")
	if got := w.sent(2); got != "go||r|x|y" {
		t.Error(got)
	}
	w.check(w.skeleton("agent/inbox", "turn", "assistant"), `
		step/start 1.1
		user/message
		tool/call
		tool/result
		step/end 1.1
		step/start 1.2
		user/message
		user/message
		step/end 1.2`)
}

func TestB016_SteerWhileIdleOpensATurn(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		_ = w.a.Steer(msg("s"))
		w.check(spliceList(w.splices()).String(), "next-step@0 -0 +1\nnext-step@0 -1 +0")
	})
	w.wait()
	if got := w.sent(1); got != "s" {
		t.Error(got)
	}
}

func TestB017_SteerWhileRunningJoinsTheNextStep(t *testing.T) {
	w := running(t, func(w *world) { _ = w.a.Steer(msg("s")) }, modeltest.Tool("c1", "echo", `{"text":"r"}`), modeltest.Text("done"))
	w.prompt("go")
	w.check(w.skeleton("agent/inbox"), `
		turn/start 1
		step/start 1.1
		user/message
		assistant/message
		tool/call
		tool/result
		step/end 1.1
		step/start 1.2
		user/message
		assistant/message
		step/end 1.2
		turn/end 1 completed`)
	if got := w.sent(2); got != "go||r|s" {
		t.Error(got)
	}
}

func TestB018_SteerDuringATextStepExtendsTheTurn(t *testing.T) {
	gate := make(chan struct{})
	w := newWorld(t, modeltest.New(modeltest.Play(modeltest.SendText(0, "one"), modeltest.Gate(gate), modeltest.Send(model.NewFinish(model.FinishStop))), modeltest.Text("two"))).create()
	w.do(func() { _ = w.a.Steer(msg("s1")) })
	w.streaming("one")
	w.do(func() { _ = w.a.Steer(msg("s2")) })
	close(gate)
	w.wait()
	if w.sent(1) != "s1" || w.sent(2) != "s1|one|s2" {
		t.Error(w.sent(1), w.sent(2))
	}
	if n := w.logged(loop.RecTurnStart); n != 1 {
		t.Errorf("%d turns", n)
	}
}

func TestB019_SteerAfterTheAbortIsRetargeted(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Hang("partial"), modeltest.Text("later"))).create()
	w.do(func() { _ = w.a.Followup(msg("go")) })
	w.streaming("partial")
	w.do(func() {
		w.a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
		_ = w.a.Steer(msg("s"))
		_ = w.a.Inject(msg("i"))
		if got := texts(w.a.Inbox().NextTurn()) + "/" + texts(w.a.Inbox().NextStep()); got != "s/i" {
			t.Error(got)
		}
	})
	w.wait()
	w.check(w.skeleton("agent/inbox", "step", "user", "assistant"), "turn/start 1\nturn/end 1 aborted/user\nturn/start 2\nturn/end 2 completed")
	if got := w.sent(2); got != "go|partial|i|s" {
		t.Error(got)
	}
}

func TestB020_SendIsThePrimitive(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		_ = w.a.Send(msg("p"), loop.NextTurn, false)
		if w.a.Status() != loop.StatusIdle || texts(w.a.Inbox().NextTurn()) != "p" {
			t.Error("not parked")
		}
	})
	w.prompt("q")
	if w.sent(1) != "p" || w.sent(2) != "p|ok|q" {
		t.Error(w.sent(1), w.sent(2))
	}
}

func TestB021_InboxEditsNeverWake(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		_ = w.a.Inbox().Append(loop.NextTurn, msg("p"))
		if w.a.Status() != loop.StatusIdle {
			t.Error("woken")
		}
	})
	w.prompt("q")
	if w.sent(1) != "p" {
		t.Error(w.sent(1))
	}
}

// veto is a validator that refuses records on demand.
type veto struct {
	session.Validator
	refuse func(session.Record) error
}

func (v veto) Check(r session.Record) error {
	if err := v.refuse(r); err != nil {
		return err
	}
	return v.Validator.Check(r)
}

var errVeto = errors.New("vetoed")

// once refuses the first record of a type.
func once(typ string) func(session.Record) error {
	done := false
	return func(r session.Record) error {
		if r.Type == typ && !done {
			done = true
			return errVeto
		}
		return nil
	}
}

// vetoed makes a world whose log refuses records.
func vetoed(t *testing.T, p *modeltest.Provider, refuse func(session.Record) error, change ...func(*loop.Config)) *world {
	w := newWorld(t, p, change...)
	w.do(func() {
		log := session.Memory(session.Header{ID: "v"}, session.Options{Validator: func() session.Validator { return veto{loop.NewValidator(), refuse} }})
		var err error
		if w.a, err = w.h.Adopt(log, loop.CreateOptions{Options: loop.Options{Provider: p.Name(), Model: "m"}}); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestB022_FailedAppendLeavesEverything(t *testing.T) {
	w := vetoed(t, always("ok"), once(loop.RecInboxSpliced))
	w.do(func() {
		if err := w.a.Followup(msg("p")); !errors.Is(err, errVeto) {
			t.Errorf("got %v", err)
		}
		if w.a.Inbox().HasPending() || w.a.Status() != loop.StatusIdle || len(w.records()) != 0 {
			t.Error("something has changed")
		}
	})
	w.prompt("p")
}

func TestB023_NonJSONContentIsRefused(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		m := msg("x")
		m.Content = append(m.Content, model.Block{Type: model.BlockImage, Attachment: json.RawMessage("{no json")})
		if err := w.a.Inject(m); err == nil || !strings.Contains(err.Error(), "non-JSON-serializable") {
			t.Errorf("got %v", err)
		}
		if w.a.Inbox().HasPending() || len(w.records()) != 0 {
			t.Error("queued")
		}
	})
}

func TestB024_DuplicateIDIsRefused(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		b := w.a.Inbox()
		_ = b.Append(loop.NextTurn, withID("m", "m"))
		_ = b.Append(loop.NextTurn, withID("n", "n"))
		n := len(w.records())
		if err := b.Append(loop.NextStep, withID("m", "again")); err == nil || err.Error() != `message "m" is already pending` {
			t.Errorf("got %v", err)
		}
		if _, err := b.Replace("n", withID("m", "again")); err == nil {
			t.Error("replaced by a duplicate")
		}
		if len(w.records()) != n {
			t.Error("logged")
		}
	})
}

func TestB025_Replace(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		b := w.a.Inbox()
		for _, id := range []string{"a", "b", "c"} {
			_ = b.Append(loop.NextTurn, withID(id, id))
		}
		if ok, err := b.Replace("b", withID("b", "edited")); !ok || err != nil {
			t.Error(ok, err)
		}
		if ok, err := b.Replace("x", withID("y", "y")); ok || err != nil {
			t.Error(ok, err)
		}
		if got := texts(b.NextTurn()); got != "a|edited|c" {
			t.Error(got)
		}
	})
}

func TestB026_Remove(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		_ = w.a.Inject(withID("m", "m"))
		first, _ := w.a.Inbox().Remove("m")
		n := len(w.records())
		second, _ := w.a.Inbox().Remove("m")
		if !first || second || len(w.records()) != n {
			t.Error(first, second)
		}
	})
}

func TestB027_ClearOrder(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		_ = w.a.Send(msg("p"), loop.NextTurn, false)
		_ = w.a.Inject(msg("s"))
	})
	w.inboxEvents()
	w.do(func() { _ = w.a.Inbox().Clear(); _ = w.a.Inbox().Clear() })
	w.check(spliceList(w.splices()[2:]).String(), "next-step@0 -1 +0 canceled\nnext-turn@0 -1 +0 canceled")
	w.check(w.noted(), "discarded s\ndiscarded p")
}

func TestB028_SpliceCoordinatesAreNormalised(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		b := w.a.Inbox()
		for _, id := range []string{"a", "b", "c"} {
			_ = b.Append(loop.NextTurn, withID(id, id))
		}
		_, _ = b.Splice(loop.NextTurn, -1, 0, withID("d", "d"))
		_, _ = b.Splice(loop.NextTurn, 99, 99, withID("e", "e"))
		_, _ = b.Splice(loop.NextTurn, -99, 1)
		_, _ = b.Splice(loop.NextTurn, 1, -5, withID("f", "f"))
		if got := texts(b.NextTurn()); got != "b|f|d|c|e" {
			t.Error(got)
		}
		w.check(spliceList(w.splices()[3:]).String(), "next-turn@2 -0 +1\nnext-turn@4 -0 +1\nnext-turn@0 -1 +0 canceled\nnext-turn@1 -0 +1")
	})
}

func TestB033_SendInsideASessionEventListenerIsCarriedOutAfterwards(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		done := false
		loop.SessionEvent.On(w.h.Host, func(p loop.RecordPayload) error {
			if !done {
				done = true
				if err := p.Agent.Followup(msg("inner")); err != nil {
					t.Error(err)
				}
				bad := msg("x")
				bad.Role = model.RoleAssistant
				if err := p.Agent.Followup(bad); err == nil {
					t.Error("a wrong message was not refused at the call")
				}
			}
			return nil
		})
		_ = w.a.Followup(msg("outer"))
	})
	w.wait()
	if w.sent(1) != "outer" || w.sent(2) != "outer|ok|inner" {
		t.Error(w.sent(1), w.sent(2))
	}
}

func TestB081_ListenersCannotChangeWhatIsStored(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines)
	w.script("f.js", `ctx.on('agent/pre-step', (p, next) => { try { p.messages[0].content[0].text = 'changed' } catch (e) { ctx.log(e.name) } return next() })`)
	w.create()
	m := msg("original")
	w.do(func() { _ = w.a.Followup(m); m.Content[0].Text = "changed" })
	w.wait()
	if w.sent(1) != "original" || w.noted() != "TypeError" {
		t.Error(w.sent(1), w.noted())
	}
}
