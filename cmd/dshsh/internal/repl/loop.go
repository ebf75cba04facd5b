package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/loop/model"
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
	// Title is what a stored session is about, in a line: its first prompt, or "".
	Title(id string) string
	// Dir is the working folder.
	Dir() string
	// Route is the model that new requests go to; SetRoute switches the agent to one
	// written as MODEL or PROVIDER/MODEL.
	Route(loop.Agent) string
	SetRoute(a loop.Agent, route string) error
	// Models lists the models that are known, as routes, with what is known of them; a * in
	// one stands for any characters. Window says how large the context of an agent's is.
	Models() [][2]string
	Window(loop.Agent) string
	// Attach reads the files that a person's text names with @: what they add to the
	// message, and lines for the person about what was added and what was not.
	Attach(ctx context.Context, a loop.Agent, text string) (blocks []model.Block, notes []string)
	// Trust lets the project's scripts run, and asks again about what was not granted.
	Trust(ctx context.Context) error
	// Rules are the lines of what was allowed, denied or is asked for good, numbered from 1
	// on; RemoveRule takes one out and says which it was.
	Rules() []string
	RemoveRule(n int) (string, error)
	// Needs is what a script needs and whether it was granted, in a line; "" when it needs
	// nothing.
	Needs(ctx context.Context, id string) string
	// ScriptFile is where the script of that name lies, or where one that a person names so
	// is to be made.
	ScriptFile(ctx context.Context, name string) (string, error)
	// WriteScript writes what a person wrote into a script: it is taken without a question.
	WriteScript(ctx context.Context, path string, content []byte) error
}

// Loop is the prompt's command loop: lines, keys and what the agent does arrive one at a
// time. Run's goroutine owns it; what the host thread touches says so.
type Loop struct {
	ed    *Editor
	shell Shell
	look  render.Options
	seats seats               // on the host thread, as is left
	left  map[loop.Agent]bool // ending, and no longer shown

	compacting map[loop.Agent]bool // by /compact; on the host thread

	opening atomic.Int32 // agents that are being made for the prompt

	mu      sync.Mutex // guards what follows
	agent   loop.Agent
	owned   map[int]context.CancelCauseFunc // commands of the person's own that run
	nextOwn int

	listed    []string // ids of the sessions that were listed last
	queued    []string // ids of the messages that /queue showed last; nil = not asked
	lastCtrlC time.Time
	held      map[string]int // by script version: cancels that found a turn waiting for it
	now       func() time.Time
	jobs      sync.WaitGroup // lines under way that do not keep the prompt waiting
	quit      chan struct{}
	quitOnce  sync.Once
}

// NewLoop makes a loop for an editor that is live.
func NewLoop(ed *Editor, shell Shell, color bool, now func() time.Time) *Loop {
	cols, _ := ed.Size()
	return &Loop{ed: ed, shell: shell, now: now, quit: make(chan struct{}), held: map[string]int{}, owned: map[int]context.CancelCauseFunc{}, left: map[loop.Agent]bool{}, compacting: map[loop.Agent]bool{},
		look: render.Options{Width: cols, Color: color, Show: true}}
}

// Say shows a line of the program's own, wrapped to the terminal. Any goroutine.
func (l *Loop) Say(line string) {
	cols, _ := l.ed.Size()
	l.ed.Print(render.Wrap(line, cols) + "\n")
}

// Quit ends the loop. Any goroutine.
func (l *Loop) Quit() { l.quitOnce.Do(func() { close(l.quit) }) }

// SignalError is what Run returns when a signal, or the loss of the terminal, ended it.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "ended by a signal: " + e.Signal.String() }

// Run shows what the agent does and obeys what is typed, until the person leaves or ctx
// ends. Without a person, each line waits until what the one before it began is done. The
// agents are left to the caller.
func (l *Loop) Run(ctx context.Context, a loop.Agent) error {
	h := l.shell.Host()
	if err := h.Do(ctx, func() {
		loop.AgentError.On(h.Host, l.blame)
		loop.AgentDisposed.On(h.Host, l.unseat)
		loop.SessionEvent.On(h.Host, l.record)
		loop.AgentStatus.On(h.Host, l.turned)
		loop.InboxInserted.On(h.Host, func(loop.InboxPayload) error { l.status(); return nil })
		loop.InboxClaimed.On(h.Host, func(loop.InboxPayload) error { l.status(); return nil })
		loop.InboxDiscarded.On(h.Host, func(loop.InboxPayload) error { l.status(); return nil })
		loop.ScriptsLoaded.On(h.Host, func(loop.ScriptsPayload) error { l.status(); return nil })
	}); err != nil {
		return err
	}
	l.use(a, "")
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.quit:
			return nil
		case <-l.ed.Broken():
			return l.unread()
		case ev, ok := <-l.ed.Events():
			if !ok {
				return nil
			}
			if done, err := l.event(ctx, ev); done {
				return err
			}
			if !l.ed.Person() {
				if err := l.settle(ctx); err != nil {
					return err
				}
			}
		}
	}
}

