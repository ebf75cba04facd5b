package loop

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
