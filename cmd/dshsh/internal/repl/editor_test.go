//go:build unix

package repl_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

func TestPartialOutputIsKept(t *testing.T) {
	term := start(t, 30, 10, "PARTIAL=1")
	if got := strings.Join(term.Screen(), "\n"); got != "partial\n>" {
		t.Errorf("screen:\n%s", got)
	}
}

func TestEditingKeys(t *testing.T) {
	term := start(t, 60, 10)
	for _, step := range []struct {
		keys, line string
		col        int
	}{
		{"one two 世界 three", "> one two 世界 three", 20},
		{repltest.WordLeft, "> one two 世界 three", 15},
		{repltest.WordLeft, "> one two 世界 three", 10},
		{"\x1bb", "> one two 世界 three", 6},
		{"\x1bf", "> one two 世界 three", 9},
		{repltest.WordRight, "> one two 世界 three", 14},
		{repltest.CtrlW, "> one two  three", 10},
		{repltest.CtrlY, "> one two 世界 three", 14},
		{repltest.CtrlK, "> one two 世界", 14},
		{repltest.CtrlA + repltest.CtrlY, ">  threeone two 世界", 8},
		{repltest.CtrlU, "> one two 世界", 2},
		{repltest.CtrlE + repltest.CtrlT, "> one two 界世", 14},
		{repltest.CtrlA + repltest.CtrlT, "> one two 界世", 2},
		{"\x1bd", ">  two 界世", 2},
		{repltest.CtrlD, "> two 界世", 2},
		{"\x1bOF" + "\x1b\x7f", "> two", 6},
		{repltest.Up + repltest.Down, "> two", 6},
		{"\x1b[99~\x1bx", "> two", 6}, // keys that mean nothing
		{"!", "> two !", 7},
	} {
		term.Type(step.keys)
		term.WaitLine(step.line, step.col)
	}
	term.Type(repltest.Enter)
	term.WaitFor(`got "two !"`)
}

func TestEOF(t *testing.T) {
	term := start(t, 40, 10)
	term.Type("x", repltest.CtrlD) // not on an empty line
	term.Type(repltest.Backspace)
	term.WaitLine(">", 2)
	term.Type(repltest.Enter, " ", repltest.Enter) // nothing to send
	term.WaitLine(">", 2)
	term.Type(repltest.CtrlD)
	if code := term.WaitExit(repltest.Deadline); code != 0 {
		t.Errorf("exit code %d", code)
	}
	term.WaitFor(">\neof"[2:])
	term.CheckSane()
}

func TestInterrupt(t *testing.T) {
	term := start(t, 40, 10)
	term.Type("half", repltest.CtrlC)
	term.WaitFor("> half^C\ninterrupt \"half\"")
	term.WaitLine(">", 2)
	term.Type(repltest.CtrlC)
	term.WaitFor(`interrupt ""`)
}

func TestAsk(t *testing.T) {
	t.Run("answer", func(t *testing.T) {
		term := start(t, 40, 16)
		term.Type("/ask", repltest.Enter)
		term.WaitFor("bash wants to run:\n  rm -r ^[[2Jx\nAllow? [y/n/always]")
		term.Type("maybe", repltest.Enter)
		term.WaitFor("that is no answer")
		term.Type("always", repltest.Enter)
		term.WaitFor("Allow? [y/n/always] always\nanswer \"always\" <nil>")
		term.WaitLine(">", 2)
	})
	t.Run("half typed", func(t *testing.T) {
		file := tempFile(t, "now")
		term := start(t, 70, 16)
		term.Type("/asklater "+file, repltest.Enter, repltest.CtrlL)
		term.WaitLine(">", 2)
		// Still typing when the question comes: what is typed is the line's.
		term.Type("delete")
		term.WaitLine("> delete", 8)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, c := range " y all" {
			term.Type(string(c))
			time.Sleep(30 * time.Millisecond) // as a person types
		}
		term.WaitLine("Sure?", 6)
		term.Type(repltest.CtrlW) // on an empty answer: nothing
		term.Type("y", repltest.Enter)
		term.WaitFor(`answer "y" <nil>`)
		term.WaitLine("> delete y all", 14)
		term.Type("!", repltest.Enter)
		term.WaitFor(`got "delete y all!"`)
	})
	t.Run("interrupted", func(t *testing.T) {
		term := start(t, 40, 16)
		term.Type("/ask", repltest.Enter)
		term.WaitFor("Allow?")
		term.Type("y", repltest.CtrlC)
		term.WaitFor(`answer "" interrupted`)
		term.WaitLine(">", 2)
		if strings.Contains(term.Raw(), "interrupt \"") {
			t.Error("the interrupt of a question was an event too")
		}
	})
	t.Run("withdrawn", func(t *testing.T) {
		term := start(t, 60, 16)
		term.Type("/ask withdraw", repltest.Enter)
		term.WaitFor("Allow?")
		term.WaitFor(`answer "" ask: context canceled`)
		term.WaitLine(">", 2)
	})
	t.Run("closed", func(t *testing.T) {
		term := start(t, 60, 16)
		term.Type("/later", repltest.Enter, "/ask", repltest.Enter)
		term.WaitExit(repltest.Deadline)
		term.CheckSane()
	})
}

