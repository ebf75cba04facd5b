package app

import (
	"sync"
	"time"

	"dshsh/loop"
	"dshsh/loop/tool"
	"dshsh/runtime"
	"dshsh/runtime/reload"
)

// writers notes when tools run that may change things, or what they have left running. A
// change of a script that appears meanwhile, or shortly after, may be the agent's own doing: it is not taken
// without a question, since a guard that its subject can replace is none. Its methods may
// be called from any goroutine.
type writers struct {
	now func() time.Time

	mu      sync.Mutex // guards what follows
	running int
	until   time.Time // when the last of them ended, and holdAfter more
}

// holdAfter is how long after a tool a change still counts as made while it ran: what it
// wrote is noticed with a delay.
const holdAfter = 2 * time.Second

func (w *writers) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running++
}

// run is begin, and gives end.
func (w *writers) run() (end func()) {
	w.begin()
	return w.end
}

func (w *writers) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.until = w.now().Add(holdAfter)
}

// suspect says whether a change that came at since may have been made by a tool.
func (w *writers) suspect(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running > 0 || !since.After(w.until)
}

// watch notes every tool body that may write. On the thread.
func (w *writers) watch(h *loop.Host, reads func(name string, args []byte) bool) {
	loop.ToolsExecute.On(h.Host, func(c loop.ToolCall, next func(loop.ToolCall) (loop.ToolResult, error)) (loop.ToolResult, error) {
		if reads(c.Name, c.Arguments) {
			return next(c)
		}
		defer w.run()()
		return next(c)
	}, runtime.Prepended())
}

// readsOnly says whether a built-in tool's call changes nothing. Tools of scripts can
// write nothing of themselves.
func readsOnly(tools []tool.Tool) func(name string, args []byte) bool {
	byName := map[string]tool.Tool{}
	for _, t := range tools {
		byName[t.Spec().Name] = t
	}
	return func(name string, args []byte) bool {
		t, ok := byName[name]
		if !ok {
			return true
		}
		r, ok := t.(tool.Reader)
		return ok && r.ReadOnly(args)
	}
}

// verdict decides about a change of scripts: none of the project's before its folder is
// trusted, and, wherever the script lies, none that a tool may have made and none that was
// answered with no.
func (s *sh) verdict(c reload.Candidate) reload.Verdict {
	if c.Layer == runtime.LayerProject && !s.isTrusted() || c.Dropped || !c.Since.IsZero() && s.writers.suspect(c.Since) && !s.byPerson(c) {
		return reload.Hold
	}
	return reload.Take
}
