package main_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dshsh/cmd/dshsh/internal/repl/repltest"
	"dshsh/loop/model/modeltest"
)

// modelServer is a model service for a shell in a terminal.
type modelServer struct{ *modeltest.Server }

func newServer(t testing.TB, book string) modelServer {
	t.Helper()
	replies, err := playbook(book)
	if err != nil {
		t.Fatal(err)
	}
	return modelServer{modeltest.NewServer(t, replies...)}
}

func (m modelServer) env() []string {
	return []string{"OPENAI_BASE_URL=" + m.URL, "OPENAI_API_KEY=sk-test"}
}

// request waits for request n.
func (m modelServer) request(t testing.TB, n int) *modeltest.Recorded {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.Wait(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// gone waits until the processes whose ids a file holds are there no more.
func (s *shell) gone(file string) {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, file))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			s.t.Fatal(err)
		}
		deadline := time.Now().Add(patience)
		for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			if time.Now().After(deadline) {
				s.t.Fatalf("process %d of %s is still there", pid, file)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// TestSignalsEndThePromptInOrder: idle and in the middle of a tool, the terminal is put
// back, no process stays, and the log is closed.
func TestSignalsEndThePromptInOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		code   int
		busy   bool
	}{
		{"term idle", syscall.SIGTERM, 128 + 15, false}, {"hup idle", syscall.SIGHUP, 128 + 1, false},
		{"quit idle", syscall.SIGQUIT, 128 + 3, false},
		{"term busy", syscall.SIGTERM, 128 + 15, true}, {"hup busy", syscall.SIGHUP, 128 + 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := opened(t, place{}, "--approve", "all")
			s.enter("say hi")
			s.WaitMatch(`(?m)^hi$`)
			s.ready()
			if c.busy {
				s.enter(`call bash {"command":"sleep 60 & echo $$ $! >pid.tmp; mv pid.tmp pid; wait"}`)
				s.waitFile("pid")
			}
			s.Type("half")
			s.WaitLine("> half", 6)
			began := time.Now()
			s.Signal(c.signal)
			if code := s.WaitExit(repltest.Deadline); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			t.Logf("ended after %v", time.Since(began))
			s.CheckSane()
			if c.busy {
				s.gone("pid")
			}
			recs := s.log()
			if last := recs[len(recs)-1]; last.Type != "turn/end" {
				t.Errorf("the log ends with %s", last.Type)
			}
		})
	}
}

// TestTerminalGoes: R064. Closing it ends the program and what it started, in whatever
// state it is.
func TestTerminalGoes(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(s *shell){
		"idle":     func(s *shell) {},
		"stream":   func(s *shell) { s.enter("hang"); s.streaming() },
		"question": func(s *shell) { s.enter(strings.ReplaceAll(callHi, "hi", "$$ >pid")); s.WaitFor("? y / n") },
		"tool": func(s *shell) {
			s.enter(`call bash {"command":"echo $$ >pid.tmp; mv pid.tmp pid; exec sleep 60"}`)
			s.WaitFor("? y / n")
			s.Type("y", repltest.Enter)
			s.waitFile("pid")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := opened(t, place{})
			s.enter("say hi")
			s.WaitMatch(`(?m)^hi$`)
			s.ready()
			begin(s)
			began := time.Now()
			s.Hangup()
			if code := s.WaitExit(repltest.Deadline); code != 128+1 {
				t.Errorf("exit code %d", code)
			}
			t.Logf("ended after %v", time.Since(began))
			if name == "tool" {
				s.gone("pid")
			}
			if name == "question" && s.exists("pid") {
				t.Error("what was asked about ran")
			}
			recs := s.log()
			if last := recs[len(recs)-1]; last.Type != "turn/end" {
				t.Errorf("the log ends with %s", last.Type)
			}
		})
	}
}

// TestCtrlDLeaves at an empty prompt, and not in the middle of a line.
func TestCtrlDLeaves(t *testing.T) {
	t.Parallel()
	s := opened(t, place{})
	s.Type("half", repltest.CtrlD)
	s.WaitLine("> half", 6)
	s.Type(repltest.CtrlU, repltest.CtrlD)
	if code := s.WaitExit(repltest.Deadline); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.CheckSane()
}

