package lua_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/bindings/bindingstest"
	"dshsh/runtime"
)

func stackOf(e *runtime.ScriptError) string {
	var parts []string
	for _, p := range e.Stack {
		parts = append(parts, fmt.Sprintf("%s:%d", p.File, p.Line))
	}
	return strings.Join(parts, " ")
}

// TestErrorPlaces: message bare, place and stack right, for errors of every origin (R022,
// R023).
func TestErrorPlaces(t *testing.T) {
	for _, c := range []struct {
		name, script string
		message      string
		place, stack string
	}{
		{"error", "local function f()\n error('boom')\nend\nctx.on('test/serial', function()\n f()\nend)", "boom", "a.lua:2", "a.lua:2 a.lua:5"},
		{"level 2", "local function f()\n error('boom', 2)\nend\nctx.on('test/serial', function()\n f()\nend)", "boom", "a.lua:5", "a.lua:2 a.lua:5"},
		{"level 0", "ctx.on('test/serial', function()\n error('boom', 0)\nend)", "boom", "a.lua:2", "a.lua:2"},
		{"runtime", "ctx.on('test/serial', function()\n local x\n return x.y\nend)", "attempt to index a nil value with key 'y'", "a.lua:3", "a.lua:3"},
		{"call nil", "ctx.on('test/serial', function(ev)\n return ctx.nothing('x')\nend)", "attempt to call a value that is no function; ctx has no nothing", "a.lua:2", "a.lua:2"},
		{"call a field", "ctx.on('test/serial', function(ev)\n ev.text()\nend)", "attempt to call a value that is no function", "a.lua:2", "a.lua:2"},
		{"table", "ctx.on('test/serial', function()\n error({ message = 'boom', code = 'X' })\nend)", "boom", "a.lua:2", "a.lua:2"},
		{"go", "ctx.on('test/serial', function()\n\n ctx.rig.fail()\nend)", "rig.fail: the host is broken", "a.lua:3", "a.lua:3"},
		{"library", "ctx.on('test/serial', function()\n (1):x()\nend)", "attempt to index a number value with key 'x'", "a.lua:2", "a.lua:2"},
		{"coroutine", "local function deep()\n local function deeper()\n  error('boom')\n end\n deeper()\nend\nctx.on('test/serial', function()\n coroutine.wrap(function()\n  deep()\n end)()\nend)",
			"boom", "a.lua:3", "a.lua:3 a.lua:5 a.lua:9 a.lua:8"},
		{"coroutine runtime", "local function deep()\n local x = nil\n return x.y\nend\nctx.on('test/serial', function()\n coroutine.wrap(function()\n  local v = deep()\n end)()\nend)",
			"attempt to index a nil value with key 'y'", "a.lua:3", "a.lua:3 a.lua:7 a.lua:6"},
		{"coroutine table", "ctx.on('test/serial', function()\n coroutine.wrap(function()\n  error({ message = 'boom' })\n end)()\nend)", "boom", "a.lua:3", "a.lua:3 a.lua:2"},
		{"coroutine go", "ctx.on('test/serial', function()\n coroutine.wrap(function()\n  ctx.rig.fail()\n end)()\nend)", "rig.fail: the host is broken", "a.lua:3", "a.lua:3 a.lua:2"},
		{"nested coroutines", "ctx.on('test/serial', function()\n coroutine.wrap(function()\n  coroutine.wrap(function()\n   error('boom')\n  end)()\n end)()\nend)", "boom", "a.lua:4", "a.lua:4 a.lua:3 a.lua:2"},
		{"thrown again", "local function f()\n error('boom')\nend\nctx.on('test/serial', function()\n local ok, e = pcall(f)\n error(e, 0)\nend)", "boom", "a.lua:2", "a.lua:2 a.lua:6"},
		{"thrown again with place", "local function f()\n error('boom')\nend\nctx.on('test/serial', function()\n local ok, e = pcall(f)\n error(e)\nend)", "boom", "a.lua:2", "a.lua:6"},
		{"table thrown again", "ctx.on('test/serial', function()\n local ok, e = pcall(function()\n  error({ message = 'boom' })\n end)\n error(e)\nend)", "boom", "a.lua:3", "a.lua:3 a.lua:5"},
		{"go thrown again", "ctx.on('test/serial', function()\n local ok, e = pcall(ctx.rig.fail)\n\n error(e)\nend)", "rig.fail: the host is broken", "a.lua:4", "a.lua:4"},
		{"gsub", "ctx.on('test/serial', function()\n ('x'):gsub('x', function()\n  error('boom')\n end)\nend)", "boom", "a.lua:3", "a.lua:3 a.lua:2"},
		{"loaded", "ctx.on('test/serial', function()\n load('\\nerror(\"boom\")', '=made')()\nend)", "boom", "made:2", "made:2 a.lua:2"},
		{"tail call", "local function f()\n error('boom')\nend\nctx.on('test/serial', function()\n return f()\nend)", "boom", "a.lua:2", "a.lua:2"},
		{"tail call with a level", "local function f()\n error('boom', 2)\nend\nlocal function g()\n return f()\nend\nctx.on('test/serial', function()\n g()\nend)", "boom", "a.lua:2", "a.lua:2 a.lua:8"},
		{"tail calls in a coroutine", "local function f(n)\n if n == 0 then error('boom') end\n return f(n - 1)\nend\nctx.on('test/serial', function()\n coroutine.wrap(function()\n  f(1000)\n end)()\nend)", "boom", "a.lua:2", "a.lua:2 a.lua:7 a.lua:6"},
		{"colons", "ctx.on('test/serial', function()\n error('a: b:3: c')\nend)", "a: b:3: c", "a.lua:2", "a.lua:2"},
		{"overflow", "local function f()\n return 1 + f()\nend\nctx.on('test/serial', function()\n f()\nend)", "stack overflow", "a.lua:2", strings.Repeat("a.lua:2 ", 19) + "a.lua:5"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			r := newRig(t, runtime.Limits{})
			r.load("a.lua", c.script)
			_, err := r.fire("")
			var e *runtime.ScriptError
			if !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			if e.Message != c.message || e.Script != "project/a.lua" || e.Name != "Error" {
				t.Errorf("message %q of %s (%s), want %q", e.Message, e.Script, e.Name, c.message)
			}
			if place := fmt.Sprintf("%s:%d", e.Pos.File, e.Pos.Line); place != c.place {
				t.Errorf("place %s, want %s", place, c.place)
			}
			if got := stackOf(e); c.stack != "" && got != c.stack {
				t.Errorf("stack %s, want %s", got, c.stack)
			}
			if _, err := r.fire(""); err == nil {
				t.Error("the second call did not fail")
			}
		})
	}
}

