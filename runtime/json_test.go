package runtime_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

func TestAppendJSON(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "null"}, {true, "true"}, {int64(-3), "-3"}, {1.5, "1.5"}, {1e21, "1e+21"}, {runtime.Number("12345678901234567890"), "12345678901234567890"},
		{"plain", `"plain"`}, {"", `""`}, {"<a href=\"x\">&\\\n\x01é\u2028😀", `"<a href=\"x\">&\\\n\u0001é\u2028😀"`},
		{map[string]any{"b": int64(1), "a": []any{nil, map[string]any{}}, "<": "x"}, `{"<":"x","a":[null,{}],"b":1}`},
		{[]any{runtime.ValueOf(json.RawMessage(" {\"z\": 1, \"a\" :2}\n"))}, `[{"z": 1, "a" :2}]`},
		{[]any{1, named{2}, []string{"x"}, math.MaxInt64}, `[1,{"X":2},["x"],9223372036854775807]`}, // plain Go inside what Go hands over
	} {
		got, err := runtime.AppendJSON([]byte("> "), c.v, "value")
		if err != nil || string(got) != "> "+c.want {
			t.Errorf("%v: %s, %v, want %s", c.v, got, err, c.want)
		}
	}
}

func nested(n int) any {
	var v any = int64(1)
	for range n {
		v = []any{v}
	}
	return v
}

func TestAppendJSONRefusesAndNamesThePlace(t *testing.T) {
	a := &runtimetest.Agent{}
	big := strings.Repeat("x", runtime.MaxValueSize)
	half := big[:len(big)/2]
	for _, c := range []struct {
		v    any
		want string
	}{
		{a, "value: a live agent is not a JSON value"},
		{map[string]any{"x": []any{int64(1), a}}, "value.x[1]: a live agent is not a JSON value"},
		{runtime.ValueOf(runtimetest.NoticePayload{Agent: a}), "value.agent: a live agent is not a JSON value"},
		{runtime.ValueOf([]runtimetest.NoticePayload{{}, {Agent: a}}), "value[1].agent: a live agent is not a JSON value"},
		{[]any{&runtime.GoFunc{}}, "value[0]: a function is not a JSON value"},
		{map[string]any{"n": math.NaN()}, "value.n: NaN is not a JSON value"},
		{math.Inf(-1), "value: -Inf is not a JSON value"},
		{"\xff", "value: a string with invalid UTF-8 is not a JSON value"},
		{map[string]any{"\xff": nil}, "value: a string with invalid UTF-8 is not a JSON value"},
		{runtime.Number("1,5"), `value: "1,5" is not a number`}, {runtime.Number(""), `value: "" is not a number`},
		{runtime.Number("true"), `value: "true" is not a number`}, {runtime.Number("[1]"), `value: "[1]" is not a number`},
		{nested(runtime.MaxValueDepth + 1), "value" + strings.Repeat("[0]", runtime.MaxValueDepth+1) + ": nested more than 200 deep"},
		{big, "value: larger than 64 MiB"},
		{[]any{half, half, half}, "value[1]: larger than 64 MiB"},
	} {
		got, err := runtime.AppendJSON(nil, c.v, "value")
		if err == nil || err.Error() != c.want || got != nil {
			t.Errorf("got %.80v\nwant %.80s", err, c.want)
		}
	}
	if _, err := runtime.MarshalValue(nested(runtime.MaxValueDepth)); err != nil {
		t.Errorf("at the cap: %v", err)
	}
	if _, err := runtime.MarshalValue(big[:runtime.MaxValueSize-2]); err != nil {
		t.Errorf("at the cap: %v", err)
	}
}

