package loop_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
	"dshsh/session"
)

// state is what a script keeps, as JSON text.
func (w *world) state(script string) string {
	var out string
	w.do(func() {
		raw, _ := json.Marshal(w.a.Session().State()[script])
		out = string(raw)
	})
	return out
}

// patches lists the script/state records as "script patch".
func (w *world) patches() []string {
	var out []string
	for _, r := range w.records() {
		if d, ok := decoded[loop.ScriptState](r, loop.RecScriptState); ok {
			patch, _ := json.Marshal(d.Patch)
			out = append(out, d.Script+" "+string(patch))
		}
	}
	return out
}

// inBoth runs a test with the same script in each language.
func inBoth(t *testing.T, js, lua string, run func(t *testing.T, file, code string)) {
	t.Helper()
	t.Run("js", func(t *testing.T) { run(t, "s.js", js) })
	t.Run("lua", func(t *testing.T) { run(t, "s.lua", lua) })
}

// command is a slash command of the scripts, run as the prompt runs it.
func (w *world) command(name, args string) (string, error) {
	w.t.Helper()
	var out string
	var err error
	w.do(func() {
		r := w.h.Current().Find(loop.OfferCommand, name, w.a)
		if r == nil {
			w.t.Errorf("no command %s", name)
			return
		}
		out, err = r.Spec.(*loop.Command).Run(w.a, args)
	})
	return out, err
}

const counterJS = `
ctx.command('count', { description: 'counts', run: (args, { agent }) => {
  agent.state.n = (agent.state.n || 0) + 1;
  agent.state.seen = { ...(agent.state.seen || {}), [args]: [1, 2.5, 12345678901234567890n] };
  return agent.state.n;
} });
ctx.command('drop', { description: 'forgets', run: (args, { agent }) => { delete agent.state[args]; agent.state.other = null; } });
ctx.command('bad', { description: 'fails', run: (args, { agent }) => {
  const out = [];
  for (const f of [() => { agent.state.f = () => 1; }, () => { agent.state.n.x = 1; agent.state.seen.a = 2; },
    () => { agent.state.big = 'x'.repeat(1 << 20); }]) try { f(); out.push('no error'); } catch (e) { out.push(e.message); }
  return out.join('\n');
} });`

const counterLua = `
ctx.command('count', { description = 'counts', run = function(args, c)
  local s = c.agent.state
  s.n = (s.n or 0) + 1
  local seen = s.seen and s.seen:totable() or {}
  seen[args] = { 1, 2.5, json.int('12345678901234567890') }
  s.seen = seen
  return s.n
end })
ctx.command('drop', { description = 'forgets', run = function(args, c) c.agent.state[args] = nil c.agent.state.other = nil end })
ctx.command('bad', { description = 'fails', run = function(args, c)
  local out = {}
  local s = c.agent.state
  for i, f in ipairs { function() s.f = function() end end, function() s.seen.a = 2 end, function() s.big = string.rep('x', 1024 * 1024) end } do
    local ok, e = pcall(f)
    out[i] = ok and 'no error' or tostring(e.message or e)
  end
  return table.concat(out, '\n')
end })`

func TestAgentState(t *testing.T) {
	inBoth(t, counterJS, counterLua, func(t *testing.T, file, code string) {
		w := newWorld(t, always("ok"), withEngines, withStore(t, nil))
		w.script(file, code)
		w.create()
		id := "cli/" + file
		for i, arg := range []string{"a", "b"} {
			if out, err := w.command("count", arg); err != nil || out != fmt.Sprint(i+1) {
				t.Fatal(out, err)
			}
		}
		const seen = `{"a":[1,2.5,12345678901234567890],"b":[1,2.5,12345678901234567890]}`
		if got := w.state(id); got != `{"n":2,"seen":`+seen+`}` {
			t.Error(got)
		}
		want := []string{id + ` {"n":1}`, id + ` {"seen":{"a":[1,2.5,12345678901234567890]}}`, id + ` {"n":2}`, id + ` {"seen":` + seen + `}`}
		if got := w.patches(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q", got)
		}
		out, err := w.command("bad", "")
		lines := strings.Split(out, "\n")
		if err != nil || len(lines) != 3 || !strings.Contains(lines[0], "agent.state.f: a function is not a JSON value") ||
			!strings.Contains(lines[1], "read-only") || !strings.Contains(lines[2], "agent.state.big: it would have 1048") {
			t.Errorf("%q %v", out, err)
		}
		w.prompt("a turn") // what is behind its end is left off by a rewind
		if _, err := w.command("drop", "seen"); err != nil {
			t.Fatal(err)
		}
		if got := w.patches(); len(got) != 5 || got[4] != id+` {"seen":null}` {
			t.Errorf("%q", got)
		}

		// A reload: the same file in a new VM.
		w.do(func() { w.h.Activate(nil) })
		w.script(file, code)
		if out, _ := w.command("count", "c"); out != "3" {
			t.Error("after a reload", out)
		}
		parent := w.a.ID()
		w.fork(parent, session.Last)
		if out, _ := w.command("count", "d"); out != "4" {
			t.Error("after a fork", out)
		}
		w.do(func() {
			a, err := w.h.Rewind(parent, 1, w.options())
			if err != nil {
				t.Fatal(err)
			}
			w.a = a
		})
		if got := w.state(id); got != `{"n":2,"seen":`+seen+`}` {
			t.Error("after a rewind", got)
		}
		w.resumed()
		if out, _ := w.command("count", "e"); out != "3" {
			t.Error("after a resume", out)
		}
		if problems := loop.Verify(w.records()); len(problems) != 0 {
			t.Error(problems)
		}
	})
}

