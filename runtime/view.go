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
	rv   reflect.Value   // a struct, map, slice or array; or
	raw  json.RawMessage // JSON text, parsed into keys and vals on first look

	parsed bool
	plan   *structPlan // of a struct
	keys   []string
	vals   []Value
	index  map[string]int // object from raw: key -> place in vals
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
	if v.list && v.raw == nil {
		return v.rv.Len()
	}
	if v.list {
		v.parse()
		return len(v.vals)
	}
	return len(v.Keys())
}

// Keys lists an object's member names: a struct's in the order of its fields, any
// other's sorted. The caller must not change it.
func (v *View) Keys() []string {
	v.parse()
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
	case v.raw != nil:
		v.parse()
		i, ok := v.index[key]
		if !ok {
			return nil, false
		}
		return v.vals[i], true
	case v.list || v.rv.Type().Key().Kind() != reflect.String:
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
		return v.vals[i]
	}
	return reflectValue(v.rv.Index(i))
}

// JSON is the whole value as text, as AppendJSON writes it. One with something live in
// it has none.
func (v *View) JSON() (json.RawMessage, error) { return v.appendJSON(nil, 0, false) }

// Source gives the Go value behind the view, or raw JSON.
func (v *View) Source() any {
	if v.raw != nil {
		return v.raw
	}
	return v.rv.Interface()
}

func (v *View) parse() {
	if v.parsed {
		return
	}
	v.parsed = true
	switch {
	case v.raw != nil:
		v.parseRaw()
	case v.list:
	case v.plan != nil:
		v.keys = make([]string, 0, len(v.plan.fields))
		for _, f := range v.plan.fields {
			if _, ok := f.of(v.rv); ok {
				v.keys = append(v.keys, f.name)
			}
		}
	case v.rv.Type().Key().Kind() == reflect.String:
		for _, k := range v.rv.MapKeys() {
			v.keys = append(v.keys, k.String())
		}
		slices.Sort(v.keys)
	}
}

// parseRaw splits one level of JSON; members stay text until they are looked into.
func (v *View) parseRaw() {
	if v.list {
		var items []json.RawMessage
		if json.Unmarshal(v.raw, &items) == nil {
			for _, it := range items {
				v.vals = append(v.vals, rawValue(it))
			}
		}
		return
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(v.raw, &members) != nil {
		return
	}
	v.index = make(map[string]int, len(members))
	for k := range members {
		v.keys = append(v.keys, k)
	}
	slices.Sort(v.keys)
	for i, k := range v.keys {
		v.index[k] = i
		v.vals = append(v.vals, rawValue(members[k]))
	}
}
