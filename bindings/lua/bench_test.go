package lua_test

import (
	"context"
	"testing"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/lua"
	"dshsh/runtime"
)

func benchHost(b *testing.B, script string, fn func(h *runtime.Host)) {
	b.Helper()
	e := lua.Engine()
	h := bindingstest.NewHost(e, runtime.Limits{}, nil)
	defer h.Close()
	err := h.Do(context.Background(), func() {
		if err := bindingstest.Load(h, e, "a.lua", script); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		b.ResetTimer()
		fn(h)
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkEmit is a listener that reads two fields of a fresh payload, guarded.
func BenchmarkEmit(b *testing.B) {
	benchHost(b, `ctx.on('test/emit', function(ev) local x = ev.text if ev.n == 3 then x = nil end end)`, func(h *runtime.Host) {
		for b.Loop() {
			bindingstest.Emit.Fire(h, runtime.Target{}, bindingstest.Note{Text: "text", N: 2})
		}
	})
}

// BenchmarkEmitEmpty is the guard alone.
func BenchmarkEmitEmpty(b *testing.B) {
	benchHost(b, `ctx.on('test/emit', function() end)`, func(h *runtime.Host) {
		for b.Loop() {
			bindingstest.Emit.Fire(h, runtime.Target{}, bindingstest.Note{Text: "text", N: 2})
		}
	})
}

// BenchmarkSerial is the same, awaited: with a hook and its limit of wall time.
func BenchmarkSerial(b *testing.B) {
	benchHost(b, `ctx.on('test/serial', function(ev) local x = ev.text if ev.n == 3 then x = nil end end)`, func(h *runtime.Host) {
		for b.Loop() {
			if err := bindingstest.Serial.Run(h, runtime.Target{}, bindingstest.Note{Text: "text", N: 2}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkWaterfall is a listener that passes on what next gives.
func BenchmarkWaterfall(b *testing.B) {
	benchHost(b, `ctx.on('test/decide', function(ev, next) return next() end)`, func(h *runtime.Host) {
		for b.Loop() {
			_, err := bindingstest.Decide.Run(h, runtime.Target{}, bindingstest.Note{Text: "text"}, func(bindingstest.Note) (bindingstest.Answer, error) {
				return bindingstest.Answer{Kind: "allow"}, nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMethod is one call of a Go method, in a loop of the script.
func BenchmarkMethod(b *testing.B) {
	benchHost(b, `ctx.on('test/emit', function(ev) for i = 1, ev.n do ctx.now() end end)`, func(h *runtime.Host) {
		bindingstest.Emit.Fire(h, runtime.Target{}, bindingstest.Note{N: b.N})
	})
}

// BenchmarkPcall is one pcall, in a loop of the script.
func BenchmarkPcall(b *testing.B) {
	benchHost(b, `local function f(x) return x end ctx.on('test/emit', function(ev) for i = 1, ev.n do pcall(f, i) end end)`, func(h *runtime.Host) {
		bindingstest.Emit.Fire(h, runtime.Target{}, bindingstest.Note{N: b.N})
	})
}

const smallScript = `-- A guard as people write it.
local secrets = { '%.env$', '%.pem$', 'id_rsa' }
local count = 0
ctx.on('test/tool', { filter = { tool = { 'write', 'edit' } } }, function(call, next)
  for _, p in ipairs(secrets) do
    if call.arguments.path:match(p) then return { kind = 'deny', reason = 'secrets' } end
  end
  count = count + 1
  return next()
end)
ctx.on('test/emit', function(ev) if ev.n > 50 then ctx.log('many') end end)
`

// BenchmarkBoot makes a VM of a compiled script, runs its top level and closes it.
func BenchmarkBoot(b *testing.B) {
	e := lua.Engine()
	h := bindingstest.NewHost(e, runtime.Limits{}, nil)
	defer h.Close()
	p, err := e.Compile(runtime.Source{ID: "project/a.lua", File: "a.lua", Code: []byte(smallScript)})
	if err != nil {
		b.Fatal(err)
	}
	err = h.Do(context.Background(), func() {
		b.ReportAllocs()
		for b.Loop() {
			in, err := h.Load(runtime.ScriptFile{ID: "project/a.lua", File: "a.lua", Program: p})
			if err != nil {
				b.Fatal(err)
			}
			h.Discard(in)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCompile compiles the same script anew.
func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := lua.Engine().Compile(runtime.Source{ID: "project/a.lua", File: "a.lua", Code: []byte(smallScript)}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPattern is a match on 64 KiB.
func BenchmarkPattern(b *testing.B) {
	benchHost(b, `local s = ('some words 123 '):rep(4096) ctx.on('test/emit', function(ev) for i = 1, ev.n do s:match('(%d+)x') end end)`, func(h *runtime.Host) {
		b.SetBytes(15 * 4096)
		bindingstest.Emit.Fire(h, runtime.Target{}, bindingstest.Note{N: b.N})
	})
}

// BenchmarkJSON decodes and encodes 4 KB.
func BenchmarkJSON(b *testing.B) {
	benchHost(b, `local t = {} for i = 1, 60 do t[i] = { id = i, name = 'name ' .. i, tags = { 'a', 'b' }, ok = true } end local s = json.encode(t)
ctx.on('test/emit', function(ev) for i = 1, ev.n do json.encode(json.decode(s)) end end)`, func(h *runtime.Host) {
		bindingstest.Emit.Fire(h, runtime.Target{}, bindingstest.Note{N: b.N})
	})
}
