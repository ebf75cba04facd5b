package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"dshsh/bindings/js"
	"dshsh/bindings/lua"
	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/runtime"
	"dshsh/session"
)

// scripted is a model that keeps nothing of a request: modeltest's fake copies each,
// which costs as much as the history is long.
type scripted struct{ reply func(turn int) []model.Chunk }

func (*scripted) Name() string           { return "fake" }
func (*scripted) Info(string) model.Info { return model.Info{} }
func (s *scripted) Stream(_ context.Context, req *model.Request) (model.Stream, error) {
	return &chunks{s.reply(len(req.Messages))}, nil
}

// word is a reply of one word in one chunk.
func word(int) []model.Chunk {
	return []model.Chunk{model.NewTextDelta(0, "ok"), model.NewFinish(model.FinishStop)}
}

// call is a reply that calls a tool, which answers at once.
func call(n int) []model.Chunk {
	id := fmt.Sprint("c", n)
	return []model.Chunk{model.NewBlockEnd(0, model.ToolCall(id, "noop", "{}")), model.NewFinish(model.FinishToolCalls)}
}

type noop struct{}

func (noop) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "noop", Parameters: json.RawMessage(`{"type":"object"}`)}
}
func (noop) ReadOnly(json.RawMessage) bool { return true }
func (noop) Execute(context.Context, json.RawMessage, *tool.Exec) (tool.Result, error) {
	return tool.TextResult("ok"), nil
}

// cpuTime is what the process has used; on a busy machine it says more than the clock.
var cpuTime = func() time.Duration { return 0 }

// measure runs fn as often as b asks, and reports the processor's time, garbage
// collection and all, for each of the units that fn does.
func measure(b *testing.B, units int, unit string, fn func()) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	from := cpuTime()
	for range b.N {
		fn()
	}
	b.StopTimer()
	all := float64(b.N * units)
	if used := cpuTime() - from; used > 0 {
		b.ReportMetric(float64(used.Nanoseconds())/all, "cpu-ns/"+unit)
	}
	if units > 1 {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/"+unit)
	}
}

// bench is a host of one agent, for measuring.
type bench struct {
	h *loop.Host
	a loop.Agent
}

func newBench(b *testing.B, reply func(int) []model.Chunk, change ...func(*loop.Config)) *bench {
	b.Helper()
	cfg := loop.Config{Providers: []model.Provider{&scripted{reply}}, Engines: []runtime.Engine{js.Engine(), lua.Engine()}}
	for _, c := range change {
		c(&cfg)
	}
	h, err := loop.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	x := &bench{h: h}
	b.Cleanup(h.Stop)
	x.a = x.agent(b)
	return x
}

func (x *bench) agent(b *testing.B) (a loop.Agent) {
	x.do(b, func() {
		var err error
		if a, err = x.h.Create(loop.CreateOptions{Options: loop.Options{Provider: "fake", Model: "m"}}); err != nil {
			b.Error(err)
		}
	})
	return a
}

func (x *bench) do(b *testing.B, fn func()) {
	b.Helper()
	if err := x.h.Do(context.Background(), fn); err != nil {
		b.Fatal(err)
	}
}

// turn runs one turn of one step and waits for its end.
func (x *bench) turn(b *testing.B) {
	x.do(b, func() {
		if err := x.a.Followup(loop.UserMessage("go")); err != nil {
			b.Error(err)
		}
		if err := x.a.WhenIdle(context.Background()); err != nil {
			b.Error(err)
		}
	})
}

func onDisk(b *testing.B) func(*loop.Config) {
	return func(c *loop.Config) {
		store, err := session.OpenStore(b.TempDir(), session.Options{Validator: loop.NewValidator, NoSync: true})
		if err != nil {
			b.Fatal(err)
		}
		c.Store = store
	}
}

