package loop_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
	"dshsh/session"
)

// validated opens a log in memory that holds records to the loop's rules.
func validated() *session.Log {
	return session.Memory(session.Header{ID: "v"}, session.Options{Validator: loop.NewValidator})
}

func TestB188_B191_TheEnvelopeOfWhatTheLoopWrites(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", "{}"), modeltest.Text("ok")), withTools(echo{})).create()
	w.prompt("go")
	chunks, calls := []int64{}, map[string]int64{}
	for i, r := range w.records() {
		surface := r.Type == loop.RecUserMessage || r.Type == loop.RecAssistant || r.Type == loop.RecToolResult
		if r.Seq != int64(i) || r.Time == 0 || (r.SurfaceOp != nil) != surface || !json.Valid(r.Data) {
			t.Errorf("%+v", r)
		}
		switch r.Type {
		case loop.RecChunk:
			chunks = append(chunks, r.Seq)
		case loop.RecAssistant:
			if !reflect.DeepEqual(r.SourceEventSeqs, chunks) {
				t.Errorf("sources %v, chunks %v", r.SourceEventSeqs, chunks)
			}
			chunks = []int64{}
		case loop.RecToolCall:
			d, _ := decoded[loop.ToolCallRecord](r, r.Type)
			calls[d.CallID] = r.Seq
		case loop.RecToolResult:
			d, _ := decoded[loop.ToolResultRecord](r, r.Type)
			if !reflect.DeepEqual(r.SourceEventSeqs, []int64{calls[d.Message.Source.CallID]}) {
				t.Errorf("sources %v of %s", r.SourceEventSeqs, r.Data)
			}
		default:
			if r.SourceEventSeqs != nil {
				t.Errorf("%s has sources", r.Type)
			}
		}
	}
}

func TestB189_MessagesThatAreNoJSON(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		bad := msg("x")
		bad.Content = append(bad.Content, model.Block{Type: model.BlockImage, Attachment: json.RawMessage(`{"a":`)})
		if err := w.a.Inject(bad); err == nil || len(w.records()) != 0 {
			t.Error(err)
		}
		// What is no UTF-8 is replaced, not refused: it came from a terminal or a file.
		_ = w.a.Inject(msg("a\xffb"))
		if got := texts(w.a.Inbox().NextStep()); got != "a\ufffdb" {
			t.Errorf("%q", got)
		}
	})
}

func TestB190_SurfaceMarkers(t *testing.T) {
	user := `{"id":"u","role":"user","content":[{"type":"text","text":"x"}],"source":{"kind":"user"}}`
	for _, tc := range []struct {
		typ, data string
		surface   bool
		want      string
	}{
		{loop.RecUserMessage, user, true, ""},
		{loop.RecUserMessage, user, false, "user/message needs a surfaceOp"},
		{loop.RecInboxSpliced, `{"target":"next-turn","start":0,"inserted":[]}`, false, ""},
		{loop.RecInboxSpliced, `{"target":"next-turn","start":0,"inserted":[]}`, true, "takes no surfaceOp"},
		{loop.RecTurnStart, `{"turn":1}`, true, "takes no surfaceOp"},
		{loop.RecUserMessage, `{"id":"u","role":"king","content":[],"source":{"kind":"user"}}`, true, "role"},
		{loop.RecUserMessage, `[]`, true, "cannot unmarshal"},
	} {
		l := validated()
		e := session.Entry{Type: tc.typ, Data: json.RawMessage(tc.data)}
		if tc.surface {
			e.SurfaceOp = &session.SurfaceOp{}
		}
		_, err := l.Append(e)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !errors.Is(err, session.Refused) || l.Len() != 0) {
			t.Errorf("%s, surface %v: %v", tc.typ, tc.surface, err)
		}
	}
}

func TestB194_DerivedHistory(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", `{"text":"r"}`), modeltest.Reply(model.NewFinish(model.FinishStop)), modeltest.Text("three")), withTools(echo{}), withContext(func() string { return "now" })).create()
	w.prompt("one")
	w.prompt("two")
	w.do(func() {
		m := w.a.Session().Messages()
		if got := texts(m); got != "one|"+contextText+"||r|two|three" {
			t.Errorf("%q", got) // the empty message of step 1.2 is not sent
		}
		if !reflect.DeepEqual(m, loop.DeriveMessages(w.records())) {
			t.Error("a replay gives another history")
		}
		held := w.a.Session().Messages()
		_ = append(held, msg("mine"))
		_ = w.a.Followup(msg("three"))
	})
	w.wait()
	if got := texts(w.a.Session().Messages()); strings.Contains(got, "mine") || !strings.HasSuffix(got, "three") {
		t.Error(got)
	}
}

