package lua_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/lua"
	"dshsh/runtime"
)

// FuzzPattern: whatever the pattern, the search ends, with a result or an error of the
// script, and never with a fault of the host.
func FuzzPattern(f *testing.F) {
	for _, p := range []string{"", "^", "$", "%", "[", "[]", "[^", "[^]", "[a-]", "[%]", "%f", "%f[", "%b", "%bx", "%b()", "()", "(", ")", "(()", "%1", "(a)%1", "(%1)", ".-", ".*$", "a-b", "%z", "[%a-z]", "^^", "[^%s]+", "%d?-", "(((", "x-%f[%a]"} {
		f.Add(p, "a (b) xx\x00 12")
	}
	r := newRig(f, runtime.Limits{})
	r.load("a.lua", `local i = 0 ctx.on('test/serial', function(ev)
  local p, s = ev.list[1], ev.list[2]
  for _, fn in ipairs { string.find, string.match } do for init = -1, 3 do pcall(fn, s, p, init) end end
  pcall(string.gsub, s, p, '<%0>') pcall(string.gsub, s, p, '%1') pcall(string.gsub, s, p, {}) pcall(string.gsub, s, p, function(...) return select('#', ...) end)
  pcall(function() for a in s:gmatch(p) do end end)
  pcall(string.format, p, s, 1, 2) pcall(json.decode, p) pcall(tonumber, p) pcall(os.date, p)
end)`)
	f.Fuzz(func(t *testing.T, p, s string) {
		derr := r.host.Do(context.Background(), func() {
			if err := bindingstest.Serial.Run(r.host, runtime.Target{}, bindingstest.Note{List: []string{p, s}}); err != nil {
				t.Errorf("%q on %q: %v", p, s, err)
			}
		})
		if derr != nil {
			t.Fatal(derr)
		}
		if fs := r.failed(); len(fs) > 0 {
			t.Fatalf("%q on %q: the host failed: %v", p, s, fs[0].Err)
		}
	})
}

// FuzzCompile: whatever the text, it compiles or is a script error.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{"", "x", "return", "local x <const>", "[[", "--[[", "--[==[ ]=]", "\"\\", "'\\\n'", "0x", "1e", "1..2", "a.b:c'd'{}", "goto x", "::x::", "function", "for i=", "if x then elseif", "#", "#!\n", "~", "\x00", "\xff"} {
		f.Add(s)
	}
	e := lua.Engine()
	f.Fuzz(func(t *testing.T, s string) {
		_, err := e.Compile(runtime.Source{ID: "project/a.lua", File: "a.lua", Code: []byte(s)})
		var se *runtime.ScriptError
		if err != nil && (!errors.As(err, &se) || se.Script != "project/a.lua" || strings.Contains(se.Message, "cannot be compiled")) {
			t.Errorf("%q: %v", s, err)
		}
	})
}
