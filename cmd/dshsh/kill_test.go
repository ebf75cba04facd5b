package main_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dshsh/loop"
)

var killRounds = flag.Int("kill.rounds", 16, "how often TestKilledAtAnyMoment kills the program")

// TestKilledAtAnyMoment: whenever the program is killed, its session opens again, the
// model's view of it can be rebuilt, the next turn works, and nothing that a tool did is
// missing from the log. A call writes its number to a file before it ends.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := &shell{t: t, dir: t.TempDir(), home: t.TempDir()}
	p := place{files: map[string]string{"note.js": "ctx.on('tools/post-execute', () => ({ kind: 'accept', additionalContexts: ['a note'] }));"}}
	s.run(p, "run", "say begin")
	seed := uint64(time.Now().UnixNano())
	random, longest := rand.New(rand.NewPCG(seed, 0)), 50*time.Millisecond
	killed := 0
	for i := range *killRounds {
		cmd := s.command(p, "run", "-c", "--approve", "all", "--script", "note.js", fmt.Sprintf(`calls bash {"command":"echo %da >>done"} | read {"path":"note.js"} | bash {"command":"sleep 0.02; echo %[1]db >>done"}
call write {"path":"w%[1]d","content":"x"}
say one two three four five`, i))
		begun := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		moment := time.Duration(random.Int64N(int64(longest)))
		timer := time.AfterFunc(moment, func() { _ = cmd.Process.Kill() })
		if cmd.Wait() == nil {
			// It came to its end: the moments of the next rounds are spread over this time.
			longest = time.Since(begun)
		} else {
			killed++
			longest += 10 * time.Millisecond
		}
		timer.Stop()
		out, err := s.command(p, "session", "check").CombinedOutput()
		if err != nil {
			t.Fatalf("seed %d, round %d, killed after %v: %v\n%s", seed, i, moment, err, out)
		}
		if i%8 == 7 {
			said := fmt.Sprint("on we go ", i)
			out, err := s.command(p, "run", "-c", "say "+said).Output()
			// A prompt that was queued and not yet claimed is answered first.
			if err != nil || !strings.HasSuffix("\n"+strings.TrimSpace(string(out)), "\n"+said) {
				t.Fatalf("seed %d, round %d: %v, %q", seed, i, err, out)
			}
		}
	}
	if n := len(s.sessions()); n != 1 {
		t.Errorf("%d sessions", n)
	}
	if 4*killed < *killRounds {
		t.Errorf("only %d of %d runs were killed before their end", killed, *killRounds)
	}
	recs := s.log()
	did, _ := os.ReadFile(filepath.Join(s.dir, "done"))
	for n := range strings.FieldsSeq(string(did)) {
		if count(recs, loop.RecToolCall, "echo "+n+" ") != 1 {
			t.Errorf("seed %d: call %s was carried out and is not in the log", seed, n)
		}
	}
	for i := range *killRounds {
		name := fmt.Sprintf("w%d", i)
		if s.exists(name) && count(recs, loop.RecToolCall, fmt.Sprintf(`\"%s\"`, name)) != 1 {
			t.Errorf("seed %d: %s was written and the call is not in the log", seed, name)
		}
	}
	t.Logf("%d runs of %d were killed; %d records", killed, *killRounds, len(recs))
}
