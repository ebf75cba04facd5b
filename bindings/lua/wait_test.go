package lua_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dshsh/bindings/bindingstest"
	"dshsh/runtime"
)

// waits are the places in which a hook may wait: W(x) leaves the thread and gives x back.
var waits = map[string]string{
	"plain":        `give(name .. W(1) .. W(2))`,
	"pcall":        `local ok, v = pcall(function() return W(1) .. W(2) end) give(name .. v)`,
	"pcall direct": `local ok = pcall(ctx.rig.yield) W(0) give(name .. (ok and "12" or "failed"))`,
	"xpcall":       `local ok, v = xpcall(function() W(1) error("12", 0) end, function(e) W(2) return e end) give(name .. v)`,
	"nested pcall": `local ok, a, b = pcall(pcall, function() return W(1) .. W(2) end) give(name .. b)`,
	"gsub":         `give(name .. (("ab"):gsub(".", function(c) return W(c == "a" and 1 or 2) end)))`,
	"sort":         `local t = { 2, 1 } table.sort(t, function(a, b) W(0) return a < b end) give(name .. t[1] .. t[2])`,
	"index":        `local t = setmetatable({}, { __index = function(_, k) return W(k) end }) give(name .. t[1] .. t[2])`,
	"newindex":     `local s = "" local t = setmetatable({}, { __newindex = function(_, k, v) s = s .. W(v) end }) t.a = 1 t.b = 2 give(name .. s)`,
	"arithmetic":   `local t = setmetatable({}, { __add = function(a, b) return W(b) end, __concat = function(a, b) return W(1) .. b end }) give(name .. (t .. W(2)))`,
	"comparison":   `local m = { __lt = function() W(0) return true end, __eq = function() return W(true) end } local a, b = setmetatable({}, m), setmetatable({}, m) give(name .. ((a < b and a == b) and "12" or "wrong"))`,
	"call":         `local t = setmetatable({}, { __call = function(_, a) return W(a) end }) give(name .. t(1) .. t(2))`,
	"tostring":     `local t = setmetatable({}, { __tostring = function() return W("1") .. W("2") end }) give(name .. tostring(t))`,
	"iterator":     `local s = "" for i in function(_, i) i = (i or 0) + 1 return i < 3 and W(i) or nil end do s = s .. i end give(name .. s)`,
	"coroutine":    `local co = coroutine.wrap(function() local a = W(1) coroutine.yield(a) return W(2) end) give(name .. co() .. co())`,
	"coroutines":   `local function gen(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(W(i)) end end) end local a, b = gen(2), gen(2) a() give(name .. b() .. a())`,
	"in both":      `local co = coroutine.create(function() local ok, v = pcall(function() return W(1) end) coroutine.yield(v) local ok, v = pcall(function() W(2) error("2", 0) end) return v end) local _, a = coroutine.resume(co) local _, b = coroutine.resume(co) give(name .. a .. b)`,
	"nested co":    `local co = coroutine.wrap(function() local inner = coroutine.wrap(function() coroutine.yield(W(1)) return W(2) end) coroutine.yield(inner()) return inner() end) give(name .. co() .. co())`,
	"load":         `give(name .. load("local W = ... return W(1) .. W(2)")(W))`,
	"load reader":  `local n = 0 give(name .. load(function() n = n + 1 W(0) return ({ "return ", "12" })[n] end)())`,
	"replace":      `give(name .. (text.replace("ab", ".", function(c) return W(c == "a" and 1 or 2) end)))`,
	"varargs":      `local function f(...) W(0) return ... end give(name .. table.concat({ f(1, 2) }))`,
	"upvalues":     `local s = "" local function add(x) W(0) s = s .. x end pcall(add, 1) pcall(function() add(2) error() end) give(name .. s)`,
	"deep":         `local function f(n) if n == 0 then return W(1) .. W(2) end local ok, v = pcall(f, n - 1) return v end give(name .. f(50))`,
	"after error":  `pcall(error, "x") local co = coroutine.create(function() error("x") end) coroutine.resume(co) give(name .. W(1) .. W(2))`,
	"method":       `local v = ctx.rig:yield() give(name .. W(1) .. W(2))`,
}

