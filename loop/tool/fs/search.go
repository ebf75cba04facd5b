package fs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"dshsh/loop/tool"
)

const (
	// matchLine is how much of a line is shown.
	matchLine = 500
	// searchLine is how much of one line is searched.
	searchLine = 16 << 20
)

// search is one grep: what it looks for, and what it has found. One goroutine uses it.
type search struct {
	a     GrepArgs
	re    *regexp.Regexp
	out   *tool.Output
	limit int

	matches []GrepMatch
	lines   int  // that match
	files   int  // with such lines
	full    bool // the limit was reached
	cut     bool // within lines
	groups  bool // something was shown, so that the next group needs a mark before it

	line []byte // the line being read, kept for its memory
}

// file searches one file. Memory is bounded by the longest line, and that by searchLine.
// errEnough says that nothing more is to be searched.
func (s *search) file(ctx context.Context, path string, file io.Reader) (binary bool, err error) {
	r := bufio.NewReaderSize(file, 64<<10)
	start, err := r.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if isBinary(start) || isUTF16(start) {
		return true, nil
	}
	if bytes.HasPrefix(start, bomUTF8) {
		r.Discard(len(bomUTF8)) // is there
	}
	v := fileView{s: s, path: path, shown: shownName(path)}
	for {
		line, whole, err := s.next(r)
		if len(line) == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return false, err
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if s.full && v.after == 0 {
			return false, errEnough
		}
		v.take(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")))
		s.cut = s.cut || !whole
		if s.a.Files && v.found {
			return false, s.enough()
		}
	}
}

func (s *search) enough() error {
	if s.full {
		return errEnough
	}
	return nil
}

// next reads a line: up to searchLine of it, the rest is skipped.
func (s *search) next(r *bufio.Reader) (line []byte, whole bool, err error) {
	s.line, whole = s.line[:0], true
	for {
		part, err := r.ReadSlice('\n')
		n := min(len(part), searchLine-len(s.line))
		s.line = append(s.line, part[:n]...)
		whole = whole && n == len(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return s.line, whole, err
		}
	}
}

// fileView is the search of one file. One goroutine uses it.
type fileView struct {
	s           *search
	path, shown string
	number      int64    // of the line taken last
	before      []string // lines that may become the context of a match
	after       int      // how many lines after a match are still to be shown
	last        int64    // the line shown last; 0 for none
	found       bool
}

func (v *fileView) take(line []byte) {
	s := v.s
	v.number++
	at := []int(nil)
	if !s.full {
		at = s.re.FindIndex(line)
	}
	switch {
	case at == nil && v.after > 0:
		v.after--
		v.show('-', v.number, s.around(line, 0, 0))
	case at == nil:
		if s.a.Context > 0 && !s.full {
			if len(v.before) == s.a.Context {
				v.before = append(v.before[:0], v.before[1:]...)
			}
			v.before = append(v.before, s.around(line, 0, 0))
		}
	default:
		v.match(line, at)
	}
}

func (v *fileView) match(line []byte, at []int) {
	s := v.s
	s.lines++
	if !v.found {
		v.found = true
		s.files++
	}
	if s.a.Files {
		s.matches = append(s.matches, GrepMatch{Path: v.path})
		fmt.Fprintln(s.out, v.shown)
		s.full = s.files >= s.limit
		return
	}
	first := v.number - int64(len(v.before))
	if s.a.Context > 0 && s.groups && (v.last == 0 || first > v.last+1) {
		fmt.Fprintln(s.out, "--")
	}
	s.groups = true
	for i, text := range v.before {
		v.show('-', first+int64(i), text)
	}
	v.before = v.before[:0]
	text := s.around(line, at[0], at[1])
	v.show(':', v.number, text)
	v.after = s.a.Context
	s.matches = append(s.matches, GrepMatch{Path: v.path, Line: v.number, Text: text})
	s.full = s.lines >= s.limit
}

func (v *fileView) show(mark byte, number int64, text string) {
	fmt.Fprintf(v.s.out, "%s%c%d%c%s\n", v.shown, mark, number, mark, text)
	v.last = number
}

// around makes valid UTF-8 of a line and cuts it to about matchLine bytes, so that the
// bytes [from, to) stay, or their beginning.
func (s *search) around(line []byte, from, to int) string {
	if len(line) <= matchLine {
		return strings.ToValidUTF8(string(line), replacement)
	}
	s.cut = true
	room := max(matchLine-(to-from), 0)
	start := max(from-room/2, 0)
	end := min(start+matchLine, len(line))
	start = max(end-matchLine, 0)
	for start > 0 && start < end && !utf8.RuneStart(line[start]) {
		start++
	}
	for end < len(line) && end > start && !utf8.RuneStart(line[end]) {
		end--
	}
	var b strings.Builder
	if start > 0 {
		fmt.Fprintf(&b, "[... %d bytes cut ...]", start)
	}
	b.WriteString(strings.ToValidUTF8(string(line[start:end]), replacement))
	if end < len(line) {
		fmt.Fprintf(&b, "[... %d bytes cut ...]", len(line)-end)
	}
	return b.String()
}
