package lua_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/lua"
	"dshsh/runtime"
)

// dangers are scripts that compute without end, or would take the process with them. Each
// runs in a child process, which must come back in time with an error of the script (or,
// where it says so, none), and in which the next call must work.
var dangers = []struct {
	name, body string
	want       string // in the error's text, one of A|B; "" = the deadline; "-" = it may also succeed
}{
	{"loop", `while true do end`, ""},
	{"repeat loop", `repeat until false`, ""},
	{"goto loop", `::again:: goto again`, ""},
	{"for loop", `for i = 1, math.huge do end`, ""},
	{"for loop without a step", `for i = 1, 2, 0 do end`, "-"},
	{"iterator loop", `for _ in function() return 1 end do end`, ""},
	{"gmatch body", `for _ in ("x"):gmatch(".") do while true do end end`, ""},
	{"tail call", `local function f() return f() end f()`, ""},
	{"tail call returned", `local function f() return f() end return f()`, ""},
	{"tail calls by turns", `local f, g f = function() return g() end g = function() return f() end f()`, ""},
	{"tail call with variables", `local function f(x) local g = function() return x end return f(g) end f()`, ""},
	{"tail call with varargs", `local function f(...) return f(...) end f(1, 2, 3)`, ""},
	{"tail call that grows", `local function f(...) return f(1, ...) end f()`, ""},
	{"tail call held", `local function f() return f() end while true do pcall(f) end`, ""},
	{"tail pcall recursion", `local function f() return pcall(f) end f()`, "-"},
	{"tail call of a table", `local t = setmetatable({}, { __call = function(self) return self() end }) t()`, ""},
	{"tail call method", `local t = {} function t:f() return self:f() end t:f()`, ""},
	{"tail call in a coroutine", `coroutine.wrap(function() local function f() return f() end f() end)()`, ""},
	{"tail call as a coroutine", `local function f() return f() end coroutine.wrap(f)()`, ""},
	{"tail calls that end", `local function f(n) if n == 0 then return "end" end return f(n - 1) end error(f(3e6))`, "end"},
	{"tail calls that fail", `local function f(n) if n == 0 then error("end") end return f(n - 1) end local x = f(3e6)`, "end"},
	{"tail calls that fail in a coroutine", `local function f(n) if n == 0 then error("end") end return f(n - 1) end local x = coroutine.wrap(function() local x = f(3e6) end)()`, "end"},
	{"tail calls with a level", `local function f(n) if n == 0 then error("end", 2) end return f(n - 1) end local x = f(3e6)`, "end"},
	{"tail calls into Go", `local function f(n) if n == 0 then return string.rep("x", -1, {}) end return f(n - 1) end f(3e6)`, "bad argument #3 to rep"},
	{"call chain", `local t = setmetatable({}, {}) getmetatable(t).__call = t t()`, "attempt to call"},
	{"call chain long", `local f = function() while true do end end for i = 1, 100 do local g = f f = setmetatable({}, { __call = function(_, ...) return g(...) end }) end f()`, ""},
	{"index function", `setmetatable({}, { __index = function() while true do end end }).x = nil return setmetatable({}, { __index = function() while true do end end }).x`, ""},
	{"index pair", `local a, b = {}, {} setmetatable(a, { __index = b }) setmetatable(b, { __index = a }) return a.x`, "too many recursions"},
	{"newindex pair", `local a, b = {}, {} setmetatable(a, { __newindex = b }) setmetatable(b, { __newindex = a }) a.x = 1`, "too many recursions"},
	{"newindex loop", `setmetatable({}, { __newindex = function() while true do end end }).x = 1`, ""},
	{"eq loop", `local m = { __eq = function() while true do end end } return setmetatable({}, m) == setmetatable({}, m)`, ""},
	{"lt loop", `local m = { __lt = function() while true do end end } return setmetatable({}, m) < setmetatable({}, m)`, ""},
	{"le loop", `local m = { __le = function() while true do end end } return setmetatable({}, m) <= setmetatable({}, m)`, ""},
	{"concat loop", `return setmetatable({}, { __concat = function() while true do end end }) .. "x"`, ""},
	{"len loop", `return #setmetatable({}, { __len = function() while true do end end })`, ""},
	{"unm loop", `return -setmetatable({}, { __unm = function() while true do end end })`, ""},
	{"add loop", `return 1 + setmetatable({}, { __add = function() while true do end end })`, ""},
	{"gc loop", `for i = 1, 1e5 do setmetatable({}, { __gc = function() while true do end end }) end`, "-"},
	{"tostring loop", `print(setmetatable({}, { __tostring = function() while true do end end }))`, ""},
	{"format loop", `return ("%s"):format(setmetatable({}, { __tostring = function() while true do end end }))`, ""},
	{"sort metamethod", `local m = { __lt = function() while true do end end } table.sort({ setmetatable({}, m), setmetatable({}, m) })`, ""},
	{"gsub table", `return (("x"):gsub("x", setmetatable({}, { __index = function() while true do end end })))`, ""},
	{"replace callback", `text.replace("x", "x", function() while true do end end)`, ""},
	{"error handler by turns", `local function h() error("x") end while true do xpcall(h, h) end`, ""},
	{"handler recursion", `local function h() xpcall(error, h) end xpcall(error, h)`, "-"},
	{"coroutine per turn", `while true do coroutine.wrap(function() end)() end`, ""},
	{"coroutine resumes itself", `local co co = coroutine.create(function() coroutine.resume(co) while true do end end) coroutine.resume(co)`, ""},
	{"queue of names", `local t = {} for i = 1, 1e5 do t["k" .. i] = i end while true do local k = next(t) if not k then break end t[k] = nil end`, "-"},
	{"length of a hollow list", `local t = {} t[1e6] = 1 t[1e6] = nil while true do local n = #t end`, ""},
	{"pcall loop", `while true do pcall(function() while true do end end) end`, ""},
	{"tail pcall", `return pcall(function() while true do end end)`, ""},
	{"xpcall handler", `while true do xpcall(function() while true do end end, function() while true do end end) end`, ""},
	{"nested pcall", `local function f(n) if n == 0 then while true do end end return pcall(f, n - 1) end f(100) while true do end`, ""},
	{"recursive pcall", `local function f() pcall(f) f() end f()`, ""},
	{"recursion", `local function f() return 1 + f() end f()`, "stack overflow"},
	{"recursion held", `local function f() return 1 + f() end while true do pcall(f) end`, ""},
	{"metamethod recursion", `local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k .. "x"] end return t.x`, "stack overflow"},
	{"tostring recursion", `local t = setmetatable({}, {}) getmetatable(t).__tostring = tostring return tostring(t)`, "stack overflow"},
	{"gsub callback", `(("x"):rep(100)):gsub(".", function() while true do pcall(error) end end)`, ""},
	{"gsub recursion", `local function f() return (("x"):gsub("x", f)) end f()`, "stack overflow"},
	{"sort callback", `table.sort({ 3, 2, 1 }, function() while true do end end)`, ""},
	{"sort lies", `local t = {} for i = 1, 20000 do t[i] = i % 7 end while true do table.sort(t, function() return true end) end`, ""},
	{"sort big", `local t = {} for i = 1, 2e6 do t[i] = (i * 7919) % 1000003 end table.sort(t)`, "-"},
	{"coroutine loop", `while true do coroutine.wrap(function() while true do coroutine.yield() end end)() end`, ""},
	{"coroutine body", `coroutine.wrap(function() while true do end end)()`, ""},
	{"coroutine made before", `co() `, ""},
	{"coroutine held", `while true do coroutine.resume(coroutine.create(function() while true do end end)) end`, ""},
	{"coroutine recursion", `local function f() return coroutine.wrap(f)() end f()`, "stack overflow"},
	{"coroutine recursion held", `local function f() coroutine.resume(coroutine.create(f)) f() end f()`, ""},
	{"coroutines dropped", `local n = 0 while n < 20000 do n = n + 1 local co = coroutine.create(function() coroutine.yield() end) coroutine.resume(co) end`, "-"},
	{"pattern", `return (("a"):rep(3000)):find(".-.-.-.-b")`, "too many steps"},
	{"pattern held", `while true do pcall(string.find, ("a"):rep(3000), ".-.-.-.-b") end`, ""},
	{"pattern deep", `return ("x"):find(("(x?"):rep(300))`, "too"},
	{"pattern items", `return (("a"):rep(30)):find(("a?"):rep(3000) .. "b")`, "too"},
	{"pattern set", `return (("a"):rep(2e6)):find("[" .. ("b"):rep(1e5) .. "]")`, "too many steps"},
	{"gsub growth", `local s = ("x"):rep(1e6) return (s:gsub("x", ("y"):rep(1000)))`, "larger than 64 MiB|memory limit exceeded"},
	{"rep", `return ("x"):rep(2 ^ 31)`, "larger than"},
	{"rep huge", `return ("x"):rep(2 ^ 45)`, "larger than"},
	{"rep separator", `return (""):rep(2 ^ 40, "xxxxxxxx")`, "larger than"},
	{"format wide", `return ("%1000000000d"):format(1)`, "invalid directive"},
	{"huge index", `local t = {} t[67108863] = 1 t[1e15] = 2 t[2 ^ 62] = 3 return nil`, "-"},
	{"largest array", `local t = {} t[1048575] = 1 return nil`, "-"},
	{"insert far", `table.insert({}, 2 ^ 30, 1)`, "outside of"},
	{"concat range", `return table.concat({}, "x", 1, 2 ^ 40)`, "invalid value (nil)"},
	{"unpack", `return unpack({}, 1, 2 ^ 40)`, "more than"},
	{"unpack many", `local t = {} for i = 1, 100000 do t[i] = i end local function f(...) return select("#", ...) end f(unpack(t))`, "-"},
	{"unpack too many", `local t = {} for i = 1, 131072 do t[i] = i end local function f(...) return select("#", ...) end f(unpack(t))`, "registry overflow"},
	{"unpack nested", `local t = {} for i = 1, 60000 do t[i] = i end local function f(...) return f(unpack(t)) + f(unpack(t)) end f()`, "-"},
	{"byte", `return (("x"):rep(1e6)):byte(1, -1)`, "more than"},
	{"load deep", `local f, e = load("return " .. ("{"):rep(3e5)) error(e)`, "nested more than 200 deep"},
	{"load long", `local f, e = load(("x"):rep(3e6)) error(e)`, "larger than 1 MiB"},
	{"load chain", `local f, e = load("return " .. ("1+"):rep(2e5) .. "1") error(e)`, "more than 2000 operators"},
	{"load elseif", `local f, e = load("if a then " .. ("elseif a then "):rep(5e4) .. "end") error(e)`, "more than 2000 operators"},
	{"load calls", `local f, e = load("f" .. ("()"):rep(3e5)) error(e)`, "more than 2000 operators"},
	{"load reader", `load(function() return " " end)`, "-"},
	{"load reader loop", `load(function() while true do end end)`, ""},
	{"json deep", `return json.decode(("["):rep(5e6))`, "nested more than 200 deep"},
	{"json wide", `return #json.decode("[" .. ("1,"):rep(5e6) .. "1]")`, "-"},
	{"encode deep", `local t = {} for i = 1, 1e5 do t = { t } end return json.encode(t)`, "nested more than 200 deep"},
	{"encode wide", `local t = {} for i = 1, 1e6 - 1 do t[i] = i end return #json.encode(t)`, "-"},
	{"encode shared", `local t = {} for i = 1, 60 do t = { t, t } end return json.encode(t)`, "more than 2097152 members"},
	{"replace growth", `return (text.replace(("x"):rep(1e6), "x", ("y"):rep(1000)))`, "larger than 64 MiB|memory limit exceeded"},
	{"split pieces", `return #text.split(("x"):rep(2e6), "x")`, "more than 1048575 pieces"},
	{"regexp long", `text.find(("x"):rep(6e7), "(x?x?x?x?x?x?x?x?x?x?){30}y")`, ""},
	{"regexp long held", `local s = ("x"):rep(1e6) while true do pcall(text.find, s, "(x?x?x?x?x?x?x?x?x?x?){30}y") end`, ""},
	{"replace many", `text.replace(("x"):rep(6e7), "x", "y")`, "more than 1048575 matches"},
	{"findall many", `text.findall(("x"):rep(6e7), "x")`, "more than 1048575 pieces"},
	{"regexp", `return text.find("x", "(((((x{100}){100}){100}){100}){100})")`, "error parsing regexp"},
	{"index loop", `local t = {} setmetatable(t, { __index = t }) return t.x`, "too many recursions"},
	{"next after change", `local t = { a = 1 } for k in pairs(t) do t[k .. "x"] = 1 end`, "-"},
	{"error value loops", `local e = setmetatable({}, {}) getmetatable(e).__tostring = function() while true do end end error(e)`, ""},
	{"error value throws", `local e = setmetatable({}, {}) getmetatable(e).__tostring = function() error(e) end error(e)`, "table: 0x"},
	{"concat doubling", `local s = "x" while #s < 2 ^ 26 do s = s .. s end return #s`, "-"},
	{"concat for ever", `local s = "x" while true do s = s .. s end`, "memory limit exceeded"},
	{"table for ever", `local t = {} while true do t[#t + 1] = ("x"):rep(1000) .. #t end`, "memory limit exceeded"},
	{"coroutines for ever", `local t = {} while true do local co = coroutine.create(function() coroutine.yield() end) coroutine.resume(co) t[#t + 1] = co end`, "memory limit exceeded"},
	{"metamethods in pcalls", `local function f() local t t = setmetatable({}, { __index = function(_, k) if k == 0 then return select(2, pcall(f)) end return t[k - 1] end }) return t[100] end error(f())`, "stack overflow"},
	{"setfenv gone", `setfenv(0, {})`, "attempt to call"},
	{"globals gone", `for k in pairs(_G) do _G[k] = nil end error("bare", 0)`, "attempt to"},
	{"string gone", `string.find = nil getmetatable("").__index = nil return ("x"):find("x")`, "attempt to"},
}

