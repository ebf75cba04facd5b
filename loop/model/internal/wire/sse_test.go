package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// events renders what a reader yields: "type|data" with a + when cut, then the error.
func events(src io.Reader) string {
	e := NewEvents(src)
	var out []string
	for {
		ev, err := e.Next()
		if err != nil {
			return strings.Join(append(out, err.Error()), "\n")
		}
		s := ev.Type + "|" + string(ev.Data)
		if ev.Cut {
			s += "+"
		}
		out = append(out, s)
	}
}

var eventTable = []struct{ name, in, want string }{
	{"one", "data: a\n\n", "|a\nEOF"},
	{"no space", "data:a\n\ndata:  b\n\n", "|a\n| b\nEOF"},
	{"R068 CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", "|a\n|b\nEOF"},
	{"R068 CR", "data: a\r\rdata: b\r\r", "|a\n|b\nEOF"},
	{"R068 mixed", "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", "|a\n|b\n|c\nEOF"},
	{"R068 U+2028 is no line end", "data: a\u2028b\u0085c\n\n", "|a\u2028b\u0085c\nEOF"},
	{"R066 comments", ": keep-alive\n\n:\n\ndata: a\n: in between\ndata: b\n\n: end\n\n", "|a\nb\nEOF"},
	{"R086 blank lines", strings.Repeat("\n", 5000) + "data: a\n\n\n\n\r\n", "|a\nEOF"},
	{"type", "event: error\ndata: a\n\nevent: ping\n\n", "error|a\nping|\nEOF"},
	{"other fields", "id: 1\nretry: 5\ndata: a\nwhatever: x\ndata\n\n", "|a\n\nEOF"},
	{"byte order mark", "\xEF\xBB\xBFdata: a\n\n", "|a\nEOF"},
	{"a colon in the data", "data: {\"a\":1}\n\n", "|{\"a\":1}\nEOF"},
	{"empty data", "data:\n\n", "|\nEOF"},
	{"nothing", "", "EOF"},
	{"only blank", "\n\n", "EOF"},
	{"cut behind the line", "data: a\n\ndata: b\n", "|a\n|b+\nEOF"},
	{"cut in the line", "data: a\n\ndata: b", "|a\n|b+\nEOF"},
	{"cut in the field name", "data: a\n\nda", "|a\nEOF"},
	{"cut behind a comment", "data: a\n\n: x", "|a\nEOF"},
	{"a short stream that looks like a mark", "\xEF", "EOF"},
}

func TestEvents(t *testing.T) {
	for _, tc := range eventTable {
		t.Run(tc.name, func(t *testing.T) {
			for how, src := range map[string]io.Reader{
				"at once":       strings.NewReader(tc.in),
				"byte by byte":  iotest.OneByteReader(strings.NewReader(tc.in)),
				"halves":        iotest.HalfReader(strings.NewReader(tc.in)),
				"end with data": iotest.DataErrReader(strings.NewReader(tc.in)),
			} {
				if got := events(src); got != tc.want {
					t.Errorf("%s:\n got %q\nwant %q", how, got, tc.want)
				}
			}
		})
	}
}

func TestEvents_BrokenLink(t *testing.T) {
	broken := errors.New("connection reset")
	src := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken))
	if got, want := events(src), "|a\n|b+\nconnection reset"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestR070_LongLines(t *testing.T) {
	for _, n := range []int{70 << 10, 1 << 20, 6 << 20} {
		long := strings.Repeat("x", n)
		got := events(strings.NewReader("data: a\n\ndata: " + long + "\r\n\r\ndata: b\n\n"))
		if got != "|a\n|"+long+"\n|b\nEOF" {
			t.Errorf("%d bytes: got %d", n, len(got))
		}
	}
}

func TestR070_TooLongIsAnError(t *testing.T) {
	for name, in := range map[string]string{
		"one line":   "data: " + strings.Repeat("x", 100),
		"many lines": strings.Repeat("data: xxxx\n", 20),
	} {
		e := NewEvents(strings.NewReader(in + "\n\ndata: next\n\n"))
		e.limit = 50
		for i := range 2 {
			// Twice: the error sticks, so that nobody takes the next event for a whole reply.
			if _, err := e.Next(); !errors.Is(err, ErrTooLong) && i == 0 || err == nil {
				t.Errorf("%s, call %d: %v", name, i+1, err)
			}
		}
	}
}

func TestEvents_NoProgress(t *testing.T) {
	if got := events(noProgress{}); got != io.ErrNoProgress.Error() {
		t.Errorf("got %q", got)
	}
}

type noProgress struct{}

func (noProgress) Read([]byte) (int, error) { return 0, nil }

func TestPeekAndRest(t *testing.T) {
	in := strings.Repeat("\n", 40000) + " {\"a\":1}"
	e := NewEvents(iotest.HalfReader(strings.NewReader(in)))
	if c, err := e.Peek(); c != '{' || err != nil {
		t.Fatalf("got %q, %v", c, err)
	}
	rest, err := io.ReadAll(e.Rest())
	if err != nil || string(bytes.TrimSpace(rest)) != `{"a":1}` {
		t.Errorf("rest %q, %v", rest, err)
	}

	e = NewEvents(strings.NewReader("\n\ndata: a\n\n"))
	if c, _ := e.Peek(); c != 'd' {
		t.Errorf("got %q", c)
	}
	if ev, err := e.Next(); err != nil || string(ev.Data) != "a" {
		t.Errorf("after a peek: %q, %v", ev.Data, err)
	}
	if _, err := NewEvents(strings.NewReader(" \n")).Peek(); err != io.EOF {
		t.Errorf("nothing there: %v", err)
	}
}

// FuzzEvents holds the reader to: however the bytes are cut into reads, the events are
// the same.
func FuzzEvents(f *testing.F) {
	for _, tc := range eventTable {
		f.Add([]byte(tc.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole := events(bytes.NewReader(in))
		if bytewise := events(iotest.OneByteReader(bytes.NewReader(in))); whole != bytewise {
			t.Errorf("at once %q\nbytewise %q", whole, bytewise)
		}
	})
}

func BenchmarkEvents(b *testing.B) {
	for _, n := range []int{1, 250, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			frame := []byte("data: " + strings.Repeat("x", n) + "\n\n")
			stream := bytes.Repeat(frame, max(1, 1<<20/len(frame)))
			src := bytes.NewReader(stream)
			e := NewEvents(src)
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Next(); err != nil {
					src.Reset(stream)
					e.err = nil
				}
			}
		})
	}
}
