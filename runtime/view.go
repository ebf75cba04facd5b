package runtime

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// View is a structured value from Go as a script sees it: an object or a list whose
// members are converted when they are read, so that a payload costs what is looked at.
// It is an immutable snapshot; what it caches is touched on the thread only.
type View struct {
	list bool
	rv   reflect.Value   // a struct, map, slice or array; or
	raw  json.RawMessage // JSON text, parsed into keys and vals on first look

	parsed bool
	plan   *structPlan
	keys   []string
	vals   []Value
	index  map[string]int // object from raw: key -> place in vals
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
	v.parse()
	switch {
	case v.raw != nil:
		i, ok := v.index[key]
		if !ok {
			return nil, false
		}
		return v.vals[i], true
	case v.list:
		return nil, false
	case v.plan != nil:
		f, ok := v.plan.byName[key]
		if !ok {
			return nil, false
		}
		fv := v.rv.FieldByIndex(f.index)
		if f.omitEmpty && isEmpty(fv) {
			return nil, false
		}
		return reflectValue(fv), true
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

// JSON is the whole value as text. One with something live in it has none.
func (v *View) JSON() (json.RawMessage, error) {
	if v.raw != nil {
		return bytes.TrimSpace(v.raw), nil
	}
	if mayBeLive(v.rv.Type()) {
		return v.appendMembers(nil, "value", 0, false)
	}
	return marshalGo(v.rv.Interface())
}

// appendMembers is appendJSON member by member, which meets what is live.
func (v *View) appendMembers(dst []byte, path string, depth int, loose bool) ([]byte, error) {
	var err error
	if v.list {
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, v.At(i), path+"["+strconv.Itoa(i)+"]", depth+1, loose); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	}
	dst = append(dst, '{')
	for i, k := range v.Keys() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendString(dst, k, path); err != nil {
			return nil, err
		}
		m, _ := v.Get(k)
		if dst, err = appendJSON(append(dst, ':'), m, path+"."+k, depth+1, loose); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

var live sync.Map // reflect.Type -> bool

// mayBeLive says whether values of t can hold an Object, which json would look into.
func mayBeLive(t reflect.Type) bool {
	if b, ok := live.Load(t); ok {
		return b.(bool)
	}
	b := holdsObject(t, map[reflect.Type]bool{})
	live.Store(t, b)
	return b
}

func holdsObject(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch {
	case t.Implements(objectType):
		return true
	case seen[t] || t == rawType || t.Implements(marshalerType):
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return true // nobody knows
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsObject(t.Elem(), seen)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if f.IsExported() && f.Tag.Get("json") != "-" && holdsObject(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

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
	case v.rv.Kind() == reflect.Struct:
		v.plan = planOf(v.rv.Type())
		for _, f := range v.plan.fields {
			if !f.omitEmpty || !isEmpty(v.rv.FieldByIndex(f.index)) {
				v.keys = append(v.keys, f.name)
			}
		}
	default:
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

// structPlan is what the json tags of a struct type say. Immutable once built.
type structPlan struct {
	fields []planField
	byName map[string]planField
}

type planField struct {
	name      string
	index     []int
	omitEmpty bool
}

var plans sync.Map // reflect.Type -> *structPlan

func planOf(t reflect.Type) *structPlan {
	if p, ok := plans.Load(t); ok {
		return p.(*structPlan)
	}
	p := &structPlan{byName: map[string]planField{}}
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		if f.Anonymous && name == "" {
			continue // its fields are visible themselves
		}
		if name == "" {
			name = f.Name
		}
		pf := planField{name: name, index: f.Index, omitEmpty: strings.Contains(opts, "omit")}
		if _, dup := p.byName[name]; dup {
			continue
		}
		p.byName[name] = pf
		p.fields = append(p.fields, pf)
	}
	got, _ := plans.LoadOrStore(t, p)
	return got.(*structPlan)
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return v.Len() == 0
	}
	return v.IsZero()
}
