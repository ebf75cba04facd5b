package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dshsh/loop/model"
	"dshsh/runtime"
)

// openTurn records turn/start and claims, on whatever stack it is called: nothing waits
// between the wake and the claim. A turn that fails here is open all the same and is
// closed by the driver, since the listeners of its end may wait. False means that no
// turn is open and the activity is to be settled; what was not claimed stays pending.
func (a *agent) openTurn(act *activity) bool {
	turn := a.lastTurn + 1
	err := a.heal()
	var thrown error
	if err == nil {
		thrown, err = a.appendMark(RecTurnStart, TurnStart{Turn: turn, Generation: act.gen.N})
	}
	if err != nil {
		a.fireError(a.lastTurn, 0, err)
		a.h.cfg.Notices.Broken(a, err)
		return false
	}
	act.turn = turn
	if thrown != nil {
		// The record is in the log and everybody has heard it: the turn fails before the claim.
		act.failed = thrown
		return true
	}
	TurnStarted.Fire(a.h.Host, a.target(), TurnPayload{Agent: a, Turn: turn, Signal: act.signal})
	act.batch, act.failed = a.claim(turn, true)
	if !fromScripts(act.batch) {
		a.forced = 0
	}
	select {
	case <-a.started:
	default:
		act.early = true
	}
	return true
}

// heal closes a turn that a failed append has left open, as opening the log would
// (B185): the disk may have room again.
func (a *agent) heal() error {
	if !a.unclosed {
		return nil
	}
	v := NewValidator()
	for _, rec := range a.log.Records() {
		v.Commit(rec)
	}
	for _, e := range v.Closers() {
		if _, err := a.append(e.Type, e.Data, e.SourceEventSeqs...); err != nil {
			return err
		}
	}
	a.unclosed = false
	return nil
}

// drive runs turns until the drain ends. It is the agent's driver goroutine.
func (a *agent) drive(act *activity) {
	for {
		out := a.runTurn(act)
		drained := a.closeTurn(act, out)
		a.syncTurnEnd()
		next := a.nextTurn(act, drained)
		if next == nil {
			return
		}
		act = next
	}
}

// nextTurn opens the next turn of the drain, or settles. From the last look at the inbox
// to the change to idle nothing waits.
func (a *agent) nextTurn(act *activity, drained bool) *activity {
	if !drained || a.inbox.empty() || a.disposing != nil || act.aborted() {
		a.settle(act)
		return nil
	}
	if a.scriptsOnly() {
		a.latched = false // nothing but scripts has woken it
		a.settle(act)
		return nil
	}
	act.cancel(errTurnOver)
	act.gen.Release()
	a.latched = false
	next := a.newActivity()
	if !a.openTurn(next) {
		a.settle(next)
		return nil
	}
	return next
}

// syncTurnEnd makes the turn durable, off the thread.
func (a *agent) syncTurnEnd() {
	var err error
	if werr := a.h.Thread.Away(func() { err = a.log.Sync() }); werr == nil && err != nil {
		a.h.cfg.Notices.Broken(a, err)
	}
}

// outcome is what a turn came to. err is set for kind error (and then kind is "").
type outcome struct {
	kind string
	err  error
	stop bool // completed, but the drain ends here: the first step was empty, or a cap was reached
}

// runTurn runs an open turn to its outcome; a turn that is aborted overrides whatever
// that is.
func (a *agent) runTurn(act *activity) (out outcome) {
	defer func() {
		if v := recover(); v != nil {
			out = outcome{err: fmt.Errorf("internal error: %v", v)}
			a.h.Report(runtime.Failure{Target: a.target(), What: "turn", Err: out.err})
		}
	}()
	if act.failed != nil {
		return outcome{err: act.failed}
	}
	if err := a.awaitStart(act); err != nil {
		return outcome{err: err}
	}
	return a.steps(act)
}

// awaitStart waits for agent/session-start. What its listeners inject belongs into the
// first request, ahead of the prompt that was claimed already.
func (a *agent) awaitStart(act *activity) error {
	if !act.early {
		return nil
	}
	if err := a.h.Thread.Wait(a.started, act.ctx); err != nil {
		return err
	}
	late, err := a.claim(act.turn, false)
	act.batch = append(late, act.batch...)
	return err
}

// steps runs the turn's steps to a natural stop, a refusal or a failure.
func (a *agent) steps(act *activity) outcome {
	sticky := EndCompleted
	owed := true // the model owes a response: to the prompt first, to tool results later
	for proposal := 1; ; proposal++ {
		batch := act.batch
		if proposal > 1 {
			var err error
			if batch, err = a.claim(act.turn, false); err != nil {
				return outcome{err: err}
			}
		}
		asm, msgs, verdict, err := a.propose(act, proposal, batch)
		if err != nil {
			return outcome{err: err}
		}
		if verdict == "reject" {
			return outcome{kind: EndBlocked}
		}
		if len(msgs) == 0 && (proposal == 1 || !owed) {
			return outcome{kind: sticky, stop: proposal == 1}
		}
		if proposal == 1 {
			if err := TurnStarting.Run(a.h.Host, a.awaiting(act), TurnPayload{Agent: a, Turn: act.turn, Signal: act.signal}); err != nil {
				return outcome{err: err}
			}
		}
		if err := act.check(); err != nil {
			return outcome{err: err}
		}
		if n := a.h.cfg.Caps.Steps; n > 0 && proposal > n {
			return outcome{err: &model.Failure{Message: fmt.Sprintf("the turn reached its limit of %d steps", n), Code: "CAP_STEPS"}}
		}
		res, err := a.step(act, asm, msgs)
		if err != nil {
			return outcome{err: err}
		}
		if res.maxTokens {
			sticky = EndMaxTokens
		}
		if owed = res.owed; owed {
			continue
		}
		if len(a.inbox.step) == 0 {
			if err := a.stopping(act); err != nil {
				return outcome{err: err}
			}
		}
		if !a.mayContinue() {
			// After the cap what waits stays parked: it would only begin the next turn.
			return outcome{kind: sticky, stop: a.forced > a.h.cfg.Caps.Continuations}
		}
	}
}