// Inside a session/event listener nothing can append: the write is checked at once, can
// be read at once, and stands in the log when the operation is over.
func TestAgentStateInASessionListener(t *testing.T) {
	inBoth(t, `
ctx.on('session/event', ({ agent, event }) => {
  if (event.type === 'script/state') ctx.log('heard ' + JSON.stringify(event.data.patch));
  if (event.type !== 'agent/inbox/spliced') return;
  const before = agent.session.seq;
  agent.state.n = (agent.state.n || 0) + 1; agent.state.n = agent.state.n + 1;
  try { agent.state.f = () => 1; } catch (e) { ctx.log(e.message); }
  ctx.log(agent.state.n + ' ' + Object.keys(agent.state).join() + ' ' + (agent.session.seq - before));
});
ctx.on('session/event', ({ event }) => { if (event.type === 'script/state') ctx.log('other ' + event.data.patch.n); });`, `
ctx.on('session/event', function(e)
  if e.event.type == 'script/state' then ctx.log('heard ' .. json.encode(e.event.data.patch)) end
  if e.event.type ~= 'agent/inbox/spliced' then return end
  local s, before = e.agent.state, e.agent.session.seq
  s.n = (s.n or 0) + 1
  s.n = s.n + 1
  local _, err = pcall(function() s.f = function() end end)
  ctx.log(err.message)
  local keys = {}
  for k in pairs(s) do keys[#keys + 1] = k end
  ctx.log(s.n .. ' ' .. table.concat(keys, ',') .. ' ' .. (e.agent.session.seq - before))
end)
ctx.on('session/event', function(e) if e.event.type == 'script/state' then ctx.log('other ' .. e.event.data.patch.n) end end)`,
		func(t *testing.T, file, code string) {
			w := newWorld(t, always("ok"), withEngines)
			w.script(file, code)
			w.create()
			w.prompt("go") // one operation with two splices: the insert and the claim
			const refused = "agent.state.f: a function is not a JSON value"
			w.check(strings.Join(w.notes.logged, "\n"), refused+"\n2 n 0\n"+refused+"\n4 n 0\nother 1\nother 2\nother 3\nother 4")
			if got := strings.Join(w.patches(), " "); strings.Count(got, `"n":`) != 4 || w.state("cli/"+file) != `{"n":4}` {
				t.Error(got)
			}
		})
}

func TestAgentStateRefusesWhatIsTooMuch(t *testing.T) {
	inBoth(t, `ctx.on('session/event', ({ agent, event }) => {
  if (event.type === 'turn/end') { for (let i = 0; i < 1200; i++) agent.state.n = i; ctx.log(agent.state.n); } });
ctx.on('agent/status', ({ agent, status }) => { if (status === 'idle') ctx.log(agent.state.n); });`,
		`ctx.on('session/event', function(e)
  if e.event.type == 'turn/end' then for i = 0, 1199 do e.agent.state.n = i end ctx.log(e.agent.state.n) end end)
ctx.on('agent/status', function(e) if e.status == 'idle' then ctx.log(e.agent.state.n) end end)`,
		func(t *testing.T, file, code string) {
			w := newWorld(t, always("ok"), withEngines)
			w.script(file, code)
			w.create()
			w.prompt("go")
			w.check(strings.Join(w.notes.logged, "\n"), "1199\n999")
			if len(w.notes.capped) != 1 || !strings.Contains(w.notes.capped[0], "cli/"+file) {
				t.Errorf("%q", w.notes.capped)
			}
		})
}

// first is a member of ctx that hands a script the agent even while it loads.
func first(w **world) func(*loop.Config) {
	return func(c *loop.Config) {
		c.Members = append(c.Members, &runtime.Member{Name: "first", Get: func(runtime.Object) (runtime.Value, error) {
			return (*w).h.Agents()[0], nil
		}})
	}
}

func TestAgentStateNotWhileLoading(t *testing.T) {
	inBoth(t, `try { ctx.first.state.n; } catch (e) { ctx.log(e.message); } try { ctx.first.state.n = 1; } catch (e) { ctx.log(e.message); }`,
		`for _, f in ipairs { function() return ctx.first.state.n end, function() ctx.first.state.n = 1 end } do
  local _, e = pcall(f)
  ctx.log(e.message)
end`, func(t *testing.T, file, code string) {
			var w *world
			w = newWorld(t, always("ok"), withEngines, first(&w)).create()
			w.script(file, code)
			w.check(strings.Join(w.notes.logged, "\n"), "agent.state: not while loading\nagent.state: not while loading")
		})
}

