package loop_test

import (
	"context"
	"fmt"

	"dshsh/bindings/js"
	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/tool"
	"dshsh/runtime"
)

// An agent with a Go tool, a Go listener and a policy in JavaScript.
func ExampleNew() {
	service := modeltest.New(modeltest.Tool("c1", "add", `{"a":40,"b":2}`), modeltest.Tool("c2", "add", `{"a":-1,"b":1}`), modeltest.Text("It is 42."))
	h, err := loop.New(loop.Config{
		Providers: []model.Provider{service}, // in earnest: openai.New, ...
		Engines:   []runtime.Engine{js.Engine()},
		Tools: []tool.Tool{tool.Func("add", "Adds two numbers.", func(_ context.Context, in struct {
			A float64 `json:"a"`
			B float64 `json:"b" jsonschema:"what is added"`
		}) (string, error) {
			return fmt.Sprint(in.A + in.B), nil
		})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Stop()
	var a loop.Agent
	must(h.Do(context.Background(), func() { // everything that scripts can see lives on the host's thread
		loop.ToolsResult.On(h.Host, func(p loop.PostPayload) error {
			fmt.Println(p.Name, string(p.Arguments), "->", model.PlainText(p.Result.Content))
			return nil
		})
		must(h.Script("guard.js", `ctx.on('tools/pre-execute', ({ arguments: args }) => {
			if (args.a < 0) return { kind: 'deny', reason: 'no negative numbers' }
		})`))
		a, err = h.Create(loop.CreateOptions{Options: loop.Options{Provider: service.Name(), Model: "any"}})
		must(err)
	}))
	reply, err := h.Ask(context.Background(), a, "What is 40 + 2?")
	fmt.Println(reply, err)
	// Output:
	// add {"a":40,"b":2} -> 42
	// add {"a":-1,"b":1} -> Error: no negative numbers
	// It is 42. <nil>
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
