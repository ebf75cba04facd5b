package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/runtime"
)

// What the storm has found, each in a small test of its own.

// save replaces the script of that file, as a save does.
func (w *world) save(file, code string) {
	w.t.Helper()
	e, err := w.h.EngineFor(file)
	if err != nil {
		w.t.Fatal(err)
	}
	prog, err := e.Compile(runtime.Source{ID: "cli/" + file, File: file, Code: []byte(code)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.do(func() {
		in, err := w.h.Load(runtime.ScriptFile{ID: "cli/" + file, File: file, Hash: "h2", Layer: runtime.LayerCommandLine, Program: prog})
		if err != nil {
			w.t.Error(err)
			return
		}
		var ins []*runtime.Instance
		for _, old := range w.h.Current().Instances {
			if old.File == file {
				old = in
			}
			ins = append(ins, old)
		}
		w.h.Activate(ins)
		w.h.Greet()
	})
}

// awaitNote waits until a listener has logged the text.
func (w *world) awaitNote(text string) {
	w.t.Helper()
	w.until("noted "+text, func() bool {
		w.poke()
		for _, l := range w.notes.logged {
			if l == text {
				return true
			}
		}
		return false
	})
}

func (w *world) noFailures() {
	w.t.Helper()
	for _, f := range w.notes.failures {
		w.t.Errorf("contained failure: %v", f.Err)
	}
}

// Rule 7: inside a session/event listener an edit of the inbox is put off, not refused,
// and what is put off happens in the order of the calls.
func TestEditsOfASessionEventListenerKeepTheirOrder(t *testing.T) {
	for file, code := range map[string]string{
		"f.js": `let done = false
			ctx.on('session/event', ({ agent, event }) => {
				if (event.type !== 'step/end' || done) return
				done = true
				agent.inject('a'); agent.inbox.clear(); agent.inject('b')
				agent.followup('c'); agent.cancel({ kind: 'hook', reason: 'enough' }); agent.followup('d')
			})`,
		"f.lua": `local done = false
			ctx.on('session/event', function(e)
				if e.event.type ~= 'step/end' or done then return end
				done = true
				local agent = e.agent
				agent:inject('a') agent.inbox:clear() agent:inject('b')
				agent:followup('c') agent:cancel({ kind = 'hook', reason = 'enough' }) agent:followup('d')
			end)`,
	} {
		t.Run(file, func(t *testing.T) {
			w := newWorld(t, modeltest.New().Otherwise(modeltest.Text("ok")), withEngines)
			w.script(file, code)
			w.create().prompt("go")
			w.until("ended twice", func() bool { return w.logged(loop.RecTurnEnd) == 2 })
			w.wait()
			var sent []string
			for _, r := range w.records() {
				if m, ok := decoded[model.Message](r, loop.RecUserMessage); ok {
					sent = append(sent, m.PlainText())
				}
			}
			w.check(strings.Join(sent, " "), "go d")
			w.noFailures()
		})
	}
}

// A cancel that comes after a send of the same session/event listener also ends the turn
// that the send is about to begin.
func TestCancelEndsWhatAPutOffSendBegins(t *testing.T) {
	w := newWorld(t, modeltest.New().Otherwise(modeltest.Text("ok")), withEngines)
	w.script("f.js", `ctx.on('session/event', ({ agent, event }) => {
		if (event.type === 'agent/inbox/spliced' && event.data.inserted[0]?.content[0].text === 'look') {
			agent.followup('x'); agent.cancel()
		}
	})`)
	w.create()
	w.do(func() { _ = w.a.Inject(loop.UserMessage("look")) })
	w.wait()
	w.check(w.skeleton("agent/inbox"), "turn/start 1\nturn/end 1 aborted/hook")
	if n := len(w.model.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// The cap on continuations holds for every way in which scripts keep a turn going.
func TestTheCapHoldsForSteeringAtTheEndOfAStep(t *testing.T) {
	for name, code := range map[string]string{
		"steering at step/end": `ctx.on('session/event', ({ agent, event }) => { if (event.type === 'step/end') agent.steer('more') })`,
		"an old message of the person": `ctx.on('agent/turn-continuation', async ({ agent }, next) => {
			await next(); return { kind: 'continue', messages: [agent.session.messages()[0]] } })`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, modeltest.New().Otherwise(modeltest.Text("ok")), withEngines, func(c *loop.Config) { c.Caps.Continuations = 3; c.Caps.ScriptTurns = 2 })
			w.script("f.js", code)
			w.create().prompt("go")
			if n := len(w.model.Requests()); n != 4 {
				t.Errorf("%d requests, want 4", n)
			}
			if len(w.notes.capped) != 1 {
				t.Errorf("notices: %q", w.notes.capped)
			}
		})
	}
}

// What a tool adds to the conversation does not count as a person's input.
func TestAToolsContextDoesNotLiftTheCap(t *testing.T) {
	n := 0
	model := modeltest.New().Otherwise(modeltest.Func(func(context.Context, *model.Request) modeltest.Answer {
		if n++; n%2 == 1 {
			return modeltest.Tool(fmt.Sprint("c", n), "echo", `{"text":"a"}`)
		}
		return modeltest.Text("ok")
	}))
	tool := echo{body: func(_ context.Context, x *tool.Exec) { x.DeferContext(loop.UserMessage("by the way")) }}
	w := newWorld(t, model, withEngines, withTools(tool), func(c *loop.Config) { c.Caps.ScriptTurns = 3 })
	w.script("f.js", `ctx.on('agent/status', ({ agent, status }) => { if (status === 'idle') agent.followup('again') })`)
	w.create().prompt("go")
	w.until("capped", func() bool { w.poke(); return len(w.notes.capped) > 0 })
	w.wait()
	if n := w.logged(loop.RecTurnEnd); n != 4 {
		t.Errorf("%d turns, want the person's and 3", n)
	}
	if len(w.notes.capped) != 1 {
		t.Errorf("notices: %q", w.notes.capped)
	}
}

// A turn that fails while it is opened is closed where the listeners of its end may wait,
// even if it was begun where nothing may.
func TestATurnThatFailsToOpenIsClosedByTheDriver(t *testing.T) {
	w := newWorld(t, modeltest.New(), withEngines)
	w.script("f.js", `
		ctx.on('session/event', ({ agent, event }) => {
			if (event.type === 'turn/start') { agent.cancel({ kind: 'hook', reason: 'no' }); throw new Error('not this turn') }
		})
		ctx.on('agent/turn-aborting', async ({ cause }) => { await ctx.sleep(1); ctx.log('aborting ' + cause.reason) })
		ctx.on('agent/error', ({ error }) => ctx.log('error ' + error.message))
		ctx.on('agent/session-start', ({ agent }) => { agent.followup('go') })`)
	w.create()
	w.awaitNote("aborting no")
	w.wait()
	w.check(strings.Join(w.notes.logged, "\n"), "aborting no")
	w.check(w.skeleton("agent/inbox", "hook"), "turn/start 1\nturn/end 1 aborted/hook")
}

// A script that was replaced while a turn holds it, and then lost its machine, is told of
// the turn's agent again: what it has registered through agent.ctx stays in force.
func TestAnOldScriptThatIsRebuiltKeepsItsScope(t *testing.T) {
	const code = `
		ctx.on('agent/created', ({ agent }) => {
			agent.ctx.on('tools/pre-execute', () => ({ kind: 'deny', reason: 'guarded' }))
		})
		ctx.on('agent/pre-step', async (p, next) => {
			if (p.step === 1) { ctx.log('in'); await ctx.sleep(1); for (;;); }
			return next()
		})`
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", `{"text":"a"}`), modeltest.Text("ok")), withEngines, withTools(echo{}),
		func(c *loop.Config) { c.Limits.Sync = 100 })
	w.script("f.js", code)
	w.create()
	hold := make(chan struct{})
	w.do(func() {
		// Fails inside, and lets the turn go on all the same.
		loop.PreStep.On(w.h.Host, func(p loop.PreStepPayload, next func(loop.PreStepPayload) (loop.StepDecision, error)) (loop.StepDecision, error) {
			if p.Step == 1 {
				_ = w.h.Thread.Wait(hold)
			}
			d, err := next(p)
			if err != nil {
				return loop.StepDecision{Kind: "enter", Messages: p.Messages}, nil
			}
			return d, nil
		})
		_ = w.a.Followup(loop.UserMessage("go"))
	})
	w.until("claimed", func() bool { return w.logged(loop.RecInboxSpliced) == 2 })
	w.save("f.js", "// nothing is left")
	close(hold)
	w.wait()
	w.check(strings.Join(w.results(), "\n"), "c1 error Error: guarded")
}

