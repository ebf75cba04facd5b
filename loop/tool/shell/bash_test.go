//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"dshsh/loop/tool"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newBash returns a tool in a fresh folder that is closed, and must then leave nothing
// behind.
func newBash(t *testing.T, change ...func(*Config)) *Bash {
	t.Helper()
	cfg := Config{Dir: t.TempDir(), Environ: os.Environ(), Grace: 200 * time.Millisecond}
	for _, c := range change {
		c(&cfg)
	}
	b := New(cfg)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if findsMarker {
			if left := find(0, b.marker+"="); len(left) > 0 {
				t.Errorf("left behind: %s", list(left))
			}
		}
	})
	return b
}

type outcome struct {
	Outcome
	text string
	err  error
	took time.Duration
}

func call(t *testing.T, ctx context.Context, b *Bash, args any) outcome {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r, err := b.Execute(ctx, raw, &tool.Exec{CallID: "c1"})
	o := outcome{err: err, took: time.Since(began)}
	for _, c := range r.Content {
		o.text += c.Text
	}
	if r.Meta != nil {
		if err := json.Unmarshal(r.Meta, &o.Outcome); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func run(t *testing.T, b *Bash, command string) outcome {
	t.Helper()
	o := call(t, t.Context(), b, Args{Command: command, TimeoutMs: 20_000})
	if o.err != nil {
		t.Fatalf("%s: %v", command, o.err)
	}
	return o
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func alive(pid int) bool {
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		if f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:])); f[0] == "Z" {
			return false
		}
	}
	return syscall.Kill(pid, 0) == nil
}

