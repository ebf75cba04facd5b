package loop

import (
	"context"
	"fmt"

	"dshsh/runtime"
	"dshsh/session"
)

// Initiator is the agent on whose behalf the present code runs: a listener that a turn
// waits for, or a script's tool. Nil outside of those, and in emit listeners, which nobody
// waits for. Go tools run off the thread, and have tool.Exec.AgentID instead.
func (h *Host) Initiator() Agent {
	if a, ok := h.Thread.CurrentHook().Owner().(*agent); ok {
		return a
	}
	return nil
}

// Roots lists the live agents that no other owns, in the order of their creation.
func (h *Host) Roots() []Agent {
	var out []Agent
	for _, a := range h.agents {
		if a.owner == nil {
			out = append(out, a)
		}
	}
	return out
}

// IsOwnedBy says whether child lives and was made for owner, or for one that owner owns.
// What the session's header says of its parents does not matter.
func (h *Host) IsOwnedBy(child, owner Agent) bool {
	c, _ := child.(*agent)
	if c == nil || c.gone {
		return false
	}
	for c = c.owner; c != nil; c = c.owner {
		if Agent(c) == owner {
			return true
		}
	}
	return false
}

// agents is ctx.agents.
type agents struct{ h *Host }

// Class implements runtime.Object.
func (*agents) Class() *runtime.Class { return agentsClass }

var agentsClass = &runtime.Class{Name: "agents", Doc: "The agents of this shell.", Members: []*runtime.Member{
	{Name: "list", Doc: "All of them, oldest first.", Signature: "(): Agent[]",
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			out := []any{}
			for _, a := range c.Self.(*agents).h.agents {
				out = append(out, a)
			}
			return out, c.Unpack()
		}},
	{Name: "get", Doc: "The one with that id, or nothing.", Signature: "(id: string): Agent | undefined",
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			var id string
			if err := c.Unpack("id", &id); err != nil {
				return nil, err
			}
			if a, ok := c.Self.(*agents).h.Agent(id); ok {
				return a, nil
			}
			return nil, nil
		}},
	{Name: "current", Doc: "The one that the prompt talks to, or nothing.", Signature: "(): Agent | undefined",
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			if a := c.Self.(*agents).h.current; a != nil {
				return a, c.Unpack()
			}
			return nil, c.Unpack()
		}},
	{Name: "create", Doc: "Makes an agent with a session of its own. What is not said is as with the agent that this runs for, which the new one goes with; it goes with the script too.",
		Signature: "(options?: AgentOptions & { cwd?: string }): Promise<Agent>", Waits: true,
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			var o struct {
				Options
				Cwd string `json:"cwd,omitempty"`
			}
			if err := c.Unpack("options?", &o); err != nil {
				return nil, err
			}
			return c.Self.(*agents).h.createFor(c.Instance, o.Options, o.Cwd)
		}},
}}

// createFor makes an agent for a script. It belongs to the agent on whose behalf the
// script runs, if there is one, and to the script.
func (h *Host) createFor(in *runtime.Instance, o Options, cwd string) (Agent, error) {
	made := 0
	for _, a := range h.agents {
		if a.maker != "" {
			made++
		}
	}
	if made >= h.cfg.Caps.Agents {
		return nil, fmt.Errorf("scripts have made %d agents that still live, which is the most", made)
	}
	like := h.current
	co := CreateOptions{Options: o, Header: session.Header{Cwd: cwd}, maker: in.ID}
	if owner, ok := h.Initiator().(*agent); ok {
		like, co.Owner = owner, owner
		hd := owner.log.Header()
		co.Header.ParentSession, co.Header.Origin, co.Header.DelegationDepth = owner.id, "subagent", hd.DelegationDepth+1
	}
	if like != nil {
		if o.Provider == "" && o.Model == "" {
			co.Provider, co.Model = like.opts.Provider, like.opts.Model
		}
		if cwd == "" {
			co.Header.Cwd = like.log.Header().Cwd
		}
	}
	a, err := h.Create(co)
	if err == nil {
		context.AfterFunc(in.Context(), func() { h.Thread.Post(func() { a.(*agent).dispose(Cause{Kind: CauseParent}) }) })
	}
	return a, err
}
