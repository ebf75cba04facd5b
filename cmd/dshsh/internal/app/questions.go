package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/cmd/dshsh/internal/repl"
	toolfs "dshsh/loop/tool/fs"
	"dshsh/runtime"
	"dshsh/runtime/reload"
)

// questions is what the prompt has asked about scripts, beside everything else: whether the
// project's may run, whether to take what changed while a tool ran, what to grant.
type questions struct {
	asks sync.WaitGroup // the goroutine that asks

	askMu  sync.Mutex      // guards what follows
	asking bool            // there is such a goroutine
	again  bool            // it is to look once more
	put    map[string]bool // what is not asked about again, by key
	open   *question       // the one that is on the screen
	settle func()          // withdraws it
}

// errSettled ends a question that has been answered otherwise.
var errSettled = errors.New("the question is settled")

// question is one that is to be put. Immutable.
type question struct {
	key  string // the same question
	text string
	line string // in its place where nobody can be asked
	show []reload.Candidate
	yes  func(ctx context.Context) error
	no   func(ctx context.Context) error // not put again unless it drops what it is about
}

// ask puts the questions that there are, one after the other, on a goroutine of its own.
func (p *prompt) ask(ctx context.Context) {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	if p.again = true; ctx.Err() != nil {
		return
	}
	if p.asking {
		if q, settle := p.open, p.settle; q != nil {
			p.asks.Go(func() { p.look(ctx, q, settle) })
		}
		return
	}
	p.asking = true
	p.asks.Go(func() {
		for p.more() {
			for q := p.nextQuestion(ctx); q != nil; q = p.nextQuestion(ctx) {
				p.note(q.key, true)
				if err := p.putQuestion(ctx, q); err != nil && !errors.Is(err, context.Canceled) {
					p.loop.Say(render.Visible(err.Error()))
				}
			}
		}
	})
}

// look withdraws a question that nothing asks any more: a change was taken in another way,
// or has been undone.
func (p *prompt) look(ctx context.Context, q *question, settle func()) {
	for _, o := range p.pendingQuestions(ctx) {
		if o.key == q.key {
			return
		}
	}
	settle()
}

// more says whether to look for questions, or that the goroutine is over.
func (p *prompt) more() bool {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	p.asking, p.again = p.again, false
	return p.asking
}

// note keeps a question from being put, or lets it.
func (p *prompt) note(key string, put bool) {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	if p.put == nil {
		p.put = map[string]bool{}
	}
	p.put[key] = put
}

func (p *prompt) wasPut(key string) bool {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	return p.put[key]
}

// held are the changes of scripts that wait for an answer: those that the gate holds, and
// those that need more than was granted.
func (p *prompt) held(ctx context.Context) (gate, grown []reload.Candidate) {
	for _, s := range p.manager.Status(ctx) {
		switch {
		case s.Held == nil:
		case s.Held.Asked:
			grown = append(grown, *s.Held)
		default:
			gate = append(gate, *s.Held)
		}
	}
	return gate, grown
}

// nextQuestion is the first that has not been put, or nil.
func (p *prompt) nextQuestion(ctx context.Context) *question {
	if ctx.Err() != nil {
		return nil
	}
	for _, q := range p.pendingQuestions(ctx) {
		if !p.wasPut(q.key) {
			return q
		}
	}
	return nil
}

// pendingQuestions are those that things as they are ask for, put or not.
func (p *prompt) pendingQuestions(ctx context.Context) (all []*question) {
	gate, grown := p.held(ctx)
	untrusted, changed := p.split(gate)
	if len(untrusted) > 0 {
		all = append(all, p.trustQuestion(untrusted))
	}
	if len(changed) > 0 {
		all = append(all, p.gateQuestion(changed))
	}
	for _, c := range grown {
		all = append(all, p.grownQuestion(c))
	}
	for _, w := range p.wanting(ctx) {
		all = append(all, p.grantQuestion(ctx, w))
	}
	return all
}

// split tells apart those that wait for the project's folder to be trusted.
func (p *prompt) split(gate []reload.Candidate) (untrusted, changed []reload.Candidate) {
	trusted := p.isTrusted()
	for _, c := range gate {
		if c.Layer == runtime.LayerProject && !trusted {
			untrusted = append(untrusted, c)
		} else {
			changed = append(changed, c)
		}
	}
	return untrusted, changed
}

