//go:build unix

package repl_test

import (
	"strings"
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

func TestR051_WideCursor(t *testing.T) {
	term := start(t, 20, 10)
	term.Type("你好世界")
	term.WaitLine("> 你好世界", 10)
	term.Type(repltest.Left)
	term.WaitLine("> 你好世界", 8)
	term.Type(repltest.Left)
	term.WaitLine("> 你好世界", 6)
	term.Type(repltest.Backspace)
	term.WaitLine("> 你世界", 4)
	term.Type(repltest.Home)
	term.WaitLine("> 你世界", 2)
	term.Type("z")
	term.WaitLine("> z你世界", 3)
	term.Type(repltest.Enter)
	term.WaitFor(`got "z你世界"`)
	term.WaitLine(">", 2)

	// Wrapped: the ninth character does not fit in the row and stands in the next, whole.
	term.Type(strings.Repeat("界", 10), repltest.Left)
	term.WaitLine("界", 0)
	if _, y := term.Cursor(); term.Row(y-1) != "> "+strings.Repeat("界", 9) {
		t.Errorf("first row is %q", term.Row(y-1))
	}
	term.Type(repltest.Left)
	term.WaitLine("> "+strings.Repeat("界", 9), 18)
	term.Type(repltest.Home, "a") // pushes the last one of the row over the edge
	term.WaitLine("> a"+strings.Repeat("界", 8), 3)
	term.Type(repltest.End)
	term.WaitLine("界界", 4)
	term.Type(repltest.Enter)
	term.WaitFor(`got "a` + strings.Repeat("界", 6))
}

func TestR052_WideBetweenLetters(t *testing.T) {
	term := start(t, 40, 10)
	term.Type("bb", repltest.Left)
	term.WaitLine("> bb", 3)
	term.Type("中")
	term.WaitLine("> b中b", 5)
	term.Type(repltest.Enter)
	term.WaitFor(`got "b中b"`)
	if got := term.Screen()[0]; got != "> b中b" {
		t.Errorf("the line that was sent stays as %q", got)
	}
}

func TestR053_Clusters(t *testing.T) {
	const family, acute, flag = "👨‍👩‍👧", "e\u0301", "🇩🇪"
	history := tempFile(t, "history")
	term := start(t, 40, 10, "HISTORY="+history)
	term.Type("x", family, acute, flag)
	term.WaitLine("> x"+family+acute+flag, 8)
	term.Type(repltest.Backspace)
	term.WaitLine("> x"+family+acute, 6)
	term.Type(repltest.Backspace)
	term.WaitLine("> x"+family, 5)
	term.Type(repltest.Backspace)
	term.WaitLine("> x", 3)
	term.Type(repltest.Backspace)
	term.WaitLine(">", 2)

	term.Type(family, acute, flag, repltest.Left, repltest.Left)
	term.WaitLine("> "+family+acute+flag, 4)
	term.Type(repltest.Delete) // the accented e, whole
	term.WaitLine("> "+family+flag, 4)
	term.Type(repltest.Left, repltest.Right, "-", repltest.Enter)
	term.WaitFor("got \"" + family + "-" + flag + "\"")
	term.Type("/quit", repltest.Enter)
	term.WaitExit(repltest.Deadline)

	term = start(t, 40, 10, "HISTORY="+history)
	term.Type(repltest.Up, repltest.Up)
	term.WaitLine("> "+family+"-"+flag, 7)
	term.Type(repltest.Backspace, repltest.Enter)
	term.WaitFor("got \"" + family + "-\"")
}

func TestR062_Resize(t *testing.T) {
	term := start(t, 80, 24)
	term.Type("/ticks 40", repltest.Enter)
	term.WaitFor("tick 10")
	term.Resize(40, 24)
	term.WaitFor("tick 39")
	text := strings.Repeat("0123456789", 6)
	term.Type(text)
	term.WaitLine(text[38:], 22)
	_, y := term.Cursor()
	if got := term.Row(y - 1); got != "> "+text[:38] {
		t.Errorf("first row is %q", got)
	}
	for i := len(text) - 1; i >= 0; i-- {
		term.Type(repltest.Left)
		col, row := (i+2)%40, y-1+(i+2)/40
		term.WaitUntil("caret", func() bool {
			x, r := term.Cursor()
			return x == col && r == row
		})
	}
	term.Type("X", repltest.Enter)
	term.WaitFor(`got "X0123456789`)
	if n := strings.Count(strings.Join(term.Screen(), "\n"), "> X012"); n != 1 {
		t.Errorf("the line stands on the screen %d times", n)
	}

	// Half typed, and wider again.
	term.Type("abc")
	term.WaitLine("> abc", 5)
	term.Resize(60, 24)
	term.Type("def")
	term.WaitLine("> abcdef", 8)
}
