package runtime

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Decode reads what a script gave into *dst, strictly: a field that dst does not have, a
// value outside an `enum:"a|b"` tag or of another type is an error that names the field
// and the nearest valid one. A *View of the same Go type is taken over as it is. A type
// with Validate() error has the last word. An empty object counts as an empty list,
// since Lua cannot tell them apart.
func Decode(v Value, dst any) error { return decode(v, reflect.ValueOf(dst).Elem()) }

func want(v Value, what string) error { return misfit("got %s, want %s", TypeName(v), what) }

var (
	valueType     = reflect.TypeFor[any]()
	funcType      = reflect.TypeFor[Func]()
	unmarshalType = reflect.TypeFor[json.Unmarshaler]()
)

func decode(v Value, dst reflect.Value) error {
	t := dst.Type()
	if view, ok := v.(*View); ok && t != valueType && view.raw == nil && view.rv.Type().AssignableTo(t) {
		dst.Set(view.rv)
		return nil
	}
	switch {
	case t == valueType:
		if v != nil {
			dst.Set(reflect.ValueOf(v))
		}
		return nil
	case t == rawType:
		raw, err := AppendJSON(nil, v, "")
		dst.SetBytes(raw)
		return err
	case t.Kind() == reflect.Interface || kindOf(t) == kindObject:
		rv := reflect.ValueOf(v)
		if v == nil || !rv.Type().AssignableTo(t) {
			return want(v, typeWord(t))
		}
		dst.Set(rv)
		return nil
	case t.Kind() == reflect.Pointer:
		if v == nil {
			return nil
		}
		e := reflect.New(t.Elem())
		if err := decode(v, e.Elem()); err != nil {
			return err
		}
		dst.Set(e)
		return nil
	case readsJSON(t):
		raw, err := AppendJSON(nil, v, "")
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, dst.Addr().Interface()); err != nil {
			return &misfitError{err: err}
		}
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		s, ok := v.(string)
		if !ok {
			return want(v, "string")
		}
		dst.SetString(s)
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			return want(v, "boolean")
		}
		dst.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, ok := wholeNumber(v)
		if !ok || dst.OverflowInt(i) {
			return want(v, "whole number")
		}
		dst.SetInt(i)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		i, ok := wholeNumber(v)
		if !ok || i < 0 || dst.OverflowUint(uint64(i)) {
			return want(v, "whole number from 0 up")
		}
		dst.SetUint(uint64(i))
	case reflect.Float32, reflect.Float64:
		f, ok := floatNumber(v)
		if !ok {
			return want(v, "number")
		}
		dst.SetFloat(f)
	case reflect.Slice:
		return decodeSlice(v, dst)
	case reflect.Map:
		return decodeMap(v, dst)
	case reflect.Struct:
		return decodeStruct(v, dst)
	default:
		return misfit("cannot take a %s", typeWord(t))
	}
	return nil
}

// readsJSON says whether a type reads its own JSON.
func readsJSON(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.NumMethod() > 0 && p.Implements(unmarshalType)
}

func wholeNumber(v Value) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) <= maxExact
	case Number:
		i, err := strconv.ParseInt(string(v), 10, 64)
		return i, err == nil
	}
	return 0, false
}

func floatNumber(v Value) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	case Number:
		f, err := strconv.ParseFloat(string(v), 64)
		return f, err == nil
	}
	return 0, false
}

func typeWord(t reflect.Type) string {
	switch {
	case t == funcType:
		return "function"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		return "object"
	}
	return strings.ToLower(indirect(t).Name())
}

func decodeSlice(v Value, dst reflect.Value) error {
	n, at, ok := listOf(v)
	if !ok {
		return want(v, "list")
	}
	out := reflect.MakeSlice(dst.Type(), n, n)
	for i := range n {
		if err := decode(at(i), out.Index(i)); err != nil {
			return withinItem(err, i)
		}
	}
	dst.Set(out)
	return nil
}

// listOf reads a list from either side.
func listOf(v Value) (n int, at func(int) Value, ok bool) {
	switch v := v.(type) {
	case []any:
		return len(v), func(i int) Value { return v[i] }, true
	case *View:
		if v.list {
			return v.Len(), v.At, true
		}
		return 0, nil, v.Len() == 0
	case map[string]any:
		return 0, nil, len(v) == 0
	}
	return 0, nil, false
}

