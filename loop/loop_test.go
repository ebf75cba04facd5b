package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/runtime"
	"dshsh/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, regexpClock) }

// regexpClock is a goroutine of the regular expressions of JavaScript, which ends by
// itself some time after the last use.
var regexpClock = goleak.IgnoreAnyFunction("github.com/dlclark/regexp2/v2.runClock")

// world is a host with one agent and what the tests look at.
type world struct {
	t     *testing.T
	h     *loop.Host
	a     loop.Agent
	model *modeltest.Provider
	notes *notes
	tick  chan struct{}
}

// notes collects notices.
type notes struct {
	loop.NoNotices
	failures    []runtime.Failure
	quarantined []string
	capped      []string
	logged      []string
}

func (n *notes) Failed(f runtime.Failure) { n.failures = append(n.failures, f) }
func (n *notes) Quarantined(in *runtime.Instance, err error) {
	n.quarantined = append(n.quarantined, in.ID+": "+err.Error())
}
func (n *notes) Capped(_ loop.Agent, line string) { n.capped = append(n.capped, line) }
func (n *notes) Logged(_ *runtime.Instance, level, text string) {
	n.logged = append(n.logged, text)
}

// newWorld makes a host with a scripted model. change may adjust the configuration.
func newWorld(t *testing.T, p *modeltest.Provider, change ...func(*loop.Config)) *world {
	t.Helper()
	w := &world{t: t, model: p, notes: &notes{}}
	cfg := loop.Config{Providers: []model.Provider{p}, Notices: w.notes, Retry: func(string) *loop.RetryPolicy { return nil }, Thread: runtime.ThreadOptions{Debug: true}}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if w.h, err = loop.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.h.Stop)
	w.tick = make(chan struct{}, 1)
	w.do(func() {
		loop.SessionEvent.On(w.h.Host, func(loop.RecordPayload) error {
			select {
			case w.tick <- struct{}{}:
			default:
			}
			return nil
		})
	})
	return w
}

// until waits for cond, which is asked on the thread after each record.
func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		ok := false
		w.do(func() { ok = cond() })
		if ok {
			return
		}
		select {
		case <-w.tick:
		case <-deadline:
			w.t.Fatalf("never %s:\n%s", what, strings.Join(w.types(), "\n"))
		}
	}
}

// logged counts records of a type.
func (w *world) logged(typ string) (n int) {
	for _, r := range w.records() {
		if r.Type == typ {
			n++
		}
	}
	return n
}

func (w *world) create() *world {
	w.t.Helper()
	w.do(func() {
		var err error
		w.a, err = w.h.Create(loop.CreateOptions{Options: loop.Options{Provider: w.model.Name(), Model: "m"}})
		if err != nil {
			w.t.Error(err)
		}
	})
	if w.a == nil {
		w.t.FailNow()
	}
	return w
}

