// Package loop drives agents: an inbox, turns made of steps, tools, cancellation and an
// error path, over a session log. What it does is observable in two ways: as records in
// the log and as live events, both declared here (records.go, events.go) and both open
// to scripts in any language of the host.
//
// Everything runs on the host thread of a [runtime.Host]: from outside, enter with
// Host.Do. Agent.ID and Agent.Cancel may be called from anywhere.
package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/runtime"
	"dshsh/session"
)

// Caps bound what scripts can set in motion. Zero fields take the default.
type Caps struct {
	ScriptTurns   int // turns begun by scripts with no person's input in between; default 25
	Continuations int // continuations in one turn forced by scripts; default 25
	Steps         int // steps in one turn; 0 = no cap
	Deferred      int // operations deferred from inside one, or of listeners of one inbox change; default 1000
	Pending       int // messages from scripts that wait in one inbox; default 100
	Agents        int // live agents that scripts have made; default 100
}

// Config configures New. Immutable once given.
type Config struct {
	Engines   []runtime.Engine
	Providers []model.Provider
	Tools     []tool.Tool
	Policy    Policy // nil allows everything
	// Approve puts an ask to a person. It is called on the thread and may leave it; nil,
	// or ErrNobody, is a denial.
	Approve func(ctx context.Context, q Question) (Answer, error)
	// UI is whom scripts' ctx.ui speaks to; nil is nobody. A question's Owner is an Agent,
	// or nil.
	UI runtime.UI
	// Commands are names of slash commands that scripts may not take.
	Commands []string
	// Retry gives a provider's retry policy, nil for none; a nil Retry is DefaultRetry.
	Retry func(provider string) *RetryPolicy
	// Fallback are the models that a turn goes on with, in this order, when the agent's own
	// fails in a way that another may not; the next turn begins with the agent's own again.
	Fallback []Route
	// Sections is the system prompt's standing part.
	Sections []PromptSection
	// Contexts is what the model should know of the moment: read at every step, and sent
	// as a message when it has changed.
	Contexts []ContextProvider
	// Variables are what {{name}} in a section stands for, besides provider and model.
	Variables map[string]string
	// ToolOrder is the order in which the model is told of tools, "*" standing for those
	// that it does not name; nil is by name.
	ToolOrder []string
	// Modules are what scripts can require, Grants what the user has granted them.
	Modules []runtime.Module
	Grants  runtime.Grants
	// Members are further members of scripts' ctx.
	Members []*runtime.Member
	// Notices are told, on the thread, what a person should see and no record says.
	Notices Notices
	Store   *session.Store // nil keeps sessions in memory
	Limits  runtime.Limits
	Caps    Caps
	// Parallel is how many tool bodies of one message may overlap; default 10. SetParallel
	// changes it.
	Parallel int
	Thread   runtime.ThreadOptions
	Now      func() time.Time
}

// ContextProvider is one named piece of runtime context. Text is called on the thread and
// does no blocking work; "" leaves the piece out.
type ContextProvider struct {
	Name string
	Text func(Agent) string
}

// Notices receives what a person should see. Its methods run on the thread and may not
// wait; embed NoNotices to take a part.
type Notices interface {
	// Failed: a script failed where the loop goes on.
	Failed(runtime.Failure)
	// Quarantined: a script's listeners fail from now on.
	Quarantined(in *runtime.Instance, reason error)
	// Logged: a script printed.
	Logged(in *runtime.Instance, level, text string)
	// Capped: a cap stopped something, said in a line.
	Capped(a Agent, line string)
	// Broken: a log could not be written or synced.
	Broken(a Agent, err error)
}

// NoNotices ignores everything.
type NoNotices struct{}

func (NoNotices) Failed(runtime.Failure)                   {}
func (NoNotices) Quarantined(*runtime.Instance, error)     {}
func (NoNotices) Logged(*runtime.Instance, string, string) {}
func (NoNotices) Capped(Agent, string)                     {}
func (NoNotices) Broken(Agent, error)                      {}

// Host holds the agents of one host thread. Its methods are called on the thread.
type Host struct {
	*runtime.Host
	cfg       Config
	providers map[string]model.Provider
	tools     map[string]*nativeTool
	agents    []*agent        // in the order of their creation
	reserved  map[string]bool // ids of agents that are being made

	parallel   int                           // tool bodies that may overlap
	ops        int                           // nested host operations
	publishing int                           // session/event dispatches in progress: nothing can append
	deferred   []deferredOp                  // rule 7: waits for the outermost operation's end
	dropped    map[string]int                // by script: operations refused beyond the cap
	warned     map[string]bool               // who was told of as dropped, since a person's last message
	checked    map[*runtime.Instance]bool    // looked at by checkScripts
	written    map[string]*runtime.Allowance // by script: of writes to agent.state
	current    *agent                        // the one that ctx.agents.current means to a prompt

	logsMu sync.Mutex // guards logs
	logs   map[*session.Log]struct{}
}

