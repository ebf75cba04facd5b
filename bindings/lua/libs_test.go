package lua_test

import (
	"testing"

	"dshsh/runtime"
)

// TestLibraries: what Lua's own libraries do, in their own words, where this package has
// replaced them.
func TestLibraries(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	for _, c := range []struct{ body, want string }{
		// order and names do not depend on the run
		{`local s = {} for _, lib in ipairs { string, os, json } do for k in pairs(lib) do s[#s + 1] = k end end give(table.concat(s, " "))`, `byte char find format gfind gmatch gsub len lower match rep reverse sub upper clock date difftime time array decode encode int object null`},
		{`local t = { z = 1, a = 2, [1.5] = 3, m = 4 } t.a = nil t.q = 5 t.a = 6 t[1] = 0 local s = "" for k in pairs(t) do s = s .. k .. " " end give(s)`, `1 z a 1.5 m q `},
		{`local t, f = {}, function() end give(tostring(t), tostring(f), tostring(t), tostring({}), ("%s"):format(f), tostring(coroutine.create(f)))`, `table: 0x00000001 function: 0x00000002 table: 0x00000001 table: 0x00000003 function: 0x00000002 thread: 0x00000004`},
		{`for i = 1, 1000 do tostring({}) end give(tostring({}))`, `table: 0x000003e9`},
		// tracebacks
		{"give(xpcall(function()\n local function f() error('deep') end\n f()\nend, debug.traceback))", "false a.lua:2: deep\nstack traceback:\n\ta.lua:2\n\ta.lua:3\n\ta.lua:1"},
		{`give(debug.traceback("here"), debug.traceback({ 1 })[1], (pcall(debug.traceback)))`, "here\nstack traceback:\n\ta.lua:1 1 true"},
		{`give(select(2, xpcall(ctx.rig.fail, debug.traceback)))`, "a.lua:1: rig.fail: the host is broken\nstack traceback:\n\ta.lua:1"},
		// patterns
		{`give(("hello world"):find("o w"))`, `5 7`},
		{`give(("hello"):find("l+"))`, `3 4`},
		{`give(("hello"):find("(l)(l)"))`, `3 4 l l`},
		{`give(("a.b"):find(".", 1, true)) give(("a.b"):find("%."))`, `2 2 2 2`},
		{`give(("abc"):find("b", -1), ("abc"):find("b", -2))`, `null 2 2`},
		{`give(("abc"):find("", 4), ("abc"):find("", 5))`, `4 null`},
		{`give(("key = value"):match("^(%w+)%s*=%s*(%w+)$"))`, `key value`},
		{`give(("THE (quick) fox"):match("%((%a+)%)"))`, `quick`},
		{`give(("x[[y]]z"):match("%b[]"))`, `[[y]]`},
		{`give(("THE (quick) fox"):gsub("%f[%a]%a+", "w"))`, `w (w) w 3`},
		{`give(("hello"):match("()ll()"))`, `3 5`},
		{`give(("aXb"):match("%u"), ("a]b"):match("[]]"), ("a^b"):match("[%^]"), ("a-b"):match("[a%-]+"))`, `X ] ^ a-`},
		{`give(("abab"):match("(ab)%1"))`, `ab`},
		{`give(("2031-02-03"):match("(%d+)-(%d+)-(%d+)"))`, `2031 02 03`},
		{`give(("a,b,,c"):gsub(",", ";"))`, `a;b;;c 3`},
		{`give(("hello"):gsub("", "-"))`, `-h-e-l-l-o- 6`},
		{`give(("abc"):gsub("%w", "%0%0", 2))`, `aabbc 2`},
		{`give(("abc"):gsub("(a)(b)", "%2%1"))`, `bac 1`},
		{`give(("$name is $age"):gsub("%$(%w+)", { name = "Lua", age = 38 }))`, `Lua is 38 2`},
		{`give(("abc"):gsub("%w", function(c) if c == "b" then return false end return c:upper() end))`, `AbC 3`},
		{`give(("abc"):gsub("^a", "x"), (("abc"):gsub("^b", "x")))`, `xbc abc`},
		{`give(("abc def"):gsub("%w*", "x"))`, `xx xx 4`},
		{`local out = {} for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do out[#out + 1] = k .. v end give(table.concat(out, " "))`, `a1 b2`},
		{`local n = 0 for _ in ("abc"):gmatch("") do n = n + 1 end give(n)`, `4`},
		{`give(("x"):rep(3), ("x"):rep(0), ("x"):rep(2, ","), ("x"):rep(-1))`, `xxx  x,x `},
		{`give(("hello"):sub(2, -2), ("hello"):sub(-3), ("hello"):sub(9), ("hello"):sub(0), ("hello"):sub(4, 2))`, `ell llo  hello `},
		{`give(("ABC"):byte(1, -1)) give(("ABC"):byte(), ("ABC"):byte(9), string.char(72, 105))`, `65 66 67 65 null Hi`},
		{`give(("Äb"):lower(), ("äb"):upper(), ("\255A"):lower():byte(1, -1))`, `äb ÄB 255 97`},
		{`give(("abc"):reverse(), ("abc"):len(), #"abc")`, `cba 3 3`},
		// format
		{`give(("%d %5d|%-5d|%05d"):format(1, 2, 3, 4))`, `1     2|3    |00004`},
		{`give(("%s %10s|%-4s|"):format("a", "b", "c"))`, `a          b|c   |`},
		{`give(("%.2f %g %e"):format(1.005, 1e20, 1500))`, `1.00 1e+20 1.500000e+03`},
		{`give(("%x %X %o %c %%"):format(255, 255, 8, 65))`, `ff FF 10 A %`},
		{`give(("%q"):format('a "b"\n\\'))`, "\"a \\\"b\\\"\\\n\\\\\""},
		{`give(("%s %s %s"):format(nil, true, setmetatable({}, { __tostring = function() return "me" end })))`, `nil true me`},
		{`give(("%5.1s|"):format("abc"))`, `    a|`},
		// tables
		{`give(table.concat({ 1, 2, 3 }, ", "), table.concat({}), table.concat({ "a", "b", "c" }, "-", 2, 3))`, `1, 2, 3  b-c`},
		{`local t = { 3, 1, 2 } table.sort(t) give(table.concat(t)) table.sort(t, function(a, b) return a > b end) give(table.concat(t))`, `123 321`},
		{`local t = { 1, 2 } table.insert(t, 3) table.insert(t, 1, 0) give(table.concat(t), table.remove(t), table.remove(t, 1), table.concat(t), table.remove({}))`, `0123 3 0 12 null`},
		{`give(unpack({ 1, 2, 3 }, 2)) give(table.unpack({ 1, nil, 3 }, 1, 3)) give(table.pack(1, nil).n, select("#", nil, nil), select(-1, 1, 2))`, `2 3 1 null 3 2 2 2`},
		{`give(table.getn({ 1, 2 }), table.maxn({ 1, [10] = 2 }))`, `2 10`},
		// numbers
		{`give(tonumber("10"), tonumber("0x1F"), tonumber("1e3"), tonumber(" 5.5 "), tonumber("ff", 16), tonumber("8", 8), tonumber("x"), tonumber(""), tonumber("inf"), tonumber("1_0"))`, `10 31 1000 5.5 255 null null null null null`},
		{`give(math.floor(-1.5), math.max(1, 3, 2), math.huge > 1e308, math.pi > 3.14, math.fmod(7, 3), 7 % -3)`, `-2 3 true true 1 -2`},
		{`math.randomseed(7) local a, b = math.random(), math.random(10) math.randomseed(7) give(a == math.random(), b == math.random(10), b >= 1 and b <= 10, math.random(5, 5))`, `true true true 5`},
		// base
		{`give(pcall(error, "x"))`, `false x`},
		{`give(pcall(error, { code = 1 }))`, `false {"code":1}`},
		{`give(pcall(function() error("x") end))`, `false a.lua:1: x`},
		{`give(pcall(function() error("x", 0) end))`, `false x`},
		{`local function f() error("x", 2) end give(pcall(function()` + "\n" + `f() end))`, `false a.lua:2: x`},
		{`give(pcall(nil)) give(pcall(setmetatable({}, { __call = function(_, x) return x end }), 5))`, `false attempt to call a nil value true 5`},
		{`give(xpcall(function() error("x", 0) end, function(e) return "<" .. e .. ">" end))`, `false <x>`},
		{`give(xpcall(function(...) return ... end, print, 1, 2))`, `true 1 2`},
		{`give(xpcall(function() error("x", 0) end, function(e) error("y", 0) end))`, `false y`},
		{`give(pcall(function(...) return select("#", ...), ... end, 1, nil, nil))`, `true 3 1 null null`},
		{`give(pcall(assert, false, "m")) give(pcall(assert, nil)) give(pcall(assert, false, { 1 })) give(assert(1, 2))`, `false m false a.lua:1: assertion failed! false [1] 1 2`},
		{`local n, f = 0 f = function() n = n + 1 error("x") end pcall(f) pcall(f) give(n)`, `2`},
		{`local g xpcall(function() local q = 5 g = function() q = q + 1 return q end error("x") end, function(e) return e end) local function junk() local a, b, c = 9, 9, 9 return a end junk() give(g(), g())`, `6 7`},
		{`give(load("return 1 + 1")(), loadstring("return ...", "name")(7))`, `2 7`},
		{`local parts = { "return ", "4", "2" } local i = 0 give(load(function() i = i + 1 return parts[i] end)())`, `42`},
		{`give(load("x ="))`, `null [load]:1: syntax error at the end of the file`},
		{`give(load("\27Lua"))`, `null [load]: compiled Lua code is not taken; give the source text`},
		{`give(load("error('x')", "=my"))() `, ``},
		{`give(type(next), next({}), next({ 7 }))`, `function null 1 7`},
		{`local s = 0 for i, v in ipairs({ 1, 2, nil, 4 }) do s = s + v end for k, v in pairs({ 10, x = 20 }) do s = s + v end give(s)`, `33`},
		{`give(rawequal(ctx, ctx), rawget({ 5 }, 1), rawset({}, 1, 2)[1], collectgarbage("count"), _VERSION)`, `true 5 2 0 Lua 5.1`},
		{`give(tostring(nil), tostring(1.5), tostring(10), tostring(true), tostring(json.null))`, `nil 1.5 10 true null`},
		// os
		{`give(os.time(), os.clock(), os.date("%Y-%m-%d %H:%M:%S"), os.date("!*t").year, os.time({ year = 2031, month = 2, day = 3, hour = 4, min = 5, sec = 6 }))`, `1927857906 0 2031-02-03 04:05:06 2031 1927857906`},
		{`give(os.date("%c", 0), os.date("%j %w %x", 86400), os.difftime(5, 3))`, `Thu Jan  1 00:00:00 1970 002 5 01/02/70 2`},
		// what is not there
		{`local n = 0 for _, k in ipairs { "io", "package", "module", "newproxy", "dofile", "loadfile", "channel", "_printregs", "getfenv", "setfenv" } do if _G[k] ~= nil then give(k) end end give(os.execute, os.exit, os.getenv, os.remove, string.dump, debug.getinfo)`, `null null null null null null`},
	} {
		if c.want == "" {
			continue
		}
		r.expect(c.body, c.want)
	}
}

