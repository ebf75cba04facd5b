package lua

import (
	"maps"
	"slices"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// openLibs gives the VM its globals. Nothing that reaches files, processes, the
// environment or the host's inside is among them.
func (vm *machine) openLibs() {
	g := vm.base.G.Global
	vm.arrayMT, vm.mapMT = vm.base.CreateTable(0, 0), vm.base.CreateTable(0, 0)
	vm.openErrors()
	vm.openViews()
	vm.openObjects()
	vm.openBase(g)
	vm.openCoroutines()
	vm.openString()
	vm.openTable()
	vm.openMath()
	vm.openOS()
	vm.openJSON()
	vm.openText()
	g.RawSetString("ctx", vm.object(vm.in.Ctx(nil)))
}

// lib makes a global table of functions.
func (vm *machine) lib(name string, funcs map[string]glua.LGFunction) *glua.LTable {
	t := vm.base.CreateTable(0, len(funcs))
	vm.fill(t, funcs)
	vm.base.G.Global.RawSetString(name, t)
	return t
}

// fill adds functions in the order of their names, which is that of pairs.
func (vm *machine) fill(t *glua.LTable, funcs map[string]glua.LGFunction) {
	for _, n := range slices.Sorted(maps.Keys(funcs)) {
		t.RawSetString(n, vm.base.NewFunction(funcs[n]))
	}
}

// metatable makes one for userdata of the host's. Scripts cannot reach it.
func (vm *machine) metatable(name string, funcs map[string]glua.LGFunction) *glua.LTable {
	t := vm.base.CreateTable(0, len(funcs)+1)
	vm.fill(t, funcs)
	t.RawSetString("__metatable", glua.LString(name))
	return t
}

func (vm *machine) openBase(g *glua.LTable) {
	ipairsNext := vm.base.NewFunction(vm.ipairsNext)
	next := vm.base.NewFunction(vm.next)
	vm.fill(g, map[string]glua.LGFunction{
		"assert":         vm.assert,
		"collectgarbage": func(L *glua.LState) int { L.Push(glua.LNumber(0)); return 1 },
		"error":          vm.error,
		"getmetatable":   func(L *glua.LState) int { L.Push(L.GetMetatable(L.CheckAny(1))); return 1 },
		"ipairs": func(L *glua.LState) int {
			if w := viewOf(L.Get(1)); w == nil || !w.v.IsList() {
				L.CheckTable(1)
			}
			return push3(L, ipairsNext, L.Get(1), glua.LNumber(0))
		},
		"load":       vm.load,
		"loadstring": vm.load,
		"pairs": func(L *glua.LState) int {
			if x := objectOf(L.Get(1)); viewOf(L.Get(1)) == nil && x == nil {
				L.CheckTable(1)
			}
			return push3(L, next, L.Get(1), glua.LNil)
		},
		"pcall":    vm.pcall,
		"print":    vm.print,
		"rawequal": func(L *glua.LState) int { L.Push(glua.LBool(L.RawEqual(L.CheckAny(1), L.CheckAny(2)))); return 1 },
		"rawget":   func(L *glua.LState) int { L.Push(L.CheckTable(1).RawGet(L.CheckAny(2))); return 1 },
		"rawset": func(L *glua.LState) int {
			t := L.CheckTable(1)
			L.RawSet(t, L.CheckAny(2), L.CheckAny(3))
			L.Push(t)
			return 1
		},
		"require":      vm.require,
		"select":       vm.sel,
		"setmetatable": vm.setmetatable,
		"tonumber":     vm.tonumber,
		"tostring":     func(L *glua.LState) int { L.Push(glua.LString(vm.tostring(L, L.CheckAny(1)))); return 1 },
		"type":         func(L *glua.LState) int { L.Push(glua.LString(L.CheckAny(1).Type().String())); return 1 },
		"unpack":       vm.unpack,
		"xpcall":       vm.xpcall,
	})
	vm.lib("debug", map[string]glua.LGFunction{"traceback": vm.traceback})
	g.RawSetString("next", next)
	g.RawSetString("_G", g)
	g.RawSetString("_VERSION", glua.LString("Lua 5.1"))
}

func push3(L *glua.LState, a, b, c glua.LValue) int {
	L.Push(a)
	L.Push(b)
	L.Push(c)
	return 3
}

// next steps through tables and through what the host hands over.
func (vm *machine) next(L *glua.LState) int {
	key := L.Get(2)
	var k, v glua.LValue
	if w := viewOf(L.Get(1)); w != nil {
		k, v = w.next(vm, key)
	} else if x := objectOf(L.Get(1)); x != nil {
		k, v = x.next(vm, key)
	} else {
		k, v = L.CheckTable(1).Next(key)
	}
	L.Push(k)
	if k == glua.LNil {
		return 1
	}
	L.Push(v)
	return 2
}

// ipairsNext steps through a list. In a list of the host's a null is nil and does not end
// the loop.
func (vm *machine) ipairsNext(L *glua.LState) int {
	i := int(L.CheckNumber(2)) + 1
	var v glua.LValue
	if w := viewOf(L.Get(1)); w != nil {
		if i > w.v.Len() {
			return 0
		}
		v = w.item(vm, i)
	} else if v = L.CheckTable(1).RawGetInt(i); v == glua.LNil {
		return 0
	}
	L.Push(glua.LNumber(i))
	L.Push(v)
	return 2
}

func (vm *machine) assert(L *glua.LState) int {
	if L.ToBool(1) {
		return L.GetTop()
	}
	L.CheckAny(1)
	if L.GetTop() < 2 || L.Get(2) == glua.LNil {
		vm.raisef(L, "assertion failed!")
	}
	L.Error(L.Get(2), 0)
	return 0
}

// error throws its argument; a string gets the place of the given level before it.
func (vm *machine) error(L *glua.LState) int {
	obj := L.Get(1)
	level := 1
	if n, ok := L.Get(2).(glua.LNumber); ok {
		level = int(n)
	}
	if s, ok := obj.(glua.LString); ok && level > 0 {
		for at, d := range frames(L) {
			if p, ok := linePosition(L, d); ok && at == level {
				obj = glua.LString(placeOf(p) + string(s))
			}
			if at >= level {
				break
			}
		}
	}
	L.Error(obj, 0)
	return 0
}

// print shows its arguments as a line of the script.
func (vm *machine) print(L *glua.LState) int {
	parts := make([]string, L.GetTop())
	for i := range parts {
		parts[i] = vm.tostring(L, L.Get(i+1))
	}
	vm.in.Log("log", strings.ToValidUTF8(strings.Join(parts, "\t"), "\ufffd"))
	return 0
}

// tostring is a value's text, by its __tostring if it has one.
func (vm *machine) tostring(L *glua.LState, v glua.LValue) string {
	if fn, ok := L.GetMetaField(v, "__tostring").(*glua.LFunction); ok {
		L.Push(fn)
		L.Push(v)
		vm.call(L, 1, 1)
		v = L.Get(-1)
		L.Pop(1)
	}
	return vm.text(v)
}

func (vm *machine) sel(L *glua.LState) int {
	n := L.GetTop()
	if s, ok := L.Get(1).(glua.LString); ok && s == "#" {
		L.Push(glua.LNumber(n - 1))
		return 1
	}
	i := int(L.CheckNumber(1))
	if i < 0 {
		i += n
	}
	if i < 1 {
		L.ArgError(1, "index out of range")
	}
	return max(n-i, 0)
}

func (vm *machine) setmetatable(L *glua.LState) int {
	t := L.CheckTable(1)
	mt := L.Get(2)
	if mt != glua.LNil {
		mt = L.CheckTable(2)
	}
	if old, ok := t.Metatable.(*glua.LTable); ok && old.RawGetString("__metatable") != glua.LNil {
		vm.raisef(L, "cannot change a protected metatable")
	}
	t.Metatable = mt
	L.Push(t)
	return 1
}

// maxChunks is how many names of chunks are cut from the front of messages.
const maxChunks = 1000

// load compiles a chunk from a string, or from the pieces that a function returns. It
// gives the function, or nil and a message.
func (vm *machine) load(L *glua.LState) int {
	name := "[load]"
	if s, ok := L.Get(2).(glua.LString); ok {
		name = strings.TrimLeft(string(s), "=@")
		if len(name) > 60 || strings.ContainsAny(name, "\n:") {
			name = "[load]"
		}
	}
	var code []byte
	if fn, ok := L.Get(1).(*glua.LFunction); ok {
		for {
			L.Push(fn)
			vm.call(L, 0, 1)
			piece := L.Get(-1)
			L.Pop(1)
			if piece == glua.LNil || piece == glua.LString("") {
				break
			}
			s, ok := piece.(glua.LString)
			if !ok {
				vm.raisef(L, "load: the reader function must return a string")
			}
			if code = append(code, s...); len(code) > maxSource {
				break
			}
		}
	} else {
		code = []byte(L.CheckString(1))
	}
	proto, err := compileChunk(name, code)
	if err != nil {
		L.Push(glua.LNil)
		L.Push(glua.LString(err.Error()))
		return 2
	}
	if len(vm.chunks) < maxChunks {
		vm.chunks[name] = true
	}
	fn := vm.base.NewFunctionFromProto(proto)
	if env, ok := L.Get(4).(*glua.LTable); ok {
		fn.Env = env
	}
	L.Push(fn)
	return 1
}
