package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/runtime"
	"dshsh/session"
)

// Statuses of an agent. Maintenance counts as idle.
const (
	StatusIdle    = "idle"
	StatusRunning = "running"
)

// Options are what an agent is created with.
type Options struct {
	Provider  string `json:"provider,omitempty"`
	Model     string `json:"model,omitempty"`
	MaxTokens int    `json:"maxTokens,omitempty"`
}

// CancelOptions adjust Cancel.
type CancelOptions struct {
	KeepInbox bool `json:"keepInbox,omitempty"` // park what is queued instead of dropping it
}

// Agent is the handle on one agent. All methods are called on the host thread (Host.Do
// from outside), except ID and Cancel, which any goroutine may call.
type Agent interface {
	runtime.Object
	// ID is the session's id.
	ID() string
	Options() Options
	Session() *Session
	Inbox() *Inbox
	// Status is idle or running.
	Status() string
	// Send queues a message; target is NextTurn or NextStep; wakeup starts a turn when the
	// agent is idle: when it returns, status is running, turn/start is logged and the
	// message is claimed. An error means that nothing was queued.
	Send(m model.Message, target string, wakeup bool) error
	// Followup queues a prompt for a turn of its own.
	Followup(m model.Message) error
	// Steer hands a message to the next step of the running turn, or starts one.
	Steer(m model.Message) error
	// Inject adds context to the next step without waking the agent.
	Inject(m model.Message) error
	// Cancel drops what is queued, unless KeepInbox, and aborts the turn. The first cause
	// wins. It never waits for a script.
	Cancel(cause Cause, o CancelOptions)
	// WhenIdle waits until no turn and no maintenance runs and nothing that was sent
	// meanwhile is about to. It fails where waiting is not possible or could never end.
	WhenIdle(ctx context.Context) error
	// RunMaintenance runs task as the agent's only activity; status stays idle. It fails
	// at once when the agent is busy.
	RunMaintenance(task func(ctx context.Context) error) error
	// Compact has the model summarise the conversation, as instructions say if they are not
	// empty, and puts the summary in its place. It runs as maintenance, waits, and fails at
	// once when the agent is busy. When it fails the conversation is what it was.
	Compact(instructions string) error
	// ContextFill is about how many tokens the next request has, and how many the model can
	// take; 0 where that is not known.
	ContextFill() (tokens, window int)
	// ContextUse lists what the next request is made of. It may wait before the first one.
	ContextUse() (ContextUse, error)
	// UserCall runs a tool for the person at the prompt, beside whatever the agent does:
	// scripts and guards judge it as a call of the model (its By is ByUser), but what would
	// be asked is allowed unless a guard asks. It is no part of the conversation, and ends
	// with ctx, whose cause is a *Cause. It waits for the tool.
	UserCall(ctx context.Context, name string, args json.RawMessage) (ToolResult, error)
	// Use gives the agent a tool of its own, in front of the host's of that name.
	Use(t tool.Tool) error
	// Tools describes the tools that the agent has now, in no order. On the host thread.
	Tools() []model.ToolSpec
	// Restrict narrows the tools that the agent inherits from the host to those allowed
	// (nil = all) and not denied; what it was given itself stays. Several intersect, and
	// each is lifted on its own. A name that is no inherited tool is an error.
	Restrict(allow, deny []string) (lift func(), err error)
	// SetModel switches the model for the following requests.
	SetModel(provider, model string)
	// Dispose cancels the turn, waits for it, and ends the agent.
	Dispose() error
}

// UserMessage is a message from the person.
func UserMessage(text string) model.Message {
	return model.Message{Role: model.RoleUser, Content: []model.Block{model.Text(text)}, Source: model.Source{Kind: model.SourceUser}}
}

