package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"dshsh/loop/model"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bashLike struct {
	Command   string `json:"command"`
	TimeoutMs int    `json:"timeoutMs,omitempty"`
	All       bool   `json:"all,omitempty"`
}

const bashLikeSchema = `{"type":"object","additionalProperties":false,"required":["command"],
	"properties":{"command":{"type":"string"},"timeoutMs":{"type":"integer","minimum":1},"all":{"type":"boolean"},
	"opts":{"type":"object","properties":{"list":{"type":"array","items":{"type":"string"}}}}}}`

func TestDecodeArgs(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{`{"command":"ls","timeoutMs":1e3}`, ""},
		{`{"command":"ls","timeoutMs":null}`, ""},
		{`{"comand":"ls"}`, `bash: unknown argument "comand" (did you mean "command"?)`},
		{`{"command":"ls","Command":"rm"}`, `bash: unknown argument "Command" (did you mean "command"?)`},
		{`{"command":"ls","zzz":1}`, `bash: unknown argument "zzz" (there are: command, timeoutMs, all)`},
		{`{}`, `bash: missing argument "command"`},
		{`{"command":null}`, `bash: missing argument "command"`},
		{`{"command":["ls"]}`, `bash: argument "command": got an array, want a string`},
		{`{"command":"ls","timeoutMs":"9"}`, `bash: argument "timeoutMs": got a string, want an integer`},
		{`{"command":"ls","timeoutMs":1.5}`, `bash: argument "timeoutMs": got 1.5, want an integer`},
		{`{"command":"ls","timeoutMs":1e300}`, `bash: argument "timeoutMs": got 1e300, want an integer`},
		{`{"command":"ls","all":"yes"}`, `bash: argument "all": got a string, want true or false`},
		{`"{\"command\":"`, `bash: arguments must be a JSON object, but are a string (what the model wrote is no valid JSON)`},
		{`[1]`, `bash: arguments must be a JSON object, but are an array`},
		{``, `bash: arguments must be a JSON object, but are nothing`},
	} {
		var a bashLike
		err := DecodeArgs("bash", json.RawMessage(c.args), &a)
		checkArgsError(t, c.args, err, c.want)
		if c.want == "" && a.Command != "ls" {
			t.Errorf("%s: decoded %+v", c.args, a)
		}
	}
}

func TestSchemaValidate(t *testing.T) {
	s, err := CompileSchema("bash", json.RawMessage(bashLikeSchema))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{`{"command":"ls"}`, ""},
		{`{"command":"ls","timeoutMs":1000.0}`, ""},
		{`{"command":"ls","timeoutMs":null}`, ""},
		{`{"comand":"ls"}`, `bash: unknown argument "comand" (did you mean "command"?)`},
		{`{"timeoutMs":1}`, `bash: missing argument "command"`},
		{`{"command":null}`, `bash: argument "command": type: null has type "null", want "string"`},
		{`{"command":"ls","timeoutMs":0}`, `bash: argument "timeoutMs": minimum: 0 is less than 1`},
		{`{"command":"ls","opts":{"list":[1]}}`, `bash: argument "opts.list[]": type: 1 has type "integer", want "string"`},
		{`"x"`, `bash: arguments must be a JSON object, but are a string (what the model wrote is no valid JSON)`},
	} {
		checkArgsError(t, c.args, s.Validate(json.RawMessage(c.args)), c.want)
	}
}