// trustQuestion asks whether the project's scripts may run at all: once, not at every save.
func (p *prompt) trustQuestion(held []reload.Candidate) *question {
	q := &question{key: "trust", show: held, line: untrustedLine(p.sh, reload.Report{Held: held})}
	q.yes = func(ctx context.Context) error {
		if err := p.takeShown(ctx, q); err != nil {
			return err
		}
		return p.trustProject()
	}
	if n := p.wasRevoked(); n > 0 {
		return p.revokedQuestion(q, n)
	}
	q.text = fmt.Sprintf("This folder has scripts that are not trusted: %s\n%s"+
		"They see and change what the agent does. What they need beyond that is asked about when they run.\nRun the scripts? y / n / show ", heldNames(held), heldDetails(held))
	q.no = func(context.Context) error {
		p.loop.Say("the scripts do not run; `/scripts` lists them, `/scripts trust` or a new start asks again")
		return nil
	}
	return q
}

// gateQuestion asks whether to take what changed while a tool ran, or came while it was
// being asked whether the folder is trusted.
func (p *prompt) gateQuestion(held []reload.Candidate) *question {
	q := &question{show: held}
	var ids []string
	for _, c := range held {
		ids = append(ids, c.ID)
		q.key += "held " + c.ID + " " + c.Hash + "\n"
	}
	q.text = fmt.Sprintf("Changed while a tool or program ran, or a question was open: %s\n%sUntil you say so, those in force stay. Take the change? y / n / show ", heldNames(held), heldErrors(held))
	q.line = render.Visible(fmt.Sprintf("Changed while a tool or program ran, or a question was open: %s; those in force stay", heldNames(held)))
	q.yes = func(ctx context.Context) error { return p.takeShown(ctx, q) }
	q.no = func(ctx context.Context) error {
		p.loop.Say("not taken: the scripts in force stay; a save, or `/reload`, brings the question back")
		p.note(q.key, false)
		return p.manager.Drop(ctx, ids...)
	}
	return q
}

// revokedQuestion asks again about a folder that was trusted when this shell began, or
// since, and has lost it from outside.
func (p *prompt) revokedQuestion(q *question, n int) *question {
	q.key = fmt.Sprintf("trust %d", n)
	q.text = fmt.Sprintf("The trust in this folder was taken back, and its scripts have changed: %s\n%s"+
		"Those in force stay as they are.\nTrust the folder again and take the change? y / n / show ", heldNames(q.show), heldDetails(q.show))
	q.line = "the trust in this folder was taken back, so the change is not taken: " + heldNames(q.show)
	q.no = func(context.Context) error {
		p.loop.Say("not taken: the scripts in force stay until you leave; `/scripts trust` trusts the folder again")
		return nil
	}
	return q
}

// takeShown takes what a question has shown. What has changed since is asked about again.
func (p *prompt) takeShown(ctx context.Context, q *question) error {
	_, err := p.manager.TakeShown(ctx, q.show...)
	if err != nil {
		p.note(q.key, false)
	}
	return err
}

// grownQuestion asks about a change that needs more than was granted.
func (p *prompt) grownQuestion(c reload.Candidate) *question {
	w := p.heldNeeds(c)
	q := &question{show: []reload.Candidate{c}, key: "grown " + c.ID + " " + c.Hash, line: p.wantLine(w)}
	q.text = fmt.Sprintf("%s has changed and needs more now:\n%sUntil you say so, the version in force stays.\nGrant it? y / n / show ", c.File, needLines(w))
	q.yes = func(ctx context.Context) error {
		if err := p.grant(w); err != nil {
			return err
		}
		return p.takeShown(ctx, q)
	}
	q.no = func(ctx context.Context) error {
		p.loop.Say("not taken: the version in force stays; a save, or `/reload`, brings the question back")
		p.note(q.key, false)
		return p.manager.Drop(ctx, c.ID)
	}
	return q
}

// grantQuestion asks about a script in force that has not been granted what it needs.
func (p *prompt) grantQuestion(ctx context.Context, w wanting) *question {
	return &question{
		key:  "grant " + w.key + " " + needsText(w.needs),
		text: fmt.Sprintf("%s needs, in this folder:\n%sGrant it? y / n / show ", w.file, needLines(w)),
		show: []reload.Candidate{p.inForce(ctx, w)},
		line: p.wantLine(w),
		yes: func(context.Context) error {
			p.loop.Say(render.Visible(w.file) + " has what it needs, now and at later starts; `dshsh scripts trust --revoke` takes it back")
			return p.grant(w)
		},
		no: func(context.Context) error {
			p.loop.Say(render.Visible(w.file) + " does without; `/scripts trust` or a new start asks again")
			return nil
		},
	}
}

// inForce is what runs of a script, to be shown as what it needs is asked about.
func (s *sh) inForce(ctx context.Context, w wanting) reload.Candidate {
	c := reload.Candidate{ID: w.id, File: w.file}
	for _, sc := range s.manager.Status(ctx) {
		if sc.ID == w.id {
			c.Files = sc.InForce()
		}
	}
	return c
}

