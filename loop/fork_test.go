package loop_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
	"dshsh/session"
)

// resumed ends w's agent and opens its session again, in the same host.
func (w *world) resumed() *session.Report {
	w.t.Helper()
	id := w.a.ID()
	w.gone(w.a)
	var rep *session.Report
	w.do(func() {
		var err error
		if w.a, rep, err = w.h.Resume(id, w.options()); err != nil {
			w.t.Fatal(err)
		}
	})
	return rep
}

func TestB030_TheInboxIsRebuiltFromTheLog(t *testing.T) {
	w := newWorld(t, always("ok"), withStore(t, nil)).create()
	var before string
	w.do(func() {
		b := w.a.Inbox()
		_ = w.a.Inject(withID("i", "inject"))
		_ = b.Append(loop.NextTurn, withID("p", "prompt"))
		_ = b.Prepend(loop.NextTurn, withID("q", "first"))
		_ = b.Append(loop.NextStep, withID("x", "removed"))
		_, _ = b.Replace("p", withID("p", "edited"))
		_, _ = b.Remove("x")
		before = texts(b.NextStep()) + "/" + texts(b.NextTurn())
	})
	if before != "inject/first|edited" {
		t.Fatal(before)
	}
	// Closing leaves pending what the agent's disposal would discard: copy the file as a crash leaves it.
	crashed := w.crash()
	w.do(func() {
		if got := texts(crashed.Inbox().NextStep()) + "/" + texts(crashed.Inbox().NextTurn()); got != before {
			t.Errorf("%s, before it was %s", got, before)
		}
		if crashed.Status() != loop.StatusIdle || len(crashed.Session().Records()) != len(w.records())+1 {
			t.Error("a turn of its own")
		}
	})
	w.a = crashed
	w.prompt("more")
	if got := w.sent(1); got != "inject|first" {
		t.Error(got)
	}
}

// crash copies the session's file as it is now, as a killed process leaves it, and opens
// the copy.
func (w *world) crash() loop.Agent {
	w.t.Helper()
	path := w.a.Session().Path()
	raw, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	id := fmt.Sprintf("crash-%d", len(raw))
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), id+".jsonl"), raw, 0o600); err != nil {
		w.t.Fatal(err)
	}
	var a loop.Agent
	w.do(func() {
		if a, _, err = w.h.Resume(id, w.options()); err != nil {
			w.t.Fatal(err)
		}
	})
	return a
}

func TestB031_AForkDoesNotInheritPendingWork(t *testing.T) {
	w := newWorld(t, always("ok"), withStore(t, nil)).create()
	w.prompt("one")
	w.do(func() { _ = w.a.Inject(msg("pending")) })
	parent := w.a
	w.fork(parent.ID(), session.Last)
	w.do(func() {
		if w.a.Inbox().HasPending() || !parent.Inbox().HasPending() {
			t.Error("inherited")
		}
		_ = w.a.Inject(msg("its own"))
	})
	w.prompt("two")
	if got := w.sent(2); got != "one|ok|its own|two" {
		t.Error(got)
	}
	w.do(func() { _ = w.a.Inject(msg("again")) })
	child := w.crash()
	w.do(func() {
		if got := texts(child.Inbox().NextStep()); got != "again" {
			t.Errorf("the child, resumed, has %q", got)
		}
	})
	// Without seedLength the records are the agent's own past.
	w2 := newWorld(t, always("ok"))
	log, _, err := session.MemoryFrom(session.Header{ID: "seeded"}, parent.Session().Records(), session.Options{Validator: loop.NewValidator})
	if err != nil {
		t.Fatal(err)
	}
	w2.do(func() {
		a, err := w2.h.Adopt(log, w2.options())
		if err != nil || texts(a.Inbox().NextStep()) != "pending" {
			t.Error(err)
		}
	})
}

// fork makes w's agent a fork.
func (w *world) fork(source string, boundary int64) *world {
	w.t.Helper()
	w.do(func() {
		a, err := w.h.Fork(source, boundary, w.options())
		if err != nil {
			w.t.Fatal(err)
		}
		w.a = a
	})
	return w
}

