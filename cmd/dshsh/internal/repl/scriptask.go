package repl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/runtime"
)

// Ask puts a script's question to the person. It is called off the host thread, and waits;
// questions queue. Ctrl-C cancels the turn that waits for the answer.
func (l *Loop) Ask(ctx context.Context, q runtime.Question) (runtime.Answer, error) {
	cols, _ := l.ed.Size()
	ans, err := l.ed.Ask(ctx, scriptQuestion(q, cols), wanting(answersTo(q), func(s string) bool { _, ok := scriptAnswer(q, s); return ok }))
	switch {
	case errors.Is(err, ErrNoPerson):
		return runtime.Answer{}, runtime.ErrNobody
	case errors.Is(err, ErrInterrupted):
		if a, ok := q.Owner.(loop.Agent); ok {
			a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{KeepInbox: true})
		}
		return runtime.Answer{}, errCancelled
	case err != nil:
		return runtime.Answer{}, err
	}
	a, _ := scriptAnswer(q, ans)
	return a, nil
}

// errCancelled is what a question fails with that was answered by Ctrl-C.
var errCancelled = errors.New("cancelled at the question")

// answersTo says what may be answered.
func answersTo(q runtime.Question) string {
	if q.Kind == runtime.AskSelect {
		return fmt.Sprintf("a number from 1 to %d, or an item", len(q.Items))
	}
	return "y or n"
}

// scriptQuestion is the text of a script's question; the last line is the prompt.
func scriptQuestion(q runtime.Question, cols int) string {
	text := "[" + q.Script.File + "] " + strings.TrimSpace(q.Text)
	switch q.Kind {
	case runtime.AskConfirm:
		return wrapLast(text, "y / n", cols)
	case runtime.AskInput:
		return wrapLast(text, "", cols)
	}
	var b strings.Builder
	b.WriteString(render.Wrap(text, cols) + "\n")
	for i, item := range q.Items {
		b.WriteString(render.Wrap(fmt.Sprintf("  %d  %s", i+1, oneLine(item)), cols) + "\n")
	}
	fmt.Fprintf(&b, "1 - %d? ", len(q.Items))
	return b.String()
}

// wrapLast puts a text that leaves no room for an answer beside it above the prompt.
func wrapLast(text, prompt string, cols int) string {
	if line := text + " " + prompt; !strings.Contains(text, "\n") && (cols <= 0 || render.Width(line) < cols-12) {
		return strings.TrimRight(line, " ") + " "
	}
	return render.Wrap(text, cols) + "\n" + cmp.Or(prompt, ">") + " "
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "..."
	}
	return s
}

// scriptAnswer reads what was typed; false when it is no answer. An item is chosen by its
// number or by its text.
func scriptAnswer(q runtime.Question, s string) (a runtime.Answer, ok bool) {
	switch q.Kind {
	case runtime.AskConfirm:
		yes := answerOf(s)
		return runtime.Answer{Yes: yes == "yes"}, yes == "yes" || yes == "no"
	case runtime.AskInput:
		return runtime.Answer{Text: s}, true
	}
	s = strings.TrimSpace(s)
	for i, item := range q.Items {
		if strings.EqualFold(oneLine(item), s) {
			return runtime.Answer{Item: i}, true
		}
	}
	n, err := strconv.Atoi(s)
	return runtime.Answer{Item: n - 1}, err == nil && n >= 1 && n <= len(q.Items)
}
