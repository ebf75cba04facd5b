// Bench measures dshsh from outside and from inside and prints one table:
//
//	go run ./cmd/dshsh/bench [-rounds N] [-only TEXT] [-log MB]
//
// Everything is measured in one run, in turns, so that what else the machine does falls on
// all of it: each figure is the median of its rounds, with the least and the most behind
// it. The model server of the whole-program figures is on loopback and part of what is
// measured; its own share stands in a line of its own. `sh` and `node` are measured beside
// it when the machine has them.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// figure is one line of the table. sample gives one round's value, in unit.
type figure struct {
	name, unit string
	sample     func() (float64, error)
	// rounds is how often it is sampled; 0 = the default.
	rounds int
}

// group is what is measured in turns. open prepares it; close, which may be nil, takes
// back what it left.
type group struct {
	title string
	open  func(b *bench) (figures []figure, close func(), err error)
}

// bench is one run. Used by one goroutine.
type bench struct {
	rounds int
	logMB  int
	steps  int           // tool calls of the long runs, one a step
	chunks int           // of the long reply
	watch  time.Duration // how long an idle shell is watched
	dir    string        // for everything that is written
	binary string
	static bool // builds it without C
	out    io.Writer
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == peakArg {
		reportPeak(os.Args[2:])
		return
	}
	b := &bench{out: os.Stdout, static: true, steps: 100, chunks: 2000, watch: 10 * time.Second}
	only := flag.String("only", "", "measure only groups whose title contains this")
	flag.IntVar(&b.rounds, "rounds", 15, "how often each figure is sampled")
	flag.IntVar(&b.logMB, "log", 100, "size of the big session, in MB")
	flag.Parse()
	if err := b.run(*only); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func (b *bench) run(only string) (err error) {
	if b.dir, err = os.MkdirTemp("", "dshsh-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	b.binary = filepath.Join(b.dir, "dshsh")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", b.binary, "dshsh/cmd/dshsh")
	if b.static {
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is released
	}
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building dshsh (run this from its source folder): %w\n%s", err, out)
	}
	fi, err := os.Stat(b.binary)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s/%s, %d CPUs, %s; %.1f MB of binary; median of %d rounds (least to most)\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), float64(fi.Size())/1e6, b.rounds)
	for _, g := range []group{
		{"whole programs", programs}, {"memory", memory}, {"one event, by the number of its listeners", hooks}, {"scripts", reloads}, {"session log", logs},
	} {
		if !strings.Contains(g.title, only) {
			continue
		}
		if err := b.measure(g); err != nil {
			return fmt.Errorf("%s: %w", g.title, err)
		}
	}
	return nil
}

// measure samples a group's figures round by round and prints them.
func (b *bench) measure(g group) error {
	figures, done, err := g.open(b)
	if done != nil {
		defer done()
	}
	if err != nil {
		return err
	}
	samples := make([][]float64, len(figures))
	for round := range b.rounds + 1 {
		for i, f := range figures {
			if round > cmp.Or(f.rounds, b.rounds) {
				continue
			}
			v, err := f.sample()
			if errors.Is(err, errors.ErrUnsupported) {
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			if round > 0 { // the first is for the caches
				samples[i] = append(samples[i], v)
			}
		}
	}
	fmt.Fprintf(b.out, "\n%s\n", g.title)
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', 0)
	for i, f := range figures {
		s := samples[i]
		if len(s) == 0 {
			fmt.Fprintf(w, "  %s\tnot on this system\t\t\n", f.name)
			continue
		}
		slices.Sort(s)
		fmt.Fprintf(w, "  %s\t%s\t%s\t(%s to %s)\n", f.name, number(s[len(s)/2]), f.unit, number(s[0]), number(s[len(s)-1]))
	}
	return w.Flush()
}

// number shows three digits that count.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
