//go:build linux || darwin

package session_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"dshsh/session"
	"dshsh/session/sessiontest"
)

func init() {
	child = secondProcess
	makeFIFO = func(path string) error { return unix.Mkfifo(path, 0o600) }
}

// secondProcess opens a session, says so, and obeys lines on its standard input until that ends. It dies without closing
// anything when it is killed.
func secondProcess(arg string) int {
	dir, id, _ := strings.Cut(arg, "|")
	s, err := session.OpenStore(dir, session.Options{NoSync: true})
	if err == nil {
		var l *session.Log
		if l, _, err = s.Open(id); err == nil {
			fmt.Println("open")
			err = obey(l)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func obey(l *session.Log) error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, arg, _ := strings.Cut(in.Text(), " ")
		n, _ := strconv.Atoi(arg)
		var err error
		switch word {
		case "append": // n records of 100 KB
			for range n {
				if _, err = l.Append(note(strings.Repeat("c", 100_000))); err != nil {
					break
				}
			}
		case "limit": // no file may grow beyond n bytes, as on a full disk
			signal.Ignore(unix.SIGXFSZ)
			limit := unix.Rlimit{Cur: uint64(n), Max: unix.RLIM_INFINITY}
			if n == 0 {
				limit.Cur = unix.RLIM_INFINITY
			}
			err = unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)
		case "close":
			return l.Close()
		}
		if err != nil {
			fmt.Println("error:", err)
		} else {
			fmt.Println("done")
		}
	}
	return in.Err()
}

// process is a running child.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func spawn(t *testing.T, s *session.Store, id string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SESSION_TEST_CHILD="+s.Dir()+"|"+id)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Signal(unix.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{t, cmd, in, bufio.NewReader(out)}
}

func (p *process) tell(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) hear() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (p *process) ask(line string) string {
	p.t.Helper()
	p.tell(line)
	return p.hear()
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// quit ends the child in order.
func (p *process) quit() {
	p.t.Helper()
	p.tell("close")
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatal(err)
	}
}

// wantHeldBy wants a refusal that names the child.
func (p *process) wantHeldBy(err error) {
	p.t.Helper()
	var locked *session.LockedError
	if !errors.As(err, &locked) || !errors.Is(err, session.Locked) {
		p.t.Fatalf("got %v, want a refusal", err)
	}
	host, _ := os.Hostname()
	if locked.Holder == nil || locked.Holder.PID != p.cmd.Process.Pid || locked.Holder.Host != host || locked.Holder.Since == 0 {
		p.t.Errorf("the holder is %+v", locked.Holder)
	}
	for _, word := range []string{strconv.Itoa(p.cmd.Process.Pid), host, "since", "session fork a"} {
		if !strings.Contains(err.Error(), word) {
			p.t.Errorf("%q does not say %q", err, word)
		}
	}
}

func fresh(t *testing.T) *session.Store {
	t.Helper()
	s := openStore(t, session.Options{NoSync: true})
	l := create(t, s, "a")
	must(t, l, note("first"))
	closeLog(t, l)
	return s
}

func TestR106_TwoProcesses(t *testing.T) {
	s := fresh(t)
	p := spawn(t, s, "a")
	if got := p.hear(); got != "open" {
		t.Fatal(got)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // while the child writes 100 events of 100 KB
		for range 100 {
			_, _, err := s.Open("a")
			if !errors.Is(err, session.Locked) {
				t.Errorf("opened beside a writer: %v", err)
			}
			// Reading needs no lock. What it sees is whole, but for a line on its way.
			if _, _, rep, err := s.Read("a"); err != nil || rep.Damaged() {
				t.Errorf("%v %+v", err, rep)
			}
		}
	})
	if got := p.ask("append 100"); got != "done" {
		t.Fatal(got)
	}
	wg.Wait()
	_, _, err := s.Open("a")
	p.wantHeldBy(err)
	p.quit()
	l, rep := reopen(t, s, "a")
	if l.Len() != 103 || rep.Damaged() { // first, end-seed, 100, end-seed
		t.Errorf("%d records, %+v", l.Len(), rep)
	}
	if _, err := os.Stat(filepath.Join(s.Dir(), "a.lock")); err != nil {
		t.Error("no word of who holds it:", err)
	}
	closeLog(t, l)
	if _, err := os.Stat(filepath.Join(s.Dir(), "a.lock")); err == nil {
		t.Error("a closed session is said to be held")
	}
}

