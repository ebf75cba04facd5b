package wire

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

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
