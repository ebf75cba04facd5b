package wiretest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"dshsh/loop/model"
)

// Exchange reads testdata/request.json and testdata/reply.sse, one exchange in the shapes
// that the service documents.
func Exchange(t *testing.T) (req *model.Request, reply string) {
	t.Helper()
	raw, err := os.ReadFile("testdata/request.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &req); err != nil {
		t.Fatal(err)
	}
	sse, err := os.ReadFile("testdata/reply.sse")
	if err != nil {
		t.Fatal(err)
	}
	return req, string(sse)
}

var update = flag.Bool("update", false, "write the golden files anew")

// Golden compares with a file in testdata, or writes it with -update.
func Golden(t *testing.T, name string, got []byte) {
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

// GoldenBody is Golden for the JSON body of a request, indented.
func GoldenBody(t *testing.T, name string, body []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	Golden(t, name, append(pretty.Bytes(), '\n'))
}

// GoldenChunks is Golden for chunks, one a line.
func GoldenChunks(t *testing.T, name string, chunks []model.Chunk) {
	t.Helper()
	var lines bytes.Buffer
	for _, c := range chunks {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	Golden(t, name, lines.Bytes())
}
