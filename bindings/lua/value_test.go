package lua_test

import (
	"encoding/json"
	"fmt"
	goruntime "runtime"
	"testing"

	"dshsh/runtime"
)

// TestViews: what the host hands over is read as if it were a table.
func TestViews(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.take = runtime.ValueOf(json.RawMessage(`{"s":"x","n":1.5,"i":7,"b":true,"z":null,"list":[1,null,3],"o":{"k":[{"d":1}]},"big":12345678901234567890,"e":[],"eo":{},"totable":"own"}`))
	for _, c := range []struct{ body, want string }{
		{`local v = rig.take give(v.s, v.n, v.i, v.b, v.z, v.nothing, v.o.k[1].d, v[1], v.totable)`, `x 1.5 7 true null null 1 null own`},
		{`local v = rig.take give(#v.list, v.list[1], v.list[2], v.list[3], v.list[0], v.list[4], v.list[1.5], v.list.x, #v, #v.e)`, `3 1 null 3 null null null null 11 0`},
		{`local v = rig.take local n = 0 for i, x in ipairs(v.list) do n = n * 10 + i end give(n)`, `123`},
		{`local v = rig.take local s = "" for k, x in pairs(v.o) do s = s .. k end for k, x in pairs(v.list) do s = s .. k end for k in pairs(v) do s = s .. k end give(s)`, `k123bbigeeoilistnostotablez`},
		{`local v = rig.take local s, k = "", nil repeat k = next(v, k) s = s .. tostring(k) .. " " until k == nil give(s)`, `b big e eo i list n o s totable z nil `},
		{`local v = rig.take give(next(v.e), next(v.eo), next(v.list))`, `null null 1 1`},
		{`local v = rig.take give(v.o == v.o, v.o.k[1] == v.o.k[1], v == rig.take, v.o == v.eo, rawequal(v.o, v.o))`, `true true true false true`},
		{`local v = rig.take give(v.o, tostring(v.o.k), type(v), json.encode(v.o))`, `{"k":[{"d":1}]} [{"d":1}] userdata {"k":[{"d":1}]}`},
		{`local v = rig.take give(table.concat({ unpack(v.o.k[1] and { 1, 2 }) }), table.concat(json.decode("[1,2]"))) give(unpack(v.list)) `, `12 12 1 null 3`},
		{`local v = rig.take give(pcall(table.concat, v.list)) give(table.concat(text.split("a,b", ",")))`, `false a.lua:1: table.concat: invalid value (nil) at index 2 ab`},
		{`local v = rig.take give(v.big, v.big > 1e19, type(v.big))`, `12345678901234567000 true number`},
		{`local t = rig.take.o:totable() t.k[1].d = 2 t.k[2] = "new" give(t, rig.take.o)`, `{"k":[{"d":2},"new"]} {"k":[{"d":1}]}`},
		{`local v = rig.take give(json.encode(v.list:totable()), v.list:totable()[2] == json.null)`, `[1,null,3] true`},
		{`local v = rig.take local t = { all = v, list = v.list, in_list = { v.e, v.eo } } give(json.encode(t.in_list), t)`,
			`[[],{}] {"all":{"s":"x","n":1.5,"i":7,"b":true,"z":null,"list":[1,null,3],"o":{"k":[{"d":1}]},"big":12345678901234567890,"e":[],"eo":{},"totable":"own"},"in_list":[[],{}],"list":[1,null,3]}`},
		{`local v = rig.take give(pcall(function() v.s = 1 end)) give(pcall(function() v.list[1] = 1 end)) give(pcall(rawset, v, "s", 1)) give(pcall(setmetatable, v, {})) give(getmetatable(v))`,
			`false a.lua:1: cannot change "s": what events and agent.state give is read-only; change a copy made with :totable(), and return it or assign it back ` +
				`false a.lua:1: cannot change "1": what events and agent.state give is read-only; change a copy made with :totable(), and return it or assign it back ` +
				`false bad argument #1 (table expected, got userdata) false bad argument #1 (table expected, got userdata) view`},
		{`local v = rig.take local n = 0 for i = 1, 100 do n = n + (v["i"] or 0) end give(n)`, `700`},
	} {
		r.expect(c.body, c.want)
	}
}

// TestBigIntegers: copies keep digits that Lua's numbers would round.
func TestBigIntegers(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.take = runtime.ValueOf(json.RawMessage(`{"n":12345678901234567890,"m":9007199254740993}`))
	r.expect(`local t = rig.take:totable() t.x = 1 give(t, t.m == t.m, t.n > t.m, -t.m < 0, t.m + 1)`,
		`{"m":9007199254740993,"n":12345678901234567890,"x":1} true true true 9007199254740992`)
}

// TestManyFields: reading many fields of one object keeps each.
func TestManyFields(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	m := map[string]int{}
	for i := range 100 {
		m[fmt.Sprintf("k%d", i)] = i
	}
	r.take = runtime.ValueOf(m)
	r.expect(`local v, n = rig.take, 0 for round = 1, 3 do for i = 0, 99 do n = n + v["k" .. i] end end give(n)`, `14850`)
}

