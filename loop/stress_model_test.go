package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
)

// stormModel looks at every request and answers something.
type stormModel struct{ s *storm }

func (*stormModel) Name() string           { return "storm" }
func (*stormModel) Info(string) model.Info { return model.Info{} }

func (m *stormModel) Stream(ctx context.Context, req *model.Request) (model.Stream, error) {
	m.s.checkRequest(req)
	return modeltest.New(m.s.answer(req.SessionID)).Stream(ctx, req)
}

// checkRequest: what an agent's model is told is of that agent, and every tool call has
// its results right behind it.
func (s *storm) checkRequest(req *model.Request) {
	id := req.SessionID
	s.count("requests", 1)
	if req.Model != "m" && req.Model != "m-"+id {
		s.fault("a request of %s is for model %s", id, req.Model)
	}
	if i := strings.Index(req.System, "<"); i >= 0 && !strings.Contains(req.System[i:], "<"+id+">") {
		s.fault("the system prompt of %s says %q", id, req.System)
	}
	recent, _ := json.Marshal(req.Messages[max(0, len(req.Messages)-30):])
	if x := strange(string(recent), id); x != "" {
		s.fault("a request of %s speaks of %s", id, x)
	}
	var owed []string
	for i, m := range req.Messages {
		for _, b := range m.Content {
			switch {
			case b.Type == model.BlockToolResult && (len(owed) == 0 || owed[0] != b.ToolCallID):
				s.fault("request of %s: message %d is the result of %s, owed are %v", id, i, b.ToolCallID, owed)
			case b.Type == model.BlockToolResult:
				owed = owed[1:]
			case len(owed) > 0 && b.Type != model.BlockToolCall:
				s.fault("request of %s: message %d comes while %v have no result", id, i, owed)
				return
			}
		}
		if m.Role == model.RoleAssistant {
			for _, c := range m.ToolCalls() {
				owed = append(owed, c.ID)
			}
		}
	}
	if len(owed) > 0 {
		s.fault("request of %s: %v have no result", id, owed)
	}
}

// answer is what the model does next.
func (s *storm) answer(id string) modeltest.Answer {
	text := func() []model.Chunk {
		n := s.nonce(id)
		return []model.Chunk{model.NewBlockStart(0, model.BlockText), model.NewTextDelta(0, "reply "), model.NewTextDelta(0, n),
			model.NewBlockEnd(0, model.Text("reply "+n))}
	}
	stop := model.NewFinish(model.FinishStop)
	nap := modeltest.Do(func() { time.Sleep(time.Duration(s.dice(3000)) * time.Microsecond) })
	switch r := s.dice(100); {
	case r < 30:
		return modeltest.Reply(append(text(), stop)...)
	case r < 40:
		c := text()
		return modeltest.Play(nap, modeltest.Send(c[:2]...), nap, modeltest.Send(c[2:]...), nap, modeltest.Send(stop))
	case r < 43:
		return modeltest.Reply(append(text(), model.NewFinish(model.FinishMaxTokens))...)
	case r < 47:
		return modeltest.Play(modeltest.Send(text()[:2]...), modeltest.Break(&model.Failure{Code: model.CodeServer, Message: "a model of the storm breaks " + s.nonce(id)}))
	case r < 49:
		return modeltest.Refuse(&model.Failure{Code: model.CodeRateLimit, Message: "a model of the storm refuses " + s.nonce(id)})
	case r < 53:
		return modeltest.Play(modeltest.Send(text()[:3]...), modeltest.Gate(s.calm), modeltest.Send(model.NewBlockEnd(0, model.Text("late"))), modeltest.Send(stop))
	}
	var calls []modeltest.Call
	for range 1 + s.dice(4) {
		calls = append(calls, s.newCall(id))
	}
	if s.dice(2) == 0 {
		return modeltest.Tools(calls...)
	}
	return modeltest.Say("so", calls...)
}

