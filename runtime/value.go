package runtime

import (
	"math"
	"reflect"
	"strconv"
	"strings"
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
	case bool, string, Number, *View, Func, *GoFunc, []any, map[string]any:
		return v
	case Object:
		if rv := reflect.ValueOf(v); rv.Kind() == reflect.Pointer && rv.IsNil() {
			return nil
		}
		return v
	case int:
		return intValue(int64(v))
	case int64:
		return intValue(v)
	case float64:
		return floatValue(v)
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

// numberValue reads a JSON number literal. What a float does not keep stays a literal:
// the digits decide, so that 1.50 is 1.5.
func numberValue(s string) Value {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil && (i != 0 || s[0] != '-') {
		return intValue(i)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != 0 && !strings.ContainsAny(s, ".eE") {
		return Number(s)
	}
	// 15 digits always come back from a float, more may not.
	if d := digits(s); len(d) > 15 && d != digits(strconv.FormatFloat(f, 'e', -1, 64)) || f == 0 && d != "" {
		return Number(s)
	}
	return floatValue(f)
}

// digits are a literal's significant ones, without the zeros around them.
func digits(s string) string {
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		s = s[:i]
	}
	s = strings.Replace(strings.TrimPrefix(s, "-"), ".", "", 1)
	return strings.Trim(s, "0")
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
