package main_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestKilledAtAnyMoment: whenever the program is killed, its session opens again, the
// model's view of it can be rebuilt, and the next turn works.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, dir: t.TempDir(), home: t.TempDir()}
	p := place{files: map[string]string{"note.js": "ctx.on('tools/post-execute', () => ({ kind: 'accept', additionalContexts: ['a note'] }));"}}
	s.run(p, "run", "say begin")
	for i := range 16 {
		cmd := s.command(p, "run", "-c", "--approve", "all", "--script", "note.js", `calls bash {"command":"echo one"} | read {"path":"note.js"} | bash {"command":"sleep 0.02"}`)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*i) * time.Millisecond) // the moment, from before it begins to after its end
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		out, err := s.command(p, "session", "check").CombinedOutput()
		if err != nil {
			t.Fatalf("killed after %d ms: %v\n%s", i*i, err, out)
		}
	}
	said := fmt.Sprint("on we go ", time.Now().UnixNano())
	out, err := s.command(p, "run", "-c", "say "+said).Output()
	if err != nil || strings.TrimSpace(string(out)) != said {
		t.Errorf("%v, %q", err, out)
	}
	s.run(p, "session", "check")
	if n := len(s.sessions()); n != 1 {
		t.Errorf("%d sessions", n)
	}
}