// check is the abort check that stands behind everything that may wait.
func (act *activity) check() error {
	if act.aborted() {
		return context.Cause(act.ctx)
	}
	return nil
}

// propose assembles the prompt and asks agent/pre-step.
func (a *agent) propose(act *activity, step int, batch []model.Message) (asm Assembly, msgs []model.Message, kind string, err error) {
	if err := act.check(); err != nil {
		return asm, nil, "", err
	}
	if asm, err = a.assemble(act); err != nil {
		return asm, nil, "", err
	}
	news := a.contextMessage(asm.Contexts)
	d, err := PreStep.Run(a.h.Host, a.awaiting(act), PreStepPayload{Agent: a, Messages: batch, Turn: act.turn, Step: step, Signal: act.signal},
		func(p PreStepPayload) (StepDecision, error) {
			d := StepDecision{Kind: "enter", Messages: p.Messages}
			if news != nil {
				d.Messages = append(slices.Clip(d.Messages), *news)
			}
			return d, nil
		})
	if err != nil {
		return asm, nil, "", err
	}
	if len(batch) == 0 && news != nil && len(d.Messages) == 1 && d.Messages[0].ID == news.ID && step == 1 {
		d.Messages = nil // nothing but what the loop itself added: no model call is spent on it (B008)
	}
	return asm, d.Messages, d.Kind, act.check()
}

// stopping asks whether the turn is to go on at a natural stop: it does if something
// waits for the next step afterwards.
func (a *agent) stopping(act *activity) error {
	c, err := TurnContinuation.Run(a.h.Host, a.awaiting(act), TurnPayload{Agent: a, Turn: act.turn, Signal: act.signal},
		func(TurnPayload) (Continuation, error) { return Continuation{Kind: "stop"}, nil })
	if err != nil {
		return err
	}
	if err := act.check(); err != nil {
		return err
	}
	if c.Kind == "continue" {
		for _, m := range c.Messages {
			if err := a.Send(m, NextStep, false); err != nil {
				return err
			}
		}
	} else {
		err = TurnStopping.Run(a.h.Host, a.awaiting(act), TurnPayload{Agent: a, Turn: act.turn, Signal: act.signal})
		if err != nil {
			return err
		}
		if err := act.check(); err != nil {
			return err
		}
	}
	return nil
}

// closeStep writes step/end, exactly once for an open step, on every way out. The error
// is a session/event listener's throw or a failed append.
func (a *agent) closeStep(act *activity) error {
	if !act.stepOpen {
		return nil
	}
	act.stepOpen = false
	thrown, err := a.appendMark(RecStepEnd, StepMark{Turn: act.turn, Step: act.step})
	if err != nil {
		return err
	}
	return thrown
}

// closeTurn closes what is open and records how the turn ended. It reports whether the
// drain may go on.
func (a *agent) closeTurn(act *activity, out outcome) (drained bool) {
	act.decided = true
	serr := a.closeStep(act)
	reason := EndReason{Kind: out.kind}
	switch cause := act.cause(); {
	case cause != nil:
		// Whatever failed after the abort is the abort's doing (B056).
		reason = EndReason{Kind: EndAborted, Reason: cause}
		a.aborting(act, cause)
	case out.err != nil || serr != nil:
		err := out.err
		if err == nil {
			err = serr
		}
		reason = EndReason{Kind: EndError, Error: failureOf(err)}
		a.fireError(act.turn, act.step, err)
	}
	if _, err := a.append(RecTurnEnd, TurnEnd{Turn: act.turn, Reason: reason}); err != nil {
		// The log is left with an open turn, which the next one or a resume will close (B185).
		a.unclosed = true
		a.fireError(act.turn, act.step, err)
		a.h.cfg.Notices.Broken(a, err)
		return false
	}
	TurnEnded.Fire(a.h.Host, a.target(), TurnEndPayload{Agent: a, Turn: act.turn, Reason: reason})
	return (reason.Kind == EndCompleted || reason.Kind == EndMaxTokens) && !out.stop
}

// abortLimit is what all listeners of agent/turn-aborting have together.
const abortLimit = 2 * time.Second

// aborting tells agent/turn-aborting, once per opened turn. Its listeners have a context
// of their own, since the turn's has ended. A throw is told as agent/error.
func (a *agent) aborting(act *activity, cause *Cause) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), abortLimit,
		fmt.Errorf("%s: %w: no answer in %v", TurnAborting.Name, runtime.ErrDeadline, abortLimit))
	defer cancel()
	t := a.target()
	t.Ctx = ctx
	err := TurnAborting.Run(a.h.Host, t, AbortPayload{Agent: a, Turn: act.turn, Cause: cause, Signal: runtime.NewSignal(ctx, nil)})
	if err != nil {
		a.fireError(act.turn, act.step, err)
	}
}

func (a *agent) fireError(turn, step int, err error) {
	AgentError.Fire(a.h.Host, a.target(), ErrorPayload{Agent: a, Turn: turn, Step: step, Error: err})
}

// failureOf is an error as turn/end records it: message and code alone, unless it is a
// provider's failure.
func failureOf(err error) *model.Failure {
	var f *model.Failure
	if errors.As(err, &f) {
		return f
	}
	code := runtime.CodeOf(err)
	if code == "" {
		code = model.CodeUnknown
	}
	return &model.Failure{Message: runtime.Message(err), Code: code}
}
