package openai_test

import (
	"strings"
	"testing"

	"dshsh/loop/model/internal/wiretest"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
)

// TestGoldenExchange is one exchange in both directions, request.json to body.json and
// reply.sse to chunks.jsonl, in the shapes that OpenAI documents.
func TestGoldenExchange(t *testing.T) {
	req, reply := wiretest.Exchange(t)
	for _, flavour := range []struct {
		body string
		make func(openai.Options) *openai.Provider
	}{{"body.json", openai.New}, {"body-deepseek.json", openai.DeepSeek}} {
		server := modeltest.NewServer(t, modeltest.Steps(modeltest.Raw(reply)))
		p := flavour.make(openai.Options{BaseURL: server.URL, APIKey: "sk-secret"})
		t.Cleanup(p.CloseIdleConnections)
		chunks, err := read(t.Context(), p, req)
		if err != nil {
			t.Fatal(err)
		}
		sent := server.Requests()[0]
		wiretest.GoldenBody(t, flavour.body, sent.Body)
		if h := sent.Header; h.Get("Authorization") != "Bearer sk-secret" || h.Get("Content-Type") != "application/json" ||
			!strings.Contains(h.Get("Accept"), "text/event-stream") || h["Idempotency-Key"] != nil {
			t.Errorf("headers: %v", h)
		}
		wiretest.GoldenChunks(t, "chunks.jsonl", chunks)
	}
}
