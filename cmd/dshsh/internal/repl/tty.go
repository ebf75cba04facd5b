package repl

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Modes that an Editor switches on while it has the terminal: bracketed paste.
const (
	modesOn  = "\x1b[?2004h"
	modesOff = "\x1b[?2004l"
)

// tty is the terminal's state. Its fields are set once; mu guards raw.
type tty struct {
	in    *os.File
	out   *os.File // nil when the output is no file
	saved *term.State

	mu  sync.Mutex // serialises changes of the mode; never held while writing
	raw bool
}

func newTTY(in *os.File, out io.Writer) (*tty, error) {
	saved, err := term.GetState(int(in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("read the terminal's mode (run with standard input from a terminal, or without one at all): %w", err)
	}
	t := &tty{in: in, saved: saved}
	t.out, _ = out.(*os.File)
	return t, nil
}

// enter switches to raw mode, also again after something else changed the mode.
func (t *tty) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := term.MakeRaw(int(t.in.Fd())); err != nil {
		return fmt.Errorf("switch the terminal to raw mode: %w", err)
	}
	t.raw = true
	return nil
}

// leave puts the mode back that was there at the start.
func (t *tty) leave() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.raw {
		return nil
	}
	t.raw = false
	if err := term.Restore(int(t.in.Fd()), t.saved); err != nil {
		return fmt.Errorf("restore the terminal's mode (`stty sane` does it by hand): %w", err)
	}
	return nil
}

// rescue restores the terminal on the way out of a program that may be in any state: it
// waits for nothing longer than a moment.
func (t *tty) rescue(out io.Writer) {
	if t.mu.TryLock() {
		t.raw = false
		t.mu.Unlock()
	}
	_ = term.Restore(int(t.in.Fd()), t.saved) // nothing is left to be done about an error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(out, "\r\x1b[J"+modesOff)
	}()
	select {
	case <-done:
	case <-time.After(100 * time.Millisecond):
	}
}

// size returns the terminal's columns and rows, or 80 by 24 if it does not tell.
func (t *tty) size() (cols, rows int) {
	for _, f := range []*os.File{t.out, t.in} {
		if f == nil {
			continue
		}
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 80, 24
}

// reflows reports whether the terminal is known to wrap its lines anew when it becomes
// narrower. One that is not known counts as one that does not: then a resize may leave a
// stale row of the prompt behind, but never wipes output.
func reflows(getenv func(string) string) bool {
	for _, v := range []string{"TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "WT_SESSION", "ALACRITTY_WINDOW_ID", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR"} {
		if getenv(v) != "" {
			return true
		}
	}
	switch getenv("TERM_PROGRAM") {
	case "iTerm.app", "Apple_Terminal", "vscode", "ghostty", "WezTerm":
		return true
	}
	return false
}
