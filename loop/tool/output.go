package tool

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Limits bound a tool's output. A zero field is its default.
type Limits struct {
	Bytes     int   // of the text, marks included; default 32 KiB, at least 1 KiB
	LineBytes int   // of one line; default 2 KiB, at most a quarter of Bytes
	FileBytes int64 // of the file that keeps the whole; default 64 MiB
}

// WithDefaults returns the limits with each zero field filled in and the others made sane.
func (l Limits) WithDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 32 << 10
	}
	l.Bytes = max(l.Bytes, 1<<10)
	if l.LineBytes <= 0 {
		l.LineBytes = 2 << 10
	}
	l.LineBytes = min(l.LineBytes, l.Bytes/4)
	if l.FileBytes <= 0 {
		l.FileBytes = 64 << 20
	}
	return l
}

// Bounded is what became of an output. Plain data.
type Bounded struct {
	Text      string // valid UTF-8, within the limits
	Truncated bool   // something was cut
	Bytes     int64  // of the whole output
	Lines     int64  // of the whole output; one that does not end counts
	Path      string // the file that holds the whole, when something was cut; "" for none
}

// OpenFile makes the file for a whole output and says where it is. It is called once
// at most, and only when something has to be cut.
type OpenFile func() (file io.WriteCloser, path string, err error)

// Output collects the output of a tool and keeps what a result has room for: the first
// and the last lines, with a mark between them that says what was cut and where
// the whole is. Memory is bounded however much is written; the whole goes to a file.
// Its methods are guarded by one lock and may be called from any goroutine.
type Output struct {
	limits Limits
	open   OpenFile

	mu       sync.Mutex // guards what follows
	head     []byte     // the first bytes, up to keep
	tail     []byte     // the last bytes behind head: keep of them, or more for a while
	keep     int
	total    int64
	newlines int64
	last     byte // the last byte written
	file     io.WriteCloser
	path     string
	saved    int64
	fileErr  error
	tried    bool // open was called
	done     *Bounded
}

// NewOutput returns an empty output. open may be nil: what is cut is then lost.
func NewOutput(limits Limits, open OpenFile) *Output {
	limits = limits.WithDefaults()
	// Four times what will be shown: enough to find the ends of long lines in.
	return &Output{limits: limits, open: open, keep: 4 * limits.Bytes}
}

// Output returns an empty output that keeps what it has to cut in x.FilesDir.
func (x *Exec) Output(limits Limits) *Output {
	return NewOutput(limits, SpillFile(x.FilesDir, x.CallID))
}

// Bound bounds an output that is already there; see [Output].
func Bound(whole []byte, limits Limits, open OpenFile) Bounded {
	o := NewOutput(limits, open)
	o.Write(whole)
	return o.Finish()
}

// Write takes a piece of output. It never fails: a full disk costs only what the text has
// no room for. After Finish it drops what it is given.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done != nil || len(p) == 0 {
		return len(p), nil
	}
	o.total += int64(len(p))
	o.newlines += int64(bytes.Count(p, []byte{'\n'}))
	o.last = p[len(p)-1]

	if o.total > int64(2*o.keep) {
		// Memory is about to let go of something.
		o.save(p)
	}
	n := min(len(p), o.keep-len(o.head))
	o.head = append(o.head, p[:n]...)
	o.tail = append(o.tail, p[n:]...)
	if len(o.tail) > 2*o.keep {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-o.keep:]...)
	}
	return len(p), nil
}

// save appends p to the file; the first call makes it and puts what memory holds in
// front.
func (o *Output) save(p []byte) {
	if !o.tried {
		o.tried = true
		if o.open == nil {
			return
		}
		o.file, o.path, o.fileErr = o.open()
		if o.fileErr != nil {
			o.file, o.path = nil, ""
			return
		}
		o.append(o.head)
		o.append(o.tail)
	}
	o.append(p)
}

func (o *Output) append(p []byte) {
	if o.file == nil || o.fileErr != nil {
		return
	}
	p = p[:min(int64(len(p)), o.limits.FileBytes-o.saved)]
	n, err := o.file.Write(p)
	o.saved += int64(n)
	o.fileErr = err
}

// Finish closes the file, if there is one, and returns what is kept. Later calls return
// the same.
func (o *Output) Finish() Bounded {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done != nil {
		return *o.done
	}
	lines := o.newlines
	if o.total > 0 && o.last != '\n' {
		lines++
	}
	b := Bounded{Bytes: o.total, Lines: lines}

	v := o.view()
	budget := o.limits.Bytes - markRoom
	head, from, cutInHead := v.fromStart(budget/2, o.limits.LineBytes)
	tail, to, cutInTail := v.fromEnd(from, budget-len(head), o.limits.LineBytes)
	b.Truncated = cutInHead || cutInTail || to > from
	if b.Truncated {
		o.save(nil)
		b.Path = o.path
	}
	if o.file != nil {
		if err := o.file.Close(); err != nil && o.fileErr == nil {
			o.fileErr = err
		}
	}
	mark := ""
	if to > from {
		cut := o.newlines - v.newlines(0, from) - v.newlines(to, o.total)
		mark = fmt.Sprintf("[... %d bytes, %d lines cut here; %s ...]\n", to-from, cut, o.where())
		if head != "" && !strings.HasSuffix(head, "\n") {
			mark = "\n" + mark
		}
	} else if b.Truncated {
		// Only within lines, where the marks say how much but have no room to say where.
		mark = fmt.Sprintf("[lines of more than %d bytes were cut; %s]\n", o.limits.LineBytes, o.where())
		head, tail = head+tail, ""
		if !strings.HasSuffix(head, "\n") {
			mark = "\n" + mark
		}
	}
	b.Text = head + mark + tail
	o.done = &b
	o.head, o.tail, o.file = nil, nil, nil
	return b
}

