package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"dshsh/cmd/dshsh/internal/config"
	"dshsh/cmd/dshsh/internal/render"
	"dshsh/cmd/dshsh/internal/repl"
	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/runtime"
	"dshsh/runtime/reload"
	"dshsh/session"
)

// prompt is the shell as the prompt sees it: it implements repl.Shell.
type prompt struct {
	*sh
	ed   *repl.Editor
	loop *repl.Loop
	questions
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

// Title implements repl.Shell.
func (p *prompt) Title(id string) string { return sessionTitle(p.store, id) }

// Dir implements repl.Shell.
func (p *prompt) Dir() string { return p.dir }

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
	if near := runtime.Nearest(provider, slices.Collect(maps.Keys(known))); ok && !known[provider] && near != "" {
		return fmt.Errorf("there is no provider %s: did you mean %s?", provider, near)
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

// Models implements repl.Shell.
func (p *prompt) Models() (rows [][2]string) {
	known, err := p.models()
	if err != nil {
		return nil
	}
	for _, svc := range p.cfg.Services {
		for _, k := range known.Of(svc.Name) {
			if k.Provider == "*" && svc.Name != "deepseek" && k.ID != "*" {
				continue // of whoever serves them; a name is enough
			}
			rows = append(rows, [2]string{svc.Name + "/" + k.ID, window(k)})
		}
	}
	return append(rows, [2]string{"offline", "the embedded one, which is no model"})
}

// Window implements repl.Shell.
func (p *prompt) Window(a loop.Agent) string {
	known, err := p.models()
	if err != nil {
		return err.Error()
	}
	if a.Options().Provider == "offline" {
		return ""
	}
	return window(known.Lookup(a.Options().Provider, a.Options().Model))
}

func window(k model.Known) string {
	if k.ContextWindow == 0 {
		return "its window is not known: models.json can say it"
	}
	return fmt.Sprintf("a window of %d tokens", k.ContextWindow)
}

// runPrompt is `dshsh` without a command.
func runPrompt(ctx context.Context, e *Env, f *flags) error {
	if f.file != "" {
		path := f.file
		if !filepath.IsAbs(path) {
			path = filepath.Join(e.Dir, path)
		}
		file, err := os.Open(path)
		if err != nil {
			return usage(fmt.Errorf("--file: %w", err))
		}
		defer file.Close()
		lines := *e
		lines.Stdin, lines.TTY = file, false
		e = &lines
	}
	// From here to the very end: a signal that comes while what the shell started is being
	// ended must not keep that from being done.
	sigs, stopSignals := e.Signals(interrupts...)
	defer stopSignals()
	_, stopPipe := e.Signals(syscall.SIGPIPE) // so that a reader who leaves is an error, not the end
	defer stopPipe()
	p := &prompt{}
	early := &earlyLines{}
	s, err := newShell(e, f, early.say, func(ctx context.Context, q loop.Question, o repl.Approval) (loop.Answer, error) {
		return p.loop.Approve(ctx, q, o)
	})
	if err != nil {
		return err
	}
	p.sh = s
	s.person = func(ctx context.Context, q runtime.Question) (runtime.Answer, error) { return p.loop.Ask(ctx, q) }
	defer s.stop()
	if err := os.MkdirAll(s.cfg.Paths.State, 0o700); err != nil {
		early.say("history is not kept: " + err.Error())
	}
	ed, err := repl.NewEditor(repl.EditorConfig{
		In: e.Stdin, Out: e.Stdout, TTY: e.TTY && e.Getenv("TERM") != "dumb", Prompt: "> ",
		HistoryFile: s.cfg.Paths.History, Bell: s.cfg.Bell, Getenv: e.Getenv,
		Complete:   func(line string, pos int) []repl.Candidate { return p.loop.CompleteLine(line, pos) },
		LastResort: s.abandon,
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
	p.setOnReport(func() { p.ask(qctx) })
	p.ask(qctx)
	ctx, stopWatching := p.signals(ctx, sigs)
	err = p.loop.Run(ctx, a)
	stopWatching()
	p.farewell()
	go p.insist(sigs)
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

// insistAfter is how long the program goes on ending in order after a second signal.
const insistAfter = 3 * time.Second

// insist ends the program by a second signal while it is ending, the first being the one
// that it ends for. Signals often come in twos, so the ending in order has its time; what
// is still running after that is ended as it stands.
func (p *prompt) insist(sigs <-chan os.Signal) {
	<-sigs
	s, ok := (<-sigs).(syscall.Signal)
	if !ok {
		return
	}
	time.Sleep(insistAfter)
	p.ed.Restore()
	p.abandon()
	os.Exit(128 + int(s))
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
			"For a model set " + config.Keys + ", or pass --base-url.\n" +
			"Try: call bash {\"command\":\"echo hi\"}   or /help")
	} else {
		p.loop.Say(fmt.Sprintf("dshsh on %s/%s. /help lists the commands.", p.cfg.Provider, p.cfg.Model))
	}
	if len(rep.Added)+len(rep.Failures)+len(rep.Notices) > 0 {
		p.loop.Say(reportText(rep))
	}
	if line := p.misplaced(); line != "" {
		p.loop.Say(line)
	}
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
