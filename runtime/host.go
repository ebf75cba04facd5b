package runtime

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Host owns a thread, the catalogue and the generations of scripts on it. All methods
// are called on the thread, unless said; NewHost may be called from anywhere.
type Host struct {
	Thread *Thread

	catalogue *Catalogue
	engines   map[string]Engine // by file ending
	ctxClass  *Class
	limits    Limits
	observer  Observer
	ui        UI                // nil = nobody
	onPanic   func(*PanicError) // the embedder's
	now       func() time.Time
	random    func() float64 // nil = each script has a source of its own

	grants      Grants   // nil: nothing is granted
	modules     []Module // what require finds outside of a script's folder
	golisteners map[*Event][]*Listener
	current     *Generation
	generations map[*Generation]struct{} // alive
	instances   map[*Instance]struct{}   // not disposed
	count       int                      // generations made
	version     int                      // counts changes of any listener list
	waits       waits
	own         map[string]*Event // the scripts' own events, by name
	spawned     []func()          // waiting to begin, in order
	asked       askLine           // questions to the person
	awaited     []awaited         // calls of listeners that somebody waits for, oldest first
	ending      bool              // EndBackground was called
	emitting    *Listener         // of an emit event, that is being called
}

// HostConfig configures NewHost. Events is required.
type HostConfig struct {
	Events   *Catalogue
	Engines  []Engine
	Members  []*Member // further members of ctx, such as tool or agents
	Modules  []Module  // what scripts can require
	Grants   Grants    // what the user has granted them; nil = nothing
	Limits   Limits
	Observer Observer         // told of failures and decisions; nil = nobody
	UI       UI               // whom ctx.ui speaks to; nil = nobody
	Now      func() time.Time // the scripts' clock; nil = time.Now
	Random   func() float64   // in [0, 1), what scripts draw from, called on the thread; nil = see Instance.Random
	Thread   ThreadOptions
}

// Observer is told what the host sees of scripts. Its methods are called on the thread
// and may not wait.
type Observer interface {
	// Failed: something failed where no caller can be told.
	Failed(Failure)
	// Decided: a waterfall's outcome was changed by a listener, or a layer failed.
	Decided(Decision)
	// Quarantined: the script's listeners fail from now on.
	Quarantined(in *Instance, reason error)
	// Rebuilt: the script's VM was replaced after an overrun; owners that hold
	// registrations of it must replay their creation to it.
	Rebuilt(in *Instance)
	// Logged: ctx.log, console or print. Level is "log", "info", "warn", "error" or "debug".
	Logged(in *Instance, level, text string)
}

// Failure is one contained failure.
type Failure struct {
	Target   Target    // the dispatch, if it was one
	Event    *Event    // nil outside a dispatch
	Listener *Listener // nil outside a dispatch
	Instance *Instance // nil for Go listeners
	What     string    // outside a dispatch: "timer", "spawn", "effect", ...
	Err      error
}

// NewHost returns a host without scripts.
func NewHost(c HostConfig) *Host {
	h := &Host{
		catalogue: c.Events, engines: map[string]Engine{}, limits: c.Limits.withDefaults(), observer: c.Observer, ui: c.UI, now: c.Now, random: c.Random,
		grants: c.Grants, modules: c.Modules,
		golisteners: map[*Event][]*Listener{}, generations: map[*Generation]struct{}{}, instances: map[*Instance]struct{}{}, waits: waits{},
	}
	if h.now == nil {
		h.now = time.Now
	}
	for _, e := range c.Engines {
		for _, ext := range e.Extensions() {
			h.engines[ext] = e
		}
	}
	h.onPanic = c.Thread.OnPanic
	c.Thread.OnPanic = func(p *PanicError) {
		if h.onPanic != nil {
			h.onPanic(p)
		}
		h.report(Failure{What: "internal", Err: p})
	}
	h.Thread = NewThread(c.Thread)
	h.ctxClass = newCtxClass(c.Members)
	h.current = h.newGeneration(nil)
	h.current.refs++
	return h
}

// Catalogue is the events that ctx.on knows. Immutable; any goroutine.
func (h *Host) Catalogue() *Catalogue { return h.catalogue }

// CtxClass describes ctx, for typings. Immutable; any goroutine.
func (h *Host) CtxClass() *Class { return h.ctxClass }

// Emitting is the listener of an emit event that is being called, the innermost, or nil.
// What a script does after it has waited is not part of the call.
func (h *Host) Emitting() *Listener { return h.emitting }

// Limits are the limits in force. Immutable; any goroutine.
func (h *Host) Limits() Limits { return h.limits }

