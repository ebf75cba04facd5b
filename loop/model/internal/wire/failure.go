package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"dshsh/loop/model"
)

// APIError is what a service says went wrong, from whichever of the usual shapes.
type APIError struct {
	Message string
	Type    string
	Code    string
	Status  int // an HTTP status given inside the body, or 0
	// RequestID is the service's own name for the call, where the body tells it.
	RequestID string
}

// ParseError finds an error in a JSON body or frame:
//
//	{"error":{"message":..., "type":..., "code": text or number}}
//	{"error":"text"}
//	{"object":"error","message":..., "code":...}
//	{"type":"error","error":{...},"request_id":...}
//	{"detail":"text"} or {"detail":[{"msg":...}]}, in a body only
//
// false means that there is none. An error that is null, false or empty is none.
func ParseError(body []byte) (APIError, bool) {
	var b struct {
		Error  json.RawMessage
		Object string
		Type   string
		Detail json.RawMessage

		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(body, &b) != nil {
		return APIError{}, false
	}
	switch {
	case absent(b.Error) && (b.Object == "error" || b.Type == "error"):
		return errorObject(body), true
	case !absent(b.Error):
		e := errorObject(b.Error)
		e.RequestID = b.RequestID
		return e, true
	case !absent(b.Detail):
		var list []struct{ Msg string }
		if json.Unmarshal(b.Detail, &list) == nil && len(list) > 0 {
			return APIError{Message: list[0].Msg}, true
		}
		return errorObject(b.Detail), true
	}
	return APIError{}, false
}

func absent(raw json.RawMessage) bool {
	switch strings.TrimSpace(string(raw)) {
	case "", "null", "false", `""`, "{}":
		return true
	}
	return false
}

// errorObject reads an error that is an object, a string or anything else.
func errorObject(raw json.RawMessage) APIError {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return APIError{Message: text}
	}
	var o struct {
		Message  string
		Type     any
		Code     any
		Status   any
		Metadata struct{ Raw any } // what a router heard from the service behind it
	}
	// A field of an unexpected type leaves the others in place; the message decides.
	_ = json.Unmarshal(raw, &o)
	e := APIError{Message: o.Message}
	if e.Message == "" {
		e.Message = string(raw)
	}
	if behind := word(o.Metadata.Raw); behind != "" && !strings.Contains(e.Message, behind) {
		e.Message += ": " + behind
	}
	e.Type, e.Code = word(o.Type), word(o.Code)
	for _, v := range [...]any{o.Code, o.Status} {
		if n, err := strconv.Atoi(word(v)); err == nil && n >= 400 && n < 600 {
			e.Status = n
			break
		}
	}
	return e
}

