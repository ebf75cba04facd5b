package lua

import (
	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

// view is a runtime.View as the script holds it. A member is converted when it is first
// read and then kept, so that reading it again gives the same value. Used on the host
// thread.
type view struct {
	v     *runtime.View
	names []string // members read so far, of an object; beyond a few, index finds them
	vals  []glua.LValue
	index map[string]int
	items []glua.LValue  // of a list; nil = not read yet
	order map[string]int // key -> place in Keys, for next
}

func (vm *machine) newView(v *runtime.View) *glua.LUserData {
	return &glua.LUserData{Value: &view{v: v}, Env: vm.base.Env, Metatable: vm.viewMT}
}

const fewNames = 8

// field reads a member of an object.
func (w *view) field(vm *machine, name string) (glua.LValue, bool) {
	if w.index != nil {
		if i, ok := w.index[name]; ok {
			return w.vals[i], true
		}
	} else {
		for i, n := range w.names {
			if n == name {
				return w.vals[i], true
			}
		}
	}
	v, ok := w.v.Get(name)
	if !ok {
		return glua.LNil, false
	}
	lv := vm.toLua(v)
	w.names, w.vals = append(w.names, name), append(w.vals, lv)
	if w.index != nil {
		w.index[name] = len(w.names) - 1
	} else if len(w.names) > fewNames {
		w.index = make(map[string]int, 2*fewNames)
		for i, n := range w.names {
			w.index[n] = i
		}
	}
	return lv, true
}

// item reads a member of a list, from 1.
func (w *view) item(vm *machine, i int) glua.LValue {
	n := w.v.Len()
	if i < 1 || i > n {
		return glua.LNil
	}
	if w.items == nil {
		w.items = make([]glua.LValue, n)
	}
	if w.items[i-1] == nil {
		w.items[i-1] = vm.toLua(w.v.At(i - 1))
	}
	return w.items[i-1]
}

// get is view[key].
func (w *view) get(vm *machine, key glua.LValue) (glua.LValue, bool) {
	if w.v.IsList() {
		if n, ok := key.(glua.LNumber); ok {
			i := int(n)
			if glua.LNumber(i) != n {
				return glua.LNil, false
			}
			return w.item(vm, i), true
		}
		return glua.LNil, false
	}
	if s, ok := key.(glua.LString); ok {
		return w.field(vm, string(s))
	}
	return glua.LNil, false
}

// next is the member after key in the order of iteration: lists by index, objects in the
// order of their keys. key nil begins; a nil result ends.
func (w *view) next(vm *machine, key glua.LValue) (glua.LValue, glua.LValue) {
	if w.v.IsList() {
		i := 0
		if n, ok := key.(glua.LNumber); ok {
			i = int(n)
		}
		if i < 0 || i >= w.v.Len() {
			return glua.LNil, glua.LNil
		}
		return glua.LNumber(i + 1), w.item(vm, i+1)
	}
	keys := w.v.Keys()
	i := 0
	if s, ok := key.(glua.LString); ok {
		if w.order == nil {
			w.order = make(map[string]int, len(keys))
			for i, k := range keys {
				w.order[k] = i
			}
		}
		at, known := w.order[string(s)]
		if !known {
			return glua.LNil, glua.LNil
		}
		i = at + 1
	}
	if i >= len(keys) {
		return glua.LNil, glua.LNil
	}
	v, _ := w.field(vm, keys[i])
	return glua.LString(keys[i]), v
}

// table is the whole view as fresh tables that may be changed: with json.null for null
// and json.int for numbers that Lua would round.
func (w *view) table(vm *machine) glua.LValue { return vm.copyOut(w.v) }

func (vm *machine) copyOut(v runtime.Value) glua.LValue {
	w, ok := v.(*runtime.View)
	if !ok {
		return vm.toLuaNull(v, vm.null, true)
	}
	if w.IsList() {
		t := vm.base.CreateTable(w.Len(), 0)
		t.Metatable = vm.arrayMT
		for i := range w.Len() {
			t.Append(vm.copyOut(w.At(i)))
		}
		return t
	}
	keys := w.Keys()
	t := vm.base.CreateTable(0, len(keys))
	t.Metatable = vm.mapMT
	for _, k := range keys {
		e, _ := w.Get(k)
		t.RawSetString(k, vm.copyOut(e))
	}
	return t
}

func viewOf(v glua.LValue) *view {
	if u, ok := v.(*glua.LUserData); ok {
		if w, ok := u.Value.(*view); ok {
			return w
		}
	}
	return nil
}

func (vm *machine) openViews() {
	totable := vm.base.NewFunction(func(L *glua.LState) int {
		w := viewOf(L.Get(1))
		if w == nil {
			vm.raisef(L, "totable: call it as value:totable()")
		}
		L.Push(w.table(vm))
		return 1
	})
	readOnly := func(L *glua.LState) int {
		vm.raisef(L, "cannot change %q: what events and agent.state give is read-only; change a copy made with :totable(), and return it or assign it back", L.Get(2).String())
		return 0
	}
	vm.viewMT = vm.metatable("view", map[string]glua.LGFunction{
		"__index": func(L *glua.LState) int {
			w := viewOf(L.Get(1))
			if w == nil {
				return 0
			}
			key := L.Get(2)
			v, ok := w.get(vm, key)
			if !ok && key == glua.LString("totable") {
				v = totable
			}
			L.Push(v)
			return 1
		},
		"__newindex": readOnly,
		"__len": func(L *glua.LState) int {
			n := 0
			if w := viewOf(L.Get(1)); w != nil {
				n = w.v.Len()
			}
			L.Push(glua.LNumber(n))
			return 1
		},
		"__eq": func(L *glua.LState) int {
			a, b := viewOf(L.Get(1)), viewOf(L.Get(2))
			L.Push(glua.LBool(a != nil && b != nil && a.v == b.v))
			return 1
		},
		"__tostring": func(L *glua.LState) int {
			s := "view"
			if w := viewOf(L.Get(1)); w != nil {
				s = runtime.Display(w.v)
			}
			L.Push(glua.LString(s))
			return 1
		},
	})
}

// keyName is how messages call a key.
func keyName(k glua.LValue) string {
	if s, ok := k.(glua.LString); ok {
		return "field '" + string(s) + "'"
	}
	return "[" + k.String() + "]"
}
