package loop_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/bindings/js"
	"dshsh/bindings/lua"
	"dshsh/loop"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
)

// The fixtures say what hooks around a turn must see, in Go, JavaScript and Lua alike.
// A listener notes what it sees with ctx.log, in Go with w.notes.note.

func (n *notes) note(format string, args ...any) {
	n.logged = append(n.logged, fmt.Sprintf(format, args...))
}

type fixture struct {
	name    string
	answers []modeltest.Answer
	golang  func(w *world)
	js, lua string
	run     func(w *world) // default: prompt("go")
	notes   string         // what was noted, by line
	log     string         // the skeleton
	check   func(t *testing.T, w *world)
}

var errRefuse = errors.New("plugin refuses to start turn")
var errAborting = errors.New("aborting listener broke")

// cancelHanging cancels once the model hangs.
func cancelHanging(w *world) {
	w.do(func() { _ = w.a.Followup(loop.UserMessage("go")) })
	w.streaming("partial")
	w.a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
	w.wait()
}

var fixtures = []fixture{
	{
		name:    "1 turn-starting is called once for a text reply",
		answers: []modeltest.Answer{modeltest.Text("hi")},
		golang: func(w *world) {
			loop.TurnStarting.On(w.h.Host, func(p loop.TurnPayload) error { w.notes.note("turn %d", p.Turn); return nil })
		},
		js:    `ctx.on('agent/turn-starting', ({ turn }) => { ctx.log('turn ' + turn) })`,
		lua:   `ctx.on('agent/turn-starting', function(e) ctx.log('turn ' .. e.turn) end)`,
		notes: "turn 1",
		log: `
			turn/start 1
			step/start 1.1
			user/message
			assistant/message
			step/end 1.1
			turn/end 1 completed`,
		check: func(t *testing.T, w *world) {
			if n := len(w.model.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		},
	},
	{
		name:    "1b turn-starting is called once with tool rounds in between",
		answers: []modeltest.Answer{modeltest.Tool("c1", "echo", `{"text":"a"}`), modeltest.Tool("c2", "echo", `{"text":"b"}`), modeltest.Text("hi")},
		golang: func(w *world) {
			loop.TurnStarting.On(w.h.Host, func(p loop.TurnPayload) error { w.notes.note("turn %d", p.Turn); return nil })
		},
		js:    `ctx.on('agent/turn-starting', async ({ turn }) => { await null; ctx.log('turn ' + turn) })`,
		lua:   `ctx.on('agent/turn-starting', function(e) ctx.sleep(1) ctx.log('turn ' .. e.turn) end)`,
		notes: "turn 1",
		check: func(t *testing.T, w *world) {
			if n := len(w.model.Requests()); n != 3 {
				t.Errorf("%d requests", n)
			}
		},
	},
	{
		name:    "2 turn-aborting is told the cause before turn/end",
		answers: []modeltest.Answer{modeltest.Hang("partial")},
		golang: func(w *world) {
			loop.TurnAborting.On(w.h.Host, func(p loop.AbortPayload) error {
				w.notes.note("aborting %s, ended %d", p.Cause.Kind, w.logged(loop.RecTurnEnd))
				return nil
			})
		},
		js: `ctx.on('agent/turn-aborting', ({ agent, cause }) => {
			ctx.log('aborting ' + cause.kind + ', ended ' + agent.session.events().filter((e) => e.type === 'turn/end').length) })`,
		lua: `ctx.on('agent/turn-aborting', function(e)
			local n = 0
			for _, r in ipairs(e.agent.session:events()) do if r.type == 'turn/end' then n = n + 1 end end
			ctx.log('aborting ' .. e.cause.kind .. ', ended ' .. n) end)`,
		run:   cancelHanging,
		notes: "aborting user, ended 0",
		log: `
			turn/start 1
			step/start 1.1
			user/message
			assistant/message
			step/end 1.1
			turn/end 1 aborted/user`,
	},
	{
		name: "3 a throw in turn-starting refuses the turn",
		golang: func(w *world) {
			loop.TurnStarting.On(w.h.Host, func(loop.TurnPayload) error { return errRefuse })
			loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error {
				w.notes.note("error %d.%d %v", p.Turn, p.Step, runtime.Message(p.Error))
				if !errors.Is(p.Error, errRefuse) {
					w.notes.note("another value")
				}
				return nil
			})
			loop.TurnAborting.On(w.h.Host, func(loop.AbortPayload) error { w.notes.note("aborting"); return nil })
		},
		js: `ctx.on('agent/turn-starting', () => { throw new Error('plugin refuses to start turn') })
			ctx.on('agent/error', (e) => { ctx.log('error ' + e.turn + '.' + e.step + ' ' + e.error.message) })
			ctx.on('agent/turn-aborting', () => { ctx.log('aborting') })`,
		lua: `ctx.on('agent/turn-starting', function() error('plugin refuses to start turn') end)
			ctx.on('agent/error', function(e) ctx.log('error ' .. e.turn .. '.' .. e.step .. ' ' .. e.error.message) end)
			ctx.on('agent/turn-aborting', function() ctx.log('aborting') end)`,
		notes: "error 1.0 plugin refuses to start turn",
		log: `
			turn/start 1
			turn/end 1 error UNKNOWN "plugin refuses to start turn"`,
		check: func(t *testing.T, w *world) {
			if n := len(w.model.Requests()); n != 0 {
				t.Errorf("%d requests", n)
			}
		},
	},
	{
		name:    "4 a throw in turn-aborting is one agent/error and changes nothing",
		answers: []modeltest.Answer{modeltest.Hang("partial")},
		golang: func(w *world) {
			loop.TurnAborting.On(w.h.Host, func(p loop.AbortPayload) error { w.notes.note("aborting %s", p.Cause.Kind); return errAborting })
			loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error {
				if p.Error != errAborting {
					w.notes.note("another value: %v", p.Error)
				}
				w.notes.note("error aborting listener broke go 0")
				return nil
			})
		},
		js: `ctx.on('agent/turn-aborting', ({ cause }) => { ctx.log('aborting ' + cause.kind); throw new Error('aborting listener broke') })
			ctx.on('agent/error', ({ error }) => { ctx.log('error ' + error.message + ' ' + error.script + ' ' + error.line) })`,
		lua: `ctx.on('agent/turn-aborting', function(e) ctx.log('aborting ' .. e.cause.kind) error('aborting listener broke') end)
			ctx.on('agent/error', function(e) ctx.log('error ' .. e.error.message .. ' ' .. e.error.script .. ' ' .. e.error.line) end)`,
		run:   cancelHanging,
		notes: "aborting user\nerror aborting listener broke SCRIPT",
		log: `
			turn/start 1
			step/start 1.1
			user/message
			assistant/message
			step/end 1.1
			turn/end 1 aborted/user`,
	},
	{
		name: "5 an abort during turn-starting ends the turn as aborted",
		golang: func(w *world) {
			loop.TurnStarting.On(w.h.Host, func(p loop.TurnPayload) error {
				w.notes.note("starting")
				never := make(chan struct{})
				return w.h.Thread.Wait(never, p.Signal.Context())
			})
			loop.TurnAborting.On(w.h.Host, func(p loop.AbortPayload) error { w.notes.note("aborting %s", p.Cause.Kind); return nil })
		},
		js: `ctx.on('agent/turn-starting', async () => { ctx.log('starting'); await new Promise(() => {}) })
			ctx.on('agent/turn-aborting', ({ cause }) => { ctx.log('aborting ' + cause.kind) })`,
		lua: `ctx.on('agent/turn-starting', function() ctx.log('starting') ctx.sleep(60000) end)
			ctx.on('agent/turn-aborting', function(e) ctx.log('aborting ' .. e.cause.kind) end)`,
		run: func(w *world) {
			w.do(func() { _ = w.a.Followup(loop.UserMessage("go")) })
			w.until("starting", func() bool { w.poke(); return len(w.notes.logged) == 1 })
			w.a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
			w.wait()
		},
		notes: "starting\naborting user",
		log: `
			turn/start 1
			turn/end 1 aborted/user`,
	},
	{
		name:    "6 a session/event throw on step/start fails the turn, balanced",
		answers: []modeltest.Answer{modeltest.Text("hi")},
		golang:  throwOn(loop.RecStepStart),
		js: `ctx.on('session/event', ({ event }) => { if (event.type === 'step/start') throw new Error('no step') })
			ctx.on('agent/error', (e) => { ctx.log('error ' + e.turn + '.' + e.step + ' ' + e.error.message) })`,
		lua: `ctx.on('session/event', function(e) if e.event.type == 'step/start' then error('no step') end end)
			ctx.on('agent/error', function(e) ctx.log('error ' .. e.turn .. '.' .. e.step .. ' ' .. e.error.message) end)`,
		notes: "error 1.1 no step",
		log: `
			turn/start 1
			step/start 1.1
			step/end 1.1
			turn/end 1 error UNKNOWN "no step"`,
	},
	{
		name:    "6b a session/event throw on step/end fails the turn, balanced",
		answers: []modeltest.Answer{modeltest.Text("hi")},
		golang:  throwOn(loop.RecStepEnd),
		js: `ctx.on('session/event', ({ event }) => { if (event.type === 'step/end') throw new Error('no step') })
			ctx.on('agent/error', (e) => { ctx.log('error ' + e.turn + '.' + e.step + ' ' + e.error.message) })`,
		lua: `ctx.on('session/event', function(e) if e.event.type == 'step/end' then error('no step') end end)
			ctx.on('agent/error', function(e) ctx.log('error ' .. e.turn .. '.' .. e.step .. ' ' .. e.error.message) end)`,
		notes: "error 1.1 no step",
		log: `
			turn/start 1
			step/start 1.1
			user/message
			assistant/message
			step/end 1.1
			turn/end 1 error UNKNOWN "no step"`,
	},
	{
		name:    "7 a session/event listener that steers on step/end extends the turn",
		answers: []modeltest.Answer{modeltest.Text("one"), modeltest.Text("two")},
		golang: func(w *world) {
			done := false
			loop.SessionEvent.On(w.h.Host, func(p loop.RecordPayload) error {
				if p.Event.Type == loop.RecStepEnd && !done {
					done = true
					return p.Agent.Steer(loop.UserMessage("more"))
				}
				return nil
			})
		},
		js: `let done = false
			ctx.on('session/event', ({ event, agent }) => { if (event.type === 'step/end' && !done) { done = true; agent.steer('more') } })`,
		lua: `local done = false
			ctx.on('session/event', function(e) if e.event.type == 'step/end' and not done then done = true e.agent:steer('more') end end)`,
		check: func(t *testing.T, w *world) {
			w.check(w.skeleton(), `
				agent/inbox/spliced
				turn/start 1
				agent/inbox/spliced
				step/start 1.1
				user/message
				assistant/message
				step/end 1.1
				agent/inbox/spliced
				agent/inbox/spliced
				step/start 1.2
				user/message
				assistant/message
				step/end 1.2
				turn/end 1 completed`)
			if got := w.model.Requests(); len(got) != 2 || len(got[1].Messages) != 3 {
				t.Errorf("%d requests", len(got))
			}
		},
	},
	{
		name:    "8 a wake is claimed before followup returns",
		answers: []modeltest.Answer{modeltest.Text("hi")},
		golang: func(w *world) {
			once := false
			loop.AgentSessionStart.On(w.h.Host, func(p loop.SessionStartPayload) error {
				if !once {
					once = true
					_ = p.Agent.Followup(loop.UserMessage("from a listener"))
					w.notes.note("%s pending %v", p.Agent.Status(), p.Agent.Inbox().HasPending())
				}
				return nil
			})
		},
		js: `ctx.on('agent/session-start', ({ agent }) => {
			agent.followup('from a listener'); ctx.log(agent.status + ' pending ' + agent.inbox.hasPending) })`,
		lua: `ctx.on('agent/session-start', function(e)
			e.agent:followup('from a listener') ctx.log(e.agent.status .. ' pending ' .. tostring(e.agent.inbox.hasPending)) end)`,
		run: func(w *world) {
			w.until("ended", func() bool { return w.logged(loop.RecTurnEnd) == 1 })
			w.wait()
		},
		notes: "running pending false",
	},
}

