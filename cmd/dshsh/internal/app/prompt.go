package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/cmd/dshsh/internal/repl"
	"dshsh/loop"
	toolfs "dshsh/loop/tool/fs"
	"dshsh/runtime/reload"
	"dshsh/session"
)

// prompt is the shell as the prompt sees it: it implements repl.Shell.
type prompt struct {
	*sh
	ed   *repl.Editor
	loop *repl.Loop
	asks sync.WaitGroup // trust questions under way

	askMu  sync.Mutex // guards asking
	asking bool       // the question was put, and is open or was answered with no
}

func (p *prompt) Host() *loop.Host         { return p.host }
func (p *prompt) Scripts() *reload.Manager { return p.manager }

// New implements repl.Shell.
func (p *prompt) New() (a loop.Agent, err error) {
	o := loop.CreateOptions{Options: loop.Options{Provider: p.cfg.Provider, Model: p.cfg.Model}, Header: session.Header{Cwd: p.dir}}
	if derr := p.host.Do(context.Background(), func() { a, err = p.host.Create(o) }); derr != nil {
		err = derr
	}
	return a, err
}

// Resume implements repl.Shell.
func (p *prompt) Resume(id string) (loop.Agent, *session.Report, error) {
	id, err := p.store.Resolve(id)
	if err != nil {
		return nil, nil, err
	}
	return p.resumeSession(id, loop.CreateOptions{Options: loop.Options{Provider: p.cfg.Provider, Model: p.cfg.Model}})
}

// Sessions implements repl.Shell: those of this folder.
func (p *prompt) Sessions() ([]session.Info, error) {
	all, err := p.store.List()
	var out []session.Info
	for _, in := range all {
		if in.Header.Cwd == p.dir {
			out = append(out, in)
		}
	}
	return out, err
}

// Route implements repl.Shell.
func (p *prompt) Route(a loop.Agent) string {
	o := a.Options()
	if o.Provider == "offline" {
		return "offline"
	}
	return o.Provider + "/" + o.Model
}

// SetRoute implements repl.Shell.
func (p *prompt) SetRoute(a loop.Agent, route string) error {
	provider, name, ok := strings.Cut(route, "/")
	known := map[string]bool{"offline": true}
	for _, s := range p.cfg.Services {
		known[s.Name] = true
	}
	if route == "offline" {
		provider, name, ok = route, route, true
	}
	if !ok || !known[provider] {
		// A model's own name may hold a slash.
		provider, name = a.Options().Provider, route
		if provider == "offline" {
			return errors.New("the offline provider has one model; name the provider too, as in openai/MODEL, when one is configured")
		}
	}
	return p.host.Do(context.Background(), func() { a.SetModel(provider, name) })
}

// runPrompt is `dshsh` without a command.
func runPrompt(ctx context.Context, e *Env, f *flags) error {
	// From here to the very end: a signal that comes while what the shell started is being
	// ended must not keep that from being done.
	sigs, stopSignals := e.Signals(interrupts...)
	defer stopSignals()
	_, stopPipe := e.Signals(syscall.SIGPIPE) // so that a reader who leaves is an error, not the end
	defer stopPipe()
	p := &prompt{}
	early := &earlyLines{}
	s, err := newShell(e, f, early.say, func(ctx context.Context, q loop.Question) (loop.Answer, error) {
		return p.loop.Approve(ctx, q, func() { p.approvals.Add(q.Call.Name, q.Call.Arguments) })
	})
	if err != nil {
		return err
	}
	p.sh = s
	defer s.stop()
	if err := os.MkdirAll(s.cfg.Paths.State, 0o700); err != nil {
		early.say("history is not kept: " + err.Error())
	}
	ed, err := repl.NewEditor(repl.EditorConfig{
		In: e.Stdin, Out: e.Stdout, TTY: e.TTY && e.Getenv("TERM") != "dumb", Prompt: "> ",
		HistoryFile: s.cfg.Paths.History, Getenv: e.Getenv,
		Complete: func(line string, pos int) []repl.Candidate { return p.loop.CompleteLine(line, pos) },
	})
	if err != nil {
		return err
	}
	p.ed = ed
	defer ed.RestoreOnPanic()
	defer ed.Close()
	p.loop = repl.NewLoop(ed, p, render.ColorFromEnv(e.TTY, e.Getenv), e.Now)
	early.become(p.loop.Say)
	rep, err := s.start(ctx)
	if err != nil {
		return err
	}
	p.welcome(rep)
	a, srep, err := s.session()
	if err != nil {
		return err
	}
	for _, line := range reportLines(srep) {
		p.loop.Say(line)
	}
	defer p.asks.Wait()
	qctx, stop := context.WithCancel(ctx)
	defer stop()
	p.setOnHeld(func() { p.askTrust(qctx) })
	if len(rep.Held) > 0 {
		p.askTrust(qctx)
	}
	ctx, stopWatching := p.signals(ctx, sigs)
	err = p.loop.Run(ctx, a)
	stopWatching()
	p.farewell()
	go insist(sigs)
	var sig *repl.SignalError
	if errors.As(err, &sig) {
		n, _ := sig.Signal.(syscall.Signal)
		return &exitCode{128 + int(n), nil}
	}
	return err
}

// signals ends the context by the signals that ask a program to end. With a person the
// editor takes them.
func (p *prompt) signals(ctx context.Context, sigs <-chan os.Signal) (context.Context, func()) {
	if p.ed.Person() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-sigs:
			cancel(&repl.SignalError{Signal: s})
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		cancel(nil)
	}
}

// insist ends the program while it is ending, by a second signal: the first may be the one
// that it ends for.
func insist(sigs <-chan os.Signal) {
	<-sigs
	s, ok := (<-sigs).(syscall.Signal)
	if ok {
		os.Exit(128 + int(s))
	}
}

