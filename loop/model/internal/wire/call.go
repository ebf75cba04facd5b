// Package wire is what the HTTP providers share: a call whose silences are bounded and
// that a cancel ends at once, a reader of event streams, and the way from a status, an
// error body or a broken link to a model.Failure.
package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dshsh/loop/model"
)

// Limits bound how long a call may be silent. Only the time in which we wait for the
// server counts, so a slow reader of the chunks is never punished. Zero means no limit.
type Limits struct {
	// FirstByte bounds the wait for the first data: connecting, sending, the headers,
	// and any comments before the first frame.
	FirstByte time.Duration
	// Idle bounds, after that, the wait for the next byte of any kind. A comment counts:
	// it shows that the link is alive.
	Idle time.Duration
	// Stall bounds the wait for the next data while comments, and nothing else, come.
	Stall time.Duration
}

// Service says whom a call goes to, for messages. It is immutable.
type Service struct {
	Host string // as in the address, with its port
	Key  string // the API key, or ""; removed from every message
	// Secrets are more that must not be in a message.
	Secrets []string
	// KeyHint says where the key is set, such as OPENAI_API_KEY.
	KeyHint string
	// URLHint says what a base URL looks like, as in "check the base URL, ..."; by default
	// that it often ends in /v1.
	URLHint string
}

func (s Service) urlHint() string { return Or(s.URLHint, "which often ends in /v1") }

// Response is the answer to a call, from its headers on. Read and what is documented as
// the reader's are used on one goroutine; Close may be called from any.
type Response struct {
	Status    int
	Header    http.Header
	RequestID string // the server's own name for the call, or ""

	service Service
	limits  Limits
	parent  context.Context
	ctx     context.Context // ends the exchange, with what ended it as cause
	cancel  context.CancelCauseFunc
	body    io.ReadCloser
	once    sync.Once // guards the closing of body

	// The reader's:
	timer   *time.Timer
	reason  atomic.Pointer[model.Failure] // what the timer ends the call with
	waited  time.Duration                 // of the budget for the next data
	gotData bool
	tail    time.Duration // when not 0, the only limit
}

// Send makes the call and returns when the headers are here. The error is a
// *model.Failure. Ending ctx ends the call at any time and closes its connection.
func Send(ctx context.Context, client *http.Client, req *http.Request, service Service, limits Limits) (*Response, error) {
	r := &Response{service: service, limits: limits, parent: ctx}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.timer = time.AfterFunc(time.Hour, func() { r.cancel(r.reason.Load()) })
	r.timer.Stop()

	var resp *http.Response
	err := r.wait(func() (err error) {
		resp, err = client.Do(req.WithContext(r.ctx))
		return err
	})
	if err != nil {
		f := r.failure(err)
		r.cancel(nil)
		return nil, f
	}
	r.Status, r.Header, r.body = resp.StatusCode, resp.Header, resp.Body
	for _, name := range [...]string{"X-Request-Id", "Request-Id", "X-Ds-Trace-Id", "Apim-Request-Id"} {
		if r.RequestID = resp.Header.Get(name); r.RequestID != "" {
			break
		}
	}
	return r, nil
}

// wait calls fn, which blocks for the server, under the limit that applies now.
func (r *Response) wait(fn func() error) error {
	limit, reason := r.limit()
	if limit == 0 {
		return fn()
	}
	r.reason.Store(reason)
	start := time.Now()
	r.timer.Reset(limit)
	err := fn()
	r.timer.Stop()
	r.waited += time.Since(start)
	return err
}

// limit returns how long the next wait may last and the failure that it then ends in.
func (r *Response) limit() (time.Duration, *model.Failure) {
	host := r.service.Host
	if r.tail > 0 {
		return r.tail, timeout("%s did not end its reply within %v", host, r.tail)
	}
	if !r.gotData {
		if r.limits.FirstByte == 0 {
			return 0, nil
		}
		return max(r.limits.FirstByte-r.waited, 1),
			timeout("%s did not begin to answer within %v; try again, or raise the limit for the first byte", host, r.limits.FirstByte)
	}
	idle, stall := r.limits.Idle, r.limits.Stall
	if stall > 0 && (idle == 0 || stall-r.waited < idle) {
		return max(stall-r.waited, 1),
			timeout("%s kept the connection open for %v without sending any more of the reply; try again", host, stall)
	}
	if idle == 0 {
		return 0, nil
	}
	return idle, timeout("%s fell silent in the middle of the reply: nothing came for %v; try again, or raise the idle limit", host, idle)
}

func timeout(format string, args ...any) *model.Failure {
	return model.Failf(model.CodeTimeout, format, args...)
}

