package modules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"dshsh/runtime"
)

const (
	maxBody     = 10 << 20 // bytes of a body, either way
	maxHeaders  = 256 << 10
	maxHops     = 10
	httpTime    = 30 * time.Second
	maxHTTPTime = 5 * time.Minute
)

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// httpRequest is what http.request takes, unless that is just the URL.
type httpRequest struct {
	URL       string            `json:"url"`
	Method    string            `json:"method,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Body      string            `json:"body,omitempty"`
	TimeoutMs float64           `json:"timeoutMs,omitempty"`
}

// httpResponse is what http.request gives.
type httpResponse struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"` // names in small letters
	Text    string            `json:"text"`
	URL     string            `json:"url"` // after redirects
}

func (h *host) httpClass() *runtime.Class {
	return &runtime.Class{Name: "http", Doc: "Web servers, behind the grant http. Every redirect is checked, and so is the address that a name " +
		"stands for: one of a private network only when the grant names it. No proxy is used.", Members: []*runtime.Member{
		{Name: "request", Waits: true, Doc: "Asks a server and waits for the whole answer, whatever its status; at most 10 MiB, 30 s unless " +
			"timeoutMs says otherwise (5 minutes at most).",
			Signature: "(request: string | { url: string, method?: string, headers?: Record<string, string>, body?: string, timeoutMs?: number }): " +
				"Promise<{ status: number, headers: Record<string, string>, text: string, url: string }>", Fn: h.httpRequest},
	}}
}

func (h *host) httpRequest(c *runtime.Call) (runtime.Value, error) {
	var v runtime.Value
	if err := c.Unpack("request", &v); err != nil {
		return nil, err
	}
	var q httpRequest
	if text, ok := v.(string); ok {
		q.URL = text
	} else if err := runtime.Decode(v, &q); err != nil {
		return nil, fmt.Errorf("%s: for parameter request: %w", c.Name, err)
	}
	res, err := request(c, q)
	if err != nil {
		return nil, named(c, err)
	}
	return runtime.ValueOf(*res), nil
}

// request asks and follows redirects, each hop with a permission of its own.
func request(c *runtime.Call, q httpRequest) (*httpResponse, error) {
	d, err := limit(q.TimeoutMs, httpTime, maxHTTPTime)
	if err != nil {
		return nil, err
	}
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	q.Method = strings.ToUpper(q.Method)
	if !slices.Contains(methods, q.Method) {
		return nil, fmt.Errorf("unknown method %q, want one of %s", q.Method, strings.Join(methods, ", "))
	}
	if len(q.Body) > maxBody {
		return nil, fmt.Errorf("a body of %d bytes, at most %d are sent", len(q.Body), maxBody)
	}
	ctx, done := bound(c, d)
	defer done()
	for hop := 0; ; hop++ {
		p, err := parsePlace(q.URL)
		if err != nil {
			return nil, err
		}
		if err := c.Instance.Permit(runtime.NeedHTTP, q.Method+" "+p.shown(), p.covered); err != nil {
			if hop > 0 {
				err = fmt.Errorf("redirected: %w", err)
			}
			return nil, err
		}
		granted := c.Instance.Granted(runtime.NeedHTTP)
		var res *httpResponse
		err = away(c, ctx, func() error { res, err = p.ask(ctx, q, granted); return err })
		switch {
		case errors.Is(err, runtime.ErrNotGranted):
			c.Instance.NoteUse(runtime.NeedHTTP, q.Method+" "+p.shown(), false)
			return nil, err
		case err != nil:
			return nil, err
		}
		next := res.Headers["location"]
		if next == "" || !slices.Contains([]int{301, 302, 303, 307, 308}, res.Status) {
			return res, nil
		}
		if hop == maxHops {
			return nil, fmt.Errorf("more than %d redirects", maxHops)
		}
		if q, err = p.redirect(q, next, res.Status); err != nil {
			return nil, err
		}
	}
}

// place is where a request goes. Immutable.
type place struct {
	url            *url.URL
	host           string // in small letters, or an address
	port, standard string
}

