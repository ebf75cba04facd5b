package modeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// TB is the part of testing.TB that NewServer needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Server is a model service on loopback that plays a script in the streaming wire formats
// of OpenAI's Chat Completions and Anthropic's Messages. It answers POST
// .../chat/completions and .../messages, each request with the next reply; anything else
// is a 404. A request after the last reply gets a 400,
// which nothing retries. Its methods may be called from any goroutine.
type Server struct {
	// URL is the base URL, http://127.0.0.1:PORT/v1.
	URL string

	server *http.Server
	served chan struct{} // closed when the accepting goroutine has ended

	mu        sync.Mutex // guards what follows
	replies   []Wire
	otherwise *Wire
	requests  []*Recorded
	changed   chan struct{} // closed and renewed when a request comes
	conns     int           // connections that were ever opened
}

// Recorded is a request that a Server got. It is immutable but for what Done guards.
type Recorded struct {
	Path   string // of the address
	Header http.Header
	Body   []byte
	Time   time.Time // when its body was here

	done         chan struct{}
	disconnected bool // valid once done is closed, as is ended
	ended        time.Time
}

// Done is closed when the exchange is over: the reply was played, or the client closed
// its end.
func (r *Recorded) Done() <-chan struct{} { return r.done }

// Disconnected waits for the end of the exchange and returns when that was and whether
// the client closed the connection before the reply was played.
func (r *Recorded) Disconnected() (at time.Time, byClient bool) {
	<-r.done
	return r.ended, r.disconnected
}

// JSON decodes the body. A body that is not JSON gives nil.
func (r *Recorded) JSON() map[string]any {
	var v map[string]any
	_ = json.Unmarshal(r.Body, &v)
	return v
}

// NewServer starts a server that is closed when the test ends.
func NewServer(t TB, replies ...Wire) *Server {
	t.Helper()
	s, err := StartServer(replies...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// StartServer starts a server. The caller closes it.
func StartServer(replies ...Wire) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("modeltest: no loopback address to listen on: %w", err)
	}
	s := &Server{
		URL:     "http://" + l.Addr().String() + "/v1",
		served:  make(chan struct{}),
		replies: replies,
		changed: make(chan struct{}),
	}
	s.server = &http.Server{
		Handler:  s,
		ErrorLog: log.New(io.Discard, "", 0), // replies that break off on purpose
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				s.mu.Lock()
				s.conns++
				s.mu.Unlock()
			}
		},
	}
	go func() {
		defer close(s.served)
		_ = s.server.Serve(l) // always ErrServerClosed, from Close
	}()
	return s, nil
}

// Close ends all exchanges and the server.
func (s *Server) Close() {
	_ = s.server.Close()
	<-s.served
	for _, r := range s.Requests() {
		<-r.done
	}
}

// Add puts more replies at the end of the script.
func (s *Server) Add(replies ...Wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = append(s.replies[:len(s.replies):len(s.replies)], replies...)
}

// Otherwise gives reply to every request after the script's last. It returns s.
func (s *Server) Otherwise(reply Wire) *Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.otherwise = &reply
	return s
}

// Requests returns the requests so far, oldest first.
func (s *Server) Requests() []*Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[:len(s.requests):len(s.requests)]
}

// Connections returns how many connections were ever opened to the server.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// Wait returns request n, counted from 1, as soon as it has come.
func (s *Server) Wait(ctx context.Context, n int) (*Recorded, error) {
	for {
		s.mu.Lock()
		requests, changed := s.requests, s.changed
		s.mu.Unlock()
		if len(requests) >= n {
			return requests[n-1], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("modeltest: request %d has not come, only %d: %w", n, len(requests), context.Cause(ctx))
		}
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format := formatOf(r.URL.Path)
	if r.Method != http.MethodPost || format == nil {
		Status(http.StatusNotFound, nil, `{"error":{"message":"modeltest: no such address"}}`).play(&exchange{w: w, r: r})
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	rec := &Recorded{Path: r.URL.Path, Header: r.Header.Clone(), Body: body, Time: time.Now(), done: make(chan struct{})}
	reply := s.next(rec)
	e := &exchange{w: w, r: r, format: format}
	played := false
	defer func() {
		// Hijacked connections are closed by us; the request's context knows nothing of them.
		rec.disconnected = !played && !e.hijacked && r.Context().Err() != nil
		rec.ended = time.Now()
		close(rec.done)
	}()
	for reply.fn != nil {
		reply = reply.fn(rec)
	}
	played = reply.play(e)
}

// next records a request and takes its reply from the script.
func (s *Server) next(rec *Recorded) Wire {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, rec)
	close(s.changed)
	s.changed = make(chan struct{})
	switch {
	case len(s.replies) > 0:
		reply := s.replies[0]
		s.replies = s.replies[1:]
		return reply
	case s.otherwise != nil:
		return *s.otherwise
	}
	return Status(http.StatusBadRequest, nil, fmt.Sprintf(
		`{"error":{"message":"modeltest: the script has no reply for request %d","type":"invalid_request_error"}}`, len(s.requests)))
}