// settle waits until nothing is under way.
func (l *Loop) settle(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	idle := make(chan error, 1)
	go func() {
		l.jobs.Wait()
		var err error
		if derr := l.shell.Host().Do(ctx, func() {
			for _, s := range slices.Clone(l.seats) {
				if err == nil {
					err = s.agent.WhenIdle(ctx)
				}
			}
		}); derr != nil {
			err = derr
		}
		idle <- err
	}()
	select {
	case err := <-idle:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.ed.Broken():
		return l.unread()
	}
}

// unread is what ends a loop whose output nobody reads any more.
func (l *Loop) unread() error {
	if l.ed.Person() {
		return &SignalError{syscall.SIGHUP}
	}
	return &SignalError{syscall.SIGPIPE}
}

// Agent is the one that the prompt talks to. Any goroutine.
func (l *Loop) Agent() loop.Agent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.agent
}

// use makes a the agent that the prompt talks to, and shows the end of its story unless
// that has been shown. One that is new here gets a name.
func (l *Loop) use(a loop.Agent, name string) {
	h := l.shell.Host()
	_ = h.Do(context.Background(), func() {
		before := l.seats.of(l.Agent())
		l.mu.Lock()
		l.agent = a
		l.mu.Unlock()
		h.SetCurrent(a)
		if before != nil {
			before.out.SetAgent(before.name)
		}
		s := l.seat(a, name)
		if name != "" {
			s.name = name
		}
		s.out.SetAgent("")
		if !s.shown {
			s.shown = true
			l.replay(s)
		}
		l.status()
	})
}

// shownTurns is how much of a resumed session is shown.
const shownTurns = 3

// replay shows the last turns of a session, through the path that shows live ones. On
// the thread.
func (l *Loop) replay(s *seat) {
	recs, out := s.agent.Session().Records(), s.out
	from, turns := len(recs), 0
	for i := len(recs) - 1; i >= 0 && turns < shownTurns; i-- {
		if recs[i].Type == loop.RecTurnStart {
			from = i
			turns++
		}
	}
	out.SkipCalls(0)
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
	out.SkipCalls(render.CountCalls(recs[:from]))
	out.SetReplay(true)
	for _, r := range recs[from:] {
		if text := out.Record(r); text != "" {
			l.ed.Print(text)
		}
	}
	out.SetReplay(false)
}

// record shows one record. On the thread.
func (l *Loop) record(p loop.RecordPayload) error {
	s := l.audience(p.Agent)
	if s == nil {
		return nil
	}
	out := s.out
	if cols, _ := l.ed.Size(); cols > 0 {
		out.SetWidth(cols)
	}
	if text := out.Record(p.Session.Records()[p.Event.Seq]); text != "" {
		l.ed.Print(text)
	}
	if p.Event.Type == loop.RecAssistant && p.Agent == l.Agent() {
		l.status() // the context has grown
	}
	return nil
}

// blame keeps which script and line a turn fails for. On the thread.
func (l *Loop) blame(p loop.ErrorPayload) error {
	var se *runtime.ScriptError
	if s := l.seats.of(p.Agent); s != nil && errors.As(p.Error, &se) {
		s.out.Blame(se.Error())
	}
	return nil
}

// fillShown is from what part of the model's window on the status line tells how full it
// is: before, there is nothing to think about.
const fillShown = 10

// longTurn is how long a turn takes after whose end a person may have turned away.
const longTurn = 10 * time.Second

// turned is told that an agent has begun or ended to work. On the thread.
func (l *Loop) turned(p loop.StatusPayload) error {
	if s := l.seats.of(p.Agent); s != nil {
		if p.Status == loop.StatusRunning {
			s.since = l.now()
		} else if l.now().Sub(s.since) >= longTurn {
			l.ed.Ring()
		}
	}
	l.status()
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
	if tokens, window := a.ContextFill(); window > 0 && tokens >= window/fillShown {
		parts = append(parts, fmt.Sprintf("context %d%%", min(tokens*100/window, 999)))
	}
	others := 0
	for _, s := range l.seats {
		if s.agent != a && s.agent.Status() == loop.StatusRunning {
			others++
		}
	}
	if s := l.seats.of(a); s != nil && len(l.seats) > 1 {
		parts = slices.Insert(parts, 0, render.Visible(s.name))
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d more at work", others))
	}
	switch {
	case a.Status() == loop.StatusRunning:
		parts = append(parts, "working, Ctrl-C cancels")
	case l.compacting[a]:
		parts = append(parts, "summarising, Ctrl-C cancels")
	}
	l.ed.SetStatus(strings.Join(parts, " · "))
}