// TestSameView: the very View comes back, from any depth, and so does what is live.
func TestSameView(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	v := runtime.ValueOf(json.RawMessage(`{"a":{"b":[1]}}`)).(*runtime.View)
	r.take = v
	inner, _ := v.Get("a")
	r.expect(`give(rig.take, rig.take.a, { x = { rig.take.a } }, rig.me)`, `{"a":{"b":[1]}} {"b":[1]} {"x":[{"b":[1]}]} [rig]`)
	if r.given[0] != runtime.Value(v) || r.given[1] != inner {
		t.Errorf("got other views: %v", r.given)
	}
	if x := r.given[2].(map[string]any)["x"].([]any)[0]; x != inner {
		t.Errorf("nested: %v", x)
	}
}

// TestFromOtherScripts: lists and objects that another script made are tables, empty ones
// included.
func TestFromOtherScripts(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.take = map[string]any{"list": []any{int64(1), nil, []any{}}, "o": map[string]any{}, "n": runtime.Number("12345678901234567890")}
	r.expect(`local t = rig.take t.more = "x" give(type(t), #t.list, t.list[2] == json.null, t)`, `table 3 true {"list":[1,null,[]],"more":"x","n":12345678901234567890,"o":{}}`)
}

// TestObjects: one object is one value for as long as the script holds it, and the cache
// keeps none alive.
func TestObjects(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.expect(`give(rig == ctx.rig, rig.me == rig, rig.me.me == rig, rig.fresh == rig, rawequal(rig, rig.me))`, `false true true false true`)
	r.expect(`local seen = {} seen[rig.me] = "it" for i = 1, 2000 do local x = rig.fresh end give(seen[rig], tostring(rig), type(rig), getmetatable(rig))`, `it rig userdata object`)
	r.expect(`give(rig.where(), rig:where(), pcall(rig.where))`, `a.lua:1 a.lua:1 true a.lua:1`)
	r.expect(`give(coroutine.wrap(function() return rig.where() end)())`, `a.lua:1`)
	r.expect(`local f = rig.give f(1) rig:give(2) rig.give(rig, 3) f(rig.fresh)`, `1 2 3 [rig]`)
	r.expect(`give(rig.call_kept == rig.callKept, rig.nothing, rig[1])`, `true null null`)
	r.load("a.lua", `local kept = ctx.rig.me
ctx.on('test/serial', function() local n = 0 for i = 1, 5000 do if ctx.rig.fresh == kept then n = n + 1 end end ctx.rig.give(n) end)`)
	for range 3 {
		goruntime.GC()
		if out, err := r.fire(""); err != nil || out != "0" {
			t.Errorf("%s, %v", out, err)
		}
	}
}

// TestFunctions: a script's function is the same handle each time; a Go function can be
// called; another script's can be handed on, not called.
func TestFunctions(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.expect(`local f = function() end give(f, f)`, `[function] [function]`)
	if r.given[0] != r.given[1] {
		t.Error("one function is two handles")
	}
	other := r.given[0]
	r.load("b.lua", `ctx.on('test/serial', function() local f = ctx.rig.take ctx.rig.give(f, pcall(f)) end)`)
	r.take = other
	if _, err := r.fire(""); err != nil || r.given[0] != other || r.given[1] != false {
		t.Errorf("%v %v", r.given, err)
	}
}

// TestAnswers: what a listener may return, and what not.
func TestAnswers(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.load("a.lua", "\nctx.on('test/decide', function(ev) return { kind = 'deny', reason = { 1, nil, 3 } } end)")
	var err error
	r.do(func() { _, err = decide(r) })
	if err == nil || err.Error() != "a.lua:2: test/decide: what it returned cannot be taken: value.reason: the list has a hole at [2]; put json.null there" {
		t.Errorf("%v", err)
	}
}

// TestPrint: print and log go to the host, whatever they are given.
func TestPrint(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.expect(`print("a", 1, nil, true) print() print(ev) print("\255") print(setmetatable({}, { __tostring = function() return "me" end })) print(json.null, rig) ctx.log("x", 1)`, ``)
	want := []string{"log a\t1\tnil\ttrue", "log ", "log {}", "log \ufffd", "log me", "log null\trig", "log x 1"}
	if fmt.Sprint(r.logs) != fmt.Sprint(want) {
		t.Errorf("logs %q", r.logs)
	}
}

// TestPassThrough: fields that a script did not touch reach the other side as they were
// (R025); the rule for the others: a copy of totable keeps [], {} and null.
func TestPassThrough(t *testing.T) {
	const args = `{"a":[],"b":{},"c":[1,null,3]}`
	for _, c := range []struct{ body, want string }{
		{`return next()`, args},
		{`return next({ arguments = call.arguments })`, args},
		{`return next({ arguments = { a = call.arguments.a, b = call.arguments.b, c = call.arguments.c } })`, args},
		{`local t = call.arguments:totable() t.d = 1 return next({ arguments = t })`, `{"a":[],"b":{},"c":[1,null,3],"d":1}`},
		{`local t = json.decode(json.encode(call.arguments)) return next({ arguments = t })`, args},
	} {
		r := newRig(t, runtime.Limits{})
		r.load("a.lua", "ctx.on('test/tool', function(call, next) "+c.body+" end)")
		if got, err := tool(r, args); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.body, got, err, c.want)
		}
	}
}
