package loop

import (
	"encoding/json"
	"errors"

	"dshsh/loop/model"
	"dshsh/runtime"
	"dshsh/session"
)

// Session is an agent's log as listeners and scripts see it: read-only and live. Used on
// the host thread.
type Session struct {
	log *session.Log
	a   *agent
}

// ID is the session's id.
func (s *Session) ID() string { return s.log.ID() }

// Header is the log's header.
func (s *Session) Header() session.Header { return s.log.Header() }

// Records is an immutable snapshot of the log. Any goroutine.
func (s *Session) Records() []session.Record { return s.log.Records() }

// Messages is the conversation as the next request would send it.
func (s *Session) Messages() []model.Message { return s.a.history.derive() }

// Path is the log's file; "" in memory.
func (s *Session) Path() string { return s.log.Path() }

// Flush asks session/flush's listeners to write what they buffer, and makes the log
// durable. It waits.
func (s *Session) Flush() error {
	err := SessionFlush.Run(s.a.h.Host, s.a.target(), SessionPayload{Session: s})
	var serr error
	if werr := s.a.h.Thread.Away(func() { serr = s.log.Sync() }); werr != nil {
		serr = werr
	}
	return errors.Join(err, serr)
}

// State is what scripts keep in the session, as JSON by script and key: a copy.
func (s *Session) State() map[string]map[string]json.RawMessage { return s.a.states.copy() }

// LastHeader is what the last request was made of; nil before the first.
func (s *Session) LastHeader() *Header { return s.a.header.last }

var sessionClass = &runtime.Class{Name: "session", Doc: "The agent's log, to read.", Members: []*runtime.Member{
	{Name: "id", Doc: "The session's id.", Signature: "string",
		Get: func(o runtime.Object) (runtime.Value, error) { return o.(*Session).ID(), nil }},
	{Name: "header", Doc: "The log's header.", Signature: "SessionHeader",
		Get: func(o runtime.Object) (runtime.Value, error) { return runtime.ValueOf(o.(*Session).Header()), nil }},
	{Name: "seq", Doc: "The number that the next record gets.", Signature: "number",
		Get: func(o runtime.Object) (runtime.Value, error) { return int64(o.(*Session).log.Len()), nil }},
	{Name: "events", Doc: "The records from a number on, at most so many (100).", Signature: "(from?: number, most?: number): Event[]", Load: true,
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			from, most := int64(0), int64(100)
			if err := c.Unpack("from?", &from, "most?", &most); err != nil {
				return nil, err
			}
			recs := c.Self.(*Session).Records()
			from = min(max(from, 0), int64(len(recs)))
			recs = recs[from:min(from+max(most, 0), int64(len(recs)))]
			out := make([]Event, len(recs))
			for i, r := range recs {
				out[i] = eventOf(r)
			}
			return runtime.ValueOf(out), nil
		}},
	{Name: "requestHeader", Doc: "What the last request was made of besides its messages, or nothing before the first.", Signature: "(): RequestHeader | undefined", Load: true,
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			if h := c.Self.(*Session).LastHeader(); h != nil {
				return runtime.ValueOf(*h), c.Unpack()
			}
			return nil, c.Unpack()
		}},
	{Name: "messages", Doc: "The conversation as the next request would send it.", Signature: "(): Message[]", Load: true,
		Fn: func(c *runtime.Call) (runtime.Value, error) {
			return runtime.ValueOf(c.Self.(*Session).Messages()), c.Unpack()
		}},
}}

// Class implements runtime.Object.
func (*Session) Class() *runtime.Class { return sessionClass }
