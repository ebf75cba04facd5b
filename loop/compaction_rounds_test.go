package loop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
)

// windowServer is a model service with a window of its own: it counts a token for three
// bytes of messages, refuses more than limit with the error of the service, and a
// conversation that holds a result without its call. It asks for rounds tool calls.
func windowServer(t *testing.T, limit, rounds int) (s *modeltest.Server, refused, summaries *int) {
	refused, summaries = new(int), new(int)
	round := 0
	bad := func(format string, args ...any) modeltest.Wire {
		message, _ := json.Marshal(fmt.Sprintf(format, args...))
		return modeltest.Status(http.StatusBadRequest, nil, `{"error":{"message":`+string(message)+`,"type":"invalid_request_error","code":"context_length_exceeded"}}`)
	}
	return modeltest.NewServer(t).Otherwise(modeltest.WireFunc(func(r *modeltest.Recorded) modeltest.Wire {
		var req struct {
			Messages []struct {
				Role       string
				Content    any
				ToolCallID string                `json:"tool_call_id"`
				ToolCalls  []struct{ ID string } `json:"tool_calls"`
			}
		}
		if err := json.Unmarshal(r.Body, &req); err != nil {
			t.Error(err)
		}
		if n := len(r.Body) / 3; n > limit {
			*refused++
			return bad("This model's maximum context length is %d tokens, but the messages have %d.", limit, n)
		}
		called := map[string]bool{}
		for _, m := range req.Messages {
			for _, c := range m.ToolCalls {
				called[c.ID] = true
			}
			if m.Role == "tool" && !called[m.ToolCallID] {
				t.Errorf("a result of %s without its call", m.ToolCallID)
			}
		}
		if sys, _ := req.Messages[0].Content.(string); strings.HasPrefix(sys, "You write summaries") {
			*summaries++
			return modeltest.WireText("A summary of what went on so far.")
		}
		if round++; round > rounds {
			return modeltest.WireText("done")
		}
		return modeltest.WireTool(fmt.Sprint("c", round), "blob", `{}`)
	})), refused, summaries
}

// TestASessionOf400RoundsOutlivesItsWindow: one turn of 400 tool rounds, about nine times
// what the model takes, whether its window is known or is found out by what it refuses.
func TestASessionOf400RoundsOutlivesItsWindow(t *testing.T) {
	const limit, rounds = 32_000, 400
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint("known ", known), func(t *testing.T) {
			s, refused, summaries := windowServer(t, limit, rounds)
			models := model.KnownModels()
			if known {
				var err error
				if models, err = models.With([]byte(fmt.Sprintf(`[{"provider":"*","id":"m","contextWindow":%d}]`, limit))); err != nil {
					t.Fatal(err)
				}
			}
			p := openai.New(openai.Options{Name: "fake", BaseURL: s.URL, APIKey: "k", Models: models})
			w := newWorld(t, modeltest.New(), withTools(blob{}), func(c *loop.Config) { c.Providers = []model.Provider{p} }).create()
			began := time.Now()
			w.prompt("do it 400 times")
			t.Logf("%v, %d summaries, %d refused", time.Since(began).Round(time.Millisecond), *summaries, *refused)
			if got := w.turns(); !strings.HasSuffix(got, "turn/end 1 completed") {
				t.Fatal(got)
			}
			if n := w.logged(loop.RecToolResult); n != rounds {
				t.Errorf("%d results", n)
			}
			if *summaries < 3 || *refused > 1 {
				t.Errorf("%d summaries, %d refused", *summaries, *refused)
			}
			if got := w.conversation(); !strings.Contains(got, "do it 400 times") {
				t.Error("the prompt is forgotten")
			}
			w.sound()
		})
	}
}