// TestThrownValues: what a script throws, as Go sees it.
func TestThrownValues(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	e := r.expectError(`error({ message = "m", code = "C", name = "N" })`, "m")
	if e.Name != "N" || e.Code != "C" || runtime.CodeOf(e) != "C" || e.Value != nil {
		t.Errorf("%+v", e)
	}
	e = r.expectError(`error({ 1, 2 })`, "[1,2]")
	if runtime.Display(e.Value) != "[1,2]" {
		t.Errorf("value %v", e.Value)
	}
	e = r.expectError(`error("text", 0)`, "text")
	if e.Value != "text" {
		t.Errorf("value %v", e.Value)
	}
	e = r.expectError(`error(42)`, "42")
	if e.Value != int64(42) {
		t.Errorf("value %v", e.Value)
	}
	e = r.expectError(`error()`, "nil")
	if e.Value != nil {
		t.Errorf("value %v", e.Value)
	}
	e = r.expectError(`error(ev)`, "{}")
	if _, ok := e.Value.(*runtime.View); !ok {
		t.Errorf("value %T", e.Value)
	}
	r.expectError(`error(coroutine.create(print))`, "thread: 0x00000001")
	e = r.expectError(`error(setmetatable({ code = "C", n = 1 }, { __tostring = function(e) return "a.lua:7: made " .. e.n end }))`, "a.lua:1: test/serial: made 1")
	if e.Code != "C" || runtime.Display(e.Value) != `{"code":"C","n":1}` {
		t.Errorf("%+v", e)
	}
	r.expectError(`error(setmetatable({}, { __tostring = function() error("again") end }))`, "table: 0x")
	r.expectError(`error("bad \255 bytes")`, "bad \ufffd bytes")
}