// TestLibraryErrors: misuse is an error with its place.
func TestLibraryErrors(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	for _, c := range []struct{ body, want string }{
		{`("x"):rep(2 ^ 45)`, "string.rep: the result would be larger than 64 MiB"},
		{`("x"):find("[a")`, "malformed pattern (missing ']')"},
		{`("x"):find("%")`, "malformed pattern (ends with '%')"},
		{`("x"):find("(x")`, "unfinished capture"},
		{`("x"):match("x)")`, "invalid pattern capture"},
		{`("x"):gsub("x", "%2")`, "invalid capture index"},
		{`("x"):match("%f")`, "missing '['"},
		{`("x"):gsub("x", function() return {} end)`, "invalid replacement value (a table)"},
		{`("x"):gsub("x", true)`, "string, function or table expected"},
		{`("%d"):format("x")`, "number expected"},
		{`("%d"):format()`, "no value"},
		{`("%y"):format(1)`, "invalid directive '%y'"},
		{`("%123d"):format(1)`, "invalid directive"},
		{`("%*d"):format(1)`, "invalid directive"},
		{`string.char(256)`, "value out of range"},
		{`string.len(nil)`, "string expected, got nil"},
		{`table.concat({ {} })`, "table.concat: invalid value (table) at index 1"},
		{`table.insert({}, 5, 1)`, "table.insert: position 5 is outside of 1 to 1"},
		{`table.sort({ 1, "x" })`, "attempt to compare"},
		{`unpack({}, 1, 1e9)`, "unpack: more than 131072 values"},
		{`math.random(0)`, "interval is empty"},
		{`setmetatable(ctx, {})`, "table expected, got userdata"},
		{`local x; x.y.z = 1`, "attempt to index a nil value with key 'y'"},
		{`ctx.log = 1`, "cannot set field 'log' of ctx: it is read-only"},
		{`os.time({ year = 1 })`, "os.time: field 'month' is missing"},
		{`text.split("a", "")`, "the separator is empty"},
		{`text.find("a", "(")`, "error parsing regexp"},
		{`require("x")`, "this script has no folder to require from"},
	} {
		e := r.expectError(c.body, c.want)
		if e.Pos.File != "a.lua" || e.Pos.Line != 1 {
			t.Errorf("%s: blamed on %s:%d", c.body, e.Pos.File, e.Pos.Line)
		}
	}
}

