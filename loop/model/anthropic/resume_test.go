package anthropic_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/anthropic"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
)

// TestR114_AnotherProvider goes on with a session of reasoning and tools on another kind
// of service, and back. Both refuse what the real ones refuse.
func TestR114_AnotherProvider(t *testing.T) {
	for name, chat := range map[string]func(openai.Options) *openai.Provider{"openai": openai.New, "deepseek": openai.DeepSeek} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t)
			step := func(refuse func([]byte) error, steps ...modeltest.Step) {
				server.Add(modeltest.WireFunc(func(r *modeltest.Recorded) modeltest.Wire {
					if err := refuse(r.Body); err != nil {
						return modeltest.Status(400, nil, fmt.Sprintf(`{"error":{"message":%q}}`, err.Error()))
					}
					return modeltest.Steps(steps...)
				}))
			}
			work := func(refuse func([]byte) error, first, second string) {
				step(refuse, append([]modeltest.Step{modeltest.ReasoningDelta("I look twice."), modeltest.TextDelta("Let me see."),
					modeltest.ToolDelta(0, first, "ls", `{"path":"a"}`), modeltest.ToolDelta(1, second, "ls", `{"path":"b"}`)},
					modeltest.Finish("tool_calls")...)...)
				step(refuse, append([]modeltest.Step{modeltest.ReasoningDelta("Enough."), modeltest.TextDelta("Two files.")}, modeltest.Finish("stop")...)...)
			}
			a, o := anthropic.New(anthropic.Options{BaseURL: server.URL}), chat(openai.Options{BaseURL: server.URL})
			t.Cleanup(a.CloseIdleConnections)
			t.Cleanup(o.CloseIdleConnections)

			var history []model.Message
			// turn asks, runs tools and goes on; middle is who answers once the tools have run.
			turn := func(p, middle model.Provider) {
				t.Helper()
				history = append(history, user("look"))
				for _, p := range []model.Provider{p, middle} {
					req := request(history...)
					req.Provider, req.Model = p.Name(), "claude-sonnet-4-5"
					req.ReasoningEffort = "high"
					req.Tools = []model.ToolSpec{{Name: "ls"}}
					chunks, err := read(t.Context(), p, req)
					if err != nil {
						t.Fatalf("%s: %v", p.Name(), err)
					}
					m := fold(chunks).Message("m", req.Config)
					history = append(history, m)
					for _, c := range m.ToolCalls() {
						history = append(history, results(model.ToolResult(c.ID, false, model.Text("result of "+c.Arguments))))
					}
					// To disk and back.
					raw, err := json.Marshal(history)
					if err != nil {
						t.Fatal(err)
					}
					history = nil
					if err := json.Unmarshal(raw, &history); err != nil {
						t.Fatal(err)
					}
				}
			}
			work(refusedByChat(name == "deepseek"), "call_1", "functions.ls:1")
			turn(o, o)
			work(refusedByMessages, "toolu_1", "toolu_2")
			turn(a, a)
			work(refusedByChat(name == "deepseek"), "call_1", "functions.ls:1") // some services begin anew with each reply
			turn(o, o)

			// And in the middle of a turn, both ways.
			step(refusedByChat(name == "deepseek"), append([]modeltest.Step{modeltest.ReasoningDelta("hm"), modeltest.ToolDelta(0, "call_1", "ls", "{}")}, modeltest.Finish("tool_calls")...)...)
			step(refusedByMessages, append([]modeltest.Step{modeltest.TextDelta("Done.")}, modeltest.Finish("stop")...)...)
			turn(o, a)
			step(refusedByMessages, append([]modeltest.Step{modeltest.ReasoningDelta("hm"), modeltest.ToolDelta(0, "toolu_3", "ls", "{}")}, modeltest.Finish("tool_calls")...)...)
			step(refusedByChat(name == "deepseek"), append([]modeltest.Step{modeltest.TextDelta("Done.")}, modeltest.Finish("stop")...)...)
			turn(a, o)

			requests := server.Requests()
			last := string(requests[7].Body) // the Messages request in the middle of the fourth turn
			if n := strings.Count(last, `"signature":"sig-0"`); n != 2 || strings.Count(last, `"tool_use_id"`) != 7 {
				t.Errorf("%d signed blocks in %s", n, last)
			}
		})
	}
}

