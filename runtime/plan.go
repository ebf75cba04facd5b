package runtime

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// valueKind is how Go values of one type become Values.
type valueKind uint8

const (
	kindNone    valueKind = iota // nothing that a script could read
	kindPointer                  // what it points to
	kindAny                      // of an interface: what is in it
	kindRaw                      // JSON text
	kindNumber                   // Number, json.Number
	kindObject
	kindMarshal // writes its own JSON
	kindText    // writes its own text
	kindBool
	kindString
	kindInt
	kindUint
	kindFloat
	kindView // struct, map, slice, array
)

var (
	rawType       = reflect.TypeFor[json.RawMessage]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
	objectType    = reflect.TypeFor[Object]()
	numberTypes   = [2]reflect.Type{reflect.TypeFor[Number](), reflect.TypeFor[json.Number]()}
)

var kinds sync.Map // reflect.Type with methods -> valueKind: asking for interfaces is slow

func kindOf(t reflect.Type) valueKind {
	switch {
	case t.Kind() == reflect.Interface:
		return kindAny
	case t.NumMethod() == 0 && t != rawType && t != numberTypes[0]:
		return plainKind(t)
	}
	if k, ok := kinds.Load(t); ok {
		return k.(valueKind)
	}
	k := methodKind(t)
	kinds.Store(t, k)
	return k
}

func methodKind(t reflect.Type) valueKind {
	switch {
	case t == rawType:
		return kindRaw
	case t == numberTypes[0] || t == numberTypes[1]:
		return kindNumber
	case t.Implements(objectType):
		return kindObject
	case t.Implements(marshalerType):
		return kindMarshal
	case t.Implements(textType):
		return kindText
	}
	return plainKind(t)
}

func plainKind(t reflect.Type) valueKind {
	switch t.Kind() {
	case reflect.Pointer:
		return kindPointer
	case reflect.Bool:
		return kindBool
	case reflect.String:
		return kindString
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return kindInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return kindUint
	case reflect.Float32, reflect.Float64:
		return kindFloat
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		return kindView
	}
	return kindNone
}

func reflectValue(v reflect.Value) Value {
	if !v.IsValid() {
		return nil
	}
	return kindOf(v.Type()).value(v)
}

// value converts v, whose type is of this kind.
func (k valueKind) value(v reflect.Value) Value {
	switch k {
	case kindBool:
		return v.Bool()
	case kindString:
		return v.String()
	case kindInt:
		return intValue(v.Int())
	case kindUint:
		if u := v.Uint(); u > maxExact {
			return Number(strconv.FormatUint(u, 10))
		}
		return int64(v.Uint())
	case kindFloat:
		return floatValue(v.Float())
	case kindView:
		return viewOf(v)
	case kindRaw:
		return rawValue(v.Bytes())
	case kindNumber:
		return numberValue(v.String())
	}
	if (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil() {
		return nil
	}
	switch k {
	case kindPointer:
		return reflectValue(v.Elem())
	case kindAny:
		return ValueOf(v.Interface())
	case kindObject:
		return v.Interface()
	case kindMarshal:
		if raw, err := json.Marshal(v.Interface()); err == nil {
			return rawValue(raw)
		}
	case kindText:
		if text, err := v.Interface().(encoding.TextMarshaler).MarshalText(); err == nil {
			return string(text)
		}
	}
	return nil
}

// structPlan is what the tags of a struct type say. Immutable once built.
type structPlan struct {
	fields []*planField
	byName map[string]*planField
	enums  bool // any field has one
}

type planField struct {
	name      string
	index     []int
	kind      valueKind
	omitEmpty bool
	omitZero  bool
	enum      []string // of a string: what it may be
}

// of reads the field of a struct; false when it is left out.
func (f *planField) of(rv reflect.Value) (reflect.Value, bool) {
	var fv reflect.Value
	if len(f.index) == 1 {
		fv = rv.Field(f.index[0])
	} else {
		var err error
		if fv, err = rv.FieldByIndexErr(f.index); err != nil {
			return fv, false // in an embedded pointer that is nil
		}
	}
	return fv, !(f.omitEmpty && isEmpty(fv) || f.omitZero && isZero(fv))
}

var plans sync.Map // reflect.Type -> *structPlan

func planOf(t reflect.Type) *structPlan {
	if p, ok := plans.Load(t); ok {
		return p.(*structPlan)
	}
	p := &structPlan{byName: map[string]*planField{}}
	var closed [][]int // embedded structs whose fields are not this one's
	for _, f := range reflect.VisibleFields(t) {
		if slices.ContainsFunc(closed, func(c []int) bool { return len(f.Index) > len(c) && slices.Equal(f.Index[:len(c)], c) }) {
			continue
		}
		tag := f.Tag.Get("json")
		name, opts, _ := strings.Cut(tag, ",")
		if f.Anonymous && indirect(f.Type).Kind() == reflect.Struct {
			if name == "" {
				continue // its fields are visible themselves
			}
			closed = append(closed, f.Index)
		}
		if tag == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		pf := &planField{name: name, index: f.Index, kind: kindOf(f.Type)}
		for opt := range strings.SplitSeq(opts, ",") {
			pf.omitEmpty = pf.omitEmpty || opt == "omitempty"
			pf.omitZero = pf.omitZero || opt == "omitzero"
		}
		if enum, ok := f.Tag.Lookup("enum"); ok && f.Type.Kind() == reflect.String {
			pf.enum, p.enums = strings.Split(enum, "|"), true
		}
		if old := p.byName[name]; old == nil {
			p.fields = append(p.fields, pf)
			p.byName[name] = pf
		} else if len(f.Index) < len(old.index) {
			*old = *pf // the outer field hides the embedded one
		}
	}
	got, _ := plans.LoadOrStore(t, p)
	return got.(*structPlan)
}

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// isEmpty is encoding/json's omitempty.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// isZero is encoding/json's omitzero.
func isZero(v reflect.Value) bool {
	if z, ok := v.Interface().(interface{ IsZero() bool }); ok && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		return z.IsZero()
	}
	return v.IsZero()
}