func TestText(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	for _, c := range []struct{ body, want string }{
		{`give(text.split("a,b,,c", ","), text.split("", ","), #text.split("abc", "x"))`, `["a","b","","c"] [""] 1`},
		{`give(text.lines("a\r\nb\n\nc\n"), text.lines(""), text.lines("\n"))`, `["a","b","","c"] [] []`},
		{`give(text.trim("  a "), text.contains("abc", "b"), text.startswith("abc", "ab"), text.endswith("abc", "bc"))`, `a true true true`},
		{`give(text.find("foo bar", "o+")) give(text.find("foo bar", "(b)(a)", 4)) give(text.find("x", "y"))`, `2 3 5 6 b a null`},
		{`give(text.match("k=v", "(\\w)=(\\w)")) give(text.match("abc", "b.")) give(text.match("ac", "a(b)?c"))`, `k v bc null`},
		{`give(text.findall("a1b22", "\\d+"), text.findall("a1b22", "\\d+", 1), text.findall("x", "y"))`, `["1","22"] ["1"] []`},
		{`give(text.replace("a-b", "(\\w)-(\\w)", "$2-$1")) give(text.replace("abc", "b", function(m) return m:upper() end)) give(text.replace("abc", "[bc]", function(m) if m == "c" then return false end return "" end))`, `b-a 1 aBc 1 ac 2`},
		{`give(text.utf8("a\255b"))`, "a\ufffdb"},
	} {
		r.expect(c.body, c.want)
	}
}