// Now is the host's clock. Any goroutine.
func (h *Host) Now() time.Time { return h.now() }

// Do enters from outside; see Thread.Do.
func (h *Host) Do(ctx context.Context, fn func()) error { return h.Thread.Do(ctx, fn) }

// EngineFor finds the engine for a file by its ending. Any goroutine.
func (h *Host) EngineFor(file string) (Engine, error) {
	ext := filepath.Ext(file)
	if e := h.engines[ext]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("%s: no script engine for %q files (have %s)", file, ext, strings.Join(h.Extensions(), " "))
}

// Extensions lists the endings of script files, in order. Any goroutine.
func (h *Host) Extensions() []string { return slices.Sorted(maps.Keys(h.engines)) }

// ScriptFile is what Load needs of a script.
type ScriptFile struct {
	ID, File, Path, Hash string
	Layer                Layer
	Program              Program
}

// Load runs a script's top level in a new VM, beside what is in force: while loading
// only registering and reading work. The instance takes part in nothing until a
// generation contains it; one that is not used must be given to Discard.
func (h *Host) Load(f ScriptFile) (*Instance, error) {
	in := h.newInstance(f)
	if err := in.load(); err != nil {
		in.dispose()
		return nil, err
	}
	in.state = stateLoaded
	return in, nil
}

// Discard disposes an instance that no generation took.
func (h *Host) Discard(in *Instance) {
	if in.refs == 0 {
		in.dispose()
	}
}

// Close disposes every script and ends the thread. It is called off the thread, after
// the agents have been disposed.
func (h *Host) Close() {
	_ = h.Thread.Do(context.Background(), func() {
		for _, in := range slices.Backward(h.current.Instances) {
			in.dispose()
		}
		for in := range h.instances { // of older generations, or of none
			in.dispose()
		}
	})
	h.Thread.Close()
}

// tell calls the observer. What panics in there must not become a script's failure, and
// goes to the thread's OnPanic alone.
func (h *Host) tell(fn func(Observer)) {
	if h.observer == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil && h.onPanic != nil {
			h.onPanic(recovered(v))
		}
	}()
	fn(h.observer)
}

// report tells the observer of a failure, of a script's unless it has told of many lately.
func (h *Host) report(f Failure) {
	if in := f.Instance; in != nil {
		if in.sandbox != nil {
			in.sandbox.Failed(f.Err)
			return
		}
		in.lastFailure = f
		if !in.failures.pass(in, 1, in.tellFailures) {
			return
		}
	}
	h.tell(func(o Observer) { o.Failed(f) })
}

// Report tells the observer of a failure that happened on a script's behalf outside a
// dispatch.
func (h *Host) Report(f Failure) { h.report(f) }

func (h *Host) log(in *Instance, level, text string) {
	if in.sandbox != nil {
		in.sandbox.Log(level, text)
		return
	}
	h.tell(func(o Observer) { o.Logged(in, level, text) })
}

// changed invalidates what generations have cached.
func (h *Host) changed() { h.version++ }

// quarantine stops a script's listeners from running: each does what a throw would do,
// until a save or Lift.
func (h *Host) quarantine(in *Instance, reason error) {
	if in.quarantine != nil {
		return
	}
	in.quarantine = in.inQuarantine(reason)
	h.tell(func(o Observer) { o.Quarantined(in, reason) })
}

func (in *Instance) inQuarantine(reason error) error {
	return fmt.Errorf("%w: %s: %w", ErrQuarantined, in.File, reason)
}

// Quarantine puts a script in quarantine by decision of the host's user.
func (h *Host) Quarantine(in *Instance, reason error) { h.quarantine(in, reason) }

// Lift ends a quarantine: failures count from zero again. A script whose VM could not be
// rebuilt is started once more, and is back in quarantine when that fails.
func (h *Host) Lift(in *Instance) {
	lifted := in.quarantine != nil
	in.quarantine = nil
	in.overruns = overruns{}
	if in.dead != nil {
		in.Rebuild(in.dead)
	}
	for _, l := range in.listeners {
		l.tally.reset()
	}
	in.carried = nil
	if lifted && in.quarantine == nil {
		h.tell(func(o Observer) {
			if l, ok := o.(LiftObserver); ok {
				l.Lifted(in)
			}
		})
	}
}

// LiftObserver is an Observer that wants to know when a quarantine is lifted: owners
// whose creation the script was not told of meanwhile must replay it.
type LiftObserver interface{ Lifted(in *Instance) }

func (h *Host) rebuilt(in *Instance) {
	h.tell(func(o Observer) { o.Rebuilt(in) })
}
