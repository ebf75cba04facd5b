package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
	"dshsh/session"
)

// shell is the built program in a terminal, in a folder of its own.
type shell struct {
	*repltest.Term
	t         testing.TB
	dir, home string
}

// place is where a shell runs. Its zero value is a new empty folder and home.
type place struct {
	dir, home  string
	cols, rows int
	files      map[string]string // relative to dir
	env        []string
}

// open starts the program and waits for its first line.
func open(t testing.TB, p place, args ...string) *shell {
	t.Helper()
	if p.dir == "" {
		p.dir = t.TempDir()
	}
	if p.home == "" {
		p.home = t.TempDir()
	}
	if p.cols == 0 {
		p.cols = 80
	}
	if p.rows == 0 {
		p.rows = 40
	}
	s := &shell{t: t, dir: p.dir, home: p.home}
	for name, text := range p.files {
		s.write(name, text)
	}
	s.Term = repltest.Start(t, s.command(p, args...), p.cols, p.rows)
	s.WaitFor("dshsh on ")
	return s
}

// command is the program, with nothing of the tests' own environment.
func (s *shell) command(p place, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(binary(s.t), args...)
	cmd.Dir = s.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "DSHSH_HOME=" + s.home, "TERM=xterm-256color",
		"NO_COLOR=1", "GORACE=atexit_sleep_ms=0"}, p.env...)
	return cmd
}

// run runs the program without a terminal, to its end.
func (s *shell) run(p place, args ...string) {
	s.t.Helper()
	for name, text := range p.files {
		s.write(name, text)
	}
	if out, err := s.command(p, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("dshsh %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// opened is open for where no question comes: it waits for the prompt.
func opened(t testing.TB, p place, args ...string) *shell {
	t.Helper()
	s := open(t, p, args...)
	s.ready()
	return s
}

// ready waits for an empty prompt with nothing running.
func (s *shell) ready() {
	s.t.Helper()
	s.WaitUntil("idle prompt", func() bool {
		x, y := s.Cursor()
		return x == 2 && s.Row(y) == ">" && !strings.Contains(s.Row(y+1), "working")
	})
}

// clear empties the screen.
func (s *shell) clear() {
	s.t.Helper()
	s.Type(repltest.CtrlL)
	s.WaitUntil("empty screen", func() bool { return s.Row(0) == ">" })
}

// working waits until a turn runs and the prompt is free.
func (s *shell) working() {
	s.t.Helper()
	s.WaitUntil("working prompt", func() bool {
		x, y := s.Cursor()
		return x == 2 && s.Row(y) == ">" && strings.Contains(s.Row(y+1), "working")
	})
}

// streaming waits until a reply of the offline provider that hangs has begun: its first
// line is not shown before it is whole.
func (s *shell) streaming() {
	s.t.Helper()
	s.working()
	s.WaitUntil("beginning of the reply", func() bool {
		files := s.sessions()
		b, err := os.ReadFile(files[len(files)-1])
		return err == nil && strings.Contains(string(b), `"text":"cancelled `)
	})
}

// enter types a line.
func (s *shell) enter(line string) {
	s.t.Helper()
	s.Type(line, repltest.Enter)
}

// write replaces a file of the folder as editors do: whole, by a rename.
func (s *shell) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path+".tmp~", []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp~", path); err != nil {
		s.t.Fatal(err)
	}
}

// saved waits for the report of a save. Where a tool ran a moment ago, the save of a
// project's script is asked about first, since the tool may have made it.
func (s *shell) saved(report string) {
	s.t.Helper()
	answered := false
	s.WaitUntil("report of a save "+report, func() bool {
		text := s.text()
		if !answered && strings.HasSuffix(s.Row(s.row()), "Take the change? y / n / show") {
			answered = true
			s.Type("y", repltest.Enter)
		}
		return strings.Contains(text, report)
	})
}

func (s *shell) row() int {
	_, y := s.Cursor()
	return y
}

// waitFile waits until a file of the folder is there.
func (s *shell) waitFile(name string) {
	s.t.Helper()
	s.WaitUntil("file "+name, func() bool { return s.exists(name) })
}

func (s *shell) exists(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// text is the screen, rows joined by newlines.
func (s *shell) text() string { return strings.Join(s.Screen(), "\n") }

// quit leaves and checks that the program went in order.
func (s *shell) quit() {
	s.t.Helper()
	s.enter("/quit")
	if code := s.WaitExit(repltest.Deadline); code != 0 {
		s.t.Errorf("exit code %d; screen:\n%s", code, s.text())
	}
	s.CheckSane()
}

// sessions are the files of the shell's sessions, oldest first.
func (s *shell) sessions() []string {
	files, err := filepath.Glob(filepath.Join(s.home, "sessions", "*.jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// log reads the newest session; the shell has ended.
func (s *shell) log() []session.Record {
	s.t.Helper()
	files := s.sessions()
	if len(files) == 0 {
		s.t.Fatal("there is no session")
	}
	recs, err := readSession(files[len(files)-1])
	if err != nil {
		s.t.Fatal(err)
	}
	return recs
}

// count is how many records of a type hold a text.
func count(recs []session.Record, typ, text string) int {
	n := 0
	for _, r := range recs {
		if r.Type == typ && strings.Contains(string(r.Data), text) {
			n++
		}
	}
	return n
}

// in checks that the parts stand on the screen in this order, each once.
func (s *shell) in(parts ...string) {
	s.t.Helper()
	text, from := s.text(), 0
	for _, p := range parts {
		i := strings.Index(text[from:], p)
		if i < 0 || strings.Count(text, p) != 1 {
			s.t.Errorf("%q is not there once and in its place; screen:\n%s", p, text)
			return
		}
		from += i + len(p)
	}
}