const contextText = "Runtime context, as of now:\n\nnow"

func TestB194_AReplacementStandsForWhatItReplaces(t *testing.T) {
	l := validated()
	add := func(text string, op session.SurfaceOp) {
		t.Helper()
		data := fmt.Sprintf(`{"id":%q,"role":"user","content":[{"type":"text","text":%[1]q}],"source":{"kind":"user"}}`, text)
		if _, err := l.Append(session.Entry{Type: loop.RecUserMessage, Data: json.RawMessage(data), SurfaceOp: &op}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []string{"a", "b", "c", "d"} {
		add(s, session.SurfaceOp{})
	}
	add("B", session.SurfaceOp{Replace: true, Start: 1, End: 2})
	add("e", session.SurfaceOp{})
	if got := texts(loop.DeriveMessages(l.Records())); got != "a|B|d|e" {
		t.Error(got)
	}
	add("all", session.SurfaceOp{Replace: true, Start: 0, End: 5})
	if got := texts(loop.DeriveMessages(l.Records())); got != "all" {
		t.Error(got)
	}
}

// A call that a failing step left without a result would make every later request one
// that no provider takes.
func TestB194_AnUnansweredCallIsAnsweredForTheModel(t *testing.T) {
	w := vetoed(t, modeltest.New(modeltest.Tools(modeltest.Call{ID: "a", Name: "safe", Arguments: "{}"}, modeltest.Call{ID: "b", Name: "safe", Arguments: "{}"})).Otherwise(modeltest.Text("ok")),
		nth(loop.RecToolResult, 2), withTools(safe{}))
	w.prompt("one")
	w.prompt("two")
	w.prompt("three")
	w.validRequests()
	w.reconstruct()
	w.balanced()
	m := w.model.Last().Messages
	if m[3].Source.CallID != "b" || !m[3].Content[0].IsError || len(m) != 7 {
		t.Errorf("%d messages: %+v", len(m), m)
	}
	if !reflect.DeepEqual(w.a.Session().Messages(), loop.DeriveMessages(w.records())) {
		t.Error("a replay gives another history")
	}
}

func TestB195_NothingAppendsInsideASessionEventListener(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	var order []string
	w.do(func() {
		first := true
		loop.SessionEvent.On(w.h.Host, func(p loop.RecordPayload) error {
			order = append(order, "first "+p.Event.Type)
			if first {
				first = false
				n := len(w.records())
				if err := w.a.Inject(msg("inner")); err != nil {
					t.Error(err)
				}
				if len(w.records()) != n {
					t.Error("it was appended inside")
				}
			}
			return nil
		})
		loop.SessionEvent.On(w.h.Host, func(p loop.RecordPayload) error { order = append(order, "second "+p.Event.Type); return nil })
		_ = w.a.Inject(msg("outer"))
		if got := texts(w.a.Inbox().NextStep()); got != "outer|inner" {
			t.Error(got)
		}
	})
	w.check(strings.Join(order, "\n"), `
		first agent/inbox/spliced
		second agent/inbox/spliced
		first agent/inbox/spliced
		second agent/inbox/spliced`)
}

func TestB196_ARecordIsInTheLogWhenObserversHear(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		added := false
		loop.SessionEvent.On(w.h.Host, func(p loop.RecordPayload) error {
			recs := p.Session.Records()
			if last := recs[len(recs)-1]; last.Seq != p.Event.Seq || last.Type != p.Event.Type {
				t.Errorf("%s is not the last of the log", p.Event.Type)
			}
			if !added {
				added = true
				seq := p.Event.Seq
				loop.SessionEvent.On(w.h.Host, func(q loop.RecordPayload) error {
					if q.Event.Seq == seq {
						t.Error("an observer that came later hears it")
					}
					return nil
				})
			}
			return nil
		})
	})
	w.prompt("go")
}

