package repl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/session"
)

// cmdShow shows a tool call with all of its arguments and its result.
func (l *Loop) cmdShow(ctx context.Context, arg string) {
	a := l.Agent()
	var recs []session.Record
	_ = l.shell.Host().Do(ctx, func() { recs = a.Session().Records() })
	n := render.CountCalls(recs)
	if n == 0 {
		l.Say("no tool has been called in this session")
		return
	}
	if arg != "" {
		k, err := strconv.Atoi(arg)
		if err != nil || k < 1 || k > n {
			l.Say(fmt.Sprintf("/show N: a tool call from 1 to %d; the last without a number", n))
			return
		}
		n = k
	}
	cols, _ := l.ed.Size()
	l.ed.Print(render.ShowCall(recs, n, cols))
}

func (l *Loop) cmdTools(ctx context.Context, _ string) {
	a := l.Agent()
	var rows [][2]string
	_ = l.shell.Host().Do(ctx, func() {
		for _, t := range a.Tools() {
			text, _, _ := strings.Cut(t.Description, "\n")
			if first, _, ok := strings.Cut(text, ". "); ok {
				text = first + "."
			}
			rows = append(rows, [2]string{render.Visible(t.Name), render.Visible(text)})
		}
	})
	if len(rows) == 0 {
		l.Say("the agent has no tools")
		return
	}
	slices.SortFunc(rows, func(x, y [2]string) int { return strings.Compare(x[0], y[0]) })
	cols, _ := l.ed.Size()
	l.ed.Print(twoColumns(rows, cols))
}

// maxStateLine is how many bytes of a value /state shows; /state SCRIPT shows all.
const maxStateLine = 200

// cmdState shows what scripts keep in the session.
func (l *Loop) cmdState(ctx context.Context, name string) {
	a := l.Agent()
	var all map[string]map[string]json.RawMessage
	_ = l.shell.Host().Do(ctx, func() { all = loop.DeriveState(a.Session().Records()) })
	var b strings.Builder
	for _, script := range slices.Sorted(maps.Keys(all)) {
		if len(all[script]) == 0 || name != "" && !named(script, name) {
			continue
		}
		fmt.Fprintf(&b, "%s\n", script)
		for _, key := range slices.Sorted(maps.Keys(all[script])) {
			raw := all[script][key]
			if name == "" && len(raw) > maxStateLine {
				raw = append(bytes.Clone(raw[:maxStateLine]), " ..."...)
			} else if name != "" {
				var pretty bytes.Buffer
				if json.Indent(&pretty, raw, "  ", "  ") == nil {
					raw = pretty.Bytes()
				}
			}
			fmt.Fprintf(&b, "  %s = %s\n", key, raw)
		}
	}
	switch {
	case b.Len() > 0:
		l.ed.Print(render.Visible(b.String()))
	case name != "":
		l.Say(render.Visible(name + " keeps nothing in this session"))
	default:
		l.Say("no script keeps anything in this session (agent.state)")
	}
}

// named reports whether a person may mean the script with this id by name.
func named(id, name string) bool { return id == name || strings.HasSuffix(id, "/"+name) }
