package loop

import (
	"context"
	"encoding/json"
	"fmt"

	"dshsh/runtime"
)

// UserCall implements Agent.UserCall.
func (a *agent) UserCall(ctx context.Context, name string, args json.RawMessage) (ToolResult, error) {
	if a.gone || a.disposing != nil {
		return ToolResult{}, fmt.Errorf("agent %s: %w", a.id, ErrDisposed)
	}
	// An activity of its own, beside the turn that may be running: a cancel of that is none
	// of this call, and the other way round.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.life, func() { cancel(context.Cause(a.life)) })()
	act := &activity{ctx: ctx, cancel: cancel, gen: a.h.Current().Hold(), maintenance: true}
	defer act.gen.Release()
	act.signal = runtime.NewSignal(ctx, abortReason)
	id := a.newID("user-")
	call := ToolCall{Agent: a, CallID: id, RootCallID: id, Name: name, Arguments: args, Signal: act.signal, By: ByUser}
	j, started := a.judgeCall(act, call), false
	if j.run {
		j.res, started = a.runBody(act, j.call, j.tool)
	}
	res := a.finish(act, j, started)
	ToolsResult.Fire(a.h.Host, a.callTarget(j.call), PostPayload{ToolCall: j.call, Result: res})
	return res, nil
}
