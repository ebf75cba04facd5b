package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// AppendJSON writes v as JSON without HTML escaping. Keys are sorted, a Go struct's in the
// order of its fields; JSON text that came from Go is written as it is. Live objects and functions are refused, as are NaN,
// infinities, invalid UTF-8 and what exceeds the caps; path names the place in the error.
func AppendJSON(dst []byte, v Value, path string) ([]byte, error) {
	out, err := writer{start: len(dst)}.value(dst, v, 0)
	if err != nil {
		return nil, within(err, path)
	}
	return out, nil
}

// MarshalValue is AppendJSON into a fresh slice.
func MarshalValue(v Value) (json.RawMessage, error) { return AppendJSON(nil, v, "value") }

// misfitError is a value that cannot be what it is to be. The path grows from the inside
// out, so that it costs nothing where all is well.
type misfitError struct {
	path string
	err  error
}

func (e *misfitError) Error() string {
	if e.path == "" {
		return e.err.Error()
	}
	return e.path + ": " + e.err.Error()
}

func (e *misfitError) Unwrap() error { return e.err }

func misfit(format string, args ...any) error {
	return &misfitError{err: fmt.Errorf(format, args...)}
}

// within puts the place of a misfit below outer: a field's name or "[3]".
func within(err error, outer string) error {
	e, ok := err.(*misfitError)
	if !ok {
		e = &misfitError{err: err}
	}
	switch {
	case outer == "":
	case e.path == "" || e.path[0] == '[':
		e.path = outer + e.path
	default:
		e.path = outer + "." + e.path
	}
	return e
}

func withinItem(err error, i int) error { return within(err, "["+strconv.Itoa(i)+"]") }

// writer appends JSON from start on.
type writer struct {
	start int
	loose bool // what is no JSON value becomes a text in brackets, for people to read
}

// room refuses what would not fit into the cap.
func (w writer) room(dst []byte, more int) error {
	if len(dst)-w.start+more > MaxValueSize {
		return misfit("larger than %d MiB", MaxValueSize>>20)
	}
	return nil
}

func (w writer) value(dst []byte, v Value, depth int) ([]byte, error) {
	if depth > MaxValueDepth {
		return nil, misfit("nested more than %d deep", MaxValueDepth)
	}
	if err := w.room(dst, 1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return w.text(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			if w.loose {
				return append(dst, "null"...), nil
			}
			return nil, misfit("%v is not a JSON value", v)
		}
		b, err := json.Marshal(v)
		return append(dst, b...), err
	case Number:
		if !json.Valid([]byte(v)) || v[0] != '-' && (v[0] < '0' || v[0] > '9') {
			return nil, misfit("%q is not a number", string(v))
		}
		return append(dst, v...), nil
	case *View:
		return w.view(dst, v, depth)
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = w.value(dst, e, depth+1); err != nil {
				return nil, withinItem(err, i)
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		dst = append(dst, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			var err error
			if dst, err = w.member(dst, i, k, v[k], depth); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case Object:
		if w.loose {
			return w.text(dst, "["+v.Class().Name+"]")
		}
		return nil, misfit("a live %s is not a JSON value", v.Class().Name)
	case Func, *GoFunc:
		if w.loose {
			return append(dst, `"[function]"`...), nil
		}
		return nil, misfit("a function is not a JSON value")
	}
	return w.value(dst, ValueOf(v), depth+1)
}

func (w writer) member(dst []byte, i int, k string, v Value, depth int) ([]byte, error) {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst, err := w.text(dst, k)
	if err != nil {
		return nil, err
	}
	if dst, err = w.value(append(dst, ':'), v, depth+1); err != nil {
		return nil, within(err, k)
	}
	return dst, nil
}

func (w writer) view(dst []byte, v *View, depth int) ([]byte, error) {
	if v.raw != nil {
		if err := w.room(dst, len(v.raw.text)); err != nil {
			return nil, err
		}
		return append(dst, v.raw.text...), nil
	}
	var err error
	if v.list {
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = w.value(dst, v.At(i), depth+1); err != nil {
				return nil, withinItem(err, i)
			}
		}
		return append(dst, ']'), nil
	}
	dst = append(dst, '{')
	for i, k := range v.Keys() {
		e, _ := v.Get(k)
		if dst, err = w.member(dst, i, k, e, depth); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func (w writer) text(dst []byte, s string) ([]byte, error) {
	if err := w.room(dst, len(s)+2); err != nil {
		return nil, err
	}
	plain := true
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		dst = append(slices.Grow(dst, len(s)+2), '"')
		return append(append(dst, s...), '"'), nil
	}
	if !utf8.ValidString(s) {
		return nil, misfit("a string with invalid UTF-8 is not a JSON value")
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return append(dst, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...), err
}
