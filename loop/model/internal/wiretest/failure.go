package wiretest

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
)

func (s Subject) failures(t *testing.T) {
	t.Run("by status", s.statuses)
	t.Run("no key", s.noKey)
	t.Run("the key never shows", s.keyNeverShows)
	t.Run("Retry-After", s.retryAfter)
	t.Run("the request id of a stream", s.requestIDOfAStream)
	t.Run("unreachable", s.unreachable)
}

func (s Subject) statuses(t *testing.T) {
	said := func(message string) string { return `{"error":{"message":"` + message + `"}}` }
	for _, tc := range []struct {
		name   string
		status int
		body   string
		code   string
		says   []string
	}{
		{"wrong key", 401, said("Incorrect API key provided"), model.CodeInvalidCredential, []string{"does not accept the key (HTTP 401)", "Incorrect API key provided.", "Check " + s.KeyHint}},
		{"no credit", 402, said("Insufficient Balance"), model.CodeQuota, []string{"no credit", "Top the account up"}},
		{"forbidden", 403, said("Country not supported"), model.CodeInvalidCredential, []string{"does not allow this", "Country not supported"}},
		{"unknown model", 404, said("The model does not exist"), model.CodeUnknown, []string{"The model does not exist", `"test-model"`, "/v1"}},
		{"a page for an address", 404, "<html><head><title>Not Found</title></head></html>", model.CodeUnknown, []string{`a web page, "Not Found"`, "base URL"}},
		{"timeout", 408, "", model.CodeTimeout, nil},
		{"too large", 413, said("Request too large"), model.CodeContextWindow, []string{"Compact"}},
		{"bad request", 400, said("messages[1].content is required"), model.CodeUnknown, []string{"refused the request (HTTP 400): messages[1].content is required."}},
		{"context, OpenAI", 400, `{"error":{"message":"This model's maximum context length is 128000 tokens.","code":"context_length_exceeded"}}`, model.CodeContextWindow, []string{"too long for the model", "Compact"}},
		{"context, llama.cpp", 400, said("the request exceeds the available context size"), model.CodeContextWindow, nil},
		{"content filter", 400, `{"error":{"message":"The prompt was filtered","code":"content_filter"}}`, model.CodeContentFilter, []string{"other words"}},
		{"validation", 422, `{"detail":[{"msg":"field required","loc":["body"]}]}`, model.CodeUnknown, []string{"field required"}},
		{"rate", 429, said("Rate limit reached"), model.CodeRateLimit, []string{"limiting the rate", "Try again in a while"}},
		{"quota", 429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, model.CodeQuota, nil},
		{"server", 500, `{"error":"boom"}`, model.CodeServer, []string{"failed (HTTP 500): boom.", "later"}},
		{"gateway", 502, "Bad Gateway\r\n\x1b[31m", model.CodeServer, []string{"Bad Gateway [31m."}},
		{"gateway timeout", 504, "", model.CodeTimeout, nil},
		{"overloaded", 529, "", model.CodeServer, nil},
		{"redirect", 301, "", model.CodeUnknown, []string{"redirect", "points to https://elsewhere.example/v1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, server := s.Start(t, Options{APIKey: "sk-very-secret"},
				modeltest.Status(tc.status, map[string]string{"X-Request-Id": "req_1", "Location": "https://elsewhere.example/v1"}, tc.body))
			_, err := p.Stream(t.Context(), Request())
			f := Failure(t, err)
			if f.Code != tc.code || f.Status != tc.status || f.RequestID != "req_1" {
				t.Errorf("got %s, status %d, request %q", f.Code, f.Status, f.RequestID)
			}
			for _, want := range append(tc.says, strings.TrimSuffix(strings.TrimPrefix(server.URL, "http://"), "/v1")) {
				if !strings.Contains(f.Message, want) {
					t.Errorf("the message %q lacks %q", f.Message, want)
				}
			}
			if n := len(server.Requests()); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func (s Subject) noKey(t *testing.T) {
	p, server := s.Start(t, Options{KeyHint: "MY_KEY"}, modeltest.Status(401, nil, ""))
	_, err := p.Stream(t.Context(), Request())
	if f := Failure(t, err); !strings.Contains(f.Message, "No key is set; set MY_KEY") {
		t.Errorf("got %q", f.Message)
	}
	if h := server.Requests()[0].Header; h["Authorization"] != nil || h["X-Api-Key"] != nil {
		t.Errorf("sent %v without a key", h)
	}
}

func (s Subject) keyNeverShows(t *testing.T) {
	const key = "sk-very-secret"
	echo := `{"error":{"message":"the key sk-very-secret is no good","type":"x"}}`
	for name, reply := range map[string]modeltest.Wire{
		"status":    modeltest.Status(401, nil, echo),
		"in stream": modeltest.Steps(modeltest.Frame(echo)),
		"body":      modeltest.Status(200, nil, `{"what":"sk-very-secret"}`),
		"frame":     modeltest.Steps(modeltest.TextDelta("x"), modeltest.Frame("sk-very-secret")),
	} {
		p, _ := s.Start(t, Options{APIKey: key + "\n"}, reply)
		_, err := Read(t.Context(), p, Request())
		if f := Failure(t, err); strings.Contains(f.Message, key) || !strings.Contains(f.Message, "[key]") {
			t.Errorf("%s: %q", name, f.Message)
		}
	}
	azure, _ := s.Start(t, Options{Headers: map[string]string{"Api-Key": key, "X-Title": "title"}}, modeltest.Status(400, nil, echo+" title"))
	_, err := Read(t.Context(), azure, Request())
	if f := Failure(t, err); strings.Contains(f.Message, key) || !strings.Contains(f.Message, "title") {
		t.Errorf("header: %q", f.Message)
	}
	// Nor anything that an address holds.
	p := s.New(Options{BaseURL: "http://user:" + key + "@127.0.0.1:1/v1?key=" + key})
	t.Cleanup(p.CloseIdleConnections)
	_, err = Read(t.Context(), p, Request())
	if f := Failure(t, err); strings.Contains(f.Message, key) {
		t.Errorf("address: %q", f.Message)
	}
}

func (s Subject) retryAfter(t *testing.T) {
	for _, tc := range []struct {
		name    string
		headers map[string]string
		ms      int64 // -1 for none
		says    string
	}{
		{"seconds", map[string]string{"Retry-After": "20"}, 20_000, "It asks to wait 20s."},
		{"date", map[string]string{"Date": "Wed, 21 Oct 2026 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2026 07:29:30 GMT"}, 90_000, "wait 1m30s"},
		{"milliseconds", map[string]string{"Retry-After-Ms": "1500", "Retry-After": "2"}, 1500, "wait 1.5s"},
		{"none", nil, -1, "Try again in a while"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, _ := s.Start(t, Options{}, modeltest.Status(429, tc.headers, ""))
			_, err := p.Stream(t.Context(), Request())
			f := Failure(t, err)
			got := int64(-1)
			if f.ProviderRetryAfterMs != nil {
				got = *f.ProviderRetryAfterMs
			}
			if got != tc.ms || !strings.Contains(f.Message, tc.says) {
				t.Errorf("got %d ms, %q", got, f.Message)
			}
		})
	}
}

func (s Subject) requestIDOfAStream(t *testing.T) {
	p, _ := s.Start(t, Options{}, modeltest.Steps(
		modeltest.Headers(200, map[string]string{"X-Ds-Trace-Id": "trace7"}), modeltest.TextDelta("half")))
	_, err := Read(t.Context(), p, Request())
	if f := Failure(t, err); f.RequestID != "trace7" {
		t.Errorf("got %+v", f)
	}
}

func (s Subject) unreachable(t *testing.T) {
	// An address where certainly nobody listens: a port that was just given back.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String()
	l.Close()
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	plain := modeltest.NewServer(t)

	broken := func(err error) Options {
		return Options{HTTPClient: &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) { return nil, err })}}
	}
	for _, tc := range []struct {
		name    string
		options Options
		code    string
		says    string
		is      error
	}{
		{"nobody there", Options{BaseURL: nobody}, model.CodeTransport, "start the server there", syscall.ECONNREFUSED},
		{"no such host", broken(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), model.CodeTransport, "was not found", nil},
		{"certificate", Options{BaseURL: secure.URL}, model.CodeUnknown, "certificate", nil},
		{"no TLS", Options{BaseURL: strings.Replace(plain.URL, "http", "https", 1)}, model.CodeUnknown, "does not speak TLS", nil},
		{"whatever", broken(io.ErrClosedPipe), model.CodeTransport, "no answer from " + s.Host, io.ErrClosedPipe},
		{"no address", Options{BaseURL: "localhost:8080"}, model.CodeUnknown, "not an http or https address", nil},
		{"nonsense", Options{BaseURL: "http://[::1"}, model.CodeUnknown, "not an http or https address", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := s.New(tc.options)
			t.Cleanup(p.CloseIdleConnections)
			_, err := p.Stream(t.Context(), Request())
			f := Failure(t, err)
			if f.Code != tc.code || !strings.Contains(f.Message, tc.says) {
				t.Errorf("got %s %q", f.Code, f.Message)
			}
			if tc.is != nil && !errors.Is(f, tc.is) {
				t.Errorf("errors.Is does not find %v", tc.is)
			}
		})
	}
}
