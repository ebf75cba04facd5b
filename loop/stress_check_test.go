package loop_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/session"
)

// watch subscribes what the test itself listens to: Go listeners, which are outermost.
func (s *storm) watch() {
	live := func(a loop.Agent, fn func(l *liveAgent)) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l := s.live[a.ID()]; l != nil {
			fn(l)
		}
		return nil
	}
	s.do(func() {
		h := s.h.Host
		loop.SessionEvent.On(h, func(p loop.RecordPayload) error {
			s.records.Add(1)
			if p.Event.Type == loop.RecTurnStart {
				var t loop.TurnStart
				_ = json.Unmarshal(p.Event.Data, &t)
				s.mu.Lock()
				s.counts["turns begun"]++
				s.turns[p.Agent.ID()] = t.Generation
				s.mu.Unlock()
			}
			return nil
		})
		loop.AgentStatus.On(h, func(p loop.StatusPayload) error {
			return live(p.Agent, func(l *liveAgent) {
				if l.status == p.Status {
					s.faultLocked("%s is told to be %s twice", p.Agent.ID(), p.Status)
				}
				l.status = p.Status
			})
		})
		loop.InboxInserted.On(h, func(p loop.InboxPayload) error {
			return live(p.Agent, func(l *liveAgent) { l.inbox[p.Message.ID]++ })
		})
		loop.InboxClaimed.On(h, func(p loop.InboxPayload) error {
			return live(p.Agent, func(l *liveAgent) { l.inbox[p.Message.ID]-- })
		})
		loop.InboxDiscarded.On(h, func(p loop.InboxPayload) error {
			return live(p.Agent, func(l *liveAgent) { l.inbox[p.Message.ID]-- })
		})
		loop.TurnStarted.On(h, func(p loop.TurnPayload) error {
			return live(p.Agent, func(l *liveAgent) { l.started[p.Turn]++ })
		})
		loop.TurnEnded.On(h, func(p loop.TurnEndPayload) error {
			return live(p.Agent, func(l *liveAgent) { l.ended[p.Turn]++ })
		})
		loop.TurnAborting.On(h, func(p loop.AbortPayload) error {
			return live(p.Agent, func(l *liveAgent) { l.aborting[p.Turn]++ })
		})
		loop.AgentError.On(h, func(p loop.ErrorPayload) error {
			if !expected(p.Error.Error()) {
				s.fault("agent/error %s %d.%d: %v", p.Agent.ID(), p.Turn, p.Step, p.Error)
			}
			return live(p.Agent, func(l *liveAgent) {
				if !strings.Contains(p.Error.Error(), "agent/turn-aborting") {
					l.errors[p.Turn]++
				}
			})
		})
		loop.LLMStream.On(h, func(p loop.StreamPayload, next func(loop.StreamPayload) (*loop.Reply, error)) (*loop.Reply, error) {
			sum := requestSum(p.Request)
			_ = live(p.Agent, func(l *liveAgent) { l.requests = append(l.requests, sum) })
			return next(p)
		})
		loop.ToolsResult.On(h, func(p loop.PostPayload) error {
			var pl plan
			if json.Unmarshal(p.Arguments, &pl) == nil {
				if x := foreign(model.PlainText(p.Result.Content), pl.N); x != "" {
					s.fault("tools/result of %s speaks of %s", pl.N, x)
				}
			}
			return nil
		})
		// A Go hook that waits, also for its own agent, which can never end.
		loop.PreStep.On(h, func(p loop.PreStepPayload, next func(loop.PreStepPayload) (loop.StepDecision, error)) (loop.StepDecision, error) {
			if a := s.pick(); s.dice(8) == 0 {
				err := a.WhenIdle(p.Signal.Context())
				switch {
				case err == nil && a.Status() != loop.StatusIdle:
					s.fault("whenIdle in a hook: %s is %s", a.ID(), a.Status())
				case err == nil && a == p.Agent:
					s.fault("%s was idle while its own hook waited", a.ID())
				case err != nil && !expected(err.Error()):
					s.fault("whenIdle in a hook: %v", err)
				}
			}
			return next(p)
		})
	})
}

// born is the agent's Setup.
func (s *storm) born(a loop.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agents[a.ID()] = a
	s.live[a.ID()] = &liveAgent{inbox: map[string]int{}, status: loop.StatusIdle, started: map[int]int{}, ended: map[int]int{}, aborting: map[int]int{}, errors: map[int]int{}}
}

