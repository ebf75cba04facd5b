//go:build unix

package repl_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"dshsh/cmd/dshsh/internal/repl"
)

// TestCloseLeavesNothing opens and closes prompts in this process, so that the leak check
// at the end of the tests sees every goroutine of theirs, and readline's.
func TestCloseLeavesNothing(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string)
	go func() {
		b, _ := io.ReadAll(master)
		seen <- string(b)
	}()
	for i := range 5 {
		ed, err := repl.NewEditor(repl.EditorConfig{In: slave, Out: slave, TTY: true, Prompt: "> "})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			ed.Print("some output")
		}
		if i > 1 { // half typed, and a question open
			if _, err := master.WriteString("half"); err != nil {
				t.Fatal(err)
			}
			asked := make(chan error)
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			go func() {
				_, err := ed.Ask(ctx, "Sure?", nil)
				asked <- err
			}()
			defer func() {
				if err := <-asked; !errors.Is(err, repl.ErrClosed) {
					t.Errorf("Ask: %v", err)
				}
				cancel()
			}()
			ed.Flush()
		}
		if i > 2 {
			if err := ed.Lend(func() error { return nil }); err != nil {
				t.Error(err)
			}
		}
		began := time.Now()
		if err := ed.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("Close took %v", d)
		}
	}
	slave.Close()
	if out := <-seen; strings.Count(out, "some output") != 4 {
		t.Errorf("output: %q", out)
	}
	master.Close()
}
