package repl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
)

// cmdCompact has the model summarise the conversation. The prompt stays live meanwhile;
// what comes of it the records say.
func (l *Loop) cmdCompact(_ context.Context, instructions string) {
	h, a := l.shell.Host(), l.Agent()
	l.jobs.Add(1)
	h.Thread.Go(context.Background(), func() {
		defer l.jobs.Done()
		if a.Status() == loop.StatusRunning || l.compacting[a] {
			l.Say("the agent is at work: /compact is for when it is idle (while it works, room is made when it is needed)")
			return
		}
		l.compacting[a] = true
		l.status()
		err := a.Compact(instructions)
		delete(l.compacting, a)
		l.status()
		var cause *loop.Cause
		switch {
		case errors.As(err, &cause):
			l.Say("cancelled; the conversation is what it was")
		case err != nil:
			l.Say(render.Visible("not summarised: " + err.Error()))
		}
	})
}

// cmdContext shows what the next request is made of. Before the first one scripts may be
// asked for their sections; the prompt does not wait for that.
func (l *Loop) cmdContext(context.Context, string) {
	h, a := l.shell.Host(), l.Agent()
	l.jobs.Add(1)
	h.Thread.Go(context.Background(), func() {
		defer l.jobs.Done()
		use, err := a.ContextUse()
		if err != nil {
			l.Say(render.Visible(err.Error()))
			return
		}
		cols, _ := l.ed.Size()
		l.ed.Print(render.Wrap(contextTable(use), cols))
	})
}

var partTitles = map[string]string{
	loop.PartSection: "system prompt", loop.PartTool: "tools", loop.PartContext: "runtime context", loop.PartMessage: "messages",
}

// contextTable lays out what a request is made of, by kind, with how much of the window
// each takes.
func contextTable(use loop.ContextUse) string {
	width := len("system prompt")
	for _, p := range use.Parts {
		width = max(width, min(render.Width(partName(p))+2, 48))
	}
	var b strings.Builder
	row := func(name string, tokens int) {
		share := ""
		if use.Window > 0 {
			share = fmt.Sprintf("  %5.1f%%", 100*float64(tokens)/float64(use.Window))
		}
		fmt.Fprintf(&b, "%s%s  %9d%s\n", name, strings.Repeat(" ", max(width-render.Width(name), 0)), tokens, share)
	}
	for _, kind := range []string{loop.PartSection, loop.PartTool, loop.PartContext, loop.PartMessage} {
		sum, any := 0, false
		for _, p := range use.Parts {
			if p.Kind == kind {
				sum, any = sum+p.Tokens, true
			}
		}
		if !any {
			continue
		}
		row(partTitles[kind], sum)
		for _, p := range use.Parts {
			if p.Kind == kind {
				row("  "+partName(p), p.Tokens)
			}
		}
	}
	row("in all", use.Tokens)
	switch {
	case use.Window == 0:
		fmt.Fprintf(&b, "The window of %s/%s is not known: room is made when a request is refused.\n", render.Visible(use.Provider), render.Visible(use.Model))
	default:
		fmt.Fprintf(&b, "The window of %s/%s has %d tokens; from %d on the conversation is summarised. /compact does it now.\n",
			render.Visible(use.Provider), render.Visible(use.Model), use.Window, use.Threshold)
	}
	if use.Counted != nil {
		fmt.Fprintf(&b, "All of this is an estimate; the last request had %d tokens, as the provider counted.\n", use.Counted.InputTokens)
	} else {
		b.WriteString("All of this is an estimate.\n")
	}
	return b.String()
}

func partName(p loop.ContextPart) string {
	name := render.Visible(p.Name)
	if p.Count > 1 {
		name += fmt.Sprintf(" (%d)", p.Count)
	}
	return name
}
