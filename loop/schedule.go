package loop

import (
	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// A call's body may run beside others; everything that is ordered is not: tool/call,
// policies and approval when it starts, tools/post-execute, tools/result and the record
// when it is its turn. So the driver starts and commits calls one after the other, and
// only bodies overlap.

// slot is a call that has started. Used on the host thread; done is closed when the body
// has ended.
type slot struct {
	block    model.Block
	seq      int64 // of its tool/call
	judged   judged
	parallel bool
	started  bool // the body was begun
	done     chan struct{}
}

// runCalls runs the calls of one assistant message and records their results in the
// message's order. Calls that are safe beside each other overlap, up to the cap; any
// other is a barrier. After an abort nothing starts any more, what has started is waited
// for, and the rest get synthetic results.
func (a *agent) runCalls(act *activity, calls []model.Block) (concluded bool, err error) {
	var flying []*slot
	next, most := 0, a.h.parallel // a change of the cap counts from the next message on
	asked, yes := -1, false
	safe := func() bool { // of the next call; it is asked once
		if asked != next {
			asked, yes = next, a.concurrencySafe(act, calls[next])
		}
		return yes
	}
	for next < len(calls) || len(flying) > 0 {
		if next < len(calls) && !act.aborted() && mayStart(len(flying), most, len(flying) > 0 && flying[len(flying)-1].parallel, safe) {
			s, err := a.startCall(act, calls[next], safe())
			if err != nil {
				return false, a.drain(flying, err)
			}
			flying = append(flying, s)
			next++
			continue
		}
		if len(flying) == 0 {
			// Only an abort keeps the first of the rest from starting.
			if err := a.skipCall(act, calls[next]); err != nil {
				return false, err
			}
			next++
			continue
		}
		s := flying[0]
		flying = flying[1:]
		ended, err := a.commitCall(act, s)
		if err != nil {
			return false, a.drain(flying, err)
		}
		concluded = concluded || ended
	}
	return concluded, nil
}

// mayStart applies the barriers and the cap: flying calls have started, the last of which
// is parallel or not.
func mayStart(flying, most int, parallel bool, safe func() bool) bool {
	if flying == 0 {
		return true
	}
	if flying >= most || !parallel {
		return false
	}
	return safe()
}

// concurrencySafe asks the tool; anything but a clear yes is no.
func (a *agent) concurrencySafe(act *activity, c model.Block) bool {
	args := parseArguments(c.Arguments)
	found := a.findTool(act, c.Name)
	switch {
	case found.native != nil:
		safe, ok := found.native.Tool.(tool.ConcurrencySafer)
		return ok && found.native.schema.Validate(args) == nil && asked(func() bool { return safe.ConcurrencySafe(args) })
	case found.script != nil:
		return found.script.concurrencySafe(a, act, args)
	}
	return false
}

// asked is a predicate of a tool; a panic is a no.
func asked(fn func() bool) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return fn()
}

// startCall records a call, has it judged, and begins its body.
func (a *agent) startCall(act *activity, c model.Block, parallel bool) (*slot, error) {
	s := &slot{block: c, parallel: parallel, done: make(chan struct{})}
	rec, err := a.append(RecToolCall, ToolCallRecord{Turn: act.turn, Step: act.step, CallID: c.ID, Name: c.Name, Arguments: c.Arguments})
	if err != nil {
		return nil, err
	}
	s.seq = rec.Seq
	s.judged = a.judgeCall(act, ToolCall{Agent: a, Turn: act.turn, Step: act.step, CallID: c.ID, RootCallID: c.ID, Name: c.Name,
		Arguments: parseArguments(c.Arguments), Signal: act.signal})
	if !s.judged.run {
		close(s.done)
		return s, nil
	}
	a.h.Thread.Start(func() {
		defer close(s.done)
		s.judged.res, s.started = a.runBody(act, s.judged.call, s.judged.tool)
	})
	return s, nil
}

// commitCall waits for a call's body and records its outcome.
func (a *agent) commitCall(act *activity, s *slot) (concluded bool, err error) {
	if err := a.h.Thread.Wait(s.done); err != nil {
		return false, err
	}
	res := a.finish(act, s.judged, s.started)
	ToolsResult.Fire(a.h.Host, a.callTarget(s.judged.call), PostPayload{ToolCall: s.judged.call, Result: res})
	if err := a.recordResult(act, s.seq, s.block, res); err != nil {
		return false, err
	}
	for _, m := range res.AdditionalContexts {
		if m.Source.Kind == "" || m.Source.Kind == model.SourceUser {
			// What a tool adds is no person's input: it must not lift the caps on scripts.
			m.Source = model.Source{Kind: model.SourcePlugin, Plugin: s.block.Name}
		}
		if err := a.Send(m, NextStep, false); err != nil {
			return false, err
		}
	}
	return res.ConcludesTurn && !res.IsError, nil
}

// drain waits for bodies whose results will not be recorded any more.
func (a *agent) drain(flying []*slot, cause error) error {
	for _, s := range flying {
		if err := a.h.Thread.Wait(s.done); err != nil {
			return err
		}
	}
	return cause
}

// skipCall records a call that was never started, with its result.
func (a *agent) skipCall(act *activity, c model.Block) error {
	rec, err := a.append(RecToolCall, ToolCallRecord{Turn: act.turn, Step: act.step, CallID: c.ID, Name: c.Name, Arguments: c.Arguments})
	if err != nil {
		return err
	}
	return a.recordResult(act, rec.Seq, c, errorResult(&tool.Error{
		Name: tool.NameAbort, Code: tool.CodeAbortedBeforeDispatch, Message: "tool call aborted before dispatch"}))
}

func (a *agent) recordResult(act *activity, callSeq int64, c model.Block, res ToolResult) error {
	rec := ToolResultRecord{Turn: act.turn, Step: act.step, Meta: res.Meta, Message: model.Message{
		ID: a.newID("r"), Role: model.RoleUser, Source: model.Source{Kind: model.SourceTool, CallID: c.ID},
		Content: []model.Block{{Type: model.BlockToolResult, ToolCallID: c.ID, Content: res.Content, IsError: res.IsError}},
	}}
	if res.Error != nil {
		rec.Error = res.Error.Info
	}
	_, err := a.append(RecToolResult, rec, callSeq)
	return err
}
