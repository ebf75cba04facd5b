//go:build unix

package shell

import (
	"encoding/json"
	"os"
	"testing"

	"dshsh/loop/tool"
)

func BenchmarkTrue(b *testing.B) {
	sh := New(Config{Dir: b.TempDir(), Environ: os.Environ()})
	defer sh.Close()
	args := json.RawMessage(`{"command":"true"}`)
	for b.Loop() {
		if _, err := sh.Execute(b.Context(), args, &tool.Exec{CallID: "c"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for b.Loop() {
		find(1<<30, "DSHSH_SHELL_none=")
	}
}