// TestGoErrors: an error of Go's is printable, has its fields, and Go finds it again.
func TestGoErrors(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.expect(`local ok, e = pcall(ctx.rig.fail) give(ok, type(e), tostring(e), "got " .. e, e .. "!", e.message, e.name, e.code, e.nothing)`,
		`false userdata a.lua:1: rig.fail: the host is broken got a.lua:1: rig.fail: the host is broken a.lua:1: rig.fail: the host is broken! rig.fail: the host is broken Error null null`)
	r.expect(`local ok, e = pcall(ctx.rig.fail) give(e:match("host is (%w+)"), e:find("broken"), #e:upper(), string.sub(e, 1, 5), e)`,
		`broken 32 37 a.lua a.lua:1: rig.fail: the host is broken`)
	for _, body := range []string{
		`ctx.rig.fail()`,
		`local ok, e = pcall(ctx.rig.fail) error(e)`,
		`local ok, e = pcall(ctx.rig.fail) error(e, 2)`,
		`coroutine.wrap(function() ctx.rig.fail() end)()`,
		`local ok, e = coroutine.resume(coroutine.create(ctx.rig.fail)) error(e)`,
		`assert(pcall(ctx.rig.fail))`,
		`local ok, e = xpcall(ctx.rig.fail, function(e) return e end) error(e)`,
		`("x"):gsub("x", function() ctx.rig.fail() end)`,
		`table.sort({ 2, 1 }, function() ctx.rig.fail() end)`,
		`local t = setmetatable({}, { __index = function() ctx.rig.fail() end }) return t.x`,
	} {
		if e := r.expectError(body, "the host is broken"); !errors.Is(e, errBroken) {
			t.Errorf("%s: Go does not find its error in %v", body, e)
		}
	}
}

// TestInnerFailure: what next throws, passed on, stays the inner layer's.
func TestInnerFailure(t *testing.T) {
	for _, body := range []string{
		`return next()`,
		`local r = next() return r`,
		`local ok, e = pcall(next) error(e)`,
		`local ok, e = pcall(next) error(e, 0)`,
		`local co = coroutine.wrap(next) return co()`,
	} {
		r := newRig(t, runtime.Limits{})
		r.load("a.lua", `ctx.on('test/decide', function(ev, next) `+body+` end)`, "b.lua", "\nctx.on('test/decide', function() error('inner') end)")
		r.do(func() {
			_, err := bindingstest.Decide.Run(r.host, runtime.Target{}, bindingstest.Note{}, nil)
			var e *runtime.ScriptError
			if !errors.As(err, &e) || e.Script != "project/b.lua" || e.Pos.Line != 2 || e.Message != "inner" {
				t.Errorf("%s: %v", body, err)
			}
		})
	}
}

