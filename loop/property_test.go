package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/runtime"
	"dshsh/session"
)

// A random conversation: prompts from outside, and at random calls of random listeners a
// random deed. Every deed happens at a point that the driver passes in a fixed order, so
// a seed (-rapid.seed) plays the same again. Whatever was done, what must hold of the log
// and the agent holds each time that the agent is idle.
func TestProperty_TheLogTellsWhatHappened(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newConversation(rt)
		defer c.h.Stop()
		for i := range rapid.IntRange(1, 6).Draw(rt, "prompts") {
			c.fromOutside(i)
			c.idle()
		}
		// From here on nothing interferes, and the agent must be as good as new.
		c.calm.Store(true)
		c.do(func() { c.veto = 0 })
		before := len(loop.Turns(c.records()))
		c.do(func() { c.expect(c.a.Followup(msg("at last"))) })
		c.idle()
		if turns := loop.Turns(c.records()); len(turns) == before || turns[before].Reason.Kind != loop.EndCompleted && turns[before].Reason.Kind != loop.EndInterrupted {
			rt.Fatalf("the first turn after all: %+v", turns[before:])
		}
		if v := c.accepted(); !v.(session.Boundary).Closed() || len(v.Closers()) != 0 {
			rt.Fatalf("a turn is open")
		}
		recs := c.records()
		if err := opensCut(recs[:rapid.IntRange(0, len(recs)).Draw(rt, "cut")]); err != nil {
			rt.Fatal(err)
		}
	})
}

// deed is what one call of a listener does besides passing on.
type deed struct {
	Kind  string
	N     int  // which message, which place, how many records later
	First bool // before it passes on
	Keep  bool // of a cancel
}

var deeds = []string{
	"nothing", "nothing", "nothing", "nothing", "nothing", "nothing", "answer", "answer", "answer",
	"followup", "steer", "inject", "park", "cancel", "cancel elsewhere", "append", "prepend", "replace", "remove", "splice", "clear",
	"throw", "veto", "whenIdle", "maintenance", "model", "cap",
}

func genDeed(rt *rapid.T) deed {
	return deed{rapid.SampledFrom(deeds).Draw(rt, "kind"), rapid.IntRange(0, 5).Draw(rt, "n"), rapid.Bool().Draw(rt, "first"), rapid.Bool().Draw(rt, "keep")}
}

// reply is a scripted answer of the model.
type reply struct {
	Kind  string
	Calls []string // the tools that it calls
}

func genReply(rt *rapid.T) reply {
	r := reply{Kind: rapid.SampledFrom([]string{"text", "calls", "calls", "calls", "cut", "empty", "again", "fail", "hang"}).Draw(rt, "reply")}
	if r.Kind == "calls" {
		r.Calls = rapid.SliceOfN(rapid.SampledFrom([]string{"echo", "safe", "safe", "failing", "nowhere", "conclude"}), 1, 4).Draw(rt, "calls")
	}
	return r
}

func (r reply) answer() modeltest.Answer {
	switch r.Kind {
	case "calls":
		var calls []modeltest.Call
		for i, name := range r.Calls {
			calls = append(calls, modeltest.Call{ID: fmt.Sprint("c", i), Name: name, Arguments: `{"text":"r"}`})
		}
		return modeltest.Say("", calls...)
	case "cut":
		return modeltest.Truncated("cut")
	case "empty":
		return modeltest.Reply(model.NewFinish(model.FinishStop))
	case "again":
		return modeltest.Fail("SERVER", "again")
	case "fail":
		return modeltest.Fail("UNKNOWN", "no")
	case "hang":
		return modeltest.Hang(partial)
	}
	return modeltest.Text("ok")
}

const partial = "part"

// conversation is one run. Used on its host's thread, but for rt.
type conversation struct {
	rt    *rapid.T
	h     *loop.Host
	a     loop.Agent
	model *modeltest.Provider
	plan  map[string][]deed // by event
	calm  atomic.Bool       // no more deeds
	made  int               // messages
	veto  int               // the record that is refused, counted from now; 0 = none
	wrong string            // the first thing that must not be
	trail []string

	aborted bool   // a cancel has hit the running turn, which has not ended yet
	owed    []wake // what was sent behind it
	vetoes  int    // so far

	pending  map[string]bool // ids, by the live events
	status   string
	starting map[int]int // turn -> agent/turn-starting
	aborting map[int]int
	ended    map[int]int
}

