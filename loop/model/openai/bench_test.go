package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/openai"
)

// transport answers without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is a response with status 200 and this body.
func answer(body io.Reader) *http.Response {
	rc, ok := body.(io.ReadCloser)
	if !ok {
		rc = io.NopCloser(body)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: rc}
}

// endless repeats frame for ever.
type endless struct {
	frame string
	pos   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], e.frame[e.pos:])
		n += c
		e.pos = (e.pos + c) % len(e.frame)
	}
	return n, nil
}

// BenchmarkChunk is the cost of one chunk, from the bytes of its frame to what Next
// returns, without the network and with the frames of real services.
func BenchmarkChunk(b *testing.B) {
	for _, bc := range []struct{ name, frame string }{
		{"OpenAI", `data: {"id":"chatcmpl-BxH2lE7w7Jm5Vq3pDkWnZ0aT1sYcG","object":"chat.completion.chunk","created":1750000000,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_07871e2ad8","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"pZ3k9"}` + "\n\n"},
		{"DeepSeek", `data: {"id":"930c60df-bf64-41c9-a88e-3ec75f81e00e","choices":[{"index":0,"delta":{"content":null,"reasoning_content":" word"},"finish_reason":null,"logprobs":null}],"created":1750000000,"model":"deepseek-v4","system_fingerprint":"fp_a49d71b8a1","object":"chat.completion.chunk","usage":null}` + "\n\n"},
		{"Arguments", `data: {"id":"chatcmpl-BxH2lE7w7Jm5Vq3pDkWnZ0aT1sYcG","object":"chat.completion.chunk","created":1750000000,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_07871e2ad8","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			p := openai.New(openai.Options{HTTPClient: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
				return answer(&endless{frame: bc.frame}), nil
			})}})
			s, err := p.Stream(b.Context(), request())
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			b.SetBytes(int64(len(bc.frame)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEncode is the cost of writing a request of 200 messages.
func BenchmarkEncode(b *testing.B) {
	var messages []model.Message
	for range 100 {
		messages = append(messages, user(strings.Repeat("some words ", 50)),
			model.Message{Role: model.RoleAssistant, Content: []model.Block{model.ToolCall("c", "ls", `{"path":"."}`)}})
	}
	p := openai.New(openai.Options{HTTPClient: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
		return answer(strings.NewReader("")), nil
	})}})
	b.ReportAllocs()
	for b.Loop() {
		s, err := p.Stream(b.Context(), request(messages...))
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