func TestSchemaMessageIsBounded(t *testing.T) {
	s, err := CompileSchema("x", json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Validate(json.RawMessage(`{"a":"` + strings.Repeat("é", 1<<20) + `"}`))
	if err == nil || len(err.Error()) > 1000 {
		t.Fatalf("message of %d bytes", len(err.Error()))
	}
}

func TestCompileSchemaRefuses(t *testing.T) {
	for _, c := range []string{
		`{"type":"string"}`,
		`{"type":"objekt","properties":{}}`,
		`{"type":"object","properties":{"a":{"pattern":"(?=x)"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`,
		`{"type":"object","properties":[]}`,
		`[]`, `"x"`,
	} {
		if _, err := CompileSchema("x", json.RawMessage(c)); err == nil || !strings.Contains(err.Error(), "tool x") {
			t.Errorf("%s: error %v", c, err)
		}
	}
	for _, c := range []string{``, `null`, `{}`, `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}`} {
		s, err := CompileSchema("x", json.RawMessage(c))
		if err != nil {
			t.Errorf("%q: %v", c, err)
		} else if err := s.Validate(json.RawMessage(`{"any":1}`)); err != nil {
			t.Errorf("%q: %v", c, err)
		}
	}
}

// TestReferences: those that go round for one value would take the validator out of its
// stack, and the process with it; those that double take for ever.
func TestReferences(t *testing.T) {
	doubled := `{"type":"object","properties":{"a":{"$ref":"#/$defs/d40"}},"$defs":{"d0":{"type":"integer"}`
	for i := 1; i <= 40; i++ {
		doubled += fmt.Sprintf(`,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i-1, i-1)
	}
	for schema, want := range map[string]string{
		`{"$ref":"#"}`: `"#" refers to itself`,
		`{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}`:                                                                                                       `"#/properties/a" refers to itself`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/x%20y"}},"$defs":{"x y":{"anyOf":[{"not":{"$ref":"#/$defs/x y"}}]}}}`:                                             `refers to itself for the same value`,
		`{"properties":{"b":{"$ref":"#/$defs/b"}},"$defs":{"a":{"additionalProperties":{"$ref":"#/$defs/b"},"allOf":[{"$ref":"#/$defs/b"}]},"b":{"if":{"$ref":"#/$defs/a"}}}}`: `refers to itself for the same value`,
		`{"properties":{"a":{"$dynamicRef":"#x"}}}`: `$dynamicRef is not supported`,
		`{"properties":{"a":{"$ref":"#x"}}}`:        `$ref "#x": want a place in the same schema`,
		`{"properties":{"a":{"$ref":"#/$defs/x"}}}`: `$ref "#/$defs/x": there is no such place`,
		doubled + `}}`: `unfold to more than 100000`,
	} {
		if _, err := CompileSchema("x", json.RawMessage(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want %s", schema, err, want)
		}
	}
	s, err := CompileSchema("x", json.RawMessage(`{"type":"object","properties":{"tree":{"$ref":"#/$defs/a~1b"},"again":{"$ref":"#"}},
		"$defs":{"a/b":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"},"l":{"$ref":"#/$defs/a~1b"},"r":{"$ref":"#/$defs/a~1b"}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	checkArgsError(t, "a tree", s.Validate(json.RawMessage(`{"tree":{"n":1,"l":{"n":2,"r":{"n":3}}},"again":{"tree":{"n":4}}}`)), "")
	if err := s.Validate(json.RawMessage(`{"tree":{"n":1,"l":{"n":2,"r":{"n":"3"}}}}`)); err == nil {
		t.Error("a wrong leaf fits")
	}
}

// A schema that contains itself in two ways for the same part doubles with every level; one
// that does so for different parts may be of any size.
func TestSchemaThatContainsItselfTwice(t *testing.T) {
	twice, err := CompileSchema("x", json.RawMessage(`{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"anyOf":[
		{"properties":{"n":{"$ref":"#/$defs/n"}},"required":["a"]},{"properties":{"n":{"$ref":"#/$defs/n"}}}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	deep := func(n int) string { return strings.Repeat(`{"n":`, n) + "{}" + strings.Repeat("}", n) }
	checkArgsError(t, "8 levels", twice.Validate(json.RawMessage(deep(8))), "")
	err = twice.Validate(json.RawMessage(deep(40))) // 2 to the 40th: it would never end
	if err == nil || !strings.Contains(err.Error(), "nested too deep") {
		t.Errorf("40 levels: %v", err)
	}
	tree, err := CompileSchema("x", json.RawMessage(`{"type":"object","properties":{"n":{"$ref":"#"},"items":{"type":"array","items":{"$ref":"#"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	checkArgsError(t, "a long list", tree.Validate(json.RawMessage(`{"items":[{}`+strings.Repeat(`,{"n":{}}`, 10_000)+`]}`)), "")
	checkArgsError(t, "a deep list", tree.Validate(json.RawMessage(deep(40))), "")
}

func checkArgsError(t *testing.T, args string, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeInvalidArgs || e.Name != NameArgs || e.Message != want {
		t.Errorf("%s:\n got %v\nwant %s", args, err, want)
	}
}

func TestUnknownTool(t *testing.T) {
	e := UnknownTool("raed", []string{"write", "read", "bash"})
	if e.Message != `unknown tool "raed" (did you mean "read"?)` || e.Code != CodeUnknownTool {
		t.Errorf("%+v", e)
	}
	if e := UnknownTool("x", []string{"write", "read"}); e.Message != `unknown tool "x"` {
		t.Errorf("%+v", e)
	}
}

func TestExecKeepsOrder(t *testing.T) {
	var x Exec
	x.DeferContext(model.Message{ID: "a"})
	x.DeferContext(model.Message{ID: "b"})
	if d := x.Deferred(); len(d) != 2 || d[0].ID != "a" || d[1].ID != "b" || x.Concluded() {
		t.Errorf("deferred %v, concluded %v", d, x.Concluded())
	}
	x.ConcludeTurn()
	if !x.Concluded() {
		t.Error("ConcludeTurn was lost")
	}
}