// A script that dies of being told of its agents again is not started for ever.
func TestAScriptThatDiesOfItsReplayIsQuarantined(t *testing.T) {
	w := newWorld(t, modeltest.New(), withEngines, func(c *loop.Config) { c.Limits.Sync = 50 })
	w.script("f.js", `
		ctx.on('agent/created', async () => { ctx.log('created'); for (;;); })
		ctx.on('tools/pre-execute', () => ({ kind: 'deny' }))`)
	w.do(func() {
		if _, err := w.h.Create(loop.CreateOptions{}); !errors.Is(err, runtime.ErrDeadline) {
			t.Errorf("created: %v", err)
		}
	})
	if n := len(w.notes.logged); n != 2 {
		t.Errorf("started %d times, want 2", n)
	}
	if len(w.notes.quarantined) != 1 {
		t.Errorf("quarantined: %q", w.notes.quarantined)
	}
}

// An agent that was created while a script was in quarantine is told to it when it comes
// out: what the script registers through agent.ctx is there.
func TestAnAgentOfAQuarantineIsToldWhenItIsLifted(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", `{"text":"a"}`), modeltest.Text("ok")), withEngines, withTools(echo{}))
	w.script("f.js", `ctx.on('agent/created', ({ agent, replay }) => {
		ctx.log('created ' + replay)
		agent.ctx.on('tools/pre-execute', () => ({ kind: 'deny', reason: 'guarded' }))
	})`)
	var in *runtime.Instance
	w.do(func() {
		in = w.h.Current().Instances[0]
		w.h.Quarantine(in, errors.New("off"))
	})
	w.create()
	w.do(func() {
		w.h.Greet()
		if len(w.notes.logged) > 0 {
			t.Errorf("told in quarantine: %q", w.notes.logged)
		}
		w.h.Lift(in)
		w.h.Greet()
	})
	w.prompt("go")
	w.check(strings.Join(w.results(), "\n"), "c1 error Error: guarded")
	w.check(strings.Join(w.notes.logged, "\n"), "created true")
}

