package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Layer orders scripts: bundled ones are outermost among scripts, those of the command
// line innermost.
type Layer int

// The layers, outermost first.
const (
	LayerBundled Layer = iota
	LayerUser
	LayerProject
	LayerCommandLine
)

func (l Layer) String() string {
	return [...]string{"bundled", "user", "project", "cli"}[l]
}

// Instance is one running script: a VM and what it has registered. Used on the thread,
// except Context and the fields set at creation, which are immutable.
type Instance struct {
	ID    string // "project/guard.js"
	Layer Layer
	File  string // "guard.js"
	Path  string // absolute file path; "" for embedded scripts
	Hash  string // of the source and of all that it required, hex; the loader may set it until activation

	host    *Host
	program Program
	vm      VM
	epoch   int            // counts rebuilds
	random  func() float64 // nil until it is first asked

	state instanceState
	offers
	undo       []func() // disposers of effects, undone in reverse
	timers     map[*pendingTimer]struct{}
	timed      int          // counts timers
	ctxs       map[any]*Ctx // by scope
	dead       error        // why the VM is beyond use and could not be rebuilt
	rebuilding bool
	carried    map[tallyKey][]*tally // of listeners that the last rebuild waits for

	ctx      context.Context // ends at disposal
	cancel   context.CancelCauseFunc
	bg       context.Context // ends when the newest generation no longer has the instance
	cancelBg context.CancelCauseFunc

	overruns overruns
	halts    int // counts halt: what was spawned before has ended
	pending  int // spawned functions that have not begun

	lines, failures flood
	lastFailure     Failure
	asking          int // questions that are open

	refs       int // generations and activities that hold it
	quarantine error
	failed     error // a stand-in's reason: the script that it stands for could not be loaded
	sandbox    *Sandbox
}

// offers is what a script has registered.
type offers struct {
	listeners []*Listener
	regs      []*Registration
	needs     []Need   // declared with ctx.need
	waiting   []func() // timers and spawns asked for while loading, begun at activation

	// What the top level registered, in order, also when it is gone since: what a rebuild
	// must find again.
	topListeners []*Listener
	topRegs      []*Registration
}

type instanceState int

const (
	stateLoading instanceState = iota
	stateLoaded
	stateActive
	stateClosing // being disposed: nothing enters but the disposers of effects
	stateDisposed
)

// Registration is something a script offers beside listeners: a tool, a command, a
// section. Kind and what Spec holds are agreed between the ctx member that registers
// and the code that looks it up. Used on the thread.
type Registration struct {
	Kind     string
	Name     string
	Spec     any
	Scope    any // only for this owner; nil = for all
	Instance *Instance
	Pos      Position

	removed bool
}

// Host is whose thread and events the instance uses.
func (in *Instance) Host() *Host { return in.host }

// VM is the current virtual machine; a rebuild replaces it.
func (in *Instance) VM() VM { return in.vm }

// Epoch counts rebuilds: what was made for an older epoch must not touch the VM.
func (in *Instance) Epoch() int { return in.epoch }

// Loading says that the script's top level runs, in which it registers and reads.
func (in *Instance) Loading() bool { return in.state == stateLoading }

// Context ends when the instance is disposed; its cause is ErrUnloaded.
func (in *Instance) Context() context.Context { return in.ctx }

// Quarantined is why the script's listeners fail instead of running, or nil.
func (in *Instance) Quarantined() error { return in.quarantine }

// Listeners are the script's listeners in the order of their registration.
func (in *Instance) Listeners() []*Listener { return in.listeners }

// Registrations are what the script offers beside listeners, in order. Not to be changed.
func (in *Instance) Registrations() []*Registration { return in.regs }

// Ctx is the script's global ctx object; scope restricts what it registers to one
// owner, such as an agent (nil = none). It is one object for each scope, so that it is
// one value to the script.
func (in *Instance) Ctx(scope any) *Ctx {
	c := in.ctxs[scope]
	if c == nil {
		c = &Ctx{in: in, scope: scope}
		in.ctxs[scope] = c
	}
	return c
}

// NewMeter is a meter for one entry into the instance's VM.
func (in *Instance) NewMeter(interrupt func()) *Meter {
	return &Meter{in: in, Who: in.ID, Budget: time.Duration(in.host.limits.Sync) * time.Millisecond, Interrupt: interrupt}
}

