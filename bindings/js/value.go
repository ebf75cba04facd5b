package js

import (
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"

	"github.com/dop251/goja"

	"dshsh/runtime"
)

var (
	promiseType    = reflect.TypeFor[*goja.Promise]()
	viewObjectType = reflect.TypeFor[*viewObject]()
	viewArrayType  = reflect.TypeFor[*viewArray]()
	liveObjectType = reflect.TypeFor[*liveObject]()
	mapType        = reflect.TypeFor[map[string]any]()
	proxyType      = reflect.TypeFor[goja.Proxy]()
)

// isOurs tells a wrapper of this package from an object of the script.
func isOurs(o *goja.Object) bool {
	switch o.ExportType() {
	case viewObjectType, viewArrayType, liveObjectType:
		return true
	}
	return false
}

// toJS gives a Value to the script. In an entry.
func (v *vm) toJS(x runtime.Value) goja.Value {
	switch x := x.(type) {
	case nil:
		return goja.Null()
	case string, bool, int64, float64:
		return v.rt.ToValue(x)
	case runtime.Number:
		// Read as a number it is rounded; the digits stay where it came from.
		f, _ := strconv.ParseFloat(string(x), 64) // too large is infinite, as for a literal
		return v.rt.ToValue(f)
	case *runtime.View:
		return v.wrapView(x)
	case []any:
		items := make([]any, len(x))
		for i, e := range x {
			items[i] = v.toJS(e)
		}
		return v.rt.NewArray(items...)
	case map[string]any:
		o := v.rt.NewObject()
		for _, k := range slices.Sorted(maps.Keys(x)) {
			_ = o.Set(k, v.toJS(x[k]))
		}
		return o
	case runtime.Object:
		return v.wrapObject(x)
	case fn:
		if x.v == v {
			return x.obj
		}
		return goja.Undefined()
	case *runtime.GoFunc:
		return v.goFunc(x)
	}
	return v.toJS(runtime.ValueOf(x))
}

// result is what a call gives back: nothing is undefined.
func (v *vm) result(x runtime.Value) goja.Value {
	if x == nil {
		return goja.Undefined()
	}
	return v.toJS(x)
}

// exportTop reads a value of the script for Go. The error is a *runtime.ScriptError when
// script code threw on the way. Outside or inside of a JavaScript frame, in an entry.
func (v *vm) exportTop(x goja.Value) (val runtime.Value, err error) {
	if obj, ok := x.(*goja.Object); !ok || isOurs(obj) {
		return v.export(x, nil, "")
	}
	if ex := v.rt.Try(func() { val, err = v.export(x, nil, "") }); ex != nil {
		return nil, v.scriptError(ex)
	}
	return val, err
}

// path is where in a value the exporter is: what refuses cycles and names the place.
type path struct {
	up    *path
	obj   *goja.Object
	key   string
	depth int
	count *int // members seen, over the whole value
}

// maxMembers bounds what one value may hold; its text is bounded by AppendJSON.
const maxMembers = 1 << 20

func (p *path) String() string {
	if p == nil {
		return "value"
	}
	if p.up == nil {
		return "value" + p.key
	}
	return p.up.String() + p.key
}

func (v *vm) export(x goja.Value, at *path, key string) (runtime.Value, error) {
	switch x := x.(type) {
	case nil:
		return nil, nil
	case *goja.Object:
		return v.exportObject(x, at, key)
	case *goja.Symbol:
		return nil, fmt.Errorf("%s: a symbol is not a JSON value", (&path{up: at, key: key}).String())
	}
	switch g := x.Export().(type) {
	case nil:
		return nil, nil
	case *big.Int:
		if g.IsInt64() {
			return runtime.ValueOf(g.Int64()), nil
		}
		return runtime.Number(g.String()), nil
	default:
		return runtime.ValueOf(g), nil
	}
}