// agent implements Agent. Used on the host thread, except id and the atomics.
type agent struct {
	h       *Host
	id      string
	opts    Options
	log     *session.Log
	session *Session
	saved   []string // folders with outputs that its results name: its own, and those of the sessions it was forked from

	inbox        inbox
	box          *Inbox        // as scripts hold it
	arrivals     atomic.Uint64 // numbers pending messages
	news         []news        // inbox events that are still to be told
	telling      bool
	told         int // events of the inbox since telling began
	putOff       int // messages of scripts that are about to be sent
	status       string
	act          *activity                // a turn or maintenance in progress, or about to begin
	mark         atomic.Pointer[activity] // act, for Cancel from other goroutines
	latched      bool                     // a waking send waits for the present activity to end
	idle         chan struct{}            // closed when idle is reached; nil when nobody waits
	lastTurn     int
	lastStep     int // of lastTurn
	history      history
	header       headerState
	gauge        gauge
	assembled    *Assembly            // the last prompt that was put together; nil before the first
	states       states               // what scripts keep in the session
	bags         map[string]*stateBag // by script: agent.state
	started      chan struct{}        // closed when agent/session-start is over
	greeted      map[*runtime.Instance]bool
	uses         map[GrantRecord]bool // recorded
	hinted       map[[2]string]bool   // script and what it was warned of
	tools        map[string]*nativeTool
	restrictions []*restriction
	scripted     int // turns in a row that only scripts began
	forced       int // continuations in a row that only scripts asked for
	ids          int

	owner      *agent        // whom it is disposed with; nil = nobody
	maker      string        // the script that made it; "" = Go
	announced  int           // of the two creation events, those that were fired
	creating   bool          // until the creation has succeeded or was undone
	discard    bool          // the session goes with the agent: its creation failed
	disposing  chan struct{} // closed when disposal is complete; nil before it begins
	disposeErr error         // once disposing is closed
	gone       bool
	unclosed   bool // a failed append has left a turn open in the log (B185)
	life       context.Context
	kill       context.CancelCauseFunc // ends life, when the disposal begins
}

// activity is a turn or a maintenance task: what a cancel aborts. Its context ends with
// a *Cause. cancel may be called by any goroutine; the rest is used on the thread.
type activity struct {
	ctx         context.Context
	cancel      context.CancelCauseFunc
	signal      *runtime.Signal
	gen         *runtime.Generation
	since       uint64 // arrivals when it began
	maintenance bool
	decided     bool // the outcome is decided: waking input now belongs to what follows
	cancelling  bool // a cancel clears the inbox, and will abort when it has: the same

	turn     int   // 0 until turn/start
	failed   error // the turn failed while it was opened
	step     int   // last step opened
	stepOpen bool
	retries  map[string]int  // of the present step's call, by mode
	fallback int             // how many of Config.Fallback were come to; 0 = the agent's own model answers
	shrunk   int             // how often room was made for the present step's call because the provider asked for it
	batch    []model.Message // claimed for the first step
	early    bool            // that was before agent/session-start was over

	clock *codeClock // of the program whose calls these are: it stands while one waits for approval; nil = none
}

func (a *agent) newActivity() *activity {
	ctx, cancel := context.WithCancelCause(context.Background())
	act := &activity{ctx: ctx, cancel: cancel, gen: a.h.Current().Hold(), since: a.arrivals.Load()}
	act.signal = runtime.NewSignal(ctx, abortReason)
	a.act = act
	a.mark.Store(act)
	return act
}

// abortReason is what scripts read of why a signal was aborted.
func abortReason(err error) runtime.Value {
	var c *Cause
	if errors.As(err, &c) {
		return runtime.ValueOf(*c) // the pointer is an error
	}
	return runtime.Message(err)
}

func (act *activity) aborted() bool { return act.ctx.Err() != nil }

// cause is why the activity was cancelled, or nil.
func (act *activity) cause() *Cause {
	var c *Cause
	if errors.As(context.Cause(act.ctx), &c) {
		return c
	}
	return nil
}

// target addresses a dispatch to this agent, with the generation that its activity holds.
func (a *agent) target() runtime.Target {
	t := runtime.Target{Scope: a, AgentID: a.id}
	if a.act != nil {
		t.Gen, t.Turn, t.Step = a.act.gen, a.act.turn, a.act.step
	}
	return t
}

// awaiting is target for a dispatch that the activity waits for.
func (a *agent) awaiting(act *activity) runtime.Target {
	t := a.target()
	t.Ctx = act.ctx
	return t
}