// listen subscribes n listeners of pre-step, as a policy would, in each of the languages.
func (x *bench) listen(b *testing.B, n int, langs ...string) {
	for _, lang := range langs {
		for i := range n {
			x.do(b, func() {
				var err error
				switch lang {
				case "go":
					loop.PreStep.On(x.h.Host, func(p loop.PreStepPayload, next func(loop.PreStepPayload) (loop.StepDecision, error)) (loop.StepDecision, error) {
						return next(p)
					})
				case "js":
					err = x.h.Script(fmt.Sprintf("l%d.js", i), `ctx.on('agent/pre-step', (p, next) => { if (p.step > 1e9) return { kind: 'reject' } })`)
				case "lua":
					err = x.h.Script(fmt.Sprintf("l%d.lua", i), `ctx.on('agent/pre-step', function(p, next) if p.step > 1e9 then return { kind = 'reject' } end end)`)
				}
				if err != nil {
					b.Error(err)
				}
			})
		}
	}
}

// The loop's own cost of a turn of one step: about ten records, no tool, a model that
// answers at once.
func BenchmarkStep(b *testing.B) {
	for _, bc := range []struct {
		name  string
		n     int
		langs []string
	}{
		{"none", 0, nil}, {"1 Go", 1, []string{"go"}}, {"1 JavaScript", 1, []string{"js"}}, {"1 Lua", 1, []string{"lua"}},
		{"1 in each script language", 1, []string{"js", "lua"}}, {"20 JavaScript", 20, []string{"js"}}, {"20 Lua", 20, []string{"lua"}},
	} {
		b.Run("memory/listeners="+bc.name, func(b *testing.B) {
			x := newBench(b, word)
			x.listen(b, bc.n, bc.langs...)
			measure(b, 1, "step", func() { x.turn(b) })
		})
		b.Run("disk/listeners="+bc.name, func(b *testing.B) {
			x := newBench(b, word, onDisk(b))
			x.listen(b, bc.n, bc.langs...)
			measure(b, 1, "step", func() { x.turn(b) })
		})
	}
}

// A step inside a turn, with a call of a tool that does nothing.
func BenchmarkToolStep(b *testing.B) {
	left := 0
	x := newBench(b, func(n int) []model.Chunk {
		if left--; left > 0 {
			return call(n)
		}
		return word(n)
	}, func(c *loop.Config) { c.Tools = []tool.Tool{noop{}} })
	left = b.N
	b.ReportAllocs()
	b.ResetTimer()
	from := cpuTime()
	x.turn(b)
	b.ReportMetric(float64((cpuTime()-from).Nanoseconds())/float64(b.N), "cpu-ns/step")
}

// What a streamed chunk costs, received and recorded: the reply has a thousand.
func BenchmarkChunk(b *testing.B) {
	const n = 1000
	reply := make([]model.Chunk, n, n+1)
	for i := range reply {
		reply[i] = model.NewTextDelta(0, "word ")
	}
	reply = append(reply, model.NewFinish(model.FinishStop))
	for _, listeners := range []string{"none", "js"} {
		for _, place := range []string{"memory", "disk"} {
			b.Run(place+"/listener="+listeners, func(b *testing.B) {
				change := []func(*loop.Config){}
				if place == "disk" {
					change = append(change, onDisk(b))
				}
				x := newBench(b, func(int) []model.Chunk { return reply }, change...)
				if listeners == "js" {
					x.do(b, func() {
						if err := x.h.Script("l.js", `ctx.on('agent/stream-chunk', (p) => { p.chunks.length })`); err != nil {
							b.Error(err)
						}
					})
				}
				measure(b, n, "chunk", func() { x.turn(b) })
			})
		}
	}
}

// The cost of a step must not depend on how long the session is.
func BenchmarkHistory(b *testing.B) {
	for _, n := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprint("steps=", n), func(b *testing.B) {
			x := newBench(b, word)
			for range n {
				x.turn(b)
			}
			measure(b, 1, "step", func() { x.turn(b) })
		})
	}
}

// A hundred agents that work at the same time on one host, against one.
func BenchmarkAgents(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint("agents=", n), func(b *testing.B) {
			x := newBench(b, word)
			agents := []loop.Agent{x.a}
			for len(agents) < n {
				agents = append(agents, x.agent(b))
			}
			measure(b, n, "turn", func() {
				x.do(b, func() {
					for _, a := range agents {
						if err := a.Followup(loop.UserMessage("go")); err != nil {
							b.Error(err)
						}
					}
					for _, a := range agents {
						_ = a.WhenIdle(context.Background())
					}
				})
			})
		})
	}
}
