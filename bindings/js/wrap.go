package js

import (
	"weak"

	"github.com/dop251/goja"

	"dshsh/runtime"
)

// viewObject is a View of an object as goja.DynamicObject: read-only, its members
// converted at their first reading and kept.
type viewObject struct {
	v    *vm
	view *runtime.View
	memo []member              // the first 16
	many map[string]goja.Value // the others
	keys map[string]struct{}   // of large objects
}

type member struct {
	key string
	val goja.Value
}

func (v *vm) wrapView(x *runtime.View) goja.Value {
	if x.IsList() {
		return v.rt.NewDynamicArray(&viewArray{v: v, view: x})
	}
	return v.rt.NewDynamicObject(&viewObject{v: v, view: x})
}

// Get implements goja.DynamicObject.
func (o *viewObject) Get(key string) goja.Value {
	if o.many != nil {
		if val, ok := o.many[key]; ok {
			return val
		}
	}
	for i := range o.memo {
		if o.memo[i].key == key {
			return o.memo[i].val
		}
	}
	defer o.v.guardNative()
	x, ok := o.view.Get(key)
	if !ok {
		return nil
	}
	val := o.v.toJS(x)
	if len(o.memo) == 16 {
		if o.many == nil {
			o.many = map[string]goja.Value{}
		}
		o.many[key] = val
		return val
	}
	if o.memo == nil {
		o.memo = make([]member, 0, 4)
	}
	o.memo = append(o.memo, member{key, val})
	return val
}

// Has implements goja.DynamicObject. It converts nothing.
func (o *viewObject) Has(key string) bool {
	keys := o.view.Keys()
	if len(keys) <= 16 {
		for _, k := range keys {
			if k == key {
				return true
			}
		}
		return false
	}
	if o.keys == nil {
		o.keys = make(map[string]struct{}, len(keys))
		for _, k := range keys {
			o.keys[k] = struct{}{}
		}
	}
	_, ok := o.keys[key]
	return ok
}

// Keys implements goja.DynamicObject.
func (o *viewObject) Keys() []string { return o.view.Keys() }

// Set implements goja.DynamicObject. It throws, also outside strict code: a write that
// is silently lost is what script authors complain of most.
func (o *viewObject) Set(key string, _ goja.Value) bool { panic(o.v.readOnly(key)) }

// Delete implements goja.DynamicObject.
func (o *viewObject) Delete(key string) bool {
	if !o.Has(key) {
		return true
	}
	panic(o.v.readOnly(key))
}

func (v *vm) readOnly(key string) goja.Value {
	return v.rt.NewTypeError("cannot change %q: what events and agent.state give is read-only; return a changed copy, or assign it back, such as {...value, %s: ...}", key, key)
}

// viewArray is a View of a list as goja.DynamicArray.
type viewArray struct {
	v    *vm
	view *runtime.View
	memo []goja.Value
}

// Len implements goja.DynamicArray.
func (a *viewArray) Len() int { return a.view.Len() }

// Get implements goja.DynamicArray.
func (a *viewArray) Get(i int) goja.Value {
	if i < 0 || i >= a.view.Len() {
		return nil
	}
	defer a.v.guardNative()
	if a.memo == nil {
		a.memo = make([]goja.Value, a.view.Len())
	}
	if a.memo[i] == nil {
		a.memo[i] = a.v.toJS(a.view.At(i))
	}
	return a.memo[i]
}

// Set implements goja.DynamicArray. It throws.
func (a *viewArray) Set(int, goja.Value) bool { panic(a.v.readOnlyList()) }

// SetLen implements goja.DynamicArray. It throws.
func (a *viewArray) SetLen(int) bool { panic(a.v.readOnlyList()) }

func (v *vm) readOnlyList() goja.Value {
	return v.rt.NewTypeError("cannot change this list: what events and agent.state give is read-only; return a changed copy, or assign it back, such as [...value, item]")
}

// liveObject is a runtime.Object as goja.DynamicObject. Its methods are made when they
// are first read, and bound, so that they may be taken apart from it.
type liveObject struct {
	v       *vm
	obj     runtime.Object
	class   *runtime.Class
	bag     runtime.Bag // obj, if it is one
	methods map[string]goja.Value

	// Of an AbortSignal: what a script assigned and added.
	onabort   goja.Value
	listeners []goja.Value
	listening bool
}

// lookup finds a member by its own name: the other spellings are Lua's.
func (o *liveObject) lookup(key string) *runtime.Member {
	if m := o.class.Lookup(key); m != nil && m.Name == key {
		return m
	}
	return nil
}

// Get implements goja.DynamicObject.
func (o *liveObject) Get(key string) goja.Value {
	m := o.lookup(key)
	switch {
	case m == nil:
		return o.extra(key)
	case m.IsProperty():
		defer o.v.guardNative()
		x, err := o.v.in.Property(m, o.obj)
		if err != nil {
			panic(o.v.throwable(err))
		}
		return o.v.result(x)
	}
	f, ok := o.methods[key]
	if !ok {
		f = o.v.method(o.obj, m)
		if o.methods == nil {
			o.methods = map[string]goja.Value{}
		}
		o.methods[key] = f
	}
	return f
}

