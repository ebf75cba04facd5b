// Package openai is the provider for every service that speaks OpenAI's Chat
// Completions: OpenAI itself, DeepSeek (see DeepSeek), Ollama, llama.cpp, vLLM and many
// more. It streams over net/http, with a small typed client of its own.
//
// What it holds to, since services differ in all of this:
//
//   - A reply is whole when a finish_reason came, with or without [DONE] after it. A
//     stream that ends in any other way is a failure with code TRANSPORT, which says
//     whether the server ended it in an orderly way or the link broke. A frame that is
//     an error, inside a reply that began with 200, is a failure, too.
//   - finish_reason length ends with max-tokens; the Assembler then drops tool calls.
//     content_filter is a failure with code CONTENT_FILTER, also after half a reply.
//   - The arguments of a tool call are passed on as the model wrote them, even when they
//     are not whole JSON though the service says tool_calls: they are not repaired, and
//     as no tool accepts them the model gets an error result and can try again. In later
//     requests such arguments are wrapped, {"invalid_arguments": "..."}, because some
//     services refuse a history that holds them. Only escapes of unpaired surrogates are
//     replaced.
//   - Silence: see the timeouts of Options.
//   - Usage is asked for; where a service refuses to be asked, the call is repeated
//     without, and later calls do not ask.
//   - An empty reply is a failure with code EMPTY_RESPONSE, except after tool results,
//     where it says that there is nothing to add.
package openai

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/model/internal/wire"
)

// Defaults of Options.
const (
	DefaultBaseURL          = "https://api.openai.com/v1"
	DefaultFirstByteTimeout = 10 * time.Minute
	DefaultIdleTimeout      = 2 * time.Minute
	DefaultStallTimeout     = 10 * time.Minute
)

// Options are what a Provider is made from. The zero value of each field is its default.
type Options struct {
	// Name is what Config.Provider selects the provider by; "openai" by default.
	Name string
	// BaseURL is the address in front of /chat/completions, DefaultBaseURL by default.
	// One that ends in /chat/completions is taken as it is; a query is kept.
	BaseURL string
	// APIKey is sent as a bearer token; without one no Authorization header is sent, as
	// local servers like it. It never appears in a failure.
	APIKey string
	// KeyHint tells in failures where the key is set; "OPENAI_API_KEY" by default.
	KeyHint string
	// Headers are added to each request. The values of those that may hold a secret (their
	// name has auth, key, token or secret in it) do not appear in a failure either.
	Headers map[string]string
	// HTTPClient makes the calls. By default the provider has one with a connection pool
	// of its own and the proxies of the environment. It should have no Timeout, which
	// would bound whole replies. Redirects are not followed unless it says how.
	HTTPClient *http.Client

	// FirstByteTimeout bounds the wait for the first frame of the reply, whatever
	// comments a busy server sends meanwhile; DefaultFirstByteTimeout if 0, no limit if
	// negative, as for the next two. Ending in one of them has code TIMEOUT.
	FirstByteTimeout time.Duration
	// IdleTimeout bounds the silence within a reply. Comments count as life.
	IdleTimeout time.Duration
	// StallTimeout bounds the wait for the next frame within a reply while only
	// comments come.
	StallTimeout time.Duration

	// ReplayReasoning sends the reasoning of the provider's own messages back in later
	// requests, as reasoning_content, once there are tools. Services that reason between tool
	// calls want it (DeepSeek refuses the next request without); others ignore or refuse the
	// field.
	ReplayReasoning bool
	// Models is what is known of models, looked up by Name and else by "openai"; by default
	// model.KnownModels.
	Models *model.Models
}

// Provider speaks to one service. Its methods may be called from any goroutine.
type Provider struct {
	options  Options // immutable
	target   wire.Target
	badURL   error // what is wrong with BaseURL; every call then fails with it
	deepseek bool  // DeepSeek's switch for thinking is spoken

	// What the service turned out not to take; learnt from its refusals.
	noUsage         atomic.Bool // stream_options
	completionLimit atomic.Bool // max_tokens: it wants max_completion_tokens
}

var _ model.Provider = (*Provider)(nil)

