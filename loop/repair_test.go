package loop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/session"
)

// logOf makes records of types and data, as they stand in a log. A turn is 1, a step 1.
func logOf(t *testing.T, entries ...string) []session.Record {
	t.Helper()
	log := session.Memory(session.Header{ID: "made"}, session.Options{Validator: loop.NewValidator})
	for _, e := range entries {
		typ, data, _ := strings.Cut(e, " ")
		entry := session.Entry{Type: typ, Data: json.RawMessage(data)}
		switch typ {
		case loop.RecTurnStart:
			entry.Data = json.RawMessage(`{"turn":1,"generation":0}`)
		case loop.RecTurnEnd:
			entry.Data = json.RawMessage(`{"turn":1,"reason":{"kind":"completed"}}`)
		case loop.RecStepStart, loop.RecStepEnd:
			entry.Data = json.RawMessage(`{"turn":1,"step":1}`)
		case loop.RecAssistant: // the ids of its calls
			var blocks []string
			for _, id := range strings.Fields(data) {
				blocks = append(blocks, fmt.Sprintf(`{"type":"tool-call","id":%q,"name":"echo","arguments":"{}"}`, id))
			}
			entry.Data = json.RawMessage(fmt.Sprintf(`{"turn":1,"step":1,"message":{"id":"a","role":"assistant","content":[%s],"source":{"kind":"model"}}}`, strings.Join(blocks, ",")))
			entry.SurfaceOp = &session.SurfaceOp{}
		case loop.RecToolCall:
			entry.Data = json.RawMessage(fmt.Sprintf(`{"turn":1,"step":1,"callId":%q,"name":"echo","arguments":"{}"}`, data))
		case loop.RecToolResult:
			entry.Data = json.RawMessage(fmt.Sprintf(`{"turn":1,"step":1,"message":{"id":"r","role":"user","content":[{"type":"tool-result","toolCallId":%q,"content":[]}],"source":{"kind":"tool","callId":%[1]q}}}`, data))
			entry.SurfaceOp = &session.SurfaceOp{}
		}
		if _, err := log.Append(entry); err != nil {
			t.Fatal(err)
		}
	}
	return log.Records()
}

// closers opens records and gives what was appended before session/end-seed.
func closers(t *testing.T, recs []session.Record) []session.Record {
	t.Helper()
	log, rep, err := session.MemoryFrom(session.Header{ID: "opened"}, recs, session.Options{Validator: loop.NewValidator})
	if err != nil {
		t.Fatal(err)
	}
	all := log.Records()
	added := all[len(recs):]
	if len(added) > 0 && added[len(added)-1].Type == loop.RecEndSeed {
		added = added[:len(added)-1]
	}
	if rep.Closers != len(added) {
		t.Errorf("the report says %d closers of %d", rep.Closers, len(added))
	}
	for i, r := range added {
		if r.Seq != int64(len(recs)+i) || r.Time != recs[len(recs)-1].Time {
			t.Errorf("%s: seq %d, time %d", r.Type, r.Seq, r.Time)
		}
	}
	return added
}

