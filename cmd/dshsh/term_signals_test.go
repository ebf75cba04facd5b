package main_test

import (
	"syscall"
	"testing"
	"time"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// TestTwoSignalsEndInOrderToo: a terminal that goes and whoever supervises the program
// both send one. The second must not leave processes behind or the log open, also where
// the command and a script take their time to end.
func TestTwoSignalsEndInOrderToo(t *testing.T) {
	t.Parallel()
	slow := "ctx.on('agent/turn-aborting', async () => { await ctx.sleep(60000); });"
	for _, c := range []struct {
		name          string
		first, second syscall.Signal
	}{
		{"hup term", syscall.SIGHUP, syscall.SIGTERM}, {"term term", syscall.SIGTERM, syscall.SIGTERM}, {"term hup", syscall.SIGTERM, syscall.SIGHUP},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := opened(t, place{files: map[string]string{".dshsh/scripts/slow.js": slow}}, "--approve", "all", "--trust")
			s.WaitFor(" in force: ")
			s.enter(`call bash {"command":"trap '' TERM HUP; setsid sleep 60 & sleep 61 & echo $$ $! >pid.tmp; mv pid.tmp pid; wait"}`)
			s.waitFile("pid")
			began := time.Now()
			s.Signal(c.first)
			time.Sleep(20 * time.Millisecond) // as supervisors do
			s.Signal(c.second)
			s.Signal(c.second)
			code := s.WaitExit(repltest.Deadline)
			if code != 128+int(c.first) && code != 128+int(c.second) {
				t.Errorf("exit code %d", code)
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("ended after %v", d)
			}
			s.CheckSane()
			s.gone("pid")
			recs := s.log()
			if last := recs[len(recs)-1]; last.Type != "turn/end" {
				t.Errorf("the log ends with %s", last.Type)
			}
		})
	}
}
