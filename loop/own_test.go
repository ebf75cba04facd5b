package loop_test

import (
	"fmt"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
)

// Scripts in different languages hear each other's events, Go hears them too.
func TestOwnEventsCrossLanguages(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines)
	w.script("a.js", `
ctx.on('agent/turn-start', ({ turn }) => { ctx.emit('my/turn', { turn, by: 'js', deep: { list: [] } }); });
ctx.on('my/answer', (p) => { ctx.log('js hears ' + JSON.stringify(p)); });`)
	w.script("b.lua", `
ctx.on('my/turn', function(p) ctx.log('lua hears ' .. json.encode(p)) ctx.emit('my/answer', { to = p.by, turn = p.turn + 1 }) end)`)
	w.do(func() {
		e, err := w.h.Own("my/answer")
		if err != nil {
			t.Fatal(err)
		}
		e.On(w.h.Host, func(v runtime.Value) error {
			raw, _ := runtime.MarshalValue(v)
			w.notes.note("go hears %s", raw)
			return nil
		})
		if _, err := w.h.Own("agent/status"); err == nil {
			t.Error("a host event")
		}
	})
	w.create().prompt("go")
	w.check(strings.Join(w.notes.logged, "\n"), `lua hears {"by":"js","deep":{"list":[]},"turn":1}
go hears {"to":"js","turn":2}
js hears {"to":"js","turn":2}`)
}

// Through agent.ctx an own event concerns that agent alone.
func TestOwnEventsOfAnAgent(t *testing.T) {
	inBoth(t, `
ctx.on('agent/created', ({ agent }) => { agent.ctx.on('my/x', (p) => ctx.log(agent.id === p ? 'its own' : 'another: ' + p)); });
ctx.on('my/x', () => ctx.log('all'));
ctx.on('agent/turn-start', ({ agent }) => { agent.ctx.emit('my/x', agent.id); ctx.emit('my/x', ''); });`, `
ctx.on('agent/created', function(e) e.agent.ctx.on('my/x', function(p) ctx.log(e.agent.id == p and 'its own' or 'another: ' .. p) end) end)
ctx.on('my/x', function() ctx.log('all') end)
ctx.on('agent/turn-start', function(e) e.agent.ctx.emit('my/x', e.agent.id) ctx.emit('my/x', '') end)`,
		func(t *testing.T, file, code string) {
			w := newWorld(t, always("ok"), withEngines)
			w.script(file, code)
			w.create()
			w.create().prompt("go")
			w.check(strings.Join(w.notes.logged, "\n"), "all\nits own\nall")
		})
}

// In a turn an own event goes to the scripts that the turn began with.
func TestOwnEventsGoToTheTurnsGeneration(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Hang("partial")).Otherwise(modeltest.Text("ok")), withEngines)
	w.script("a.js", `
ctx.on('agent/turn-aborting', () => { ctx.emit('my/end', 1); });
ctx.on('agent/turn-starting', () => { ctx.emit('my/start', 1); });`)
	listen := func(version string) {
		w.script("b.lua", fmt.Sprintf(`for _, e in ipairs { 'my/start', 'my/end' } do ctx.on(e, function() ctx.log('%s ' .. e) end) end`, version))
	}
	listen("old")
	w.create()
	w.do(func() { _ = w.a.Followup(msg("go")) })
	w.streaming("partial")
	w.do(func() { w.h.Activate(w.h.Current().Instances[:1]) })
	listen("new")
	w.a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
	w.wait()
	w.prompt("again")
	w.check(strings.Join(w.notes.logged, "\n"), "old my/start\nold my/end\nnew my/start")
}
