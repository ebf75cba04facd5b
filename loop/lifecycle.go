package loop

import (
	"context"
	"errors"
	"fmt"

	"dshsh/runtime"
	"dshsh/session"
)

// Sources of agent/session-start.
const (
	SourceStartup = "startup"
	SourceResume  = "resume"
)

// CreateOptions are what Create, Resume, Fork and Adopt take.
//
// An agent comes to be in this order: Setup, Commit, session/created, agent/created,
// agent/session-start. Before session/created nobody can find it. What fails up to
// agent/created undoes the creation: nothing is left of it, and its id is free again.
type CreateOptions struct {
	Options
	Header session.Header // ID and Cwd as wanted; the rest is filled in
	// Owner is the agent that the new one belongs to, or nil: it is disposed with its owner.
	Owner Agent
	// Ctx, if not nil, governs the creation alone: when it ends before the agent is
	// announced, the creation fails with its cause.
	Ctx context.Context
	// Setup prepares the agent, and may wait where the caller of Create may: what it
	// registers with runtime.Scoped(agent) hears everything from the first event on.
	Setup func(Agent) error
	// Commit runs after Setup, right before the agent is announced, where nothing waits.
	Commit func(Agent) error

	maker string // the script that asks for it
}

// Create makes a new session and its agent. On the thread, which it leaves for the disk
// where the caller may wait. agent/session-start runs after it has returned; the first
// turn waits for that.
func (h *Host) Create(o CreateOptions) (Agent, error) {
	id := o.Header.ID
	if h.cfg.Store == nil && id == "" {
		id = session.NewID(h.cfg.Now())
	}
	return h.start(id, o, SourceStartup, func() (*session.Log, error) {
		if h.cfg.Store != nil {
			return h.cfg.Store.Create(o.Header)
		}
		hd := o.Header
		hd.ID = id
		return session.Memory(hd, h.memory()), nil
	})
}

func (h *Host) memory() session.Options {
	return session.Options{Now: h.cfg.Now, Validator: NewValidator}
}

// Resume opens a stored session: what a crash left open is closed, and what was pending
// waits again. The report tells what was found; it may be there beside an error.
func (h *Host) Resume(id string, o CreateOptions) (Agent, *session.Report, error) {
	if _, live := h.Agent(id); live {
		return nil, nil, fmt.Errorf("session %s is open in this shell", id)
	}
	if h.cfg.Store == nil {
		return nil, nil, errors.New("session persistence is not configured")
	}
	var rep *session.Report
	a, err := h.start(id, o, SourceResume, func() (log *session.Log, err error) {
		log, rep, err = h.cfg.Store.Open(id)
		return log, err
	})
	return a, rep, err
}

// ResumeOrCreate resumes the session of that id if it is stored, and creates it if not.
// The report is nil for a new one.
func (h *Host) ResumeOrCreate(id string, o CreateOptions) (Agent, *session.Report, error) {
	if h.cfg.Store != nil {
		a, rep, err := h.Resume(id, o)
		if !errors.Is(err, session.NotFound) {
			return a, rep, err
		}
	}
	o.Header.ID = id
	a, err := h.Create(o)
	return a, nil, err
}

// Adopt makes an agent of a log that is open already. The log is the agent's from now
// on: it is closed when this fails, and nobody else may append to it.
func (h *Host) Adopt(log *session.Log, o CreateOptions) (Agent, error) {
	return h.start(log.ID(), o, SourceResume, func() (*session.Log, error) { return log, nil })
}

// away runs what may take the disk's time, off the thread where that is possible.
func (h *Host) away(fn func()) {
	if h.Thread.Away(fn) != nil {
		fn()
	}
}

// start makes an agent of the log that open gives. id is the session's, "" where only
// the store will know.
func (h *Host) start(id string, o CreateOptions, source string, open func() (*session.Log, error)) (_ Agent, err error) {
	if o.MaxTokens < 0 {
		return nil, fmt.Errorf("maxTokens is %d, want a positive number or none", o.MaxTokens)
	}
	owner, _ := o.Owner.(*agent)
	if err := o.wanted(owner); err != nil {
		return nil, err
	}
	release, err := h.reserve(id)
	if err != nil {
		return nil, err
	}
	defer release()
	var log *session.Log
	var saved []string
	h.away(func() {
		if log, err = open(); err == nil && h.cfg.Store != nil {
			saved = h.cfg.Store.FilesDirs(log.Header())
		}
	})
	if err != nil {
		return nil, err
	}
	a := h.newAgent(log, o.Options)
	a.owner, a.maker, a.saved = owner, o.maker, saved
	defer func() {
		if err != nil {
			// A session that this call made goes with it.
			a.discard = source == SourceStartup
			a.rollback()
		}
	}()
	if _, dup := h.Agent(a.id); dup {
		return nil, fmt.Errorf("agent %q exists", a.id)
	}
	if o.Setup != nil {
		if err := o.Setup(a); err != nil {
			return nil, fmt.Errorf("setting up agent %s: %w", a.id, err)
		}
	}
	if err := o.wanted(owner); err != nil {
		return nil, err
	}
	if a.disposing != nil {
		return nil, fmt.Errorf("agent %s: %w", a.id, ErrDisposed)
	}
	if o.Commit != nil {
		h.Thread.Atomic(func() { err = o.Commit(a) })
		if err != nil {
			return nil, fmt.Errorf("setting up agent %s: %w", a.id, err)
		}
	}
	return a, a.announce(source)
}

