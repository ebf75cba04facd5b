package loop

import (
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"dshsh/loop/model"
)

// RetryPolicy says when and how often a failed call is tried again. Immutable.
type RetryPolicy struct {
	MaxRetries int      `json:"maxRetries"`
	Codes      []string `json:"codes"`  // failures that are worth another try
	BaseMs     int64    `json:"baseMs"` // the first delay; each further one is twice as long
	MaxMs      int64    `json:"maxMs"`  // the longest delay; a provider that asks for more ends it
	// Refused is how often a connection that was refused is tried again, if less than
	// MaxRetries: where the server is to run on this machine, it does not. 0 = MaxRetries.
	Refused int `json:"-"`
}

// DefaultRetry is the policy where Config.Retry is nil.
var DefaultRetry = RetryPolicy{
	MaxRetries: 5, BaseMs: 500, MaxMs: 10_000,
	Codes: []string{model.CodeEmptyResponse, model.CodeRateLimit, model.CodeServer, model.CodeTimeout, model.CodeTransport},
}

// Records of a retry: before the wait, and after it.
const (
	RecRetry        = "llm/retry"
	RecRetryStarted = "llm/retry-started"
)

// Modes of a retry: normal is the policy's, always a listener's own.
const (
	retryNormal = "normal"
	retryAlways = "always"
)

// Retry is a llm/retry record.
type Retry struct {
	RetryID    string         `json:"retryId"`
	Turn       int            `json:"turn"`
	Step       int            `json:"step"`
	Provider   string         `json:"provider"`
	Mode       string         `json:"mode"`
	PolicyKey  string         `json:"policyKey"`
	Retry      int            `json:"retry"`
	MaxRetries int            `json:"maxRetries,omitempty"`
	DelayMs    int64          `json:"delayMs"`
	Failure    *model.Failure `json:"failure"`
}

// RetryStarted is a llm/retry-started record.
type RetryStarted struct {
	RetryID string `json:"retryId"`
	Turn    int    `json:"turn"`
	Step    int    `json:"step"`
	Retry   int    `json:"retry"`
}

// maxListenerRetries bounds the retries that listeners ask for in one step, as every
// cap on what scripts keep going.
const maxListenerRetries = 25

func (h *Host) retryPolicy(provider string) *RetryPolicy {
	if h.cfg.Retry == nil {
		return &DefaultRetry
	}
	return h.cfg.Retry(provider)
}

// recover asks agent/request-error whether to try again, and waits. The step is still
// open. The policy's own answer is the innermost.
func (a *agent) recover(act *activity, req *model.Request, f *model.Failure) (again bool, err error) {
	pol := a.h.retryPolicy(req.Provider)
	p := RequestErrorPayload{Agent: a, Turn: act.turn, Step: act.step, Provider: req.Provider, Failure: f, RetryPolicy: pol, Signal: act.signal}
	rec := Retry{RetryID: a.newID("retry-"), Turn: act.turn, Step: act.step, Provider: req.Provider, Mode: retryAlways, PolicyKey: "listener", Failure: f}
	r, err := RequestError.Run(a.h.Host, a.awaiting(act), p, func(RequestErrorPayload) (Recovery, error) {
		if n := act.retries[retryNormal+" "+req.Provider]; pol != nil && n < pol.most(f) && slices.Contains(pol.Codes, f.Code) {
			if ms, ok := pol.delay(n, f); ok {
				rec.Mode, rec.PolicyKey, rec.MaxRetries = retryNormal, "default", pol.most(f)
				return Recovery{Kind: "retry", AfterMs: ms}, nil
			}
		}
		return Recovery{}, nil
	})
	if err != nil || r.Kind != "retry" {
		return false, err
	}
	if err := act.check(); err != nil {
		return false, err
	}
	if rec.Mode == retryAlways && act.retries[retryAlways+" "+req.Provider] >= maxListenerRetries {
		a.h.cfg.Notices.Capped(a, "stopped: scripts have tried this model call again 25 times")
		return false, nil
	}
	key := rec.Mode + " " + req.Provider
	act.retries[key]++
	rec.Retry, rec.DelayMs = act.retries[key], max(r.AfterMs, 0)
	if _, err := a.append(RecRetry, rec); err != nil {
		return false, err
	}
	if err := a.h.Thread.Sleep(time.Duration(rec.DelayMs)*time.Millisecond, act.ctx); err != nil {
		return false, err
	}
	_, err = a.append(RecRetryStarted, RetryStarted{RetryID: rec.RetryID, Turn: act.turn, Step: act.step, Retry: rec.Retry})
	return err == nil, err
}

// most is how often a call that failed so is tried again.
func (p *RetryPolicy) most(f *model.Failure) int {
	if p.Refused > 0 && errors.Is(f, syscall.ECONNREFUSED) {
		return min(p.Refused, p.MaxRetries)
	}
	return p.MaxRetries
}

// delay is how long to wait before retry n (from 0): what the provider asked for, or a
// doubling delay with 10 % of jitter, so that many shells do not come back together. It
// is not ok when the provider asks for more than the policy waits.
func (p *RetryPolicy) delay(n int, f *model.Failure) (ms int64, ok bool) {
	if f.ProviderRetryAfterMs != nil {
		return *f.ProviderRetryAfterMs, *f.ProviderRetryAfterMs <= p.MaxMs
	}
	ms = min(p.BaseMs<<min(n, 20), p.MaxMs)
	return ms + int64((rand.Float64()*2-1)*float64(ms)/10), true
}
