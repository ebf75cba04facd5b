package main_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"dshsh/loop/model/modeltest"
)

// BenchmarkRun is the time of whole programs, from the start to the exit: dshsh with a
// local model server, with the offline provider, with a script of each language, and what
// node takes to do nothing. The figure that counts is the median, ms/run; of-node is its
// part of node's.
func BenchmarkRun(b *testing.B) {
	s := modeltest.NewServer(b).Otherwise(modeltest.WireText("pong"))
	files := map[string]string{
		"a.js":  "ctx.on('tools/pre-execute', (c) => { if (c.name === 'x') return { kind: 'deny' }; });",
		"b.lua": "ctx.on('tools/pre-execute', function(c) if c.name == 'x' then return { kind = 'deny' } end end)",
	}
	var node time.Duration
	if path, err := exec.LookPath("node"); err == nil {
		b.Run("node", func(b *testing.B) { node = median(b, func() *exec.Cmd { return exec.Command(path, "-e", "0") }, 0) })
	}
	for _, c := range []struct {
		name string
		env  []string
		args []string
	}{
		{"offline", nil, []string{"run", "say pong"}},
		{"server", []string{"OPENAI_BASE_URL=" + s.URL, "OPENAI_API_KEY=sk-test"}, []string{"run", "ping"}},
		{"scripts", nil, []string{"run", "--script", "a.js", "--script", "b.lua", "say pong"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			sh := &shell{t: b, dir: b.TempDir(), home: b.TempDir()}
			for name, text := range files {
				sh.write(name, text)
			}
			median(b, func() *exec.Cmd { return sh.command(place{env: c.env}, c.args...) }, node)
		})
	}
}

// median runs a program b.N times, one after the other.
func median(b *testing.B, command func() *exec.Cmd, node time.Duration) time.Duration {
	b.Helper()
	if out, err := command().CombinedOutput(); err != nil { // once beforehand, for the caches
		b.Fatalf("%v\n%s", err, out)
	}
	times := make([]time.Duration, 0, b.N)
	b.ResetTimer()
	for range b.N {
		cmd := command()
		began := time.Now()
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	b.StopTimer()
	slices.Sort(times)
	m := times[len(times)/2]
	b.ReportMetric(float64(m.Microseconds())/1000, "ms/run")
	if node > 0 {
		b.ReportMetric(float64(m)/float64(node), "of-node")
	}
	return m
}