func TestB034_Accounting(t *testing.T) {
	check := func(name string, recs []session.Record, end string, dropped bool) {
		t.Helper()
		acc := loop.Account(recs)
		got := "none"
		if acc.End != nil {
			got = fmt.Sprintf("%d %s", acc.End.Turn, acc.End.Reason.Kind)
		}
		if got != end || acc.DroppedUnrun != dropped {
			t.Errorf("%s: got %s %v, want %s %v", name, got, acc.DroppedUnrun, end, dropped)
		}
	}
	w := newWorld(t, modeltest.New(modeltest.Text("ok"), modeltest.Text("ok"), modeltest.Hang("x")).Otherwise(modeltest.Text("ok"))).create()
	check("nothing", nil, "none", false)
	w.do(func() { _ = w.a.Inject(withID("a", "a")) })
	check("pending", w.records(), "none", false)
	w.do(func() { _, _ = w.a.Inbox().Replace("a", withID("b", "b")) })
	check("a replacement", w.records(), "none", false)
	w.do(func() { _, _ = w.a.Inbox().Remove("b") })
	check("dropped", w.records(), "none", true)
	w.prompt("go")
	check("a later turn", w.records(), "1 completed", false)
	mark := len(w.records())
	check("a part of the log", w.records()[mark:], "none", false)

	// A turn that claims nothing and has no step accounts for nothing.
	w.do(func() { _ = w.a.Followup(withID("c", "c")) })
	w.wait()
	check("the second", w.records(), "2 completed", false)
	off := w.onPreStep(func(p loop.PreStepPayload) (loop.StepDecision, error) { return loop.StepDecision{Kind: "enter"}, nil })
	w.prompt("emptied")
	check("claimed, but rewritten to nothing", w.records(), "2 completed", false)
	w.do(off)
	off = w.onPreStep(func(p loop.PreStepPayload) (loop.StepDecision, error) { return loop.StepDecision{Kind: "reject"}, nil })
	w.prompt("refused")
	check("claimed and refused", w.records(), "4 blocked", false)
	w.do(off)
	w.do(func() { _ = w.a.Followup(msg("hangs")) })
	w.streaming("x")
	w.do(func() { _ = w.a.Followup(msg("queued")); w.a.Cancel(byUser, loop.CancelOptions{}) })
	w.wait()
	check("the drop inside an aborted turn is told by its end", w.records(), "5 aborted", false)
	w.do(func() { _ = w.a.Send(msg("queued"), loop.NextTurn, false); w.a.Cancel(byUser, loop.CancelOptions{}) })
	check("and one after it is not", w.records(), "5 aborted", true)
}

// onPreStep adds a Go listener to agent/pre-step that answers.
func (w *world) onPreStep(fn func(loop.PreStepPayload) (loop.StepDecision, error)) (off func()) {
	w.do(func() {
		off = loop.PreStep.On(w.h.Host, func(p loop.PreStepPayload, _ func(loop.PreStepPayload) (loop.StepDecision, error)) (loop.StepDecision, error) {
			return fn(p)
		})
	})
	return off
}

func TestB212_ResumeNumberingAndHistory(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", `{"text":"r"}`)).Otherwise(modeltest.Text("ok")), withStore(t, nil), withTools(echo{})).create()
	w.do(func() {
		loop.AgentSessionStart.On(w.h.Host, func(p loop.SessionStartPayload) error { w.notes.note("%s", p.Source); return nil })
	})
	w.prompt("one")
	before, history := w.records(), w.a.Session().Messages()
	rep := w.resumed()
	if n := len(before); rep.Closers != 0 || len(w.records()) != n+1 || w.records()[n].Type != loop.RecEndSeed {
		t.Errorf("%d records, %d before", len(w.records()), n)
	}
	w.do(func() {
		if !reflect.DeepEqual(w.a.Session().Messages(), history) {
			t.Error("another history")
		}
	})
	w.prompt("two")
	w.check(w.turns(), "turn/start 1\nturn/end 1 completed\nsession/end-seed\nturn/start 2\nturn/end 2 completed")
	for i, r := range w.records() {
		if r.Seq != int64(i) {
			t.Errorf("record %d has seq %d", i, r.Seq)
		}
	}
	if got := w.noted(); !strings.HasSuffix(got, "resume") {
		t.Error(got)
	}
	w.reconstruct()
}