func TestAgentStateIsEachScriptsOwn(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines)
	w.script("s.js", counterJS)
	w.script("other.lua", strings.NewReplacer("'count'", "'count2'", "'drop'", "'drop2'", "'bad'", "'bad2'").Replace(counterLua))
	w.create()
	a := w.a
	other := w.create().a
	for _, x := range []struct {
		a    loop.Agent
		name string
	}{{a, "count"}, {a, "count"}, {a, "count2"}, {other, "count2"}} {
		w.a = x.a
		if _, err := w.command(x.name, "x"); err != nil {
			t.Fatal(err)
		}
	}
	w.do(func() {
		s, o := a.Session().State(), other.Session().State()
		if string(s["cli/s.js"]["n"]) != "2" || string(s["cli/other.lua"]["n"]) != "1" || len(o) != 1 || string(o["cli/other.lua"]["n"]) != "1" {
			t.Error(s, o)
		}
	})
	w.gone(a)
	if _, err := func() (string, error) { w.a = a; return w.command("count", "x") }(); err == nil || !strings.Contains(err.Error(), "disposed") {
		t.Error(err)
	}
}

// What an agent has at any record is the fold of the records so far: live, resumed,
// forked and rewound.
func TestProperty_StateIsTheFoldOfItsRecords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, modeltest.New().Otherwise(modeltest.Text("ok")), withEngines, withStore(t, nil))
		defer w.h.Stop()
		const set = `ctx.command('set', { description: '', run: (args, { agent }) => {
  const [key, value] = JSON.parse(args); if (value === undefined) delete agent.state[key]; else agent.state[key] = value; } });`
		w.script("one.js", set)
		w.script("two.js", strings.Replace(set, "'set'", "'set2'", 1))
		w.create()
		same := func(when string, recs []session.Record) {
			want, _ := json.Marshal(loop.DeriveState(recs))
			var got []byte
			w.do(func() { got, _ = json.Marshal(w.a.Session().State()) })
			if string(got) != string(want) {
				rt.Fatalf("%s: the agent has %s, its records %s", when, got, want)
			}
		}
		want := map[string]map[string]string{"set": {}, "set2": {}} // by hand
		for range rapid.IntRange(1, 12).Draw(rt, "deeds") {
			recs := w.records()
			switch rapid.SampledFrom([]string{"set", "set", "set", "set2", "turn", "fork", "rewind", "resume"}).Draw(rt, "deed") {
			case "set":
				write(rt, w, "set", want)
			case "set2":
				write(rt, w, "set2", want)
			case "turn":
				w.prompt("go")
			case "resume":
				w.resumed()
			case "fork":
				w.fork(w.a.ID(), session.Last)
			case "rewind":
				turns := loop.Turns(recs)
				n := rapid.IntRange(0, len(turns)).Draw(rt, "turn")
				end := int64(len(recs)) - 1
				switch {
				case n > 0:
					end = turns[n-1].End
				case len(turns) > 0:
					end = turns[0].Start - 1
				}
				w.do(func() {
					a, err := w.h.Rewind(w.a.ID(), n, w.options())
					if err != nil {
						rt.Fatal(err)
					}
					w.a = a
				})
				same("rewound", recs[:end+1])
				for name, script := range map[string]string{"set": "cli/one.js", "set2": "cli/two.js"} {
					clear(want[name])
					for k, v := range loop.DeriveState(recs[:end+1])[script] {
						want[name][k] = string(v)
					}
				}
			}
			same("now", w.records())
			for name, script := range map[string]string{"set": "cli/one.js", "set2": "cli/two.js"} {
				got := map[string]string{}
				w.do(func() {
					for k, v := range w.a.Session().State()[script] {
						got[k] = string(v)
					}
				})
				if fmt.Sprint(got) != fmt.Sprint(want[name]) {
					rt.Fatalf("%s has %v, was told %v", script, got, want[name])
				}
			}
		}
		if problems := loop.Verify(w.records()); len(problems) != 0 {
			rt.Fatal(problems)
		}
	})
}

func write(rt *rapid.T, w *world, command string, want map[string]map[string]string) {
	key := rapid.SampledFrom([]string{"a", "b", "", "toString", "é"}).Draw(rt, "key")
	value := rapid.SampledFrom([]string{"", "null", "1", `"x"`, `{"b":[],"c":{}}`, `[1,null]`}).Draw(rt, "value")
	args, _ := json.Marshal(key)
	text := "[" + string(args)
	if value != "" {
		text += "," + value
	}
	if _, err := w.command(command, text+"]"); err != nil {
		rt.Fatal(err)
	}
	if want[command][key] = value; value == "" || value == "null" {
		delete(want[command], key)
	}
}
