//go:build unix

package repl_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/cmd/dshsh/internal/repl"
	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// TestMain runs the tests, or, as the child of one, the small program that they drive.
func TestMain(m *testing.M) {
	if os.Getenv("REPL_TEST_CHILD") != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// start runs the small program in a terminal and waits for its prompt. env is KEY=VALUE.
func start(t *testing.T, cols, rows int, env ...string) *repltest.Term {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "REPL_TEST_CHILD=1", "TERM=xterm-256color", "NO_COLOR=1", "TMUX=",
		"GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, env...)
	term := repltest.Start(t, cmd, cols, rows)
	term.WaitLine(">", 2)
	return term
}

// startDumb runs it with a terminal that cannot move its cursor.
func startDumb(t *testing.T) *repltest.Term {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "REPL_TEST_CHILD=1", "TERM=dumb", "PLAIN=1")
	return repltest.Start(t, cmd, 60, 20)
}

// child is the small program: it says what it gets, and does a few things when told to.
func child() int {
	if os.Getenv("PARTIAL") != "" {
		fmt.Print("partial")
	}
	ed, err := repl.NewEditor(repl.EditorConfig{
		In: os.Stdin, Out: os.Stdout, TTY: os.Getenv("PLAIN") == "", Prompt: "> ",
		HistoryFile: os.Getenv("HISTORY"),
		Complete:    complete,
		Grace:       500 * time.Millisecond,
		QueueBytes:  atoi(os.Getenv("QUEUE")),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer ed.Close()
	for ev := range ed.Events() {
		switch ev.Kind {
		case repl.Line:
			if code := command(ed, ev.Text); code >= 0 {
				return code
			}
		case repl.Interrupt:
			ed.Print(fmt.Sprintf("interrupt %.20q", ev.Text))
			if os.Getenv("PUTBACK") != "" {
				ed.PutBack(ev)
			}
		case repl.EOF:
			ed.Print("eof")
			ed.Flush()
			return 0
		case repl.Hangup:
			if f := os.Getenv("MARK"); f != "" {
				_ = os.WriteFile(f, []byte("hangup"), 0o600)
			}
			return 7
		case repl.Signal:
			ed.Print("signal " + ev.Signal.String())
			if os.Getenv("IGNORE") != "" {
				continue
			}
			return 8
		}
	}
	return 4
}

// command obeys a line, or says what it was. It returns an exit code, or -1 to go on.
func command(ed *repl.Editor, line string) int {
	name, arg, _ := strings.Cut(line, " ")
	n := atoi(arg)
	switch name {
	case "/quit":
		return 3
	case "/later": // quits without a key press
		time.AfterFunc(100*time.Millisecond, func() {
			ed.Close()
		})
	case "/panic":
		go func() {
			defer ed.RestoreOnPanic()
			panic("forced")
		}()
		select {}
	case "/notice": // prints when the file arg appears
		go func() {
			for i := 0; ; i++ {
				if _, err := os.Stat(arg); err == nil {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			ed.Print("notice: 重新加载 guard.js\nsecond line")
		}()
	case "/ticks": // n lines, one after the other
		go func() {
			for i := range n {
				ed.Print(fmt.Sprintf("tick %d", i))
				time.Sleep(time.Millisecond)
			}
		}()
	case "/flood": // n MiB at once; says how long Print took
		line := strings.Repeat("x", 99) + "\n"
		began := time.Now()
		for range n * 1024 * 1024 / len(line) {
			ed.Print(line)
		}
		if d := time.Since(began); d > 2*time.Second {
			ed.Print(fmt.Sprintf("print took %v", d))
		}
		_ = os.WriteFile(os.Getenv("MARK"), nil, 0o600)
		ed.Print("flood over")
	case "/ask":
		go func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if arg == "withdraw" {
				time.AfterFunc(500*time.Millisecond, cancel)
			}
			answer, err := ed.Ask(ctx, "bash wants to run:\n  rm -r \x1b[2Jx\nAllow? [y/n/always]",
				func(s string) string {
					if slices.Contains([]string{"y", "n", "always"}, s) {
						return ""
					}
					return "y, n or always"
				})
			ed.Print(fmt.Sprintf("answer %q %v", answer, err))
		}()
	case "/asklater": // asks when the file arg appears
		go func() {
			for {
				if _, err := os.Stat(arg); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			answer, err := ed.Ask(context.Background(), "Sure?", func(s string) string {
				if s == "y" {
					return ""
				}
				return "y"
			})
			ed.Print(fmt.Sprintf("answer %q %v", answer, err))
		}()
	case "/evil":
		ed.Print(render.Visible("\x1b[2J\x1b]0;title\x07\x1b]52;c;aGk=\x07\x1b[6n\x1b[c\x1b[5n\u009b6n end"))
		ed.Print("careless \x1b[6n\x1b[c\x1b]52;c;aGk=\x07 end")
	case "/lend":
		err := ed.Lend(func() error {
			fmt.Print("child: ")
			s, err := bufio.NewReader(os.Stdin).ReadString('\n')
			fmt.Printf("child got %q\nno newline", s)
			return err
		})
		ed.Print(fmt.Sprintf("lent %v", err))
	case "/status":
		ed.SetStatus(arg)
	case "/prompt":
		ed.SetPrompt(arg + " ")
	default:
		if len(line) > 200 {
			ed.Print(fmt.Sprintf("got %d bytes %s", len(line), sum(line)))
		} else {
			ed.Print(`got "` + strings.NewReplacer("\n", `\n`, `\`, `\\`).Replace(line) + `"`)
		}
	}
	return -1
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return fmt.Sprintf("%x", h[:6])
}

func complete(line string, pos int) []repl.Candidate {
	from := strings.LastIndexByte(line[:pos], ' ') + 1
	var out []repl.Candidate
	for _, w := range []string{"/help", "/hello", "/history", "@世界.txt", "@世间.txt", "@odd\x1b[2Jname"} {
		if strings.HasPrefix(w, line[from:pos]) && from < pos {
			out = append(out, repl.Candidate{From: from, Text: w})
		}
	}
	return out
}

func tempFile(t *testing.T, name string) string { return filepath.Join(t.TempDir(), name) }