type deferredOp struct {
	what    string
	fn      func()
	refused func() // told where the cap keeps fn from running; nil = nobody
}

// New returns a host with no agents.
func New(cfg Config) (*Host, error) {
	h := &Host{cfg: cfg, providers: map[string]model.Provider{}, tools: map[string]*nativeTool{}, reserved: map[string]bool{}, warned: map[string]bool{}, checked: map[*runtime.Instance]bool{}, written: map[string]*runtime.Allowance{}, logs: map[*session.Log]struct{}{}}
	if h.cfg.Notices == nil {
		h.cfg.Notices = NoNotices{}
	}
	if h.cfg.Now == nil {
		h.cfg.Now = time.Now
	}
	c := &h.cfg.Caps
	if c.ScriptTurns == 0 {
		c.ScriptTurns = 25
	}
	if c.Continuations == 0 {
		c.Continuations = 25
	}
	if c.Deferred == 0 {
		c.Deferred = 1000
	}
	if c.Pending == 0 {
		c.Pending = 100
	}
	if c.Agents == 0 {
		c.Agents = 100
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 10
	}
	if err := h.SetParallel(cfg.Parallel); err != nil {
		return nil, err
	}
	for _, p := range cfg.Providers {
		if h.providers[p.Name()] != nil {
			return nil, fmt.Errorf("provider %q is configured twice", p.Name())
		}
		h.providers[p.Name()] = p
	}
	for _, t := range cfg.Tools {
		name := t.Spec().Name
		if h.tools[name] != nil {
			return nil, fmt.Errorf("tool %q is configured twice", name)
		}
		nt, err := newNativeTool(t)
		if err != nil {
			return nil, err
		}
		h.tools[name] = nt
	}
	h.Host = runtime.NewHost(runtime.HostConfig{
		Events: catalogue, Engines: cfg.Engines, Limits: cfg.Limits, Modules: cfg.Modules, Grants: cfg.Grants, Now: h.cfg.Now, Thread: cfg.Thread,
		Observer: (*observer)(h), UI: cfg.UI, Members: append(h.members(), cfg.Members...),
	})
	return h, nil
}

// SetParallel changes how many tool bodies may overlap, from the next group of calls on.
func (h *Host) SetParallel(n int) error {
	if n < 1 {
		return fmt.Errorf("the cap on parallel tool calls is %d, want at least 1", n)
	}
	h.parallel = n
	return nil
}

// Agents lists the live agents in the order of their creation.
func (h *Host) Agents() []Agent {
	out := make([]Agent, len(h.agents))
	for i, a := range h.agents {
		out[i] = a
	}
	return out
}

// Agent finds a live agent.
func (h *Host) Agent(id string) (Agent, bool) {
	for _, a := range h.agents {
		if a.id == id {
			return a, true
		}
	}
	return nil, false
}

// SetCurrent says which agent scripts get from ctx.agents.current().
func (h *Host) SetCurrent(a Agent) { h.current, _ = a.(*agent) }

// Stop ends what scripts do on their own account, disposes every agent and closes the host.
// It is called off the thread.
func (h *Host) Stop() {
	var all []Agent
	if err := h.Do(context.Background(), func() { h.EndBackground(); all = h.Agents() }); err == nil {
		for _, a := range all {
			a.Cancel(Cause{Kind: CauseDisposed}, CancelOptions{})
		}
		for _, a := range all {
			_ = h.Do(context.Background(), func() { _ = a.Dispose() })
		}
	}
	h.Host.Close()
}

// SyncLogs makes every open log durable. It needs no thread: any goroutine may call it,
// as the last resort when the thread is stuck.
func (h *Host) SyncLogs() error {
	h.logsMu.Lock()
	defer h.logsMu.Unlock()
	var errs []error
	for l := range h.logs {
		errs = append(errs, l.Sync())
	}
	return errors.Join(errs...)
}

func (h *Host) keepLog(l *session.Log, open bool) {
	h.logsMu.Lock()
	defer h.logsMu.Unlock()
	if open {
		h.logs[l] = struct{}{}
	} else {
		delete(h.logs, l)
	}
}

// RecordGeneration notes in every agent's log which scripts came into force.
func (h *Host) RecordGeneration(g *runtime.Generation) {
	for _, a := range h.agents {
		h.recordGeneration(a, g)
	}
}