func TestB197_B198_Seeds(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", "{}"), modeltest.Text("ok")), withTools(echo{})).create()
	w.prompt("go")
	recs, history := w.records(), w.a.Session().Messages()
	for range 2 { // opening it again adds nothing
		w2 := newWorld(t, always("ok"))
		w2.do(func() {
			loop.SessionEvent.On(w2.h.Host, func(p loop.RecordPayload) error { t.Errorf("%s was published", p.Event.Type); return nil })
		})
		w2.adopt(recs)
		got := w2.records()
		if n := len(w.records()); len(got) != n+1 || got[n].Type != loop.RecEndSeed || string(got[n].Data) != "{}" || !reflect.DeepEqual(got[:n], w.records()) {
			t.Errorf("%d records of %d", len(got), n)
		}
		if !reflect.DeepEqual(w2.a.Session().Messages(), history) {
			t.Error("another history")
		}
		recs = got
	}
	if w.logged(loop.RecEndSeed) != 0 {
		t.Error("a fresh session has an end of its seed")
	}
	bad := append([]session.Record{}, recs[1:]...)
	if _, _, err := session.MemoryFrom(session.Header{}, bad, session.Options{Validator: loop.NewValidator}); !errors.Is(err, session.Damaged) {
		t.Error(err)
	}
}

func TestB200_SessionsAreAnnouncedOnce(t *testing.T) {
	w := newWorld(t, always("ok"))
	w.lifecycleEvents()
	w.do(func() {
		// A disposal that is asked for while another is told of waits until that is over.
		loop.SessionDisposed.On(w.h.Host, func(p loop.SessionPayload) error {
			for _, a := range w.h.Agents() {
				_ = a.Dispose()
			}
			w.notes.note("told of %s", p.Session.ID())
			return nil
		}, runtime.Prepended())
	})
	a, b := w.agent(w.named("a")), w.agent(w.named("b"))
	w.do(func() {
		if _, err := w.h.Create(w.named("a")); !errors.Is(err, session.Exists) {
			t.Error(err)
		}
	})
	w.gone(a)
	w.gone(b)
	w.check(w.noted(), `
		session/created
		agent/created
		session/created
		agent/created
		agent/disposed
		told of a
		session/disposed
		agent/disposed
		told of b
		session/disposed`)
}

