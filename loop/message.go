package loop

import (
	"encoding/json"
	"errors"
	"fmt"

	"dshsh/loop/model"
	"dshsh/runtime"
)

// Content is a message's or a result's content as scripts may write it: a string, or a
// list of blocks.
type Content []model.Block

// UnmarshalJSON takes a string or a list of blocks.
func (c *Content) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*c = Content{model.Text(s)}
		return nil
	}
	var blocks []model.Block
	if err := json.Unmarshal(b, &blocks); err != nil {
		return errors.New("want a string or a list of blocks")
	}
	*c = blocks
	return nil
}

// messageShape is a message as scripts write it.
type messageShape struct {
	ID      string       `json:"id,omitempty"`
	Role    string       `json:"role,omitempty" enum:"user|system|assistant"`
	Content Content      `json:"content"`
	Source  *sourceShape `json:"source,omitempty"`
}

// sourceShape is read from a script's message and answers only for its form: who it is
// from is the host's to say.
type sourceShape struct {
	model.Source
}

// scriptMessage reads a message that a script gave: one that it has not touched stays
// what it was; any other is from the script.
func scriptMessage(v runtime.Value, in *runtime.Instance) (model.Message, error) {
	var m model.Message
	if view, ok := v.(*runtime.View); ok {
		if got, ok := view.Source().(model.Message); ok {
			return got, nil
		}
	}
	src := model.Source{Kind: model.SourcePlugin}
	if in != nil {
		src.Plugin = in.ID
	}
	if s, ok := v.(string); ok {
		return model.Message{Role: model.RoleUser, Content: []model.Block{model.Text(s)}, Source: src}, nil
	}
	var shape messageShape
	if err := runtime.Decode(v, &shape); err != nil {
		return m, err
	}
	m = model.Message{ID: shape.ID, Role: shape.Role, Content: shape.Content, Source: src}
	if m.Role == "" {
		m.Role = model.RoleUser
	}
	if shape.Source != nil {
		m.Source.Form, m.Source.Sections, m.Source.Summary = shape.Source.Form, shape.Source.Sections, shape.Source.Summary
	}
	return m, nil
}

// fromScript makes a message the script's own, whatever it says and whatever it was.
func fromScript(m model.Message, in *runtime.Instance) model.Message {
	m.Source = model.Source{Kind: model.SourcePlugin, Plugin: in.ID, Form: m.Source.Form, Sections: m.Source.Sections, Summary: m.Source.Summary}
	return m
}

// newMessages reads messages that a script adds to the conversation.
func newMessages(v runtime.Value, a *agent, in *runtime.Instance, what string) ([]model.Message, error) {
	ms, err := scriptMessages(v, a, in, what)
	for i := range ms {
		ms[i] = fromScript(ms[i], in)
	}
	return ms, err
}

// scriptMessages reads a list of messages and completes their ids.
func scriptMessages(v runtime.Value, a *agent, in *runtime.Instance, what string) ([]model.Message, error) {
	var items []any
	if err := runtime.Decode(v, &items); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	out := make([]model.Message, len(items))
	for i, item := range items {
		m, err := scriptMessage(item, in)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", what, i, err)
		}
		if m.ID == "" {
			m.ID = a.newID("m")
		}
		out[i] = m
	}
	return out, nil
}

func decodeStepDecision(p PreStepPayload, l *runtime.Listener, v runtime.Value) (StepDecision, error) {
	var shape struct {
		Kind     string `json:"kind" enum:"reject|enter"`
		Messages any    `json:"messages,omitempty"`
	}
	if err := runtime.Decode(v, &shape); err != nil {
		return StepDecision{}, err
	}
	d := StepDecision{Kind: shape.Kind}
	if d.Kind == "reject" {
		return d, nil
	}
	if shape.Messages == nil {
		return d, errors.New(`{kind:"enter"} needs messages`)
	}
	var err error
	d.Messages, err = scriptMessages(shape.Messages, p.Agent.(*agent), l.Instance, "messages")
	return d, err
}

func decodeContinuation(p TurnPayload, l *runtime.Listener, v runtime.Value) (Continuation, error) {
	var shape struct {
		Kind     string `json:"kind" enum:"stop|continue"`
		Messages any    `json:"messages,omitempty"`
	}
	if err := runtime.Decode(v, &shape); err != nil {
		return Continuation{}, err
	}
	c := Continuation{Kind: shape.Kind}
	if c.Kind == "stop" {
		return c, nil
	}
	var err error
	if shape.Messages != nil {
		c.Messages, err = newMessages(shape.Messages, p.Agent.(*agent), l.Instance, "messages")
	}
	if err == nil && len(c.Messages) == 0 {
		err = errors.New(`{kind:"continue"} needs at least one message`)
	}
	return c, err
}

// decodeStepResult reads a replaced assistant message: call ids stay unique, and replay
// state, which speaks of the original, is dropped.
func decodeStepResult(p StepResultPayload, _ *runtime.Listener, v runtime.Value) (StepResult, error) {
	var r StepResult
	if err := runtime.Decode(v, &r); err != nil {
		return r, err
	}
	r.Message.ID, r.Message.Role = p.Message.ID, model.RoleAssistant
	r.Message.Source = p.Message.Source
	r.Message.Source.ReplayState = nil
	seen := map[string]bool{}
	for i, b := range r.Message.Content {
		if b.Type != model.BlockToolCall {
			continue
		}
		if b.ID == "" {
			r.Message.Content[i].ID = p.Agent.(*agent).newID("call-")
		} else if seen[b.ID] {
			return r, fmt.Errorf("message.content[%d]: the call id %q is there twice", i, b.ID)
		}
		seen[r.Message.Content[i].ID] = true
	}
	return r, nil
}
