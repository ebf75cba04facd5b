package main_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// TestReadmeSession types the session of the README and finds its lines on the screen, in
// their order.
func TestReadmeSession(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(console|lua)\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	s := opened(t, place{rows: 100, cols: 120})
	seen, typed, answered := 0, 0, 0
	for _, b := range blocks {
		if b[1] == "lua" {
			s.write(".dshsh/scripts/guard.lua", b[2])
			continue
		}
		for line := range strings.Lines(b[2]) {
			line = strings.TrimRight(line, "\n")
			switch input, prompt := strings.CutPrefix(line, "> "); {
			case line == "$ dshsh":
			case prompt:
				s.ready()
				seen = len(s.text()) - 1
				s.enter(input)
				typed++
			case strings.Contains(line, "? y / "):
				at := strings.LastIndexByte(line, ' ')
				s.after(&seen, line[:at])
				s.Type(line[at+1:], repltest.Enter)
				answered++
			default:
				s.after(&seen, line)
			}
		}
	}
	if typed < 3 || answered < 3 {
		t.Errorf("%d lines and %d answers were found in the README", typed, answered)
	}
	s.quit()
}

// after waits until a line that begins so is on the screen behind what has been seen. Times
// are not compared.
func (s *shell) after(seen *int, line string) {
	s.t.Helper()
	rx := regexp.MustCompile(`(?m)^` + regexp.MustCompile(`\d+ ms`).ReplaceAllString(regexp.QuoteMeta(line), `\d+ ms`))
	s.WaitUntil(line, func() bool {
		text := s.text()
		from := min(*seen, len(text))
		at := rx.FindStringIndex(text[from:])
		if at == nil {
			return false
		}
		*seen = from + at[1]
		return true
	})
}