func (w *world) do(fn func()) {
	w.t.Helper()
	if err := w.h.Do(context.Background(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// prompt sends and waits until idle.
func (w *world) prompt(text string) {
	w.t.Helper()
	w.do(func() {
		if err := w.a.Followup(loop.UserMessage(text)); err != nil {
			w.t.Error(err)
		}
	})
	w.wait()
}

func (w *world) wait() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	w.do(func() {
		if err := w.a.WhenIdle(ctx); err != nil {
			w.t.Errorf("waiting for idle: %v\n%s", err, strings.Join(w.types(), "\n"))
		}
	})
}

func (w *world) records() []session.Record { return w.a.Session().Records() }

// types lists the record types, turn and step marks with their numbers and reasons.
func (w *world) types() []string {
	var out []string
	for _, r := range w.records() {
		out = append(out, describe(r))
	}
	return out
}

func describe(r session.Record) string {
	switch r.Type {
	case loop.RecTurnStart:
		var d loop.TurnStart
		_ = json.Unmarshal(r.Data, &d)
		return fmt.Sprintf("%s %d", r.Type, d.Turn)
	case loop.RecTurnEnd:
		var d loop.TurnEnd
		_ = json.Unmarshal(r.Data, &d)
		s := fmt.Sprintf("%s %d %s", r.Type, d.Turn, d.Reason.Kind)
		if d.Reason.Reason != nil {
			s += "/" + d.Reason.Reason.Kind
		}
		if d.Reason.Error != nil {
			s += fmt.Sprintf(" %s %q", d.Reason.Error.Code, d.Reason.Error.Message)
		}
		return s
	case loop.RecStepStart, loop.RecStepEnd:
		var d loop.StepMark
		_ = json.Unmarshal(r.Data, &d)
		return fmt.Sprintf("%s %d.%d", r.Type, d.Turn, d.Step)
	}
	return r.Type
}

// skeleton is types without what a test about order does not need.
func (w *world) skeleton(drop ...string) string {
	var out []string
next:
	for _, s := range w.types() {
		for _, d := range append(drop, loop.RecChunk, loop.RecRequestHeader, loop.RecRequestContext, loop.RecGeneration) {
			if strings.HasPrefix(s, d) {
				continue next
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

func (w *world) check(got, want string) {
	w.t.Helper()
	want = strings.TrimSpace(strings.ReplaceAll(want, "\t", ""))
	if got != want {
		w.t.Errorf("got:\n%s\n\nwant:\n%s", got, want)
	}
}

// echo is a tool that gives back its text.
type echo struct {
	body func(ctx context.Context, x *tool.Exec)
}

func (echo) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "echo", Description: "Gives back its text.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)}
}

func (e echo) Execute(ctx context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	if e.body != nil {
		e.body(ctx, x)
	}
	var a struct{ Text string }
	_ = json.Unmarshal(args, &a)
	return tool.TextResult(a.Text), nil
}

func withTools(tools ...tool.Tool) func(*loop.Config) {
	return func(c *loop.Config) { c.Tools = tools }
}

func TestB001_MinimalTextTurn(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Text("hello there"))).create()
	w.prompt("hi")
	types := w.types()
	chunks := 0
	var rest []string
	for _, s := range types {
		if s == loop.RecChunk {
			chunks++
			continue
		}
		rest = append(rest, s)
	}
	w.check(strings.Join(rest, "\n"), `
		agent/inbox/spliced
		turn/start 1
		agent/inbox/spliced
		step/start 1.1
		user/message
		request/header
		request/context
		assistant/message
		step/end 1.1
		turn/end 1 completed`)
	if chunks < 5 {
		t.Errorf("%d chunk records", chunks)
	}
	for i, r := range w.records() {
		if r.Seq != int64(i) {
			t.Errorf("record %d has seq %d", i, r.Seq)
		}
		if r.Type == loop.RecAssistant && len(r.SourceEventSeqs) != chunks {
			t.Errorf("assistant/message names %d chunks of %d", len(r.SourceEventSeqs), chunks)
		}
	}
}

func TestB003_WakeIsSynchronousUpToTheClaim(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Text("x"))).create()
	w.do(func() {
		if err := w.a.Followup(loop.UserMessage("hi")); err != nil {
			t.Error(err)
		}
		if w.a.Status() != loop.StatusRunning || w.a.Inbox().HasPending() {
			t.Errorf("status %s, pending %v", w.a.Status(), w.a.Inbox().HasPending())
		}
		w.check(w.skeleton(), "agent/inbox/spliced\nturn/start 1\nagent/inbox/spliced")
	})
	w.wait()
}

func TestB004_OnePromptPerTurnInOrder(t *testing.T) {
	w := newWorld(t, modeltest.New().Otherwise(modeltest.Text("ok"))).create()
	var statuses []string
	w.do(func() {
		loop.AgentStatus.On(w.h.Host, func(p loop.StatusPayload) error { statuses = append(statuses, p.Status); return nil })
		for i := range 5 {
			_ = w.a.Followup(loop.UserMessage(fmt.Sprint("p", i)))
		}
	})
	w.wait()
	var texts []string
	for _, m := range w.a.Session().Messages() {
		if m.Role == model.RoleUser {
			texts = append(texts, model.PlainText(m.Content))
		}
	}
	if got := strings.Join(texts, " "); got != "p0 p1 p2 p3 p4" {
		t.Error(got)
	}
	if got := strings.Join(statuses, " "); got != "running idle" {
		t.Error(got)
	}
}

func TestB129_ToolRoundTrip(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", `{"text":"ping"}`), modeltest.Text("done")), withTools(echo{})).create()
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
		assistant/message
		step/end 1.2
		turn/end 1 completed`)
	if got := w.model.Last().Messages; model.PlainText(got[len(got)-1].Content) != "ping" {
		t.Errorf("the model got %+v", got[len(got)-1])
	}
}

func TestB038_CancelMidStream(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Hang("partial"), modeltest.Text("later"))).create()
	w.do(func() { _ = w.a.Followup(loop.UserMessage("go")) })
	w.streaming("partial")
	w.a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
	w.wait()
	w.check(w.skeleton("agent/inbox"), `
		turn/start 1
		step/start 1.1
		user/message
		assistant/message
		step/end 1.1
		turn/end 1 aborted/user`)
	w.prompt("again")
	var got []string
	for _, m := range w.model.Last().Messages {
		got = append(got, model.PlainText(m.Content))
	}
	if strings.Join(got, "|") != "go|partial|again" {
		t.Error(got)
	}
}

// streaming waits until a reply hangs and what came of it is in the log.
func (w *world) streaming(partial string) {
	w.t.Helper()
	w.until("streamed "+partial, func() bool {
		var b strings.Builder
		for _, r := range w.records() {
			var d loop.ChunkRecord
			if r.Type == loop.RecChunk && json.Unmarshal(r.Data, &d) == nil {
				b.WriteString(d.Chunk.Text)
			}
		}
		return strings.HasSuffix(b.String(), partial)
	})
}
