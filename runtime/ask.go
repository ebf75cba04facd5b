package runtime

import (
	"context"
	"time"
)

// NewHook is the hook of an awaited call on owner's behalf, with the wall time that a
// deciding listener has. It ends with ctx.
func (h *Host) NewHook(ctx context.Context, owner any) *Hook {
	return NewHook(ctx, owner, time.Duration(h.limits.Wall)*time.Millisecond)
}

// Ask calls a function that the offer came with, waits for what it gives, and ends the
// hook. A failure names the script, the line and the offer. On the thread.
func (r *Registration) Ask(hook *Hook, fn Func, args ...Value) (Value, error) {
	in := r.Instance
	defer hook.End()
	switch {
	case in.state >= stateClosing:
		return nil, r.Wrap(ErrUnloaded)
	case fn.VM() != in.vm:
		return nil, r.Wrap(ErrLost)
	}
	in.hold()
	defer in.release()
	old := in.host.Thread.SetHook(hook)
	defer in.host.Thread.SetHook(old)
	var v Value
	err := guard(func() (err error) {
		v, err = in.vm.Call(hook, fn, args...)
		if err == nil {
			err = hook.NotAwaited(in)
		}
		return err
	})
	return v, r.Wrap(err)
}

// Wrap makes a failure one of the offer: "guard.js:3: section tone: ...". Nil stays nil.
func (r *Registration) Wrap(err error) error {
	return blame(err, r.Instance, r.Kind+" "+r.Name, r.Pos)
}
