package lua_test

import (
	"strings"
	"testing"

	"dshsh/bindings/bindingstest"
	"dshsh/runtime"
)

// big runs test/serial with a long text.
func (r *rig) big(text string) (string, error) {
	var out string
	var err error
	r.do(func() {
		r.given = nil
		err = bindingstest.Serial.Run(r.host, runtime.Target{}, bindingstest.Note{Text: text})
		out = r.said()
	})
	return out, err
}

// TestR016: a pattern on a 20 MB text ends the script's call at worst, never the process.
func TestR016(t *testing.T) {
	r := newRig(t, runtime.Limits{Sync: 60_000})
	r.load("a.lua", `ctx.on('test/serial', function(ev)
  ctx.rig.give(#ev.text, ev.text:match('^(.-)ZZ$'), (ev.text:find('%s+ZZ$')))
end)`)
	if out, err := r.big(strings.Repeat("0123456 8\n", 2<<20)); err != nil || out != "20971520 null null" {
		t.Errorf("%s, %v", out, err)
	}
}

// TestR024: every line of a 3 MB text is collected, joined and unpacked; what does not
// fit is a clean error, and the next call works.
func TestR024(t *testing.T) {
	r := newRig(t, runtime.Limits{Sync: 60_000})
	r.load("a.lua", `ctx.on('test/serial', function(ev)
  local give = ctx.rig.give
  local lines = {}
  for line in ev.text:gmatch('[^\n]+') do lines[#lines + 1] = line end
  local joined = table.concat(lines, '\n')
  give(#lines, #joined, #text.lines(ev.text))
  local bytes = { pcall(string.byte, ev.text, 1, -1) }
  give(#bytes > 2 or bytes[2])
  local ok, e = pcall(function() return select('#', unpack(lines)) end)
  give(ok, e)
  local ok, e = pcall(function() return (('x'):rep(10):gsub('x', function(...) return unpack(lines) end)) end)
  give(ok, ok and #e or e)
end)`)
	for range 2 {
		out, err := r.big(strings.Repeat("a line of thirty characters...\n", 100_000))
		if want := "100000 3099999 100000 a.lua:7: string.byte: more than 131072 values true 100000 true 300"; err != nil || out != want {
			t.Errorf("got  %s, %v\nwant %s", out, err, want)
		}
		out, err = r.big(strings.Repeat("x\n", 200_000))
		if want := "200000 399999 200000 a.lua:7: string.byte: more than 131072 values false a.lua:9: unpack: more than 131072 values false a.lua:11: unpack: more than 131072 values"; err != nil || out != want {
			t.Errorf("got  %s, %v\nwant %s", out, err, want)
		}
	}
}

// TestR022: misuse is a script error with a traceback, and the next call works.
func TestR022(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	for _, body := range []string{
		`ctx.rig.nothing()`, `ctx.rig:nothing(1)`, `ev.text.x.y = 1`, `ev.text()`, `(nil)()`, `ctx.on()`, `ctx.on(1, 2, 3, 4, 5)`, `ctx.sleep("x")`,
		`ctx.sleep({})`, `ctx.after(1)`, `ctx.after(nil, nil)`, `ctx.spawn(ctx)`, `ctx.effect(5)`, `ctx()`, `ctx.rig()`, `ev()`, `return ev + 1`, `return ev < ev`, `return #ctx`,
		`return ev .. "x"`, `return ctx .. ctx`, `ev.text = nil`, `ctx[nil] = 1`, `json.null.x = 1`, `return json.null.x`, `error(ctx)`, `error(json.null)`, `ctx.log(coroutine.create(print))`,
		`getmetatable(ev).__index = nil`, `string.rep()`, `("x"):rep({})`, `ipairs()`, `pairs(nil)`, `next({}, {})`, `setmetatable({}, 1)`, `rawset({}, nil, 1)`, `table.insert()`,
		`for i = 1, "x" do end`, `for i = 1, 10, "x" do end`, `local t = {} t[nil] = 1`, `local t = {} t[0 / 0] = 1`, `tonumber()`, `tostring()`, `type()`, `select(0)`, `unpack()`, `coroutine.wrap()`, `coroutine.resume(1)`,
	} {
		if strings.HasPrefix(body, "return #ctx") || strings.HasPrefix(body, "next({}, {})") || strings.HasPrefix(body, "error(json.null)") {
			if _, err := r.eval(body); err != nil {
				t.Logf("%s: %v", body, err)
			}
			continue
		}
		e := r.expectError("\n"+body, "")
		if e.Pos.Line != 2 || len(e.Stack) == 0 || e.Message == "" {
			t.Errorf("%s: %q at line %d, stack %v", body, e.Message, e.Pos.Line, e.Stack)
		}
	}
	r.expect(`give("fine")`, "fine")
	if f := r.failed(); len(f) > 0 {
		t.Errorf("the host failed: %v", f)
	}
}

// TestRandom: the numbers follow from the host's clock and the script's name.
func TestRandom(t *testing.T) {
	draw := func(name string) string {
		r := newRig(t, runtime.Limits{})
		r.load(name, `for i = 1, 5 do ctx.rig.give(math.random(1000)) end`)
		return r.said()
	}
	if a, b, c := draw("a.lua"), draw("a.lua"), draw("b.lua"); a != b || a == c {
		t.Errorf("a %s, again %s, another script %s", a, b, c)
	}
}