func parsePlace(text string) (*place, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be read: %w", errors.Unwrap(err))
	}
	p := &place{url: u, host: strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), port: u.Port()}
	switch {
	case u.Scheme == "http":
		p.standard = "80"
	case u.Scheme == "https":
		p.standard = "443"
	default:
		return nil, fmt.Errorf("the URL must begin with http:// or https://, not %q", u.Scheme)
	}
	if p.host == "" || strings.ContainsFunc(p.host, func(r rune) bool { return r > 126 || r <= ' ' || strings.ContainsRune("%*\\_", r) }) {
		return nil, fmt.Errorf("%q is not a host; an international name is written in its xn-- form", u.Hostname())
	}
	if u.User != nil {
		return nil, errors.New("the URL holds a name or password: put them into a header")
	}
	if addr, err := netip.ParseAddr(p.host); err == nil {
		p.host = addr.Unmap().String()
	}
	if p.port == "" {
		p.port = p.standard
	}
	return p, nil
}

func (p *place) covered(n runtime.Need) bool { return n.MatchHost(p.host, p.port, p.standard) }

// shown is the URL without what may be secret.
func (p *place) shown() string { return p.url.Scheme + "://" + p.url.Host + p.url.EscapedPath() }

// redirect is the request that a redirect asks for. What was meant for one server does
// not reach another.
func (p *place) redirect(q httpRequest, location string, status int) (httpRequest, error) {
	u, err := p.url.Parse(location)
	if err != nil {
		return q, fmt.Errorf("redirected to what is no URL: %w", err)
	}
	if p.url.Scheme == "https" && u.Scheme != "https" {
		return q, fmt.Errorf("redirected from https to %s", u.Scheme)
	}
	q.URL = u.String()
	if status == 303 && q.Method != http.MethodHead || (status == 301 || status == 302) && q.Method == http.MethodPost {
		q.Method, q.Body = http.MethodGet, ""
	}
	if u.Scheme != p.url.Scheme || !strings.EqualFold(u.Host, p.url.Host) {
		kept := map[string]string{}
		for name, v := range q.Headers {
			if lower := strings.ToLower(name); strings.HasPrefix(lower, "accept") || lower == "content-type" || lower == "user-agent" {
				kept[name] = v
			}
		}
		q.Headers = kept
	}
	return q, nil
}

// ask sends one request, off the thread.
func (p *place) ask(ctx context.Context, q httpRequest, granted []runtime.Need) (*httpResponse, error) {
	req, err := http.NewRequestWithContext(ctx, q.Method, q.URL, strings.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "dshsh")
	for name, v := range q.Headers {
		if strings.EqualFold(name, "host") {
			return nil, errors.New("the header Host cannot be set")
		}
		req.Header.Set(name, v)
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		return p.reaches(address, granted)
	}}
	t := &http.Transport{
		Proxy: nil, DialContext: dialer.DialContext, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: maxHeaders,
	}
	defer t.CloseIdleConnections()
	client := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // its URL may hold secrets
		}
		return nil, fmt.Errorf("%s: %w", p.shown(), err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: reading the answer: %w", p.shown(), err)
	case len(body) > maxBody:
		return nil, fmt.Errorf("%s: an answer of more than %d bytes", p.shown(), maxBody)
	}
	out := &httpResponse{Status: res.StatusCode, Headers: map[string]string{}, Text: strings.ToValidUTF8(string(body), "\uFFFD"), URL: p.url.String()}
	for name, vs := range res.Header {
		out.Headers[strings.ToLower(name)] = strings.ToValidUTF8(strings.Join(vs, ", "), "\uFFFD")
	}
	return out, nil
}

// reaches refuses an address that is about to be dialled, when it is of a private network
// and not named by a grant: what a name stands for is decided by whoever owns the name.
func (p *place) reaches(address string, granted []runtime.Need) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialling %s: %w", address, err)
	}
	addr := ap.Addr().Unmap().WithZone("")
	if public(addr) {
		return nil
	}
	for _, n := range granted {
		named := n.Names(addr.String()) || addr.IsLoopback() && p.host == "localhost" && n.Names("localhost")
		if named && (n.MatchHost(addr.String(), p.port, p.standard) || n.MatchHost(p.host, p.port, p.standard)) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s leads to %s, which is no public address; a need for it names it: http: ['%s']",
		runtime.ErrNotGranted, p.host, addr, net.JoinHostPort(addr.String(), p.port))
}

// reserved are the networks beyond those that netip knows that are not of the public
// internet, or that carry addresses of others inside.
var reserved = func() (out []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

func public(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}