func TestJSON(t *testing.T) {
	r := newRig(t, runtime.Limits{})
	for _, c := range []struct{ body, want string }{
		{`give(json.encode({ b = 1, a = { 1, 2.5, "x", true } }))`, `{"a":[1,2.5,"x",true],"b":1}`},
		{`give(json.encode({}), json.encode(json.array {}), json.encode(json.object {}), json.encode(json.null), json.encode("<é\n>"))`, `{} [] {} null "<é\n>"`},
		{`give(json.encode(json.decode('{"a":[],"b":{},"c":[1,null,3]}')))`, `{"a":[],"b":{},"c":[1,null,3]}`},
		{`give(json.encode(json.decode('[12345678901234567890,10,1e3,0.5,9007199254740993]')))`, `[12345678901234567890,10,1000,0.5,9007199254740993]`},
		{`local t = json.decode('{"n":12345678901234567890}') give(tostring(t.n), t.n + 0 > 1e18, t.n == json.int("12345678901234567890"), t.n .. "")`, `12345678901234567890 true true 12345678901234567890`},
		{`give(json.int("5") == 5, json.encode(json.int("-99999999999999999999")))`, `true -99999999999999999999`},
		{`local t = json.decode('[]') t[1] = "x" give(json.encode(t)) t[1] = nil give(json.encode(t))`, `["x"] []`},
		{`local t = json.decode('{"a":null}') give(t.a == json.null, t.b == nil, json.encode(t))`, `true true {"a":null}`},
		{`give(json.decode('"\\u00e9\\ud83d\\ude00\\n"'), json.decode(" [ ] "), json.decode("true"), json.decode("-1.5e-2"))`, "é😀\n [] true -0.015"},
		{`give(pcall(json.decode, '{"a":1,}'))`, `false a.lua:1: json.decode: line 1 column 8: a name in quotes should be here`},
		{`give(pcall(json.decode, '[1 2]'))`, `false a.lua:1: json.decode: line 1 column 4: a ',' or ']' should be here`},
		{`give(pcall(json.decode, '[1'))`, `false a.lua:1: json.decode: line 1 column 3: the text ends inside a list or an object`},
		{`give(pcall(json.decode, "\n x"))`, `false a.lua:1: json.decode: line 2 column 2: no value begins with 'x'`},
		{`give(pcall(json.decode, "01"))`, `false a.lua:1: json.decode: line 1 column 1: invalid number "01"`},
		{`give(pcall(json.decode, '"\\x"'))`, `false a.lua:1: json.decode: line 1 column 1: invalid escape in a string`},
		{`give(pcall(json.decode, '"\255"'))`, `false a.lua:1: json.decode: line 1 column 1: invalid UTF-8 in a string (text.utf8 mends it)`},
		{`give(pcall(json.decode, '1 2'))`, `false a.lua:1: json.decode: line 1 column 3: text after the value`},
		{`give(pcall(json.decode, ("["):rep(300)))`, `false a.lua:1: json.decode: line 1 column 202: nested more than 200 deep`},
		{`give(pcall(json.encode, { 1, nil, 3 }))`, `false a.lua:1: json.encode: value: the list has a hole at [2]; put json.null there`},
		{`give(pcall(json.encode, { x = { 1, 2, a = 3 } }))`, `false a.lua:1: json.encode: value.x: the table has both list items and named fields`},
		{`give(pcall(json.encode, { [10] = 1 }))`, `false a.lua:1: json.encode: value: the list has a hole at [1]; put json.null there`},
		{`give(pcall(json.encode, { [2 ^ 30] = 1 }))`, `false a.lua:1: json.encode: value: the list has a hole before [1073741824]; put json.null there`},
		{`give(pcall(json.encode, { [true] = 1 }))`, `false a.lua:1: json.encode: value: a boolean cannot be a key`},
		{`give(pcall(json.encode, { a = { "\255" } }))`, `false a.lua:1: json.encode: value.a[1]: a string with invalid UTF-8 cannot leave the script (text.utf8 mends it)`},
		{`give(pcall(json.encode, { a = print }))`, `false a.lua:1: json.encode: value.a: a function is not a JSON value`},
		{`local t = {} t.t = t give(pcall(json.encode, t))`, `false a.lua:1: json.encode: value.t: a value that contains itself is not a JSON value`},
		{`give(pcall(json.encode, { co = coroutine.create(print) }))`, `false a.lua:1: json.encode: value.co: a thread cannot leave the script`},
		{`give(pcall(json.int, "1.5"))`, `false a.lua:1: json.int: '1.5' is not a whole number`},
	} {
		r.expect(c.body, c.want)
	}
}