// checkInbox: the inbox is what the log makes of it, and what the live events told. On
// the thread.
func (s *storm) checkInbox(a loop.Agent, turn, step []string) {
	lists := map[string][]string{}
	for _, r := range a.Session().Records() {
		if r.Type != loop.RecInboxSpliced {
			continue
		}
		var sp loop.Spliced
		_ = json.Unmarshal(r.Data, &sp)
		var in []string
		for _, m := range sp.Inserted {
			in = append(in, m.ID)
		}
		l := lists[sp.Target]
		if sp.Start+sp.RemovedCount > len(l) {
			s.fault("%s: record %d removes what is not there", a.ID(), r.Seq)
			return
		}
		lists[sp.Target] = slices.Concat(l[:sp.Start:sp.Start], in, l[sp.Start+sp.RemovedCount:])
	}
	if !slices.Equal(lists[loop.NextTurn], turn) || !slices.Equal(lists[loop.NextStep], step) {
		s.fault("%s: the inbox is %v %v, the log makes %v", a.ID(), turn, step, lists)
	}
	if got, want := a.Session().Messages(), loop.DeriveMessages(a.Session().Records()); !sameMessages(got, want) {
		s.fault("%s: the conversation is not what the log makes", a.ID())
	}
	if got, want := a.Session().State(), loop.DeriveState(a.Session().Records()); !reflect.DeepEqual(got, want) {
		s.fault("%s: what scripts keep is %s, the log makes %s", a.ID(), got, want)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := map[string]int{}
	for _, id := range slices.Concat(turn, step) {
		pending[id] = 1
	}
	for id, n := range s.live[a.ID()].inbox {
		if n != pending[id] {
			s.faultLocked("%s: message %s is pending %d times, the events told %d", a.ID(), id, pending[id], n)
		}
	}
}

func sameMessages(a, b []model.Message) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// checkLog reads a whole log.
func (s *storm) checkLog(a loop.Agent) {
	recs := a.Session().Records()
	c := &logCheck{s: s, id: a.ID(), recs: recs, calls: map[string]*loggedCall{}, asked: map[string]string{}}
	v := loop.NewValidator()
	for _, r := range recs {
		c.at = r
		if err := v.Check(r); err != nil {
			c.bad("%v", err)
			return
		}
		v.Commit(r)
		c.record(r)
	}
	if b, ok := v.(session.Boundary); !ok || !b.Closed() {
		c.bad("a turn is open at the end")
	}
	for _, err := range loop.Verify(recs) {
		c.bad("%v", err)
	}
	c.requests()
	c.lives()
	if s.store != nil {
		if _, read, rep, err := s.store.Read(a.ID()); err != nil || len(rep.Problems) > 0 || !reflect.DeepEqual(read, recs) {
			s.fault("%s: the file is not the log: %d records, want %d; %v %+v", a.ID(), len(read), len(recs), err, rep)
		}
	}
	s.count("logs", 1)
	s.count("records", len(recs))
}

type loggedCall struct {
	plan
	ok   bool // the arguments could be read
	step string
}

// logCheck is one walk over a log.
type logCheck struct {
	s     *storm
	id    string
	recs  []session.Record
	at    session.Record
	turn  loop.TurnStart
	step  string
	calls map[string]*loggedCall
	owed  []string          // calls of the open step, in the message's order
	asked map[string]string // question -> call
	ends  map[int]loop.EndReason
}

func (c *logCheck) bad(format string, args ...any) {
	i := int(c.at.Seq)
	c.s.fault("%s, record %d: %s\n%s", c.id, i, fmt.Sprintf(format, args...), tail(c.recs[:min(i+1, len(c.recs))], 12))
}

func decode[T any](r session.Record) (v T) {
	_ = json.Unmarshal(r.Data, &v)
	return v
}

func (c *logCheck) record(r session.Record) {
	switch r.Type {
	case loop.RecTurnStart:
		c.turn = decode[loop.TurnStart](r)
	case loop.RecTurnEnd:
		c.ended(decode[loop.TurnEnd](r))
	case loop.RecStepStart:
		m := decode[loop.StepMark](r)
		c.step, c.owed = fmt.Sprintf("%d.%d", m.Turn, m.Step), nil
	case loop.RecStepEnd:
		if len(c.owed) > 0 {
			c.bad("the step ends and %v have no result", c.owed)
		}
	case loop.RecAssistant:
		for _, b := range decode[loop.AssistantMessage](r).Message.ToolCalls() {
			c.owed = append(c.owed, b.ID)
		}
	case loop.RecToolCall:
		d := decode[loop.ToolCallRecord](r)
		if c.calls[d.CallID] != nil {
			c.bad("call %s is there twice", d.CallID)
		}
		call := &loggedCall{step: c.step}
		call.ok = json.Unmarshal([]byte(d.Arguments), &call.plan) == nil
		c.calls[d.CallID] = call
	case loop.RecToolRewritten:
		d := decode[loop.ToolRewritten](r)
		call := c.calls[d.CallID]
		if x := foreign(string(d.Arguments), call.N); x != "" || len(call.rewriters()) == 0 {
			c.bad("the arguments of %s are rewritten to %s", call.N, d.Arguments)
		}
	case loop.RecToolResult:
		c.result(decode[loop.ToolResultRecord](r))
	case loop.RecApprovalAsked:
		d := decode[loop.ApprovalAsked](r)
		c.asked[d.ID] = d.CallID
		if x := foreign(d.Reason, c.calls[d.CallID].N); x != "" || d.Reason == "" {
			c.bad("asked for %s with the reason %q", d.CallID, d.Reason)
		}
	case loop.RecApprovalDecided:
		d := decode[loop.ApprovalDecided](r)
		call := c.calls[c.asked[d.ID]]
		if x := foreign(d.Reason, call.N); x != "" {
			c.bad("the answer about %s speaks of %s", call.N, x)
		}
		if d.Outcome == "allowed-once" && call.forbidden() != "" {
			c.bad("%s is allowed although %s", call.N, call.forbidden())
		}
		c.s.count("approvals "+d.Outcome, 1)
	case loop.RecHookDecision:
		c.decision(r)
	case loop.RecHookError:
		if d := decode[loop.HookError](r); !expected(d.Message) {
			c.bad("%s fails in %s: %s", d.Script, d.Event, d.Message)
		}
	}
	switch r.Type {
	case loop.RecHookDecision, loop.RecHookError, loop.RecQuarantined: // of scripts that are there for all
	default:
		if x := strange(string(r.Data), c.id); x != "" {
			c.bad("it speaks of %s", x)
		}
	}
}

func (c *logCheck) ended(d loop.TurnEnd) {
	if c.ends == nil {
		c.ends = map[int]loop.EndReason{}
	}
	c.ends[d.Turn] = d.Reason
	c.s.count("turns", 1)
	kind := d.Reason.Kind
	if d.Reason.Reason != nil {
		kind += " by " + d.Reason.Reason.Kind
	}
	c.s.count("turns that end "+kind, 1)
	if d.Reason.Error != nil && !expected(d.Reason.Error.Message) {
		c.bad("the turn fails: %s", d.Reason.Error.Message)
	}
	if r := d.Reason.Reason; r != nil && strings.Contains(r.Reason, "<") && !strings.Contains(r.Reason, "<"+c.id+">") {
		c.bad("cancelled by what was meant for another agent")
	}
}

// result: one for each call, in the message's order, and what it says is what the plan
// made of it.
func (c *logCheck) result(d loop.ToolResultRecord) {
	id := d.Message.Source.CallID
	call := c.calls[id]
	if len(c.owed) == 0 || c.owed[0] != id || call == nil || call.step != c.step {
		c.bad("the result of %s, owed are %v", id, c.owed)
		return
	}
	c.owed = c.owed[1:]
	b := d.Message.Content[0]
	text := model.PlainText(b.Content)
	if !call.ok {
		return
	}
	if x := foreign(text, call.N); x != "" {
		c.bad("the result of %s speaks of %s", call.N, x)
	}
	if b.IsError {
		c.s.count("results: errors", 1)
		if call.forbidden() != "" {
			c.s.count("results: refused as planned", 1)
		}
		return
	}
	c.s.count("results: good", 1)
	if why := call.forbidden(); why != "" {
		c.bad("%s succeeded although %s", call.N, why)
	}
	c.good(call, id, text)
}

// good looks at a result that is no error: the outermost script that changes it did.
func (c *logCheck) good(call *loggedCall, id, text string) {
	if strings.Contains(text, "SECRET") && len(call.Q) > 0 {
		for _, act := range call.Q {
			if act == "replace" || act == "context" {
				c.bad("the result of %s shows what was cut: %s", call.N, text)
			}
		}
	}
	for _, f := range []string{"wrap.js", "wrap.lua"} {
		switch act := call.Q[f]; act {
		case "replace":
			if !strings.HasPrefix(text, fmt.Sprintf("post %s by %s: ", call.N, f)) {
				c.bad("the result of %s is not what %s made of it: %s", call.N, f, text)
			}
			return
		case "throw", "block":
			c.bad("%s succeeded although %s does %s", call.N, f, act)
		case "context":
			return
		}
	}
	short := call.X["wrap.js"] == "short" || call.X["wrap.lua"] == "short"
	c.s.mu.Lock()
	ran := c.s.callLocked(c.id, id).ran
	c.s.mu.Unlock()
	if !short && ran != 1 || short && ran != 0 {
		c.bad("the body of %s ran %d times, and the result is %s", call.N, ran, text)
	}
}

func (c *logCheck) decision(r session.Record) {
	d := decode[loop.HookDecision](r)
	c.s.count("decisions of "+d.Event, 1)
	call := c.calls[d.CallID]
	if d.CallID != "" && call != nil && call.ok {
		if x := foreign(string(r.Data), call.N); x != "" {
			c.bad("the decision about %s speaks of %s", call.N, x)
		}
	}
	for _, l := range d.Layers {
		if d.Turn > 0 && (d.Turn != c.turn.Turn || l.Generation != c.turn.Generation) {
			c.bad("turn %d of generation %d, a layer of turn %d and generation %d", c.turn.Turn, c.turn.Generation, d.Turn, l.Generation)
		}
		if l.Outcome == "failed" && !expected(l.Message) {
			c.bad("%s fails in %s: %s", l.Script, d.Event, l.Message)
		}
	}
}

// requests: those that can be rebuilt from the log are those that were made, in order.
func (c *logCheck) requests() {
	built, err := loop.Reconstruct(c.recs)
	if err != nil {
		c.bad("%v", err)
	}
	c.s.mu.Lock()
	made := c.s.live[c.id].requests
	c.s.mu.Unlock()
	for i, req := range built {
		at := slices.Index(made, requestSum(req))
		if at < 0 {
			c.bad("request %d of %d, as the log has it, was not made", i+1, len(built))
			return
		}
		made = made[at+1:] // those in between got no answer
	}
}

func requestSum(r *model.Request) [32]byte {
	rr := *r
	rr.SessionID = ""
	raw, _ := json.Marshal(rr)
	return sha256.Sum256(raw)
}

// lives compares the log with the live events.
func (c *logCheck) lives() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	l := c.s.live[c.id]
	for turn, reason := range c.ends {
		aborted, failed := 0, 0
		switch reason.Kind {
		case loop.EndAborted:
			aborted = 1
		case loop.EndError:
			failed = 1
		}
		if l.ended[turn] != 1 || l.aborting[turn] != aborted || l.errors[turn] != failed || l.started[turn] > 1 {
			c.s.faultLocked("%s: turn %d ends %s; told were %d starts, %d ends, %d aborts, %d errors", c.id, turn, reason.Kind,
				l.started[turn], l.ended[turn], l.aborting[turn], l.errors[turn])
		}
	}
}

// stopped looks at what must be over when the host is.
func (s *storm) stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w, byEpoch := range s.effects {
		in := w.Value()
		if in == nil || in.Quarantined() != nil {
			continue
		}
		if n := byEpoch[in.Epoch()]; n != 0 {
			s.faultLocked("%s is gone and %d of its effects are not undone", in.ID, n)
		}
	}
	for what, d := range s.waited {
		s.counts[fmt.Sprintf("ms was the longest wait for %s", what)] = int(d.Milliseconds())
	}
}

// tail is the end of a log, readable.
func tail(recs []session.Record, n int) string {
	var b strings.Builder
	for _, r := range recs[max(0, len(recs)-n):] {
		data := string(r.Data)
		if len(data) > 300 {
			data = data[:300] + "..."
		}
		fmt.Fprintf(&b, "  %d %s %s\n", r.Seq, describe(r), data)
	}
	return b.String()
}
