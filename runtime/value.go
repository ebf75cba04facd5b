package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Value is what crosses between Go and a script. Its dynamic type is one of
//
//	nil, bool, string
//	int64, float64   numbers; an int64 lies within ±2^53
//	Number           a number whose digits neither of these keeps
//	*View            a structured value that came from Go, read field by field
//	[]any            a list that a script made
//	map[string]any   an object that a script made
//	Object           a live thing with methods, such as the agent
//	Func             a script's function
//	*GoFunc          a Go function for a script
//
// A binding gives a *View back as the same *View when the script has not touched it,
// inside lists and objects too: that is how untouched values cross unchanged.
type Value = any

// Number is a JSON number literal whose digits an int64 within ±2^53 or a float64 does
// not keep.
type Number string

// Caps on what scripts hand over; beyond them a value is refused, not cut.
const (
	MaxValueDepth = 200
	MaxValueSize  = 64 << 20 // bytes of JSON text
)

const maxExact = 1 << 53

// Func is a function of a script. It belongs to one VM and dies with it.
type Func interface{ VM() VM }

// GoFunc is a Go function given to a script as an argument, such as `next`.
type GoFunc struct {
	Name string
	// Waits says that Fn may leave the thread: JavaScript gets a promise (by Start),
	// Lua blocks.
	Waits bool
	Fn    func(*Call) (Value, error)
}

// ValueOf turns a Go value into a Value. Structs, maps, slices and raw JSON become a
// *View that converts a member when it is read; field names and omission follow the
// json tags. The value must not change afterwards.
func ValueOf(v any) Value {
	switch v := v.(type) {
	case nil:
		return nil
	case bool, string, Number, *View, Object, Func, *GoFunc, []any, map[string]any:
		return v
	case int:
		return intValue(int64(v))
	case int64:
		return intValue(v)
	case float64:
		return floatValue(v)
	case json.RawMessage:
		return rawValue(v)
	case json.Number:
		return numberValue(string(v))
	case error:
		return ValueOf(ShapeOf(v))
	}
	return reflectValue(reflect.ValueOf(v))
}

func intValue(i int64) Value {
	if i > maxExact || i < -maxExact {
		return Number(strconv.FormatInt(i, 10))
	}
	return i
}

// floatValue gives whole numbers as int64, so that 3.0 from a script is 3 everywhere.
func floatValue(f float64) Value {
	if f == math.Trunc(f) && math.Abs(f) <= maxExact && !(f == 0 && math.Signbit(f)) {
		return int64(f)
	}
	return f
}

// numberValue reads a JSON number literal.
func numberValue(s string) Value {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return intValue(i)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return Number(s)
	}
	if bytes.ContainsAny([]byte(s), ".eE") {
		// A literal with more digits than a float keeps stays a literal.
		if len(s) > 17 && strconv.FormatFloat(f, 'g', -1, 64) != s {
			return Number(s)
		}
		return floatValue(f)
	}
	return Number(s)
}

// rawValue reads one JSON text: scalars at once, the rest when it is looked into.
func rawValue(raw json.RawMessage) Value {
	b := bytes.TrimLeft(raw, " \t\r\n")
	if len(b) == 0 {
		return nil
	}
	switch b[0] {
	case '{', '[':
		return &View{list: b[0] == '[', raw: raw}
	case '"':
		var s string
		if json.Unmarshal(b, &s) != nil {
			return nil
		}
		return s
	case 't':
		return true
	case 'f':
		return false
	case 'n':
		return nil
	}
	return numberValue(string(bytes.TrimSpace(b)))
}

var (
	rawType       = reflect.TypeFor[json.RawMessage]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	objectType    = reflect.TypeFor[Object]()
)