// tell lists closers with their codes.
func tell(added []session.Record) string {
	var out []string
	for _, r := range added {
		s := describe(r)
		if d, ok := decoded[loop.ToolResultRecord](r, loop.RecToolResult); ok {
			s = fmt.Sprintf("%s %s %s %s %v", s, d.Message.Source.CallID, d.Error.Name, d.Error.Code, r.SourceEventSeqs)
		}
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

func TestB204_to_B210_Closers(t *testing.T) {
	for _, tc := range []struct {
		name, log, want string
	}{
		{"B204 empty", "", ""},
		{"B204 balanced", "turn/start\nturn/end", ""},
		{"B205 open turn, no step", "turn/start", "turn/end 1 interrupted"},
		{"B206 open step", "turn/start\nstep/start", "step/end 1.1\nturn/end 1 interrupted"},
		{"B206 closed step", "turn/start\nstep/start\nstep/end", "turn/end 1 interrupted"},
		{"B207 requested", "turn/start\nstep/start\nassistant/message c1",
			"tool/result c1 ToolNotStartedError TOOL_NOT_STARTED []\nstep/end 1.1\nturn/end 1 interrupted"},
		{"B208 started", "turn/start\nstep/start\nassistant/message c1\ntool/call c1",
			"tool/result c1 ToolOutcomeUnknownError TOOL_OUTCOME_UNKNOWN [3]\nstep/end 1.1\nturn/end 1 interrupted"},
		{"B209 some answered", "turn/start\nstep/start\nassistant/message a b c\ntool/call a\ntool/call b\ntool/result a",
			"tool/result b ToolOutcomeUnknownError TOOL_OUTCOME_UNKNOWN [4]\ntool/result c ToolNotStartedError TOOL_NOT_STARTED []\nstep/end 1.1\nturn/end 1 interrupted"},
		{"B209 all answered", "turn/start\nstep/start\nassistant/message a\ntool/call a\ntool/result a", "step/end 1.1\nturn/end 1 interrupted"},
		{"B210 a closed step with an unanswered call", "turn/start\nstep/start\nassistant/message a\nstep/end", "turn/end 1 interrupted"},
		{"B210 a closed turn with one", "turn/start\nstep/start\nassistant/message a\nstep/end\nturn/end", ""},
		{"B210 a call that no message asked for", "turn/start\nstep/start\nassistant/message\ntool/call x", "step/end 1.1\nturn/end 1 interrupted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.log == "" {
				log, rep, err := session.MemoryFrom(session.Header{}, nil, session.Options{Validator: loop.NewValidator})
				if err != nil || rep.Closers != 0 || log.Len() != 1 {
					t.Error(err, rep)
				}
				return
			}
			if got := tell(closers(t, logOf(t, strings.Split(tc.log, "\n")...))); got != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tc.want)
			}
		})
	}
}

func TestB207_B208_WhatTheModelReadsOfThem(t *testing.T) {
	added := closers(t, logOf(t, "turn/start", "step/start", "assistant/message äx started", "tool/call started"))
	for i, want := range []struct{ id, text string }{
		{"repair--x-4", tool.NotStarted().Message}, {"repair-started-5", tool.OutcomeUnknown().Message},
	} {
		r, ok := decoded[loop.ToolResultRecord](added[i], loop.RecToolResult)
		if !ok {
			t.Fatal(tell(added))
		}
		b := r.Message.Content[0]
		if !b.IsError || r.Message.ID != want.id || !strings.Contains(b.Content[0].Text, want.text) || added[i].SurfaceOp == nil || added[i].SurfaceOp.Replace {
			t.Errorf("%+v", r.Message)
		}
	}
	if added[0].SourceEventSeqs != nil {
		t.Error("a call that was not started has a source")
	}
}

func TestB211_RepairIsOnDiskBeforeTheAgentIsThere(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", "{}"), modeltest.Hang("partial")).Otherwise(modeltest.Text("ok")), withStore(t, nil), withTools(echo{})).create()
	w.do(func() { _ = w.a.Followup(msg("go")) })
	w.streaming("partial")
	path := w.a.Session().Path()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(filepath.Dir(path), "torn.jsonl")
	if err := os.WriteFile(torn, append(bytes.Clone(whole), `{"type":"assis`...), 0o600); err != nil {
		t.Fatal(err)
	}
	var a loop.Agent
	var rep *session.Report
	w.do(func() {
		o := w.options()
		o.Setup = func(x loop.Agent) error {
			raw, err := os.ReadFile(torn)
			if err != nil || !bytes.HasPrefix(raw, whole) || !strings.Contains(string(raw[len(whole):]), `"interrupted"`) {
				t.Errorf("on disk: %s", raw[min(len(whole), len(raw)):])
			}
			return nil
		}
		if a, rep, err = w.h.Resume("torn", o); err != nil {
			t.Fatal(err)
		}
		if a.Status() != loop.StatusIdle {
			t.Error("not idle")
		}
	})
	if rep.Torn == nil || rep.Torn.Bytes != 14 || rep.Closers != 2 || !rep.EndSeed {
		t.Errorf("%+v", rep)
	}
	w.a = a
	w.balanced()
	w.prompt("later")
	w.check(w.turns(), "turn/start 1\nturn/end 1 interrupted\nsession/end-seed\nturn/start 2\nturn/end 2 completed")
}

