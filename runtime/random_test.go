package runtime_test

import (
	"testing"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

// TestRandom: what a script draws follows from its identity and the clock, whatever others
// draw; an embedder's own source is used instead.
func TestRandom(t *testing.T) {
	draw := func(edit func(*runtime.HostConfig)) (a, b []float64) {
		h := runtimetest.NewHost(t, func(c *runtime.HostConfig) {
			c.Now = func() time.Time { return time.Unix(1_900_000_000, 0) }
			edit(c)
		})
		h.Run(func() {
			one := h.Script("a", runtimetest.Lua, func(*runtimetest.Call) {})
			two := h.Script("b", runtimetest.Lua, func(*runtimetest.Call) {})
			h.Use(one, two)
			for range 3 {
				a, b = append(a, one.Random()), append(b, two.Random())
			}
		})
		return a, b
	}
	a, b := draw(func(*runtime.HostConfig) {})
	again, _ := draw(func(*runtime.HostConfig) {})
	if a[0] == a[1] || a[0] == b[0] || a[0] != again[0] || a[2] != again[2] {
		t.Errorf("a %v, again %v, b %v", a, again, b)
	}
	a, b = draw(func(c *runtime.HostConfig) {
		n := 0.0
		c.Random = func() float64 { n += 0.125; return n }
	})
	if a[0] != 0.125 || b[0] != 0.25 || a[1] != 0.375 {
		t.Errorf("the host's source: a %v, b %v", a, b)
	}
}