// extra is what JavaScript expects of an object beside its class.
func (o *liveObject) extra(key string) goja.Value {
	if o.bag != nil {
		defer o.v.guardNative()
		if x, ok := o.bag.Get(key); ok {
			return o.v.toJS(x)
		}
		return nil
	}
	switch {
	case key == "toJSON":
		return o.v.native("toJSON", func(goja.FunctionCall) goja.Value {
			panic(o.v.rt.NewTypeError("a live %s is not a JSON value", o.class.Name))
		})
	case key == "addEventListener" && o.isSignal():
		return o.v.addEventListener(o)
	case key == "removeEventListener" && o.isSignal():
		return o.v.removeEventListener(o)
	case key != "then": // which await asks every object for
		o.v.misses.Note(o.class, key, o.v.Where())
	}
	return nil
}

// Has implements goja.DynamicObject.
func (o *liveObject) Has(key string) bool {
	if o.bag != nil {
		if _, ok := o.bag.Get(key); ok {
			return true
		}
	}
	return o.lookup(key) != nil
}

// Keys implements goja.DynamicObject.
func (o *liveObject) Keys() []string {
	if o.bag != nil {
		return o.bag.Keys() // its data is what there is to see
	}
	keys := make([]string, len(o.class.Members))
	for i, m := range o.class.Members {
		keys[i] = m.Name
	}
	return keys
}

// Set implements goja.DynamicObject.
func (o *liveObject) Set(key string, val goja.Value) bool {
	if o.isSignal() && key == "onabort" {
		o.v.setOnabort(o, val)
		return true
	}
	if o.bag != nil {
		o.assign(key, val, val == nil || goja.IsUndefined(val))
		return true
	}
	panic(o.v.rt.NewTypeError("cannot set %q on a live %s", key, o.class.Name))
}

// Delete implements goja.DynamicObject.
func (o *liveObject) Delete(key string) bool {
	if !o.Has(key) {
		return true
	}
	if o.bag != nil {
		o.assign(key, nil, true)
		return true
	}
	panic(o.v.rt.NewTypeError("cannot delete %q of a live %s", key, o.class.Name))
}

// assign writes to a bag.
func (o *liveObject) assign(key string, val goja.Value, remove bool) {
	defer o.v.guardNative()
	var x runtime.Value
	if !remove {
		x = o.v.exportArgs(o.class.Name+"."+key, []goja.Value{val})[0]
	}
	if err := o.v.in.Assign(o.bag, key, x, remove); err != nil {
		panic(o.v.throwable(err))
	}
}

// objectCache gives one live object one wrapper for as long as the script holds on to
// it. The wrappers are held weakly; gone ones are swept when the map has doubled.
type objectCache struct {
	m     map[runtime.Object]weak.Pointer[goja.Object]
	sweep int
}

func (v *vm) wrapObject(x runtime.Object) goja.Value {
	c := &v.objects
	if p, ok := c.m[x]; ok {
		if o := p.Value(); o != nil {
			return o
		}
	}
	if c.m == nil {
		c.m, c.sweep = map[runtime.Object]weak.Pointer[goja.Object]{}, 64
	}
	if len(c.m) >= c.sweep {
		for k, p := range c.m {
			if p.Value() == nil {
				delete(c.m, k)
			}
		}
		c.sweep = max(64, 2*len(c.m))
	}
	live := &liveObject{v: v, obj: x, class: x.Class()}
	live.bag, _ = x.(runtime.Bag)
	o := v.rt.NewDynamicObject(live)
	c.m[x] = weak.Make(o)
	return o
}

// native makes a function for scripts; its name is what stacks show.
func (v *vm) native(name string, f func(goja.FunctionCall) goja.Value) *goja.Object {
	o := v.rt.ToValue(func(c goja.FunctionCall) goja.Value {
		defer v.guardNative()
		return f(c)
	}).(*goja.Object)
	// goja names it after the Go function, which would show in stacks.
	_ = o.DefineDataProperty("name", v.rt.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE)
	return o
}

// method is a member of self as a function.
func (v *vm) method(self runtime.Object, m *runtime.Member) goja.Value {
	name := self.Class().Name + "." + m.Name
	return v.native(m.Name, func(c goja.FunctionCall) goja.Value {
		args := v.exportArgs(name, c.Arguments)
		if m.Waits && (!v.loading || m.Load) {
			return v.start(func() (runtime.Value, error) { return v.in.Invoke(m, self, args) })
		}
		x, err := v.in.Invoke(m, self, args)
		if err != nil {
			panic(v.throwable(err))
		}
		return v.result(x)
	})
}

// goFunc is a Go function for the script.
func (v *vm) goFunc(f *runtime.GoFunc) goja.Value {
	return v.native(f.Name, func(c goja.FunctionCall) goja.Value {
		args := v.exportArgs(f.Name, c.Arguments)
		if f.Waits {
			return v.start(func() (runtime.Value, error) { return v.in.InvokeFunc(f, args) })
		}
		x, err := v.in.InvokeFunc(f, args)
		if err != nil {
			panic(v.throwable(err))
		}
		return v.result(x)
	})
}
