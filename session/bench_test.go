//go:build linux || darwin

package session_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"dshsh/session"
)

// chunk is what most of a log is made of.
const chunk = `{"turn":12,"step":3,"chunk":{"type":"text-delta","index":0,"text":"and then the "}}`

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{0, 4 << 10} {
		data := json.RawMessage(chunk)
		if size > 0 {
			data = json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", size)))
		}
		run := func(name string, open func(b *testing.B) *session.Log, each func(l *session.Log) error) {
			b.Run(fmt.Sprintf("%s/%dB", name, len(data)), func(b *testing.B) {
				l := open(b)
				b.ReportAllocs()
				defer cpu(b)()
				for b.Loop() {
					if _, err := l.Append(session.Entry{Type: "assistant/chunk", Data: data}); err != nil {
						b.Fatal(err)
					}
					if each != nil {
						if err := each(l); err != nil {
							b.Fatal(err)
						}
					}
				}
				_ = l.Close()
			})
		}
		run("memory", func(*testing.B) *session.Log { return session.Memory(session.Header{}, session.Options{}) }, nil)
		file := func(b *testing.B) *session.Log {
			l, err := openStore(b, session.Options{}).Create(session.Header{})
			if err != nil {
				b.Fatal(err)
			}
			return l
		}
		run("file", file, nil)
		run("file and sync", file, (*session.Log).Sync)
	}
}

// cpu reports the processor time of an operation beside its wall time, which says little on a busy machine.
func cpu(b *testing.B) func() {
	now := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	began := now()
	return func() { b.ReportMetric(float64(now()-began)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkWrite is the part of an append that is the system's: one write(2) of a line.
func BenchmarkWrite(b *testing.B) {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "x"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 150) + "\n")
	defer cpu(b)()
	for b.Loop() {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
	}
	_ = f.Close()
}

func BenchmarkOpen(b *testing.B) {
	const size = 100 << 20
	for _, kind := range []struct{ name, data string }{
		{"chunks", chunk},
		{"4K strings", fmt.Sprintf("%q", strings.Repeat("some words of a result, ", 170))},
		{"escapes and umlauts", fmt.Sprintf("%q", strings.Repeat("line \"of\" täxt\n", 200))},
	} {
		b.Run(kind.name, func(b *testing.B) {
			s := openStore(b, session.Options{})
			var text strings.Builder
			text.WriteString(head("a"))
			for seq := 0; text.Len() < size; seq++ {
				fmt.Fprintf(&text, `{"type":"assistant/chunk","seq":%d,"time":1767323045000,"data":%s}`+"\n", seq, kind.data)
			}
			fmt.Fprintf(&text, `{"type":"session/end-seed","seq":%d,"time":1767323045000,"data":{}}`+"\n", strings.Count(text.String(), "\n")-1)
			put(b, s, "a", text.String())
			b.SetBytes(int64(text.Len()))
			text.Reset()
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				l, _, err := s.Open("a")
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	s := openStore(b, session.Options{NoSync: true})
	for i := range 1000 {
		id := fmt.Sprint("s", i)
		put(b, s, id, head(id)+row("note", 0, fmt.Sprintf("%q", strings.Repeat("x", 20_000)))+row("note", 1, "1"))
	}
	defer cpu(b)()
	for b.Loop() {
		if infos, err := s.List(); err != nil || len(infos) != 1000 {
			b.Fatal(err)
		}
	}
}
