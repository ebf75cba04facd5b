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

// CreateOptions are what Create takes.
type CreateOptions struct {
	Options
	Header session.Header // ID and Cwd as wanted; the rest is filled in
	// Setup runs before the agent is announced: what it registers with runtime.Scoped(agent)
	// hears everything from the first event on. An error rolls the creation back.
	Setup func(Agent) error
}

// Create makes a new session and its agent. On the thread; it may wait only to run
// agent/session-start, which the first turn waits for.
func (h *Host) Create(o CreateOptions) (Agent, error) {
	if o.MaxTokens < 0 {
		return nil, fmt.Errorf("maxTokens is %d, want a positive number or none", o.MaxTokens)
	}
	var log *session.Log
	if h.cfg.Store != nil {
		var err error
		if log, err = h.cfg.Store.Create(o.Header); err != nil {
			return nil, err
		}
	} else {
		hd := o.Header
		if hd.ID == "" {
			hd.ID = session.NewID(h.cfg.Now())
		}
		log = session.Memory(hd, session.Options{Now: h.cfg.Now, Validator: NewValidator})
	}
	return h.start(log, o, SourceStartup)
}

// Resume opens a stored session: what a crash left open is closed, and what was pending
// waits again. The report tells what was found.
func (h *Host) Resume(id string, o CreateOptions) (Agent, *session.Report, error) {
	if _, live := h.Agent(id); live {
		return nil, nil, fmt.Errorf("session %s is open in this shell", id)
	}
	if h.cfg.Store == nil {
		return nil, nil, errors.New("session persistence is not configured")
	}
	log, rep, err := h.cfg.Store.Open(id)
	if err != nil {
		return nil, rep, err
	}
	a, err := h.start(log, o, SourceResume)
	return a, rep, err
}

// Adopt makes an agent of a log that is open already, such as a fork.
func (h *Host) Adopt(log *session.Log, o CreateOptions) (Agent, error) {
	return h.start(log, o, SourceResume)
}

func (h *Host) start(log *session.Log, o CreateOptions, source string) (_ Agent, err error) {
	a := &agent{h: h, id: log.ID(), opts: o.Options, log: log, status: StatusIdle,
		started: make(chan struct{}), greeted: map[*runtime.Instance]bool{}, tools: map[string]*nativeTool{}}
	a.session = &Session{log: log, a: a}
	if _, dup := h.Agent(a.id); dup {
		_ = log.Close()
		return nil, fmt.Errorf("agent %q exists", a.id)
	}
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
	a.greetAll()
	h.keepLog(log, true)
	announced := false
	defer func() {
		if err != nil {
			a.gone = true
			h.forget(a)
			h.DropScope(a)
			if announced {
				AgentDisposed.Fire(h.Host, runtime.Target{Scope: a, AgentID: a.id}, AgentPayload{Agent: a})
				SessionDisposed.Fire(h.Host, runtime.Target{Scope: a, AgentID: a.id}, SessionPayload{Session: a.session})
			}
			h.keepLog(log, false)
			_ = log.Close()
		}
	}()
	if o.Setup != nil {
		if err := o.Setup(a); err != nil {
			return nil, fmt.Errorf("setting up agent %s: %w", a.id, err)
		}
	}
	h.agents = append(h.agents, a)
	announced = true
	if err := SessionCreated.FireErr(h.Host, a.target(), SessionPayload{Session: a.session}); err != nil {
		return nil, err
	}
	if err := AgentCreated.FireErr(h.Host, a.target(), AgentPayload{Agent: a}); err != nil {
		return nil, err
	}
	if g := h.Current(); len(g.Instances) > 0 {
		h.recordGeneration(a, g)
	}
	h.Thread.Go(context.Background(), func() { a.sessionStart(source) })
	return a, nil
}

// sessionStart runs agent/session-start, whose failures are contained.
func (a *agent) sessionStart(source string) {
	defer close(a.started)
	if a.gone {
		return
	}
	_ = AgentSessionStart.Run(a.h.Host, a.target(), SessionStartPayload{Agent: a, Source: source})
}

// greetAll notes which scripts know the agent from its creation.
func (a *agent) greetAll() {
	for _, in := range a.h.Current().Instances {
		a.greeted[in] = true
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

// greet replays an agent's creation to one script. A throw quarantines it.
func (a *agent) greet(in *runtime.Instance) {
	if a.gone || !a.h.Current().Contains(in) {
		return
	}
	a.greeted[in] = true
	t := runtime.Target{Scope: a, AgentID: a.id, Only: in}
	if err := AgentCreated.FireErr(a.h.Host, t, AgentPayload{Agent: a, Replay: true}); err != nil {
		a.h.Quarantine(in, err)
		return
	}
	a.h.Thread.Go(context.Background(), func() {
		if !a.gone {
			_ = AgentSessionStart.Run(a.h.Host, t, SessionStartPayload{Agent: a, Source: SourceStartup, Replay: true})
		}
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

// Dispose ends the agent: its turn is cancelled and waited for, its registrations go, and
// the log is closed. Concurrent calls share one completion.
func (a *agent) Dispose() error {
	if a.disposing != nil {
		return a.h.Thread.Wait(a.disposing)
	}
	if a.act != nil && !a.h.Thread.CanWait() {
		return runtime.ErrCannotWait
	}
	a.disposing = make(chan struct{})
	defer close(a.disposing)
	a.cancel(&Cause{Kind: CauseDisposed}, false)
	err := a.WhenIdle(context.Background())
	_ = a.h.Thread.Wait(a.started)
	a.gone = true
	a.h.forget(a)
	a.h.DropScope(a)
	t := runtime.Target{Scope: a, AgentID: a.id}
	AgentDisposed.Fire(a.h.Host, t, AgentPayload{Agent: a})
	SessionDisposed.Fire(a.h.Host, t, SessionPayload{Session: a.session})
	a.h.keepLog(a.log, false)
	var cerr error
	if werr := a.h.Thread.Away(func() { cerr = a.log.Close() }); werr != nil {
		cerr = a.log.Close()
	}
	return errors.Join(err, cerr)
}