// The log of a run with everything in it is cut at each of its records, as a crash would:
// what is left is mended, and the conversation goes on from there.
func TestB204_to_B214_ACrashAtEveryRecord(t *testing.T) {
	w := newWorld(t, modeltest.New(
		modeltest.Say("two", modeltest.Call{ID: "a", Name: "safe", Arguments: "{}"}, modeltest.Call{ID: "b", Name: "safe", Arguments: "{}"}, modeltest.Call{ID: "c", Name: "echo", Arguments: `{"text":"x"}`}),
		modeltest.Fail("SERVER", "again"), modeltest.Tool("d", "nowhere", "{}"), modeltest.Text("done"),
		modeltest.Tool("a", "echo", "{}"), modeltest.Truncated("cut"), // ids may come again in another turn
		modeltest.Fail("UNKNOWN", "no"),
		modeltest.Hang("partial"),
	), withTools(echo{}, safe{}), withContext(func() string { return "now" }), func(c *loop.Config) {
		c.Retry = func(string) *loop.RetryPolicy {
			return &loop.RetryPolicy{MaxRetries: 1, Codes: []string{"SERVER"}}
		}
	}).create()
	w.do(func() {
		once := false
		loop.ToolsResult.On(w.h.Host, func(loop.PostPayload) error {
			if !once {
				once = true
				return w.a.Inject(msg("context"))
			}
			return nil
		})
	})
	w.prompt("one")
	w.prompt("two")
	w.prompt("three")
	w.do(func() { _ = w.a.Followup(msg("four")) })
	w.streaming("partial")
	w.do(func() { _ = w.a.Steer(msg("steered")); w.a.Cancel(byUser, loop.CancelOptions{KeepInbox: true}) })
	w.wait()
	recs := w.records()
	if n := len(loop.Turns(recs)); n != 4 {
		t.Fatalf("%d turns", n)
	}
	for cut := range len(recs) + 1 {
		checkCut(t, recs[:cut:cut])
	}
}

func checkCut(t *testing.T, recs []session.Record) {
	at := fmt.Sprintf("after %d records", len(recs))
	if len(recs) > 0 {
		at += " (" + describe(recs[len(recs)-1]) + ")"
	}
	w := newWorld(t, always("ok"), withTools(echo{}, safe{}))
	defer w.h.Stop()
	w.adopt(recs)
	w.balanced()
	before := len(loop.Turns(recs))
	var want string // what is pending, by a replay of our own
	w.do(func() {
		in := newInboxModel(w.records(), 0)
		got := texts(w.a.Inbox().NextStep()) + "/" + texts(w.a.Inbox().NextTurn())
		if want = texts(in.step) + "/" + texts(in.turn); got != want {
			t.Errorf("%s: pending %s, want %s", at, got, want)
		}
		if !reflect.DeepEqual(w.a.Session().Messages(), loop.DeriveMessages(w.records())) {
			t.Errorf("%s: another history", at)
		}
	})
	w.prompt("next")
	if got := loop.Turns(w.records()); len(got) <= before || got[before].Reason.Kind != loop.EndCompleted || got[before].Turn != before+1 {
		t.Errorf("%s: the next turn: %s", at, w.turns())
	}
	w.balanced()
	w.validRequests()
	// All requests, those of the log's first life too, can be made from the log alone.
	built, err := loop.Reconstruct(w.records())
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	sent := w.model.Requests()
	for i, r := range built {
		if err := validRequest(r); err != nil {
			t.Errorf("%s: request %d of the log: %v", at, i+1, err)
		}
	}
	for i, r := range sent {
		b := built[len(built)-len(sent)+i]
		b.SessionID = w.a.ID()
		x, _ := json.Marshal(b)
		y, _ := json.Marshal(r)
		if string(x) != string(y) {
			t.Errorf("%s: request %d:\nlog  %s\nsent %s", at, i+1, x, y)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}
