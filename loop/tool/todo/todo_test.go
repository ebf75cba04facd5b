package todo

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"dshsh/loop/tool"
)

func TestListIsReplacedAsAWhole(t *testing.T) {
	x := &tool.Exec{}
	r, err := New().Execute(t.Context(), json.RawMessage(`{"todos":[{"content":"one","status":"completed"},{"content":"two","status":"in_progress"}]}`), x)
	if err != nil {
		t.Fatal(err)
	}
	want := []tool.Todo{{Content: "one", Status: tool.TodoCompleted}, {Content: "two", Status: tool.TodoInProgress}}
	if got, set := x.Todos(); !set || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, set)
	}
	var v Args
	if err := json.Unmarshal(r.Meta, &v); err != nil || !reflect.DeepEqual(v.Todos, want) || string(r.Value) != string(r.Meta) {
		t.Errorf("%v %s %s", err, r.Meta, r.Value)
	}
	if got := r.Content[0].Text; got != "the list has 2 items: 1 completed, 1 in progress, 0 pending" {
		t.Errorf("%q", got)
	}
	if _, err = New().Execute(t.Context(), json.RawMessage(`{"todos":[]}`), x); err != nil {
		t.Fatal(err)
	}
	if got, set := x.Todos(); !set || got == nil || len(got) != 0 {
		t.Errorf("%#v %v", got, set)
	}
}

func TestRefusals(t *testing.T) {
	many := `{"todos":[` + strings.Repeat(`{"content":"x","status":"pending"},`, 100) + `{"content":"x","status":"pending"}]}`
	for args, want := range map[string]string{
		`{}`: `missing argument "todos"`,
		`{"todos":[{"content":" ","status":"pending"}]}`: "item 1 has no content",
		`{"todos":[{"content":"x","status":"done"}]}`:    `status "done"`,
		many: "101 items",
	} {
		x := &tool.Exec{}
		_, err := New().Execute(t.Context(), json.RawMessage(args), x)
		var e *tool.Error
		if !errors.As(err, &e) || e.Code != tool.CodeInvalidArgs || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v", args, err)
		}
		if _, set := x.Todos(); set {
			t.Errorf("%.60s: a list was set", args)
		}
	}
	if _, err := tool.CompileSchema(Name, New().Spec().Parameters); err != nil {
		t.Error(err)
	}
	if !New().(tool.Reader).ReadOnly(nil) {
		t.Error("it is taken to change things")
	}
}
