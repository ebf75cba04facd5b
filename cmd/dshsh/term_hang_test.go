package main_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// TestR121_AHangingTurnEndHook: Ctrl-C ends each round in a moment, and from the second
// on the line says which script it is and how to be rid of it without leaving.
func TestR121_AHangingTurnEndHook(t *testing.T) {
	t.Parallel()
	for file, text := range map[string]string{
		"hang.js":  "ctx.on('agent/turn-stopping', () => { console.log('hangs'); return new Promise(() => {}); });",
		"hang.lua": "ctx.on('agent/turn-stopping', function() print('hangs') while true do ctx.sleep(1000) end end)",
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			s := opened(t, place{cols: 140, files: map[string]string{".dshsh/scripts/" + file: text}}, "--trust")
			s.WaitFor(" in force: ")
			for round := 1; round <= 5; round++ {
				s.clear()
				s.enter(fmt.Sprintf("say round %d", round))
				s.WaitFor("[" + file + "] hangs")
				s.working()
				began := time.Now()
				if round%2 == 1 {
					s.Type(repltest.CtrlC)
				} else {
					s.enter("/cancel")
				}
				s.WaitFor("[cancelled]")
				s.ready()
				if d := time.Since(began); d > 3*time.Second {
					t.Errorf("round %d: ended after %v", round, d)
				}
				s.in("cancelling; it waits for " + file + ":1 (agent/turn-stopping)")
				if says := strings.Contains(s.text(), "`/scripts off "+file+"`"); says != (round > 1) {
					t.Errorf("round %d: the way out is shown: %v\n%s", round, says, s.text())
				}
			}
			s.enter("/scripts off " + file)
			s.WaitFor("scripts 1 -> 2")
			s.clear()
			s.enter("say free")
			s.WaitMatch(`(?m)^free$`)
			s.ready()
			s.quit()
		})
	}
}
