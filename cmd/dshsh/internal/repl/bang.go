package repl

import (
	"context"
	"encoding/json"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/loop/model"
)

// bang runs a command that the person has typed behind ! in the agent's shell, and adds
// what it gave to the context; behind !! it is only run. It does not keep the prompt waiting.
func (l *Loop) bang(text string) {
	command, keep := strings.CutPrefix(text, "!")
	if c, only := strings.CutPrefix(command, "!"); only {
		command, keep = c, false
	}
	if command = strings.TrimSpace(command); command == "" {
		l.Say("!COMMAND runs a command and adds its output to the context, !!COMMAND only runs it")
		return
	}
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		l.Say(render.Visible(err.Error()))
		return
	}
	h, a := l.shell.Host(), l.Agent()
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := l.own(cancel)
	l.jobs.Add(1)
	h.Thread.Go(context.Background(), func() {
		defer l.jobs.Done()
		defer stop()
		defer cancel(nil)
		res, err := a.UserCall(ctx, "bash", args)
		if err != nil {
			l.Say(render.Visible("!" + command + ": " + err.Error()))
			return
		}
		out := strings.TrimRight(model.PlainText(res.Content), "\n") // the tool has bounded it
		if out == "" {
			out = "(no output)"
		}
		l.ed.Print(render.Visible(out))
		if !keep || ctx.Err() != nil {
			return
		}
		if err := a.Inject(loop.UserMessage("I ran a command:\n$ " + command + "\n" + out)); err != nil {
			l.Say(render.Visible("not added to the context: " + err.Error()))
		}
	})
}

// own notes what the person has started beside the agent, to be cancelled by Ctrl-C.
func (l *Loop) own(cancel context.CancelCauseFunc) (over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nextOwn++
	n := l.nextOwn
	l.owned[n] = cancel
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.owned, n)
	}
}

// cancelOwn cancels what the person has started, and reports whether there was anything.
func (l *Loop) cancelOwn() bool {
	l.mu.Lock()
	owned := l.owned
	l.owned = map[int]context.CancelCauseFunc{}
	l.mu.Unlock()
	for _, cancel := range owned {
		cancel(&loop.Cause{Kind: loop.CauseUser})
	}
	return len(owned) > 0
}