// TestWaits: in each place two hooks of one script wait, interleaved, and each comes back
// to what it was doing.
func TestWaits(t *testing.T) {
	for place, body := range waits {
		t.Run(strings.ReplaceAll(place, " ", "_"), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, runtime.Limits{})
			r.load("a.lua", `local give = ctx.rig.give
local function W(x) ctx.rig.yield() return x end
ctx.on('test/serial', function(ev) local name = ev.text
`+body+`
end)`)
			const hooks, rounds = 2, 5
			var wg sync.WaitGroup
			for i := range hooks {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for range rounds {
						err := r.host.Do(context.Background(), func() {
							if err := bindingstest.Serial.Run(r.host, runtime.Target{}, bindingstest.Note{Text: fmt.Sprintf("%c", 'A'+i)}); err != nil {
								t.Errorf("%c: %v", 'A'+i, err)
							}
						})
						if err != nil {
							t.Error(err)
						}
					}
				}()
			}
			wg.Wait()
			count := map[string]int{}
			for _, v := range r.given {
				count[runtime.Display(v)]++
			}
			for i := range hooks {
				if name := fmt.Sprintf("%c12", 'A'+i); count[name] != rounds {
					t.Errorf("%s came %d times, want %d; all: %v", name, count[name], rounds, count)
				}
			}
		})
	}
}

// TestManyParked: 200 hooks of one script wait at the same time, in pcall and in a
// coroutine, and each goes on with its own values.
func TestManyParked(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.load("a.lua", `ctx.on('test/decide', function(ev, next)
  local co = coroutine.wrap(function()
    local ok, v = pcall(function() ctx.rig.gate() return ev.n end)
    coroutine.yield(v)
    return next().kind
  end)
  local n = co()
  return { kind = 'deny', reason = n .. co() }
end)`)
	const hooks = 200
	var wg sync.WaitGroup
	for i := range hooks {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var a bindingstest.Answer
			var err error
			if derr := r.host.Do(context.Background(), func() {
				a, err = bindingstest.Decide.Run(r.host, runtime.Target{}, bindingstest.Note{N: i + 1}, func(bindingstest.Note) (bindingstest.Answer, error) {
					return bindingstest.Answer{Kind: "allow"}, nil
				})
			}); derr != nil {
				t.Error(derr)
			}
			if want := fmt.Sprintf("%dallow", i+1); err != nil || a.Reason != want {
				t.Errorf("hook %d: %+v, %v, want reason %s", i, a, err, want)
			}
		}()
	}
	r.do(func() {}) // behind them all
	close(r.gate)
	wg.Wait()
}

// TestSharedCoroutine: a coroutine that one hook is inside of is refused to another.
func TestSharedCoroutine(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.load("a.lua", `local give = ctx.rig.give
local co = coroutine.create(function(a) ctx.rig.gate() give('a has ' .. a) local b = coroutine.yield('first') return b end)
ctx.on('test/serial', function(ev)
  if ev.text == 'status' then give(coroutine.status(co)) return end
  give(ev.text, coroutine.resume(co, ev.text))
end)`)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		r.do(func() {
			if err := bindingstest.Serial.Run(r.host, runtime.Target{}, bindingstest.Note{Text: "A"}); err != nil {
				t.Error(err)
			}
		})
	}()
	parked := func() bool {
		var s string
		r.do(func() {
			r.given = nil
			_ = bindingstest.Serial.Run(r.host, runtime.Target{}, bindingstest.Note{Text: "status"})
			s = r.said()
		})
		return s == "normal"
	}
	for !parked() {
		time.Sleep(time.Millisecond) // until A is inside; what it waits for is opened below
	}
	if out, err := r.fire("B"); err != nil || out != "B false a.lua:5: cannot resume a coroutine that another hook is inside of" {
		t.Errorf("B: %s, %v", out, err)
	}
	r.do(func() { r.given = nil })
	close(r.gate)
	wg.Wait()
	if out := r.said(); out != "a has A A true first" {
		t.Errorf("A: %s", out)
	}
	if out, err := r.fire("C"); err != nil || out != "C true C" {
		t.Errorf("C: %s, %v", out, err)
	}
}

