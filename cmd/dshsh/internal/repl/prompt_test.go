//go:build unix

package repl_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

func TestR055_LargePaste(t *testing.T) {
	line := strings.Repeat("0123456789 äöü 世界 ", 40<<10/23+1)
	line = strings.ToValidUTF8(line[:40<<10], "")
	many := strings.TrimSuffix(strings.Repeat("a line of text\n", 120), "\n")
	for _, c := range []struct{ name, typed, text, shown string }{
		{"bracketed", repltest.Paste(line), line, "[paste #1, "},
		{"bare", line, line, ""},
		{"lines", repltest.Paste(many), many, "> [paste #1, 120 lines]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			term := start(t, 120, 30)
			began := time.Now()
			done := make(chan struct{})
			go func() { // a terminal takes no more than the program reads
				defer close(done)
				term.Type(c.typed)
				term.Type(repltest.Enter)
			}()
			want := fmt.Sprintf("got %d bytes %s", len(c.text), sum(c.text))
			term.WaitFor(want)
			<-done
			if d := time.Since(began); d > 3*time.Second {
				t.Errorf("took %v", d)
			}
			if c.shown != "" {
				term.WaitFor(c.shown)
			}
		})
	}
}

func TestPasteIsOneThing(t *testing.T) {
	term := start(t, 60, 10)
	term.Type("a", repltest.Paste(strings.Repeat("line\n", 30)), "b")
	term.WaitLine("> a[paste #1, 30 lines]b", 24)
	term.Type(repltest.Left, repltest.Left)
	term.WaitLine("> a[paste #1, 30 lines]b", 3)
	term.Type(repltest.Delete)
	term.WaitLine("> ab", 3)
	// A small one is text, and its line ends do not send it.
	term.Type(repltest.Paste("one\ntwo"))
	term.WaitLine("  twob", 5)
	term.Type(repltest.Enter)
	term.WaitFor(`got "aone\ntwob"`)
}

func TestInterruptPutsBack(t *testing.T) {
	term := start(t, 60, 10, "PUTBACK=1")
	big := strings.Repeat("w", 600)
	term.Type("see ", repltest.Paste(big))
	term.WaitFor("> see [paste #1, 600 chars]")
	term.Type(repltest.CtrlC)
	term.WaitFor("interrupt")
	term.WaitLine("> see [paste #1, 600 chars]", 27)
	term.Type(repltest.Enter)
	term.WaitFor(fmt.Sprintf("got 604 bytes %s", sum("see "+big)))
}

func TestR056_HistoryKeepsEntriesWhole(t *testing.T) {
	history := tempFile(t, "dir/history")
	term := start(t, 40, 12, "HISTORY="+history)
	term.Type("one", repltest.AltEnter, "two", repltest.AltEnter, "三", repltest.Enter)
	term.WaitFor(`got "one\ntwo\n三"`)
	term.Type("/quit", repltest.Enter)
	term.WaitExit(repltest.Deadline)
	if st, err := os.Stat(history); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("history: %v, %v", st.Mode(), err)
	}

	term = start(t, 40, 12, "HISTORY="+history)
	term.Type(repltest.Up, repltest.Up) // past /quit
	term.WaitLine("  三", 4)
	term.Type(repltest.Enter)
	term.WaitFor(`got "one\ntwo\n三"`)
	// Up goes through the rows of the entry before it goes to the one before.
	term.Type(repltest.Up, repltest.Up, repltest.End, "X", repltest.Enter)
	term.WaitFor(`got "one\ntwoX\n三"`)
}