// where says where the whole output is.
func (o *Output) where() string {
	switch {
	case o.path == "" && o.fileErr != nil:
		return cutMessage(fmt.Sprintf("the whole could not be saved: %v", o.fileErr), 300)
	case o.path == "":
		return "the whole was not kept"
	case o.fileErr != nil:
		return cutMessage(fmt.Sprintf("the first %d bytes are in %s, the rest could not be saved: %v", o.saved, o.path, o.fileErr), 600)
	case o.saved < o.total:
		return fmt.Sprintf("the first %d bytes are in %s", o.saved, o.path)
	}
	return "the whole is in " + o.path
}

// markRoom is what the mark may take of the text; a longer path makes it more.
const markRoom = 256

// view is the part of an output that memory still has: its first bytes, and its last,
// which begin at tailAt. When nothing was let go of, tailAt is len(head).
type view struct {
	head, tail []byte
	tailAt     int64
	total      int64
}

func (o *Output) view() view {
	return view{head: o.head, tail: o.tail, tailAt: o.total - int64(len(o.tail)), total: o.total}
}

// whole reports whether nothing is missing between head and tail.
func (v view) whole() bool { return v.tailAt == int64(len(v.head)) }

// newlines counts those in [from, to), which must be within head and tail.
func (v view) newlines(from, to int64) int64 {
	n := int64(0)
	if from < int64(len(v.head)) {
		n += int64(bytes.Count(v.head[from:min(to, int64(len(v.head)))], []byte{'\n'}))
	}
	if to > v.tailAt {
		n += int64(bytes.Count(v.tail[max(from-v.tailAt, 0):to-v.tailAt], []byte{'\n'}))
	}
	return n
}

// fromStart renders whole lines from the start while they fit into budget. It returns
// the text, the offset behind the last line rendered, and whether a line was cut.
func (v view) fromStart(budget, lineBytes int) (text string, end int64, cut bool) {
	src := v.head
	if v.whole() {
		src = append(append([]byte(nil), v.head...), v.tail...)
	}
	var b strings.Builder
	for int(end) < len(src) {
		line, complete := src[end:], v.whole()
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line, complete = line[:i+1], true
		}
		if !complete {
			// Where this line ends is not known: show its start and let the mark count the rest.
			line = alignEnd(line, lineBytes)
			s := clean(line)
			if b.Len()+len(s) <= budget {
				b.WriteString(s)
				end += int64(len(line))
			}
			break
		}
		s, c := CutLine(line, lineBytes)
		if b.Len()+len(s) > budget {
			break
		}
		b.WriteString(s)
		end += int64(len(line))
		cut = cut || c
	}
	return b.String(), end, cut
}

// fromEnd renders whole lines from the end while they fit into budget, but none before
// the offset floor. It returns the text, the offset where it begins, and whether a line
// was cut.
func (v view) fromEnd(floor int64, budget, lineBytes int) (text string, start int64, cut bool) {
	src, at := v.tail, v.tailAt
	if v.whole() {
		src, at = append(append([]byte(nil), v.head...), v.tail...), 0
	}
	if floor > at {
		src, at = src[floor-at:], floor
	}
	var lines []string
	size, end := 0, len(src)
	for end > 0 {
		i := bytes.LastIndexByte(src[:end-1], '\n') + 1
		if i == 0 && at > floor {
			// Where this line begins is not known: show its end.
			line := alignStart(src[:end], lineBytes)
			if s := clean(line); size+len(s) <= budget {
				lines = append(lines, s)
				end -= len(line)
			}
			break
		}
		s, c := CutLine(src[i:end], lineBytes)
		if size+len(s) > budget {
			break
		}
		lines = append(lines, s)
		size += len(s)
		cut = cut || c
		end = i
	}
	var b strings.Builder
	for i := len(lines) - 1; i >= 0; i-- {
		b.WriteString(lines[i])
	}
	return b.String(), at + int64(end), cut
}

// CutLine makes valid UTF-8 of a line and cuts it to about limit bytes: its start and its end
// stay, with a mark between them. It reports whether it cut.
func CutLine(line []byte, limit int) (string, bool) {
	if len(line) <= limit {
		if s := clean(line); len(s) <= limit || len(s) <= len(line) {
			return s, false
		}
	}
	// Text that is no UTF-8 may double when it is cleaned, so half of it is kept.
	if !utf8.Valid(line) {
		limit /= 2
		if len(line) <= limit {
			return clean(line), false
		}
	}
	start := alignEnd(line, limit*3/4)
	end := alignStart(line[len(start):], limit/4)
	return fmt.Sprintf("%s[... %d bytes cut ...]%s", clean(start), len(line)-len(start)-len(end), clean(end)), true
}

// alignEnd returns the first n bytes of p, less a character cut in two at the end.
func alignEnd(p []byte, n int) []byte {
	if len(p) <= n {
		return p
	}
	for i := n; i > n-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(p[i]) {
			return p[:i]
		}
	}
	return p[:n]
}

// alignStart returns the last n bytes of p, less a character cut in two at the start.
func alignStart(p []byte, n int) []byte {
	if len(p) <= n {
		return p
	}
	for i := len(p) - n; i < len(p) && i < len(p)-n+utf8.UTFMax; i++ {
		if utf8.RuneStart(p[i]) {
			return p[i:]
		}
	}
	return p[len(p)-n:]
}

// clean replaces what is no UTF-8: a log that is JSON, and providers, take nothing else.
func clean(p []byte) string {
	return strings.ToValidUTF8(string(p), "\uFFFD")
}