// wanted says whether the creation is still asked for.
func (o *CreateOptions) wanted(owner *agent) error {
	if o.Ctx != nil && o.Ctx.Err() != nil {
		return context.Cause(o.Ctx)
	}
	if owner != nil && (owner.gone || owner.disposing != nil) {
		return fmt.Errorf("its owner, agent %s: %w", owner.id, ErrDisposed)
	}
	return nil
}

// reserve keeps an id for a creation that may wait, so that a second one of that id
// fails at once and disturbs nothing.
func (h *Host) reserve(id string) (release func(), err error) {
	if id == "" {
		return func() {}, nil
	}
	if _, live := h.Agent(id); live || h.reserved[id] {
		return nil, fmt.Errorf("agent %q exists: %w", id, session.Exists)
	}
	h.reserved[id] = true
	return func() { delete(h.reserved, id) }, nil
}

func (h *Host) newAgent(log *session.Log, o Options) *agent {
	a := &agent{h: h, id: log.ID(), opts: o, log: log, status: StatusIdle,
		started: make(chan struct{}), greeted: map[*runtime.Instance]bool{}, tools: map[string]*nativeTool{}, states: states{}, bags: map[string]*stateBag{}}
	a.creating = true
	a.life, a.kill = context.WithCancelCause(context.Background())
	a.session, a.box = &Session{log: log, a: a}, a.Inbox()
	seed := 0
	if n := log.Header().SeedLength; n != nil {
		seed = *n
	}
	for _, rec := range log.Records() {
		// A fork does not inherit what was pending in its parent (B031).
		if rec.Type == RecInboxSpliced && rec.Seq < int64(seed) {
			continue
		}
		a.fold(rec)
	}
	h.keepLog(log, true)
	return a
}

// announce publishes the agent. A listener's throw, or its disposal in between, vetoes
// that.
func (a *agent) announce(source string) error {
	h := a.h
	a.greetAll()
	h.agents = append(h.agents, a)
	for _, tell := range []func() error{
		func() error { return SessionCreated.FireErr(h.Host, a.target(), SessionPayload{Session: a.session}) },
		func() error { return AgentCreated.FireErr(h.Host, a.target(), AgentPayload{Agent: a}) },
	} {
		a.announced++
		if err := tell(); err != nil {
			return err
		}
		if a.disposing != nil {
			return fmt.Errorf("agent %s: %w", a.id, ErrDisposed)
		}
	}
	a.creating = false
	if g := h.Current(); len(g.Instances) > 0 {
		h.recordGeneration(a, g)
	}
	h.Thread.Go(context.Background(), func() { a.sessionStart(source) })
	return nil
}

// sessionStart runs agent/session-start, whose failures are contained.
func (a *agent) sessionStart(source string) {
	defer a.h.checkScripts()
	defer a.startOver()
	if a.gone || a.disposing != nil {
		return
	}
	t := a.target()
	t.Ctx = a.life
	_ = AgentSessionStart.Run(a.h.Host, t, SessionStartPayload{Agent: a, Source: source})
}

// startOver lets the first turn go on.
func (a *agent) startOver() {
	select {
	case <-a.started:
	default:
		close(a.started)
	}
}

// greetAll notes which scripts know the agent from its creation.
func (a *agent) greetAll() {
	for _, in := range a.h.Current().Instances {
		a.greeted[in] = in.Quarantined() == nil // else it hears nothing now
	}
}

// Greet tells scripts that came into force after the agents were created of each agent,
// so that what they register through agent.ctx is there. App calls it when a generation
// was activated.
func (h *Host) Greet() {
	for _, a := range h.agents {
		for _, in := range h.Current().Instances {
			if !a.greeted[in] {
				a.greet(in)
			}
		}
		for in := range a.greeted {
			if !h.Current().Contains(in) {
				delete(a.greeted, in)
			}
		}
	}
}

// greet replays an agent's creation to one script, which is in force for it: in the
// newest generation, or in the one that its turn holds. A throw quarantines it.
func (a *agent) greet(in *runtime.Instance) {
	gen := a.h.Current()
	if !gen.Contains(in) {
		gen = a.Generation()
	}
	if a.gone || !gen.Contains(in) || in.Quarantined() != nil {
		return
	}
	a.greeted[in] = true
	t := runtime.Target{Gen: gen, Scope: a, AgentID: a.id, Only: in}
	if err := AgentCreated.FireErr(a.h.Host, t, AgentPayload{Agent: a, Replay: true}); err != nil {
		a.h.Quarantine(in, err)
		return
	}
	a.h.Thread.Go(context.Background(), func() {
		if t.Ctx = a.life; !a.gone {
			_ = AgentSessionStart.Run(a.h.Host, t, SessionStartPayload{Agent: a, Source: SourceStartup, Replay: true})
		}
		a.h.checkScripts()
	})
}

func (h *Host) forget(a *agent) {
	for i, x := range h.agents {
		if x == a {
			h.agents = append(h.agents[:i:i], h.agents[i+1:]...)
			break
		}
	}
	if h.current == a {
		h.current = nil
	}
}
