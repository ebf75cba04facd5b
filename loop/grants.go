package loop

import "dshsh/runtime"

// GrantRecord says that a script used what the user has granted it, or tried to use what
// it was not. Each is recorded once per agent, at most maxUses of them.
type GrantRecord struct {
	Script  string `json:"script"`
	Kind    string `json:"kind"` // read, write, exec, http or approve
	Target  string `json:"target"`
	Allowed bool   `json:"allowed"`
}

// maxUses is how many GrantRecords one agent's log takes from one process.
const maxUses = 1000

// Used implements runtime.GrantObserver: the log of the agent that waits for the script
// says so, or every log where none waits.
func (o *observer) Used(in *runtime.Instance, u runtime.Use) {
	h := (*Host)(o)
	rec := GrantRecord{Script: in.ID, Kind: u.Kind, Target: u.Target, Allowed: u.Allowed}
	one, _ := h.Thread.CurrentHook().Owner().(*agent)
	for _, a := range h.agents {
		if one != nil && a != one || a.uses[rec] || len(a.uses) >= maxUses {
			continue
		}
		if a.uses == nil {
			a.uses = map[GrantRecord]bool{}
		}
		a.uses[rec] = true
		h.recordAll(a, rec.Script, RecGrant, rec, nil)
	}
}

// approves says whether a script's allow replaces an ask for the tool.
func approves(l *runtime.Listener, tool string) bool {
	if l.Instance == nil {
		return false // a Go listener answers for itself
	}
	for _, n := range l.Instance.Granted(runtime.NeedApprove) {
		if n.MatchName(tool) {
			return true
		}
	}
	return false
}
