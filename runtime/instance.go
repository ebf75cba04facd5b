package runtime

import (
	"context"
	"errors"
	"fmt"
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
	epoch   int // counts rebuilds

	state     instanceState
	listeners []*Listener
	regs      []*Registration
	waiting   []func() // timers and spawns asked for while loading, begun at activation
	undo      []func() // disposers of effects, undone in reverse
	timers    map[*pendingTimer]struct{}

	ctx      context.Context // ends at disposal
	cancel   context.CancelCauseFunc
	bg       context.Context // ends when the newest generation no longer has the instance
	cancelBg context.CancelCauseFunc

	refs       int // generations and activities that hold it
	quarantine error
	failed     error // a stand-in's reason: the script that it stands for could not be loaded
}

type instanceState int

const (
	stateLoading instanceState = iota
	stateLoaded
	stateActive
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

// Context ends when the instance is disposed; its cause is ErrUnloaded.
func (in *Instance) Context() context.Context { return in.ctx }

// Quarantined is why the script's listeners fail instead of running, or nil.
func (in *Instance) Quarantined() error { return in.quarantine }

// Listeners are the script's listeners in the order of their registration.
func (in *Instance) Listeners() []*Listener { return in.listeners }

// Ctx is the script's global ctx object; scope restricts what it registers to one
// owner, such as an agent (nil = none).
func (in *Instance) Ctx(scope any) *Ctx { return &Ctx{in: in, scope: scope} }

// NewMeter is a meter for one entry into the instance's VM.
func (in *Instance) NewMeter(interrupt func()) *Meter {
	return &Meter{Who: in.ID, Budget: time.Duration(in.host.limits.Sync) * time.Millisecond, Interrupt: interrupt}
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

// DropScope removes everything registered for one owner, when that owner ends.
func (in *Instance) DropScope(scope any) {
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
	in.host.changed()
}

// Spawn runs fn on its own, holding the instance, without a hook: it waits freely and
// ends when the newest generation no longer contains the script. While loading it is
// put off until activation.
func (in *Instance) Spawn(what string, fn func(h *Hook) error) {
	in.whenActive(func() {
		in.hold()
		in.host.Thread.Go(context.Background(), func() {
			defer in.release()
			in.runSpawned(what, fn)
		})
	})
}

func (in *Instance) runSpawned(what string, fn func(h *Hook) error) {
	if in.bg.Err() != nil || in.state == stateDisposed {
		return
	}
	h := NewHook(in.bg, nil, 0)
	defer h.End()
	old := in.host.Thread.SetHook(h)
	defer in.host.Thread.SetHook(old)
	if err := fn(h); err != nil && in.bg.Err() == nil {
		in.host.report(Failure{Instance: in, What: what, Err: err})
	}
}

// After runs fn once, as Spawn does, d from now (from activation while loading). The
// returned function cancels it.
func (in *Instance) After(d time.Duration, what string, fn func(h *Hook) error) (cancel func()) {
	t := &pendingTimer{}
	in.whenActive(func() {
		if t.stopped {
			return
		}
		in.timers[t] = struct{}{}
		t.timer = time.AfterFunc(d, func() {
			in.host.Thread.Go(context.Background(), func() {
				if t.stopped {
					return
				}
				in.stopTimer(t)
				in.hold()
				defer in.release()
				in.runSpawned(what, fn)
			})
		})
	})
	return func() { in.stopTimer(t) }
}

// pendingTimer is a timer that has not fired. Used on the thread.
type pendingTimer struct {
	timer   *time.Timer
	stopped bool
}

func (in *Instance) stopTimer(t *pendingTimer) {
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
	delete(in.timers, t)
}

// retire ends what the script does on its own account, when the newest generation no
// longer contains it. Its listeners, tools and effects stay for who holds it.
func (in *Instance) retire() {
	in.cancelBg(ErrUnloaded)
	for t := range in.timers {
		in.stopTimer(t)
	}
	in.waiting = nil
}

func (in *Instance) whenActive(fn func()) {
	if in.state == stateActive {
		fn()
		return
	}
	if in.state != stateDisposed {
		in.waiting = append(in.waiting, fn)
	}
}

// activate begins what was put off while loading. Once, on the thread.
func (in *Instance) activate() {
	if in.state != stateLoaded {
		return
	}
	in.state = stateActive
	for _, fn := range in.waiting {
		fn()
	}
	in.waiting = nil
}

// hold and release count who still needs the instance; the last release disposes it.
func (in *Instance) hold() { in.refs++ }

func (in *Instance) release() {
	if in.refs--; in.refs == 0 {
		in.dispose()
	}
}

func (in *Instance) dispose() {
	if in.state == stateDisposed {
		return
	}
	wasActive := in.state == stateActive
	in.retire()
	for i := len(in.undo) - 1; wasActive && i >= 0; i-- {
		in.undo[i]()
	}
	in.state = stateDisposed
	in.cancel(ErrUnloaded)
	in.listeners, in.regs, in.undo, in.waiting = nil, nil, nil, nil
	in.host.changed()
	if in.vm != nil {
		in.vm.Close()
	}
	delete(in.host.instances, in)
}

// Rebuild replaces a VM that is beyond use: the program is run again by the loader that
// a save uses, and its registrations take the place of the old ones. If the top level
// fails, or registers something else than before, there is no second try: the script is
// quarantined. Bindings call it from the outermost exit of the dead VM.
func (in *Instance) Rebuild(reason error) {
	if in.state != stateActive && in.state != stateLoaded {
		return // a script that dies while loading simply fails to load
	}
	if in.quarantine != nil {
		return
	}
	oldVM, oldL, oldR := in.vm, in.listeners, in.regs
	state := in.state
	in.listeners, in.regs = nil, nil
	in.epoch++
	in.state = stateLoading
	err := in.load()
	in.state = state
	if err == nil && !sameOffers(unscoped(oldL), in.listeners, oldR, in.regs) {
		err = errors.New("it registered something else the second time")
	}
	if err != nil {
		in.listeners, in.regs = oldL, oldR
		in.host.quarantine(in, fmt.Errorf("%w; starting it again failed: %w", reason, err))
	} else {
		for i, l := range unscoped(oldL) {
			in.listeners[i].tally, in.listeners[i].skip = l.tally, l.skip
		}
		in.host.rebuilt(in)
	}
	in.host.changed()
	if oldVM != nil && oldVM != in.vm {
		oldVM.Close()
	}
}

func unscoped(ls []*Listener) []*Listener {
	var out []*Listener
	for _, l := range ls {
		if l.Scope == nil && !l.late {
			out = append(out, l)
		}
	}
	return out
}

func sameOffers(a, b []*Listener, ra, rb []*Registration) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Event != b[i].Event {
			return false
		}
	}
	names := map[string]int{}
	for _, r := range ra {
		if r.Scope == nil {
			names[r.Kind+" "+r.Name]++
		}
	}
	for _, r := range rb {
		names[r.Kind+" "+r.Name]--
	}
	for _, n := range names {
		if n != 0 {
			return false
		}
	}
	return true
}

// load makes a VM and runs the top level.
func (in *Instance) load() error {
	vm, err := in.program.NewVM(in)
	if err != nil {
		return err
	}
	in.vm = vm
	return vm.Load()
}
