package wire

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestParseError(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want APIError
		ok   bool
	}{
		{`{"error":{"message":"m","type":"t","code":"c"}}`, APIError{Message: "m", Type: "t", Code: "c"}, true},
		{`{"error":{"message":"m","code":429}}`, APIError{Message: "m", Code: "429", Status: 429}, true},
		{`{"error":{"message":"m","code":"503"}}`, APIError{Message: "m", Code: "503", Status: 503}, true},
		{`{"error":{"message":"m","code":1234}}`, APIError{Message: "m", Code: "1234"}, true},
		{`{"error":{"message":"m","code":null,"type":["odd"]}}`, APIError{Message: "m"}, true},
		{`{"error":{"message":"m","metadata":{"raw":"behind"}}}`, APIError{Message: "m: behind"}, true},
		{`{"error":{"what":1}}`, APIError{Message: `{"what":1}`}, true},
		{`{"error":"text"}`, APIError{Message: "text"}, true},
		{`{"error":true}`, APIError{Message: "true"}, true},
		{`{"object":"error","message":"m","code":400}`, APIError{Message: "m", Code: "400", Status: 400}, true},
		{`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, APIError{Message: "m", Type: "overloaded_error"}, true},
		{`{"detail":"text"}`, APIError{Message: "text"}, true},
		{`{"detail":[{"msg":"m"}]}`, APIError{Message: "m"}, true},
		{`{"error":null}`, APIError{}, false},
		{`{"error":""}`, APIError{}, false},
		{`{"error":{}}`, APIError{}, false},
		{`{"choices":[]}`, APIError{}, false},
		{`[]`, APIError{}, false},
		{`text`, APIError{}, false},
		{``, APIError{}, false},
	} {
		got, ok := ParseError([]byte(tc.in))
		if got != tc.want || ok != tc.ok {
			t.Errorf("%s: got %+v, %v", tc.in, got, ok)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 10, 21, 7, 28, 0, 0, time.UTC)
	for _, tc := range []struct {
		headers [2]string // Retry-After and another, name and value in one
		want    int64     // -1 for none
	}{
		{[2]string{"", ""}, -1},
		{[2]string{"0", ""}, 0},
		{[2]string{"20", ""}, 20_000},
		{[2]string{" 1.5 ", ""}, 1500},
		{[2]string{"-3", ""}, 0},
		{[2]string{"1e300", ""}, 24 * 60 * 60 * 1000},
		{[2]string{"NaN", ""}, -1},
		{[2]string{"soon", ""}, -1},
		{[2]string{"Wed, 21 Oct 2026 07:28:07 GMT", ""}, 7_000},
		{[2]string{"Wed, 21 Oct 2026 07:27:00 GMT", ""}, 0},
		{[2]string{"Wed, 21 Oct 2026 09:28:07 GMT", "Date: Wed, 21 Oct 2026 09:28:00 GMT"}, 7_000}, // its clock is two hours off
		{[2]string{"20", "Retry-After-Ms: 123.4"}, 124},
		{[2]string{"20", "Retry-After-Ms: x"}, 20_000},
	} {
		h := http.Header{}
		if tc.headers[0] != "" {
			h.Set("Retry-After", tc.headers[0])
		}
		if name, value, ok := strings.Cut(tc.headers[1], ": "); ok {
			h.Set(name, value)
		}
		got := int64(-1)
		if ms := RetryAfter(h, now); ms != nil {
			got = *ms
		}
		if got != tc.want {
			t.Errorf("%q: got %d, want %d", tc.headers, got, tc.want)
		}
	}
}

func TestProse(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "",
		" Bad\r\n\tGateway \x1b[0m ":      "Bad Gateway [0m",
		"<HTML><Title>İ Sign\nin</title>": `a web page, "İ Sign in"`,
		"<!DOCTYPE html><p>x":             "a web page",
		strings.Repeat("é", 400):          strings.Repeat("é", 300) + "...",
		"a\xff":                           "a\uFFFD",
	} {
		if got := prose([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestNoRedirect(t *testing.T) {
	own := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return nil }}
	if NoRedirect(own) != own {
		t.Error("a client with a policy of its own was replaced")
	}
	plain := &http.Client{Timeout: time.Second}
	if c := NoRedirect(plain); c == plain || c.Timeout != time.Second || plain.CheckRedirect != nil {
		t.Error("the client was changed, or lost what it had")
	}
}
