package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/runtime"
)

// Class implements runtime.Object: the handle as scripts see it.
func (a *agent) Class() *runtime.Class { return agentClass }

var agentClass *runtime.Class

func init() {
	send := func(name, doc, target string, wakeup bool) *runtime.Member {
		return &runtime.Member{Name: name, Doc: doc, Signature: "(message: string | MessageInput): void",
			Fn: func(c *runtime.Call) (runtime.Value, error) {
				var v any
				if err := c.Unpack("message", &v); err != nil {
					return nil, err
				}
				return nil, scriptSend(c, v, target, wakeup)
			}}
	}
	get := func(name, doc, sig string, fn func(a *agent) runtime.Value) *runtime.Member {
		return &runtime.Member{Name: name, Doc: doc, Signature: sig,
			Get: func(o runtime.Object) (runtime.Value, error) { return fn(o.(*agent)), nil }}
	}
	agentClass = &runtime.Class{Name: "agent", Doc: "The handle on an agent.", Members: []*runtime.Member{
		get("id", "The session's id.", "string", func(a *agent) runtime.Value { return a.id }),
		get("options", "What the agent was created with.", "AgentOptions", func(a *agent) runtime.Value { return runtime.ValueOf(a.opts) }),
		get("session", "The log.", "Session", func(a *agent) runtime.Value { return a.session }),
		get("inbox", "What waits for the agent.", "Inbox", func(a *agent) runtime.Value { return a.Inbox() }),
		get("status", "idle or running.", "'idle' | 'running'", func(a *agent) runtime.Value { return a.status }),
		send("followup", "Queues a prompt for a turn of its own.", NextTurn, true),
		send("steer", "Hands a message to the next step of the running turn, or starts one.", NextStep, true),
		send("inject", "Adds context to the next step without waking the agent.", NextStep, false),
		{Name: "send", Doc: "Queues a message at 'next-turn' or 'next-step'; wakeup starts a turn when idle.",
			Signature: "(message: string | MessageInput, target: 'next-turn' | 'next-step', wakeup: boolean): void",
			Fn: func(c *runtime.Call) (runtime.Value, error) {
				var v any
				var target string
				var wakeup bool
				if err := c.Unpack("message", &v, "target", &target, "wakeup", &wakeup); err != nil {
					return nil, err
				}
				return nil, scriptSend(c, v, target, wakeup)
			}},
		{Name: "cancel", Doc: "Drops what is queued and aborts the turn; the first cause wins.",
			Signature: "(cause?: Cause, options?: { keepInbox?: boolean }): void",
			Fn: func(c *runtime.Call) (runtime.Value, error) {
				cause, opts := Cause{Kind: CauseHook, Reason: c.Instance.File}, CancelOptions{}
				var given *Cause
				if err := c.Unpack("cause?", &given, "options?", &opts); err != nil {
					return nil, err
				}
				if given != nil {
					cause = *given
				}
				c.Self.(*agent).cancel(&cause, opts.KeepInbox)
				return nil, nil
			}},
		{Name: "whenIdle", Doc: "Waits until the agent has nothing to do.", Signature: "(): Promise<void>", Waits: true,
			Fn: func(c *runtime.Call) (runtime.Value, error) {
				if err := c.Unpack(); err != nil {
					return nil, err
				}
				return nil, c.Self.(*agent).WhenIdle(c.Instance.Context())
			}},
		{Name: "dispose", Doc: "Ends an agent that a script made: its turn is cancelled, and the agents that it owns go with it.", Signature: "(): Promise<void>", Waits: true,
			Fn: func(c *runtime.Call) (runtime.Value, error) {
				if err := c.Unpack(); err != nil {
					return nil, err
				}
				a := c.Self.(*agent)
				if a.maker == "" {
					return nil, fmt.Errorf("%s: no script made this agent", c.Name)
				}
				return nil, a.Dispose()
			}},
		{Name: "state", Doc: "What this script keeps in the agent's session, as JSON: assign or delete a key. It survives reload and resume; after a fork or a rewind it is what it was at that point.",
			Signature: "Record<string, any>",
			GetFor:    func(o runtime.Object, in *runtime.Instance) (runtime.Value, error) { return o.(*agent).stateOf(in) }},
		{Name: "ctx", Doc: "ctx, restricted to this agent: what is registered hears only it and goes with it.", Signature: "Ctx",
			GetFor: func(o runtime.Object, in *runtime.Instance) (runtime.Value, error) {
				if o.(*agent).gone {
					return nil, fmt.Errorf("agent %s: %w", o.(*agent).id, ErrDisposed)
				}
				return in.Ctx(o), nil
			}},
	}}
}

// scriptSend sends on a script's behalf: the message is from the script, whatever it
// says.
func scriptSend(c *runtime.Call, v runtime.Value, target string, wakeup bool) error {
	m, err := scriptMessage(v, c.Instance)
	if err != nil {
		return fmt.Errorf("%s: for parameter message: %w", c.Name, err)
	}
	return c.Self.(*agent).Send(fromScript(m, c.Instance), target, wakeup)
}

