package runtime_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

type checked struct {
	N int `json:"n"`
}

func (c *checked) Validate() error {
	if c.N < 0 {
		return errBoom
	}
	return nil
}

func (everything) Validate() error { return nil }

type target struct {
	base2
	S    string             `json:"s"`
	B    bool               `json:"b"`
	I    int32              `json:"i"`
	U    uint8              `json:"u"`
	F    float64            `json:"f"`
	L    []checked          `json:"l"`
	M    map[level][]string `json:"m"`
	P    *checked           `json:"p"`
	Raw  json.RawMessage    `json:"raw"`
	Any  any                `json:"any"`
	Own  ownJSON            `json:"own"`
	A    *runtimetest.Agent `json:"agent"`
	Fn   runtime.Func       `json:"fn"`
	Ch   chan int           `json:"ch"`
	Kind string             `json:"kind,omitempty" enum:"allow|deny"`
	*ptrBase
}

func TestDecode(t *testing.T) {
	a := &runtimetest.Agent{}
	anyView := runtime.ValueOf(named{1})
	in := map[string]any{
		"inner": "i", "mode": "a", "s": "x", "b": true, "i": 3.0, "u": int64(255), "f": int64(2), "l": []any{map[string]any{"n": int64(1)}},
		"m": map[string]any{"k": []any{"v"}}, "p": map[string]any{"n": runtime.Number("5")}, "raw": map[string]any{"z": nil, "a": []any{}},
		"any": anyView, "own": map[string]any{"N": int64(6)}, "agent": a, "kind": "deny", "ch": nil,
	}
	want := target{base2: base2{Inner: "i", Mode: "a"}, S: "x", B: true, I: 3, U: 255, F: 2, L: []checked{{1}}, M: map[level][]string{"k": {"v"}},
		P: &checked{5}, Raw: json.RawMessage(`{"a":[],"z":null}`), Any: anyView, Own: ownJSON{6}, A: a, Kind: "deny"}
	var got target
	if err := runtime.Decode(in, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
}

func TestDecodeTakesViewsOverAsTheyAre(t *testing.T) {
	lists := [][]string{{"a"}}
	type holder struct {
		L [][]string `json:"l"`
	}
	for name, v := range map[string]runtime.Value{
		"the whole": runtime.ValueOf(holder{lists}),
		"a member":  map[string]any{"l": runtime.ValueOf(lists)},
		"inside":    map[string]any{"l": []any{runtime.ValueOf(lists[0])}},
	} {
		var got holder
		if err := runtime.Decode(v, &got); err != nil || &got.L[0][0] != &lists[0][0] {
			t.Errorf("%s was copied, %v", name, err)
		}
	}
	// Of another type, or raw, it is read field by field.
	var got runtimetest.Decision
	if err := runtime.Decode(runtime.ValueOf(json.RawMessage(`{"kind":"deny"}`)), &got); err != nil || got.Kind != "deny" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := runtime.Decode(runtime.ValueOf(struct {
		Kind string `json:"kind"`
	}{"ask"}), &got); err != nil || got.Kind != "ask" {
		t.Errorf("%+v, %v", got, err)
	}
	var ptr *holder
	if err := runtime.Decode(runtime.ValueOf(holder{lists}), &ptr); err != nil || ptr == nil || len(ptr.L) != 1 {
		t.Errorf("%v, %v", ptr, err)
	}
}

func TestDecodeIsStrictAndNamesTheField(t *testing.T) {
	for want, v := range map[string]runtime.Value{
		`unknown field "sx" (did you mean "s"?)`: map[string]any{"sx": "y"},
		`unknown field "Hidden", want one of inner, name, mode, s, b, i, u, f, l, m, p, raw, any, own, agent, fn, ch, kind, deep`: map[string]any{"Hidden": "y"},
		`s: got number, want string`:                                             map[string]any{"s": int64(1)},
		`b: got string, want boolean`:                                            map[string]any{"b": "true"},
		`i: got number, want whole number`:                                       map[string]any{"i": 1.5},
		`u: got number, want whole number from 0 up`:                             map[string]any{"u": int64(-1)},
		`f: got boolean, want number`:                                            map[string]any{"f": true},
		`l: got string, want list`:                                               map[string]any{"l": "x"},
		`l[1]: got number, want object`:                                          map[string]any{"l": []any{map[string]any{}, int64(1)}},
		`l[0].n: got string, want whole number`:                                  map[string]any{"l": []any{map[string]any{"n": "1"}}},
		`l[0]: boom`:                                                             map[string]any{"l": []any{map[string]any{"n": int64(-1)}}},
		`m: got list, want object`:                                               map[string]any{"m": []any{int64(1)}},
		`m.k[0]: got nothing, want string`:                                       map[string]any{"m": map[string]any{"k": []any{nil}}},
		`p: unknown field "m" (did you mean "n"?)`:                               map[string]any{"p": map[string]any{"m": int64(1)}},
		`raw.x: a live agent is not a JSON value`:                                map[string]any{"raw": map[string]any{"x": &runtimetest.Agent{}}},
		`own: json: cannot unmarshal string into Go struct field .N of type int`: map[string]any{"own": map[string]any{"N": "x"}},
		`agent: got object, want agent`:                                          map[string]any{"agent": map[string]any{}},
		`fn: got string, want function`:                                          map[string]any{"fn": "x"},
		`ch: cannot take a `:                                                     map[string]any{"ch": int64(1)},
		`unknown kind "dney" (did you mean "deny"?)`:                             map[string]any{"kind": "dney"},
		`unknown mode "xyzxyz", want one of a, b`:                                map[string]any{"mode": "xyzxyz"},
		`deep: cannot be set`:                                                    map[string]any{"deep": "x"},
		`got list, want object`:                                                  []any{int64(1)},
		`got nothing, want object`:                                               nil,
		`b: got number, want boolean`:                                            map[string]any{"s": nil, "b": int64(0), "i": "also wrong", "l": int64(1)}, // always the same one
	} {
		var got target
		err := runtime.Decode(v, &got)
		if err == nil || err.Error() != want {
			t.Errorf("%v\n got %v\nwant %s", v, err, want)
		}
	}
	var got checked
	if err := runtime.Decode(map[string]any{"n": int64(-1)}, &got); !errors.Is(err, errBoom) {
		t.Errorf("what Validate said is lost: %v", err)
	}
	var keys map[int]string
	if err := runtime.Decode(map[string]any{"1": "x"}, &keys); err == nil {
		t.Error("a map with numbers for keys was decoded")
	}
}

func TestDecodeAnEmptyObjectIsAnEmptyList(t *testing.T) {
	for _, v := range []runtime.Value{map[string]any{}, []any{}, runtime.ValueOf(struct{}{}), runtime.ValueOf(json.RawMessage("{}"))} {
		got := []string{"before"}
		if err := runtime.Decode(v, &got); err != nil || len(got) != 0 || got == nil {
			t.Errorf("%T: %v, %v", v, got, err)
		}
	}
	var m map[string]int
	if err := runtime.Decode([]any{}, &m); err == nil {
		t.Error("an empty list is an object")
	}
}

func TestUnpackWordsArgumentErrors(t *testing.T) {
	var s string
	var opts runtime.ListenOptions
	var fn runtime.Func
	call := func(args ...runtime.Value) string {
		c := &runtime.Call{Name: "agent.followup", Args: args}
		if err := c.Unpack("content", &s, "opts?", &opts, "fn?", &fn); err != nil {
			return err.Error()
		}
		return ""
	}
	for _, c := range []struct {
		args []runtime.Value
		want string
	}{
		{[]runtime.Value{"x"}, ""}, {[]runtime.Value{"x", nil, nil}, ""}, {[]runtime.Value{"x", map[string]any{"once": true}}, ""},
		{nil, "agent.followup: missing parameter content"},
		{[]runtime.Value{nil}, "agent.followup: for parameter content: got nothing, want string"},
		{[]runtime.Value{int64(1)}, "agent.followup: for parameter content: got number, want string"},
		{[]runtime.Value{"x", map[string]any{"onec": true}}, `agent.followup: for parameter opts: unknown field "onec" (did you mean "once"?)`},
		{[]runtime.Value{"x", map[string]any{"filter": map[string]any{"agent": true}}}, `agent.followup: for parameter opts: filter.agent: got boolean, want string`},
		{[]runtime.Value{"x", nil, "f"}, "agent.followup: for parameter fn: got string, want function"},
		{[]runtime.Value{"x", nil, nil, nil}, "agent.followup: got 4 arguments, want at most 3"},
	} {
		if got := call(c.args...); got != c.want {
			t.Errorf("%v\n got %s\nwant %s", c.args, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"allow", "deny", "ask", "agent/turn-start", "agent/turn-starting"}
	for got, want := range map[string]string{
		"alow": "allow", "aks": "ask", "DENY": "deny", "agent/turn-strat": "agent/turn-start", "agent/turn-startin": "agent/turn-starting",
		"completely other": "", "": "",
	} {
		if n := runtime.Nearest(got, names); n != want {
			t.Errorf("Nearest(%q) = %q, want %q", got, n, want)
		}
	}
	if n := runtime.Nearest("x", nil); n != "" {
		t.Error(n)
	}
}
