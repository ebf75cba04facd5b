package runtime

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Decode reads what a script gave into *dst, strictly: a field that dst does not have, a
// value outside an `enum:"a|b"` tag or of another type is an error that names the field
// and the nearest valid one. A *View of the same Go type is taken over as it is. A type
// with Validate() error has the last word. An empty object counts as an empty list,
// since Lua cannot tell them apart.
func Decode(v Value, dst any) error { return decode(v, reflect.ValueOf(dst).Elem(), "") }

type decodeError struct{ path, msg string }

func (e *decodeError) Error() string {
	if e.path == "" {
		return e.msg
	}
	return e.path + ": " + e.msg
}

func badf(path, format string, args ...any) error {
	return &decodeError{path, fmt.Sprintf(format, args...)}
}

func want(path string, v Value, what string) error {
	return badf(path, "got %s, want %s", TypeName(v), what)
}

var (
	valueType     = reflect.TypeFor[any]()
	funcType      = reflect.TypeFor[Func]()
	unmarshalType = reflect.TypeFor[json.Unmarshaler]()
)

func decode(v Value, dst reflect.Value, path string) error {
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
		raw, err := AppendJSON(nil, v, orValue(path))
		dst.SetBytes(raw)
		return err
	case t.Kind() == reflect.Interface || t.Implements(objectType):
		rv := reflect.ValueOf(v)
		if v == nil || !rv.Type().AssignableTo(t) {
			return want(path, v, typeWord(t))
		}
		dst.Set(rv)
		return nil
	case t.Kind() == reflect.Pointer:
		if v == nil {
			return nil
		}
		e := reflect.New(t.Elem())
		if err := decode(v, e.Elem(), path); err != nil {
			return err
		}
		dst.Set(e)
		return nil
	case reflect.PointerTo(t).Implements(unmarshalType):
		raw, err := AppendJSON(nil, v, orValue(path))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, dst.Addr().Interface()); err != nil {
			return badf(path, "%v", err)
		}
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		s, ok := v.(string)
		if !ok {
			return want(path, v, "string")
		}
		dst.SetString(s)
	case reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			return want(path, v, "boolean")
		}
		dst.SetBool(b)
	case reflect.Int, reflect.Int64, reflect.Int32:
		i, ok := wholeNumber(v)
		if !ok || dst.OverflowInt(i) {
			return want(path, v, "whole number")
		}
		dst.SetInt(i)
	case reflect.Float64:
		f, ok := floatNumber(v)
		if !ok {
			return want(path, v, "number")
		}
		dst.SetFloat(f)
	case reflect.Slice:
		return decodeSlice(v, dst, path)
	case reflect.Map:
		return decodeMap(v, dst, path)
	case reflect.Struct:
		return decodeStruct(v, dst, path)
	default:
		return badf(path, "cannot take a %s", typeWord(t))
	}
	return nil
}

func orValue(path string) string {
	if path == "" {
		return "value"
	}
	return path
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
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return strings.ToLower(t.Name())
}

func decodeSlice(v Value, dst reflect.Value, path string) error {
	n, at, ok := listOf(v)
	if !ok {
		return want(path, v, "list")
	}
	out := reflect.MakeSlice(dst.Type(), n, n)
	for i := range n {
		if err := decode(at(i), out.Index(i), path+"["+strconv.Itoa(i)+"]"); err != nil {
			return err
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

// objectOf reads an object from either side.
func objectOf(v Value) (keys []string, get func(string) Value, ok bool) {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			keys = append(keys, k)
		}
		return keys, func(k string) Value { return v[k] }, true
	case *View:
		if v.list {
			return nil, nil, false
		}
		return v.Keys(), func(k string) Value { e, _ := v.Get(k); return e }, true
	}
	return nil, nil, false
}

func decodeMap(v Value, dst reflect.Value, path string) error {
	keys, get, ok := objectOf(v)
	if !ok {
		return want(path, v, "object")
	}
	out := reflect.MakeMapWithSize(dst.Type(), len(keys))
	for _, k := range keys {
		e := reflect.New(dst.Type().Elem()).Elem()
		if err := decode(get(k), e, join(path, k)); err != nil {
			return err
		}
		out.SetMapIndex(reflect.ValueOf(k), e)
	}
	dst.Set(out)
	return nil
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func decodeStruct(v Value, dst reflect.Value, path string) error {
	keys, get, ok := objectOf(v)
	if !ok {
		return want(path, v, "object")
	}
	plan := planOf(dst.Type())
	for _, k := range keys {
		f, ok := plan.byName[k]
		if !ok {
			names := make([]string, 0, len(plan.fields))
			for _, f := range plan.fields {
				names = append(names, f.name)
			}
			return badf(path, "unknown field %q%s", k, didYouMean(k, names))
		}
		e := get(k)
		if e == nil {
			continue // a field set to nothing is a field left out
		}
		if err := decode(e, dst.FieldByIndex(f.index), join(path, k)); err != nil {
			return err
		}
	}
	if err := checkEnums(dst, path); err != nil {
		return err
	}
	if val, ok := dst.Addr().Interface().(interface{ Validate() error }); ok {
		if err := val.Validate(); err != nil {
			return badf(path, "%v", err)
		}
	}
	return nil
}

// checkEnums holds string fields against their `enum:"a|b"` tag. An empty string passes
// only where the field may be left out.
func checkEnums(dst reflect.Value, path string) error {
	t := dst.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("enum")
		if !ok || f.Type.Kind() != reflect.String {
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		s := dst.Field(i).String()
		allowed := strings.Split(tag, "|")
		if s == "" {
			if strings.Contains(opts, "omit") {
				continue
			}
			return badf(path, "missing field %q, want one of %s", name, strings.Join(allowed, ", "))
		}
		found := false
		for _, a := range allowed {
			found = found || a == s
		}
		if !found {
			hint := didYouMean(s, allowed)
			if hint == "" {
				hint = ", want one of " + strings.Join(allowed, ", ")
			}
			return badf(path, "unknown %s %q%s", name, s, hint)
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

// Nearest finds the name that differs least from got, by edit distance with adjacent
// swaps counting once; "" when nothing is near.
func Nearest(got string, names []string) string {
	best, bestD := "", len(got)/2+2
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
