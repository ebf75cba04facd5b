package lua

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

// toLua gives a value to the script. What came from Go as a View stays one, and is read
// lazily; lists and objects that another script made become tables. A number that Lua
// cannot hold is rounded.
func (vm *machine) toLua(v runtime.Value) glua.LValue { return vm.toLuaNull(v, glua.LNil, false) }

// toLuaNull is toLua with what stands for null inside lists and objects, and with exact
// numbers if asked.
func (vm *machine) toLuaNull(v runtime.Value, null glua.LValue, exact bool) glua.LValue {
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
		for _, k := range slices.Sorted(maps.Keys(v)) { // pairs goes by this order
			t.RawSetString(k, vm.toLuaNull(v[k], vm.null, true))
		}
		return t
	}
	return vm.toLuaNull(runtime.ValueOf(v), null, exact)
}

// foreign wraps another script's function: it can be handed on, not called.
func (vm *machine) foreign(f runtime.Func) glua.LValue {
	return &glua.LUserData{Value: f, Env: vm.base.Env, Metatable: vm.foreignMT}
}

// toValue reads what the script gives. Errors say what is wrong and where in the value. A
// View, a live object or a Go value in it comes back as it is.
func (vm *machine) toValue(v glua.LValue) (runtime.Value, error) {
	t, ok := v.(*glua.LTable)
	if !ok {
		out, err := vm.scalar(v)
		if err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
		return out, nil
	}
	r := reader{vm: vm}
	out, err := r.table(t)
	if err != nil {
		if pe, ok := err.(*placeError); ok && pe.err != errDeep {
			return nil, pe.error()
		}
		return nil, fmt.Errorf("value: %w", err)
	}
	return out, nil
}

// placeError is an error in a member of a value. Its steps are noted on the way out, so
// that a value without errors pays nothing for them.
type placeError struct {
	steps []string // innermost first
	err   error
}

func (e *placeError) Error() string { return e.err.Error() }

// step adds where in its table a member with an error is.
func step(err error, s string) error {
	if pe, ok := err.(*placeError); ok {
		pe.steps = append(pe.steps, s)
		return pe
	}
	return &placeError{[]string{s}, err}
}

// error names the place; of one that is very deep only the beginning.
func (e *placeError) error() error {
	var b strings.Builder
	b.WriteString("value")
	for i := len(e.steps) - 1; i >= 0; i-- {
		if b.Len() > 100 {
			b.WriteString("...")
			break
		}
		b.WriteString(strings.ToValidUTF8(e.steps[i], "?"))
	}
	return fmt.Errorf("%s: %w", &b, e.err)
}

var errText = errors.New("a string with invalid UTF-8 cannot leave the script (text.utf8 mends it)")

func (vm *machine) scalar(v glua.LValue) (runtime.Value, error) {
	switch v := v.(type) {
	case *glua.LNilType:
		return nil, nil
	case glua.LBool:
		return bool(v), nil
	case glua.LNumber:
		return number(float64(v)), nil
	case glua.LString:
		if !utf8.ValidString(string(v)) {
			return nil, errText
		}
		return string(v), nil
	case *glua.LFunction:
		return function{vm, v}, nil
	case *glua.LUserData:
		return vm.userdata(v)
	}
	return nil, fmt.Errorf("a %s cannot leave the script", v.Type())
}

// number gives whole numbers as int64.
func number(f float64) runtime.Value {
	if f == math.Trunc(f) && math.Abs(f) <= 1<<53 && !(f == 0 && math.Signbit(f)) {
		return int64(f)
	}
	return f
}

func (vm *machine) userdata(u *glua.LUserData) (runtime.Value, error) {
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
	return nil, errors.New("a userdata cannot leave the script")
}

// reader reads one structured value. Used by one call.
type reader struct {
	vm    *machine
	size  int            // about how many bytes of JSON so far
	count int            // members so far
	open  []*glua.LTable // tables that are being read, outermost first
}

// maxMembers bounds what one value may hold, beside its size.
const maxMembers = 1 << 21