// farewell says how to come back, if there is something to come back to.
func (p *prompt) farewell() {
	a := p.loop.Agent()
	turns := false
	if a != nil {
		for _, r := range a.Session().Records() {
			turns = turns || r.Type == loop.RecTurnStart
		}
	}
	if turns && p.e.TTY {
		p.loop.Say("session " + a.ID() + "; `dshsh --continue` goes on with it")
	}
}

// welcome is the first lines: what answers, which scripts are in force.
func (p *prompt) welcome(rep reload.Report) {
	if p.cfg.NoKey {
		p.loop.Say("dshsh on the offline provider, which is no model but can call tools. " +
			"For a model set DEEPSEEK_API_KEY or OPENAI_API_KEY, or pass --base-url.\n" +
			"Try: call bash {\"command\":\"echo hi\"}   or /help")
	} else {
		p.loop.Say(fmt.Sprintf("dshsh on %s/%s. /help lists the commands.", p.cfg.Provider, p.cfg.Model))
	}
	if len(rep.Added)+len(rep.Failures) > 0 {
		p.loop.Say(reportText(rep))
	}
}

// askTrust asks, beside everything else, about scripts that wait: whether the project's may
// run at all, and in a trusted folder whether to take what changed while a tool ran. An
// untrusted folder is asked about once, not at every save.
func (p *prompt) askTrust(ctx context.Context) {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	if p.asking || ctx.Err() != nil {
		return
	}
	p.asking = true
	p.asks.Add(1)
	go func() {
		defer p.asks.Done()
		err := p.scriptQuestion(ctx)
		if err != nil && !errors.Is(err, context.Canceled) {
			p.loop.Say(render.Visible(err.Error()))
		}
		p.askMu.Lock()
		p.asking = !p.isTrusted()
		p.askMu.Unlock()
		if err == nil && p.isTrusted() && len(p.held(ctx)) > 0 {
			p.askTrust(ctx) // more has come meanwhile
		}
	}()
}

// held are the changes of scripts that wait for an answer now.
func (p *prompt) held(ctx context.Context) (out []reload.Candidate) {
	for _, s := range p.manager.Status(ctx) {
		if s.Held != nil {
			out = append(out, *s.Held)
		}
	}
	return out
}

func heldNames(held []reload.Candidate) string {
	var out []string
	for _, c := range held {
		out = append(out, fmt.Sprintf("%s %s", c.File, c.Kind))
	}
	return strings.Join(out, ", ")
}

func (p *prompt) scriptQuestion(ctx context.Context) error {
	for {
		held := p.held(ctx)
		q := fmt.Sprintf("This folder has scripts that are not trusted: %s\nThey see and change what the agent does. Run the scripts? y / n / show ", heldNames(held))
		if p.isTrusted() {
			if len(held) == 0 {
				return nil
			}
			q = fmt.Sprintf("While a tool ran, scripts of this folder changed: %s\nUntil you say so, those in force stay. Take the change? y / n / show ", heldNames(held))
		}
		ans, err := p.ed.Ask(ctx, q, func(s string) bool {
			s = strings.ToLower(s)
			return s == "y" || s == "yes" || s == "n" || s == "no" || s == "show"
		})
		switch {
		case errors.Is(err, repl.ErrNoPerson):
			p.loop.Say(untrustedLine(p.sh, reload.Report{Held: held}))
			return nil
		case errors.Is(err, repl.ErrInterrupted):
			ans = "n"
		case err != nil:
			return err
		}
		switch strings.ToLower(ans)[0] {
		case 's':
			p.showHeld(held)
		case 'n':
			return p.refuse(ctx, held)
		default:
			return p.Trust(ctx)
		}
	}
}

func (p *prompt) showHeld(held []reload.Candidate) {
	for _, c := range held {
		for _, f := range c.Files {
			name := filepath.Base(f.Path)
			switch {
			case f.New == nil:
				p.loop.Say("--- " + render.Visible(name) + " is gone")
			case f.Old == nil:
				p.loop.Say("--- " + render.Visible(name))
				p.loop.Say(render.Visible(strings.TrimRight(string(f.New), "\n")))
			default:
				p.loop.Say(render.Visible(strings.TrimRight(toolfs.Diff(name, name, f.Old, f.New), "\n")))
			}
		}
	}
}

// refuse leaves what waits where it is: in an untrusted folder all scripts, in a trusted
// one the change, which is not asked about again.
func (p *prompt) refuse(ctx context.Context, held []reload.Candidate) error {
	if !p.isTrusted() {
		p.loop.Say("the scripts do not run; `/scripts` lists them, `/scripts trust` or a new start asks again")
		return nil
	}
	var ids []string
	for _, c := range held {
		ids = append(ids, c.ID)
	}
	p.loop.Say("not taken: the scripts in force stay; a save, or `/reload`, brings the question back")
	return p.manager.Drop(ctx, ids...)
}

// Trust implements repl.Shell: the project's scripts run from now on.
func (p *prompt) Trust(ctx context.Context) error {
	if err := p.trustProject(); err != nil {
		return err
	}
	var ids []string
	for _, c := range p.held(ctx) {
		ids = append(ids, c.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := p.manager.Take(ctx, ids...)
	return err
}

// earlyLines keeps what is said before there is a prompt.
type earlyLines struct {
	mu    sync.Mutex // guards both
	lines []string
	to    func(string)
}

func (x *earlyLines) say(line string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.to == nil {
		x.lines = append(x.lines, line)
		return
	}
	x.to(line)
}

func (x *earlyLines) become(to func(string)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.to = to
	for _, l := range x.lines {
		to(l)
	}
	x.lines = nil
}
