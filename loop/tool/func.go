package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"dshsh/loop/model"
)

// Func makes a tool of a function. Its parameters are the fields of the struct A: named
// by their json tags, required unless those say omitempty, described by their jsonschema
// tags. What fn returns is the text that the model sees; a failure is best an *[Error].
// Calls run alone and are taken to change things, as those of any tool that does not say
// otherwise. An A that is no struct, or has fields that JSON cannot hold, panics: it is a
// mistake of the program.
//
//	tool.Func("add", "Adds two numbers.", func(ctx context.Context, in struct {
//		A float64 `json:"a"`
//		B float64 `json:"b" jsonschema:"what is added"`
//	}) (string, error) { return fmt.Sprint(in.A + in.B), nil })
func Func[A any](name, description string, fn func(ctx context.Context, args A) (string, error)) Tool {
	schema, err := jsonschema.For[A](nil)
	if err == nil && schema.Type != "object" {
		err = fmt.Errorf("want a struct, got %T", *new(A))
	}
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(schema)
	}
	if err != nil {
		panic(fmt.Errorf("tool %s: %w", name, err))
	}
	return funcTool[A]{model.ToolSpec{Name: name, Description: description, Parameters: raw}, fn}
}

// funcTool is Func's tool. Immutable.
type funcTool[A any] struct {
	spec model.ToolSpec
	fn   func(ctx context.Context, args A) (string, error)
}

func (t funcTool[A]) Spec() model.ToolSpec { return t.spec }

func (t funcTool[A]) Execute(ctx context.Context, raw json.RawMessage, _ *Exec) (Result, error) {
	var args A
	if err := json.Unmarshal(raw, &args); err != nil {
		return Result{}, InvalidArgs("%s: %v", t.spec.Name, err)
	}
	text, err := t.fn(ctx, args)
	return TextResult(model.Scrub(text)), err
}