// Data tells that a frame with data came: the silence is over. The reader's.
func (r *Response) Data() {
	r.gotData, r.waited = true, 0
}

// Tail sets the only limit for the rest: the reply is complete, what may still come is
// not worth a longer wait. The reader's.
func (r *Response) Tail(limit time.Duration) { r.tail = limit }

// Read reads the body. Its error is io.EOF when the server ended the reply in an orderly
// way, else a *model.Failure. The reader's.
func (r *Response) Read(p []byte) (n int, err error) {
	err = r.wait(func() (err error) {
		n, err = r.body.Read(p)
		return err
	})
	if err != nil && err != io.EOF {
		err = r.failure(err)
	}
	return n, err
}

// Drain reads what little may be left of a reply that is complete, so that the
// connection can serve the next call, and closes. The reader's.
func (r *Response) Drain() {
	// The end of a reply comes with its last frame or just after. A server that keeps the
	// connection open longer costs a new connection, not a wait.
	const patience, most = 50 * time.Millisecond, 16 << 10
	r.tail = patience
	_, _ = io.Copy(io.Discard, io.LimitReader(r, most))
	_ = r.Close()
}

// errClosed is the failure's cause after Close.
var errClosed = errors.New("the stream is closed")

// Close ends the call and gives back the connection. It may be called from any
// goroutine, more than once; a Read that waits returns.
func (r *Response) Close() error {
	r.once.Do(func() {
		r.cancel(errClosed)
		_ = r.body.Close() // nothing that matters is lost with what was not read
	})
	return nil
}

// Failure adds what is known of the exchange to f, and takes the key out of it.
func (r *Response) Failure(f *model.Failure) *model.Failure {
	g := *f
	g.Message = r.service.redact(g.Message)
	if g.RequestID == "" {
		g.RequestID = r.RequestID
	}
	return &g
}

// redact removes what is secret from a message: a server may well quote it.
func (s Service) redact(message string) string {
	for _, secret := range append([]string{s.Key}, s.Secrets...) {
		if len(secret) >= 4 { // shorter is no secret, and a replacement would garble the text
			message = strings.ReplaceAll(message, secret, "[key]")
		}
	}
	return message
}

// failure turns what ended the exchange early into a Failure.
func (r *Response) failure(err error) *model.Failure {
	if r.parent.Err() != nil {
		return r.Failure(model.AsFailure(r.parent, context.Cause(r.parent)))
	}
	if r.ctx.Err() != nil {
		return r.Failure(model.AsFailure(context.Background(), context.Cause(r.ctx)))
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the address, which may hold secrets
	}
	if r.body != nil {
		return r.Failure(model.Failf(model.CodeTransport,
			"the connection to %s broke in the middle of the reply, which is not complete: %w", r.service.Host, err))
	}
	return r.Failure(r.service.unreachable(err))
}

// unreachable explains why there was no answer at all.
func (s Service) unreachable(err error) *model.Failure {
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &dns):
		return model.Failf(model.CodeTransport, "the host of %s was not found; check the address and the network: %w", s.Host, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		// Go's own words say no more than these.
		return model.Failf(model.CodeTransport, "nothing answers at %s: start the server there, or give another address with --base-url", s.Host).WithCause(err)
	case errors.As(err, &unknown), errors.As(err, &hostname), errors.As(err, &invalid):
		return model.Failf(model.CodeUnknown, "the certificate of %s is not accepted: %w", s.Host, err)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return model.Failf(model.CodeUnknown, "%s does not speak TLS; an address that begins with http:// may be right: %w", s.Host, err)
	}
	return model.Failf(model.CodeTransport, "no answer from %s: %w", s.Host, err)
}

// Ended is the failure for a reply that the server ended in an orderly way before it was
// complete; what says how far it came.
func (r *Response) Ended(what string) *model.Failure {
	return r.Failure(model.Failf(model.CodeTransport,
		"%s closed the reply in an orderly way before it was complete: %s; try again: %w", r.service.Host, what, io.ErrUnexpectedEOF))
}

// Transport returns a transport for model calls, with a connection pool of its own.
func Transport() *http.Transport {
	var t *http.Transport
	if d, ok := http.DefaultTransport.(*http.Transport); ok {
		t = d.Clone()
	} else {
		t = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	// A compressor on the way holds frames back until its window is full.
	t.DisableCompression = true
	return t
}

// NoRedirect returns client, or a copy of it that does not follow redirects if it has no
// policy of its own: a redirected POST becomes a GET, and the key is not for strangers.
func NoRedirect(client *http.Client) *http.Client {
	if client.CheckRedirect != nil {
		return client
	}
	c := *client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}
