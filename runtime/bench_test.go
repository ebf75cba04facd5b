package runtime_test

import (
	"context"
	"encoding/json"
	"testing"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

// onThread runs a benchmark's body on a thread as the program has it, without Debug.
func onThread(b *testing.B, body func(th *runtime.Thread)) {
	th := runtime.NewThread(runtime.ThreadOptions{})
	b.Cleanup(th.Close)
	b.ReportAllocs()
	if err := th.Do(context.Background(), func() { body(th) }); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkDo(b *testing.B) {
	th := runtime.NewThread(runtime.ThreadOptions{})
	b.Cleanup(th.Close)
	b.ReportAllocs()
	ctx := context.Background()
	for b.Loop() {
		_ = th.Do(ctx, func() {})
	}
}

func BenchmarkDoContended(b *testing.B) {
	th := runtime.NewThread(runtime.ThreadOptions{})
	b.Cleanup(th.Close)
	b.ReportAllocs()
	ctx := context.Background()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_ = th.Do(ctx, func() {})
		}
	})
}

func BenchmarkAway(b *testing.B) {
	onThread(b, func(th *runtime.Thread) {
		for b.Loop() {
			_ = th.Away(func() {})
		}
	})
}

func BenchmarkPost(b *testing.B) {
	n := 0
	onThread(b, func(th *runtime.Thread) {
		for b.Loop() {
			th.Post(func() { n++ })
			if b.N%1024 == 0 {
				_ = th.Away(func() {}) // lets them run
			}
		}
	})
}

func BenchmarkPostToAFreeThread(b *testing.B) {
	th := runtime.NewThread(runtime.ThreadOptions{})
	b.Cleanup(th.Close)
	b.ReportAllocs()
	for b.Loop() {
		th.Post(func() {})
	}
}

func BenchmarkMeterOnOff(b *testing.B) {
	onThread(b, func(th *runtime.Thread) {
		vm := &machine{}
		e := &runtime.Entry{VM: vm, Meter: &runtime.Meter{Budget: budget, Interrupt: func() {}}}
		for b.Loop() {
			th.Enter(e)
			th.Exit(e, nil)
		}
	})
}

func BenchmarkStartThatEnds(b *testing.B) {
	onThread(b, func(th *runtime.Thread) {
		for b.Loop() {
			th.Start(func() {})
		}
	})
}

func BenchmarkStartThatLeaves(b *testing.B) {
	onThread(b, func(th *runtime.Thread) {
		for b.Loop() {
			th.Start(func() { _ = th.Away(func() {}) })
			_ = th.Away(func() {})
		}
	})
}

func BenchmarkHook(b *testing.B) {
	b.ReportAllocs()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for b.Loop() {
		runtime.NewHook(ctx, nil, budget).End()
	}
}

// onHost is onThread with a host and the scripts that load makes.
func onHost(b *testing.B, load func(c *runtimetest.Call), body func(h *runtimetest.Host)) {
	h := runtimetest.NewHost(b, func(c *runtime.HostConfig) { c.Thread.Debug = false })
	b.ReportAllocs()
	h.Run(func() {
		if load != nil {
			h.Use(h.Script("project/a.toy", runtimetest.Lua, load))
		}
		body(h)
	})
}

func benchEmit(b *testing.B, h *runtimetest.Host) {
	t := runtime.Target{Turn: 1}
	p := runtimetest.NoticePayload{Text: "x"}
	for b.Loop() {
		runtimetest.Notice.Fire(h.Host, t, p)
	}
}

func BenchmarkEmitUnheard(b *testing.B) {
	onHost(b, nil, func(h *runtimetest.Host) { benchEmit(b, h) })
}

func BenchmarkEmitToOneGoListener(b *testing.B) {
	onHost(b, nil, func(h *runtimetest.Host) {
		defer runtimetest.Notice.On(h.Host, func(runtimetest.NoticePayload) error { return nil })()
		benchEmit(b, h)
	})
}

func BenchmarkEmitToOneScript(b *testing.B) {
	onHost(b, func(c *runtimetest.Call) {
		c.MustOn("toy/notice", nil, func(*runtimetest.Call) (runtime.Value, error) { return nil, nil })
	}, func(h *runtimetest.Host) { benchEmit(b, h) })
}

