package loop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
)

// A script that sends on everything it hears must come to an end by the caps, leave the
// thread free meanwhile, and be named in a line that a person sees.
func TestScriptsThatSendOnEverythingAreStopped(t *testing.T) {
	caughtOrNot := []bool{false, true}
	if testing.Short() {
		caughtOrNot = caughtOrNot[:1]
	}
	events := []struct{ name, when string }{
		{"session/event", ""},
		{"session/event", "p.event.type === 'step/end'"},
		{"session/event", "p.event.type === 'agent/inbox/spliced'"},
		{"agent/inbox/inserted", ""},
		{"agent/inbox/claimed", ""},
		{"agent/stream-chunk", ""},
		{"agent/status", ""},
		{"agent/status", "p.status === 'idle'"},
		{"agent/status", "p.status === 'running'"},
		{"agent/turn-end", ""},
		{"agent/turn-stopping", ""},
	}
	for _, e := range events {
		for _, call := range []string{"steer('x')", "followup('x')", "inject('x')", "inbox.clear(); p.agent.inject('x')", "inbox.clear(); p.agent.steer('x')"} {
			for _, caught := range caughtOrNot {
				name := fmt.Sprintf("%s/%s/%s/caught %v", strings.ReplaceAll(e.name, "/", "."), e.when, call, caught)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					sends := "p.agent." + call
					if caught {
						sends = "try { " + sends + " } catch {}"
					}
					when := e.when
					if when == "" {
						when = "true"
					}
					w := newWorld(t, modeltest.New().Otherwise(modeltest.Text("one two three")), withEngines, func(c *loop.Config) { c.Thread.Debug = false }) // whose checks cost the most by far
					w.script("storm.js", fmt.Sprintf("ctx.on('%s', (p) => { if (%s) { %s } })", e.name, when, sends))
					w.create()
					for _, text := range []string{"go", "again"} {
						ended := make(chan struct{})
						go func() {
							defer close(ended)
							w.prompt(text)
						}()
						var worst time.Duration
						for waiting := true; waiting; {
							select {
							case <-ended:
								waiting = false
							case <-time.After(5 * time.Millisecond):
								began := time.Now()
								w.do(func() {})
								worst = max(worst, time.Since(began))
							}
						}
						if worst > 10*time.Second { // for ever, on any machine
							t.Errorf("the thread was taken for %v", worst)
						}
					}
					n := len(w.records())
					lines := append([]string{}, w.notes.capped...)
					for _, f := range w.notes.failures {
						lines = append(lines, f.Err.Error())
					}
					if n > 40000 {
						t.Errorf("%d records", n)
					}
					for _, l := range lines {
						if !strings.Contains(l, "storm.js") {
							t.Errorf("does not name the script: %s", l)
						}
					}
					if most := 20 + 2*len(w.model.Requests()); len(lines) > most {
						t.Errorf("%d lines, want at most %d", len(lines), most)
					}
					if r := len(w.model.Requests()); r > 260 {
						t.Errorf("%d requests: the caps multiply", r)
					}
					if got := w.logged(loop.RecTurnEnd); got < 2 {
						t.Errorf("%d turns", got)
					}
				})
			}
		}
	}
}
