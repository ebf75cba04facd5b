package bench_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"testing"
	"time"
)

// many are n scripts, half of each language, that listen to what policies listen to.
func many(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		name, text := fmt.Sprintf("s%03d.js", i), "ctx.on('tools/pre-execute', (call) => { if (call.name === 'never') return { kind: 'deny', reason: 'no' }; });\nctx.on('agent/turn-starting', ({ turn }) => { if (turn > 1e9) throw new Error('spent'); });"
		if i%2 == 1 {
			name, text = fmt.Sprintf("s%03d.lua", i), "ctx.on('tools/pre-execute', function(call) if call.name == 'never' then return { kind = 'deny', reason = 'no' } end end)\nctx.on('agent/turn-starting', function(p) if p.turn > 1e9 then error('spent') end end)"
		}
		files[name] = text
	}
	return files
}

// BenchmarkSaveToForce is the time from the rename that saves one script of 20 to its
// being in force at an idle prompt. ms/beyond-settle is without the 40 ms that files must
// be quiet.
func BenchmarkSaveToForce(b *testing.B) {
	for _, c := range []struct{ name, comment string }{{"s000.js", "//"}, {"s001.lua", "--"}} {
		b.Run(c.name, func(b *testing.B) {
			files := many(20)
			r := newRig(b, files)
			var all time.Duration
			n := 0
			for b.Loop() {
				n++
				began := time.Now()
				r.save(c.name, files[c.name]+fmt.Sprintf("\n%s %d", c.comment, n))
				r.inForce()
				all += time.Since(began)
			}
			ms := float64(all.Microseconds()) / 1000 / float64(n)
			b.ReportMetric(ms, "ms/save")
			b.ReportMetric(ms-40, "ms/beyond-settle")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkReload is one reload by hand of one script of 20.
func BenchmarkReload(b *testing.B) {
	files := many(20)
	r := newRig(b, files)
	n := 0
	for b.Loop() {
		n++
		r.save("s000.js", files["s000.js"]+fmt.Sprintf("\n// %d", n))
		if _, err := r.m.Reload(context.Background()); err != nil {
			b.Fatal(err)
		}
		for len(r.force) > 0 {
			<-r.force
		}
	}
}

// BenchmarkMemoryOfScripts is what 0, 20 and 100 scripts at an idle prompt keep: the heap
// beside that of the program, and what the process has from the system.
func BenchmarkMemoryOfScripts(b *testing.B) {
	for _, n := range []int{0, 20, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			heap := func() float64 {
				var ms goruntime.MemStats
				goruntime.GC()
				goruntime.GC()
				goruntime.ReadMemStats(&ms)
				return float64(ms.HeapAlloc) / (1 << 20)
			}
			for b.Loop() {
				before := heap()
				r := newRig(b, many(n))
				after := heap()
				b.ReportMetric(after-before, "MiB-heap")
				if n > 0 {
					b.ReportMetric((after-before)*1024/float64(n), "KiB/script")
				}
				goruntime.KeepAlive(r)
				r.m.Close()
				r.h.Stop()
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