func (a *agent) ID() string        { return a.id }
func (a *agent) Options() Options  { return a.opts }
func (a *agent) Session() *Session { return a.session }
func (a *agent) Inbox() *Inbox     { return &Inbox{a, a.id} }
func (a *agent) Status() string    { return a.status }

func (a *agent) Use(t tool.Tool) error {
	if err := a.Ended(); err != nil {
		return err
	}
	nt, err := newNativeTool(t)
	if err == nil {
		a.tools[t.Spec().Name] = nt
	}
	return err
}

func (a *agent) SetModel(provider, model string) {
	a.opts.Provider, a.opts.Model = provider, model
	a.header.routed, a.header.first = false, nil
}

func (a *agent) newID(prefix string) string {
	a.ids++
	return prefix + strconv.Itoa(a.log.Len()) + "." + strconv.Itoa(a.ids)
}

func (a *agent) Followup(m model.Message) error { return a.Send(m, NextTurn, true) }
func (a *agent) Steer(m model.Message) error    { return a.Send(m, NextStep, true) }
func (a *agent) Inject(m model.Message) error   { return a.Send(m, NextStep, false) }

// ErrDisposed is what sends to a disposed agent fail with.
var ErrDisposed = errors.New("the agent is disposed")

func (a *agent) Send(m model.Message, target string, wakeup bool) error {
	if a.gone || a.disposing != nil {
		return fmt.Errorf("agent %s: %w", a.id, ErrDisposed)
	}
	if target != NextTurn && target != NextStep {
		return fmt.Errorf("unknown target %q, want %s or %s", target, NextTurn, NextStep)
	}
	m, err := a.prepare(m)
	if err != nil {
		return err
	}
	if err := a.checkID(m.ID, nil, nil); err != nil {
		return err
	}
	script := m.Source.Kind == model.SourcePlugin
	if err := a.room(sender(m, a), script); err != nil {
		return err
	}
	if !script || a.h.publishing == 0 {
		a.h.later(sender(m, a), func() { err = a.send(m, target, wakeup) })
		return err
	}
	a.putOff++
	a.h.laterUnless(sender(m, a), func() {
		a.putOff--
		_ = a.send(m, target, wakeup) // the caller has gone on; a failed append is reported by the turn
	}, func() { a.putOff-- })
	return nil
}

// send inserts and wakes. What the wake means is decided before the insert, so that a
// listener that cancels meanwhile cannot change it (B019).
func (a *agent) send(m model.Message, target string, wakeup bool) error {
	if a.gone {
		return fmt.Errorf("agent %s: %w", a.id, ErrDisposed)
	}
	act := a.act
	aborted := act != nil && (act.aborted() || act.cancelling)
	if wakeup && target == NextStep && aborted {
		target = NextTurn
	}
	if m.Source.Kind != model.SourcePlugin {
		a.scripted = 0
		clear(a.h.warned)
	}
	if err := a.splice(target, len(*a.inbox.list(target)), 0, []model.Message{m}, "canceled"); err != nil {
		return err
	}
	if !wakeup {
		return nil
	}
	switch {
	case act != nil && (aborted || act.maintenance || act.decided):
		a.latched = true
	case a.act == nil:
		a.wake()
	}
	return nil
}

// wake begins a drain: on the caller's stack up to the claim, then in a goroutine of its
// own. The caller is not waited for.
func (a *agent) wake() {
	if a.disposing != nil || a.inbox.empty() || a.scriptsOnly() {
		return
	}
	act := a.newActivity()
	a.setStatus(StatusRunning)
	if !act.aborted() && a.openTurn(act) {
		a.h.Thread.Go(context.Background(), func() { a.drive(act) })
		return
	}
	a.settle(act)
}

func (a *agent) setStatus(s string) {
	if a.status == s {
		return
	}
	a.status = s
	AgentStatus.Fire(a.h.Host, a.target(), StatusPayload{Agent: a, Status: s})
}

// settle ends an activity and decides what follows, in one hold of the thread: the last
// look at the inbox and the change to idle have nothing that waits between them.
func (a *agent) settle(act *activity) {
	act.cancel(errTurnOver)
	if a.act != act {
		return
	}
	a.act = nil
	a.mark.Store(nil)
	a.setStatus(StatusIdle)
	act.gen.Release()
	latched := a.latched
	a.latched = false
	if a.act == nil && latched {
		a.wake()
	}
	if a.act == nil && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
}

