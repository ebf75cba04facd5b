package js_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/js"
	"dshsh/runtime"
)

// benchNote is a payload of the size of a small tool call.
func benchNote() bindingstest.Note {
	return bindingstest.Note{Text: "git push --force", N: 3, Data: json.RawMessage(`{"command":"git push --force","cwd":"/home","env":{"A":"1"}}`)}
}

func onThread(b *testing.B, script string, fn func(h *runtime.Host)) {
	b.Helper()
	e := js.Engine()
	h := bindingstest.NewHost(e, runtime.Limits{}, nil)
	defer h.Close()
	if err := h.Do(context.Background(), func() {
		if err := bindingstest.Load(h, e, "bench.js", script); err != nil {
			b.Error(err)
			return
		}
		fn(h)
	}); err != nil {
		b.Error(err)
	}
}

func allow(bindingstest.Note) (bindingstest.Answer, error) {
	return bindingstest.Answer{Kind: "allow"}, nil
}

func BenchmarkEmit(b *testing.B) {
	for name, script := range map[string]string{
		"empty":      `ctx.on('test/emit', () => {})`,
		"two fields": `let n = 0; ctx.on('test/emit', (p) => { if (p.text.includes('--force') && p.n > 5) n++; })`,
		"nested":     `let n = 0; ctx.on('test/emit', (p) => { if (p.data.command.includes('--force') && p.n > 5) n++; })`,
	} {
		b.Run(name, func(b *testing.B) {
			onThread(b, script, func(h *runtime.Host) {
				b.ReportAllocs()
				for b.Loop() {
					bindingstest.Emit.Fire(h, runtime.Target{}, benchNote())
				}
			})
		})
	}
}

func BenchmarkSerial(b *testing.B) {
	onThread(b, `let n = 0; ctx.on('test/serial', (p) => { if (p.text.includes('--force') && p.n > 5) n++; })`, func(h *runtime.Host) {
		b.ReportAllocs()
		for b.Loop() {
			if err := bindingstest.Serial.Run(h, runtime.Target{}, benchNote()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkWaterfall(b *testing.B) {
	for name, script := range map[string]string{
		"decides":       `ctx.on('test/decide', (p) => { if (p.text.includes('--force')) return { kind: 'deny', reason: 'no' }; })`,
		"abstains":      `ctx.on('test/decide', (p) => { if (p.text.includes('rm')) return { kind: 'deny', reason: 'no' }; })`,
		"return next()": `ctx.on('test/decide', (p, next) => next())`,
		"async next":    `ctx.on('test/decide', async (p, next) => { const r = await next(); return r; })`,
		"async waits":   `ctx.on('test/decide', async (p, next) => { await ctx.sleep(0); return next(); })`,
	} {
		b.Run(name, func(b *testing.B) {
			onThread(b, script, func(h *runtime.Host) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := bindingstest.Decide.Run(h, runtime.Target{}, benchNote(), allow); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkBoot(b *testing.B) {
	guard := `ctx.on('test/tool', { filter: { tool: 'bash' } }, (call, next) => {
  if (/\brm\b/.test(call.arguments.command)) return { kind: 'ask', reason: 'removes files' };
  return next();
});
`
	long := guard + strings.Repeat("function helper() { const list = [1, 2, 3]; return list.map((x) => x + 1).filter((x) => x > 2); }\n", 200)
	for name, script := range map[string]string{"guard": guard, "200 lines": long} {
		b.Run(name, func(b *testing.B) {
			e := js.Engine()
			p, err := e.Compile(runtime.Source{ID: "project/bench.js", File: "bench.js", Code: []byte(script)})
			if err != nil {
				b.Fatal(err)
			}
			h := bindingstest.NewHost(e, runtime.Limits{}, nil)
			defer h.Close()
			_ = h.Do(context.Background(), func() {
				b.ReportAllocs()
				for b.Loop() {
					in, err := h.Load(runtime.ScriptFile{ID: "project/bench.js", File: "bench.js", Program: p})
					if err != nil {
						b.Fatal(err)
					}
					h.Discard(in)
				}
			})
		})
	}
	b.Run("compile guard", func(b *testing.B) {
		e := js.Engine()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := e.Compile(runtime.Source{ID: "project/bench.js", File: "bench.js", Code: []byte(guard)}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
