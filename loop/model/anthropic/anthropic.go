// Package anthropic is the provider for services that speak Anthropic's Messages. It
// streams over net/http, with a small typed client of its own.
//
// What it holds to:
//
//   - A reply is whole when a stop_reason came, with or without message_stop after it. A
//     stream that ends in any other way is a failure with code TRANSPORT, as is one that
//     ends within a tool call. An error event, inside a reply that began with 200, is a
//     failure, too. Events and blocks of unknown types are passed over.
//   - max_tokens ends with max-tokens; the Assembler then drops tool calls. pause_turn,
//     with which the service wants to go on in a further request, does the same: it comes
//     with tools of the service's own only, which are never asked for. refusal is a failure
//     with code CONTENT_FILTER, model_context_window_exceeded one with code
//     CONTEXT_WINDOW_EXCEEDED: what is left of such a reply is not worth keeping.
//   - Thinking goes back unchanged, signatures and redacted blocks included, to the
//     provider and model that it came from; any other reasoning is left out.
//   - Arguments, histories that lack results, empty replies and silence are treated as
//     package openai does.
//   - The system prompt, with the tools in front of it, and the newest message are marked
//     for the prompt cache.
//   - Reasoning is asked for in the way that the model knows, see model.Known; a
//     temperature is left out where the model would refuse it.
package anthropic

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/model/internal/wire"
)

// Defaults of Options.
const (
	DefaultBaseURL          = "https://api.anthropic.com"
	DefaultFirstByteTimeout = 10 * time.Minute
	DefaultIdleTimeout      = 2 * time.Minute
	DefaultStallTimeout     = 10 * time.Minute
)

// apiVersion is the version of the interface that is spoken. It is not the newest: what is
// used of it is the same in both, other services than Anthropic's own know the older one,
// and the newer takes no temperature. Options.Headers can ask for another.
const apiVersion = "2023-06-01"

// Options are what a Provider is made from. The zero value of each field is its default.
type Options struct {
	// Name is what Config.Provider selects the provider by; "anthropic" by default.
	Name string
	// BaseURL is the address in front of /v1/messages, DefaultBaseURL by default. One that
	// ends in /v1 or /messages is completed or taken as it is; a query is kept.
	BaseURL string
	// APIKey is sent as x-api-key, if there is one. It never appears in a failure.
	APIKey string
	// KeyHint tells in failures where the key is set; "ANTHROPIC_API_KEY" by default.
	KeyHint string
	// Headers are added to each request. The values of those that may hold a secret (their
	// name has auth, key, token or secret in it) do not appear in a failure either.
	Headers map[string]string
	// HTTPClient makes the calls. By default the provider has one with a connection pool
	// of its own and the proxies of the environment. It should have no Timeout, which
	// would bound whole replies. Redirects are not followed unless it says how.
	HTTPClient *http.Client

	// FirstByteTimeout bounds the wait for the first event of the reply;
	// DefaultFirstByteTimeout if 0, no limit if negative, as for the next two. Ending in one
	// of them has code TIMEOUT.
	FirstByteTimeout time.Duration
	// IdleTimeout bounds the silence within a reply. Comments and pings count as life.
	IdleTimeout time.Duration
	// StallTimeout bounds the wait for the next piece of a reply while only comments and
	// pings come.
	StallTimeout time.Duration

	// Models is what is known of models, looked up by Name and else by "anthropic"; by
	// default model.KnownModels.
	Models *model.Models
}

// Provider speaks to one service. It is immutable; its methods may be called from any
// goroutine.
type Provider struct {
	options Options
	target  wire.Target
	badURL  error // what is wrong with BaseURL; every call then fails with it
}

var _ model.Provider = (*Provider)(nil)

// New returns a provider for the service at o.BaseURL. It does no I/O and cannot fail; a
// base URL that is none is reported by the first call.
func New(o Options) *Provider {
	o.Name = wire.Or(o.Name, "anthropic")
	o.BaseURL = wire.Or(o.BaseURL, DefaultBaseURL)
	o.KeyHint = wire.Or(o.KeyHint, "ANTHROPIC_API_KEY")
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
	path := "/v1/messages"
	if u, err := url.Parse(strings.TrimSpace(o.BaseURL)); err == nil {
		if at := strings.TrimRight(u.Path, "/"); strings.HasSuffix(at, "/v1") || strings.HasSuffix(at, "/messages") {
			path = "/messages"
		}
	}
	p.target.Endpoint, p.target.Service.Host, p.badURL = wire.Endpoint(o.BaseURL, path, DefaultBaseURL)
	p.target.Service.URLHint = "to which /v1/messages is added"
	p.target.Header.Set("Anthropic-Version", apiVersion)
	if o.APIKey != "" {
		p.target.Header.Set("X-Api-Key", o.APIKey)
	}
	for name, value := range o.Headers {
		p.target.Header.Set(name, value)
	}
	return p
}

// Name implements model.Provider.
func (p *Provider) Name() string { return p.options.Name }

// Info implements model.Provider. The default for the tokens of a reply, which the
// service wants to be told, is what the model can write, but no more than 64,000: what is
// set aside for the reply is missing for the conversation.
func (p *Provider) Info(name string) model.Info {
	const most, unknown = 64_000, 32_000
	known := p.known(name)
	info := model.Info{ContextWindow: known.ContextWindow, MaxTokens: min(known.MaxOutput, most)}
	if info.MaxTokens == 0 {
		info.MaxTokens = unknown
	}
	return info
}

func (p *Provider) known(name string) model.Known {
	known := p.options.Models.Lookup(p.options.Name, name)
	if known == (model.Known{}) {
		known = p.options.Models.Lookup("anthropic", name)
	}
	return known
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
	body, err := p.encode(req)
	if err != nil {
		return nil, model.Failf(model.CodeUnknown, "provider %s: the request cannot be written as JSON: %w", p.options.Name, err)
	}
	resp, err := p.target.Post(ctx, body)
	if err != nil {
		return nil, err
	}
	if resp.Status < 200 || resp.Status >= 300 {
		failure, _ := resp.StatusFailure(req.Model)
		return nil, failure
	}
	return newStream(resp, req), nil
}