func reflectValue(v reflect.Value) Value {
	if !v.IsValid() {
		return nil
	}
	t := v.Type()
	if t == rawType {
		return rawValue(v.Bytes())
	}
	if t.Implements(objectType) {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return nil
		}
		return v.Interface()
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if v.Kind() == reflect.Interface {
			return ValueOf(v.Elem().Interface())
		}
		if !t.Implements(marshalerType) {
			return reflectValue(v.Elem())
		}
	case reflect.Bool:
		return v.Bool()
	case reflect.String:
		return v.String()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return intValue(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if u := v.Uint(); u > maxExact {
			return Number(strconv.FormatUint(u, 10))
		} else {
			return int64(u)
		}
	case reflect.Float32, reflect.Float64:
		return floatValue(v.Float())
	}
	if t.Implements(marshalerType) {
		raw, err := json.Marshal(v.Interface())
		if err != nil {
			return nil
		}
		return rawValue(raw)
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map:
		return &View{rv: v}
	case reflect.Slice, reflect.Array:
		return &View{list: true, rv: v}
	}
	return nil
}

// AppendJSON writes v as JSON with sorted keys and without HTML escaping. Live objects
// and functions are refused, as are NaN, infinities, invalid UTF-8 and what exceeds the
// caps; path names the place in the error.
func AppendJSON(dst []byte, v Value, path string) ([]byte, error) {
	return appendJSON(dst, v, path, 0, false)
}

// MarshalValue is AppendJSON into a fresh slice.
func MarshalValue(v Value) (json.RawMessage, error) { return AppendJSON(nil, v, "value") }

// appendJSON with loose set writes what is no JSON value as a text in brackets, for
// people to read.
func appendJSON(dst []byte, v Value, path string, depth int, loose bool) ([]byte, error) {
	if depth > MaxValueDepth {
		return nil, fmt.Errorf("%s: nested more than %d deep", path, MaxValueDepth)
	}
	if len(dst) > MaxValueSize {
		return nil, fmt.Errorf("%s: larger than %d MiB", path, MaxValueSize>>20)
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendString(dst, v, path)
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			if loose {
				return append(dst, "null"...), nil
			}
			return nil, fmt.Errorf("%s: %v is not a JSON value", path, v)
		}
		b, err := json.Marshal(v)
		return append(dst, b...), err
	case Number:
		return append(dst, v...), nil
	case *View:
		if v.raw == nil && mayBeLive(v.rv.Type()) {
			return v.appendMembers(dst, path, depth, loose)
		}
		b, err := v.JSON()
		return append(dst, b...), err
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendJSON(dst, e, path+"["+strconv.Itoa(i)+"]", depth+1, loose); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		dst = append(dst, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendString(dst, k, path); err != nil {
				return nil, err
			}
			dst = append(dst, ':')
			if dst, err = appendJSON(dst, v[k], path+"."+k, depth+1, loose); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case Object:
		if loose {
			return appendString(dst, "["+v.Class().Name+"]", path)
		}
		return nil, fmt.Errorf("%s: a live %s is not a JSON value", path, v.Class().Name)
	case Func, *GoFunc:
		if loose {
			return append(dst, `"[function]"`...), nil
		}
		return nil, fmt.Errorf("%s: a function is not a JSON value", path)
	}
	b, err := marshalGo(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return append(dst, b...), nil
}

func appendString(dst []byte, s, path string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%s: a string with invalid UTF-8 is not a JSON value", path)
	}
	if plainASCII(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"'), nil
	}
	b, err := marshalGo(s)
	return append(dst, b...), err
}

// plainASCII says whether a string is its own JSON text between quotes, as most are.
func plainASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// marshalGo is json.Marshal without HTML escaping.
func marshalGo(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// TypeName is how messages call a value's type.
func TypeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case bool:
		return "boolean"
	case string:
		return "string"
	case int64, float64, Number, int:
		return "number"
	case *View:
		if v.list {
			return "list"
		}
		return "object"
	case []any:
		return "list"
	case map[string]any:
		return "object"
	case Func, *GoFunc:
		return "function"
	case Object:
		return v.Class().Name
	}
	return reflect.TypeOf(v).String()
}
