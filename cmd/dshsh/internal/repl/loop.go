package repl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/runtime"
	"dshsh/runtime/reload"
	"dshsh/session"
)

// Shell is what the prompt needs of the program around it. Its methods are called off
// the host thread.
type Shell interface {
	Host() *loop.Host
	Scripts() *reload.Manager
	// New begins a session; Resume goes on with a stored one, by its id or a part of it.
	New() (loop.Agent, error)
	Resume(id string) (loop.Agent, *session.Report, error)
	Sessions() ([]session.Info, error)
	// Route is the model that new requests go to; SetRoute switches the agent to one
	// written as MODEL or PROVIDER/MODEL.
	Route(loop.Agent) string
	SetRoute(a loop.Agent, route string) error
}

// Loop is the prompt's command loop: lines, keys and what the agent does arrive one at a
// time. Run's goroutine owns it; what the host thread touches says so.
type Loop struct {
	ed    *Editor
	shell Shell
	out   *render.Renderer // on the host thread

	mu    sync.Mutex // guards agent
	agent loop.Agent

	lastCtrlC time.Time
	now       func() time.Time
	jobs      sync.WaitGroup // script commands that run on their own
	quit      chan struct{}
	quitOnce  sync.Once
}

// NewLoop makes a loop for an editor that is live.
func NewLoop(ed *Editor, shell Shell, color bool, now func() time.Time) *Loop {
	cols, _ := ed.Size()
	return &Loop{ed: ed, shell: shell, now: now, quit: make(chan struct{}),
		out: render.New(render.Options{Width: cols, Color: color})}
}

// Say shows a line. Any goroutine.
func (l *Loop) Say(line string) { l.ed.Print(line + "\n") }

// Quit ends the loop. Any goroutine.
func (l *Loop) Quit() { l.quitOnce.Do(func() { close(l.quit) }) }

// Run shows what the agent does and obeys what is typed, until the person leaves or ctx
// ends. The agents are left to the caller.
func (l *Loop) Run(ctx context.Context, a loop.Agent) error {
	h := l.shell.Host()
	if err := h.Do(ctx, func() {
		loop.SessionEvent.On(h.Host, l.record)
		loop.AgentStatus.On(h.Host, func(loop.StatusPayload) error { l.status(); return nil })
		loop.InboxInserted.On(h.Host, func(loop.InboxPayload) error { l.status(); return nil })
		loop.InboxClaimed.On(h.Host, func(loop.InboxPayload) error { l.status(); return nil })
		loop.InboxDiscarded.On(h.Host, func(loop.InboxPayload) error { l.status(); return nil })
		loop.ScriptsLoaded.On(h.Host, func(loop.ScriptsPayload) error { l.status(); return nil })
	}); err != nil {
		return err
	}
	l.use(a)
	defer l.jobs.Wait()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.quit:
			return nil
		case ev, ok := <-l.ed.Events():
			if !ok {
				return nil
			}
			if done := l.event(ctx, ev); done {
				return nil
			}
		}
	}
}

// Agent is the one that the prompt talks to. Any goroutine.
func (l *Loop) Agent() loop.Agent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.agent
}

// use makes a the agent that the prompt talks to, and shows the end of its story.
func (l *Loop) use(a loop.Agent) {
	l.mu.Lock()
	l.agent = a
	l.mu.Unlock()
	h := l.shell.Host()
	_ = h.Do(context.Background(), func() {
		h.SetCurrent(a)
		l.replay(a)
		l.status()
	})
}

// shownTurns is how much of a resumed session is shown.
const shownTurns = 3

// replay shows the last turns of a session, through the path that shows live ones. On
// the thread.
func (l *Loop) replay(a loop.Agent) {
	recs := a.Session().Records()
	from, turns := len(recs), 0
	for i := len(recs) - 1; i >= 0 && turns < shownTurns; i-- {
		if recs[i].Type == loop.RecTurnStart {
			from = i
			turns++
		}
	}
	if turns == 0 {
		return
	}
	earlier := 0
	for _, r := range recs[:from] {
		if r.Type == loop.RecTurnStart {
			earlier++
		}
	}
	if earlier > 0 {
		l.Say(fmt.Sprintf("... %d earlier turns", earlier))
	}
	l.out.SetReplay(true)
	for _, r := range recs[from:] {
		if text := l.out.Record(r); text != "" {
			l.ed.Print(text)
		}
	}
	l.out.SetReplay(false)
}

// record shows one record of the agent at the prompt. On the thread.
func (l *Loop) record(p loop.RecordPayload) error {
	if p.Agent != l.Agent() {
		return nil
	}
	if cols, _ := l.ed.Size(); cols > 0 {
		l.out.SetWidth(cols)
	}
	if text := l.out.Record(p.Session.Records()[p.Event.Seq]); text != "" {
		l.ed.Print(text)
	}
	return nil
}