func TestB202_RelationsBetweenRecords(t *testing.T) {
	const open = "turn/start\nstep/start\nassistant/message c1\n"
	for _, tc := range []struct{ before, typ, data, want string }{
		{"turn/start", "turn/start", `{"turn":2}`, "while turn 1 is open"},
		{"", "turn/start", `{"turn":2}`, "turn 2 follows turn 0"},
		{"turn/start\nturn/end", "turn/start", `{"turn":1}`, "turn 1 follows turn 1"},
		{"turn/start\nturn/end", "turn/start", `{"turn":2}`, ""},
		{"", "step/start", `{"turn":1,"step":1}`, "but turn 0 is open"},
		{"turn/start", "step/start", `{"turn":2,"step":1}`, "but turn 1 is open"},
		{"turn/start", "step/start", `{"turn":1,"step":2}`, "step 2 starts after step 0"},
		{"turn/start\nstep/start", "step/start", `{"turn":1,"step":2}`, "(open: 1)"},
		{"turn/start\nstep/start\nstep/end", "step/start", `{"turn":1,"step":2}`, ""},
		{"turn/start", "step/end", `{"turn":1,"step":1}`, "open is turn 1 step 0"},
		{"turn/start", "assistant/chunk", `{"turn":1,"step":1,"chunk":{"type":"usage"}}`, "open is turn 1 step 0"},
		{"turn/start\nstep/start", "assistant/chunk", `{"turn":1,"step":2,"chunk":{"type":"usage"}}`, "open is turn 1 step 1"},
		{"turn/start\nstep/start", "assistant/chunk", `{"chunk":{"type":"usage"},"step":1,"turn":1}`, ""}, // in any order
		{"turn/start", "assistant/message", `{"turn":1,"step":1,"message":{}}`, "open is turn 1 step 0"},
		{"turn/start", "tool/call", `{"turn":1,"step":1,"callId":"c1"}`, "open is turn 1 step 0"},
		{"turn/start\nstep/start", "turn/end", `{"turn":1,"reason":{"kind":"completed"}}`, "step 1 is open"},
		{"turn/start", "turn/end", `{"turn":2,"reason":{"kind":"completed"}}`, "turn 1 is open"},
		{"", "turn/end", `{"turn":0,"reason":{"kind":"completed"}}`, "turn 0 is open"},
		{"turn/start", "turn/end", `{"turn":1,"reason":{}}`, "without a reason"},
		{open, "tool/result", result("c1", ""), "has not started"},
		{open, "tool/result", result("c1", "TOOL_NOT_STARTED"), ""},
		{open + "tool/call c1", "tool/result", result("c1", ""), ""},
		{open + "tool/call c1\ntool/result c1", "tool/result", result("c1", ""), "a second"},
		{open + "tool/call c1", "tool/result", `{"turn":1,"step":1,"message":{"id":"r","role":"user","content":[],"source":{"kind":"tool","callId":"c1"}}}`, "one result block"},
		{open + "tool/call c1\nstep/end", "tool/result", result("c1", ""), "open is turn 1 step 0"},
		{open + "tool/call c1", "step/end", `{"turn":1,"step":1}`, ""}, // calls left unresolved are allowed
		{"", "request/header", `{"header":{},"reason":"initial"}`, "outside a turn"},
		{"", "request/context", `{}`, "outside a turn"},
		{"", "todo/write", `{"todos":[]}`, "outside a turn"},
		{"turn/start", "todo/write", `{"todos":[]}`, ""},
		{"", "agent/inbox/spliced", `{"target":"next-turn","start":0,"inserted":[]}`, ""},
		{"turn/start", "script/state", `{"script":"a/b.js","patch":{"n":1,"m":null}}`, ""},
		{"", "script/state", `{"script":"a/b.js","patch":{}}`, ""},
		{"", "script/state", `{"patch":{}}`, "does not say whose"},
		{"", "script/state", `{"script":"a/b.js"}`, "without a patch"},
		{"", "script/state", `{"script":"a/b.js","patch":[1]}`, "cannot unmarshal"},
		{"", "turn/start", `[]`, "cannot unmarshal"},
		{"turn/start", "step/start", `"x"`, "cannot unmarshal"},
	} {
		v := loop.NewValidator()
		var recs []session.Record
		if tc.before != "" {
			recs = logOf(t, strings.Split(strings.TrimSpace(tc.before), "\n")...)
		}
		for _, r := range recs {
			v.Commit(r)
		}
		r := session.Record{Type: tc.typ, Seq: int64(len(recs)), Data: json.RawMessage(tc.data)}
		if tc.typ == loop.RecAssistant || tc.typ == loop.RecToolResult {
			r.SurfaceOp = &session.SurfaceOp{}
		}
		err := v.Check(r)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("after %q: %s %s: got %v, want %q", tc.before, tc.typ, tc.data, err, tc.want)
		}
		if again := v.Check(r); fmt.Sprint(again) != fmt.Sprint(err) {
			t.Errorf("%s %s: Check changed something: %v", tc.typ, tc.data, again)
		}
	}
}

func result(id, code string) string {
	info := ""
	if code != "" {
		info = fmt.Sprintf(`,"error":{"name":"E","code":%q}`, code)
	}
	return fmt.Sprintf(`{"turn":1,"step":1,"message":{"id":"r","role":"user","content":[{"type":"tool-result","toolCallId":%q,"content":[]}],"source":{"kind":"tool","callId":%[1]q}}%s}`, id, info)
}

func TestB203_UnknownRecords(t *testing.T) {
	l := validated()
	if _, err := l.Append(session.Entry{Type: "future/thing", Data: json.RawMessage("{}")}); err == nil || !strings.Contains(err.Error(), "a newer dshsh") {
		t.Error(err)
	}
	if _, err := l.Append(session.Entry{Type: "future/thing", Data: json.RawMessage("{}"), Ignorable: true}); err != nil {
		t.Error(err)
	}
	unknown := []session.Record{{Type: "future/thing", Data: json.RawMessage("{}")}}
	if _, _, err := session.MemoryFrom(session.Header{}, unknown, session.Options{Validator: loop.NewValidator}); !errors.Is(err, session.Damaged) {
		t.Error(err)
	}
}
