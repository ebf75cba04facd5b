package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// The event stream is read by hand, because general readers such as
// github.com/tmaxmax/go-sse (v0.12.0) hide what a caller must know here: an event that
// the end of the stream cuts off is dropped and passes for a normal end, so that a reply
// that ended early cannot be told from a whole one, and the last frame of a server that
// leaves out the blank line is lost. Its scanner also starts over at the beginning of
// the event with every read, which makes a line of many megabytes quadratic.

// maxEvent bounds one event, in bytes. It is far above what a model can write in one
// reply and far below what hurts.
const maxEvent = 64 << 20

// Event is one event of the stream.
type Event struct {
	// Type is the event field; empty when there was none.
	Type string
	// Data is the data lines, joined by newlines. It is valid until the next call.
	Data []byte
	// Cut says that the stream ended before the blank line that ends the event. Then
	// the last line may be cut off, too.
	Cut bool
}

// Events reads a text/event-stream: LF, CRLF and CR as line ends, also mixed and split
// over reads, a byte order mark, comments and unknown fields, lines of up to 64 MiB. It
// is used on one goroutine.
type Events struct {
	src    io.Reader
	buf    []byte // buf[r:w] is read and not yet taken
	r, w   int
	clean  int   // bytes of buf[r:w] that hold no line end
	skipLF bool  // the last line ended in CR: a LF that follows belongs to it
	began  bool  // the byte order mark, if any, is behind us
	err    error // what ended src, sticky
	data   []byte
	limit  int
}

// NewEvents returns a reader of the events of src.
func NewEvents(src io.Reader) *Events {
	return &Events{src: src, buf: make([]byte, 16<<10), limit: maxEvent}
}

// Next returns the next event that carries data or a type. After the last it returns
// io.EOF when src ended cleanly, else the error of src. An event that the end of src cut
// off is returned first, marked as Cut.
func (e *Events) Next() (Event, error) {
	var ev Event
	e.data = e.data[:0]
	lines := 0
	for {
		line, err := e.line()
		if err != nil && len(line) == 0 {
			if lines == 0 {
				return Event{}, err
			}
			ev.Data, ev.Cut = e.data, true
			return ev, nil
		}
		if len(line) == 0 {
			if lines == 0 && ev.Type == "" {
				continue
			}
			ev.Data = e.data
			return ev, nil
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(name) {
		case "data":
			if lines > 0 {
				e.data = append(e.data, '\n')
			}
			if len(e.data)+len(value) > e.limit {
				return Event{}, e.tooLong()
			}
			e.data = append(e.data, value...)
			lines++
		case "event":
			ev.Type = string(value)
		}
	}
}

// line returns the next line without its end. At the end of src it returns what is left
// of a line that was never ended, with the error.
func (e *Events) line() ([]byte, error) {
	for {
		pending := e.buf[e.r:e.w]
		if e.skipLF && len(pending) > 0 {
			e.skipLF = false
			if pending[0] == '\n' {
				e.r++
				continue
			}
		}
		if !e.began && (len(pending) >= 3 || e.err != nil) {
			e.began = true
			if bytes.HasPrefix(pending, []byte("\xEF\xBB\xBF")) {
				e.r += 3
				continue
			}
		}
		// Only what came with the last read is searched, so a long line costs its length.
		fresh := pending[min(e.clean, len(pending)):]
		if i := lineEnd(fresh); i >= 0 {
			end := len(pending) - len(fresh) + i
			e.skipLF = pending[end] == '\r'
			e.r += end + 1
			e.clean = 0
			return pending[:end], nil
		}
		e.clean = len(pending)
		if e.err != nil {
			e.r, e.clean = e.w, 0
			return pending, e.err
		}
		if len(pending) > e.limit {
			return nil, e.tooLong()
		}
		e.fill()
	}
}

// lineEnd returns the index of the first CR or LF in b, or -1.
func lineEnd(b []byte) int {
	i := bytes.IndexByte(b, '\n')
	if i >= 0 {
		b = b[:i]
	}
	if j := bytes.IndexByte(b, '\r'); j >= 0 {
		return j
	}
	return i
}

// fill reads once, making room first.
func (e *Events) fill() {
	if e.r > 0 {
		e.w = copy(e.buf, e.buf[e.r:e.w])
		e.r = 0
	}
	if e.w == len(e.buf) {
		bigger := make([]byte, 2*len(e.buf))
		copy(bigger, e.buf)
		e.buf = bigger
	}
	for range 100 {
		n, err := e.src.Read(e.buf[e.w:])
		e.w += n
		if err != nil {
			e.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	e.err = io.ErrNoProgress
}

// ErrTooLong is wrapped by the error for an event that is longer than can be taken.
var ErrTooLong = errors.New("an event of the stream is too long")

func (e *Events) tooLong() error {
	e.err = fmt.Errorf("%w: more than %d bytes", ErrTooLong, e.limit)
	e.r = e.w
	return e.err
}

// Peek returns the first byte of the stream that is neither blank nor part of a byte
// order mark, without taking it; it may be called before the first Next only. The error
// is that of src.
func (e *Events) Peek() (byte, error) {
	i := 0
	for {
		for ; i < e.w; i++ {
			switch c := e.buf[i]; c {
			case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF:
			default:
				return c, nil
			}
		}
		if e.err != nil {
			return 0, e.err
		}
		if e.w > e.limit {
			return 0, e.tooLong()
		}
		e.fill()
	}
}

// Rest returns a reader of everything that was not taken yet, for a body that turned out
// to be no event stream. The Events is not to be used after it.
func (e *Events) Rest() io.Reader {
	head := bytes.NewReader(e.buf[e.r:e.w])
	if e.err != nil {
		return io.MultiReader(head, failing{e.err})
	}
	return io.MultiReader(head, e.src)
}

// failing is a reader at its end.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