func TestB213_AnInterruptedClaimIsNotReplayed(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Text("ok")), withStore(t, nil)).create()
	w.prompt("claimed")
	recs := w.records()
	for i, r := range recs {
		s, ok := decoded[loop.Spliced](r, loop.RecInboxSpliced)
		if !ok || s.RemovedCount == 0 {
			continue
		}
		for cut := i + 1; cut < len(recs)-1; cut++ {
			w2 := newWorld(t, always("ok"))
			w2.adopt(recs[:cut])
			w2.prompt("later")
			want := "later"
			for _, r := range recs[:cut] {
				if r.Type == loop.RecUserMessage {
					want = "claimed|later"
				}
				if r.Type == loop.RecAssistant {
					want = "claimed|ok|later"
				}
			}
			if got := w2.sent(1); got != want {
				t.Errorf("cut before record %d (%s): %s, want %s", cut, recs[cut].Type, got, want)
			}
		}
	}
}

// adopt makes w's agent one of these records, as opening their log would.
func (w *world) adopt(recs []session.Record) *session.Report {
	w.t.Helper()
	log, rep, err := session.MemoryFrom(session.Header{}, recs, session.Options{Validator: loop.NewValidator})
	if err != nil {
		w.t.Fatal(err)
	}
	w.do(func() {
		if w.a, err = w.h.Adopt(log, w.options()); err != nil {
			w.t.Fatal(err)
		}
	})
	return rep
}

func TestB214_APendingInjectSurvives(t *testing.T) {
	w := newWorld(t, always("ok"), withStore(t, nil)).create()
	w.prompt("one")
	w.do(func() { _ = w.a.Inject(msg("context")) })
	w.a = w.crash()
	w.prompt("two")
	if got := w.sent(2); got != "one|ok|context|two" {
		t.Error(got)
	}
}

func TestB215_ResumeRefusals(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Hang("partial")), withStore(t, nil)).create()
	w.do(func() { _ = w.a.Followup(msg("go")) })
	w.streaming("partial")
	w.do(func() {
		n := len(w.records())
		if _, _, err := w.h.Resume(w.a.ID(), w.options()); err == nil || !strings.Contains(err.Error(), "is open in this shell") {
			t.Error(err)
		}
		if len(w.records()) != n {
			t.Error("the live log was repaired")
		}
		if _, _, err := w.h.Resume("nowhere", w.options()); !errors.Is(err, session.NotFound) {
			t.Error(err)
		}
	})
	bare := newWorld(t, always("ok"))
	bare.do(func() {
		if _, _, err := bare.h.Resume("x", bare.options()); err == nil || err.Error() != "session persistence is not configured" {
			t.Error(err)
		}
	})
}

func TestB216_ForkOfAnAgent(t *testing.T) {
	for _, stored := range []bool{false, true} {
		change := []func(*loop.Config){}
		if stored {
			change = append(change, withStore(t, nil))
		}
		w := newWorld(t, always("ok"), change...)
		o := w.named("parent")
		o.Header.Cwd = "/work"
		w.a = w.agent(o)
		w.prompt("one")
		w.prompt("two")
		parent := w.a
		recs := parent.Session().Records()
		w.do(func() {
			loop.AgentSessionStart.On(w.h.Host, func(p loop.SessionStartPayload) error { w.notes.note("%s", p.Source); return nil })
		})
		w.fork("parent", session.Last)
		h := w.a.Session().Header()
		if h.Cwd != "/work" || h.ParentSession != "parent" || h.SeedLength == nil || *h.SeedLength != len(recs) || h.ID == "parent" {
			t.Errorf("%+v", h)
		}
		if got := w.records(); len(got) != len(recs)+1 || got[len(recs)].Type != loop.RecEndSeed || !reflect.DeepEqual(got[:len(recs)], recs) {
			t.Errorf("%d records of %d", len(got), len(recs))
		}
		w.prompt("three")
		if got := w.sent(3); got != "one|ok|two|ok|three" || w.noted() != "startup" {
			t.Error(got, w.noted())
		}
		if !strings.HasSuffix(w.turns(), "turn/start 3\nturn/end 3 completed") || len(parent.Session().Records()) != len(recs) {
			t.Error(w.turns())
		}

		w.do(func() {
			a, err := w.h.Rewind("parent", 1, w.named("back"))
			if err != nil {
				t.Fatal(err)
			}
			w.a = a
		})
		w.prompt("instead")
		if got := w.sent(4); got != "one|ok|instead" {
			t.Error(got)
		}
		w.do(func() {
			a, err := w.h.Rewind("parent", 0, w.options())
			if err != nil {
				t.Fatal(err)
			}
			w.a = a
		})
		w.prompt("anew")
		if got := w.sent(5); got != "anew" {
			t.Error(got)
		}
		empty := w.agent(w.named("empty"))
		w.fork(empty.ID(), session.Last)
		if n := w.a.Session().Header().SeedLength; n == nil || *n != 0 {
			t.Error(n)
		}
	}
}

