package loop

import (
	"fmt"
	"maps"
	"slices"

	"dshsh/runtime"
)

// checkFilters warns, once per script, of listeners whose filter names a tool that there
// is not: they would never be called. It looks when a turn begins, since scripts may
// offer tools until then.
func (a *agent) checkFilters(gen *runtime.Generation) {
	var tools []string
	for _, in := range gen.Instances {
		if a.h.checked[in] {
			continue
		}
		a.h.checked[in] = true
		for _, l := range in.Listeners() {
			for _, name := range l.FilterTools() {
				if tools == nil {
					tools = slices.Sorted(maps.Keys(a.visible(gen)))
				}
				if slices.ContainsFunc(tools, name.Matches) {
					continue
				}
				line := fmt.Sprintf("line %d: the filter of %s names the tool %q, which there is not", l.Pos.Line, l.Event.Name, name.Text)
				if near := runtime.Nearest(name.Text, tools); near != "" {
					line += fmt.Sprintf(" (did you mean %q?)", near)
				}
				a.h.cfg.Notices.Logged(in, "warn", line)
			}
		}
	}
	for in := range a.h.checked {
		if !gen.Contains(in) && !a.h.Current().Contains(in) {
			delete(a.h.checked, in)
		}
	}
}