// TestPanics: a Go panic below Lua is told to the host even if the script holds it, and
// the VM goes on.
func TestPanics(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	r.expect(`local ok, e = pcall(ctx.rig.panic) give(ok, e.message) give(coroutine.resume(coroutine.create(ctx.rig.panic)))`,
		`false internal error: rig panics false a.lua:1: internal error: rig panics`)
	if f := r.failed(); len(f) != 2 || f[0].Instance == nil {
		t.Errorf("failures: %v", f)
	}
	r.expect(`give("fine")`, "fine")
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct{ script, want, source string }{
		{"local x = 1\nlocal y = = 2", "a.lua:2: syntax error near '='", "local y = = 2"},
		{"if x then", "a.lua:1: syntax error at the end of the file", "if x then"},
		{"local x = 1\n\nx.y.z = 1", "a.lua:3: attempt to index a number value with key 'y'", "x.y.z = 1"},
		{"\nerror('boom')", "a.lua:2: boom", "error('boom')"},
		{"\nctx.on('test/emti', print)", `a.lua:2: ctx.on: unknown event "test/emti" (did you mean "test/emit"?)`, "ctx.on('test/emti', print)"},
		{"goto nowhere", "a.lua:2: no visible label 'nowhere' for <goto> at line 1", ""},
		{strings.Repeat("local x = 1\n", 199) + "local f = function()\nend\nlocal y, z = 2\n", "a.lua:202: too many local variables in one function (200 at most); put some into a table or a do ... end block", "local y, z = 2"},
		{"x = 1\nlocal function f()\n" + strings.Repeat("local x = 1\n", 201) + "end", "a.lua:2: too many local variables in one function (200 at most); put some into a table or a do ... end block", "local function f()"},
		{"x = 1\nf(" + strings.Repeat("1,", 300) + "1)", "a.lua:2: an expression or a call has too many parts; split it", ""},
		{"local s = 'abc", "a.lua:1: unterminated string at the end of the file", "local s = 'abc"},
		{"x = [[\nabc", "a.lua:2: unterminated multiline string at the end of the file", "abc"},
		{"\n" + strings.Repeat("(", 300), "a.lua:2: brackets and blocks are nested more than 200 deep", ""},
		{"#!/usr/bin/lua\nx = = 1", "a.lua:2: syntax error near '='", "x = = 1"},
		{"\xef\xbb\xbfx = = 1", "a.lua:1: syntax error near '='", "x = = 1"},
		{"ctx.sleep(1)", "a.lua:1: ctx.sleep: not while loading", "ctx.sleep(1)"},
	} {
		r := newRig(t, runtime.Limits{})
		err := r.tryLoad("a.lua", c.script)
		var e *runtime.ScriptError
		if !errors.As(err, &e) || e.Error() != c.want || e.Script != "project/a.lua" {
			t.Errorf("%q: %v, want %s", c.script, err, c.want)
			continue
		}
		if c.source != "" && e.Source != c.source {
			t.Errorf("%q: source %q, want %q", c.script, e.Source, c.source)
		}
	}
	r := newRig(t, runtime.Limits{})
	r.load("a.lua", "#!/usr/bin/lua\nprint(ctx.rig.where())")
	if got := strings.Join(r.logs, "|"); got != "log a.lua:2" {
		t.Errorf("logs %s", got)
	}
}

// TestHonestNesting: what people write is not refused.
func TestHonestNesting(t *testing.T) {
	r := newRig(t, runtime.Limits{Sync: 120_000}) // of a machine that is busy
	var list, calls, chain strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&list, "{ id = %d, 'a', f = function(x) return x + %d end, -- (comment {[\n [[ (((( ]], \"((((\" },\n", i, i)
		fmt.Fprintf(&calls, "f(%d) f 'x' f { y = 1 } t.a.b:c()\n", i)
	}
	for i := range 150 {
		fmt.Fprintf(&chain, "'%d' .. ", i)
	}
	src := "local t = { a = { b = { c = function() end } } } local function f() end\n" + calls.String() +
		"local list = {" + list.String() + "}\nlocal s = " + chain.String() + "''\n" +
		"if not (not (- - -1 == #'x')) then elseif t then elseif f then else end\n" +
		"for i = 1, 3 do while true do repeat local x = 1 until x break end end\n" +
		"ctx.rig.give(#list, #s, list[7].f(1))"
	r.load("a.lua", src)
	if got := r.said(); got != "5000 340 7" {
		t.Errorf("gave %s", got)
	}
}
