package loop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/runtime"
	"dshsh/session"
)

func TestB225_ScopedListeners(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines, withTools(echo{}))
	w.script("f.js", `
		ctx.on('agent/created', ({ agent }) => {
			if (agent.id !== 'a') return
			for (const e of ['agent/turn-start', 'session/event', 'tools/result'])
				agent.ctx.on(e, (p) => { if (p.event === undefined || p.event.type === 'turn/end') ctx.log(e + ' ' + (p.agent ?? p.session).id) })
		})
		ctx.on('agent/turn-start', ({ agent }) => { ctx.log('all ' + agent.id) })`)
	a, b := w.agent(w.named("a")), w.agent(w.named("b"))
	w.do(func() {
		loop.TurnStarted.On(w.h.Host, func(p loop.TurnPayload) error { w.notes.note("go a %s", p.Agent.ID()); return nil }, runtime.Scoped(a))
		loop.TurnStarted.On(w.h.Host, func(p loop.TurnPayload) error { w.notes.note("go all %s", p.Agent.ID()); return nil })
	})
	w.model.Add(modeltest.Tool("c1", "echo", "{}"))
	for _, x := range []loop.Agent{b, a} {
		w.a = x
		w.prompt("go")
	}
	w.model.Add(modeltest.Tool("c2", "echo", "{}"))
	w.prompt("again")
	w.check(w.noted(), `
		go all b
		all b
		go a a
		go all a
		all a
		agent/turn-start a
		session/event a
		go a a
		go all a
		all a
		agent/turn-start a
		tools/result a
		session/event a`)
}

func TestB226_RegistrationAfterDisposal(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines)
	w.script("f.js", `
		let kept
		ctx.on('agent/created', ({ agent }) => { kept = agent.ctx })
		ctx.on('agent/disposed', ({ agent }) => {
			const tries = {
				on: () => kept.on('agent/status', () => {}),
				tool: () => kept.tool({ name: 'late', description: '', execute() {} }),
				command: () => kept.command('late', { run() {} }),
				effect: () => kept.effect(() => {}),
				ctx: () => agent.ctx,
			}
			for (const [name, fn] of Object.entries(tries)) {
				try { fn(); ctx.log(name + ' worked') } catch (e) { ctx.log(name + ': ' + e.message) }
			}
		})`)
	a := w.agent(w.named("a"))
	w.gone(a)
	for _, line := range w.notes.logged {
		if !strings.HasSuffix(line, ": agent a: the agent is disposed") {
			t.Error(line)
		}
	}
	if len(w.notes.logged) != 5 {
		t.Error(w.notes.logged)
	}
	err := w.h.Do(context.Background(), func() {
		loop.AgentStatus.On(w.h.Host, func(loop.StatusPayload) error { return nil }, runtime.Scoped(a))
	})
	if !errors.Is(err, loop.ErrDisposed) {
		t.Error(err)
	}
	w.do(func() {
		if err := a.Use(echo{}); !errors.Is(err, loop.ErrDisposed) {
			t.Error(err)
		}
		if err := a.RunMaintenance(func(context.Context) error { return nil }); !errors.Is(err, loop.ErrDisposed) {
			t.Error(err)
		}
	})
}

func TestB227_TheListIsFixedPerDispatch(t *testing.T) {
	w := newWorld(t, always("ok")).create()
	w.do(func() {
		type next = func(loop.PreStepPayload) (loop.StepDecision, error)
		var removed func()
		loop.PreStep.On(w.h.Host, func(p loop.PreStepPayload, n next) (loop.StepDecision, error) {
			w.notes.note("first %d", p.Turn)
			removed()
			if p.Turn == 1 {
				loop.PreStep.On(w.h.Host, func(p loop.PreStepPayload, n next) (loop.StepDecision, error) {
					w.notes.note("added %d", p.Turn)
					return n(p)
				})
			}
			return n(p)
		})
		removed = loop.PreStep.On(w.h.Host, func(p loop.PreStepPayload, n next) (loop.StepDecision, error) {
			w.notes.note("removed %d", p.Turn)
			return n(p)
		})
	})
	w.prompt("a")
	w.prompt("b")
	w.check(w.noted(), "first 1\nremoved 1\nfirst 2\nadded 2")
}