func TestCoroutines(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	for _, c := range []struct{ body, want string }{
		{`local co = coroutine.create(function(a, b) local c = coroutine.yield(a + b) local d, e = coroutine.yield(c * 2) return d, e end) give(coroutine.resume(co, 1, 2)) give(coroutine.resume(co, 10)) give(coroutine.resume(co, "x", "y")) give(coroutine.resume(co)) give(coroutine.status(co))`,
			`true 3 true 20 true x y false a.lua:1: cannot resume a dead coroutine dead`},
		{`local co co = coroutine.create(function() give(coroutine.status(co), coroutine.running() == co, coroutine.isyieldable()) local inner = coroutine.create(function() give(coroutine.status(co)) give(coroutine.resume(co)) end) coroutine.resume(inner) end) give(coroutine.status(co)) coroutine.resume(co) give(coroutine.status(co), coroutine.running(), coroutine.isyieldable())`,
			`suspended running true true normal false a.lua:1: cannot resume a coroutine that is running dead null false`},
		{`give(pcall(coroutine.wrap(function() error({ code = 7 }) end)))`, `false {"code":7}`},
		{`local f = coroutine.wrap(function() return 1 end) f() give(pcall(f))`, `false a.lua:1: cannot resume a dead coroutine`},
		{`give(pcall(coroutine.yield, 1))`, `false a.lua:1: attempt to yield from outside a coroutine`},
		{`give(pcall(function() coroutine.yield(1) end))`, `false a.lua:1: attempt to yield from outside a coroutine`},
		{`give(coroutine.resume(coroutine.create(function() pcall(function() coroutine.yield(1) end) return "on" end)))`, `true on`},
		{`give(coroutine.resume(coroutine.create(function() local _, e = pcall(function() coroutine.yield(1) end) return e end)))`, `true a.lua:1: attempt to yield across a pcall`},
		{`give(coroutine.resume(coroutine.create(function() ("x"):gsub("x", coroutine.yield) end)))`, `false a.lua:1: attempt to yield across a callback of a library function`},
		{`give(coroutine.resume(coroutine.create(function() table.sort({ 2, 1 }, function() coroutine.yield() end) end)))`, `false a.lua:1: attempt to yield across a callback of a library function`},
		{`local s = 0 for v in coroutine.wrap(function() for i = 1, 4 do coroutine.yield(i) end end) do s = s + v end give(s)`, `10`},
		{`local co = coroutine.wrap(function(...) return select("#", ...), ... end) give(co(nil, 2))`, `2 null 2`},
		{`local co = coroutine.create(print) give(coroutine.resume(co, "hi"))`, `true null`},
		{`local co = coroutine.create(error) give(coroutine.resume(co, "hi", 0))`, `false hi`},
		{`local co = coroutine.wrap(math.max) give(co(3, 5))`, `5`},
		{`local co = coroutine.wrap(function() return coroutine.yield(1) end) give(co(), co(5))`, `1 5`},
		{`local co = coroutine.wrap(function() return tostring(coroutine.yield(1)) end) give(co(), co(5))`, `1 5`},
		{`local co = coroutine.wrap(function() local function f(n) if n == 0 then return coroutine.yield(1) end return f(n - 1) end return f(5) end) give(co(), co(5))`, `1 5`},
		{`local ok, e = coroutine.resume(coroutine.create(function() local function r() return 1 + r() end return r() end)) give(ok, tostring(e))`, `false a.lua:1: stack overflow: calls, pcalls and coroutines are nested too deeply`},
		{`local t = setmetatable({}, { __index = function() return 5 end }) give(coroutine.wrap(function() local v = t.x coroutine.yield(v) end)())`, `5`},
	} {
		r.expect(c.body, c.want)
	}
	// Where gopher-lua cannot yield and does not notice, it is an error and not garbage.
	for _, body := range []string{
		`local t = setmetatable({}, { __index = function() coroutine.yield(1) return 2 end }) give(coroutine.wrap(function() local v = t.x give("went on") return v end)())`,
		`give(coroutine.wrap(function() for x in function() coroutine.yield(1) return 2 end do give("went on") end end)())`,
	} {
		r.expectError(body, "attempt to yield across a metamethod or iterator")
		if out := r.said(); out != "" {
			t.Errorf("%s: gave %s", body, out)
		}
	}
	r.expect(`give("fine")`, "fine")
}

// TestEmitCannotWait: inside an emit waiting raises before anything is started; spawned,
// it works.
func TestEmitCannotWait(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.load("a.lua", `ctx.on('test/emit', function(ev)
  local ok, e = pcall(ctx.rig.gate)
  ctx.rig.give(ok, e.message)
  ctx.rig.give(coroutine.wrap(function() local ok, e = pcall(ctx.sleep, 1) return e.message end)())
  ctx.spawn(function() ctx.rig.give(ctx.rig.gate()) end)
end)`)
	r.do(func() { bindingstest.Emit.Fire(r.host, runtime.Target{}, bindingstest.Note{}) })
	if out := r.said(); out != "false rig.gate: cannot wait here: use ctx.spawn ctx.sleep: cannot wait here: use ctx.spawn" {
		t.Errorf("got %s", out)
	}
	close(r.gate)
	for done := false; !done; {
		r.do(func() { done = strings.HasSuffix(r.said(), "opened") })
	}
	if f := r.failed(); len(f) > 0 {
		t.Errorf("failures: %v", f)
	}
}

