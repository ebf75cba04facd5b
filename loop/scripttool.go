package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/runtime"
)

// scriptTool is a tool that a script offers. Used on the host thread.
type scriptTool struct {
	spec    model.ToolSpec
	schema  *tool.Schema
	run     runtime.Func
	safe    runtime.Func
	timeout time.Duration
	in      *runtime.Instance
	offer   *runtime.Registration
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (h *Host) ctxTool(c *runtime.Call) (runtime.Value, error) {
	var def struct {
		Name            string          `json:"name"`
		Description     string          `json:"description"`
		Parameters      json.RawMessage `json:"parameters,omitempty"`
		ConcurrencySafe runtime.Func    `json:"concurrencySafe,omitempty"`
		TimeoutMs       int64           `json:"timeoutMs,omitempty"`
		Execute         runtime.Func    `json:"execute"`
	}
	if err := c.Unpack("definition", &def); err != nil {
		return nil, err
	}
	switch {
	case def.Name == "":
		return nil, errors.New(`ctx.tool: missing field "name"`)
	case !toolName.MatchString(def.Name):
		return nil, fmt.Errorf("ctx.tool: bad name %q: models take letters, digits, _ and -, 64 at most", def.Name)
	case def.TimeoutMs < 0:
		return nil, fmt.Errorf("ctx.tool: timeoutMs is %d, want a positive number or none", def.TimeoutMs)
	case def.Execute == nil:
		return nil, errors.New(`ctx.tool: missing field "execute"`)
	case h.tools[def.Name] != nil:
		return nil, fmt.Errorf("ctx.tool: %q is a built-in tool; choose another name", def.Name)
	}
	if def.Parameters == nil {
		def.Parameters = json.RawMessage(`{"type":"object"}`)
	}
	schema, err := tool.CompileSchema(def.Name, def.Parameters)
	if err != nil {
		return nil, fmt.Errorf("ctx.tool: %w", err)
	}
	t := &scriptTool{spec: model.ToolSpec{Name: def.Name, Description: def.Description, Parameters: def.Parameters}, schema: schema,
		run: def.Execute, safe: def.ConcurrencySafe, timeout: time.Duration(def.TimeoutMs) * time.Millisecond, in: c.Instance}
	x := c.Self.(*runtime.Ctx)
	t.offer = c.Instance.Register(offerTool, def.Name, t, x.Scope(), c.Where)
	return remover(t.offer), nil
}

// scriptExec is the second argument of a script tool's execute.
type scriptExec struct {
	a      *agent
	x      *tool.Exec
	signal *runtime.Signal
	in     *runtime.Instance
}

// Class implements runtime.Object.
func (*scriptExec) Class() *runtime.Class { return execClass }

var execClass = &runtime.Class{Name: "exec", Doc: "One call of a script's tool.", Members: []*runtime.Member{
	{Name: "agent", Doc: "The agent that calls.", Signature: "Agent",
		Get: func(o runtime.Object) (runtime.Value, error) { return o.(*scriptExec).a, nil }},
	{Name: "callId", Doc: "The call's id.", Signature: "string",
		Get: func(o runtime.Object) (runtime.Value, error) { return o.(*scriptExec).x.CallID, nil }},
	{Name: "signal", Doc: "Aborted when the call is cancelled.", Signature: "AbortSignal",
		Get: func(o runtime.Object) (runtime.Value, error) { return o.(*scriptExec).signal, nil }},
	{Name: "deferContext", Doc: "Adds a message to the conversation after this call's result.", Signature: "(message: string | MessageInput): void",
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			var v any
			if err := c.Unpack("message", &v); err != nil {
				return nil, err
			}
			m, err := scriptMessage(v, c.Instance)
			if err != nil {
				return nil, err
			}
			c.Self.(*scriptExec).x.DeferContext(fromScript(m, c.Instance))
			return nil, nil
		}},
	{Name: "concludeTurn", Doc: "Ends the turn after this step, without a further model call.", Signature: "(): void",
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			c.Self.(*scriptExec).x.ConcludeTurn()
			return nil, c.Unpack()
		}},
}}

// execute runs the script's function. Tools have the clock of synchronous work and their
// own timeout.
func (t *scriptTool) execute(a *agent, act *activity, call ToolCall, x *tool.Exec) (tool.Result, error) {
	if err := t.schema.Validate(call.Arguments); err != nil {
		return tool.Result{}, err
	}
	ctx, signal := act.ctx, act.signal
	if t.timeout > 0 {
		c, cancel := context.WithTimeoutCause(ctx, t.timeout, fmt.Errorf("%s: %w after %v", call.Name, runtime.ErrDeadline, t.timeout))
		defer cancel()
		ctx, signal = c, runtime.NewSignal(c, abortReason)
		tell := func() { a.h.Thread.Post(signal.Fire) }
		stop := context.AfterFunc(c, tell)
		defer func() {
			// A call that the deadline wakes may come here before the word of it.
			if stop() && c.Err() != nil {
				tell()
			}
		}()
	}
	hook := runtime.NewHook(ctx, a, 0)
	defer hook.End()
	old := a.h.Thread.SetHook(hook)
	defer a.h.Thread.SetHook(old)
	v, err := t.in.VM().Call(hook, t.run, runtime.ValueOf(call.Arguments), &scriptExec{a: a, x: x, signal: signal, in: t.in})
	if err == nil {
		err = hook.NotAwaited(t.in)
	}
	if err != nil {
		return tool.Result{}, err
	}
	return toolValue(v)
}

// concurrencySafe asks the script; anything but true is a no, and so is a failure, which
// is reported.
func (t *scriptTool) concurrencySafe(a *agent, act *activity, args json.RawMessage) bool {
	if t.safe == nil || t.schema.Validate(args) != nil {
		return false
	}
	v, err := t.offer.Ask(a.h.NewHook(act.ctx, a), t.safe, runtime.ValueOf(args))
	if err != nil && !act.aborted() {
		a.h.Report(runtime.Failure{Target: a.awaiting(act), Instance: t.in, What: "concurrencySafe of the tool " + t.spec.Name, Err: err})
	}
	return err == nil && v == true
}

// toolValue reads what a script's tool returned: text, or {content, value?}. A value
// alone is shown to the model as it is.
func toolValue(v runtime.Value) (tool.Result, error) {
	switch v := v.(type) {
	case nil:
		return tool.TextResult(""), nil
	case string:
		return tool.TextResult(model.Scrub(v)), nil
	}
	var shape struct {
		Content Content         `json:"content,omitempty"`
		Value   json.RawMessage `json:"value,omitempty"`
	}
	if err := runtime.Decode(v, &shape); err != nil {
		return tool.Result{}, tool.InvalidOutput("the tool returned what is neither text nor {content, value?}: %v", err)
	}
	if shape.Content == nil && shape.Value != nil {
		shape.Content = Content{model.Text(string(shape.Value))}
	}
	return tool.Result{Content: shape.Content, Value: shape.Value}, nil
}