// What AppendJSON writes is JSON that reads as the same value, and Decode takes it over.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`null`, `true`, `-0`, `1e400`, `9007199254740993`, `0.1000000000000000055511151231257827`, `"\u2028<\ud83d\ude00"`, `[]`, `{}`,
		`{"b":[1,{"a":null}],"a":"x"}`, `[[[[1.50]]]]`, `{"":{"":[]}}`, ` [1 , 2 ] `, `{"a":1,"a":2}`, `"\ud800"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		view := runtime.ValueOf(json.RawMessage(text))
		untouched, err := runtime.MarshalValue(view)
		if err != nil {
			t.Fatalf("untouched: %v", err)
		}
		if _, ok := view.(*runtime.View); ok && !bytes.Equal(untouched, bytes.TrimSpace(text)) {
			t.Fatalf("an untouched value was changed: %s", untouched)
		}
		made := copyOf(view)
		first, err := runtime.MarshalValue(made)
		if err != nil {
			if strings.Contains(err.Error(), "nested more than") {
				return
			}
			t.Fatalf("a copy: %v", err)
		}
		if !json.Valid(first) {
			t.Fatalf("not JSON: %s", first)
		}
		var ours, theirs any
		if json.Unmarshal(text, &theirs) == nil { // else a number is too large
			if err := json.Unmarshal(first, &ours); err != nil || !reflect.DeepEqual(ours, theirs) {
				t.Fatalf("read as %s, %v", first, err)
			}
		}
		second, err := runtime.MarshalValue(copyOf(runtime.ValueOf(first)))
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("not stable: %s, then %s, %v", first, second, err)
		}
		var into struct {
			V json.RawMessage `json:"v"`
			A any             `json:"a"`
		}
		if err := runtime.Decode(map[string]any{"v": made, "a": view}, &into); err != nil {
			t.Fatalf("Decode: %v", err)
		}
		if made != nil && !bytes.Equal(into.V, first) || into.A == nil != (view == nil) {
			t.Fatalf("Decode: %s, %v", into.V, into.A)
		}
		for _, dst := range []any{new(everything), new(runtimetest.Decision), new([]string), new(map[string]int64), new(float64), new(*bool), new(runtime.FilterShape)} {
			_ = runtime.Decode(made, dst) // whatever comes, it must not panic
			_ = runtime.Decode(view, dst)
		}
	})
}

// copyOf is a value as a script would make it.
func copyOf(v runtime.Value) runtime.Value {
	x, ok := v.(*runtime.View)
	switch {
	case !ok:
		return v
	case x.IsList():
		out := []any{}
		for i := range x.Len() {
			out = append(out, copyOf(x.At(i)))
		}
		return out
	}
	out := map[string]any{}
	for _, k := range x.Keys() {
		e, _ := x.Get(k)
		out[k] = copyOf(e)
	}
	return out
}

func TestRawTextIsSplitOneLevelAtATime(t *testing.T) {
	v := runtime.ValueOf(json.RawMessage(" {\"b\\u0020c\": [1, {\"x\":\"}\"}] , \"a\":\"\\\"]\",\"a\" : null, \"\":\"\xff\"}\n")).(*runtime.View)
	if got := strings.Join(v.Keys(), "|"); got != "|a|b c" {
		t.Errorf("keys %q", got)
	}
	if a, ok := v.Get("a"); a != nil || !ok {
		t.Errorf("of two members with one key the last does not count: %v", a)
	}
	if s, _ := v.Get(""); s != "\ufffd" {
		t.Errorf("invalid UTF-8: %q", s)
	}
	list, _ := v.Get("b c")
	if again, _ := v.Get("b c"); again != list {
		t.Error("a member is another value when it is read again")
	}
	x, _ := list.(*runtime.View).At(1).(*runtime.View).Get("x")
	if list.(*runtime.View).Len() != 2 || list.(*runtime.View).At(0) != int64(1) || x != "}" {
		t.Errorf("%v", list)
	}
	for _, bad := range []string{"{", "[", "[1", `{"a"`, `{"a":}`, `{"a":1,}`, `[1,]`, `["\`, `{"a":"`, `]`, `"`, `"\`, ``, `x`, `-`, `[}`} {
		v, ok := runtime.ValueOf(json.RawMessage(bad)).(*runtime.View)
		if !ok {
			continue
		}
		if _, found := v.Get("a"); v.Len() != 0 || found || v.At(0) != nil || len(v.Keys()) != 0 {
			t.Errorf("%s has members", bad)
		}
	}
}
