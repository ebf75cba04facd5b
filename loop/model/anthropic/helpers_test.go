package anthropic_test

import (
	"testing"

	"dshsh/loop/model/anthropic"
	"dshsh/loop/model/internal/wiretest"
	"dshsh/loop/model/modeltest"
)

// subject is this package's provider for the cases that all share.
var subject = wiretest.Subject{
	Path: "/messages", KeyHint: "ANTHROPIC_API_KEY", Host: "api.anthropic.com",
	Ping: "event: ping\ndata: {\"type\": \"ping\"}\n\n",
	New: func(o wiretest.Options) wiretest.Provider {
		return anthropic.New(anthropic.Options{
			BaseURL: o.BaseURL, APIKey: o.APIKey, KeyHint: o.KeyHint, Headers: o.Headers, HTTPClient: o.HTTPClient,
			FirstByteTimeout: o.FirstByte, IdleTimeout: o.Idle, StallTimeout: o.Stall,
		})
	},
}

func TestSuite(t *testing.T) { wiretest.Run(t, subject) }

var (
	user      = wiretest.User
	assistant = wiretest.Assistant
	results   = wiretest.Results
	request   = wiretest.Request
	read      = wiretest.Read
	fold      = wiretest.Fold
	failure   = wiretest.Failure
	shape     = wiretest.Case
)

// provider returns a Provider for a server that plays replies.
func provider(t *testing.T, o anthropic.Options, replies ...modeltest.Wire) (*anthropic.Provider, *modeltest.Server) {
	t.Helper()
	server := modeltest.NewServer(t, replies...)
	o.BaseURL = server.URL
	p := anthropic.New(o)
	t.Cleanup(p.CloseIdleConnections)
	return p, server
}