// TestCancelClosesTheConnection: R116, R118. At once, while it streams and before the first
// byte; the next turn works.
func TestCancelClosesTheConnection(t *testing.T) {
	t.Parallel()
	m := modelServer{modeltest.NewServer(t, modeltest.Steps(modeltest.Repeat(1000, modeltest.TextDelta("tick "), modeltest.Sleep(20*time.Millisecond))),
		modeltest.Steps(modeltest.Silence()), modeltest.WireText("well again"))}
	s := opened(t, place{env: m.env()})
	s.enter("stream")
	s.WaitFor("tick")
	for i, begin := range []func(){func() {}, func() { s.enter("wait"); m.request(t, 2); s.working() }} {
		begin()
		began := time.Now()
		s.Type(repltest.CtrlC)
		at, byClient := m.request(t, i+1).Disconnected()
		if d := at.Sub(began); !byClient || d > 2*time.Second {
			t.Errorf("request %d: closed by the client: %v, after %v", i+1, byClient, d)
		}
		s.WaitUntil("a cancelled turn", func() bool { return strings.Count(s.text(), "[cancelled]") == i+1 })
		s.ready()
	}
	s.enter("and now")
	s.WaitFor("well again")
	s.ready()
	s.quit()
	recs := s.log()
	if n := count(recs, "assistant/message", `"interrupted":true`); n != 1 {
		t.Errorf("%d interrupted messages", n)
	}
}

// TestRetryIsShownAndCancelled: the countdown is seen, and Ctrl-C ends the wait.
func TestRetryIsShownAndCancelled(t *testing.T) {
	t.Parallel()
	m := modelServer{modeltest.NewServer(t, modeltest.Status(429, map[string]string{"Retry-After": "9"}, `{"error":{"message":"slow down"}}`), modeltest.WireText("well again"))}
	s := opened(t, place{env: m.env()})
	s.enter("go")
	s.WaitMatch(`(?s)\[retry 1 of 5 in 9s: .*slow down`)
	s.working()
	s.Type(repltest.CtrlC)
	s.WaitFor("[cancelled]")
	s.ready()
	s.enter("again")
	s.WaitFor("well again")
	s.quit()
}

// TestKilledShellIsContinued: what it showed is there again, the open call has an outcome.
func TestKilledShellIsContinued(t *testing.T) {
	t.Parallel()
	s := opened(t, place{}, "--approve", "all")
	s.enter("say before")
	s.WaitMatch(`(?m)^before$`)
	s.ready()
	s.enter(`call bash {"command":"echo $$ >pid.tmp; mv pid.tmp pid; exec sleep 60"}`)
	s.waitFile("pid")
	s.Signal(syscall.SIGKILL)
	s.WaitExit(repltest.Deadline)
	b, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL) // its parent had no time to
	}
	s = opened(t, place{dir: s.dir, home: s.home}, "-c")
	s.WaitFor("[interrupted: ")
	s.in("interrupted by a crash", "> say before\n\nbefore\n", "* bash", "outcome is unknown", "[interrupted: the program ended during this turn]")
	s.enter("say after")
	s.WaitMatch(`(?m)^after$`)
	s.quit()
}

// TestSameDecisionsWithAndWithoutATerminal: R008.
func TestSameDecisionsWithAndWithoutATerminal(t *testing.T) {
	t.Parallel()
	const book = `tool c1 bash {"command":"echo one"} | c2 bash {"command":"rm it"}` + "\ntext done"
	files := map[string]string{
		"rewrite.js": "ctx.on('tools/pre-execute', (c) => { if (c.arguments.command === 'echo one') return { kind: 'allow', arguments: { command: 'echo two' } }; });",
		"deny.lua":   "ctx.on('tools/pre-execute', function(c) if c.arguments.command:find('rm') then return { kind = 'deny', reason = 'keep it' } end end)",
	}
	args := []string{"--approve", "all", "--script", "rewrite.js", "--script", "deny.lua"}
	var logs [2]string
	for i := range logs {
		m := newServer(t, book)
		s := &shell{t: t, dir: t.TempDir(), home: t.TempDir()}
		p := place{dir: s.dir, home: s.home, files: files, env: m.env()}
		if i == 0 {
			s = opened(t, p, args...)
			s.enter("go")
			s.WaitMatch(`(?m)^done$`)
			s.ready()
			s.quit()
		} else {
			s.run(p, append(append([]string{"run"}, args...), "go")...)
		}
		var kept []string
		recs := s.log()
		for _, r := range recs {
			if strings.HasPrefix(r.Type, "tool/") || strings.HasPrefix(r.Type, "hook/") || strings.HasPrefix(r.Type, "approval/") {
				text, err := scrub(recs[r.Seq:r.Seq+1], s.dir)
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, text)
			}
		}
		logs[i] = strings.Join(kept, "")
	}
	if logs[0] != logs[1] {
		t.Errorf("in a terminal:\n%s\nwithout:\n%s", logs[0], logs[1])
	}
	for _, want := range []string{`"command":"echo two"`, "keep it", `tool/rewritten`} {
		if !strings.Contains(logs[0], want) {
			t.Errorf("no %s in\n%s", want, logs[0])
		}
	}
}
