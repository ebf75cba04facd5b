package lua

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

// toLua gives a value to the script. What came from Go as a View stays one, and is read
// lazily; lists and objects that another script made become tables. A number that Lua
// cannot hold is rounded.
func (vm *VM) toLua(v runtime.Value) glua.LValue { return vm.toLuaNull(v, glua.LNil, false) }

// toLuaNull is toLua with what stands for null inside lists and objects, and with exact
// numbers if asked.
func (vm *VM) toLuaNull(v runtime.Value, null glua.LValue, exact bool) glua.LValue {
	switch v := v.(type) {
	case nil:
		return null
	case bool:
		return glua.LBool(v)
	case string:
		return glua.LString(v)
	case int64:
		return glua.LNumber(v)
	case float64:
		return glua.LNumber(v)
	case runtime.Number:
		if exact {
			return vm.newInt(v)
		}
		f, _ := strconv.ParseFloat(string(v), 64)
		return glua.LNumber(f)
	case *runtime.View:
		return vm.newView(v)
	case runtime.Object:
		return vm.object(v)
	case function:
		if v.vm == vm {
			return v.fn
		}
		return vm.foreign(v)
	case runtime.Func:
		return vm.foreign(v)
	case *runtime.GoFunc:
		return vm.goFunc(v)
	case []any:
		t := vm.base.CreateTable(len(v), 0)
		t.Metatable = vm.arrayMT
		for _, e := range v {
			t.Append(vm.toLuaNull(e, vm.null, true))
		}
		return t
	case map[string]any:
		t := vm.base.CreateTable(0, len(v))
		t.Metatable = vm.mapMT
		for k, e := range v {
			t.RawSetString(k, vm.toLuaNull(e, vm.null, true))
		}
		return t
	}
	return vm.toLuaNull(runtime.ValueOf(v), null, exact)
}

// foreign wraps another script's function: it can be handed on, not called.
func (vm *VM) foreign(f runtime.Func) glua.LValue {
	return &glua.LUserData{Value: f, Env: vm.base.Env, Metatable: vm.foreignMT}
}

// toValue reads what the script gives. Errors say what is wrong and where in the value. A
// View, a live object or a Go value in it comes back as it is.
func (vm *VM) toValue(v glua.LValue) (runtime.Value, error) {
	switch v := v.(type) {
	case *glua.LTable:
		r := reader{vm: vm}
		return r.table(v, "value", 0)
	}
	return vm.scalar(v, "value")
}

func (vm *VM) scalar(v glua.LValue, path string) (runtime.Value, error) {
	switch v := v.(type) {
	case *glua.LNilType:
		return nil, nil
	case glua.LBool:
		return bool(v), nil
	case glua.LNumber:
		return number(float64(v)), nil
	case glua.LString:
		if !utf8.ValidString(string(v)) {
			return nil, badText(path)
		}
		return string(v), nil
	case *glua.LFunction:
		return function{vm, v}, nil
	case *glua.LUserData:
		return vm.userdata(v, path)
	}
	return nil, fmt.Errorf("%s: a %s cannot leave the script", path, v.Type())
}

func badText(path string) error {
	return fmt.Errorf("%s: a string with invalid UTF-8 cannot leave the script (text.utf8 mends it)", path)
}

// number gives whole numbers as int64.
func number(f float64) runtime.Value {
	if f == math.Trunc(f) && math.Abs(f) <= 1<<53 && !(f == 0 && math.Signbit(f)) {
		return int64(f)
	}
	return f
}

func (vm *VM) userdata(u *glua.LUserData, path string) (runtime.Value, error) {
	if u == vm.null {
		return nil, nil
	}
	switch x := u.Value.(type) {
	case *view:
		return x.v, nil
	case *object:
		return x.o, nil
	case runtime.Number:
		return x, nil
	case runtime.Func:
		return x, nil
	case *thrown:
		return x.text(), nil
	}
	return nil, fmt.Errorf("%s: a userdata of this script cannot leave it", path)
}

// reader reads one structured value. Used by one call.
type reader struct {
	vm   *VM
	size int            // about how many bytes of JSON so far
	open []*glua.LTable // tables that are being read, outermost first
}

