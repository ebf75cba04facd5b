// Package todo is the built-in tool todo: the list of what the model has to do, which it
// replaces as a whole. The list lives in the session's log; a person sees it there.
package todo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// Name is what the model calls the tool by.
const Name = "todo"

// Bounds of a list.
const (
	maxItems   = 100
	maxContent = 1000 // bytes
)

// Args are the arguments of a call. Value and Meta of its result are the same, as JSON.
type Args struct {
	Todos []tool.Todo `json:"todos"`
}

type list struct{}

var (
	_ tool.Tool   = list{}
	_ tool.Reader = list{}
)

// New returns the tool.
func New() tool.Tool { return list{} }

func (list) Spec() model.ToolSpec {
	return model.ToolSpec{
		Name: Name,
		Description: "Keeps the list of what there is to do, for work of several steps; the user sees it. Each call gives the whole list anew. " +
			"Mark an item in_progress when you begin it, and completed when it is done.",
		Parameters: json.RawMessage(fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["todos"],"properties":{`+
			`"todos":{"type":"array","maxItems":%d,"items":{"type":"object","additionalProperties":false,"required":["content","status"],"properties":{`+
			`"content":{"type":"string","minLength":1,"maxLength":%d},`+
			`"status":{"type":"string","enum":["pending","in_progress","completed"]}}}}}}`, maxItems, maxContent)),
	}
}

// ReadOnly is true: a list touches nothing outside of the session.
func (list) ReadOnly(json.RawMessage) bool { return true }

// Execute takes the list over.
func (list) Execute(_ context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	var a Args
	if err := tool.DecodeArgs(Name, args, &a); err != nil {
		return tool.Result{}, err
	}
	if len(a.Todos) > maxItems {
		return tool.Result{}, tool.InvalidArgs("todo: argument \"todos\": has %d items, more than the %d that a list can have", len(a.Todos), maxItems)
	}
	count := map[string]int{}
	for i, t := range a.Todos {
		switch {
		case strings.TrimSpace(t.Content) == "":
			return tool.Result{}, tool.InvalidArgs("todo: item %d has no content", i+1)
		case utf8.RuneCountInString(t.Content) > maxContent:
			return tool.Result{}, tool.InvalidArgs("todo: item %d is longer than %d characters", i+1, maxContent)
		case t.Status != tool.TodoPending && t.Status != tool.TodoInProgress && t.Status != tool.TodoCompleted:
			return tool.Result{}, tool.InvalidArgs("todo: item %d has the status %q; there are pending, in_progress and completed", i+1, t.Status)
		}
		a.Todos[i].Content = model.Scrub(t.Content)
		count[t.Status]++
	}
	if a.Todos == nil {
		a.Todos = []tool.Todo{}
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return tool.Result{}, fmt.Errorf("todo: encoding the list: %w", err)
	}
	x.SetTodos(a.Todos)
	res := tool.TextResult("the list is empty now")
	if len(a.Todos) > 0 {
		res = tool.TextResult(fmt.Sprintf("the list has %d items: %d completed, %d in progress, %d pending",
			len(a.Todos), count[tool.TodoCompleted], count[tool.TodoInProgress], count[tool.TodoPending]))
	}
	res.Value, res.Meta = raw, raw
	return res, nil
}
