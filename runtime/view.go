package runtime

import (
	"encoding/json"
	"reflect"
	"slices"
)

// View is a structured value from Go as a script sees it: an object or a list whose
// members are converted when they are read, so that a payload costs what is looked at.
// Maps have strings for keys. It is an immutable snapshot; what it caches is touched on
// the thread only.
type View struct {
	list bool
	raw  *rawText      // JSON text; or
	rv   reflect.Value // a struct, map, slice or array
	plan *structPlan   // of a struct
	keys []string      // of an object, once asked for
}

// viewOf is the view of a struct, map, slice or array.
func viewOf(rv reflect.Value) *View {
	switch rv.Kind() {
	case reflect.Struct:
		return &View{rv: rv, plan: planOf(rv.Type())}
	case reflect.Map:
		return &View{rv: rv}
	}
	return &View{rv: rv, list: true}
}

// IsList tells a list from an object.
func (v *View) IsList() bool { return v.list }

// Len counts members.
func (v *View) Len() int {
	switch {
	case v.raw != nil:
		return len(v.raw.parts())
	case v.list:
		return v.rv.Len()
	}
	return len(v.Keys())
}

// Keys lists an object's member names: a struct's in the order of its fields, any
// other's sorted. The caller must not change it.
func (v *View) Keys() []string {
	if v.keys != nil || v.list {
		return v.keys
	}
	switch {
	case v.raw != nil:
		ms := v.raw.parts()
		v.keys = make([]string, len(ms))
		for i, m := range ms {
			v.keys[i] = m.key
		}
	case v.plan != nil:
		v.keys = make([]string, 0, len(v.plan.fields))
		for _, f := range v.plan.fields {
			if _, ok := f.of(v.rv); ok {
				v.keys = append(v.keys, f.name)
			}
		}
	case v.rv.Type().Key().Kind() == reflect.String:
		v.keys = make([]string, 0, v.rv.Len())
		for _, k := range v.rv.MapKeys() {
			v.keys = append(v.keys, k.String())
		}
		slices.Sort(v.keys)
	}
	return v.keys
}

// Get reads a member of an object.
func (v *View) Get(key string) (Value, bool) {
	switch {
	case v.plan != nil:
		f := v.plan.byName[key]
		if f == nil {
			return nil, false
		}
		fv, ok := f.of(v.rv)
		if !ok {
			return nil, false
		}
		return f.kind.value(fv), true
	case v.list:
		return nil, false
	case v.raw != nil:
		if m := v.raw.find(key); m != nil {
			return m.value(), true
		}
		return nil, false
	case v.rv.Type().Key().Kind() != reflect.String:
		return nil, false
	}
	e := v.rv.MapIndex(reflect.ValueOf(key).Convert(v.rv.Type().Key()))
	if !e.IsValid() {
		return nil, false
	}
	return reflectValue(e), true
}

// At reads a member of a list; out of range it is nil.
func (v *View) At(i int) Value {
	if !v.list || i < 0 || i >= v.Len() {
		return nil
	}
	if v.raw != nil {
		return v.raw.parts()[i].value()
	}
	return reflectValue(v.rv.Index(i))
}

// JSON is the whole value as text, as AppendJSON writes it. One with something live in
// it has none.
func (v *View) JSON() (json.RawMessage, error) { return writer{}.view(nil, v, 0) }

// Source gives the Go value behind the view, or raw JSON.
func (v *View) Source() any {
	if v.raw != nil {
		return v.raw.text
	}
	return v.rv.Interface()
}
