// Package wiretest has the cases that every provider over HTTP must pass, whatever its
// wire format: streams in odd pieces, replies that are cut, errors, silence, cancelling.
package wiretest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

// Subject is a kind of provider.
type Subject struct {
	// Path is the end of the address that it posts to, which tells modeltest its format.
	Path string
	// KeyHint is where its key is set by default.
	KeyHint string
	// Host is where it goes by default.
	Host string
	// Ping is an event that is sent to keep a connection open; empty if there is none.
	Ping string
	New  func(Options) Provider
}

// Provider is a provider that can be left behind without connections.
type Provider interface {
	model.Provider
	CloseIdleConnections()
}

// Options are those that all providers have.
type Options struct {
	BaseURL, APIKey, KeyHint string
	Headers                  map[string]string
	HTTPClient               *http.Client
	FirstByte, Idle, Stall   time.Duration
}

// Run runs all cases.
func Run(t *testing.T, s Subject) {
	t.Run("streams", s.streams)
	t.Run("ends", s.ends)
	t.Run("failures", s.failures)
	t.Run("silence", s.silence)
	t.Run("cancel", s.cancel)
}

// Start returns a provider for a server that plays replies.
func (s Subject) Start(t *testing.T, o Options, replies ...modeltest.Wire) (Provider, *modeltest.Server) {
	t.Helper()
	server := modeltest.NewServer(t, replies...)
	o.BaseURL = server.URL
	p := s.New(o)
	t.Cleanup(p.CloseIdleConnections)
	return p, server
}

// User returns a user message.
func User(text string) model.Message {
	return model.Message{ID: "u", Role: model.RoleUser, Content: []model.Block{model.Text(text)}, Source: model.Source{Kind: model.SourceUser}}
}

// Assistant returns an assistant message.
func Assistant(blocks ...model.Block) model.Message {
	return model.Message{ID: "a", Role: model.RoleAssistant, Content: blocks, Source: model.Source{Kind: model.SourceModel}}
}

// Results returns a message with tool results.
func Results(blocks ...model.Block) model.Message {
	return model.Message{ID: "r", Role: model.RoleUser, Content: blocks, Source: model.Source{Kind: model.SourceTool}}
}

// Request returns a request with these messages, or one of a user's if there are none.
func Request(messages ...model.Message) *model.Request {
	if messages == nil {
		messages = []model.Message{User("hi")}
	}
	return &model.Request{Config: model.Config{Provider: "test", Model: "test-model"}, Messages: messages}
}

// Read takes a whole reply; the error is nil if it ended with a finish chunk.
func Read(ctx context.Context, p model.Provider, req *model.Request) ([]model.Chunk, error) {
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

// Fold assembles chunks.
func Fold(chunks []model.Chunk) *model.Assembler {
	a := model.NewAssembler()
	for _, c := range chunks {
		a.Add(c)
	}
	return a
}

// Show renders a reply: its blocks, one a line, then its end. Ids that the provider made
// up are (new).
func Show(chunks []model.Chunk, err error) string {
	a := Fold(chunks)
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

// Failure returns err as a *model.Failure, or fails the test.
func Failure(t *testing.T, err error) *model.Failure {
	t.Helper()
	f, ok := err.(*model.Failure)
	if !ok {
		t.Fatalf("got %T %v, want a *model.Failure", err, err)
	}
	return f
}

// Shape is a reply and what must become of it.
type Shape struct {
	Name  string
	Reply modeltest.Wire
	Want  string // as Show has it
	Says  string // part of the failure's message
}

// Case returns a shape.
func Case(name string, reply modeltest.Wire, want, says string) Shape {
	return Shape{Name: name, Reply: reply, Want: want, Says: says}
}

// Check plays a shape to the provider.
func (s Subject) Check(t *testing.T, shapes ...Shape) {
	t.Helper()
	for _, shape := range shapes {
		t.Run(shape.Name, func(t *testing.T) {
			p, _ := s.Start(t, Options{}, shape.Reply)
			chunks, err := Read(t.Context(), p, Request())
			if got := Show(chunks, err); got != shape.Want {
				t.Errorf("got\n%s\nwant\n%s\n(%v)", got, shape.Want, err)
			}
			if shape.Says != "" && (err == nil || !strings.Contains(err.Error(), shape.Says)) {
				t.Errorf("got the message %q, want it to say %q", err, shape.Says)
			}
		})
	}
}

// transport is an http.RoundTripper without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is a streamed success with this body.
func answer(body io.Reader) *http.Response {
	rc, ok := body.(io.ReadCloser)
	if !ok {
		rc = io.NopCloser(body)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: rc}
}
