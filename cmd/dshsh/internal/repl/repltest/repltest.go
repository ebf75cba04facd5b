//go:build unix

// Package repltest runs a program in a pseudo-terminal with a model of the screen, and
// lets a test type at it and look at what a person would see.
//
// There are no sleeps: a test waits for the screen to show something, with a deadline.
// The model answers the queries that a terminal answers, so a program that asks gets its
// answer as it would from a real one.
package repltest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// Deadline is how long the Wait methods wait. It is generous, for machines under load;
// only failing tests spend it.
const Deadline = 15 * time.Second

// Keys, as an xterm sends them.
const (
	Enter     = "\r"
	AltEnter  = "\x1b\r"
	Escape    = "\x1b"
	Tab       = "\t"
	ShiftTab  = "\x1b[Z"
	Backspace = "\x7f"
	Delete    = "\x1b[3~"
	Up        = "\x1b[A"
	Down      = "\x1b[B"
	Right     = "\x1b[C"
	Left      = "\x1b[D"
	Home      = "\x1b[H"
	End       = "\x1b[F"
	WordLeft  = "\x1b[1;5D"
	WordRight = "\x1b[1;5C"
	CtrlA     = "\x01"
	CtrlC     = "\x03"
	CtrlD     = "\x04"
	CtrlE     = "\x05"
	CtrlG     = "\x07"
	CtrlK     = "\x0b"
	CtrlL     = "\x0c"
	CtrlR     = "\x12"
	CtrlT     = "\x14"
	CtrlU     = "\x15"
	CtrlW     = "\x17"
	CtrlY     = "\x19"
	CtrlZ     = "\x1a"
)

// Paste returns text as a terminal with bracketed paste sends it.
func Paste(text string) string {
	return "\x1b[200~" + strings.ReplaceAll(text, "\n", "\r") + "\x1b[201~"
}

// Term is a program in a pseudo-terminal. The test's goroutine uses it.
type Term struct {
	t      testing.TB
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File
	ended  chan struct{} // closed when the program has ended
	fed    sync.WaitGroup
	err    error // of the program; set before ended is closed

	mu      sync.Mutex // guards what follows
	emu     *vt.Emulator
	raw     []byte // all that was written
	changed chan struct{}
	paused  chan struct{} // not nil while nothing is read; closed to go on
	gone    bool          // the terminal was closed
}

// Start runs cmd in a new terminal of the given size, as the leader of its session. The
// program is killed, and the terminal closed, when the test ends.
func Start(t testing.TB, cmd *exec.Cmd, cols, rows int) *Term {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatalf("repltest: open a terminal: %v", err)
	}
	if master, err = pollable(master); err != nil {
		t.Fatalf("repltest: %v", err)
	}
	term := &Term{
		t: t, cmd: cmd, master: master, slave: slave,
		ended: make(chan struct{}), emu: vt.NewEmulator(cols, rows), changed: make(chan struct{}),
	}
	t.Cleanup(term.cleanup)
	if err := setSize(slave, cols, rows); err != nil {
		t.Fatalf("repltest: set the size: %v", err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("repltest: start %s: %v", cmd.Path, err)
	}
	term.fed.Add(2)
	go term.feed()
	go term.answer()
	go func() {
		term.err = cmd.Wait()
		close(term.ended)
	}()
	return term
}

// pollable returns f as a file whose Close ends a Read that is under way.
func pollable(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("dup: %w", err)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("set non-blocking: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func setSize(f *os.File, cols, rows int) error {
	return pty.Setsize(f, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)})
}

// feed gives what the program writes to the screen.
func (t *Term) feed() {
	defer t.fed.Done()
	buf := make([]byte, 64<<10)
	for {
		t.mu.Lock()
		paused := t.paused
		t.mu.Unlock()
		if paused != nil {
			<-paused
		}
		n, err := t.master.Read(buf)
		if err != nil {
			return
		}
		t.mu.Lock()
		t.raw = append(t.raw, buf[:n]...)
		_, _ = t.emu.Write(buf[:n])
		close(t.changed)
		t.changed = make(chan struct{})
		t.mu.Unlock()
	}
}

// answer types what the terminal answers to queries.
func (t *Term) answer() {
	defer t.fed.Done()
	buf := make([]byte, 4096)
	for {
		n, err := t.emu.Read(buf)
		if n > 0 {
			_, _ = t.master.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (t *Term) cleanup() {
	t.Continue()
	if t.cmd.Process != nil {
		select {
		case <-t.ended:
		default:
			_ = t.cmd.Process.Kill()
			<-t.ended
		}
	}
	t.Hangup()
	if pipe, ok := t.emu.InputPipe().(io.Closer); ok { // ends answer; the model's Close races with it
		pipe.Close()
	}
	t.fed.Wait()
}

// Type types text and keys, all at once.
func (t *Term) Type(keys ...string) {
	t.t.Helper()
	if _, err := t.master.Write([]byte(strings.Join(keys, ""))); err != nil {
		t.t.Fatalf("repltest: type: %v", err)
	}
}

// Resize changes the size of the terminal, which tells the program. The screen is cut,
// lines are not wrapped anew.
func (t *Term) Resize(cols, rows int) {
	t.t.Helper()
	t.mu.Lock()
	t.emu.Resize(cols, rows)
	t.mu.Unlock()
	if err := setSize(t.slave, cols, rows); err != nil {
		t.t.Fatalf("repltest: resize: %v", err)
	}
}

// Screen returns the rows of the screen without the blanks at their ends; rows that are
// empty at the end of the screen are left out.
func (t *Term) Screen() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen()
}

func (t *Term) screen() []string {
	var rows []string
	for y := range t.emu.Height() {
		var b strings.Builder
		for x := 0; x < t.emu.Width(); {
			w := 1
			if c := t.emu.CellAt(x, y); c != nil {
				b.WriteString(c.Content)
				w = max(c.Width, 1)
			} else {
				b.WriteByte(' ')
			}
			x += w
		}
		rows = append(rows, strings.TrimRight(b.String(), " "))
	}
	for len(rows) > 0 && rows[len(rows)-1] == "" {
		rows = rows[:len(rows)-1]
	}
	return rows
}

// Row returns one row of the screen, counted from 0, or "" below its end.
func (t *Term) Row(i int) string {
	if rows := t.Screen(); i >= 0 && i < len(rows) {
		return rows[i]
	}
	return ""
}

// Cursor returns where the cursor is, counted from 0.
func (t *Term) Cursor() (col, row int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.emu.CursorPosition()
	return p.X, p.Y
}

// Raw returns all bytes that the program has written.
func (t *Term) Raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.raw)
}