func (r *reader) value(v glua.LValue, path string, depth int) (runtime.Value, error) {
	if r.size += 8; r.size > runtime.MaxValueSize {
		return nil, fmt.Errorf("%s: the value is larger than %d MiB", path, runtime.MaxValueSize>>20)
	}
	switch v := v.(type) {
	case *glua.LTable:
		return r.table(v, path, depth)
	case glua.LString:
		r.size += len(v)
	}
	return r.vm.scalar(v, path)
}

// table reads a table. With a marker of json.array or json.object it is that; else keys
// 1 to n make a list and strings an object; the empty one is an object, which counts as
// an empty list where a list is wanted.
func (r *reader) table(t *glua.LTable, path string, depth int) (runtime.Value, error) {
	if depth >= runtime.MaxValueDepth {
		return nil, fmt.Errorf("value: nested more than %d deep", runtime.MaxValueDepth)
	}
	for _, o := range r.open {
		if o == t {
			return nil, fmt.Errorf("%s: a value that contains itself is not a JSON value", path)
		}
	}
	r.open = append(r.open, t)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	n := t.Len()
	items, names := 0, 0
	var bad error
	t.ForEach(func(k, _ glua.LValue) {
		switch k := k.(type) {
		case glua.LString:
			names++
		case glua.LNumber:
			if i := int(k); glua.LNumber(i) == k && i >= 1 && i <= n {
				items++
			} else if bad == nil {
				bad = fmt.Errorf("%s: the list has a hole before [%v]; put json.null there", path, k)
			}
		default:
			if bad == nil {
				bad = fmt.Errorf("%s: a %s cannot be a key", path, k.Type())
			}
		}
	})
	switch {
	case bad != nil:
		return nil, bad
	case items > 0 && names > 0:
		return nil, fmt.Errorf("%s: the table has both list items and named fields", path)
	case items < n:
		return nil, r.hole(t, n, path)
	case t.Metatable == glua.LValue(r.vm.arrayMT):
		if names > 0 {
			return nil, fmt.Errorf("%s: a json.array with named fields", path)
		}
	case t.Metatable == glua.LValue(r.vm.mapMT):
		if items > 0 {
			return nil, fmt.Errorf("%s: a json.object with list items", path)
		}
		return r.object(t, names, path, depth)
	case items == 0:
		return r.object(t, names, path, depth)
	}
	list := make([]any, n)
	for i := range list {
		v, err := r.value(t.RawGetInt(i+1), path+"["+strconv.Itoa(i+1)+"]", depth+1)
		if err != nil {
			return nil, err
		}
		list[i] = v
	}
	return list, nil
}

func (r *reader) hole(t *glua.LTable, n int, path string) error {
	for i := 1; i <= n; i++ {
		if t.RawGetInt(i) == glua.LNil {
			return fmt.Errorf("%s: the list has a hole at [%d]; put json.null there", path, i)
		}
	}
	return fmt.Errorf("%s: the list has a hole; put json.null there", path)
}

func (r *reader) object(t *glua.LTable, names int, path string, depth int) (runtime.Value, error) {
	m := make(map[string]any, names)
	var err error
	t.ForEach(func(k, v glua.LValue) {
		if err != nil {
			return
		}
		name := string(k.(glua.LString))
		if !utf8.ValidString(name) {
			err = badText(path + ": a key")
			return
		}
		r.size += len(name)
		m[name], err = r.value(v, path+"."+name, depth+1)
	})
	return m, err
}

// short keeps a path of hundreds of steps readable.
func short(path string) string {
	if len(path) <= 80 {
		return path
	}
	return path[:60] + "..."
}

// args reads a call's arguments from the given index of L on, or throws. name is how
// messages call the function.
func (vm *VM) args(L *glua.LState, from int, class, name string) []runtime.Value {
	n := L.GetTop()
	if n < from {
		return nil
	}
	out := make([]runtime.Value, n-from+1)
	for i := range out {
		v, err := vm.toValue(L.Get(from + i))
		if err != nil {
			vm.raise(L, fmt.Errorf("%s%s: for argument %d: %w", class, name, i+1, err))
		}
		out[i] = v
	}
	return out
}