func TestR107_StoppedProcessStaysTheHolder(t *testing.T) {
	s := fresh(t)
	p := spawn(t, s, "a")
	p.hear()
	p.signal(unix.SIGSTOP)
	var status unix.WaitStatus
	for { // until it has stopped
		if _, err := unix.Wait4(p.cmd.Process.Pid, &status, unix.WUNTRACED, nil); err == nil {
			break
		} else if err != unix.EINTR {
			t.Fatal(err)
		}
	}
	_, _, err := s.Open("a")
	p.wantHeldBy(err)
	if runtime.GOOS == "linux" && !strings.Contains(err.Error(), "kill -CONT") {
		t.Error(err)
	}

	// The way on is a fork, which has its own turns.
	f, err := s.ForkFrom("a", session.Last, "b")
	if err != nil {
		t.Fatal(err)
	}
	must(t, f, note("B's turn"))
	closeLog(t, f)

	p.signal(unix.SIGCONT)
	if got := p.ask("append 1"); got != "done" {
		t.Fatal(got)
	}
	p.quit()
	l, _ := reopen(t, s, "a")
	if l.Len() != 4 {
		t.Errorf("a has %d records", l.Len())
	}
	closeLog(t, l)
	b, _ := reopen(t, s, "b")
	if got := string(b.Records()[2].Data); got != `"B's turn"` {
		t.Errorf("b has %s", got)
	}
	closeLog(t, b)
}

func TestLockDiesWithItsProcess(t *testing.T) {
	s := fresh(t)
	p := spawn(t, s, "a")
	p.hear()
	if got := p.ask("append 3"); got != "done" {
		t.Fatal(got)
	}
	p.signal(unix.SIGKILL)
	_ = p.cmd.Wait()
	l, rep := reopen(t, s, "a")
	if l.Len() != 6 || rep.Torn != nil {
		t.Errorf("a killed process lost what it had acted on: %d records, %+v", l.Len(), rep)
	}
	closeLog(t, l)
}

// A dead process' description beside a live lock is not believed.
func TestLockHolderUnknown(t *testing.T) {
	s := fresh(t)
	l, _ := reopen(t, s, "a")
	host, _ := os.Hostname()
	for _, text := range []string{"", "{", `{"pid":0}`, fmt.Sprintf(`{"pid":4194304999,"host":%q,"since":1}`, host)} {
		write(t, filepath.Join(s.Dir(), "a.lock"), text)
		_, _, err := s.Open("a")
		wantCode(t, err, session.Locked, "another process")
	}
	closeLog(t, l)
}

func TestSecondOpenInThisProcess(t *testing.T) {
	s := fresh(t)
	l, _ := reopen(t, s, "a")
	_, _, err := s.Open("a")
	wantCode(t, err, session.Locked, "this process")
	must(t, l, note("goes on"))
	closeLog(t, l)
	l, _ = reopen(t, s, "a")
	closeLog(t, l)
	c := create(t, s, "c")
	_, _, err = s.Open("c")
	wantCode(t, err, session.Locked)
	closeLog(t, c)
}

func TestNoLocksHere(t *testing.T) {
	fs := sessiontest.NewFaults(nil)
	s := openStore(t, session.Options{FS: fs, NoSync: true})
	closeLog(t, create(t, s, "a"))
	fs.FailNext(sessiontest.Lock, sessiontest.Fault{Err: errors.ErrUnsupported})
	if _, _, err := s.Open("a"); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "two programs") {
		t.Error(err)
	}
	l, _ := reopen(t, s, "a")
	closeLog(t, l)
}

// Of many who make a session of one name, one does, and its file is its own.
func TestCreateRace(t *testing.T) {
	s := openStore(t, session.Options{NoSync: true})
	var wg sync.WaitGroup
	logs := make(chan *session.Log, 16)
	for range cap(logs) {
		wg.Go(func() {
			l, err := s.Create(session.Header{ID: "a"})
			if err == nil {
				logs <- l
			} else if !errors.Is(err, session.Exists) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(logs) != 1 {
		t.Fatalf("%d made it", len(logs))
	}
	l := <-logs
	must(t, l, note("mine"))
	closeLog(t, l)
	if entries, err := os.ReadDir(filepath.Join(s.Dir(), ".new")); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	sessiontest.CheckAll(t, s)
}

func TestR108_FileSizeLimit(t *testing.T) {
	s := fresh(t)
	p := spawn(t, s, "a")
	p.hear()
	p.ask("append 1")
	p.ask("limit 250000") // in the middle of the second record from here
	if got := p.ask("append 1"); got != "done" {
		t.Fatal(got)
	}
	for range 3 {
		got := p.ask("append 1")
		if !strings.HasPrefix(got, "error:") || !strings.Contains(got, "a.jsonl") || !strings.Contains(got, "file too large") {
			t.Fatal(got)
		}
	}
	if _, _, rep, err := s.Read("a"); err != nil || rep.Damaged() {
		t.Errorf("%+v %v", rep, err)
	}
	p.ask("limit 0")
	if got := p.ask("append 2"); got != "done" {
		t.Fatal(got)
	}
	p.quit()
	l, rep := reopen(t, s, "a")
	if l.Len() != 7 || rep.Torn != nil { // first, end-seed, 1, 1, 2, end-seed
		t.Errorf("%d records, %+v", l.Len(), rep)
	}
	closeLog(t, l)
}