// A turn keeps its scripts whole: a timer that one of its listeners waits for fires also
// when the script has been replaced meanwhile.
func TestAListenersTimersOutliveASave(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Text("ok")), withEngines)
	w.script("f.js", `
		ctx.on('agent/pre-step', async (p, next) => {
			ctx.log('in')
			await new Promise((done) => setTimeout(done, 20))
			await new Promise((done) => ctx.spawn(async () => { await ctx.sleep(1); ctx.after(1, done) }))
			ctx.log('out')
			return next()
		})
		setInterval(() => ctx.log('tick'), 2)`)
	w.create()
	w.do(func() { _ = w.a.Followup(loop.UserMessage("go")) })
	w.awaitNote("in")
	w.awaitNote("tick")
	w.save("f.js", "// nothing is left")
	w.do(func() { w.notes.logged = nil })
	w.awaitNote("out")
	w.wait()
	w.check(strings.Join(w.notes.logged, "\n"), "out")
}

// When an abort keeps tools/post-execute from seeing the result that a wrapper gave for
// the body, the model does not see it either.
func TestAnAbortedAnswerForTheBodyIsNoResult(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", `{"text":"a"}`)), withEngines, withTools(echo{}))
	w.script("f.js", `
		ctx.on('tools/execute', ({ agent }) => { agent.cancel(); return 'a secret' })
		ctx.on('tools/post-execute', () => ({ kind: 'block', feedback: 'cut' }))`)
	w.create().prompt("go")
	w.check(strings.Join(w.results(), "\n"), "c1 ABORTED_BEFORE_DISPATCH Error: tool call aborted before it started")
}

// What was cancelled while it waited for the thread does not go on.
func TestAWaitThatIsOverAndCancelledIsCancelled(t *testing.T) {
	th := runtime.NewThread(runtime.ThreadOptions{Debug: true})
	defer th.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	ch, away, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_ = th.Do(context.Background(), func() {
			th.Post(func() { close(away) })
			done <- th.Wait(ch, ctx)
		})
	}()
	<-away
	stop := errors.New("stop")
	_ = th.Do(context.Background(), func() {
		close(ch)
		time.Sleep(5 * time.Millisecond) // the waiter now waits for the thread
		cancel(stop)
	})
	if err := <-done; !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}