func BenchmarkEmitFilteredOut(b *testing.B) {
	onHost(b, func(c *runtimetest.Call) {
		c.MustOn("toy/notice", runtimetest.Opts{"filter": runtimetest.Opts{"agent": "other"}}, fails)
	}, func(h *runtimetest.Host) { benchEmit(b, h) })
}

func benchWaterfall(b *testing.B, h *runtimetest.Host) {
	for b.Loop() {
		if _, err := runtimetest.Rewrite.Run(h.Host, runtime.Target{}, text{Text: "x"}, base); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWaterfallUnheard(b *testing.B) {
	onHost(b, nil, func(h *runtimetest.Host) { benchWaterfall(b, h) })
}

func BenchmarkWaterfallGoNext(b *testing.B) {
	onHost(b, nil, func(h *runtimetest.Host) {
		defer runtimetest.Rewrite.On(h.Host, func(x text, next func(text) (text, error)) (text, error) { return next(x) })()
		benchWaterfall(b, h)
	})
}

func BenchmarkWaterfallScriptAbstains(b *testing.B) {
	onHost(b, func(c *runtimetest.Call) {
		c.MustOn("toy/rewrite", nil, func(*runtimetest.Call) (runtime.Value, error) { return nil, nil })
	}, func(h *runtimetest.Host) { benchWaterfall(b, h) })
}

func BenchmarkWaterfallScriptNext(b *testing.B) {
	onHost(b, func(c *runtimetest.Call) {
		c.MustOn("toy/rewrite", nil, func(c *runtimetest.Call) (runtime.Value, error) { return c.Next() })
	}, func(h *runtimetest.Host) { benchWaterfall(b, h) })
}

func BenchmarkSerialScript(b *testing.B) {
	onHost(b, func(c *runtimetest.Call) {
		c.MustOn("toy/check", nil, func(*runtimetest.Call) (runtime.Value, error) { return nil, nil })
	}, func(h *runtimetest.Host) {
		for b.Loop() {
			if err := check(h, runtime.Target{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What reading two fields of a fresh payload costs on Go's side.
func BenchmarkViewReadTwoFields(b *testing.B) {
	b.ReportAllocs()
	p := runtimetest.CallPayload{Tool: "bash", Arguments: map[string]any{"command": "rm", "n": 1}}
	for b.Loop() {
		v := runtime.ValueOf(p).(*runtime.View)
		tool, _ := v.Get("tool")
		args, _ := v.Get("arguments")
		cmd, _ := args.(*runtime.View).Get("command")
		if tool != "bash" || cmd != "rm" {
			b.Fatal("wrong")
		}
	}
}

func BenchmarkViewReadRaw(b *testing.B) {
	b.ReportAllocs()
	raw := json.RawMessage(`{"command":"rm -rf /tmp/x","description":"removes","timeout":1000}`)
	for b.Loop() {
		v := runtime.ValueOf(raw).(*runtime.View)
		if cmd, _ := v.Get("command"); cmd != "rm -rf /tmp/x" {
			b.Fatal("wrong")
		}
	}
}

func BenchmarkDecodeAnswer(b *testing.B) {
	b.ReportAllocs()
	v := map[string]any{"kind": "deny", "reason": "because"}
	for b.Loop() {
		var d runtimetest.Decision
		if err := runtime.Decode(v, &d); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMarshalValue(b *testing.B) {
	b.ReportAllocs()
	v := runtime.Value(map[string]any{"text": "some text", "list": []any{int64(1), "x", nil}, "view": runtime.ValueOf(runtimetest.CallPayload{Tool: "bash", Arguments: map[string]any{"a": 1}})})
	for b.Loop() {
		if _, err := runtime.MarshalValue(v); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAnEventThatNobodyHearsCostsNothing(t *testing.T) {
	h := runtimetest.NewHost(t, func(c *runtime.HostConfig) { c.Thread.Debug = false })
	h.Run(func() {
		a := h.Agent("a")
		target := a.Target()
		if n := testing.AllocsPerRun(100, func() {
			runtimetest.Notice.Fire(h.Host, target, runtimetest.NoticePayload{Agent: a, Text: "x"})
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