// errTurnOver ends the context of a turn that was not cancelled.
var errTurnOver = errors.New("the turn is over")

func (a *agent) Cancel(cause Cause, o CancelOptions) {
	if runtime.Here() {
		a.cancel(a.id, &cause, o.KeepInbox)
		return
	}
	// From elsewhere the abort does not queue: the context ends now. What was pending at
	// this moment is cleared, and listeners of the signal are called, before any later Do.
	upTo := a.arrivals.Load()
	act := a.mark.Load()
	if act != nil {
		act.cancel(&cause)
	}
	a.h.Thread.Post(func() {
		now := a.act
		if now != act && now != nil && now.since > upTo {
			now = nil
		}
		if !o.KeepInbox {
			a.clearReporting(upTo)
		}
		act.abort(&cause)
		now.abort(&cause) // it took the place of act at that very moment, with what was pending
	})
}

// cancel, on the thread, clears and then aborts. Inside a session/event listener the
// abort is at once; the clearing waits, and so does the end of what earlier sends of
// the listener are about to begin.
func (a *agent) cancel(who string, cause *Cause, keep bool) {
	if a.h.publishing > 0 {
		a.act.abort(cause)
	}
	a.h.later(who, func() {
		act := a.act
		if act != nil {
			act.cancelling = true
		}
		if !keep {
			a.clearReporting(a.arrivals.Load()) // not what its listeners send meanwhile
		}
		act.abort(cause)
	})
}

// abort ends the activity, if one goes on, and tells its signal. On the thread.
func (act *activity) abort(cause *Cause) {
	if act == nil {
		return
	}
	if act.cancel(cause); act.cause() != nil {
		act.signal.Fire()
	}
}

func (a *agent) clearReporting(upTo uint64) {
	if a.gone {
		return
	}
	if err := a.clear(upTo); err != nil {
		a.h.cfg.Notices.Broken(a, err)
	}
}

func (a *agent) WhenIdle(ctx context.Context) error {
	wait := func() error {
		for a.act != nil {
			if a.idle == nil {
				a.idle = make(chan struct{})
			}
			if err := a.h.Thread.Wait(a.idle, ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if a.act == nil {
		return nil
	}
	return a.h.WaitFor(a, func(o any) string { return "agent " + o.(*agent).id }, wait)
}

func (a *agent) RunMaintenance(task func(ctx context.Context) error) error {
	if a.gone || a.disposing != nil {
		return fmt.Errorf("agent %s: %w", a.id, ErrDisposed)
	}
	if a.act != nil {
		return fmt.Errorf("agent %q already has active work", a.id)
	}
	act := a.newActivity()
	act.maintenance = true
	defer a.settle(act)
	// The agent waits for the task as for a listener: what the task waits for may not be
	// the agent.
	hook := runtime.NewHook(act.ctx, a, 0)
	defer hook.End()
	old := a.h.Thread.SetHook(hook)
	defer a.h.Thread.SetHook(old)
	return task(act.ctx)
}

// fold keeps the agent's state in step with its log: every record passes here, live and
// when a session is opened.
func (a *agent) fold(rec session.Record) {
	switch rec.Type {
	case RecInboxSpliced:
		var s Spliced
		if decodeData(rec, &s) {
			a.inbox.apply(s, func() uint64 { return a.arrivals.Add(1) })
		}
	case RecTurnStart:
		var t TurnStart
		if decodeData(rec, &t) {
			a.lastTurn, a.lastStep = t.Turn, 0
		}
	case RecStepStart:
		var s StepMark
		if decodeData(rec, &s) {
			a.lastStep = s.Step
		}
	case RecRequestHeader, RecRequestContext:
		a.header.fold(rec)
	case RecAssistant:
		a.gauge.fold(rec, a.load())
	case RecScriptState:
		a.states.fold(rec)
	}
	if rec.SurfaceOp != nil {
		a.history.fold(rec)
	}
}