func word(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// StatusFailure reads the body of an answer that is not a success and returns what it
// means, a code and a message that says what to do, and the body itself. modelName is
// the model that was asked for. It closes the response.
func (r *Response) StatusFailure(modelName string) (*model.Failure, []byte) {
	const most = 64 << 10
	body, err := io.ReadAll(io.LimitReader(r, most))
	_ = r.Close()
	if f, ok := err.(*model.Failure); ok && f.Code == model.CodeAborted {
		return f, nil
	}
	e, ok := ParseError(body)
	if !ok {
		e = APIError{Message: prose(body)}
	}
	code := codeOf(r.Status, e)
	return r.Failure(&model.Failure{
		Code:      code,
		Status:    r.Status,
		RequestID: Or(r.RequestID, e.RequestID),
		Message: fmt.Sprintf("%s %s (HTTP %d)%s%s",
			r.service.Host, verdict(r.Status, code), r.Status, said(e.Message), r.advice(code, modelName)),
		ProviderRetryAfterMs: RetryAfter(r.Header, time.Now()),
	}), body
}

// StreamFailure is the failure for an error that came inside a reply.
func (r *Response) StreamFailure(e APIError, modelName string) *model.Failure {
	code := codeOf(e.Status, e)
	if code == model.CodeUnknown && e.Status == 0 && !strings.Contains(e.Type, "invalid") {
		code = model.CodeServer // it took the request and failed on the way
	}
	return r.Failure(&model.Failure{
		Code:      code,
		Status:    e.Status,
		RequestID: Or(r.RequestID, e.RequestID),
		Message: fmt.Sprintf("%s reported an error instead of finishing the reply%s%s",
			r.service.Host, said(e.Message), r.advice(code, modelName)),
		ProviderRetryAfterMs: RetryAfter(r.Header, time.Now()),
	})
}

// said joins what the service said to a sentence about it.
func said(message string) string {
	message = strings.TrimRight(clean(message, 600), ".")
	if message == "" {
		return "."
	}
	return ": " + message + "."
}

func verdict(status int, code string) string {
	switch {
	case code == model.CodeContextWindow:
		return "says that the conversation is too long for the model"
	case code == model.CodeContentFilter:
		return "refused the content"
	case code == model.CodeQuota:
		return "says that the account has no credit or quota left"
	case code == model.CodeRateLimit:
		return "is limiting the rate of calls"
	case code == model.CodeInvalidCredential && status == http.StatusForbidden:
		return "does not allow this"
	case code == model.CodeInvalidCredential:
		return "does not accept the key"
	case status == http.StatusNotFound:
		return "does not know the model or the address"
	case status >= 300 && status < 400:
		return "answered with a redirect"
	case status >= 500:
		return "failed"
	}
	return "refused the request"
}

func (r *Response) advice(code, modelName string) string {
	switch {
	case code == model.CodeInvalidCredential && r.service.Key == "":
		return fmt.Sprintf(" No key is set; set %s.", r.service.KeyHint)
	case code == model.CodeInvalidCredential:
		return fmt.Sprintf(" Check %s, and that it may use the model %s.", r.service.KeyHint, modelName)
	case code == model.CodeContextWindow:
		return " Compact the conversation or start a new one."
	case code == model.CodeContentFilter:
		return " Put it in other words, or use another model."
	case code == model.CodeQuota:
		return " Top the account up, or use another provider."
	case code == model.CodeRateLimit:
		if ms := RetryAfter(r.Header, time.Now()); ms != nil {
			return fmt.Sprintf(" It asks to wait %v.", time.Duration(*ms)*time.Millisecond)
		}
		return " Try again in a while."
	case r.Status == http.StatusNotFound:
		return fmt.Sprintf(" Check the model name %q and the base URL, %s.", modelName, r.service.urlHint())
	case r.Status >= 300 && r.Status < 400:
		if to := r.Header.Get("Location"); to != "" {
			return fmt.Sprintf(" It points to %s; if that is right, make it the base URL.", clean(to, 200))
		}
	case code == model.CodeServer:
		return " Try again later."
	}
	return ""
}

// codeOf classifies. status is 0 for an error inside a reply that gives none.
func codeOf(status int, e APIError) string {
	tag := strings.ToLower(e.Code + " " + e.Type)
	text := strings.ToLower(e.Message)
	has := func(s string, any ...string) bool {
		for _, a := range any {
			if strings.Contains(s, a) {
				return true
			}
		}
		return false
	}
	switch {
	case status == http.StatusUnauthorized || has(tag, "invalid_api_key", "authentication_error"):
		return model.CodeInvalidCredential
	case status == http.StatusPaymentRequired || has(tag, "insufficient_quota", "billing", "insufficient_balance"),
		has(text, "credit balance is too low"):
		return model.CodeQuota
	case status == http.StatusTooManyRequests:
		return model.CodeRateLimit
	case has(tag, "content_filter", "content_policy", "data_inspection_failed"):
		return model.CodeContentFilter
	case status == http.StatusRequestEntityTooLarge,
		has(tag, "context_length", "context_size", "request_too_large"),
		has(text, "context length", "context window", "context limit", "maximum context", "context size",
			"prompt is too long", "input is too long", "reduce the length of the messages"):
		return model.CodeContextWindow
	case has(tag, "rate_limit"):
		return model.CodeRateLimit
	case status == http.StatusForbidden || has(tag, "permission"):
		return model.CodeInvalidCredential
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout || has(tag, "timeout"):
		return model.CodeTimeout
	case status >= 500 || has(tag, "server_error", "overloaded", "api_error", "unavailable"):
		return model.CodeServer
	}
	return model.CodeUnknown
}

// RetryAfter returns the milliseconds that a service asks to wait, or nil: from
// retry-after-ms, or Retry-After in seconds or as an HTTP date. A date is taken relative
// to the server's own clock where it tells it.
func RetryAfter(h http.Header, now time.Time) *int64 {
	ms := func(f float64) *int64 {
		// A day is beyond all use; the bound keeps the conversion safe from nonsense.
		n := int64(math.Ceil(min(max(f, 0), 24*60*60*1000)))
		return &n
	}
	if f, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && !math.IsNaN(f) {
		return ms(f)
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return nil
	}
	if f, err := strconv.ParseFloat(v, 64); err == nil && !math.IsNaN(f) {
		return ms(f * 1000)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return nil
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return ms(float64(at.Sub(now).Milliseconds()))
}

// prose returns what can be shown of a body that is not a JSON error.
func prose(body []byte) string {
	s := strings.TrimSpace(string(body))
	lower := strings.Map(func(r rune) rune { // only ASCII, so that offsets stay the same
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, model.Scrub(s))
	s = model.Scrub(s)
	if strings.HasPrefix(lower, "<!doctype") || strings.HasPrefix(lower, "<html") || strings.HasPrefix(lower, "<?xml") {
		_, after, found := strings.Cut(lower, "<title>")
		if !found {
			return "a web page"
		}
		start := len(s) - len(after)
		title, _, _ := strings.Cut(s[start:], "<")
		return fmt.Sprintf("a web page, %q", clean(title, 100))
	}
	return clean(s, 300)
}

// clean makes text from a service fit for one line: no control characters, no runs of
// space, at most n characters.
func clean(s string, n int) string {
	s = strings.Join(strings.FieldsFunc(model.Scrub(s), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	for i := range s {
		if n == 0 {
			return s[:i] + "..."
		}
		n--
	}
	return s
}