func TestB217_ForkBoundaryRules(t *testing.T) {
	for _, stored := range []bool{false, true} {
		change := []func(*loop.Config){withTools(echo{})}
		if stored {
			change = append(change, withStore(t, nil))
		}
		w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", "{}"), modeltest.Text("ok"), modeltest.Fail("UNKNOWN", "no"), modeltest.Hang("partial")), change...)
		w.a = w.agent(w.named("parent"))
		w.prompt("one")
		w.prompt("fails")
		w.do(func() { _ = w.a.Inject(msg("between turns")) })
		closed := map[int64]bool{}
		open := false
		for _, r := range w.records() {
			open = (open || r.Type == loop.RecTurnStart) && r.Type != loop.RecTurnEnd
			closed[r.Seq] = !open
		}
		agents := 0
		refused := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("stored %v, %s: %v", stored, what, err)
			}
			if n := len(w.h.Agents()); n != agents {
				t.Errorf("stored %v, %s: %d agents", stored, what, n)
			}
		}
		w.do(func() {
			agents = len(w.h.Agents())
			for seq, ok := range closed {
				a, err := w.h.Fork("parent", seq, w.options())
				if ok {
					agents++
					if err != nil || len(a.Session().Records()) != int(seq)+2 {
						t.Errorf("at %d: %v", seq, err)
					}
					continue
				}
				refused(fmt.Sprint("at ", seq), err, session.OpenTurn)
			}
			for _, at := range []int64{-1, int64(len(w.records())), 1 << 40} {
				_, err := w.h.Fork("parent", at, w.options())
				refused(fmt.Sprint("at ", at), err, session.InvalidBoundary)
			}
			_, err := w.h.Rewind("parent", 7, w.options())
			refused("rewind to 7", err, session.InvalidBoundary)
			_, err = w.h.Fork("nowhere", 0, w.named("parent")) // the id is looked at first
			refused("taken", err, session.Exists)
			want := error(session.NotLive)
			if stored {
				want = session.NotFound
			}
			_, err = w.h.Fork("nowhere", 0, w.options())
			refused("unknown", err, want)
		})
		w.do(func() { _ = w.a.Followup(msg("go")) })
		w.streaming("partial")
		w.do(func() {
			_, err := w.h.Fork("parent", session.Last, w.options())
			refused("in a turn", err, session.OpenTurn)
			_, err = w.h.Rewind("parent", 3, w.options())
			refused("rewind to the open turn", err, session.OpenTurn)
			if _, err := w.h.Rewind("parent", 2, w.options()); err != nil {
				t.Error(err)
			}
			agents++
		})
		w.gone(w.a)
		w.do(func() {
			agents--
			a, err := w.h.Fork("parent", 0, w.options())
			if stored && (err != nil || a == nil) {
				t.Error(err) // it is stored, so it can be forked
			}
			if !stored {
				refused("disposed", err, session.NotLive)
			}
		})
	}
}

func TestTurns(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Text("ok"), modeltest.Fail("UNKNOWN", "no"), modeltest.Hang("partial"))).create()
	w.prompt("one")
	w.do(func() {
		m := msg("context")
		m.Source.Kind, m.Source.Plugin = "plugin", "p"
		_ = w.a.Inject(m)
	})
	w.prompt("two")
	w.do(func() { _ = w.a.Followup(msg("three")) })
	w.streaming("partial")
	var got []string
	for _, s := range loop.Turns(w.records()) {
		got = append(got, fmt.Sprintf("%d %s %v %q", s.Turn, s.Prompt, s.End > s.Start, s.Reason.Kind))
	}
	w.check(strings.Join(got, "\n"), "1 one true \"completed\"\n2 two true \"error\"\n3 three false \"\"")
}
