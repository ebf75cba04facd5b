//go:build unix

package repl_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"dshsh/cmd/dshsh/internal/repl"
)

// output collects what an Editor writes. mu guards it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func plain(t *testing.T, in io.Reader, out io.Writer) *repl.Editor {
	t.Helper()
	ed, err := repl.NewEditor(repl.EditorConfig{In: in, Out: out, Prompt: "> "})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ed.Close() })
	return ed
}

func next(t *testing.T, ed *repl.Editor) repl.Event {
	t.Helper()
	select {
	case ev, ok := <-ed.Events():
		if !ok {
			t.Fatal("no more events")
		}
		return ev
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
	}
	return repl.Event{}
}

func TestPlainLines(t *testing.T) {
	long := strings.Repeat("long 世界 ", 1<<20)
	ed := plain(t, strings.NewReader("one\r\n\n  \n"+long+"\na\\\nb\n\"\"\"\nx\n\ny\n\"\"\"\n\xff\nlast"), io.Discard)
	for _, want := range []string{"one", long, "a\nb", "x\n\ny", "\ufffd", "last"} {
		if ev := next(t, ed); ev.Kind != repl.Line || ev.Text != want {
			t.Errorf("got %v %.40q, want %.40q", ev.Kind, ev.Text, want)
		}
	}
	if ev := next(t, ed); ev.Kind != repl.EOF {
		t.Errorf("got %v, want EOF", ev)
	}
	if _, ok := <-ed.Events(); ok {
		t.Error("an event after the last")
	}
}

func TestPlainOutput(t *testing.T) {
	var out output
	ed := plain(t, strings.NewReader(""), &out)
	ed.SetPrompt("? ")
	ed.SetStatus("status")
	ed.Print("one\ntwo")
	ed.Print("")
	ed.Print("three\n")
	ed.Flush()
	if got := out.String(); got != "one\ntwo\nthree\n" {
		t.Errorf("got %q", got)
	}
	if _, err := ed.Ask(context.Background(), "sure?", nil); !errors.Is(err, repl.ErrNoPerson) {
		t.Errorf("Ask: %v", err)
	}
	if err := ed.Lend(func() error { return io.ErrNoProgress }); err != io.ErrNoProgress {
		t.Errorf("Lend: %v", err)
	}
	ed.Print("four")
	ed.Close()
	ed.Print("five")
	if got := out.String(); got != "one\ntwo\nthree\nfour\nfive\n" {
		t.Errorf("got %q", got)
	}
}

// TestPlainReadsNoFasterThanTaken: a script piped in is not read ahead of what it does.
func TestPlainReadsNoFasterThanTaken(t *testing.T) {
	r, w := io.Pipe()
	ed := plain(t, r, io.Discard)
	wrote := make(chan int, 100)
	go func() {
		defer w.Close()
		for i := range 3 {
			if _, err := io.WriteString(w, strings.Repeat("x", 100<<10)+"\n"); err != nil {
				return
			}
			wrote <- i
		}
	}()
	next(t, ed)
	if n := len(wrote); n > 2 {
		t.Errorf("%d lines read when one was taken", n)
	}
	for range 2 {
		next(t, ed)
	}
	if ev := next(t, ed); ev.Kind != repl.EOF {
		t.Errorf("got %v", ev)
	}
}

// TestR058_ClosePipe: a read of a pipe that nobody writes to is pending.
func TestR058_ClosePipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	ed := plain(t, r, io.Discard)
	began := time.Now()
	if err := ed.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("took %v", d)
	}
	if _, ok := <-ed.Events(); ok {
		t.Error("an event after Close")
	}
	ed.Flush()
	if _, err := ed.Ask(context.Background(), "?", nil); err == nil {
		t.Error("Ask after Close")
	}
}

func TestNotATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := repl.NewEditor(repl.EditorConfig{In: r, Out: w, TTY: true}); err == nil || !strings.Contains(err.Error(), "terminal") {
		t.Errorf("a pipe taken for a terminal: %v", err)
	}
	if _, err := repl.NewEditor(repl.EditorConfig{In: strings.NewReader(""), Out: w, TTY: true}); err == nil {
		t.Error("a string taken for a terminal")
	}
}
