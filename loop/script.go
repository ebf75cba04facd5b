package loop

import (
	"context"
	"fmt"

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
		get("inbox", "What waits for the agent.", "Inbox", func(a *agent) runtime.Value { return a.box }),
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
				c.Self.(*agent).cancel(c.Instance.ID, &cause, opts.KeepInbox)
				return nil, nil
			}},
		{Name: "whenIdle", Doc: "Waits until the agent has nothing to do.", Signature: "(): Promise<void>", Waits: true,
			Fn: func(c *runtime.Call) (runtime.Value, error) {
				if err := c.Unpack(); err != nil {
					return nil, err
				}
				return nil, c.Self.(*agent).WhenIdle(c.Instance.Context())
			}},
		{Name: "runMaintenance", Doc: "Runs task(signal) as the agent's only activity, and gives what it gives; fails at once when the agent is busy.",
			Signature: "<T>(task: (signal: AbortSignal) => T | Promise<T>): Promise<T>", Waits: true,
			Fn: func(c *runtime.Call) (v runtime.Value, err error) {
				var task runtime.Func
				if err := c.Unpack("task", &task); err != nil {
					return nil, err
				}
				a := c.Self.(*agent)
				err = a.RunMaintenance(func(context.Context) (err error) {
					v, err = c.Instance.VM().Call(a.h.Thread.CurrentHook(), task, a.act.signal)
					return err
				})
				return v, err
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

// members are what the loop adds to ctx.
func (h *Host) members() []*runtime.Member {
	return append(h.promptMembers(), []*runtime.Member{
		{Name: "tool", Load: true, Doc: "Offers the model a tool.", Signature: "(def: ToolDefinition): () => void", Fn: h.ctxTool},
		{Name: "command", Load: true, Doc: "Adds a slash command to the prompt; what run returns is printed.",
			Signature: "(name: string, def: CommandDefinition): () => void", Fn: h.ctxCommand},
		{Name: "agents", Doc: "The agents of this shell.", Signature: "Agents",
			Get: func(runtime.Object) (runtime.Value, error) { return &agents{h}, nil }},
	}...)
}

func remover(r *runtime.Registration) *runtime.GoFunc {
	return &runtime.GoFunc{Name: "off", Fn: func(*runtime.Call) (runtime.Value, error) { r.Remove(); return nil, nil }}
}