func newConversation(rt *rapid.T) *conversation {
	c := &conversation{rt: rt, status: loop.StatusIdle, plan: map[string][]deed{}, pending: map[string]bool{},
		starting: map[int]int{}, aborting: map[int]int{}, ended: map[int]int{}}
	for _, e := range loop.Catalogue().Events() {
		c.plan[e.Name] = rapid.SliceOfN(rapid.Custom(genDeed), 0, 4).Draw(rt, e.Name)
	}
	replies := rapid.SliceOfN(rapid.Custom(genReply), 0, 8).Draw(rt, "replies")
	var next atomic.Int64
	c.model = modeltest.New().Otherwise(modeltest.Func(func(context.Context, *model.Request) modeltest.Answer {
		if n := next.Add(1); int(n) <= len(replies) && !c.calm.Load() {
			return replies[n-1].answer()
		}
		return modeltest.Text("ok")
	}))
	var err error
	if c.h, err = loop.New(loop.Config{
		Providers: []model.Provider{c.model}, Tools: []tool.Tool{echo{}, safe{}, odd("failing"), odd("conclude")},
		Retry: func(string) *loop.RetryPolicy {
			return &loop.RetryPolicy{MaxRetries: 1, Codes: []string{"SERVER"}}
		},
		Thread: runtime.ThreadOptions{Debug: true}, Caps: loop.Caps{Continuations: 3},
	}); err != nil {
		rt.Fatal(err)
	}
	started := make(chan struct{})
	c.do(func() {
		loop.AgentSessionStart.On(c.h.Host, func(loop.SessionStartPayload) error { close(started); return nil })
		log := session.Memory(session.Header{ID: "p"}, session.Options{Validator: func() session.Validator { return veto{loop.NewValidator(), c.refuse} }})
		if c.a, err = c.h.Adopt(log, loop.CreateOptions{Options: loop.Options{Provider: "fake", Model: "m"}}); err != nil {
			rt.Fatal(err)
		}
		c.watch()
		c.listen()
	})
	<-started
	return c
}

// odd is a tool that fails, or concludes the turn.
type odd string

