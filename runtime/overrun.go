package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// maxOverruns of one script, with less than overrunGap between one and the next,
	// quarantine it. Each holds the thread for as long as an entry may compute, and work
	// that nobody waits for has no row of failures that could end it.
	maxOverruns = 10
	overrunGap  = time.Minute
	// maxLastOverruns is how many a script has for all that it does at its end.
	maxLastOverruns = 2
	// maxPending is how many spawned functions, and how many timers, of one script may wait.
	maxPending = 10_000
)

// overruns counts the entries into a script's VM that had to be interrupted. Used on the
// thread.
type overruns struct {
	n    int
	last time.Time
}

// overran is told of an entry that was interrupted. It is called while a VM is being left,
// so it runs nothing of a script: who is to be told is told later.
func (in *Instance) overran(cause error) {
	if in.state != stateActive && in.state != stateClosing {
		return // what fails to load is not in force
	}
	o := &in.overruns
	now := time.Now()
	if now.Sub(o.last) >= overrunGap {
		o.n = 0
	}
	o.n++
	o.last = now
	if !in.spent() {
		return
	}
	in.halt()
	if in.quarantine != nil || in.state == stateClosing {
		return
	}
	reason := fmt.Errorf("it had to be stopped %d times with less than a minute in between, the last time with: %w", o.n, cause)
	in.quarantine = in.inQuarantine(reason)
	in.host.Thread.Post(func() {
		in.host.tell(func(o Observer) { o.Quarantined(in, reason) })
	})
}

// spent says that the script has been interrupted as often as it may.
func (in *Instance) spent() bool {
	most := maxOverruns
	if in.host.ending || in.state == stateClosing {
		most = maxLastOverruns
	}
	return in.overruns.n >= most
}

// halt ends what the script does on its own account: spawned functions, those that wait
// to begin as well as those that have, and timers.
func (in *Instance) halt() {
	in.halts++
	for t := range in.timers {
		in.stopTimer(t)
	}
	if in.bg.Err() != nil {
		return // it has been retired
	}
	in.cancelBg(ErrQuarantined)
	in.bg, in.cancelBg = context.WithCancelCause(context.Background())
}

// EndBackground ends what scripts do on their own account, and lets no more of it begin:
// the first step of ending a host. From here on a script that has to be interrupted twice
// is quarantined. On the thread.
func (h *Host) EndBackground() {
	h.ending = true
	for in := range h.instances {
		in.overruns = overruns{}
		in.retire()
	}
}

// tooMany refuses one more of what waits, of which there are n.
func (in *Instance) tooMany(n int, what string) error {
	if n < maxPending {
		return nil
	}
	return fmt.Errorf("%s has %d %s that wait already: let some of them run first", in.ID, n, what)
}

// halted says that ctx ended because the script was stopped too often.
func halted(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrQuarantined)
}
