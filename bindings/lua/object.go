package lua

import (
	"fmt"
	"sort"
	"weak"

	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

// object is a live runtime.Object as the script holds it, with the methods that the
// script has asked for. Used on the host thread.
type object struct {
	o       runtime.Object
	class   *runtime.Class
	methods map[*runtime.Member]*glua.LFunction
}

// objectCache gives one object the same userdata for as long as the script holds it. It
// keeps none alive, so it is bounded by what the script holds. Used on the host thread.
type objectCache struct {
	held  map[runtime.Object]weak.Pointer[glua.LUserData]
	sweep int // size at which the dead are swept out
}

const minSweep = 64

func (vm *machine) object(o runtime.Object) glua.LValue {
	c := &vm.objects
	if u := c.held[o].Value(); u != nil {
		return u
	}
	u := &glua.LUserData{Value: &object{o: o, class: o.Class()}, Env: vm.base.Env, Metatable: vm.objectMT}
	if c.held == nil {
		c.held, c.sweep = map[runtime.Object]weak.Pointer[glua.LUserData]{}, minSweep
	}
	if len(c.held) >= c.sweep {
		for k, w := range c.held {
			if w.Value() == nil {
				delete(c.held, k)
			}
		}
		c.sweep = max(minSweep, 2*len(c.held))
	}
	c.held[o] = weak.Make(u)
	return u
}

func objectOf(v glua.LValue) *object {
	if u, ok := v.(*glua.LUserData); ok {
		if x, ok := u.Value.(*object); ok {
			return x
		}
	}
	return nil
}

// method is a member's function, bound to the object: it may be called with a dot, and
// with a colon, where the object comes first and is dropped.
func (vm *machine) method(x *object, m *runtime.Member) *glua.LFunction {
	if fn := x.methods[m]; fn != nil {
		return fn
	}
	fn := vm.base.NewFunction(func(L *glua.LState) int {
		from := 1
		if self := objectOf(L.Get(1)); self != nil && self.o == x.o {
			from = 2
		}
		args := vm.args(L, from, x.class.Name+".", m.Name)
		if m.Waits && !vm.loading && !vm.host.Thread.CanWait() {
			vm.raise(L, fmt.Errorf("%s.%s: %w", x.class.Name, m.Name, runtime.ErrCannotWait))
		}
		v, err := vm.in.Invoke(m, x.o, args)
		return vm.answer(L, v, err)
	})
	if x.methods == nil {
		x.methods = make(map[*runtime.Member]*glua.LFunction, 4)
	}
	x.methods[m] = fn
	return fn
}

// data reads what a bag holds; any other object holds none.
func (x *object) data(key string) (runtime.Value, bool) {
	if bag, ok := x.o.(runtime.Bag); ok {
		return bag.Get(key)
	}
	return nil, false
}

// next is the datum after key in a bag, in the order of the names, for pairs.
func (x *object) next(vm *machine, key glua.LValue) (glua.LValue, glua.LValue) {
	bag, ok := x.o.(runtime.Bag)
	if !ok {
		return glua.LNil, glua.LNil
	}
	keys := bag.Keys()
	i := 0
	if s, ok := key.(glua.LString); ok {
		i = sort.SearchStrings(keys, string(s))
		if i < len(keys) && keys[i] == string(s) {
			i++
		}
	}
	if i >= len(keys) {
		return glua.LNil, glua.LNil
	}
	v, _ := bag.Get(keys[i])
	return glua.LString(keys[i]), vm.toLua(v)
}

// assign writes to a bag; nil removes.
func (vm *machine) assign(L *glua.LState) int {
	x := objectOf(L.Get(1))
	if x == nil {
		return 0
	}
	bag, isBag := x.o.(runtime.Bag)
	key, isName := L.Get(2).(glua.LString)
	if !isBag || !isName {
		vm.raise(L, fmt.Errorf("cannot set %s of %s: it is read-only", keyName(L.Get(2)), x.class.Name))
	}
	remove := L.Get(3) == glua.LNil
	v := vm.args(L, 3, x.class.Name+".", string(key))[0]
	if err := vm.in.Assign(bag, string(key), v, remove); err != nil {
		vm.raise(L, err)
	}
	return 0
}

// answer ends a call into Go: one result, or the error thrown.
func (vm *machine) answer(L *glua.LState, v runtime.Value, err error) int {
	if err != nil {
		vm.raise(L, err)
	}
	L.Push(vm.toLua(v))
	return 1
}

// goFunc makes a Go function callable.
func (vm *machine) goFunc(f *runtime.GoFunc) *glua.LFunction {
	return vm.base.NewFunction(func(L *glua.LState) int {
		args := vm.args(L, 1, "", f.Name)
		if f.Waits && !vm.host.Thread.CanWait() {
			vm.raise(L, fmt.Errorf("%s: %w", f.Name, runtime.ErrCannotWait))
		}
		v, err := vm.in.InvokeFunc(f, args)
		return vm.answer(L, v, err)
	})
}

func (vm *machine) openObjects() {
	vm.objectMT = vm.metatable("object", map[string]glua.LGFunction{
		"__index": func(L *glua.LState) int {
			x := objectOf(L.Get(1))
			key, ok := L.Get(2).(glua.LString)
			if x == nil || !ok {
				return 0
			}
			m := x.class.Lookup(string(key))
			switch {
			case m == nil:
				v, ok := x.data(string(key))
				if _, isBag := x.o.(runtime.Bag); !ok && !isBag {
					vm.misses.Note(x.class, string(key), vm.Where())
				}
				L.Push(vm.toLua(v))
				return 1
			case !m.IsProperty():
				L.Push(vm.method(x, m))
				return 1
			}
			v, err := vm.in.Property(m, x.o)
			return vm.answer(L, v, err)
		},
		"__newindex": vm.assign,
		"__eq": func(L *glua.LState) int {
			a, b := objectOf(L.Get(1)), objectOf(L.Get(2))
			L.Push(glua.LBool(a != nil && b != nil && a.o == b.o))
			return 1
		},
		"__tostring": func(L *glua.LState) int {
			s := "object"
			if x := objectOf(L.Get(1)); x != nil {
				s = x.class.Name
			}
			L.Push(glua.LString(s))
			return 1
		},
	})
	readOnly := func(L *glua.LState) int { vm.raisef(L, "this value cannot be used here"); return 0 }
	vm.foreignMT = vm.metatable("foreign function", map[string]glua.LGFunction{"__call": readOnly, "__newindex": readOnly})
}