func (h *Host) recordGeneration(a *agent, g *runtime.Generation) {
	rec := GenerationRecord{Generation: g.N, Scripts: []GenerationEntry{}}
	for _, in := range g.Instances {
		rec.Scripts = append(rec.Scripts, GenerationEntry{Name: in.ID, Layer: in.Layer.String(), Hash: in.Hash})
	}
	h.recordAll(a, "script records", RecGeneration, rec, nil)
}

// op runs one host operation. When the outermost has finished its own changes and
// emits, what listeners asked for inside it is carried out.
func (h *Host) op(fn func()) {
	h.ops++
	func() {
		defer func() { h.ops-- }()
		fn()
	}()
	if h.ops > 0 || h.publishing > 0 {
		return
	}
	done := 0
	for len(h.deferred) > 0 {
		d := h.deferred[0]
		h.deferred = h.deferred[1:]
		if done++; done > h.budget() {
			h.refuseDeferred(d)
			continue
		}
		h.ops++
		func() {
			defer func() { h.ops-- }()
			d.fn()
		}()
	}
	h.reportDropped()
}

// later puts an operation off until the outermost one has finished, or runs it.
func (h *Host) later(what string, fn func()) { h.laterUnless(what, fn, nil) }

// laterUnless is later, with refused called where the cap keeps fn from running.
func (h *Host) laterUnless(what string, fn, refused func()) {
	if h.publishing > 0 {
		h.deferred = append(h.deferred, deferredOp{what, fn, refused})
		return
	}
	h.op(fn)
}

func (h *Host) refuseDeferred(d deferredOp) {
	if h.dropped == nil {
		h.dropped = map[string]int{}
	}
	h.dropped[d.what]++
	if d.refused != nil {
		d.refused()
	}
}

func (h *Host) reportDropped() {
	dropped := h.dropped
	h.dropped = nil
	for what, n := range dropped {
		h.warn(what, fmt.Sprintf("%d operations refused: %s caused more than %d from inside one session event; `/scripts off NAME` ends it", n, what, h.cfg.Caps.Deferred))
	}
}

// observer turns what the runtime sees of scripts into records and notices.
type observer Host

func (o *observer) Failed(f runtime.Failure) {
	h := (*Host)(o)
	h.cfg.Notices.Failed(f)
	if f.Instance == nil {
		return
	}
	rec := HookError{Event: f.What, Turn: f.Target.Turn, Step: f.Target.Step, Script: f.Instance.ID, Message: runtime.Message(f.Err)}
	var se *runtime.ScriptError
	if errors.As(f.Err, &se) {
		rec.Line = se.Pos.Line
	}
	if f.Event != nil {
		rec.Event = f.Event.Name
	}
	h.recordAll(f.Target.Scope, f.Instance.ID, RecHookError, rec, f.Listener)
}

func (o *observer) Decided(d runtime.Decision) {
	h := (*Host)(o)
	rec := HookDecision{Event: d.Event.Name, Turn: d.Target.Turn, Step: d.Target.Step, CallID: d.Target.CallID, Layers: d.Layers, Decided: d.Decided}
	if in, ok := d.Payload.(interface{ decisionInput() []byte }); ok {
		rec.Input = capInput(in.decisionInput())
	}
	h.recordAll(d.Target.Scope, "script records", RecHookDecision, rec, nil)
}

func (o *observer) Quarantined(in *runtime.Instance, reason error) {
	h := (*Host)(o)
	h.cfg.Notices.Quarantined(in, reason)
	h.recordAll(nil, in.ID, RecQuarantined, Quarantined{Script: in.ID, Hash: in.Hash, Reason: runtime.Message(reason)}, nil)
}

func (o *observer) Rebuilt(in *runtime.Instance) {
	h := (*Host)(o)
	for _, a := range h.agents {
		a.greet(in)
	}
}

// Lifted implements runtime.LiftObserver.
func (o *observer) Lifted(in *runtime.Instance) {
	h := (*Host)(o)
	for _, a := range h.agents {
		if !a.greeted[in] {
			a.greet(in)
		}
	}
}

func (o *observer) Logged(in *runtime.Instance, level, text string) {
	(*Host)(o).cfg.Notices.Logged(in, level, text)
}

// recordAll writes an ignorable record to one agent's log, or to every agent's, on account
// of a script. The listener that caused it does not hear of it.
func (h *Host) recordAll(scope any, script, typ string, data any, cause *runtime.Listener) {
	one, _ := scope.(*agent)
	for _, a := range h.agents {
		if one != nil && a != one || a.gone {
			continue
		}
		h.later(script, func() {
			if a.gone {
				return
			}
			if _, err := a.appendExcept(typ, data, cause); err != nil {
				h.cfg.Notices.Broken(a, err)
			}
		})
	}
}

// maxDecisionInput is how much of a call's arguments a hook/decision record keeps.
const maxDecisionInput = 4 << 10
