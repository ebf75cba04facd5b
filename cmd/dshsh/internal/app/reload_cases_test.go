package app_test

import (
	"encoding/json"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
)

// denied counts the calls that the guard has denied, of all.
func (r *rig) denied() (denied, all int) {
	for _, rec := range r.a.Session().Records() {
		if rec.Type != loop.RecToolResult {
			continue
		}
		all++
		var d loop.ToolResultRecord
		if json.Unmarshal(rec.Data, &d) == nil && strings.Contains(string(rec.Data), "guarded") {
			denied++
		}
	}
	return denied, all
}

// A guard that is registered through agent.ctx when the agent is created is there after
// a save, after its VM was replaced, and after it was switched off and on.
func TestAGuardOfAgentCreatedOutlivesItsVersions(t *testing.T) {
	for _, c := range []struct{ file, text string }{
		{"guard.js", `ctx.on('agent/created', ({ agent }) => {
	agent.ctx.on('tools/pre-execute', () => ({ kind: 'deny', reason: 'guarded VERSION' }));
});
ctx.on('agent/turn-stopping', async ({ turn }) => {
	await ctx.sleep(1);
	if (turn === 3) for (;;) {}
});`},
		{"guard.lua", `ctx.on('agent/created', function(e)
	e.agent.ctx.on('tools/pre-execute', function() return { kind = 'deny', reason = 'guarded VERSION' } end)
end)
ctx.on('agent/turn-stopping', function(p)
	ctx.sleep(1)
	if p.turn == 3 then while true do end end
end)`},
	} {
		t.Run(c.file, func(t *testing.T) {
			version := func(v string) string { return strings.ReplaceAll(c.text, "VERSION", v) }
			r := newRig(t, map[string]string{c.file: version("v1"), "tool.js": `ctx.tool({ name: 'touch', description: 'd', execute: () => { console.log('RAN'); return 'x'; } });`})
			want := 0
			call := func(reason string) {
				t.Helper()
				want++
				r.model.Add(modeltest.Tool(fmt.Sprint("c", want), "touch", "{}"), modeltest.Text("ok"))
				r.prompt("go")
				denied, all := r.denied()
				if denied != want || all != want {
					t.Fatalf("%s: %d of %d calls denied, want %d; scripts said %q", reason, denied, all, want, r.take())
				}
			}
			call("at the start")
			r.save(c.file, version("v2"))
			r.inForce()
			call("after a save")
			call("before the overrun") // turn 3 computes for too long at its end
			call("after the VM was replaced")
			if _, err := r.m.Off(t.Context(), c.file); err != nil {
				t.Fatal(err)
			}
			if _, err := r.m.On(t.Context(), c.file); err != nil {
				t.Fatal(err)
			}
			call("after off and on")
			if _, err := r.m.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			call("after a rollback")
		})
	}
}

// R050: only the library is saved, in both languages.
func TestR050_ASavedLibrary(t *testing.T) {
	r := newRig(t, map[string]string{
		"a.js": "const lib = require('./_lib.js');\nctx.on('agent/turn-start', () => console.log(lib.word));", "_lib.js": "exports.word = 'js one';",
		"b.lua": "local lib = require('_lib')\nctx.on('agent/turn-start', function() print(lib.word) end)", "_lib.lua": "return { word = 'lua one' }",
	})
	check := func(want string) {
		t.Helper()
		r.prompt("go")
		if got := r.take(); got != want {
			t.Errorf("scripts say %q, want %q", got, want)
		}
	}
	check("js one\nlua one")
	r.save("_lib.js", "exports.word = 'js two';")
	r.inForce()
	check("js two\nlua one")
	r.save("_lib.lua", "return { word = 'lua two' }")
	r.inForce()
	check("js two\nlua two")
}

// restless leaves everything behind that a disposal must end: promises that never settle,
// parked Lua, timers, effects.
var restless = map[string]string{
	"a.js": `ctx.effect(() => () => {});
ctx.spawn(async () => { await ctx.sleep(3600000); });
ctx.spawn(() => new Promise(() => {}));
ctx.after(3600000, () => {});
setTimeout(() => {}, 3600000);
const big = new Array(1000).fill('x').join('');
ctx.on('agent/turn-start', () => { ctx.spawn(async () => { await ctx.sleep(3600000); big; }); });`,
	"b.lua": `ctx.effect(function() return function() end end)
ctx.spawn(function() ctx.sleep(3600000) end)
ctx.spawn(function() pcall(function() ctx.sleep(3600000) end) end)
ctx.spawn(coroutine.wrap(function() ctx.sleep(3600000) end))
ctx.after(3600000, function() end)
ctx.on('agent/turn-start', function() ctx.spawn(function() ctx.sleep(3600000) end) end)`,
}

// Disposal leaves nothing behind: over many reloads goroutines and heap stay flat.
func TestReloadsLeaveNothingBehind(t *testing.T) {
	warm, rounds := 100, 1000
	if testing.Short() {
		warm, rounds = 140, 60
	}
	r := newRig(t, restless)
	round := func(i int) {
		for name, text := range restless {
			comment := "//"
			if strings.HasSuffix(name, ".lua") {
				comment = "--"
			}
			r.save(name, text+fmt.Sprintf("\n%s %d", comment, i))
		}
		if rep, err := r.m.Reload(t.Context()); err != nil || len(rep.Failures) > 0 {
			t.Fatal(err, rep)
		}
		for len(r.force) > 0 {
			<-r.force
		}
		if i%100 == 0 {
			r.prompt("go")
		}
	}
	measure := func() (heap, goroutines int) {
		var ms goruntime.MemStats
		for range 3 {
			goruntime.GC()
			time.Sleep(20 * time.Millisecond)
		}
		goruntime.ReadMemStats(&ms)
		return int(ms.HeapAlloc), goruntime.NumGoroutine()
	}
	for i := range warm {
		round(i)
	}
	heap, goroutines := measure()
	for i := range rounds {
		round(warm + i)
	}
	heap2, goroutines2 := measure()
	t.Logf("%d reloads: heap %d -> %d KiB, goroutines %d -> %d", rounds, heap>>10, heap2>>10, goroutines, goroutines2)
	// What the last reloads disposed of may still be on its way out.
	for end := time.Now().Add(10 * time.Second); goruntime.NumGoroutine() > goroutines+4; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("goroutines %d -> %d", goroutines, goruntime.NumGoroutine())
		}
	}
	if heap2 > heap+4<<20 {
		t.Errorf("heap %d -> %d KiB", heap>>10, heap2>>10)
	}
}
