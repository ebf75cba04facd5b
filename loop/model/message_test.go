package model_test

import (
	"encoding/json"
	"testing"

	"dshsh/loop/model"
)

func TestMessage_Validate(t *testing.T) {
	user := func(blocks ...model.Block) model.Message {
		return model.Message{ID: "m", Role: model.RoleUser, Content: blocks, Source: model.Source{Kind: model.SourceUser}}
	}
	assistant := user()
	assistant.Role = model.RoleAssistant
	with := func(m model.Message, change func(*model.Message)) model.Message { change(&m); return m }
	for _, tc := range []struct {
		name    string
		message model.Message
		want    string
	}{
		{"empty content", user(), ""},
		{"text", user(model.Text("a")), ""},
		{"image", user(model.Block{Type: model.BlockImage, Attachment: json.RawMessage(`{"a":1}`)}), ""},
		{"result", user(model.ToolResult("c", true, model.Text("a"))), ""},
		{"call with odd arguments", with(assistant, func(m *model.Message) {
			m.Content = []model.Block{model.ToolCall("c", "n", "not json")}
		}), ""},
		{"role", with(user(), func(m *model.Message) { m.Role = "tool" }), `role: got "tool", want system, user or assistant`},
		{"id", with(user(), func(m *model.Message) { m.ID = "" }), "id: is empty"},
		{"source", with(user(), func(m *model.Message) { m.Source.Kind = "" }), "source.kind: is empty"},
		{"replay", with(user(), func(m *model.Message) { m.Source.ReplayState = json.RawMessage("{") }), "source.replayState: is not JSON"},
		{"block type", user(model.Block{Type: "audio"}), `content[0].type: unknown block type "audio"`},
		{"bytes", user(model.Text("a"), model.Text("\xff")), "content[1].text: is not valid UTF-8"},
		{"image without", user(model.Block{Type: model.BlockImage}), "content[0].attachment: is not JSON"},
		{"call of a user", user(model.ToolCall("c", "n", "")), "content[0].type: a tool-call belongs in an assistant message, not in one of role user"},
		{"call id", with(assistant, func(m *model.Message) { m.Content = []model.Block{model.ToolCall("", "n", "")} }), "content[0].id: is empty"},
		{"result of an assistant", with(assistant, func(m *model.Message) { m.Content = []model.Block{model.ToolResult("c", false)} }),
			"content[0].type: a tool-result belongs in a user message, not in one of role assistant"},
		{"result id", user(model.ToolResult("", false)), "content[0].toolCallId: is empty"},
		{"nested", user(model.ToolResult("c", false, model.Text("a"), model.Text("\xff"))), "content[0].content[1].text: is not valid UTF-8"},
		{"nested result", user(model.ToolResult("c", false, model.ToolResult("d", false))), "content[0].content[0].type: a tool-result cannot hold a tool-result"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := ""
			if err := tc.message.Validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestClone_SharesNothing(t *testing.T) {
	temperature := 0.5
	make := func() *model.Request {
		temperature := temperature
		return &model.Request{
			Config: model.Config{Provider: "p", Model: "m", Temperature: &temperature, Stop: []string{"x"}},
			Messages: []model.Message{{
				ID: "m", Role: model.RoleUser,
				Content: []model.Block{model.ToolResult("c", false, model.Text("deep"))},
				Source:  model.Source{Kind: model.SourceTool, ReplayState: json.RawMessage(`1`), Sections: []model.Section{{Name: "n"}}},
			}},
			Tools: []model.ToolSpec{{Name: "t", Parameters: json.RawMessage(`{}`)}},
		}
	}
	original := make()
	c := original.Clone()
	equal(t, "clone", c, original)
	*c.Temperature, c.Stop[0] = 1, "y"
	c.Messages[0].ID = "changed"
	c.Messages[0].Content[0].Content[0].Text = "changed"
	c.Messages[0].Source.ReplayState[0] = '2'
	c.Messages[0].Source.Sections[0].Name = "changed"
	c.Tools[0].Parameters[0] = '['
	equal(t, "original", original, make())
}

func TestPlainText(t *testing.T) {
	m := model.Message{Content: []model.Block{
		model.Reasoning("no"), model.Text("a"), model.ToolCall("c", "n", "{}"),
		model.ToolResult("c", true, model.Text("b")), model.Text("c"),
	}}
	if got := m.PlainText(); got != "abc" {
		t.Errorf("got %q", got)
	}
	if calls := m.ToolCalls(); len(calls) != 1 || calls[0].ID != "c" {
		t.Errorf("calls: %v", calls)
	}
}