func TestMultiline(t *testing.T) {
	term := start(t, 40, 20)
	term.Type(`a\`, repltest.Enter)
	term.WaitLine("", 2)
	term.Type("b", repltest.Enter)
	term.WaitFor(`got "a\nb"`)
	term.Type(`"""x`, repltest.Enter, repltest.Enter, "y ", repltest.Enter, `"""`, repltest.Enter)
	term.WaitFor(`got "x\n\ny "`)
	term.Type(`c\\`, repltest.Enter) // an escaped backslash ends the line
	term.WaitFor(`got "c\\\\"`)
}

func TestR058_ClosesWithoutAKey(t *testing.T) {
	for name, end := range map[string]struct {
		do   func(*repltest.Term)
		code int
	}{
		"term":   {func(term *repltest.Term) { term.Signal(syscall.SIGTERM) }, 8},
		"quit":   {func(term *repltest.Term) { term.Type("/quit", repltest.Enter) }, 3},
		"script": {func(term *repltest.Term) { term.Type("/later", repltest.Enter) }, 4},
		"ctrl-d": {func(term *repltest.Term) { term.Type(repltest.CtrlD) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			term := start(t, 40, 10)
			began := time.Now()
			end.do(term)
			if code := term.WaitExit(repltest.Deadline); code != end.code {
				t.Errorf("exit code %d, want %d", code, end.code)
			}
			if d := time.Since(began); d > time.Second {
				t.Errorf("took %v", d)
			}
			term.CheckSane()
		})
	}
}

func TestR059_TerminalIsRestored(t *testing.T) {
	for name, s := range map[string]syscall.Signal{"term": syscall.SIGTERM, "hup": syscall.SIGHUP, "quit": syscall.SIGQUIT} {
		t.Run(name, func(t *testing.T) {
			term := start(t, 40, 10)
			term.Type("half")
			term.WaitLine("> half", 6)
			term.Signal(s)
			term.WaitExit(repltest.Deadline)
			term.CheckSane()
		})
		t.Run(name+" ignored", func(t *testing.T) { // by a program that hangs
			term := start(t, 40, 10, "IGNORE=1")
			term.Signal(s)
			want := -int(s)
			if s == syscall.SIGQUIT { // which Go itself turns into a stack dump
				want = 2
			}
			if code := term.WaitExit(repltest.Deadline); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			term.CheckSane()
		})
	}
	t.Run("panic", func(t *testing.T) {
		term := start(t, 80, 30)
		term.Type("/panic", repltest.Enter)
		if code := term.WaitExit(repltest.Deadline); code != 2 {
			t.Errorf("exit code %d, want 2", code)
		}
		term.WaitFor("panic: forced")
		term.CheckSane()
	})
}

func TestR063_OutputWhileTyping(t *testing.T) {
	file := tempFile(t, "now")
	term := start(t, 40, 12)
	term.Type("/notice "+file, repltest.Enter)
	term.WaitLine(">", 2)
	term.Type("half a 线")
	term.WaitLine("> half a 线", 11)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	term.WaitFor("notice: 重新加载 guard.js\nsecond line\n> half a 线")
	term.Type(" and more")
	term.WaitLine("> half a 线 and more", 20)
	term.Type(repltest.Enter)
	term.WaitFor(`got "half a 线 and more"`)
	if n := strings.Count(strings.Join(term.Screen(), "\n"), "> half"); n != 1 {
		t.Errorf("the line stands on the screen %d times", n)
	}
}

// TestR063_Wrapped: the line is two rows high, the cursor in the first.
func TestR063_Wrapped(t *testing.T) {
	file := tempFile(t, "now")
	term := start(t, 30, 12)
	term.Type("/notice "+file, repltest.Enter, repltest.CtrlL)
	term.WaitUntil("a clear screen", func() bool { return term.Row(0) == ">" && strings.Contains(term.Raw(), "\x1b[2J") })
	term.Type(strings.Repeat("界", 20), repltest.Home)
	term.WaitLine("> "+strings.Repeat("界", 14), 2)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	term.WaitFor("second line")
	want := "notice: 重新加载 guard.js\nsecond line\n> " + strings.Repeat("界", 14) + "\n" + strings.Repeat("界", 6)
	term.WaitUntil("one copy of the line", func() bool { return strings.Join(term.Screen(), "\n") == want })
}

func TestR064_TerminalGone(t *testing.T) {
	mark := tempFile(t, "mark")
	term := start(t, 40, 10, "MARK="+mark)
	began := time.Now()
	term.Hangup()
	term.WaitExit(repltest.Deadline)
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestR131_NothingActsOnTheTerminal(t *testing.T) {
	term := start(t, 100, 12)
	term.Type("/evil", repltest.Enter)
	term.WaitFor(`^[[2J^[]0;title^G^[]52;c;aGk=^G^[[6n^[[c^[[5n\u009b6n end`)
	term.WaitFor("careless ^[[6n^[[c^[]52;c;aGk=^G end")
	term.WaitLine(">", 2) // no answer was typed
	// Answers that some other program asked for are not typed either, also in pieces.
	term.Type("a", "\x1b[12;40R\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[?62;22c\x1bP>|xterm(1)\x1b\\\x1b[I\x1b[<0;3;4M\x1b[M !!", "b")
	term.WaitLine("> ab", 4)
	term.Type("\x1b[12;")
	term.Type("40R", "c", repltest.Enter)
	term.WaitFor(`got "abc"`)
	for _, bad := range []string{"\x1b]", "\x1b[6n", "\x1b[c", "\x1b[5n", "\u009b"} {
		if strings.Contains(term.Raw(), bad) {
			t.Errorf("%q reached the terminal", bad)
		}
	}
}