// objectOf reads an object from either side. Of several faults the first key's is told.
func objectOf(v Value) (keys []string, get func(string) Value, ok bool) {
	switch v := v.(type) {
	case map[string]any:
		return slices.Sorted(maps.Keys(v)), func(k string) Value { return v[k] }, true
	case *View:
		if v.list {
			return nil, nil, false
		}
		return v.Keys(), func(k string) Value { e, _ := v.Get(k); return e }, true
	}
	return nil, nil, false
}

func decodeMap(v Value, dst reflect.Value) error {
	keys, get, ok := objectOf(v)
	if !ok {
		return want(v, "object")
	}
	t := dst.Type()
	if t.Key().Kind() != reflect.String {
		return misfit("cannot take keys of type %s", typeWord(t.Key()))
	}
	out := reflect.MakeMapWithSize(t, len(keys))
	for _, k := range keys {
		e := reflect.New(t.Elem()).Elem()
		if err := decode(get(k), e); err != nil {
			return within(err, k)
		}
		out.SetMapIndex(reflect.ValueOf(k).Convert(t.Key()), e)
	}
	dst.Set(out)
	return nil
}

func decodeStruct(v Value, dst reflect.Value) error {
	keys, get, ok := objectOf(v)
	if !ok {
		return want(v, "object")
	}
	plan := planOf(dst.Type())
	for _, k := range keys {
		f := plan.byName[k]
		if f == nil {
			names := make([]string, 0, len(plan.fields))
			for _, f := range plan.fields {
				names = append(names, f.name)
			}
			hint := didYouMean(k, names)
			if hint == "" {
				hint = ", want one of " + strings.Join(names, ", ")
			}
			return misfit("unknown field %q%s", k, hint)
		}
		e := get(k)
		if e == nil {
			continue // a field set to nothing is a field left out
		}
		field, err := dst.FieldByIndexErr(f.index)
		if err != nil {
			return within(misfit("cannot be set"), k)
		}
		if err := decode(e, field); err != nil {
			return within(err, k)
		}
	}
	if err := plan.checkEnums(dst); err != nil {
		return err
	}
	if val, ok := dst.Addr().Interface().(interface{ Validate() error }); ok {
		if err := val.Validate(); err != nil {
			return &misfitError{err: err}
		}
	}
	return nil
}

// checkEnums holds string fields against their `enum:"a|b"` tag. An empty string passes
// only where the field may be left out.
func (p *structPlan) checkEnums(dst reflect.Value) error {
	if !p.enums {
		return nil
	}
	for _, f := range p.fields {
		if f.enum == nil {
			continue
		}
		fv, _ := f.of(dst)
		if !fv.IsValid() {
			continue
		}
		s := fv.String()
		switch {
		case slices.Contains(f.enum, s):
		case s != "":
			hint := didYouMean(s, f.enum)
			if hint == "" {
				hint = ", want one of " + strings.Join(f.enum, ", ")
			}
			return misfit("unknown %s %q%s", f.name, s, hint)
		case !f.omitEmpty && !f.omitZero:
			return misfit("missing field %q, want one of %s", f.name, strings.Join(f.enum, ", "))
		}
	}
	return nil
}

// didYouMean is " (did you mean ...?)" with the nearest of names, or "".
func didYouMean(got string, names []string) string {
	if n := Nearest(got, names); n != "" {
		return fmt.Sprintf(" (did you mean %q?)", n)
	}
	return ""
}

// maxNear is how long a name may be that is taken for another one's misspelling.
const maxNear = 200

// Nearest finds the name that differs least from got, by edit distance with adjacent
// swaps counting once; "" when nothing is near: a far-fetched suggestion misleads.
func Nearest(got string, names []string) string {
	if len(got) > maxNear {
		return "" // and the comparison would take its time
	}
	best, bestD := "", max(2, len(got)/3+1)
	for _, n := range names {
		if d := distance(strings.ToLower(got), strings.ToLower(n)); d < bestD {
			best, bestD = n, d
		}
	}
	return best
}

func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
