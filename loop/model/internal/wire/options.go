package wire

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dshsh/loop/model"
)

// Target is where a provider's calls go and how: all of its options that are the same for
// every service. Immutable.
type Target struct {
	Provider string // its name, for errors
	Client   *http.Client
	Endpoint string
	Header   http.Header // of each call: what says who calls, and what the options add
	Service  Service
	Limits   Limits
}

// Post makes a call with a JSON body and returns when the headers of the answer are here.
// The error is a *model.Failure.
func (t *Target) Post(ctx context.Context, body []byte) (*Response, error) {
	req, err := http.NewRequest(http.MethodPost, t.Endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, model.Failf(model.CodeUnknown, "provider %s: %w", t.Provider, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "dshsh")
	for name, values := range t.Header {
		req.Header[name] = values
	}
	// Present but empty, it is not sent, and tells the transport that the call may be
	// repeated if a connection that was kept open proves dead before any answer.
	req.Header["Idempotency-Key"] = []string{}
	return Send(ctx, t.Client, req, t.Service, t.Limits)
}

// Or returns s, or otherwise where s is empty.
func Or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Limit reads a limit of a provider's options: 0 is the default, a negative one none.
func Limit(d, otherwise time.Duration) time.Duration {
	switch {
	case d == 0:
		return otherwise
	case d < 0:
		return 0
	}
	return d
}

// Endpoint returns the address to post to, base with path behind it unless it is there
// already, and its host for messages. example is a right base, for the error.
func Endpoint(base, path, example string) (address, host string, err error) {
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// Without the address itself, which may hold a password.
		return "", "", fmt.Errorf("the base URL is not an http or https address such as %s; correct it in the configuration or with --base-url", example)
	}
	if !strings.HasSuffix(u.Path, path) {
		u = u.JoinPath(path)
	}
	return u.String(), u.Host, nil
}

// Secrets returns the values of those headers that may hold a secret: their name has
// auth, key, token or secret in it.
func Secrets(headers map[string]string) []string {
	var secrets []string
	for name, value := range headers {
		name = strings.ToLower(name)
		for _, part := range [...]string{"auth", "key", "token", "secret"} {
			if strings.Contains(name, part) {
				secrets = append(secrets, strings.TrimPrefix(value, "Bearer "))
				break
			}
		}
	}
	return secrets
}

// Client returns the client for calls: own as far as redirects allow, see NoRedirect, or
// a new one with a connection pool of its own.
func Client(own *http.Client) *http.Client {
	if own == nil {
		own = &http.Client{Transport: Transport()}
	}
	return NoRedirect(own)
}