func TestB228_B229_InitiatorAndOwnership(t *testing.T) {
	var w *world
	initiator := func() string {
		if a := w.h.Initiator(); a != nil {
			return a.ID()
		}
		return "nobody"
	}
	var child loop.Agent
	w = newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", "{}")).Otherwise(modeltest.Text("ok")), withTools(echo{body: func(_ context.Context, x *tool.Exec) {
		// A Go tool knows its agent by name, and makes a child of it.
		w.do(func() {
			o := w.named("child")
			o.Owner, _ = w.h.Agent(x.AgentID)
			o.Setup = func(loop.Agent) error { w.notes.note("setup owner %s", o.Owner.ID()); return nil }
			var err error
			if child, err = w.h.Create(o); err != nil {
				t.Error(err)
			}
		})
	}}))
	w.a = w.agent(w.named("parent"))
	other := w.agent(w.named("other"))
	w.do(func() {
		loop.TurnStarting.On(w.h.Host, func(p loop.TurnPayload) error {
			w.notes.note("%s's turn: %s", p.Agent.ID(), initiator())
			return nil
		})
		w.notes.note("outside: %s", initiator())
	})
	w.prompt("go")
	w.do(func() { _ = other.Followup(msg("go")); _ = other.WhenIdle(context.Background()) })
	for _, want := range []string{"outside: nobody", "parent's turn: parent", "other's turn: other", "setup owner parent"} {
		if !strings.Contains("\n"+w.noted()+"\n", "\n"+want+"\n") {
			t.Errorf("no %q in\n%s", want, w.noted())
		}
	}
	w.do(func() {
		if ids(w.h.Agents()) != "parent other child" || ids(w.h.Roots()) != "parent other" {
			t.Error(ids(w.h.Agents()), ids(w.h.Roots()))
		}
		if !w.h.IsOwnedBy(child, w.a) || w.h.IsOwnedBy(w.a, child) || w.h.IsOwnedBy(child, other) {
			t.Error("the owner is another")
		}
	})
	w.lifecycleEvents()
	w.notes.logged = nil
	w.gone(w.a)
	w.do(func() {
		if ids(w.h.Agents()) != "other" || w.h.IsOwnedBy(child, w.a) {
			t.Error(ids(w.h.Agents()))
		}
	})
	w.check(w.noted(), "agent/disposed\nsession/disposed\nagent/disposed\nsession/disposed")
}

func ids(as []loop.Agent) string {
	var out []string
	for _, a := range as {
		out = append(out, a.ID())
	}
	return strings.Join(out, " ")
}

func TestB230_AnExactIDResumesOrCreates(t *testing.T) {
	w := newWorld(t, always("ok"), withStore(t, nil))
	for i := range 2 {
		w.do(func() {
			var rep *session.Report
			var err error
			if w.a, rep, err = w.h.ResumeOrCreate("exact", w.options()); err != nil || (rep != nil) != (i == 1) {
				t.Fatal(rep, err)
			}
		})
		w.prompt(fmt.Sprint("p", i))
		w.gone(w.a)
	}
	if got := w.sent(2); got != "p0|ok|p1" {
		t.Error(got)
	}
}

func TestB231_TheCapIsLive(t *testing.T) {
	group := func(prefix string) modeltest.Answer {
		var cs []modeltest.Call
		for i := range 4 {
			cs = append(cs, modeltest.Call{ID: fmt.Sprint(prefix, i), Name: "safe", Arguments: "{}"})
		}
		return modeltest.Tools(cs...)
	}
	w := newWorld(t, modeltest.New(group("a"), group("b"), modeltest.Text("ok")), withTools(safe{}), func(c *loop.Config) { c.Parallel = 2 }).create()
	w.do(func() {
		loop.PreExecute.On(w.h.Host, func(p loop.PreExecutePayload, next func(loop.PreExecutePayload) (loop.Judgement, error)) (loop.Judgement, error) {
			if p.CallID == "a0" {
				if err := w.h.SetParallel(3); err != nil {
					t.Error(err)
				}
			}
			return next(p)
		})
	})
	w.prompt("go")
	// The log tells how many had started before the first was committed.
	var order []string
	for _, r := range w.records() {
		if d, ok := decoded[loop.ToolCallRecord](r, loop.RecToolCall); ok {
			order = append(order, d.CallID)
		}
		if d, ok := decoded[loop.ToolResultRecord](r, loop.RecToolResult); ok {
			order = append(order, "="+d.Message.Source.CallID)
		}
	}
	w.check(strings.Join(order, " "), "a0 a1 =a0 a2 =a1 a3 =a2 =a3 b0 b1 b2 =b0 b3 =b1 =b2 =b3")
	w.do(func() {
		if err := w.h.SetParallel(0); err == nil {
			t.Error("0 was accepted")
		}
	})
	w.model.Add(group("c"), modeltest.Text("ok"))
	w.prompt("again")
	if got := w.skeleton("agent", "turn", "step", "user", "assistant"); !strings.Contains(got, strings.Repeat("tool/call\n", 3)) {
		t.Error("the refused value was not refused")
	}
}

