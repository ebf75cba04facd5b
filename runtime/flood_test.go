package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

func TestAnAllowanceIsRefilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := runtime.Allowance{Burst: 10, Rate: 2}
		for i, step := range []struct {
			after time.Duration
			take  float64
			want  bool
		}{{0, 10, true}, {0, 1, false}, {time.Second, 3, false}, {0, 2, true}, {0, 1, false}, {time.Hour, 10, true}, {time.Hour, 1e9, true}, {0, 1, false}} {
			time.Sleep(step.after)
			if got := a.Take(step.take); got != step.want {
				t.Errorf("step %d: %v", i, got)
			}
		}
	})
}

func TestFloodsOfLinesAndFailuresAreSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		var in *runtime.Instance
		h.Run(func() {
			in = h.Script("project/a.toy", runtimetest.Lua, func(*runtimetest.Call) {})
			h.Use(in)
			for range 100_000 {
				in.Log("log", "line")
				h.Report(runtime.Failure{Instance: in, What: "timer", Err: errBoom})
			}
			in.Log("log", strings.Repeat("x", 1<<20))
		})
		time.Sleep(time.Minute)
		h.Run(func() {
			if n := len(h.Seen.Lines); n != 1001 || h.Seen.Lines[n-1] != "a.toy warn 99,001 more lines left out" {
				t.Errorf("%d lines, the last is %q", n, h.Seen.Lines[n-1])
			}
			last := h.Seen.Failures[len(h.Seen.Failures)-1]
			if got := h.Seen.Take(); len(got) != 201 || got[200] != "timer: 99,800 more failures left out, the last: boom" || !errors.Is(last.Err, errBoom) {
				t.Errorf("%d failures, the last is %q", len(got), got[len(got)-1])
			}
			h.Seen.Lines = nil
			in.Log("log", "after")
			in.Log("log", "a"+strings.Repeat("x", 1<<20)+"z")
			if got := h.Seen.Lines; len(got) != 2 || got[0] != "a.toy log after" || len(got[1]) > 65<<10 || !strings.HasSuffix(got[1], "xz") || !strings.Contains(got[1], "bytes left out") {
				t.Errorf("after a while: %.100q", got)
			}
		})
	})
}

func TestWhatWasLeftOutIsToldOfWhenTheScriptIsUnloaded(t *testing.T) {
	h := runtimetest.NewHost(t)
	h.Run(func() {
		in := h.Script("project/a.toy", runtimetest.Lua, func(*runtimetest.Call) {})
		h.Use(in)
		for range 2000 {
			in.Log("log", "line")
		}
		h.Use()
		if n := len(h.Seen.Lines); !strings.HasSuffix(h.Seen.Lines[n-1], " more lines left out") {
			t.Errorf("%d lines, the last is %q", n, h.Seen.Lines[n-1])
		}
	})
}

func TestBriefKeepsBothEnds(t *testing.T) {
	text := "head" + strings.Repeat("ä", 1<<20) + "tail"
	got := runtime.Brief(text)
	if len(got) > runtime.MaxMessage+50 || !strings.HasPrefix(got, "headä") || !strings.HasSuffix(got, "ätail") || !strings.Contains(got, "... (2,088,968 bytes left out) ...") || strings.ToValidUTF8(got, "") != got {
		t.Errorf("%d bytes: %.20s ... %s", len(got), got, got[len(got)-20:])
	}
	if got := runtime.Brief("short"); got != "short" {
		t.Error(got)
	}
}

// waiting is a person who answers when told to.
type waiting struct{ answer chan struct{} }

func (w waiting) Ask(ctx context.Context, _ runtime.Question) (runtime.Answer, error) {
	select {
	case <-w.answer:
		return runtime.Answer{Yes: true}, nil
	case <-ctx.Done():
		return runtime.Answer{}, context.Cause(ctx)
	}
}

func (waiting) Notify(*runtime.Instance, string) {}

func TestOnlyFiveQuestionsOfAScriptAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		person := waiting{make(chan struct{})}
		h := runtimetest.NewHost(t, func(c *runtime.HostConfig) { c.UI = person })
		asks := func(c *runtimetest.Call) (runtime.Value, error) {
			ctx := c.Instance().Ctx(nil)
			ui, err := ctx.Class().Lookup("ui").Get(ctx)
			if err != nil {
				return nil, err
			}
			_, err = c.Method(ui.(runtime.Object), "confirm", "Sure?")
			if err == nil {
				h.Trace.Add("yes")
			}
			return nil, err
		}
		h.Run(func() {
			h.Use(h.Script("project/a.toy", runtimetest.Lua, func(c *runtimetest.Call) {
				for range 12 {
					_, _ = c.Do("spawn", c.Func(asks))
				}
			}))
		})
		synctest.Wait()
		h.Run(func() {
			got := h.Seen.Take()
			if len(got) != 7 || !strings.Contains(got[0], "ui.confirm: 5 questions of project/a.toy are open already: await their answers first") {
				t.Errorf("refused: %q", got)
			}
		})
		close(person.answer)
		synctest.Wait()
		h.Trace.Want("yes yes yes yes yes")
	})
}