func (r *reader) value(v glua.LValue) (runtime.Value, error) {
	if r.count++; r.count > maxMembers {
		return nil, fmt.Errorf("more than %d members", maxMembers)
	}
	if r.count%4096 == 0 && r.vm.killed() {
		return nil, r.vm.ctx.Err()
	}
	switch v := v.(type) {
	case *glua.LTable:
		return r.table(v)
	case glua.LString:
		if r.size += len(v); r.size > runtime.MaxValueSize {
			return nil, fmt.Errorf("larger than %d MiB", runtime.MaxValueSize>>20)
		}
	}
	return r.vm.scalar(v)
}

var errDeep = fmt.Errorf("nested more than %d deep", runtime.MaxValueDepth)

// table reads a table. With a marker of json.array or json.object it is that; else keys
// 1 to n make a list and strings an object; the empty one is an object, which counts as
// an empty list where a list is wanted.
func (r *reader) table(t *glua.LTable) (runtime.Value, error) {
	for _, o := range r.open {
		if o == t {
			return nil, errors.New("a value that contains itself is not a JSON value")
		}
	}
	if len(r.open) > runtime.MaxValueDepth {
		return nil, errDeep
	}
	r.open = append(r.open, t)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	n := t.Len()
	items, names, err := keys(t, n)
	switch {
	case err != nil:
		return nil, err
	case items > 0 && names > 0:
		return nil, errors.New("the table has both list items and named fields")
	case items < n:
		return nil, hole(t, n)
	case t.Metatable == glua.LValue(r.vm.arrayMT):
		if names > 0 {
			return nil, errors.New("a json.array with named fields")
		}
		return r.list(t, n)
	case t.Metatable == glua.LValue(r.vm.mapMT) && items > 0:
		return nil, errors.New("a json.object with list items")
	case items == 0 && names == 0 && t.Metatable != glua.LNil && t.Metatable != glua.LValue(r.vm.mapMT):
		// An empty object is no opinion. Only one that is meant to be empty may count as one.
		return nil, errors.New("a table with a metatable and without members of its own is not a JSON value: return a plain table")
	case items == 0:
		return r.object(t, names)
	}
	return r.list(t, n)
}

// keys counts a table's list items, which run to n, and its named fields.
func keys(t *glua.LTable, n int) (items, names int, err error) {
	each(t, func(k, _ glua.LValue) {
		switch k := k.(type) {
		case glua.LString:
			names++
		case glua.LNumber:
			if i := int(k); glua.LNumber(i) == k && i >= 1 && i <= n {
				items++
			} else if err == nil {
				err = fmt.Errorf("the list has a hole before [%v]; put json.null there", k)
			}
		default:
			if err == nil {
				err = fmt.Errorf("a %s cannot be a key", k.Type())
			}
		}
	})
	return items, names, err
}

func hole(t *glua.LTable, n int) error {
	i := 1
	for i < n && t.RawGetInt(i) != glua.LNil {
		i++
	}
	return fmt.Errorf("the list has a hole at [%d]; put json.null there", i)
}

func (r *reader) list(t *glua.LTable, n int) (runtime.Value, error) {
	list := make([]any, n)
	for i := range list {
		v, err := r.value(t.RawGetInt(i + 1))
		if err != nil {
			return nil, step(err, "["+strconv.Itoa(i+1)+"]")
		}
		list[i] = v
	}
	return list, nil
}

func (r *reader) object(t *glua.LTable, names int) (runtime.Value, error) {
	m := make(map[string]any, names)
	var err error
	each(t, func(k, v glua.LValue) {
		if err != nil {
			return
		}
		name := string(k.(glua.LString))
		if !utf8.ValidString(name) {
			err = step(errText, "."+name)
			return
		}
		r.size += len(name)
		var e runtime.Value
		if e, err = r.value(v); err != nil {
			err = step(err, "."+name)
			return
		}
		m[name] = e
	})
	return m, err
}

// short keeps a text for a message.
func short(s string) string {
	if len(s) <= 80 {
		return s
	}
	return s[:60] + "..."
}

// args reads a call's arguments from the given index of L on, or throws. name is how
// messages call the function.
func (vm *machine) args(L *glua.LState, from int, class, name string) []runtime.Value {
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
