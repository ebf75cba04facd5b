package js

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dop251/goja"

	"dshsh/runtime"
)

// timer is one setTimeout or setInterval. Used on the thread.
//
// One that nobody waits for is an Instance.After: it ends when the newest generation no
// longer has the script. One that was set on behalf of a listener, tool or command that is
// still at work belongs to that work, which may well await it: it fires also when the
// script has been replaced meanwhile.
type timer struct {
	v     *vm
	id    int64
	name  string // of the function that set it
	fn    *goja.Object
	args  []runtime.Value
	every time.Duration // 0 = once
	delay time.Duration
	hook  *runtime.Hook

	due    time.Time
	cancel func() // stops what counts down
}

// maxTimers is how many may be set at a time.
const maxTimers = 10_000

// setTimer is setTimeout and its kin.
func (v *vm) setTimer(name string, c goja.FunctionCall, repeat bool) goja.Value {
	f, ok := c.Argument(0).(*goja.Object)
	if _, callable := goja.AssertFunction(c.Argument(0)); !ok || !callable {
		panic(v.rt.NewTypeError("%s: got no function", name))
	}
	if len(v.timers) >= maxTimers {
		panic(v.rangeError(fmt.Sprintf("%s: %d timers are set already: let some of them run first", name, maxTimers)))
	}
	t := &timer{v: v, name: name, fn: f, hook: v.th.CurrentHook()}
	if name != "setImmediate" {
		t.delay = time.Duration(max(0, min(v.numberArg(&c, 1), 86400e3)) * float64(time.Millisecond))
	}
	if repeat {
		t.delay = max(t.delay, time.Millisecond) // an interval of nothing would never let anybody else in
		t.every = t.delay
	}
	if len(c.Arguments) > 2 {
		t.args = v.exportArgs(name, c.Arguments[2:])
	}
	v.timerN++
	t.id = v.timerN
	if v.timers == nil {
		v.timers = map[int64]*timer{}
	}
	v.timers[t.id] = t
	t.arm()
	return v.rt.ToValue(t.id)
}

func (v *vm) clearTimer(c goja.FunctionCall) goja.Value {
	if t := v.timers[int64(v.numberArg(&c, 0))]; t != nil {
		t.stop()
		delete(v.timers, t.id)
	}
	return goja.Undefined()
}

func (t *timer) stop() {
	if t.cancel != nil {
		t.cancel()
	}
}

func (t *timer) arm() {
	if t.hook != nil && t.hook.Context().Err() == nil {
		t.due = t.v.entered().Add(t.delay)
		g := time.AfterFunc(time.Until(t.due), func() { t.v.th.Post(t.ran) })
		t.cancel = func() { g.Stop() }
		return
	}
	t.cancel = t.v.in.After(t.delay, t.name, t.run)
}

// entered is when the present stay in the VM first asked: timers that are set together run
// in the order of their delays, however long it took to set them.
func (v *vm) entered() time.Time {
	if v.depth == 0 {
		return time.Now()
	}
	if v.since.IsZero() {
		v.since = time.Now()
	}
	return v.since
}

// ran is posted when a timer of a hook has run down: it and what was due before it run, in
// that order. The goroutines of Go's timers may overtake each other.
func (t *timer) ran() {
	v := t.v
	if v.timers[t.id] != t || v.closed || v.dead {
		return
	}
	var due []*timer
	for _, o := range v.timers {
		if !o.due.IsZero() && !o.due.After(t.due) {
			due = append(due, o)
		}
	}
	slices.SortFunc(due, func(a, b *timer) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.id, b.id)) })
	for _, o := range due {
		o.stop()
		o.due = time.Time{}
		if o.hook.Context().Err() != nil {
			v.in.Spawn(o.name, o.run) // its listener has answered: nobody waits for it any more
			continue
		}
		v.enqueue(func() {
			if err := o.run(o.hook); err != nil && o.hook.Context().Err() == nil {
				v.report(o.name, err)
			}
		})
	}
}

// enqueue runs fn on a chain of its own, after those that were enqueued before.
func (v *vm) enqueue(fn func()) {
	if v.due = append(v.due, fn); len(v.due) == 1 {
		v.th.Go(context.Background(), v.runDue)
	}
}

func (v *vm) runDue() {
	fn := v.due[0]
	if v.due = v.due[1:]; len(v.due) > 0 {
		v.th.Go(context.Background(), v.runDue) // enters when this one leaves or ends
	}
	fn()
}

// run calls the timer's function, on a chain that may wait.
func (t *timer) run(h *runtime.Hook) error {
	v := t.v
	if v.timers[t.id] != t || v.closed || v.dead {
		return nil
	}
	if t.every > 0 {
		t.arm() // first, so that the function can clear it
	} else {
		delete(v.timers, t.id)
	}
	_, err := v.Call(h, fn{v, t.fn}, t.args...)
	return err
}
