package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"dshsh/session"
)

// patience is how long the tests wait for something that must come. Only failing tests
// spend it.
const patience = 20 * time.Second

// TestScript runs the program as a shell does. Beside the usual commands of testscript
// the scripts have $EXAMPLES, the folder of the examples, and:
//
//	exits CODE PROGRAM ARGS...    like exec, for one exit code
//	start NAME PROGRAM ARGS...    runs it in the background
//	signal NAME INT|TERM|HUP|KILL
//	ends NAME CODE                waits for its end; -9 is the signal 9
//	model FILE                    starts a model server that plays FILE, see playbook
//	replays                       the newest session gives what the server was sent
//	sent N PATTERN, ! sent N ...  request N to the server matches
//	logcmp FILE                   compares the newest session, scrubbed of times and ids;
//	                              with -update it rewrites FILE
//	jsonlines FILE                every line is a JSON object
//	waitfile GLOB [PATTERN]       until a file exists and matches
//	gone FILE                     until no process named in FILE is there
//	session VAR [N]               sets VAR to the id of the Nth newest session
func TestScript(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("DSHSH_HOME", filepath.Join(env.WorkDir, ".home"))
			env.Setenv("EXAMPLES", examples)
			env.Values[values{}] = &scriptState{running: map[string]*running{}}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     cmdExits,
			"start":     cmdStart,
			"signal":    cmdSignal,
			"ends":      cmdEnds,
			"model":     cmdModel,
			"replays":   cmdReplays,
			"sent":      cmdSent,
			"logcmp":    cmdLogcmp,
			"jsonlines": cmdJSONLines,
			"waitfile":  cmdWaitfile,
			"gone":      cmdGone,
			"session":   cmdSession,
		},
	})
}

// scriptState is what the commands of one script share; values is its key.
type (
	values      struct{}
	scriptState struct {
		running map[string]*running
		server  *playing
	}
)

func state(ts *testscript.TestScript) *scriptState { return ts.Value(values{}).(*scriptState) }

func usage(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}

// exitCode is a command's exit code, or minus the number of the signal that ended it.
func exitCode(err error) (int, bool) {
	if err == nil {
		return 0, true
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, false
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -int(ws.Signal()), true
	}
	return exit.ExitCode(), true
}

func checkCode(ts *testscript.TestScript, want string, err error) {
	code, ok := exitCode(err)
	if !ok {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != want {
		ts.Fatalf("exit code %d, want %s", code, want)
	}
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "exits CODE PROGRAM ARGS...")
	checkCode(ts, args[0], ts.Exec(args[1], args[2:]...))
}

// running is a program that was started in the background.
type running struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	ended    chan error
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "start NAME PROGRAM ARGS...")
	path := args[1]
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			path = filepath.Join(dir, path)
			break
		}
	}
	r := &running{cmd: exec.Command(path, args[2:]...), ended: make(chan error, 1)}
	r.cmd.Dir = ts.MkAbs(".")
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "DSHSH_HOME", "OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"} {
		if v := ts.Getenv(name); v != "" {
			r.cmd.Env = append(r.cmd.Env, name+"="+v)
		}
	}
	ts.Check(r.cmd.Start())
	done := make(chan struct{})
	go func() {
		r.ended <- r.cmd.Wait()
		close(done)
	}()
	ts.Defer(func() {
		_ = r.cmd.Process.Kill()
		<-done
	})
	state(ts).running[args[0]] = r
}

func background(ts *testscript.TestScript, name string) *running {
	r := state(ts).running[name]
	if r == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return r
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "signal NAME INT|TERM|HUP|KILL")
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}
	s, ok := signals[args[1]]
	usage(ts, ok, "signal NAME INT|TERM|HUP|KILL")
	ts.Check(background(ts, args[0]).cmd.Process.Signal(s))
}

func cmdEnds(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "ends NAME CODE")
	r := background(ts, args[0])
	select {
	case err := <-r.ended:
		fmt.Fprint(ts.Stdout(), r.out.String())
		fmt.Fprint(ts.Stderr(), r.err.String())
		checkCode(ts, args[1], err)
	case <-time.After(patience):
		ts.Fatalf("%s has not ended", args[0])
	}
}

func cmdJSONLines(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "jsonlines FILE")
	n := 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			ts.Fatalf("%q is no JSON object: %v", line, err)
		}
		n++
	}
	if n == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
}

// wait polls until ok, or fails. What it waits for is done by another process.
func wait(ts *testscript.TestScript, what string, ok func() bool) {
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("no %s after %v", what, patience)
		}
	}
}

func cmdWaitfile(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && (len(args) == 1 || len(args) == 2), "waitfile GLOB [PATTERN]")
	pattern := ""
	if len(args) == 2 {
		pattern = args[1]
	}
	re := regexp.MustCompile("(?m)" + pattern)
	wait(ts, strings.Join(args, " with "), func() bool {
		files, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		return slices.ContainsFunc(files, func(f string) bool {
			b, err := os.ReadFile(f)
			return err == nil && re.Match(b)
		})
	})
}

func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "gone FILE")
	pids := strings.Fields(ts.ReadFile(args[0]))
	usage(ts, len(pids) > 0, "gone FILE, which names processes")
	for _, p := range pids {
		pid, err := strconv.Atoi(p)
		ts.Check(err)
		wait(ts, "end of process "+p, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
}

// sessionFiles are the sessions of the script, newest first: ids sort by time.
func sessionFiles(ts *testscript.TestScript) []string {
	files, err := filepath.Glob(filepath.Join(ts.Getenv("DSHSH_HOME"), "sessions", "*.jsonl"))
	ts.Check(err)
	slices.Sort(files)
	slices.Reverse(files)
	return files
}

func cmdSession(ts *testscript.TestScript, neg bool, args []string) {
	n := 1
	if len(args) == 2 {
		n, _ = strconv.Atoi(args[1])
	}
	files := sessionFiles(ts)
	usage(ts, !neg && len(args) > 0 && n > 0, "session VAR [N]")
	if n > len(files) {
		ts.Fatalf("there are %d sessions", len(files))
	}
	ts.Setenv(args[0], strings.TrimSuffix(filepath.Base(files[n-1]), ".jsonl"))
}

// records reads the newest session.
func records(ts *testscript.TestScript) []session.Record {
	files := sessionFiles(ts)
	if len(files) == 0 {
		ts.Fatalf("there is no session")
	}
	recs, err := readSession(files[0])
	ts.Check(err)
	return recs
}

// readSession reads the records of a session's file.
func readSession(path string) ([]session.Record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, body, _ := bytes.Cut(b, []byte("\n")) // the header
	var recs []session.Record
	for line := range bytes.Lines(body) {
		var r session.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w: %q", filepath.Base(path), err, line)
		}
		recs = append(recs, r)
	}
	return recs, nil
}
