package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/tool"
)

func TestFunc(t *testing.T) {
	type args struct {
		A    float64 `json:"a"`
		Note string  `json:"note,omitempty" jsonschema:"what for"`
	}
	fail := errors.New("no")
	f := tool.Func("half", "Halves.", func(_ context.Context, in args) (string, error) {
		if in.A < 0 {
			return "it was negative", fail
		}
		return in.Note + "\xff", nil
	})
	spec := f.Spec()
	for _, want := range []string{`"required":["a"]`, `"description":"what for"`, `"type":"object"`} {
		if !strings.Contains(string(spec.Parameters), want) {
			t.Errorf("no %s in %s", want, spec.Parameters)
		}
	}
	schema, err := tool.CompileSchema(spec.Name, spec.Parameters)
	if err != nil {
		t.Fatal(err)
	}
	if schema.Validate(json.RawMessage(`{"a":1}`)) != nil || schema.Validate(json.RawMessage(`{"note":"x"}`)) == nil {
		t.Error("the schema does not say what is required")
	}
	x := &tool.Exec{}
	if r, err := f.Execute(context.Background(), json.RawMessage(`{"a":1,"note":"x"}`), x); err != nil || model.PlainText(r.Content) != "x\ufffd" {
		t.Error(r, err)
	}
	if r, err := f.Execute(context.Background(), json.RawMessage(`{"a":-1}`), x); err != fail || model.PlainText(r.Content) != "it was negative" {
		t.Error(r, err)
	}
	var te *tool.Error
	if _, err := f.Execute(context.Background(), json.RawMessage(`"a"`), x); !errors.As(err, &te) || te.Code != tool.CodeInvalidArgs {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("arguments that are no struct were taken")
		}
	}()
	tool.Func("bad", "", func(context.Context, string) (string, error) { return "", nil })
}