// safe is a tool whose calls may overlap.
type safe struct{ echo }

func (safe) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "safe", Parameters: json.RawMessage(`{"type":"object"}`)}
}
func (safe) ConcurrencySafe(json.RawMessage) bool { return true }

func TestScriptsMakeAgents(t *testing.T) {
	for file, code := range map[string]string{
		"f.js": `ctx.on('agent/turn-starting', async ({ agent }) => {
			if (agent.id !== 'parent') return
			const child = await ctx.agents.create()
			child.followup('for the child')
			await child.whenIdle()
			const said = child.session.messages()
			ctx.log(child.session.header.parentSession + ' ' + child.session.header.cwd + ' ' + said[said.length - 1].content[0].text)
			try { await agent.dispose() } catch (e) { ctx.log(e.message) }
			const other = await ctx.agents.create({ provider: 'fake', model: 'other' })
			ctx.log(other.options.model + ' ' + ctx.agents.list().length)
			await other.dispose()
			ctx.log(ctx.agents.list().length)
			try { await ctx.agents.create({ modell: 'x' }) } catch (e) { ctx.log(e.message) }
		})`,
		"f.lua": `ctx.on('agent/turn-starting', function(e)
			if e.agent.id ~= 'parent' then return end
			local child = ctx.agents.create()
			child:followup('for the child')
			child:when_idle()
			local said = child.session:messages()
			ctx.log(child.session.header.parentSession .. ' ' .. child.session.header.cwd .. ' ' .. said[#said].content[1].text)
			local _, err = pcall(e.agent.dispose, e.agent)
			ctx.log(err.message)
			local other = ctx.agents.create({ provider = 'fake', model = 'other' })
			ctx.log(other.options.model .. ' ' .. #ctx.agents.list())
			other:dispose()
			ctx.log(#ctx.agents.list())
			_, err = pcall(ctx.agents.create, { modell = 'x' })
			ctx.log(err.message)
		end)`,
	} {
		t.Run(file, func(t *testing.T) {
			w := newWorld(t, always("ok"), withEngines, withStore(t, nil), func(c *loop.Config) { c.Caps.Agents = 2 })
			w.script(file, code)
			o := w.named("parent")
			o.Header.Cwd = "/work"
			w.a = w.agent(o)
			w.prompt("go")
			w.check(w.noted(), `
				parent /work ok
				agent.dispose: no script made this agent
				other 3
				2
				agents.create: for parameter options: unknown field "modell" (did you mean "model"?)`)
			w.do(func() {
				if len(w.h.Roots()) != 1 {
					t.Error("the child is not the agent's")
				}
			})
			w.gone(w.a)
			w.do(func() {
				if n := len(w.h.Agents()); n != 0 {
					t.Errorf("%d agents are left", n)
				}
			})
			for _, f := range w.notes.failures {
				t.Error(f.Err)
			}
		})
	}
	t.Run("an end to it", func(t *testing.T) {
		w := newWorld(t, always("ok"), withEngines, func(c *loop.Config) { c.Caps.Agents = 5 })
		w.script("f.js", `ctx.on('agent/created', async () => { try { await ctx.agents.create() } catch (e) { ctx.log(e.message) } })`)
		w.create()
		w.until("capped", func() bool { w.poke(); return w.noted() != "" })
		w.do(func() {
			if n := len(w.h.Agents()); n != 6 {
				t.Errorf("%d agents", n)
			}
			w.h.Activate(nil) // the script goes, and so do its agents
		})
		w.until("gone", func() bool { w.poke(); return len(w.h.Agents()) == 1 })
	})
}