// New returns a provider for the service at o.BaseURL. It does no I/O and cannot fail; a
// base URL that is none is reported by the first call.
func New(o Options) *Provider {
	o.Name = wire.Or(o.Name, "openai")
	o.BaseURL = wire.Or(o.BaseURL, DefaultBaseURL)
	o.KeyHint = wire.Or(o.KeyHint, "OPENAI_API_KEY")
	o.APIKey = strings.TrimSpace(o.APIKey)
	if o.Models == nil {
		o.Models = model.KnownModels()
	}
	p := &Provider{options: o, target: wire.Target{
		Provider: o.Name,
		Client:   wire.Client(o.HTTPClient),
		Header:   http.Header{},
		Service:  wire.Service{Key: o.APIKey, KeyHint: o.KeyHint, Secrets: wire.Secrets(o.Headers)},
		Limits: wire.Limits{
			FirstByte: wire.Limit(o.FirstByteTimeout, DefaultFirstByteTimeout),
			Idle:      wire.Limit(o.IdleTimeout, DefaultIdleTimeout),
			Stall:     wire.Limit(o.StallTimeout, DefaultStallTimeout),
		},
	}}
	p.target.Endpoint, p.target.Service.Host, p.badURL = wire.Endpoint(o.BaseURL, "/chat/completions", DefaultBaseURL)
	if o.APIKey != "" {
		p.target.Header.Set("Authorization", "Bearer "+o.APIKey)
	}
	for name, value := range o.Headers {
		p.target.Header.Set(name, value)
	}
	return p
}

// DeepSeek returns a provider for DeepSeek's own service: New with its address and name
// as defaults, reasoning sent back, and the reasoning effort "none" turning thinking
// off.
func DeepSeek(o Options) *Provider {
	o.Name = wire.Or(o.Name, "deepseek")
	o.BaseURL = wire.Or(o.BaseURL, "https://api.deepseek.com")
	o.KeyHint = wire.Or(o.KeyHint, "DEEPSEEK_API_KEY")
	o.ReplayReasoning = true
	p := New(o)
	p.deepseek = true
	return p
}

// Name implements model.Provider.
func (p *Provider) Name() string { return p.options.Name }

// Info implements model.Provider.
func (p *Provider) Info(name string) model.Info {
	known := p.options.Models.Lookup(p.options.Name, name)
	if known == (model.Known{}) {
		known = p.options.Models.Lookup("openai", name)
	}
	return model.Info{ContextWindow: known.ContextWindow}
}

// CloseIdleConnections closes the connections that wait for the next call. The provider
// stays usable.
func (p *Provider) CloseIdleConnections() { p.target.Client.CloseIdleConnections() }

// Stream implements model.Provider: it returns when the headers of a success are here.
// The error is a *model.Failure.
func (p *Provider) Stream(ctx context.Context, req *model.Request) (model.Stream, error) {
	if p.badURL != nil {
		return nil, model.Failf(model.CodeUnknown, "provider %s: %w", p.options.Name, p.badURL)
	}
	for {
		form := p.form()
		body, err := p.encode(req, form)
		if err != nil {
			return nil, model.Failf(model.CodeUnknown, "provider %s: the request cannot be written as JSON: %w", p.options.Name, err)
		}
		resp, err := p.target.Post(ctx, body)
		if err != nil {
			return nil, err
		}
		if resp.Status >= 200 && resp.Status < 300 {
			return newStream(resp, req), nil
		}
		failure, said := resp.StatusFailure(req.Model)
		// Each round learns something that stays learnt, so this ends.
		if !p.learn(form, req, resp.Status, said) {
			return nil, failure
		}
	}
}

// form is how a request is put, as far as services differ. It is immutable.
type form struct{ noUsage, completionLimit bool }

func (p *Provider) form() form {
	return form{noUsage: p.noUsage.Load(), completionLimit: p.completionLimit.Load()}
}

// learn reports whether the refusal is one of a field that can be put another way, and
// remembers it.
func (p *Provider) learn(sent form, req *model.Request, status int, said []byte) bool {
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return false
	}
	if !sent.noUsage && (bytes.Contains(said, []byte("stream_options")) || bytes.Contains(said, []byte("include_usage"))) {
		p.noUsage.Store(true)
		return true
	}
	if !sent.completionLimit && req.MaxTokens > 0 && bytes.Contains(said, []byte("max_completion_tokens")) {
		p.completionLimit.Store(true)
		return true
	}
	return false
}