// pids reads the files that test commands write process ids to.
func pids(t *testing.T, dir string, names ...string) []int {
	t.Helper()
	var all []int
	for _, n := range names {
		path := filepath.Join(dir, n)
		eventually(t, n+" has a pid", func() bool {
			data, err := os.ReadFile(path)
			return err == nil && strings.HasSuffix(string(data), "\n")
		})
		data, _ := os.ReadFile(path)
		pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

func TestOutputOrderAndStatus(t *testing.T) {
	b := newBash(t)
	if o := run(t, b, "echo a; echo b >&2; echo c"); o.text != "a\nb\nc" || o.ExitCode != 0 {
		t.Errorf("%q %d", o.text, o.ExitCode)
	}
	if o := run(t, b, "echo a; exit 7"); o.text != "a\n[exit status 7]" || o.ExitCode != 7 {
		t.Errorf("%q %d", o.text, o.ExitCode)
	}
	if o := run(t, b, "printf a; kill -SEGV $$"); o.text != "a\n[ended by signal: segmentation fault]" || o.ExitCode != -1 {
		t.Errorf("%q %d", o.text, o.ExitCode)
	}
	if o := run(t, b, "-x"); !strings.HasSuffix(o.text, "[exit status 127]") {
		t.Errorf("a command that looks like an option: %q", o.text)
	}
}

func TestR088_BackgroundChildDoesNotHoldTheCall(t *testing.T) {
	for _, command := range []string{
		"sleep 45 & echo $! >pid; echo ready",
		"setsid sh -c 'echo $$ >pid; exec sleep 45' & while ! [ -s pid ]; do sleep 0.01; done; echo ready",
	} {
		b := newBash(t)
		o := run(t, b, command)
		if o.took > 2*time.Second || !strings.HasPrefix(o.text, "ready\n[still running in the background") || o.ExitCode != 0 {
			t.Errorf("%s: %v %q", command, o.took, o.text)
		}
		pid := pids(t, b.cfg.Dir, "pid")[0]
		if !alive(pid) || len(o.Background) == 0 {
			t.Errorf("%s: the child is not running, %v", command, o.Background)
		}
		// The next call can use it, and the end of the session ends it.
		run(t, b, "kill -0 $(cat pid)")
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		eventually(t, "the child is gone", func() bool { return !alive(pid) })
	}
}

func TestR088_ServerGoesOnPrinting(t *testing.T) {
	b := newBash(t)
	run(t, b, "(while :; do echo noise; echo x >>beat; sleep 0.01; done) & echo ready")
	size := func() int64 {
		st, err := os.Stat(filepath.Join(b.cfg.Dir, "beat"))
		if err != nil {
			return 0
		}
		return st.Size()
	}
	before := size()
	eventually(t, "the server is still writing", func() bool { return size() > before+10 })
}

func TestOutputWrittenJustBeforeExitIsKept(t *testing.T) {
	b := newBash(t)
	for i := range 20 {
		o := run(t, b, "sleep 5 & head -c 60000 /dev/zero | tr '\\0' x; echo; echo end")
		if o.Bytes != 60005 || !strings.Contains(o.text, "\nend\n") {
			t.Fatalf("round %d: %d bytes, %q", i, o.Bytes, o.text[max(0, len(o.text)-200):])
		}
	}
}

func TestR089_TimeoutKillsGrandchildren(t *testing.T) {
	b := newBash(t)
	o := call(t, t.Context(), b, Args{TimeoutMs: 300, Command: "echo so far; bash -c 'sleep 301 & echo $! >p1; sh -c \"echo \\$\\$ >p2; exec sleep 302\"; true'; true"})
	if o.err != nil || !o.TimedOut || !strings.HasPrefix(o.text, "so far\n[timed out after 300ms; ended with all its processes") || o.took > 3*time.Second {
		t.Errorf("%v %v %q", o.err, o.took, o.text)
	}
	for _, pid := range pids(t, b.cfg.Dir, "p1", "p2") {
		eventually(t, fmt.Sprint(pid, " is gone"), func() bool { return !alive(pid) })
	}
}

func TestR089_TimeoutKillsWhatLeftTheGroup(t *testing.T) {
	if !findsMarker {
		t.Skip("needs the marker")
	}
	b := newBash(t)
	// A daemon: a session of its own, and its parent is gone.
	o := call(t, t.Context(), b, Args{TimeoutMs: 500, Command: "(setsid sh -c 'echo $$ >p1; exec sleep 301' &); sleep 302"})
	if !o.TimedOut {
		t.Errorf("%v %q", o.err, o.text)
	}
	pid := pids(t, b.cfg.Dir, "p1")[0]
	eventually(t, "the daemon is gone", func() bool { return !alive(pid) })
}

func TestR090_IgnoredTermIsKilledAfterGrace(t *testing.T) {
	b := newBash(t)
	o := call(t, t.Context(), b, Args{TimeoutMs: 200, Command: "trap '' TERM INT; echo $$ >p1; while :; do sleep 1; done"})
	if !o.TimedOut || o.took > 3*time.Second || o.took < 400*time.Millisecond {
		t.Errorf("%v %v %q", o.err, o.took, o.text)
	}
	pid := pids(t, b.cfg.Dir, "p1")[0]
	eventually(t, "it is gone", func() bool { return !alive(pid) })
}

func TestTermLetsACommandTidyUp(t *testing.T) {
	b := newBash(t, func(c *Config) { c.Grace = 5 * time.Second })
	o := call(t, t.Context(), b, Args{TimeoutMs: 200, Command: "trap 'echo tidied; exit 3' TERM; while :; do sleep 0.01; done"})
	if !strings.Contains(o.text, "tidied\n[timed out") || o.took > 3*time.Second {
		t.Errorf("%v %q", o.took, o.text)
	}
}

func TestR091_NothingToAskFrom(t *testing.T) {
	b := newBash(t)
	if o := run(t, b, "read x; echo \"status $?\""); o.text != "status 1" {
		t.Errorf("read: %q", o.text)
	}
	if o := run(t, b, "cat; echo </dev/tty"); !strings.Contains(o.text, "/dev/tty") || o.ExitCode == 0 {
		t.Errorf("terminal: %q", o.text)
	}
	if o := run(t, b, "tty; test -t 0 || test -t 1 || test -t 2 || echo none"); !strings.HasSuffix(o.text, "not a tty\nnone") {
		t.Errorf("tty: %q", o.text)
	}
	o := run(t, b, "git init -q . && echo x >f && git add f && git -c user.name=a -c user.email=a@example.com commit")
	if o.ExitCode == 0 || !strings.Contains(o.text, "there is no editor here") || o.took > 5*time.Second {
		t.Errorf("git commit: %q", o.text)
	}
	o = call(t, t.Context(), b, Args{TimeoutMs: 200, Command: "sleep 60"})
	if !strings.Contains(o.text, "no terminal and no input") {
		t.Errorf("no hint: %q", o.text)
	}
}

func TestR102_SilentCommands(t *testing.T) {
	b := newBash(t)
	for command, want := range map[string]string{
		"true":                      "[no output]\n[exit status 0]",
		"false":                     "[no output]\n[exit status 1]",
		"exit 7":                    "[no output]\n[exit status 7]",
		"echo a >f; grep zzz f":     "[no output]\n[exit status 1]",
		"exec >&- 2>&-; sleep 0.05": "[no output]\n[exit status 0]",
	} {
		if o := run(t, b, command); o.text != want || o.err != nil || o.took > 2*time.Second {
			t.Errorf("%s: %q after %v", command, o.text, o.took)
		}
	}
}

func TestR119_CancelOfParallelCalls(t *testing.T) {
	b := newBash(t)
	ctx, cancel := context.WithCancel(t.Context())
	results := make([]outcome, 3)
	var wg sync.WaitGroup
	for i, command := range []string{"echo a; echo $$ >p0; sleep 300", "echo done >d", "echo c; echo $$ >p2; sleep 300"} {
		wg.Go(func() { results[i] = call(t, ctx, b, Args{Command: command}) })
	}
	all := pids(t, b.cfg.Dir, "p0", "p2")
	eventually(t, "the middle one is done", func() bool { _, err := os.Stat(filepath.Join(b.cfg.Dir, "d")); return err == nil })
	time.Sleep(50 * time.Millisecond) // until its result is there
	cancel()
	began := time.Now()
	wg.Wait()
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("cancel took %v", d)
	}
	for i, r := range results {
		var e *tool.Error
		if i == 1 {
			if r.err != nil {
				t.Errorf("the call that was done: %v", r.err)
			}
			continue
		}
		if !errors.As(r.err, &e) || e.Code != tool.CodeAborted || !strings.Contains(r.text, "\n[aborted after ") {
			t.Errorf("%d: %v %q", i, r.err, r.text)
		}
	}
	for _, pid := range all {
		eventually(t, "no child is left", func() bool { return !alive(pid) })
	}
}

func TestR122_NothingHappensAfterACancel(t *testing.T) {
	b := newBash(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var o outcome
	var wg sync.WaitGroup
	wg.Go(func() {
		o = call(t, ctx, b, Args{Command: "(sleep 4; touch canary) & (setsid sleep 4; touch canary2) & " +
			"setsid sh -c 'echo $$ >p3; sleep 4; touch canary3' & (setsid sh -c 'echo $$ >p4; sleep 4; touch canary4' &) ; wait"})
	})
	all := pids(t, b.cfg.Dir, "p3", "p4")
	cancel()
	wg.Wait()
	var e *tool.Error
	if !errors.As(o.err, &e) || e.Code != tool.CodeAborted {
		t.Errorf("%v", o.err)
	}
	for _, pid := range all {
		eventually(t, "no child is left", func() bool { return !alive(pid) })
	}
	time.Sleep(4200 * time.Millisecond) // what was to happen would have happened
	if found, _ := filepath.Glob(filepath.Join(b.cfg.Dir, "canary*")); len(found) > 0 {
		t.Errorf("happened after the cancel: %v", found)
	}
}

func TestCancelBeforeStart(t *testing.T) {
	b := newBash(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := call(t, ctx, b, Args{Command: "touch ran"})
	var e *tool.Error
	if !errors.As(o.err, &e) || e.Code != tool.CodeAbortedBeforeDispatch {
		t.Errorf("%v", o.err)
	}
	if _, err := os.Stat(filepath.Join(b.cfg.Dir, "ran")); err == nil {
		t.Error("it ran")
	}
}

func TestDeadlineOfTheContextIsATimeout(t *testing.T) {
	b := newBash(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if o := call(t, ctx, b, Args{Command: "echo a; sleep 60"}); o.err != nil || !o.TimedOut {
		t.Errorf("%v %q", o.err, o.text)
	}
}

func TestR129_KeysAreNotInherited(t *testing.T) {
	b := newBash(t, func(c *Config) {
		c.Environ = append(c.Environ, "OPENAI_API_KEY=sk-1234567890", "DEEPSEEK_API_KEY=x", "ANTHROPIC_API_KEY=sk-ant-1234567",
			"COPY=Bearer sk-1234567890", "MY_TOKEN=abcdefgh", "TOKEN_FREE=yes", "PLAIN=x")
		c.Scrub = []string{"MY_*"}
	})
	o := run(t, b, "env")
	for _, gone := range []string{"sk-1234567890", "API_KEY", "COPY=", "MY_TOKEN"} {
		if strings.Contains(o.text, gone) {
			t.Errorf("%s is there", gone)
		}
	}
	for _, kept := range []string{"TOKEN_FREE=yes", "PLAIN=x", "TERM=dumb", "PWD=" + b.cfg.Dir} {
		if !strings.Contains(o.text, kept+"\n") {
			t.Errorf("%s is not there", kept)
		}
	}
}

func TestFloodIsBounded(t *testing.T) {
	b := newBash(t)
	dir := t.TempDir()
	args, _ := json.Marshal(Args{Command: "yes abcdefghij", TimeoutMs: 300})
	r, err := b.Execute(t.Context(), args, &tool.Exec{CallID: "c", FilesDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var o Outcome
	if err := json.Unmarshal(r.Meta, &o); err != nil {
		t.Fatal(err)
	}
	if len(r.Content[0].Text) > 34<<10 || !o.Truncated || o.OutputPath == "" || !o.TimedOut {
		t.Errorf("%d bytes of text, %+v", len(r.Content[0].Text), o)
	}
	st, err := os.Stat(o.OutputPath)
	if err != nil || st.Size() > 64<<20 {
		t.Errorf("%v %v", st, err)
	}
}

func TestRefusals(t *testing.T) {
	b := newBash(t)
	for args, want := range map[string]string{
		`{"command":"  "}`:                                   "is empty",
		`{"command":"a\u0000b"}`:                             "zero byte",
		`{"command":"ls","timeoutMs":99999999}`:              "must be 1 to 3600000",
		`{"comand":"ls"}`:                                    `did you mean "command"`,
		`{"command":"` + strings.Repeat("x", 200_000) + `"}`: "write it to a file",
	} {
		_, err := b.Execute(t.Context(), json.RawMessage(args), &tool.Exec{})
		var e *tool.Error
		if !errors.As(err, &e) || e.Code != tool.CodeInvalidArgs || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", args, err)
		}
	}
	if _, err := tool.CompileSchema(Name, b.Spec().Parameters); err != nil {
		t.Error(err)
	}
	if o := call(t, t.Context(), newBash(t, func(c *Config) { c.Environ = []string{"PATH=/nonexistent:bin"} }), Args{Command: "ls"}); o.err == nil || !strings.Contains(o.err.Error(), "no bash and no sh") {
		t.Errorf("%v", o.err)
	}
	if o := call(t, t.Context(), newBash(t, func(c *Config) { c.Dir = "/nonexistent" }), Args{Command: "ls"}); o.err == nil {
		t.Error("a missing folder is no error")
	}
	b.Close()
	if o := call(t, t.Context(), b, Args{Command: "ls"}); o.err == nil || !strings.Contains(o.err.Error(), "closed") {
		t.Errorf("after Close: %v", o.err)
	}
}

func TestCommand(t *testing.T) {
	b := newBash(t)
	if c, dir := b.Command(json.RawMessage(`{"command":"ls -l"}`), "a"); c != "ls -l" || dir != b.cfg.Dir {
		t.Errorf("%q %q", c, dir)
	}
	if c, _ := b.Command(json.RawMessage(`"ls"`), "a"); c != "" {
		t.Errorf("%q", c)
	}
}