// status renews the status line. On the thread.
func (l *Loop) status() {
	a := l.Agent()
	if a == nil {
		return
	}
	parts := []string{l.shell.Route(a)}
	if n := len(a.Inbox().NextTurn()) + len(a.Inbox().NextStep()); n > 0 {
		parts = append(parts, fmt.Sprintf("%d queued", n))
	}
	if g := l.shell.Host().Current(); len(g.Instances) > 0 {
		parts = append(parts, fmt.Sprintf("scripts %d", g.N))
	}
	if a.Status() == loop.StatusRunning {
		parts = append(parts, "working, Ctrl-C cancels")
	}
	l.ed.SetStatus(strings.Join(parts, " · "))
}

// event handles one event of the editor; true ends the loop.
func (l *Loop) event(ctx context.Context, ev Event) (done bool) {
	switch ev.Kind {
	case Line:
		l.line(ctx, ev.Text)
	case Interrupt:
		return l.interrupt(ev)
	case EOF, Hangup, Signal:
		return true
	}
	return false
}

// twice is how soon a second Ctrl-C must come to mean more than the first.
const twice = 2 * time.Second

// interrupt: once cancels the turn and keeps the queue, twice clears the queue, at an
// idle empty prompt it leaves.
func (l *Loop) interrupt(ev Event) (done bool) {
	a := l.Agent()
	running, queued := false, 0
	_ = l.shell.Host().Do(context.Background(), func() {
		running = a.Status() == loop.StatusRunning
		queued = len(a.Inbox().NextTurn()) + len(a.Inbox().NextStep())
	})
	again := l.now().Sub(l.lastCtrlC) < twice
	l.lastCtrlC = l.now()
	switch {
	case running && !again:
		l.ed.PutBack(ev)
		a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{KeepInbox: true})
		if queued > 0 {
			l.Say(fmt.Sprintf("cancelling; %d queued stay, Ctrl-C again drops them", queued))
		} else {
			l.Say("cancelling")
		}
	case queued > 0 && again:
		l.ed.PutBack(ev)
		a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
		l.Say(fmt.Sprintf("dropped %d queued", queued))
	case running:
		l.ed.PutBack(ev)
		a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
	case ev.Text != "":
		// The line is gone; that is what Ctrl-C at a line means.
	case again:
		// The turn that the first one cancelled is over: nobody meant to leave.
	default:
		return true
	}
	return false
}

// line obeys what was entered.
func (l *Loop) line(ctx context.Context, text string) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
	case strings.HasPrefix(text, "/"):
		l.command(ctx, text)
	case strings.HasPrefix(text, "!"):
		l.Say("`!` commands are not there yet: ask for it, or leave the shell")
	case strings.HasPrefix(text, ">>"):
		if text = strings.TrimSpace(text[2:]); text != "" {
			l.send(text, true)
		}
	default:
		l.send(text, false)
	}
}

// send gives the text to repl/input and what comes of it to the agent: steering while a
// turn runs, else a prompt. It does not wait for the scripts, so that the prompt stays
// live.
func (l *Loop) send(text string, queue bool) {
	h, a := l.shell.Host(), l.Agent()
	h.Thread.Go(context.Background(), func() {
		t := runtime.Target{Scope: a, AgentID: a.ID()}
		in, err := loop.ReplInput.Run(h.Host, t, loop.InputPayload{Agent: a, Text: text}, func(p loop.InputPayload) (loop.Input, error) {
			return loop.Input{Text: p.Text}, nil
		})
		switch {
		case err != nil:
			l.Say("not sent: " + render.Visible(err.Error()))
			return
		case in.Kind == "handled" || in.Text == "":
			return
		}
		m := loop.UserMessage(in.Text)
		switch {
		case !queue && a.Status() == loop.StatusRunning:
			err = a.Steer(m)
		default:
			err = a.Followup(m)
		}
		if err != nil {
			l.Say("not sent: " + render.Visible(err.Error()))
		}
	})
}

// Approve asks the person about a call. It is called on the host thread, which it leaves.
func (l *Loop) Approve(ctx context.Context, q loop.Question, always func()) (loop.Answer, error) {
	var ans string
	var err error
	werr := l.shell.Host().Thread.Away(func() {
		ans, err = l.ed.Ask(ctx, questionText(q), func(s string) bool { return answerOf(s) != "" })
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

// questionText is the question about a call: what would run, why it is asked.
func questionText(q loop.Question) string {
	var b strings.Builder
	what := string(q.Call.Arguments)
	if cmd, ok := q.Call.ToolArgument("command"); ok {
		what = cmd
	} else if path, ok := q.Call.ToolArgument("path"); ok {
		what = path
	}
	fmt.Fprintf(&b, "%s: %s\n", q.Call.Name, what)
	if q.Reason != "" && !strings.Contains(q.Reason, what) {
		fmt.Fprintf(&b, "  %s\n", q.Reason)
	}
	fmt.Fprintf(&b, "allow %s? y / n / always ", q.Call.Name)
	return b.String()
}