// Invoke runs a member on behalf of a script. Bindings call every method through it: it
// refuses what may not be done while loading or after disposal and turns panics into
// errors.
func (in *Instance) Invoke(m *Member, self Object, args []Value) (v Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			pe := recovered(p)
			in.host.report(Failure{Instance: in, Err: pe})
			v, err = nil, pe
		}
	}()
	c := &Call{Instance: in, Name: self.Class().Name + "." + m.Name, Self: self, Args: args}
	if in.state == stateLoading && !m.Load {
		return nil, fmt.Errorf("%s: %w", c.Name, ErrLoading)
	}
	if in.state == stateDisposed {
		return nil, fmt.Errorf("%s: %w", c.Name, ErrUnloaded)
	}
	if x, ok := self.(*Ctx); ok {
		if err := ended(x.scope); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	c.Where = in.vm.Where()
	return m.Fn(c)
}

// Property reads a property on behalf of a script, with the same protection.
func (in *Instance) Property(m *Member, self Object) (v Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			pe := recovered(p)
			in.host.report(Failure{Instance: in, Err: pe})
			v, err = nil, pe
		}
	}()
	if m.GetFor != nil {
		return m.GetFor(self, in)
	}
	return m.Get(self)
}

// Assign writes to a bag on behalf of a script (or removes, with remove set), with the
// same protection. Nothing is written while loading.
func (in *Instance) Assign(b Bag, key string, v Value, remove bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			pe := recovered(p)
			in.host.report(Failure{Instance: in, Err: pe})
			err = pe
		}
	}()
	name := b.Class().Name + "." + key
	switch {
	case b.Class().Lookup(key) != nil:
		return fmt.Errorf("%s cannot be changed", name)
	case in.state == stateLoading:
		return fmt.Errorf("%s: %w", name, ErrLoading)
	case in.state == stateDisposed:
		return fmt.Errorf("%s: %w", name, ErrUnloaded)
	case remove:
		return b.Delete(key)
	}
	return b.Set(key, v)
}

// InvokeFunc runs a GoFunc on behalf of a script, with the same protection.
func (in *Instance) InvokeFunc(f *GoFunc, args []Value) (v Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			pe := recovered(p)
			in.host.report(Failure{Instance: in, Err: pe})
			v, err = nil, pe
		}
	}()
	return f.Fn(&Call{Instance: in, Name: f.Name, Args: args})
}

// Register adds an offer of kind under name. It is there from the next look on.
func (in *Instance) Register(kind, name string, spec, scope any, pos Position) *Registration {
	r := &Registration{Kind: kind, Name: name, Spec: spec, Scope: scope, Instance: in, Pos: pos}
	in.regs = append(in.regs, r)
	if in.state == stateLoading {
		in.topRegs = append(in.topRegs, r)
	}
	return r
}

// Remove takes the offer back.
func (r *Registration) Remove() {
	if r.removed {
		return
	}
	r.removed = true
	regs := r.Instance.regs[:0:0]
	for _, o := range r.Instance.regs {
		if o != r {
			regs = append(regs, o)
		}
	}
	r.Instance.regs = regs
}

// dropScope removes everything registered for one owner.
func (in *Instance) dropScope(scope any) {
	delete(in.ctxs, scope)
	keep := in.listeners[:0:0]
	for _, l := range in.listeners {
		if l.Scope != scope {
			keep = append(keep, l)
		}
	}
	in.listeners = keep
	regs := in.regs[:0:0]
	for _, r := range in.regs {
		if r.Scope != scope {
			regs = append(regs, r)
		}
	}
	in.regs = regs
	for k := range in.carried {
		if k.scope == scope {
			delete(in.carried, k)
		}
	}
	in.host.changed()
}

// Spawn runs fn on its own, holding the instance, without an owner: it waits freely and
// ends when the newest generation no longer contains the script, though not before the
// hook that asked for it, which may wait for what it does. Spawned functions begin in
// the order of the calls. While loading it is put off until activation.
func (in *Instance) Spawn(what string, fn func(h *Hook) error) {
	by := in.host.Thread.CurrentHook().root()
	in.whenActive(func() { in.spawn(what, by, fn) })
}

func (in *Instance) spawn(what string, by *Hook, fn func(h *Hook) error) {
	in.hold()
	in.pending++
	halts := in.halts
	in.host.spawn(func() {
		defer in.release()
		in.pending--
		if in.halts == halts {
			in.runSpawned(what, by, fn)
		}
	})
}

func (in *Instance) runSpawned(what string, by *Hook, fn func(h *Hook) error) {
	if in.unwanted(by) || in.state >= stateClosing {
		return
	}
	ctx, done := in.account(by)
	h := NewHook(ctx, nil, 0)
	h.origin = by
	defer h.End()
	defer done() // first: what still waits is told of an unloading rather than of the end
	old := in.host.Thread.SetHook(h)
	defer in.host.Thread.SetHook(old)
	err := guard(func() error { return fn(h) })
	if err == nil {
		err = h.NotAwaited(in)
	}
	over := ctx.Err() != nil && !errors.Is(err, ErrDeadline) && !errors.Is(err, ErrMemory)
	if err != nil && !over && !errors.Is(err, ErrUnloaded) {
		in.host.report(Failure{Instance: in, What: what, Err: err})
	}
}

