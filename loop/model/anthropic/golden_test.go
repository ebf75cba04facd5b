package anthropic_test

import (
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/anthropic"
	"dshsh/loop/model/internal/wiretest"
	"dshsh/loop/model/modeltest"
)

// TestGoldenExchange is one exchange in both directions, request.json to body.json and
// reply.sse to chunks.jsonl, in the shapes that Anthropic documents; and the reply taken
// up into the conversation, next.json.
func TestGoldenExchange(t *testing.T) {
	req, reply := wiretest.Exchange(t)
	p, server := provider(t, anthropic.Options{APIKey: "sk-secret"}, modeltest.Steps(modeltest.Raw(reply)), modeltest.WireText("ok"))
	chunks, err := read(t.Context(), p, req)
	if err != nil {
		t.Fatal(err)
	}
	wiretest.GoldenChunks(t, "chunks.jsonl", chunks)

	req.Messages = append(req.Messages, fold(chunks).Message("m7", req.Config),
		results(model.ToolResult("toolu_b", false, model.Text("noon")), model.ToolResult("toolu_a", false)))
	if _, err := read(t.Context(), p, req); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"body.json", "next.json"} {
		wiretest.GoldenBody(t, name, server.Requests()[i].Body)
	}
	if h := server.Requests()[0].Header; h.Get("X-Api-Key") != "sk-secret" || h.Get("Anthropic-Version") != "2023-06-01" ||
		h.Get("Content-Type") != "application/json" || !strings.Contains(h.Get("Accept"), "text/event-stream") || h["Idempotency-Key"] != nil {
		t.Errorf("headers: %v", h)
	}
}