func (s *storm) newCall(id string) modeltest.Call {
	p := s.plan(id)
	raw, _ := json.Marshal(p)
	args := string(raw)
	if s.dice(60) == 0 {
		args = args[:len(args)/2]
	}
	s.mu.Lock()
	s.serial++
	callID := fmt.Sprintf("c%d", s.serial)
	s.mu.Unlock()
	names := []string{"echo", "par", "par", "par", "timed", "js", "js", "lua", "lua", "own", "nothing"}
	return modeltest.Call{ID: callID, Name: names[s.dice(len(names))], Arguments: args}
}

// body is a Go tool.
type body struct {
	s       *storm
	name    string
	safe    bool
	timeout time.Duration
}

func (b *body) Spec() model.ToolSpec {
	return model.ToolSpec{Name: b.name, Description: "A tool of Go.",
		Parameters: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"string"}}}`)}
}
func (b *body) ConcurrencySafe(json.RawMessage) bool       { return b.safe }
func (b *body) Timeout(json.RawMessage) time.Duration      { return b.timeout }
func (b *body) ReadOnly(args json.RawMessage) (reads bool) { return len(args)%2 == 0 }

func (b *body) Execute(ctx context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	s := b.s
	p := s.ran(x.AgentID, x.CallID, args)
	defer b.overlap(x)()
	res := tool.TextResult("ran " + p.N)
	switch p.Body {
	case "fail":
		return res, fmt.Errorf("failed %s", p.N)
	case "panic":
		panic("panicked " + p.N)
	case "slow":
		select {
		case <-ctx.Done():
			return res, context.Cause(ctx)
		case <-time.After(time.Duration(1+s.dice(20)) * time.Millisecond):
		}
	case "idle":
		if b.timeout > 0 {
			<-ctx.Done() // until the tool's own time is over, or the turn
			return res, context.Cause(ctx)
		}
	case "defer":
		x.DeferContext(model.Message{Content: []model.Block{model.Text("deferred " + p.N)}})
	case "conclude":
		x.ConcludeTurn()
	case "secret":
		res = tool.TextResult("ran " + p.N + " SECRET")
	case "send":
		_ = s.h.Do(ctx, func() {
			if a, ok := s.h.Agent(x.AgentID); ok {
				_ = a.Steer(loop.UserMessage("from a tool " + p.N))
			}
		})
	case "cancel":
		s.mu.Lock()
		a := s.agents[x.AgentID]
		s.mu.Unlock()
		a.Cancel(loop.Cause{Kind: loop.CauseParent}, loop.CancelOptions{KeepInbox: s.dice(2) == 0})
	}
	return res, nil
}

// overlap notes the bodies of an agent that run at once: one that is not safe runs alone.
func (b *body) overlap(x *tool.Exec) (end func()) {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.bodies[x.AgentID]
	if m == nil {
		m = map[string]bool{}
		s.bodies[x.AgentID] = m
	}
	for other, exclusive := range m {
		if exclusive || !b.safe {
			s.faultLocked("%s: the bodies of %s and %s overlap", x.AgentID, other, x.CallID)
		}
	}
	if len(m) > 0 {
		s.counts["bodies that overlap"]++
	}
	m[x.CallID] = !b.safe
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(m, x.CallID)
	}
}

// approve is the person. On the thread.
func (s *storm) approve(ctx context.Context, q loop.Question) (loop.Answer, error) {
	var p plan
	if err := json.Unmarshal(q.Call.Arguments, &p); err != nil {
		s.fault("asked about %s: %v", q.Call.Arguments, err)
	}
	if x := foreign(q.Reason, p.N) + strange(p.N, q.Call.Agent.ID()); x != "" || q.Reason == "" {
		s.fault("asked about %s of %s with the reason %q", p.N, q.Call.Agent.ID(), q.Reason)
	}
	s.count("questions to the person", 1)
	switch p.Person {
	case "no":
		return loop.Answer{Reason: "the person refuses " + p.N}, nil
	case "nobody":
		return loop.Answer{}, loop.ErrNobody
	case "late":
		if err := s.h.Thread.Sleep(time.Duration(s.dice(15))*time.Millisecond, ctx); err != nil {
			return loop.Answer{}, err
		}
	}
	return loop.Answer{Allow: true}, nil
}
