package wiretest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

func (s Subject) silence(t *testing.T) {
	t.Run("R084 silence", s.silent)
	t.Run("a slow reader", s.slowReader)
	t.Run("open after the end", s.openAfterTheEnd)
}

// pieces returns the bytes of a reply that begins with hello so many times.
func (s Subject) pieces(n int, end ...modeltest.Step) string {
	return modeltest.Render(s.Path, append([]modeltest.Step{modeltest.Repeat(n, modeltest.TextDelta("hello"))}, end...)...)
}

// piped returns a provider whose reply is written into w, without a network so that
// synctest's clock applies; headers come after delay.
func (s Subject) piped(o Options, delay time.Duration) (Provider, *io.PipeWriter) {
	r, w := io.Pipe()
	o.HTTPClient = &http.Client{Transport: transport(func(req *http.Request) (*http.Response, error) {
		// As the real transport does, the body ends with the request's context.
		context.AfterFunc(req.Context(), func() { r.CloseWithError(req.Context().Err()) })
		select {
		case <-time.After(delay):
			return answer(r), nil
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	})}
	return s.New(o), w
}

func (s Subject) silent(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options Options
		delay   time.Duration // before the headers
		write   func(w io.Writer)
		after   time.Duration // when it must end
		says    string
	}{
		{"no headers", Options{}, time.Hour, func(io.Writer) {}, 10 * time.Minute, "did not begin to answer within 10m0s"},
		{"headers and no frame", Options{}, 9 * time.Minute, func(io.Writer) {}, 10 * time.Minute, "did not begin to answer within 10m0s"},
		{"headers and comments, no frame", Options{}, 0, func(w io.Writer) { s.keepAlive(w, time.Hour) }, 10 * time.Minute, "did not begin to answer within 10m0s"},
		{"three frames, then nothing", Options{}, 0, func(w io.Writer) { io.WriteString(w, s.pieces(3)) }, 2 * time.Minute, "nothing came for 2m0s"},
		{"three frames, then comments", Options{}, 0, func(w io.Writer) {
			io.WriteString(w, s.pieces(3))
			s.keepAlive(w, time.Hour)
		}, 10 * time.Minute, "open for 10m0s without sending any more"},
		{"comments, then nothing", Options{}, 0, func(w io.Writer) {
			io.WriteString(w, s.pieces(1))
			s.keepAlive(w, 5*time.Minute)
		}, 7 * time.Minute, "nothing came for 2m0s"},
		{"limits of one's own", Options{Idle: time.Second}, 0, func(w io.Writer) { io.WriteString(w, s.pieces(1)) }, time.Second, "nothing came for 1s"},
		{"idle without a limit", Options{Idle: -1, Stall: time.Hour}, 0, func(w io.Writer) { io.WriteString(w, s.pieces(1)) }, time.Hour, "open for 1h0m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w := s.piped(tc.options, tc.delay)
				written := make(chan struct{})
				go func() {
					defer close(written)
					tc.write(w)
				}()
				start := time.Now()
				_, err := Read(t.Context(), p, Request())
				f := Failure(t, err)
				if f.Code != model.CodeTimeout || !strings.Contains(f.Message, tc.says) {
					t.Errorf("got %s %q", f.Code, f.Message)
				}
				if d := time.Since(start); d.Round(time.Second) != tc.after {
					t.Errorf("after %v, want %v", d, tc.after)
				}
				w.CloseWithError(io.ErrClosedPipe)
				<-written
			})
		})
	}
}

// keepAlive writes what keeps a connection open, a comment or a ping, each 10 s for so
// long.
func (s Subject) keepAlive(w io.Writer, d time.Duration) {
	for i := range int(d / (10 * time.Second)) {
		time.Sleep(10 * time.Second)
		line := ": keep-alive\n\n"
		if i%2 == 1 && s.Ping != "" {
			line = s.Ping
		}
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
}

// slowReader: only what the server is silent counts, not what the caller is busy.
func (s Subject) slowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := s.piped(Options{Idle: time.Second, Stall: 2 * time.Second}, 0)
		go func() {
			io.WriteString(w, s.pieces(3, modeltest.Finish("stop")...))
			w.Close()
		}()
		st, err := p.Stream(t.Context(), Request())
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		for {
			_, err := st.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
	})
}

// openAfterTheEnd has a service that keeps the connection open behind the end.
func (s Subject) openAfterTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name, reply string
		within      time.Duration
	}{
		{"the reason", s.pieces(1, modeltest.Finish("stop")[0]), 2 * time.Second},
		{"the end", s.pieces(1, modeltest.Finish("stop")...), 50 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w := s.piped(Options{}, 0)
				go io.WriteString(w, tc.reply)
				start := time.Now()
				chunks, err := Read(t.Context(), p, Request())
				if got := Show(chunks, err); got != "text hello\nstop" {
					t.Errorf("got %s", got)
				}
				if d := time.Since(start); d != tc.within {
					t.Errorf("after %v, want %v", d, tc.within)
				}
			})
		})
	}
}
