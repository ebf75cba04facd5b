package runtime

import (
	"errors"
	"fmt"
	"reflect"
)

// load makes a VM and runs the top level, on nobody's behalf.
func (in *Instance) load() error {
	old := in.host.Thread.SetHook(nil)
	defer in.host.Thread.SetHook(old)
	return guard(func() error {
		vm, err := in.program.NewVM(in)
		if err != nil {
			return err
		}
		in.vm = vm
		return vm.Load()
	})
}

// Rebuild replaces a VM that is beyond use: the program is run again by the loader that
// a save uses, and its registrations take the place of the old ones, by their order.
// Timers, spawned functions and effects of the old VM are over; those of the new top
// level begin. If the top level fails, or registers something else than before, or if
// the script dies of being told of its owners again, there is no second try: it is
// quarantined. Bindings call it from the outermost exit of the dead VM.
func (in *Instance) Rebuild(reason error) {
	if in.state != stateActive && in.state != stateLoaded {
		return // a script that dies while loading simply fails to load
	}
	if in.sandbox != nil {
		return // a program is over with its VM
	}
	if in.quarantine != nil {
		in.dead = reason // whoever lifts the quarantine tries again
		return
	}
	if in.rebuilding {
		// What its owners told it again has ended it again.
		in.dead = reason
		in.host.quarantine(in, fmt.Errorf("%w; it failed in the same way when it was started again", reason))
		return
	}
	in.rebuilding = true
	defer func() { in.rebuilding = false }()
	oldVM, old, state := in.vm, in.offers, in.state
	in.offers = offers{}
	in.undo = nil // functions of the dead VM
	in.epoch++
	in.state = stateLoading
	err := in.load()
	in.state = state
	if err == nil {
		err = in.rebind(&old)
	}
	if err == nil {
		in.carry(old.listeners)
	}
	if in.dead = nil; err != nil {
		in.offers, in.dead = old, reason
		in.waiting = nil
		in.host.quarantine(in, fmt.Errorf("%w; starting it again failed: %w", reason, err))
	}
	in.host.changed()
	if oldVM != nil && oldVM != in.vm {
		oldVM.Close()
	}
	if err == nil {
		if in.state == stateActive {
			in.begin()
		}
		in.host.rebuilt(in)
	}
}

var errOtherwise = errors.New("it registered something else the second time")

// rebind gives the new registrations what happened to the old ones. What was registered
// for one owner comes back when the owner is replayed, what was registered later does
// not.
func (in *Instance) rebind(old *offers) error {
	was, now := unscoped(old.topListeners), unscoped(in.topListeners)
	if len(was) != len(now) {
		return errOtherwise
	}
	if !sameNeeds(old.needs, in.needs) {
		return errOtherwise
	}
	for i, l := range now {
		o := was[i]
		if o.Event != l.Event || o.prepend != l.prepend || o.once != l.once || !reflect.DeepEqual(o.shape, l.shape) {
			return errOtherwise
		}
		l.tally, l.spent = o.tally, o.spent
		if o.gone {
			in.dropListener(l)
		}
	}
	byName := map[string][]*Registration{}
	for _, r := range old.topRegs {
		if r.Scope == nil {
			byName[r.Kind+" "+r.Name] = append(byName[r.Kind+" "+r.Name], r)
		}
	}
	for _, r := range in.topRegs {
		if r.Scope != nil {
			continue
		}
		same := byName[r.Kind+" "+r.Name]
		if len(same) == 0 {
			return errOtherwise
		}
		byName[r.Kind+" "+r.Name] = same[1:]
		if same[0].removed {
			r.Remove()
		}
	}
	for _, left := range byName {
		if len(left) > 0 {
			return errOtherwise
		}
	}
	return nil
}

// tallyKey tells apart the listeners that a script registers again after a rebuild, in
// their order.
type tallyKey struct {
	scope any
	event *Event
}

// carry keeps the tallies of listeners that a rebuild cannot bind, because they are
// registered again only when their owner is replayed, or later: one that always overruns
// must reach its limit though each failure takes its VM along.
func (in *Instance) carry(old []*Listener) {
	top := map[*tally]bool{}
	for _, l := range unscoped(in.topListeners) {
		top[l.tally] = true // bound already
	}
	carried := map[tallyKey][]*tally{}
	for _, l := range old {
		if k := (tallyKey{l.Scope, l.Event}); !top[l.tally] {
			carried[k] = append(carried[k], l.tally)
		}
	}
	for k, left := range in.carried {
		carried[k] = append(carried[k], left...)
	}
	in.carried = carried
}

// newTally is the tally of a listener that is being registered.
func (in *Instance) newTally(scope any, e *Event) *tally {
	k := tallyKey{scope, e}
	left := in.carried[k]
	if len(left) == 0 || in.state == stateLoading && scope == nil {
		return &tally{}
	}
	in.carried[k] = left[1:]
	return left[0]
}

func unscoped(ls []*Listener) []*Listener {
	var out []*Listener
	for _, l := range ls {
		if l.Scope == nil {
			out = append(out, l)
		}
	}
	return out
}

// notify calls a function of the script outside a dispatch, with no hook, since nobody
// waits for it. Its failure is reported as that of what.
func (in *Instance) notify(what string, fn Func, args ...Value) {
	old := in.host.Thread.SetHook(nil)
	defer in.host.Thread.SetHook(old)
	late := func(err error) { in.host.report(Failure{Instance: in, What: what, Err: err}) }
	if err := guard(func() error { return in.vm.Notify(fn, late, args...) }); err != nil {
		late(err)
	}
}

// dispose ends the script: new entries are refused, what waits is woken, what it had
// registered goes, its effects are undone in reverse, and the VM is closed. What is
// parked comes back to a VM that is closed, when the thread is free.
func (in *Instance) dispose() {
	if in.state >= stateClosing {
		return
	}
	in.retire()
	for t := range in.timers {
		in.stopTimer(t)
	}
	in.state = stateClosing
	in.cancel(ErrUnloaded)
	in.offers = offers{}
	in.host.changed()
	if !in.host.ending {
		in.overruns = overruns{} // else what its listeners have used up counts
	}
	for i := len(in.undo) - 1; i >= 0 && !in.spent(); i-- {
		in.undo[i]()
	}
	in.undo = nil
	in.state = stateDisposed
	in.endFloods()
	if in.vm != nil {
		in.vm.Close()
	}
	delete(in.host.instances, in)
}