// event handles one event of the editor; done ends the loop.
func (l *Loop) event(ctx context.Context, ev Event) (done bool, err error) {
	switch ev.Kind {
	case Line:
		l.lastCtrlC = time.Time{}
		l.line(ctx, ev.Text)
	case Interrupt:
		return l.interrupt(ev), nil
	case EOF:
		return true, nil
	case Hangup:
		return true, &SignalError{syscall.SIGHUP}
	case Signal:
		return true, &SignalError{ev.Signal}
	}
	return false, nil
}

// twice is how soon a second Ctrl-C must come to mean more than the first.
const twice = 2 * time.Second

// thinks is how long a key waits for the thread: one that does not answer computes.
const thinks = 300 * time.Millisecond

// state is what a cancel finds: whether a turn runs, how many messages wait, and words
// about the script that holds the turn up, if one does.
func (l *Loop) state(a loop.Agent) (running bool, queued int, holder string) {
	ctx, cancel := context.WithTimeout(context.Background(), thinks)
	defer cancel()
	err := l.shell.Host().Do(ctx, func() {
		running = a.Status() == loop.StatusRunning || l.compacting[a]
		queued = len(a.Inbox().NextTurn()) + len(a.Inbox().NextStep())
		if at := l.shell.Host().AwaitedBy(a); running && at != nil {
			holder = l.holder(at)
		}
	})
	return running || err != nil, queued, holder
}

// holder names the script whose listener a turn waits for, and from the second time on
// how to be rid of it. On the thread.
func (l *Loop) holder(at *runtime.Listener) string {
	in := at.Instance
	version := in.ID + " " + in.Hash
	l.held[version]++
	text := fmt.Sprintf("; it waits for %s:%d (%s)", in.File, at.Pos.Line, at.Event.Name)
	if l.held[version] > 1 {
		text += fmt.Sprintf(", not for the first time: `/scripts off %s` switches that script off", in.File)
	}
	return render.Visible(text)
}

// interrupt: once cancels the turn and keeps the queue, twice clears the queue, at an
// idle empty prompt it leaves.
func (l *Loop) interrupt(ev Event) (done bool) {
	if l.cancelOwn() {
		l.ed.PutBack(ev)
		l.Say("cancelling the command")
		return false
	}
	a := l.Agent()
	running, queued, holder := l.state(a)
	again := l.now().Sub(l.lastCtrlC) < twice
	l.lastCtrlC = l.now()
	switch {
	case running && !again:
		l.ed.PutBack(ev)
		a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{KeepInbox: true})
		line := "cancelling"
		if queued > 0 {
			line += fmt.Sprintf("; %d queued stay and go with your next message, Ctrl-C again drops them", queued)
		}
		l.Say(line + holder)
	case queued > 0 && again:
		l.ed.PutBack(ev)
		a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{}) // the records say what is dropped
	case running:
		l.ed.PutBack(ev)
		a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
	case ev.Text != "":
		// The line is gone; that is what Ctrl-C at a line means.
		l.lastCtrlC = time.Time{}
	case again:
		// The turn that the first one cancelled is over meanwhile: nobody meant to leave.
		l.lastCtrlC = time.Time{}
		l.Say("cancelled already; Ctrl-C again leaves")
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
		l.bang(text)
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
	l.jobs.Add(1)
	h.Thread.Go(context.Background(), func() {
		defer l.jobs.Done()
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
		var notes []string
		if strings.Contains(in.Text, "@") {
			if err := h.Thread.Away(func() {
				var blocks []model.Block
				blocks, notes = l.shell.Attach(context.Background(), a, in.Text)
				m.Content = append(m.Content, blocks...)
			}); err != nil {
				notes = append(notes, "no files were added: "+err.Error())
			}
		}
		switch {
		case !queue && a.Status() == loop.StatusRunning:
			err = a.Steer(m)
		default:
			err = a.Followup(m)
		}
		for _, line := range notes {
			l.Say(render.Visible(line))
		}
		if err != nil {
			l.Say("not sent: " + render.Visible(err.Error()))
		}
	})
}
