package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == peakArg {
		reportPeak(os.Args[2:])
		return
	}
	goleak.VerifyTestMain(m)
}

// Every figure can be measured; how they come out is for whoever runs it.
func TestEveryFigure(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	var out bytes.Buffer
	b := &bench{rounds: 1, logMB: 1, steps: 3, chunks: 20, watch: 50 * time.Millisecond, out: &out}
	if err := b.run(""); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	for _, name := range []string{"one tool step more", "idle, 20 scripts", "1000 in lua", "save to in force", "opening 1 MB"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("no line %q in:\n%s", name, out.Bytes())
		}
	}
}
