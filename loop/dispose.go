package loop

import (
	"context"
	"errors"
	"fmt"

	"dshsh/runtime"
)

// Dispose ends the agent: its turn is cancelled and waited for, the agents that it owns
// and what was registered for it go, and the log is closed. It begins at once, and
// concurrent calls share one completion. Where the thread cannot be left (an emit, a
// listener that the agent itself waits for) it does not wait for that, and returns nil.
func (a *agent) Dispose() error {
	a.dispose(Cause{Kind: CauseDisposed})
	if a.creating {
		return nil // whoever creates it undoes that, and may be waiting for the caller
	}
	var cycle *runtime.CycleError
	err := a.h.WaitFor(a, nameOf, func() error { return a.h.Thread.Wait(a.disposing) })
	switch {
	case errors.Is(err, runtime.ErrCannotWait), errors.As(err, &cycle):
		return nil
	case err != nil:
		return err
	}
	return a.disposeErr
}

func nameOf(o any) string { return "agent " + o.(*agent).id }

// Ended is why nothing can be registered for the agent any more, or nil. It implements
// runtime.Ender.
func (a *agent) Ended() error {
	if a.gone {
		return fmt.Errorf("agent %s: %w", a.id, ErrDisposed)
	}
	return nil
}

// dispose begins the disposal. The rest runs on a chain of its own, since it waits for
// what may be below the caller. A creation in progress is undone by who is making it.
func (a *agent) dispose(cause Cause) {
	if a.disposing != nil {
		return
	}
	a.disposing = make(chan struct{})
	a.kill(&cause)
	a.cancel(a.id, &cause, false)
	if !a.creating {
		a.h.Thread.Go(context.Background(), a.finishDisposal)
	}
}

// finishDisposal waits until the agent is quiet and ends it.
func (a *agent) finishDisposal() {
	for _, child := range a.h.agents {
		if child.owner == a {
			child.dispose(Cause{Kind: CauseParent})
		}
	}
	for _, child := range a.h.agents {
		if child.owner == a {
			_ = a.h.Thread.Wait(child.disposing)
		}
	}
	err := a.WhenIdle(context.Background())
	_ = a.h.Thread.Wait(a.started)
	a.end(err)
}

// rollback ends an agent whose creation failed. A listener may have woken it meanwhile.
func (a *agent) rollback() {
	if a.disposing == nil {
		a.disposing = make(chan struct{})
	}
	a.creating = false
	a.startOver()
	a.h.forget(a)
	cause := &Cause{Kind: CauseDisposed}
	a.kill(cause)
	a.cancel(a.id, cause, false)
	if a.act == nil {
		a.end(nil)
		return
	}
	a.h.Thread.Go(context.Background(), a.finishDisposal)
	_ = a.h.Thread.Wait(a.disposing) // where the caller may wait

}

// end is the last of the agent: it is unlisted, its registrations go, whoever was told of
// it is told so, and the log is closed.
func (a *agent) end(err error) {
	a.gone = true
	a.h.forget(a)
	a.h.DropScope(a)
	t := runtime.Target{Scope: a, AgentID: a.id}
	if a.announced > 1 {
		AgentDisposed.Fire(a.h.Host, t, AgentPayload{Agent: a})
	}
	if a.announced > 0 {
		SessionDisposed.Fire(a.h.Host, t, SessionPayload{Session: a.session})
	}
	a.h.keepLog(a.log, false)
	var cerr error
	a.h.away(func() {
		if a.discard {
			cerr = a.log.Discard()
		} else {
			cerr = a.log.Close()
		}
	})
	a.disposeErr = errors.Join(err, cerr)
	close(a.disposing)
}