// poke makes until look again: not every event leaves a record.
func (w *world) poke() {
	select {
	case w.tick <- struct{}{}:
	default:
	}
}

func throwOn(typ string) func(w *world) {
	return func(w *world) {
		loop.SessionEvent.On(w.h.Host, func(p loop.RecordPayload) error {
			if p.Event.Type == typ {
				return errors.New("no step")
			}
			return nil
		})
		loop.AgentError.On(w.h.Host, func(p loop.ErrorPayload) error {
			w.notes.note("error %d.%d %v", p.Turn, p.Step, runtime.Message(p.Error))
			return nil
		})
	}
}

func withEngines(c *loop.Config) { c.Engines = []runtime.Engine{js.Engine(), lua.Engine()} }

// script loads one script file as the only one in force.
func (w *world) script(file, code string) {
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
		in, err := w.h.Load(runtime.ScriptFile{ID: "cli/" + file, File: file, Hash: "h", Layer: runtime.LayerCommandLine, Program: prog})
		if err != nil {
			w.t.Error(err)
			return
		}
		w.h.Activate(append(w.h.Current().Instances[:len(w.h.Current().Instances):len(w.h.Current().Instances)], in))
		w.h.Greet()
	})
}

func TestFixtures(t *testing.T) {
	for _, f := range fixtures {
		for _, lang := range []string{"go", "js", "lua"} {
			t.Run(f.name+"/"+lang, func(t *testing.T) {
				w := newWorld(t, modeltest.New(f.answers...), withTools(echo{}), withEngines)
				switch lang {
				case "go":
					w.do(func() { f.golang(w) })
				case "js":
					w.script("f.js", f.js)
				case "lua":
					w.script("f.lua", f.lua)
				}
				w.create()
				if f.run != nil {
					f.run(w)
				} else {
					w.prompt("go")
				}
				if f.notes != "" {
					place := map[string]string{"go": "go 0", "js": "cli/f.js 1", "lua": "cli/f.lua 1"}[lang]
					w.check(strings.Join(w.notes.logged, "\n"), strings.ReplaceAll(f.notes, "SCRIPT", place))
				}
				if f.log != "" {
					w.check(w.skeleton("agent/inbox"), f.log)
				}
				if f.check != nil {
					f.check(t, w)
				}
				for _, fail := range w.notes.failures {
					t.Errorf("contained failure: %v", fail.Err)
				}
			})
		}
	}
}

func TestFixture9_UnknownEventFailsTheLoad(t *testing.T) {
	w := newWorld(t, modeltest.New(), withEngines)
	for file, code := range map[string]string{
		"f.js":  "\nctx.on('agent/turn-startin', () => {})",
		"f.lua": "\nctx.on('agent/turn-startin', function() end)",
	} {
		e, _ := w.h.EngineFor(file)
		prog, err := e.Compile(runtime.Source{ID: "cli/" + file, File: file, Code: []byte(code)})
		if err != nil {
			t.Fatal(err)
		}
		w.do(func() {
			_, err = w.h.Load(runtime.ScriptFile{ID: "cli/" + file, File: file, Layer: runtime.LayerCommandLine, Program: prog})
		})
		want := file + `:2: ctx.on: unknown event "agent/turn-startin" (did you mean "agent/turn-starting"?)`
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