// Command is a slash command of a script: the Spec of an OfferCommand.
type Command struct {
	Name        string
	Description string
	run         runtime.Func
	complete    runtime.Func
	in          *runtime.Instance
}

// Run calls the command. It waits; what it returns is to be printed.
func (c *Command) Run(a Agent, args string) (string, error) {
	extra := map[string]any{}
	if a != nil {
		extra["agent"] = a
	}
	hook := runtime.NewHook(c.in.Context(), nil, 0)
	defer hook.End()
	v, err := c.in.VM().Call(hook, c.run, args, extra)
	if err != nil || v == nil {
		return "", err
	}
	return runtime.Display(v), nil
}

// Complete gives the words that may stand at the end of prefix. It waits.
func (c *Command) Complete(prefix string) ([]string, error) {
	if c.complete == nil {
		return nil, nil
	}
	hook := runtime.NewHook(c.in.Context(), nil, 0)
	defer hook.End()
	v, err := c.in.VM().Call(hook, c.complete, prefix)
	if err != nil || v == nil {
		return nil, err
	}
	var words []string
	err = runtime.Decode(v, &words)
	return words, err
}

// members are what the loop adds to ctx.
func (h *Host) members() []*runtime.Member {
	return append(promptMembers(), []*runtime.Member{
		{Name: "tool", Load: true, Doc: "Offers the model a tool.", Signature: "(def: ToolDefinition): () => void", Fn: h.ctxTool},
		{Name: "command", Load: true, Doc: "Adds a slash command to the prompt; what run returns is printed.",
			Signature: "(name: string, def: CommandDefinition): () => void", Fn: ctxCommand},
		{Name: "agents", Doc: "The agents of this shell.", Signature: "Agents",
			Get: func(runtime.Object) (runtime.Value, error) { return &agents{h}, nil }},
	}...)
}

func ctxCommand(c *runtime.Call) (runtime.Value, error) {
	var name string
	var def struct {
		Description string       `json:"description"`
		Complete    runtime.Func `json:"complete,omitempty"`
		Run         runtime.Func `json:"run"`
	}
	if err := c.Unpack("name", &name, "definition", &def); err != nil {
		return nil, err
	}
	if def.Run == nil {
		return nil, errors.New(`ctx.command: missing field "run"`)
	}
	x := c.Self.(*runtime.Ctx)
	r := c.Instance.Register(OfferCommand, name, &Command{Name: name, Description: def.Description, run: def.Run, complete: def.Complete, in: c.Instance}, x.Scope(), c.Where)
	return remover(r), nil
}

func remover(r *runtime.Registration) *runtime.GoFunc {
	return &runtime.GoFunc{Name: "off", Fn: func(*runtime.Call) (runtime.Value, error) { r.Remove(); return nil, nil }}
}

// scriptTool is a tool that a script offers. Used on the host thread.
type scriptTool struct {
	spec    model.ToolSpec
	schema  *tool.Schema
	run     runtime.Func
	safe    runtime.Func
	timeout time.Duration
	in      *runtime.Instance
}

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
	return remover(c.Instance.Register(offerTool, def.Name, t, x.Scope(), c.Where)), nil
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
	ctx := act.ctx
	if t.timeout > 0 {
		c, cancel := context.WithTimeoutCause(ctx, t.timeout, fmt.Errorf("%s: %w after %v", call.Name, runtime.ErrDeadline, t.timeout))
		defer cancel()
		ctx = c
	}
	hook := runtime.NewHook(ctx, a, 0)
	defer hook.End()
	old := a.h.Thread.SetHook(hook)
	defer a.h.Thread.SetHook(old)
	v, err := t.in.VM().Call(hook, t.run, runtime.ValueOf(call.Arguments), &scriptExec{a: a, x: x, signal: act.signal, in: t.in})
	if err != nil {
		return tool.Result{}, err
	}
	return toolValue(v)
}

// concurrencySafe asks the script; a failure, or anything but true, is a no.
func (t *scriptTool) concurrencySafe(act *activity, args json.RawMessage) bool {
	if t.safe == nil || t.schema.Validate(args) != nil {
		return false
	}
	hook := runtime.NewHook(act.ctx, nil, 0)
	defer hook.End()
	v, err := t.in.VM().Call(hook, t.safe, runtime.ValueOf(args))
	return err == nil && v == true
}

// toolValue reads what a script's tool returned: text, or {content, value?}.
func toolValue(v runtime.Value) (tool.Result, error) {
	switch v := v.(type) {
	case nil:
		return tool.TextResult(""), nil
	case string:
		return tool.TextResult(model.Scrub(v)), nil
	}
	var shape struct {
		Content Content         `json:"content"`
		Value   json.RawMessage `json:"value,omitempty"`
	}
	if err := runtime.Decode(v, &shape); err != nil {
		return tool.Result{}, tool.InvalidOutput("the tool returned what is neither text nor {content, value?}: %v", err)
	}
	return tool.Result{Content: shape.Content, Value: shape.Value}, nil
}