// WaitFor waits until the screen shows text, in one row.
func (t *Term) WaitFor(text string) {
	t.t.Helper()
	t.WaitUntil(fmt.Sprintf("%q on the screen", text), func() bool {
		return strings.Contains(strings.Join(t.Screen(), "\n"), text)
	})
}

// WaitMatch waits until the screen, rows joined by newlines, matches re, and returns the
// match and its groups.
func (t *Term) WaitMatch(re string) []string {
	t.t.Helper()
	var m []string
	rx := regexp.MustCompile(re)
	t.WaitUntil(fmt.Sprintf("a match of %s on the screen", re), func() bool {
		m = rx.FindStringSubmatch(strings.Join(t.Screen(), "\n"))
		return m != nil
	})
	return m
}

// WaitLine waits until the row that the cursor is in is text and the cursor stands in the
// given column.
func (t *Term) WaitLine(text string, col int) {
	t.t.Helper()
	t.WaitUntil(fmt.Sprintf("the line %q with the cursor in column %d", text, col), func() bool {
		x, y := t.Cursor()
		return x == col && t.Row(y) == text
	})
}

// WaitUntil waits until ok, which looks at the screen, returns true. what says in words
// what is waited for.
func (t *Term) WaitUntil(what string, ok func() bool) {
	t.t.Helper()
	timeout := time.After(Deadline)
	for {
		t.mu.Lock()
		changed := t.changed
		t.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond): // ok may look at more than the screen
		case <-timeout:
			col, row := t.Cursor()
			t.t.Fatalf("no %s after %v; cursor at column %d of row %d; screen:\n%s", what, Deadline,
				col, row, strings.Join(t.Screen(), "\n"))
		}
	}
}

// WaitExit waits until the program ends, at most d, and returns its exit code, or minus
// the number of the signal that ended it.
func (t *Term) WaitExit(d time.Duration) int {
	t.t.Helper()
	select {
	case <-t.ended:
	case <-time.After(d):
		t.t.Fatalf("still running after %v; screen:\n%s", d, strings.Join(t.Screen(), "\n"))
	}
	var exit *exec.ExitError
	if errors.As(t.err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return -int(ws.Signal())
		}
		return exit.ExitCode()
	}
	return 0
}

// Signal sends the program a signal.
func (t *Term) Signal(s os.Signal) {
	t.t.Helper()
	if err := t.cmd.Process.Signal(s); err != nil {
		t.t.Fatalf("repltest: signal %v: %v", s, err)
	}
}

// Hangup closes the terminal, as closing its window does.
func (t *Term) Hangup() {
	t.mu.Lock()
	gone := t.gone
	t.gone = true
	t.mu.Unlock()
	if !gone {
		t.slave.Close()
		t.master.Close()
	}
}

// Pause stops reading what the program writes, as a terminal that is stuck or scrolled
// back does; Continue goes on.
func (t *Term) Pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paused == nil {
		t.paused = make(chan struct{})
	}
}

// Continue ends a Pause.
func (t *Term) Continue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paused != nil {
		close(t.paused)
		t.paused = nil
	}
}

// Stty returns the terminal's settings as `stty -a` words them, such as "echo" or
// "-icanon".
func (t *Term) Stty() map[string]bool {
	t.t.Helper()
	cmd := exec.Command("stty", "-a")
	cmd.Stdin = t.slave
	out, err := cmd.Output()
	if err != nil {
		t.t.Fatalf("repltest: stty -a: %v", err)
	}
	words := map[string]bool{}
	for _, w := range strings.Fields(string(out)) {
		words[strings.TrimSuffix(w, ";")] = true
	}
	return words
}

// CheckSane checks that the terminal is as a shell needs it, once all that the program has
// written has arrived.
func (t *Term) CheckSane() {
	t.t.Helper()
	set := t.Stty()
	for _, w := range []string{"echo", "icanon", "icrnl", "isig", "opost"} {
		if !set[w] {
			t.t.Errorf("the terminal was left without %s", w)
		}
	}
	t.WaitUntil("end of bracketed paste", func() bool {
		raw := t.Raw()
		return strings.LastIndex(raw, "\x1b[?2004h") <= strings.LastIndex(raw, "\x1b[?2004l")
	})
}