func TestComplete(t *testing.T) {
	term := start(t, 40, 12)
	term.Type("/hi", repltest.Tab)
	term.WaitLine("> /history", 10)
	term.Type(repltest.CtrlU, "/h", repltest.Tab)
	term.WaitFor("> /h\n/help     /hello    /history")
	term.Type("e", repltest.Tab)
	term.WaitFor("> /hel\n/help   /hello")
	term.Type(repltest.Tab)
	term.WaitLine("> /help", 7)
	term.Type(repltest.Tab)
	term.WaitLine("> /hello", 8)
	term.Type(repltest.ShiftTab)
	term.WaitLine("> /help", 7)
	term.Type(" see @世", repltest.Tab)
	term.WaitFor("@世界.txt  @世间.txt")
	term.Type("间", repltest.Tab)
	term.WaitLine("> /help see @世间.txt", 21)
	if _, y := term.Cursor(); len(term.Screen()) != y+1 {
		t.Errorf("the list was left on the screen:\n%s", strings.Join(term.Screen(), "\n"))
	}
	term.Type(repltest.CtrlU, "@o", repltest.Tab)
	term.WaitFor("> @odd^[[2Jname")
}

func TestSearch(t *testing.T) {
	term := start(t, 40, 16)
	term.Type("first apple", repltest.Enter, "second pear", repltest.Enter, "third apple", repltest.Enter)
	term.WaitFor(`got "third apple"`)
	term.Type("draft", repltest.CtrlR, "app")
	term.WaitLine("> third apple", 8)
	term.WaitFor("search back: app")
	term.Type(repltest.CtrlR)
	term.WaitLine("> first apple", 8)
	term.Type("z")
	term.WaitFor("search back, not found: appz")
	term.Type(repltest.CtrlG)
	term.WaitLine("> draft", 7)
	term.Type(repltest.CtrlR, "pear", repltest.Enter)
	term.WaitUntil("second pear sent again", func() bool {
		return strings.Count(strings.Join(term.Screen(), "\n"), `got "second pear"`) == 2
	})
	// With nothing to find, nothing breaks.
	empty := start(t, 40, 16)
	empty.Type(repltest.CtrlR, repltest.CtrlC, repltest.CtrlR, "x", repltest.CtrlR, repltest.Backspace, repltest.Backspace, repltest.CtrlG, "ok", repltest.Enter)
	empty.WaitFor(`got "ok"`)
}

func TestLend(t *testing.T) {
	term := start(t, 60, 16)
	term.Type("/lend", repltest.Enter)
	term.WaitLine("child:", 7)
	term.Type("in cooked mode\n")
	term.WaitFor("child: in cooked mode\nchild got \"in cooked mode\\n\"\nno newline\nlent <nil>\n>")
	term.Type("works", repltest.Enter)
	term.WaitFor(`got "works"`)
}

func TestSuspendOfAnOrphanGoesOn(t *testing.T) {
	term := start(t, 40, 10)
	term.Type("a", repltest.CtrlZ)
	term.WaitUntil("the terminal to be put back for a moment", func() bool {
		return strings.Count(term.Raw(), "\x1b[?2004h") >= 2
	})
	term.Type("b", repltest.Enter)
	term.WaitFor(`got "ab"`)
}

func TestStatusAndPrompt(t *testing.T) {
	term := start(t, 30, 6)
	term.Type("/status 模型 deepseek | context 12% | generation 7", repltest.Enter)
	term.WaitUntil("a status line cut to the terminal", func() bool {
		s := term.Screen()
		return len(s) > 0 && s[len(s)-1] == "模型 deepseek | context 12%..."
	})
	term.Type("/prompt 世界$", repltest.Enter)
	term.WaitLine("世界$", 6)
	// A line taller than the terminal: the rows around the cursor are shown.
	term.Type(strings.Repeat("0123456789", 30))
	term.WaitUntil("a full screen", func() bool { return len(term.Screen()) >= 5 })
	term.Type(repltest.CtrlA)
	term.WaitLine("世界$ 012345678901234567890123", 6)
	term.Type("X", repltest.CtrlE, "Y", repltest.Enter)
	term.WaitFor("got 302 bytes")
}

func TestSlowTerminal(t *testing.T) {
	mark := tempFile(t, "mark")
	term := start(t, 100, 10, "MARK="+mark, "QUEUE=100000")
	term.Pause()
	term.Type("/flood 4", repltest.Enter)
	term.WaitUntil("end of the flood", func() bool {
		_, err := os.Stat(mark)
		return err == nil
	})
	term.Continue()
	term.WaitFor("flood over")
	if raw := term.Raw(); !strings.Contains(raw, "lines dropped: terminal too slow]") {
		t.Error("lines were dropped without a word, or the queue has no bound")
	} else if strings.Contains(raw, "print took") {
		t.Error("Print waited for the terminal")
	}
	term.WaitLine(">", 2)

	// A stuck terminal does not keep the program.
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	term.Pause()
	term.Type("/flood 4", repltest.Enter)
	term.WaitUntil("end of the flood", func() bool {
		_, err := os.Stat(mark)
		return err == nil
	})
	began := time.Now()
	term.Type("/quit", repltest.Enter)
	term.WaitExit(repltest.Deadline)
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
	if !term.Stty()["icanon"] {
		t.Error("the terminal was not restored")
	}
}

func TestDumbTerminal(t *testing.T) {
	cmd := startDumb(t)
	cmd.Type("hello\n")
	cmd.WaitFor(`got "hello"`)
	cmd.Type("/ask\n")
	cmd.WaitFor("Allow? [y/n/always]")
	cmd.Type("what\n")
	cmd.WaitFor("that is no answer")
	cmd.Type("y\n")
	cmd.WaitFor(`answer "y" <nil>`)
	cmd.Type(repltest.CtrlC)
	cmd.WaitFor(`interrupt ""`)
	cmd.Type(repltest.CtrlD)
	if code := cmd.WaitExit(repltest.Deadline); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(cmd.Raw(), "\x1b") {
		t.Errorf("escape codes on a dumb terminal: %q", cmd.Raw())
	}
}
