// Package sdkcheck_test reads the golden exchanges of the providers with the official
// SDKs: what these decode of our replies must be what ours decodes, and of our requests
// nothing may be unknown to them.
package sdkcheck_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	anthropicsdk "github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	openaisdk "github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"dshsh/loop/model"
	"dshsh/loop/model/anthropic"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
)

// file reads from a provider's testdata.
func file(t *testing.T, provider, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", provider, "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// serve returns a server that plays a provider's golden reply to everyone.
func serve(t *testing.T, provider string) *modeltest.Server {
	return modeltest.NewServer(t).Otherwise(modeltest.Steps(modeltest.Raw(string(file(t, provider, "reply.sse")))))
}

// ours renders what our provider decodes: the blocks, the end, the usage.
func ours(t *testing.T, p model.Provider) []string {
	t.Helper()
	s, err := p.Stream(t.Context(), &model.Request{Messages: []model.Message{{Role: model.RoleUser, Content: []model.Block{model.Text("hi")}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a := model.NewAssembler()
	for {
		c, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		a.Add(c)
	}
	var state struct {
		Blocks []struct{ Signature, Redacted string }
	}
	_ = json.Unmarshal(a.ReplayState(), &state) // none has no blocks
	var lines []string
	for i, b := range a.Blocks() {
		line := ""
		switch b.Type {
		case model.BlockText:
			line = "text " + b.Text
		case model.BlockReasoning:
			if line = "thinking " + b.Text + " " + state.Blocks[i].Signature; state.Blocks[i].Redacted != "" {
				line = "redacted " + state.Blocks[i].Redacted
			}
		case model.BlockToolCall:
			line = fmt.Sprintf("call %s %s %s", b.ID, b.Name, b.Arguments)
		}
		lines = append(lines, line)
	}
	u := a.Usage()
	return append(lines, a.Finish().Kind,
		fmt.Sprintf("tokens %d in, %d out, %d read, %d written, %d thought", u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens))
}

func compare(t *testing.T, ours, theirs []string) {
	t.Helper()
	if !reflect.DeepEqual(ours, theirs) {
		t.Errorf("the reply differs:\n ours   %s\n theirs %s", strings.Join(ours, "\n        "), strings.Join(theirs, "\n        "))
	}
}

// roundTrip decodes a request into the SDK's parameters and back: a field that the SDK
// does not know, or knows in another shape, is lost or changed by it.
func roundTrip(t *testing.T, sent []byte, params any) {
	t.Helper()
	if err := json.Unmarshal(sent, params); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := json.Unmarshal(sent, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &got); err != nil {
		t.Fatal(err)
	}
	delete(want, "stream") // which the SDKs add when they send
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the request differs:\n ours   %v\n theirs %v", want, got)
	}
}

func TestAnthropic_Reply(t *testing.T) {
	server := serve(t, "anthropic")
	base := strings.TrimSuffix(server.URL, "/v1")
	p := anthropic.New(anthropic.Options{BaseURL: base})
	defer p.CloseIdleConnections()

	client := anthropicsdk.NewClient(anthropicoption.WithBaseURL(base), anthropicoption.WithAPIKey("k"))
	stream := client.Messages.NewStreaming(t.Context(), anthropicsdk.MessageNewParams{MaxTokens: 100, Model: "m",
		Messages: []anthropicsdk.MessageParam{anthropicsdk.NewUserMessage(anthropicsdk.NewTextBlock("hi"))}})
	defer stream.Close()
	var m anthropicsdk.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	var theirs []string
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			theirs = append(theirs, "text "+b.Text)
		case "thinking":
			theirs = append(theirs, "thinking "+b.Thinking+" "+b.Signature)
		case "redacted_thinking":
			theirs = append(theirs, "redacted "+b.Data)
		case "tool_use":
			theirs = append(theirs, fmt.Sprintf("call %s %s %s", b.ID, b.Name, b.Input))
		}
	}
	u := m.Usage
	end := map[anthropicsdk.StopReason]string{anthropicsdk.StopReasonToolUse: model.FinishToolCalls}[m.StopReason]
	compare(t, ours(t, p), append(theirs, end, fmt.Sprintf("tokens %d in, %d out, %d read, %d written, %d thought",
		u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens, u.OutputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokensDetails.ThinkingTokens)))

	if requests := server.Requests(); requests[0].Path != requests[1].Path {
		t.Errorf("the SDK posts to %s, ours to %s", requests[0].Path, requests[1].Path)
	}
}

func TestAnthropic_Request(t *testing.T) {
	for _, name := range []string{"body.json", "next.json"} {
		roundTrip(t, file(t, "anthropic", name), new(anthropicsdk.MessageNewParams))
	}
}

func TestOpenAI_Reply(t *testing.T) {
	server := serve(t, "openai")
	p := openai.New(openai.Options{BaseURL: server.URL})
	defer p.CloseIdleConnections()

	client := openaisdk.NewClient(openaioption.WithBaseURL(server.URL), openaioption.WithAPIKey("k"))
	stream := client.Chat.Completions.NewStreaming(t.Context(), openaisdk.ChatCompletionNewParams{Model: "m",
		Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.UserMessage("hi")}})
	defer stream.Close()
	var acc openaisdk.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatal("the SDK does not take a chunk")
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	c := acc.Choices[0]
	theirs := []string{"text " + c.Message.Content}
	for _, call := range c.Message.ToolCalls {
		theirs = append(theirs, fmt.Sprintf("call %s %s %s", call.ID, call.Function.Name, call.Function.Arguments))
	}
	u := acc.Usage
	end := map[string]string{"tool_calls": model.FinishToolCalls}[c.FinishReason]
	compare(t, ours(t, p), append(theirs, end, fmt.Sprintf("tokens %d in, %d out, %d read, 0 written, %d thought",
		u.PromptTokens, u.CompletionTokens, u.PromptTokensDetails.CachedTokens, u.CompletionTokensDetails.ReasoningTokens)))
	if requests := server.Requests(); requests[0].Path != requests[1].Path {
		t.Errorf("the SDK posts to %s, ours to %s", requests[0].Path, requests[1].Path)
	}
}

func TestOpenAI_Request(t *testing.T) {
	roundTrip(t, file(t, "openai", "body.json"), new(openaisdk.ChatCompletionNewParams))
}