func (v *vm) exportObject(o *goja.Object, at *path, key string) (runtime.Value, error) {
	switch o.ExportType() {
	case viewObjectType:
		return o.Export().(*viewObject).view, nil
	case viewArrayType:
		return o.Export().(*viewArray).view, nil
	case liveObjectType:
		return o.Export().(*liveObject).obj, nil
	}
	here := &path{up: at, obj: o, key: key}
	if at != nil {
		here.depth, here.count = at.depth+1, at.count
	} else {
		here.count = new(int)
	}
	if here.depth > runtime.MaxValueDepth {
		return nil, fmt.Errorf("value: nested more than %d deep", runtime.MaxValueDepth)
	}
	for p := at; p != nil; p = p.up {
		if p.obj == o {
			return nil, fmt.Errorf("%s: a value that contains itself is not a JSON value", here)
		}
	}
	if _, ok := goja.AssertFunction(o); ok { // of any kind: async, a class, a bound one
		return fn{v, o}, nil
	}
	class := o.ClassName()
	if o.ExportType() == proxyType {
		if p, ok := o.Export().(goja.Proxy); ok && p.Target() != nil {
			class = p.Target().ClassName()
		}
	}
	switch class {
	case "Array":
		return v.exportList(o, here)
	case "Error":
		return v.exportError(o, here)
	case "String":
		return o.String(), nil
	case "Number":
		return runtime.ValueOf(o.ToFloat()), nil
	case "Boolean":
		return o.Export(), nil
	}
	// As JSON.stringify does: a Date, and whatever else knows its own form.
	if toJSON, ok := goja.AssertFunction(o.Get("toJSON")); ok {
		r, err := toJSON(o, v.rt.ToValue(key))
		if err != nil {
			return nil, err
		}
		if ro, ok := r.(*goja.Object); !ok || ro != o {
			return v.export(r, here, "")
		}
	}
	switch o.ExportType() {
	case mapType, proxyType:
	case promiseType:
		return nil, fmt.Errorf("%s: a promise is not a value: await it first", here)
	default:
		// JSON.stringify would give {} for it, and nobody would see why.
		return nil, fmt.Errorf("%s: a %s is not a JSON value", here, constructorName(o))
	}
	if class == "RegExp" {
		return nil, fmt.Errorf("%s: a RegExp is not a JSON value", here)
	}
	out := map[string]any{}
	for _, k := range o.Keys() {
		m := o.Get(k)
		if m == nil || goja.IsUndefined(m) {
			continue
		}
		e, err := v.exportMember(m, here, "."+k)
		if err != nil {
			return nil, err
		}
		out[k] = e
	}
	if len(out) == 0 {
		// An empty object is no opinion. Only one that is meant to be empty may count as one:
		// not a generator, whose body never ran, nor one whose members cannot be listed.
		if proto := o.Prototype(); proto != nil && proto != v.rt.NewObject().Prototype() {
			return nil, fmt.Errorf("%s: a %s without members of its own is not a JSON value: return a plain object", here, constructorName(o))
		}
		if len(o.GetOwnPropertyNames()) > 0 {
			return nil, fmt.Errorf("%s: an object whose members are hidden is not a JSON value: return a plain object", here)
		}
	}
	return out, nil
}

func (v *vm) exportMember(m goja.Value, here *path, key string) (runtime.Value, error) {
	if *here.count++; *here.count > maxMembers {
		return nil, fmt.Errorf("value: more than %d members", maxMembers)
	}
	if *here.count&1023 == 0 {
		v.poll()
	}
	return v.export(m, here, key)
}

func (v *vm) exportList(o *goja.Object, here *path) (runtime.Value, error) {
	n := o.Get("length").ToInteger()
	if n > maxMembers {
		return nil, fmt.Errorf("%s: more than %d members", here, maxMembers)
	}
	out := make([]any, n)
	for i := range out {
		m := o.Get(strconv.Itoa(i))
		e, err := v.exportMember(m, here, "["+strconv.Itoa(i)+"]")
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	return out, nil
}

// exportError gives an error as data: JSON.stringify would give {}.
func (v *vm) exportError(o *goja.Object, here *path) (runtime.Value, error) {
	out := map[string]any{"name": text(o.Get("name")), "message": text(o.Get("message"))}
	for _, k := range o.Keys() {
		m := o.Get(k)
		if m == nil || goja.IsUndefined(m) {
			continue
		}
		e, err := v.exportMember(m, here, "."+k)
		if err != nil {
			return nil, err
		}
		out[k] = e
	}
	return out, nil
}

func constructorName(o *goja.Object) string {
	if c, ok := o.Get("constructor").(*goja.Object); ok {
		if s := text(c.Get("name")); s != "" {
			return s
		}
	}
	return o.ClassName()
}

// text is a primitive's text, "" for what has none.
func text(x goja.Value) string {
	if x == nil || goja.IsUndefined(x) || goja.IsNull(x) {
		return ""
	}
	if _, ok := x.(*goja.Object); ok {
		return ""
	}
	return x.String()
}

// exportArgs reads the arguments of a call; a value that cannot cross is a TypeError in
// the script. In a JavaScript frame.
func (v *vm) exportArgs(name string, args []goja.Value) []runtime.Value {
	for len(args) > 0 && goja.IsUndefined(args[len(args)-1]) {
		args = args[:len(args)-1] // what is passed as undefined is not passed
	}
	out := make([]runtime.Value, len(args))
	for i, a := range args {
		var err error
		if out[i], err = v.export(a, nil, ""); err != nil {
			if ex := (*goja.Exception)(nil); asException(err, &ex) || isFatal(err) {
				panic(err)
			}
			panic(v.rt.NewTypeError("%s: for argument %d: %s", name, i+1, err))
		}
	}
	return out
}
