package loop_test

import (
	"encoding/json"
	"fmt"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/runtime"
)

// watch counts what the properties speak of. It comes before every deed.
func (c *conversation) watch() {
	h := c.h.Host
	loop.AgentStatus.On(h, func(p loop.StatusPayload) error {
		if p.Status == c.status || p.Status != c.a.Status() {
			c.fail("told %s after %s", p.Status, c.status)
		}
		c.status = p.Status
		c.aborted = c.aborted && p.Status != loop.StatusIdle
		return nil
	})
	loop.InboxInserted.On(h, func(p loop.InboxPayload) error {
		if c.pending[p.Message.ID] {
			c.fail("%s was inserted twice", p.Message.ID)
		}
		c.pending[p.Message.ID] = true
		return nil
	})
	gone := func(p loop.InboxPayload) error {
		if !c.pending[p.Message.ID] {
			c.fail("%s left the inbox and was not in it", p.Message.ID)
		}
		delete(c.pending, p.Message.ID)
		return nil
	}
	loop.InboxClaimed.On(h, gone)
	loop.InboxDiscarded.On(h, gone)
	loop.TurnStarted.On(h, func(loop.TurnPayload) error { c.aborted = false; return nil })
	loop.TurnStarting.On(h, func(p loop.TurnPayload) error { c.starting[p.Turn]++; return nil })
	loop.TurnAborting.On(h, func(p loop.AbortPayload) error { c.aborting[p.Turn]++; return nil })
	loop.TurnEnded.On(h, func(p loop.TurnEndPayload) error { c.ended[p.Turn]++; return nil })
}

// listen puts a listener that does deeds on every event.
func (c *conversation) listen() {
	onEmit(c, loop.AgentStatus)
	onEmit(c, loop.InboxInserted)
	onEmit(c, loop.InboxClaimed)
	onEmit(c, loop.InboxDiscarded)
	onEmit(c, loop.TurnStarted)
	onEmit(c, loop.TurnEnded)
	onEmit(c, loop.AgentError)
	onEmit(c, loop.ToolsResult)
	onEmit(c, loop.SessionEvent)
	onSerial(c, loop.TurnStarting)
	onSerial(c, loop.TurnStopping)
	onSerial(c, loop.TurnAborting)
	onWaterfall(c, loop.AssemblePrompt, func(p loop.AssemblePayload, n int) loop.Assembly {
		asm := p.Assembly
		asm.Contexts = []model.Section{{Name: "n", Text: fmt.Sprint("context ", n)}}
		return asm
	})
	onWaterfall(c, loop.PreStep, func(p loop.PreStepPayload, n int) loop.StepDecision {
		switch n {
		case 0, 1:
			return loop.StepDecision{Kind: "reject"}
		case 2:
			return loop.StepDecision{Kind: "enter"}
		}
		return loop.StepDecision{Kind: "enter", Messages: append(p.Messages[:len(p.Messages):len(p.Messages)], c.message())}
	})
	onWaterfall(c, loop.AgentRequest, func(_ loop.StepPayload, n int) model.Config {
		return model.Config{Provider: "fake", Model: fmt.Sprint("chosen", n), MaxTokens: n}
	})
	onWaterfall(c, loop.LLMStream, nil)
	onWaterfall(c, loop.RequestError, func(loop.RequestErrorPayload, int) loop.Recovery { return loop.Recovery{Kind: "retry"} })
	onWaterfall(c, loop.StepResultEvent, func(p loop.StepResultPayload, n int) loop.StepResult {
		m := p.Message
		m.Content = []model.Block{model.Text("replaced")}
		if n > 2 {
			m.Content = append(m.Content, model.ToolCall("own", "echo", "{}"))
		}
		return loop.StepResult{Message: m}
	})
	onWaterfall(c, loop.PreExecute, func(_ loop.PreExecutePayload, n int) loop.Judgement {
		switch n {
		case 0, 1:
			return loop.Judgement{Kind: loop.Deny, Reason: "no"}
		case 2:
			return loop.Judgement{Kind: loop.Ask}
		}
		return loop.Judgement{Kind: loop.Allow, Arguments: json.RawMessage(`{"text":"rewritten"}`)}
	})
	onWaterfall(c, loop.ApprovalRequest, func(_ loop.ApprovalPayload, n int) loop.Approval {
		if n > 2 {
			return loop.Approval{Kind: loop.Allow}
		}
		return loop.Approval{Kind: loop.Deny}
	})
	onWaterfall(c, loop.ToolsExecute, func(loop.ToolCall, int) loop.ToolResult {
		return loop.ToolResult{Content: tool.TextResult("canned").Content}
	})
	onWaterfall(c, loop.PostExecute, func(_ loop.PostPayload, n int) loop.PostDecision {
		if n > 2 {
			return loop.PostDecision{Kind: "accept", AdditionalContexts: []model.Message{c.message()}}
		}
		return loop.PostDecision{Kind: "block", Feedback: loop.Content{model.Text("blocked")}}
	})
	onWaterfall(c, loop.TurnContinuation, func(loop.TurnPayload, int) loop.Continuation {
		return loop.Continuation{Kind: "continue", Messages: []model.Message{c.message()}}
	})
}

func onEmit[P any](c *conversation, e runtime.Emit[P]) {
	e.On(c.h.Host, func(P) error { return c.perform(c.take(e.Name)) })
}

func onSerial[P any](c *conversation, e runtime.Serial[P]) {
	e.On(c.h.Host, func(P) error { return c.perform(c.take(e.Name)) })
}

func onWaterfall[P, R any](c *conversation, e runtime.Waterfall[P, R], answer func(P, int) R) {
	e.On(c.h.Host, func(p P, next func(P) (R, error)) (r R, err error) {
		d := c.take(e.Name)
		if d.Kind == "answer" && answer != nil {
			return answer(p, d.N), nil
		}
		if d.First {
			if err := c.perform(d); err != nil {
				return r, err
			}
			return next(p)
		}
		if r, err = next(p); err != nil {
			return r, err
		}
		return r, c.perform(d)
	})
}