// TestUnload: parked hooks are woken with the reason, cannot hold it, and come back.
func TestUnload(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.load("a.lua", `ctx.on('test/serial', function(ev)
  ctx.rig.give('in')
  if ev.text == 'swallow' then while true do pcall(ctx.rig.gate) end end
  if ev.text == 'coroutine' then coroutine.wrap(function() pcall(ctx.rig.gate) end)() ctx.rig.give('went on') end
  ctx.rig.gate()
end)`)
	texts := []string{"plain", "swallow", "coroutine"}
	errs := make(chan error, len(texts))
	for _, text := range texts {
		go func() {
			_ = r.host.Do(context.Background(), func() {
				errs <- bindingstest.Serial.Run(r.host, runtime.Target{}, bindingstest.Note{Text: text})
			})
		}()
	}
	for n := 0; n < len(texts); {
		r.do(func() { n = len(r.given) })
	}
	start := time.Now()
	r.host.Close()
	for range texts {
		if err := <-errs; !errors.Is(err, runtime.ErrUnloaded) {
			t.Errorf("error %v, want script unloaded", err)
		}
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if len(r.given) != len(texts) {
		t.Errorf("gave %s", r.said())
	}
}

// TestBlame: the script that computes is stopped and blamed, not the one that called it,
// and a hook that is parked meanwhile is not hurt.
func TestBlame(t *testing.T) {
	r := newRig(t, runtime.Limits{Sync: 200})
	r.load(
		"x.lua", `ctx.on('test/serial', function(ev)
  if ev.text ~= 'go' then return end
  local ok, e = pcall(ctx.rig.call_kept)
  ctx.rig.give(ok, e.message, e.script)
  ctx.rig.yield()
  ctx.rig.give('x goes on')
end)`,
		"y.lua", `ctx.rig.keep(function() while true do pcall(function() while true do end end) end end)
ctx.on('test/contained', function(ev) ctx.rig.gate() ctx.rig.give('y goes on') end)
ctx.on('test/emit', function(ev) ctx.rig.give('y again') end)`)
	parked := make(chan error, 1)
	go func() {
		_ = r.host.Do(context.Background(), func() {
			parked <- bindingstest.Contained.Run(r.host, runtime.Target{}, bindingstest.Note{})
		})
	}()
	out, err := r.fire("go")
	if want := "false deadline exceeded: computed for more than 200ms project/y.lua x goes on"; err != nil || out != want {
		t.Errorf("got %s, %v\nwant %s", out, err, want)
	}
	close(r.gate)
	if err := <-parked; err != nil {
		t.Errorf("the parked hook: %v", err)
	}
	r.do(func() { bindingstest.Emit.Fire(r.host, runtime.Target{}, bindingstest.Note{}) })
	if out := r.said(); !strings.HasSuffix(out, "y goes on y again") {
		t.Errorf("afterwards: %s", out)
	}
}

// TestDeadlineOfOwn: a script that calls itself through the host has one clock, and what
// overran inside cannot be held outside.
func TestDeadlineOfOwn(t *testing.T) {
	r := newRig(t, runtime.Limits{Sync: 100})
	r.load("x.lua", `ctx.rig.keep(function() while true do end end)
ctx.on('test/serial', function(ev)
  if ev.text == 'again' then ctx.rig.give('fine') return end
  pcall(ctx.rig.call_kept)
  ctx.rig.give('went on')
end)`)
	out, err := r.fire("go")
	var se *runtime.ScriptError
	if !errors.Is(err, runtime.ErrDeadline) || !errors.As(err, &se) || out != "" {
		t.Fatalf("got %s, %v", out, err)
	}
	if out, err := r.fire("again"); err != nil || out != "fine" {
		t.Errorf("again: %s, %v", out, err)
	}
}

// TestWaitingIsFree: time that a hook is parked does not count as its computing.
func TestWaitingIsFree(t *testing.T) {
	r := newRig(t, runtime.Limits{Sync: 50})
	if out, err := r.eval(`for i = 1, 4 do ctx.sleep(30) end give("done")`); err != nil || out != "done" {
		t.Errorf("got %s, %v", out, err)
	}
}

// TestRecursionThroughHost: a script that calls itself through the host without end is an
// error, not the end of the Go stack.
func TestRecursionThroughHost(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.load("x.lua", `ctx.rig.keep(function() ctx.rig.call_kept() end)
ctx.on('test/serial', function() local ok, e = pcall(ctx.rig.call_kept) ctx.rig.give(ok, e.message) end)`)
	if out, err := r.fire(""); err != nil || !strings.HasPrefix(out, "false stack overflow") {
		t.Errorf("%s, %v", out, err)
	}
}
