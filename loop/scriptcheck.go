package loop

import (
	"fmt"
	"maps"
	"slices"

	"dshsh/runtime"
)

// checkScripts warns, once per script that came into force, of what it says about tools
// that there are not, and of offers that hide another one of the same name. It looks when
// the scripts have been told of an agent, since they may offer tools until then. On the
// thread.
func (h *Host) checkScripts() {
	gen := h.Current()
	if len(h.agents) == 0 {
		return // the first agent's scripts may offer more
	}
	var fresh []*runtime.Instance
	for _, in := range gen.Instances {
		if !h.checked[in] && in.Quarantined() == nil {
			h.checked[in] = true
			fresh = append(fresh, in)
		}
	}
	if len(fresh) > 0 {
		names := map[string]*callee{}
		for _, a := range h.agents {
			maps.Copy(names, a.visible(gen))
		}
		tools := slices.Sorted(maps.Keys(names))
		for _, in := range fresh {
			h.checkNames(in, tools)
		}
		h.checkTwins(gen, fresh)
	}
	for in := range h.checked {
		if !gen.Contains(in) {
			delete(h.checked, in)
		}
	}
}

// checkNames warns of filters that never match, and of approvals of nothing.
func (h *Host) checkNames(in *runtime.Instance, tools []string) {
	warn := func(name string, matches func(string) bool, format string, args ...any) {
		if slices.ContainsFunc(tools, matches) {
			return
		}
		line := fmt.Sprintf(format, args...)
		if near := runtime.Nearest(name, tools); near != "" {
			line += fmt.Sprintf(" (did you mean %q?)", near)
		}
		h.cfg.Notices.Logged(in, "warn", line)
	}
	for _, l := range in.Listeners() {
		for _, name := range l.FilterTools() {
			warn(name.Text, name.Matches, "line %d: the filter of %s names the tool %q, which there is not", l.Pos.Line, l.Event.Name, name.Text)
		}
	}
	for _, n := range in.Needs() {
		if n.Kind == runtime.NeedApprove {
			warn(n.Text, n.MatchName, "ctx.need: approve names the tool %q, which there is not", n.Text)
		}
	}
}

// checkTwins warns of tools and commands of one name: the last is in force.
func (h *Host) checkTwins(gen *runtime.Generation, fresh []*runtime.Instance) {
	type name struct {
		kind, name string
		scope      any
	}
	last := map[name]*runtime.Registration{}
	for _, in := range gen.Instances {
		for _, r := range in.Registrations() {
			if r.Kind != offerTool && r.Kind != OfferCommand || in.Quarantined() != nil {
				continue
			}
			n := name{r.Kind, r.Name, r.Scope}
			if old := last[n]; old != nil && (slices.Contains(fresh, in) || slices.Contains(fresh, old.Instance)) {
				h.cfg.Notices.Logged(in, "warn", fmt.Sprintf("the %s %s is also in %s:%d; that of %s:%d is in force, since it comes later",
					r.Kind, r.Name, old.Instance.File, old.Pos.Line, in.File, r.Pos.Line))
			}
			last[n] = r
		}
	}
}