// unwanted says that the script is not in force any more and that nothing waits for what
// by has asked for.
func (in *Instance) unwanted(by *Hook) bool { return in.bg.Err() != nil && by.over() }

// account is how long what by has asked for may go on: not beyond the script's disposal.
func (in *Instance) account(by *Hook) (ctx context.Context, done func()) {
	if by == nil {
		return in.bg, func() {}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	waiting, bg := by.Context(), in.bg // taken here: what looks at them does so off the thread
	look := func() {
		switch {
		case halted(bg):
			cancel(ErrQuarantined)
		case in.ctx.Err() != nil, bg.Err() != nil && waiting.Err() != nil:
			cancel(ErrUnloaded)
		}
	}
	offs := [...]func() bool{context.AfterFunc(in.ctx, look), context.AfterFunc(bg, look), context.AfterFunc(waiting, look)}
	return ctx, func() {
		for _, off := range offs {
			off()
		}
		look() // may not have had its turn yet
		cancel(errHookOver)
	}
}

// spawn runs fn on a chain of its own, in the order of the calls. Between two of them
// whoever else waits for the thread has its turn.
func (h *Host) spawn(fn func()) {
	if h.spawned = append(h.spawned, fn); len(h.spawned) == 1 {
		h.Thread.Go(context.Background(), h.runSpawned)
	}
}

func (h *Host) runSpawned() {
	fn := h.spawned[0]
	if h.spawned = h.spawned[1:]; len(h.spawned) > 0 {
		h.Thread.Go(context.Background(), h.runSpawned) // enters when this one leaves or ends
	}
	fn()
}

// After runs fn once, as Spawn does, d from now (from activation while loading). The
// returned function cancels it.
func (in *Instance) After(d time.Duration, what string, fn func(h *Hook) error) (cancel func()) {
	t := &pendingTimer{what: what, by: in.host.Thread.CurrentHook().root(), fn: fn}
	in.whenActive(func() {
		if t.stopped || in.unwanted(t.by) {
			return
		}
		in.timers[t] = struct{}{}
		in.timed++
		t.due, t.n = time.Now().Add(d), in.timed
		t.timer = time.AfterFunc(d, func() { in.host.Thread.Post(func() { in.fire(t) }) })
	})
	return func() { in.stopTimer(t) }
}

// pendingTimer is a timer that has not fired. Used on the thread.
type pendingTimer struct {
	what    string
	by      *Hook // who asked for it
	fn      func(h *Hook) error
	due     time.Time
	n       int // order among those due at once
	timer   *time.Timer
	stopped bool
}

// fire runs t and whatever of the script's was due before it, in that order: timers run
// down on goroutines of their own, which may overtake each other.
func (in *Instance) fire(t *pendingTimer) {
	if t.stopped {
		return
	}
	var due []*pendingTimer
	for o := range in.timers {
		if !o.due.After(t.due) {
			due = append(due, o)
		}
	}
	slices.SortFunc(due, func(a, b *pendingTimer) int { return cmp.Or(a.due.Compare(b.due), a.n-b.n) })
	for _, o := range due {
		in.stopTimer(o)
		in.spawn(o.what, o.by, o.fn)
	}
}

func (in *Instance) stopTimer(t *pendingTimer) {
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
	delete(in.timers, t)
}

// retire ends what the script does on its own account, when the newest generation no
// longer contains it. Its listeners, tools and effects stay for who holds it, and so do
// the timers that these have begun.
func (in *Instance) retire() {
	in.cancelBg(ErrUnloaded)
	for t := range in.timers {
		if in.unwanted(t.by) {
			in.stopTimer(t)
		}
	}
	in.waiting = nil
}

func (in *Instance) whenActive(fn func()) {
	if in.state == stateActive {
		fn()
		return
	}
	if in.state < stateActive {
		in.waiting = append(in.waiting, fn)
	}
}

// activate begins what was put off while loading. Once, on the thread.
func (in *Instance) activate() {
	if in.state != stateLoaded {
		return
	}
	in.state = stateActive
	in.begin()
}

// begin runs what waited for the activation.
func (in *Instance) begin() {
	waiting := in.waiting
	in.waiting = nil
	for _, fn := range waiting {
		fn()
	}
}

// hold and release count who still needs the instance; the last release disposes it.
func (in *Instance) hold() { in.refs++ }

func (in *Instance) release() {
	if in.refs--; in.refs == 0 {
		in.dispose()
	}
}
