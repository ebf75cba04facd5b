package openai_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
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
// reply.sse to chunks.jsonl, in the shapes that OpenAI documents.
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
	for _, flavour := range []struct {
		body string
		make func(openai.Options) *openai.Provider
	}{{"body.json", openai.New}, {"body-deepseek.json", openai.DeepSeek}} {
		server := modeltest.NewServer(t, modeltest.Steps(modeltest.Raw(string(reply))))
		p := flavour.make(openai.Options{BaseURL: server.URL, APIKey: "sk-secret"})
		t.Cleanup(p.CloseIdleConnections)
		chunks, err := read(t.Context(), p, &req)
		if err != nil {
			t.Fatal(err)
		}
		sent := server.Requests()[0]
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, sent.Body, "", "  "); err != nil {
			t.Fatal(err)
		}
		golden(t, flavour.body, append(pretty.Bytes(), '\n'))
		if h := sent.Header; h.Get("Authorization") != "Bearer sk-secret" || h.Get("Content-Type") != "application/json" ||
			!strings.Contains(h.Get("Accept"), "text/event-stream") || h["Idempotency-Key"] != nil {
			t.Errorf("headers: %v", h)
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
	}
}
