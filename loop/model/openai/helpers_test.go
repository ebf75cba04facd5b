package openai_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
)

// provider returns a Provider for a server that plays replies.
func provider(t *testing.T, o openai.Options, replies ...modeltest.Wire) (*openai.Provider, *modeltest.Server) {
	t.Helper()
	server := modeltest.NewServer(t, replies...)
	o.BaseURL = server.URL
	p := openai.New(o)
	t.Cleanup(p.CloseIdleConnections)
	return p, server
}

func user(text string) model.Message {
	return model.Message{ID: "u", Role: model.RoleUser, Content: []model.Block{model.Text(text)}, Source: model.Source{Kind: model.SourceUser}}
}

func request(messages ...model.Message) *model.Request {
	if messages == nil {
		messages = []model.Message{user("hi")}
	}
	return &model.Request{Config: model.Config{Provider: "openai", Model: "test-model"}, Messages: messages}
}

// read takes a whole reply; the error is nil if it ended with a finish chunk.
func read(ctx context.Context, p model.Provider, req *model.Request) ([]model.Chunk, error) {
	s, err := p.Stream(ctx, req)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var chunks []model.Chunk
	for {
		c, err := s.Next()
		if err == io.EOF {
			return chunks, nil
		}
		if err != nil {
			return chunks, err
		}
		chunks = append(chunks, c)
	}
}

// fold assembles chunks.
func fold(chunks []model.Chunk) *model.Assembler {
	a := model.NewAssembler()
	for _, c := range chunks {
		a.Add(c)
	}
	return a
}

// show renders a reply: its blocks, one a line, then its end.
func show(chunks []model.Chunk, err error) string {
	a := fold(chunks)
	var lines []string
	for _, b := range a.Blocks() {
		switch b.Type {
		case model.BlockText:
			lines = append(lines, "text "+b.Text)
		case model.BlockReasoning:
			lines = append(lines, "reasoning "+b.Text)
		case model.BlockToolCall:
			id := b.ID
			if strings.HasPrefix(id, "call_") && len(id) == 29 {
				id = "(new)"
			}
			lines = append(lines, fmt.Sprintf("call %s %s %s", id, b.Name, b.Arguments))
		}
	}
	if err != nil {
		f := model.AsFailure(context.Background(), err)
		return strings.Join(append(lines, f.Code), "\n")
	}
	return strings.Join(append(lines, a.Finish().Kind), "\n")
}

// failure returns err as a *model.Failure, or fails the test.
func failure(t *testing.T, err error) *model.Failure {
	t.Helper()
	f, ok := err.(*model.Failure)
	if !ok {
		t.Fatalf("got %T %v, want a *model.Failure", err, err)
	}
	return f
}
