package runtime_test

import (
	"testing"
	"testing/synctest"
	"time"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

// Whoever cancels is told which script holds things up: the innermost that is waited
// for, not one that is inside next, and nobody when all have settled.
func TestAwaitedByNamesTheListenerThatHoldsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runtimetest.NewHost(t)
		a, b := h.Agent("a"), h.Agent("b")
		h.Run(func() {
			name := func(owner any) string {
				if l := h.AwaitedBy(owner); l != nil {
					return l.Instance.ID
				}
				return "nobody"
			}
			h.Use(
				h.Script("project/outer.toy", runtimetest.Lua, func(c *runtimetest.Call) {
					c.MustOn("toy/rewrite", nil, func(c *runtimetest.Call) (runtime.Value, error) { return c.Next() })
				}),
				h.Script("project/slow.toy", runtimetest.Lua, func(c *runtimetest.Call) {
					c.MustOn("toy/rewrite", nil, sleepsThen(h, "slow", nil, nil))
				}))
			h.Thread.Start(func() {
				_, err := runtimetest.Rewrite.Run(h.Host, a.Target(), text{}, func(p text) (text, error) {
					h.Trace.Add("%s", name(a))
					return p, nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			if got := name(a) + ", " + name(b); got != "project/slow.toy, nobody" {
				t.Errorf("waited for: %s", got)
			}
			_ = h.Thread.Sleep(time.Minute)
			if got := name(a); got != "nobody" {
				t.Errorf("waited for at the end: %s", got)
			}
			h.Trace.Want("slow< >slow nobody")
		})
	})
}
