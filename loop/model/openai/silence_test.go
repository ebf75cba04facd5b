package openai_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/model/openai"
)

// piped returns a provider whose reply is written into w, without a network so that
// synctest's clock applies; headers come after delay.
func piped(o openai.Options, delay time.Duration) (*openai.Provider, *io.PipeWriter) {
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
	return openai.New(o), w
}

const helloFrame = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"}}]}\n\n"

func TestR084_Silence(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options openai.Options
		delay   time.Duration // before the headers
		write   func(w io.Writer)
		after   time.Duration // when it must end
		says    string
	}{
		{"no headers", openai.Options{}, time.Hour, func(io.Writer) {}, 10 * time.Minute, "did not begin to answer within 10m0s"},
		{"headers and no frame", openai.Options{}, 9 * time.Minute, func(io.Writer) {}, 10 * time.Minute, "did not begin to answer within 10m0s"},
		{"headers and comments, no frame", openai.Options{}, 0, func(w io.Writer) { comments(w, time.Hour) }, 10 * time.Minute, "did not begin to answer within 10m0s"},
		{"three frames, then nothing", openai.Options{}, 0, func(w io.Writer) { io.WriteString(w, helloFrame+helloFrame+helloFrame) }, 2 * time.Minute, "nothing came for 2m0s"},
		{"three frames, then comments", openai.Options{}, 0, func(w io.Writer) {
			io.WriteString(w, helloFrame+helloFrame+helloFrame)
			comments(w, time.Hour)
		}, 10 * time.Minute, "open for 10m0s without sending any more"},
		{"comments, then nothing", openai.Options{}, 0, func(w io.Writer) {
			io.WriteString(w, helloFrame)
			comments(w, 5*time.Minute)
		}, 7 * time.Minute, "nothing came for 2m0s"},
		{"limits of one's own", openai.Options{IdleTimeout: time.Second}, 0, func(w io.Writer) { io.WriteString(w, helloFrame) }, time.Second, "nothing came for 1s"},
		{"idle without a limit", openai.Options{IdleTimeout: -1, StallTimeout: time.Hour}, 0, func(w io.Writer) { io.WriteString(w, helloFrame) }, time.Hour, "open for 1h0m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w := piped(tc.options, tc.delay)
				written := make(chan struct{})
				go func() {
					defer close(written)
					tc.write(w)
				}()
				start := time.Now()
				_, err := read(t.Context(), p, request())
				f := failure(t, err)
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

// comments writes a keep-alive line each 10 s for so long.
func comments(w io.Writer, d time.Duration) {
	for range d / (10 * time.Second) {
		time.Sleep(10 * time.Second)
		if _, err := io.WriteString(w, ": keep-alive\n\n"); err != nil {
			return
		}
	}
}

// TestSlowReader: only what the server is silent counts, not what the caller is busy.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := piped(openai.Options{IdleTimeout: time.Second, StallTimeout: 2 * time.Second}, 0)
		go func() {
			for range 3 {
				io.WriteString(w, helloFrame)
			}
			io.WriteString(w, `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
			w.Close()
		}()
		s, err := p.Stream(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for {
			_, err := s.Next()
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

// TestOpenAfterTheEnd has a service that keeps the connection open behind the end.
func TestOpenAfterTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name, end string
		within    time.Duration
	}{
		{"finish_reason", `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n", 2 * time.Second},
		{"DONE", `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n", 50 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w := piped(openai.Options{}, 0)
				go io.WriteString(w, helloFrame+tc.end)
				start := time.Now()
				chunks, err := read(t.Context(), p, request())
				if got := show(chunks, err); got != "text hello\nstop" {
					t.Errorf("got %s", got)
				}
				if d := time.Since(start); d != tc.within {
					t.Errorf("after %v, want %v", d, tc.within)
				}
			})
		})
	}
}

// TestCancel_AnyMoment cancels and closes while the provider waits in each of its places.
func TestCancel_AnyMoment(t *testing.T) {
	for _, tc := range []struct {
		name  string
		delay time.Duration
		write string
	}{
		{"R118 before the headers", time.Hour, ""},
		{"before the first byte", 0, ""},
		{"R116 in the middle", 0, helloFrame},
		{"in the middle of a frame", 0, helloFrame[:20]},
		{"behind the finish_reason", 0, helloFrame + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w := piped(openai.Options{}, tc.delay)
				defer w.Close()
				go io.WriteString(w, tc.write)
				cause := errors.New("the user pressed Ctrl-C")
				ctx, cancel := context.WithCancelCause(t.Context())
				start := time.Now()
				time.AfterFunc(time.Second, func() { cancel(cause) })
				_, err := read(ctx, p, request())
				f := failure(t, err)
				if f.Code != model.CodeAborted || !errors.Is(f, cause) || time.Since(start) != time.Second {
					t.Errorf("after %v: %s %q", time.Since(start), f.Code, f.Message)
				}
			})
		})
	}
}

func TestClose_AnyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := piped(openai.Options{}, 0)
		defer w.Close()
		s, err := p.Stream(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { s.Close() })
		if _, err := s.Next(); err == nil || err == io.EOF {
			t.Errorf("Next returned %v", err)
		}
		if _, err := s.Next(); err == nil {
			t.Error("Next goes on after Close")
		}
	})
}
