package openai_test

import (
	"testing"

	"dshsh/loop/model/internal/wiretest"
	"dshsh/loop/model/modeltest"
	"dshsh/loop/model/openai"
)

// subject is this package's provider for the cases that all share.
var subject = wiretest.Subject{
	Path: "/chat/completions", KeyHint: "OPENAI_API_KEY", Host: "api.openai.com",
	New: func(o wiretest.Options) wiretest.Provider {
		return openai.New(openai.Options{
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
	show      = wiretest.Show
	failure   = wiretest.Failure
	shape     = wiretest.Case
)

// provider returns a Provider for a server that plays replies.
func provider(t *testing.T, o openai.Options, replies ...modeltest.Wire) (*openai.Provider, *modeltest.Server) {
	t.Helper()
	server := modeltest.NewServer(t, replies...)
	o.BaseURL = server.URL
	p := openai.New(o)
	t.Cleanup(p.CloseIdleConnections)
	return p, server
}