func (o odd) Spec() model.ToolSpec {
	return model.ToolSpec{Name: string(o), Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (o odd) Execute(_ context.Context, _ json.RawMessage, x *tool.Exec) (tool.Result, error) {
	x.DeferContext(msg("deferred"))
	if o == "failing" {
		return tool.Result{}, errThrown
	}
	x.ConcludeTurn()
	return tool.TextResult("concluded"), nil
}

var errThrown = errors.New("thrown")

func (c *conversation) do(fn func()) {
	c.rt.Helper()
	if err := c.h.Do(context.Background(), fn); err != nil {
		c.rt.Fatal(err)
	}
}

func (c *conversation) records() []session.Record { return c.a.Session().Records() }

// fail notes what must not be. Listeners cannot end the test: their panics are contained.
func (c *conversation) fail(format string, args ...any) {
	if c.wrong == "" {
		c.wrong = fmt.Sprintf(format, args...)
	}
}

// expect takes the errors that a deed may come to.
func (c *conversation) expect(err error) {
	if err != nil && !errors.Is(err, errVeto) && !strings.Contains(err.Error(), "already has active work") {
		c.fail("unexpected error: %v", err)
	}
}

func (c *conversation) refuse(session.Record) error {
	if c.veto > 0 {
		if c.veto--; c.veto == 0 {
			c.vetoes++
			return errVeto
		}
	}
	return nil
}

func (c *conversation) message() model.Message {
	c.made++
	return withID(fmt.Sprint("x", c.made), fmt.Sprint("x", c.made))
}

// take gives what is planned for this call.
func (c *conversation) take(event string) deed {
	if plan := c.plan[event]; len(plan) > 0 && !c.calm.Load() {
		c.plan[event] = plan[1:]
		if d := plan[0]; d.Kind != "nothing" {
			c.trail = append(c.trail, fmt.Sprintf("%s: %+v", event, d))
			return d
		}
	}
	return deed{Kind: "nothing"}
}

// perform does a deed, on the thread. The error is a throw.
func (c *conversation) perform(d deed) error {
	b := c.a.Inbox()
	target := loop.NextTurn
	if d.N%2 == 0 {
		target = loop.NextStep
	}
	waiting := append(b.NextStep(), b.NextTurn()...)
	one := "none"
	if len(waiting) > 0 {
		one = waiting[d.N%len(waiting)].ID
	}
	var err error
	switch d.Kind {
	case "followup":
		err = c.wake(c.a.Followup)
	case "steer":
		err = c.wake(c.a.Steer)
	case "inject":
		err = c.a.Inject(c.message())
	case "park":
		err = c.a.Send(c.message(), target, false)
	case "cancel":
		c.cancelled()
		c.a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{KeepInbox: d.Keep})
	case "cancel elsewhere":
		c.cancelled()
		c.cancelElsewhere(d.Keep)
	case "append":
		err = b.Append(target, c.message())
	case "prepend":
		err = b.Prepend(target, c.message())
	case "replace":
		_, err = b.Replace(one, c.message())
	case "remove":
		_, err = b.Remove(one)
	case "splice":
		_, err = b.Splice(target, d.N-3, d.N/2, c.message())
	case "clear":
		err = b.Clear()
	case "veto":
		c.veto = d.N + 1
	case "model":
		c.a.SetModel("fake", fmt.Sprint("m", d.N))
	case "cap":
		err = c.h.SetParallel(d.N + 1)
	case "whenIdle":
		var cycle *runtime.CycleError
		switch werr := c.a.WhenIdle(context.Background()); {
		case werr == nil:
			err = c.a.RunMaintenance(func(context.Context) error { return nil })
		case !errors.Is(werr, runtime.ErrCannotWait) && !errors.As(werr, &cycle):
			err = werr
		}
	case "maintenance":
		err = c.a.RunMaintenance(func(ctx context.Context) error {
			if c.a.Status() != loop.StatusIdle {
				c.fail("%s during maintenance", c.a.Status())
			}
			return c.a.Followup(c.message())
		})
	case "throw":
		return errThrown
	}
	c.expect(err)
	return nil
}

// wake is a message that must not stay behind: it was to wake the agent while an aborted
// turn was still ending.
type wake struct {
	id     string
	at     int // records before it
	vetoes int
}

func (c *conversation) cancelled() {
	c.aborted = c.a.Status() == loop.StatusRunning
	c.owed = nil // dropped, or parked
}

// wake sends what is to wake the agent. What that means is decided before anybody hears
// of the message (B019).
func (c *conversation) wake(send func(model.Message) error) error {
	m, behind := c.message(), c.aborted
	err := send(m)
	if err == nil && behind {
		c.owed = append(c.owed, wake{m.ID, len(c.records()), c.vetoes})
	}
	return err
}

// checkWakes: what was sent behind an abort has begun a turn, unless it is gone or the
// log took no turn/start.
func (c *conversation) checkWakes(recs []session.Record) {
	for _, w := range c.owed {
		begun := slices.ContainsFunc(recs[w.at:], func(r session.Record) bool { return r.Type == loop.RecTurnStart })
		if !begun && c.pending[w.id] && c.vetoes == w.vetoes {
			c.fail("%s was sent behind an abort and never woke the agent", w.id)
		}
	}
	c.owed, c.aborted = nil, false
}

// cancelElsewhere cancels from another goroutine and does not wait for the thread.
func (c *conversation) cancelElsewhere(keep bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.a.Cancel(loop.Cause{Kind: loop.CauseParent}, loop.CancelOptions{KeepInbox: keep})
	}()
	<-done
}

// fromOutside is what a person or a program does.
func (c *conversation) fromOutside(i int) {
	d := deed{Kind: rapid.SampledFrom([]string{"followup", "followup", "followup", "steer", "inject", "cancel", "maintenance", "clear"}).Draw(c.rt, "outside")}
	more := rapid.IntRange(0, 3).Draw(c.rt, "more")
	c.do(func() {
		c.trail = append(c.trail, fmt.Sprintf("-- %d: %s, %d more", i, d.Kind, more))
		_ = c.perform(d)
		for range more {
			_ = c.perform(deed{Kind: "followup"})
		}
	})
}

// idle waits until the agent is, and looks at everything. What hangs it cancels.
func (c *conversation) idle() {
	c.rt.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	idle := make(chan error, 1)
	go func() {
		_ = c.h.Do(context.Background(), func() {
			err := c.a.WhenIdle(ctx)
			if err == nil {
				c.check()
			}
			idle <- err
		})
	}()
	hangs := make(chan struct{})
	go func() {
		for c.model.WaitHanging(ctx) == nil {
			select {
			case hangs <- struct{}{}:
			case <-ctx.Done():
			}
		}
		close(hangs)
	}()
	for {
		select {
		case err := <-idle:
			cancel()
			for range hangs {
			}
			if err != nil {
				c.fail("waiting for idle: %v", err)
			}
			if c.wrong != "" {
				c.rt.Fatalf("%s\ndeeds:\n%s\nlog:\n%s", c.wrong, strings.Join(c.trail, "\n"), c.log())
			}
			return
		case <-hangs:
			c.endHanging()
		}
	}
}

