package wiretest

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

func (s Subject) cancel(t *testing.T) {
	t.Run("any moment", s.cancelAnyMoment)
	t.Run("close at any moment", s.closeAnyMoment)
	t.Run("R116 the socket closes", s.socketCloses)
	t.Run("R118 before the headers", s.beforeTheHeaders)
}

// cancelAnyMoment cancels and closes while the provider waits in each of its places.
func (s Subject) cancelAnyMoment(t *testing.T) {
	for _, tc := range []struct {
		name  string
		delay time.Duration
		write string
	}{
		{"R118 before the headers", time.Hour, ""},
		{"before the first byte", 0, ""},
		{"R116 in the middle", 0, s.pieces(1)},
		{"in the middle of a frame", 0, s.pieces(1)[:20]},
		{"behind the reason", 0, s.pieces(1, modeltest.Finish("stop")[0])},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, w := s.piped(Options{}, tc.delay)
				defer w.Close()
				go io.WriteString(w, tc.write)
				cause := errors.New("the user pressed Ctrl-C")
				ctx, cancel := context.WithCancelCause(t.Context())
				start := time.Now()
				time.AfterFunc(time.Second, func() { cancel(cause) })
				_, err := Read(ctx, p, Request())
				f := Failure(t, err)
				if f.Code != model.CodeAborted || !errors.Is(f, cause) || time.Since(start) != time.Second {
					t.Errorf("after %v: %s %q", time.Since(start), f.Code, f.Message)
				}
			})
		})
	}
}

func (s Subject) closeAnyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, w := s.piped(Options{}, 0)
		defer w.Close()
		st, err := p.Stream(t.Context(), Request())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { st.Close() })
		if _, err := st.Next(); err == nil || err == io.EOF {
			t.Errorf("Next returned %v", err)
		}
		if _, err := st.Next(); err == nil {
			t.Error("Next goes on after Close")
		}
	})
}

// socketCloses and beforeTheHeaders use a real socket, and so real time: what they
// measure is that the server sees it closed.
func (s Subject) socketCloses(t *testing.T) {
	p, server := s.Start(t, Options{}, modeltest.Steps(
		modeltest.Repeat(600, modeltest.TextDelta("word "), modeltest.Sleep(100*time.Millisecond))))
	ctx, cancel := context.WithCancel(t.Context())
	st, err := p.Stream(ctx, Request())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for range 2 {
		if _, err := st.Next(); err != nil {
			t.Fatal(err)
		}
	}
	checkClosed(t, server, cancel)
	for err == nil {
		_, err = st.Next()
	}
	if f := Failure(t, err); f.Code != model.CodeAborted {
		t.Errorf("got %+v", f)
	}
}

func (s Subject) beforeTheHeaders(t *testing.T) {
	p, server := s.Start(t, Options{}, modeltest.Steps(modeltest.Silence()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := p.Stream(ctx, Request())
		ended <- err
	}()
	if _, err := server.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	checkClosed(t, server, cancel)
	if f := Failure(t, <-ended); f.Code != model.CodeAborted {
		t.Errorf("got %+v", f)
	}
}

// checkClosed cancels and checks that the socket was closed at once.
func checkClosed(t *testing.T, server *modeltest.Server, cancel func()) {
	t.Helper()
	start := time.Now()
	cancel()
	at, byClient := server.Requests()[0].Disconnected()
	if d := at.Sub(start); d > 500*time.Millisecond || !byClient {
		t.Errorf("the socket closed after %v, by the client: %v", d, byClient)
	}
}