func TestMain(m *testing.M) {
	if name := os.Getenv("LUA_DANGER"); name != "" {
		os.Exit(danger(name))
	}
	goleak.VerifyTestMain(m)
}

// danger runs one case in this process: 0 when all is well.
func danger(name string) int {
	for _, d := range dangers {
		if d.name != name {
			continue
		}
		if err := runDanger(d.body, d.want); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	fmt.Println("no such case")
	return 1
}

func runDanger(body, want string) error {
	e := lua.Engine()
	limits := runtime.Limits{Sync: 500}
	if want != "" && want != "-" {
		limits.Sync = 240_000 // it must end by itself, on a busy machine too
	}
	h := bindingstest.NewHost(e, limits, nil)
	defer h.Close()
	var problem error
	script := "co = coroutine.wrap(function() coroutine.yield() while true do end end) co() ctx.on('test/serial', function(ev)\nif ev.text == 'fine' then return end\n" + body + "\nend)"
	err := h.Do(context.Background(), func() {
		if problem = bindingstest.Load(h, e, "a.lua", script); problem != nil {
			return
		}
		err := bindingstest.Serial.Run(h, runtime.Target{Limit: 5 * time.Minute}, bindingstest.Note{Text: "go"})
		switch {
		case want == "" && !errors.Is(err, runtime.ErrDeadline):
			problem = fmt.Errorf("error %v, want the deadline", err)
		case want == "-" && err != nil && !errors.Is(err, runtime.ErrDeadline):
			problem = fmt.Errorf("error %v, want none", err)
		case want != "" && want != "-" && !saysOne(err, want):
			problem = fmt.Errorf("error %.300v, want %q", err, want)
		}
		if problem != nil {
			return
		}
		if err := bindingstest.Serial.Run(h, runtime.Target{}, bindingstest.Note{Text: "fine"}); err != nil {
			problem = fmt.Errorf("the next call: %w", err)
		}
	})
	return errors.Join(problem, err)
}

// saysOne says whether an error's text has one of the wanted parts.
func saysOne(err error, want string) bool {
	for part := range strings.SplitSeq(want, "|") {
		if err != nil && strings.Contains(err.Error(), part) {
			return true
		}
	}
	return false
}

func TestDangers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dangers {
		t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // of a machine that is busy
			defer cancel()
			cmd := exec.CommandContext(ctx, self)
			cmd.Env = append(os.Environ(), "LUA_DANGER="+d.name, "GOMEMLIMIT=1GiB")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			start := time.Now()
			if err := cmd.Run(); err != nil {
				text := out.String()
				if len(text) > 2000 {
					text = text[:1500] + "\n...\n" + text[len(text)-400:]
				}
				t.Errorf("%v after %v:\n%s", err, time.Since(start), text)
			}
		})
	}
}