// needLines is what a script needs, a line each; of what weighs most it says what a yes
// leads to.
func needLines(w wanting) string {
	var b strings.Builder
	for _, n := range w.needs {
		fmt.Fprintf(&b, "  %s", n)
		if n.Kind == runtime.NeedApprove {
			fmt.Fprintf(&b, "  (it decides in your place: %s may run without asking you)", n.Text)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func heldNames(held []reload.Candidate) string {
	var out []string
	for _, c := range held {
		out = append(out, fmt.Sprintf("%s %s", c.File, c.Kind))
	}
	return strings.Join(out, ", ")
}

// heldErrors is a line for each of the scripts that could not be taken as it is.
func heldErrors(held []reload.Candidate) string {
	var b strings.Builder
	for _, c := range held {
		if c.Err != nil {
			fmt.Fprintf(&b, "  it does not load: %s\n", firstLine(c.Err.Error()))
		}
	}
	return b.String()
}

// heldDetails is a line for each of the scripts: its size, and what names its content.
func heldDetails(held []reload.Candidate) string {
	const most = 10
	var b strings.Builder
	for i, c := range held {
		if i == most {
			fmt.Fprintf(&b, "  and %d more\n", len(held)-most)
			break
		}
		for _, f := range c.Files {
			if filepath.Base(f.Path) == c.File && f.New != nil {
				fmt.Fprintf(&b, "  %s  %d bytes  sha256 %.8x\n", c.File, len(f.New), sha256.Sum256(f.New))
				break
			}
		}
	}
	return b.String()
}

func (p *prompt) putQuestion(ctx context.Context, q *question) error {
	asked, settle := context.WithCancelCause(ctx)
	defer settle(nil)
	p.showing(q, func() { settle(errSettled) })
	defer p.showing(nil, nil)
	p.look(ctx, q, func() { settle(errSettled) }) // it may have been settled before it was open
	for {
		ans, err := p.ed.Ask(asked, q.text, func(s string) string {
			switch s = strings.ToLower(s); {
			case s == "y", s == "yes", s == "n", s == "no", s == "show" && q.show != nil:
				return ""
			case q.show != nil:
				return "y, n or show"
			}
			return "y or n"
		})
		switch {
		case errors.Is(err, repl.ErrNoPerson):
			p.loop.Say(q.line)
			return nil
		case errors.Is(err, errSettled):
			return nil
		case errors.Is(err, repl.ErrInterrupted):
			ans = "n"
		case err != nil:
			return err
		}
		switch strings.ToLower(ans)[0] {
		case 's':
			showHeld(p.loop.Say, q.show)
		case 'n':
			return q.no(ctx)
		default:
			return q.yes(ctx)
		}
	}
}

func (p *prompt) showing(q *question, settle func()) {
	p.askMu.Lock()
	defer p.askMu.Unlock()
	p.open, p.settle = q, settle
}

func showHeld(say func(string), held []reload.Candidate) {
	for _, c := range held {
		for _, f := range c.Files {
			name := filepath.Base(f.Path)
			switch {
			case f.New == nil:
				say("--- " + render.Visible(name) + " is gone")
			case f.Old == nil:
				say("--- " + render.Visible(name))
				say(render.Visible(strings.TrimRight(string(f.New), "\n")))
			default:
				say(render.Visible(strings.TrimRight(toolfs.Diff(name, name, f.Old, f.New), "\n")))
			}
		}
	}
}

// take lets the project's scripts run from now on, and takes what the gate holds.
func (p *prompt) take(ctx context.Context) error {
	if err := p.trustProject(); err != nil {
		return err
	}
	gate, _ := p.held(ctx)
	var ids []string
	for _, c := range gate {
		ids = append(ids, c.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := p.manager.Take(ctx, ids...)
	return err
}

// Trust implements repl.Shell: the project's scripts run from now on, and what was not
// granted is asked about again.
func (p *prompt) Trust(ctx context.Context) error {
	err := p.take(ctx)
	if errors.Is(err, errNoFolder) {
		if err = nil; len(p.wanting(ctx)) == 0 { // the user's own scripts may have needs too
			err = errNoScripts
		}
	}
	p.askMu.Lock()
	clear(p.put)
	p.askMu.Unlock()
	p.mu.Lock()
	look := p.onReport
	p.mu.Unlock()
	if look != nil {
		look()
	}
	return err
}

// Needs implements repl.Shell.
func (p *prompt) Needs(ctx context.Context, id string) string { return p.needsOf(ctx, id) }