// endHanging cancels a reply that hangs once the log has what came of it.
func (c *conversation) endHanging() {
	for c.model.Stats().Hanging > 0 {
		c.do(func() {
			var b strings.Builder
			for _, r := range c.records() {
				switch d, ok := decoded[loop.ChunkRecord](r, loop.RecChunk); {
				case ok:
					b.WriteString(d.Chunk.Text)
				case r.Type == loop.RecStepStart:
					b.Reset()
				}
			}
			if strings.HasSuffix(b.String(), partial) {
				c.cancelled()
				c.a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{KeepInbox: true})
			}
		})
		time.Sleep(50 * time.Microsecond) // lets the reader of the stream see it
	}
}

func (c *conversation) log() string {
	var out []string
	for _, r := range c.records() {
		if r.Type != loop.RecChunk {
			out = append(out, describe(r))
		}
	}
	return strings.Join(out, "\n")
}

// check is what must hold whenever the agent is idle.
func (c *conversation) check() {
	recs := c.records()
	if c.a.Status() != loop.StatusIdle || c.status != loop.StatusIdle {
		c.fail("idle, but %s (listeners were told %s)", c.a.Status(), c.status)
	}
	if err := c.a.RunMaintenance(func(context.Context) error { return nil }); err != nil {
		c.fail("idle, but %v", err)
	}
	c.accepted()
	in := newInboxModel(recs, 0)
	b := c.a.Inbox()
	if !reflect.DeepEqual(append([]model.Message{}, in.turn...), b.NextTurn()) || !reflect.DeepEqual(append([]model.Message{}, in.step...), b.NextStep()) {
		c.fail("the inbox is not what its records say")
	}
	ids := map[string]bool{}
	for _, m := range append(b.NextStep(), b.NextTurn()...) {
		ids[m.ID] = true
	}
	if !reflect.DeepEqual(ids, c.pending) {
		c.fail("pending are %v, but listeners were told of %v", ids, c.pending)
	}
	if !reflect.DeepEqual(c.a.Session().Messages(), loop.DeriveMessages(recs)) {
		c.fail("the history is not what the log says")
	}
	c.checkWakes(recs)
	c.checkTurns(recs)
	c.checkRequests(recs)
}

// accepted runs the whole log through the validator.
func (c *conversation) accepted() session.Validator {
	v := loop.NewValidator()
	for _, r := range c.records() {
		if err := v.Check(r); err != nil {
			c.fail("record %d (%s): %v", r.Seq, r.Type, err)
		}
		v.Commit(r)
	}
	return v
}

func (c *conversation) checkTurns(recs []session.Record) {
	steps := map[int]bool{}
	for _, r := range recs {
		if d, ok := decoded[loop.StepMark](r, loop.RecStepStart); ok {
			steps[d.Turn] = true
		}
	}
	for _, s := range loop.Turns(recs) {
		own := s.End >= 0 && s.Reason.Kind != loop.EndInterrupted // told by its turn, not by the one that mended it
		switch n := s.Turn; {
		case c.starting[n] > 1 || steps[n] && c.starting[n] != 1:
			c.fail("turn %d: %d agent/turn-starting", n, c.starting[n])
		case own && c.ended[n] != 1 || !own && c.ended[n] != 0:
			c.fail("turn %d: %d agent/turn-end", n, c.ended[n])
		case own && (s.Reason.Kind == loop.EndAborted) != (c.aborting[n] == 1) || c.aborting[n] > 1:
			c.fail("turn %d: %d agent/turn-aborting, it ended %s", n, c.aborting[n], s.Reason.Kind)
		}
	}
}

// checkRequests holds what the model was sent against the log. An attempt that never came
// to a recorded chunk leaves no trace.
func (c *conversation) checkRequests(recs []session.Record) {
	built, err := loop.Reconstruct(recs)
	if err != nil {
		c.fail("%v", err)
	}
	for i, r := range c.model.Requests() {
		if err := validRequest(r); err != nil {
			c.fail("request %d: %v", i+1, err)
		}
		if len(built) == 0 {
			continue
		}
		built[0].SessionID = c.a.ID()
		x, _ := json.Marshal(built[0])
		y, _ := json.Marshal(r)
		if slices.Equal(x, y) {
			built = built[1:]
		}
	}
	if len(built) > 0 {
		x, _ := json.Marshal(built[0])
		c.fail("%d requests of the log were never sent, the first is %s", len(built), x)
	}
}
