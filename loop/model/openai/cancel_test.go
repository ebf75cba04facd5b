package openai_test

import (
	"context"
	"testing"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
)

// TestR116_SocketCloses and TestR118 use a real socket, and so real time: what they
// measure is that the server sees it closed.
func TestR116_SocketCloses(t *testing.T) {
	p, server := provider(t, openai.Options{}, modeltest.Steps(
		modeltest.Repeat(600, modeltest.TextDelta("word "), modeltest.Sleep(100*time.Millisecond))))
	ctx, cancel := context.WithCancel(t.Context())
	s, err := p.Stream(ctx, request())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		if _, err := s.Next(); err != nil {
			t.Fatal(err)
		}
	}
	checkClosed(t, server, cancel)
	for err == nil {
		_, err = s.Next()
	}
	if f := failure(t, err); f.Code != model.CodeAborted {
		t.Errorf("got %+v", f)
	}
}

func TestR118_BeforeTheHeaders(t *testing.T) {
	p, server := provider(t, openai.Options{}, modeltest.Steps(modeltest.Silence()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := p.Stream(ctx, request())
		ended <- err
	}()
	if _, err := server.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	checkClosed(t, server, cancel)
	if f := failure(t, <-ended); f.Code != model.CodeAborted {
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

func TestConnectionIsKept(t *testing.T) {
	p, server := provider(t, openai.Options{}, modeltest.WireText("a"), modeltest.WireText("b"), modeltest.WireText("c"))
	for range 3 {
		if _, err := read(t.Context(), p, request()); err != nil {
			t.Fatal(err)
		}
	}
	if n := server.Connections(); n != 1 {
		t.Errorf("%d connections for three calls, one after the other", n)
	}
}