// refusedByMessages says what Anthropic's service would find wrong with a request.
func refusedByMessages(raw []byte) error {
	var b struct {
		MaxTokens int `json:"max_tokens"`
		Thinking  *struct {
			BudgetTokens int `json:"budget_tokens"`
		}
		Messages []struct {
			Role    string
			Content []struct {
				Type, Text, Thinking, Signature, ID string
				ToolUseID                           string `json:"tool_use_id"`
				Input                               map[string]any
			}
		}
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return err
	}
	valid := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	ids := map[string]bool{}
	var open []string // calls of the message before
	last := ""
	for i, m := range b.Messages {
		if (m.Role == "user") != (i%2 == 0) || len(m.Content) == 0 {
			return fmt.Errorf("messages.%d: the roles must alternate, beginning with the user, and content not be empty", i)
		}
		var calls []string
		for j, c := range m.Content {
			switch c.Type {
			case "text":
				if strings.TrimSpace(c.Text) == "" {
					return fmt.Errorf("messages.%d: text content blocks must be non-empty", i)
				}
			case "thinking":
				if !strings.HasPrefix(c.Signature, "sig-") {
					return fmt.Errorf("messages.%d.content.%d: invalid signature in thinking block", i, j)
				}
				if j == len(m.Content)-1 {
					return fmt.Errorf("messages.%d: the final block cannot be thinking", i)
				}
			case "tool_use":
				if ids[c.ID] || !valid.MatchString(c.ID) || c.Input == nil {
					return fmt.Errorf("messages.%d: tool_use ids must be unique: %q", i, c.ID)
				}
				ids[c.ID] = true
				calls = append(calls, c.ID)
			case "tool_result":
				if j >= len(open) || open[j] != c.ToolUseID {
					return fmt.Errorf("messages.%d.content.%d: unexpected tool_use_id", i, j)
				}
				open[j] = ""
			}
		}
		for _, id := range open {
			if id != "" {
				return fmt.Errorf("messages.%d: tool_use %s without a tool_result", i, id)
			}
		}
		open = calls
		if m.Role == "assistant" {
			last = m.Content[0].Type
		}
	}
	if len(open) > 0 || len(b.Messages)%2 == 0 {
		return fmt.Errorf("the last message must be the user's")
	}
	if b.Thinking != nil && b.Thinking.BudgetTokens >= b.MaxTokens {
		return fmt.Errorf("max_tokens must be greater than thinking.budget_tokens")
	}
	if end := b.Messages[len(b.Messages)-1].Content[0].Type; b.Thinking != nil && end == "tool_result" && last != "thinking" {
		return fmt.Errorf("expected thinking, but found %s", last)
	}
	return nil
}

// refusedByChat says what a service of Chat Completions would find wrong; DeepSeek wants
// its reasoning, the others want none.
func refusedByChat(deepseek bool) func(raw []byte) error {
	return func(raw []byte) error {
		var b struct {
			Messages []struct {
				Role             string
				Content          *string
				ReasoningContent *string               `json:"reasoning_content"`
				ToolCallID       string                `json:"tool_call_id"`
				ToolCalls        []struct{ ID string } `json:"tool_calls"`
			}
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			return err
		}
		var open []string
		for i, m := range b.Messages {
			if m.Role != "tool" && len(open) > 0 {
				return fmt.Errorf("messages[%d]: tool_calls must be followed by tool messages: %q", i, open)
			}
			switch m.Role {
			case "tool":
				if len(open) == 0 || open[0] != m.ToolCallID {
					return fmt.Errorf("messages[%d]: a tool message must follow its call", i)
				}
				open = open[1:]
			case "assistant":
				if (m.ReasoningContent != nil) != deepseek {
					return fmt.Errorf("messages[%d]: reasoning_content", i)
				}
				for _, c := range m.ToolCalls {
					open = append(open, c.ID)
				}
			}
		}
		return nil
	}
}
