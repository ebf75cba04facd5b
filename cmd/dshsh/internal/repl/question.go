package repl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
)

// Approve asks the person about a call. It is called on the host thread, which it leaves.
func (l *Loop) Approve(ctx context.Context, q loop.Question, always func()) (loop.Answer, error) {
	var ans string
	var err error
	cols, _ := l.ed.Size()
	werr := l.shell.Host().Thread.Away(func() {
		ans, err = l.ed.Ask(ctx, questionText(q, cols), wanting("y, n or always", func(s string) bool { return answerOf(s) != "" }))
	})
	switch {
	case werr != nil:
		return loop.Answer{}, werr
	case errors.Is(err, ErrNoPerson):
		return loop.Answer{}, loop.ErrNobody
	case errors.Is(err, ErrInterrupted):
		q.Call.Agent.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{KeepInbox: true})
		return loop.Answer{Reason: "cancelled at the question"}, nil
	case err != nil:
		return loop.Answer{}, err
	}
	switch answerOf(ans) {
	case "always":
		always()
		return loop.Answer{Allow: true}, nil
	case "yes":
		return loop.Answer{Allow: true}, nil
	}
	return loop.Answer{Reason: "the user said no"}, nil
}

// wanting makes an Editor.Ask's check of a test: want is what may be answered.
func wanting(want string, valid func(string) bool) func(string) string {
	return func(s string) string {
		if valid(s) {
			return ""
		}
		return want
	}
}

func answerOf(s string) string {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "y", "yes":
		return "yes"
	case "n", "no":
		return "no"
	case "a", "always":
		return "always"
	}
	return ""
}

// questionText is the question about a call: what would run, why it is asked. The last
// line is the prompt; what does not fit into it stands above, whole.
func questionText(q loop.Question, cols int) string {
	const answers = "? y / n / always "
	what := string(q.Call.Arguments)
	if cmd, ok := q.Call.ToolArgument("command"); ok {
		what = cmd
	} else if path, ok := q.Call.ToolArgument("path"); ok {
		what = path
	}
	var above strings.Builder
	prompt := "allow " + q.Call.Name
	if inline := prompt + ": " + what; !strings.Contains(what, "\n") && (cols <= 0 || render.Width(inline+answers)+len("always") < cols) {
		prompt = inline
	} else {
		fmt.Fprintf(&above, "%s: %s\n", q.Call.Name, what)
	}
	above.WriteString(changes(q.Call))
	if q.Reason != "" && !strings.Contains(q.Reason, what) {
		above.WriteString(render.Wrap("("+q.Reason+")", cols) + "\n")
	}
	return above.String() + prompt + answers
}

// shownLines is how many lines of a change a question shows.
const shownLines = 12

// changes shows what a call would take out of a file and put into it.
func changes(c loop.ToolCall) string {
	var b strings.Builder
	for _, arg := range []struct{ name, mark string }{{"old", "  - "}, {"new", "  + "}, {"content", "  + "}} {
		text, ok := c.ToolArgument(arg.name)
		if !ok || text == "" {
			continue
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		for i, line := range lines {
			if i == shownLines && len(lines) > shownLines+1 {
				fmt.Fprintf(&b, "%s... %d more lines\n", arg.mark, len(lines)-i)
				break
			}
			b.WriteString(arg.mark + line + "\n")
		}
	}
	return b.String()
}
