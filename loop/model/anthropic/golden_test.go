package anthropic_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/anthropic"
	"dshsh/loop/model/modeltest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s (-update writes it anew):\n got %s\nwant %s", name, got, want)
	}
}

// TestGoldenExchange is one exchange in both directions, request.json to body.json and
// reply.sse to chunks.jsonl, in the shapes that Anthropic documents; and the reply taken
// up into the conversation, next.json.
func TestGoldenExchange(t *testing.T) {
	raw, err := os.ReadFile("testdata/request.json")
	if err != nil {
		t.Fatal(err)
	}
	var req model.Request
	if err := json.Unmarshal(raw, &req); err != nil {
		t.Fatal(err)
	}
	reply, err := os.ReadFile("testdata/reply.sse")
	if err != nil {
		t.Fatal(err)
	}
	p, server := provider(t, anthropic.Options{APIKey: "sk-secret"},
		modeltest.Steps(modeltest.Raw(string(reply))), modeltest.WireText("ok"))
	chunks, err := read(t.Context(), p, &req)
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for _, c := range chunks {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	golden(t, "chunks.jsonl", lines.Bytes())

	req.Messages = append(req.Messages, fold(chunks).Message("m7", req.Config),
		results(model.ToolResult("toolu_b", false, model.Text("noon")), model.ToolResult("toolu_a", false)))
	if _, err := read(t.Context(), p, &req); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"body.json", "next.json"} {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, server.Requests()[i].Body, "", "  "); err != nil {
			t.Fatal(err)
		}
		golden(t, name, append(pretty.Bytes(), '\n'))
	}
	if h := server.Requests()[0].Header; h.Get("X-Api-Key") != "sk-secret" || h.Get("Anthropic-Version") != "2023-06-01" ||
		h.Get("Content-Type") != "application/json" || !strings.Contains(h.Get("Accept"), "text/event-stream") || h["Idempotency-Key"] != nil {
		t.Errorf("headers: %v", h)
	}
}
