package anthropic

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"dshsh/loop/model"
	"dshsh/loop/model/internal/wire"
)

// The reply, as it comes over the wire. An event has the fields of its type; a whole
// reply, from a service that does not stream, is a message.
type (
	event struct {
		Type         string          `json:"type"`
		Index        int             `json:"index"`
		Message      message         `json:"message"`
		ContentBlock piece           `json:"content_block"`
		Delta        delta           `json:"delta"`
		Usage        *usage          `json:"usage"`
		Error        json.RawMessage `json:"error"`
	}
	message struct {
		Content     []piece      `json:"content"`
		StopReason  string       `json:"stop_reason"`
		StopDetails *stopDetails `json:"stop_details"`
		Usage       *usage       `json:"usage"`
	}
	piece struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	}
	delta struct {
		Type        string       `json:"type"`
		Text        string       `json:"text"`
		Thinking    string       `json:"thinking"`
		Signature   string       `json:"signature"`
		PartialJSON string       `json:"partial_json"`
		StopReason  string       `json:"stop_reason"`
		StopDetails *stopDetails `json:"stop_details"`
	}
	stopDetails struct {
		Category    string `json:"category"`
		Explanation string `json:"explanation"`
	}
	// usage is cumulative; what is absent stays as it was told before.
	usage struct {
		Input      *int64 `json:"input_tokens"`
		Output     *int64 `json:"output_tokens"`
		CacheRead  *int64 `json:"cache_read_input_tokens"`
		CacheWrite *int64 `json:"cache_creation_input_tokens"`
		Details    struct {
			Thinking *int64 `json:"thinking_tokens"`
		} `json:"output_tokens_details"`
	}
)

// stream turns the events of one reply into chunks. Next is used on one goroutine, Close
// may be called from any.
type stream struct {
	wire.Feed
	model     string
	afterTool bool // the request ended with tool results: an empty reply is an answer

	blocks   []*block       // in the order in which they began
	at       map[int]*block // by the service's number; nil for one that is passed over
	ids      map[string]bool
	reported bool // any usage came
	usage    model.Usage
	stop     string // the stop_reason, once it came
	details  stopDetails
}

var _ model.Stream = (*stream)(nil)

func newStream(resp *wire.Response, req *model.Request) *stream {
	return &stream{
		Feed: wire.NewFeed(resp), model: req.Model, afterTool: wire.AfterTool(req),
		at: map[int]*block{}, ids: map[string]bool{},
	}
}

// Next implements model.Stream. Errors are io.EOF and *model.Failure.
func (s *stream) Next() (model.Chunk, error) { return s.Pull(s.advance) }

// advance reads one event and pushes what it means, or ends the stream.
func (s *stream) advance() {
	switch whole, err := s.Whole(); {
	case err != nil:
		s.ended(err)
		return
	case whole:
		s.whole()
		return
	}
	ev, err := s.Events.Next()
	if err != nil {
		s.ended(err)
		return
	}
	data := bytes.TrimSpace(ev.Data)
	if len(data) == 0 || string(data) == "[DONE]" { // the latter from services of another kind
		return
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		s.unreadable(data, ev, err)
		return
	}
	s.take(&e, wire.Or(e.Type, ev.Type), data)
}

// unreadable handles an event that is not JSON of the right shape.
func (s *stream) unreadable(data []byte, ev wire.Event, err error) {
	switch {
	case s.stop != "":
		s.complete() // whatever this is, the reply was whole before it
	case ev.Type == "error":
		s.fail(wire.APIError{Message: string(data)})
	case ev.Cut:
		// The cut went through this event. The next read tells how it ended.
		if _, cut := s.Events.Next(); cut != nil {
			s.ended(cut)
		}
	default:
		s.report()
		s.Fail(model.Failf(model.CodeServer,
			"the service sent an event that is not a piece of a reply, %s: %.100q: %w", s.Progress(), data, err))
	}
}

// take applies an event; raw is its text.
func (s *stream) take(e *event, kind string, raw []byte) {
	if kind == "error" || len(e.Error) > 0 {
		failure, ok := wire.ParseError(raw)
		if ok || kind == "error" {
			if !ok {
				failure.Message = string(raw)
			}
			s.fail(failure)
			return
		}
	}
	if kind == "ping" {
		return // life, but no data
	}
	s.Resp.Data()
	switch kind {
	case "message_start":
		s.count(e.Message.Usage)
	case "content_block_start":
		s.begin(e.Index, &e.ContentBlock)
	case "content_block_delta":
		s.delta(e.Index, &e.Delta)
	case "content_block_stop":
		if b := s.at[e.Index]; b != nil {
			s.end(b)
		}
	case "message_delta":
		s.count(e.Usage)
		if e.Delta.StopReason == "" {
			return
		}
		s.stop = e.Delta.StopReason
		if e.Delta.StopDetails != nil {
			s.details = *e.Delta.StopDetails
		}
		// message_stop may still come, but is not worth a long wait.
		const tail = 2 * time.Second
		s.Resp.Tail(tail)
	case "message_stop":
		if s.stop == "" {
			s.report()
			s.Err = s.Resp.Ended(s.Progress() + " message_stop came, but no stop_reason")
			return
		}
		s.Resp.Drain()
		s.complete()
	}
}

// count takes usage. Our InputTokens are the whole prompt, what came from the cache or
// went into it included; the service counts these apart.
func (s *stream) count(u *usage) {
	if u == nil {
		return
	}
	s.reported = true
	take := func(to *int64, from *int64) {
		if from != nil {
			*to = *from
		}
	}
	uncached := s.usage.InputTokens - s.usage.CacheReadTokens - s.usage.CacheWriteTokens
	take(&uncached, u.Input)
	take(&s.usage.OutputTokens, u.Output)
	take(&s.usage.CacheReadTokens, u.CacheRead)
	take(&s.usage.CacheWriteTokens, u.CacheWrite)
	take(&s.usage.ReasoningTokens, u.Details.Thinking)
	s.usage.InputTokens = uncached + s.usage.CacheReadTokens + s.usage.CacheWriteTokens
}

// report passes the usage on. It is called once, when no more can come.
func (s *stream) report() {
	if s.reported {
		s.Push(model.NewUsage(s.usage))
		s.reported = false
	}
}

// ended handles the end of the bytes, orderly or not.
func (s *stream) ended(err error) {
	if s.stop != "" && !wire.Aborted(err) {
		// The reply is whole. How the connection came to its end is of no interest.
		_ = s.Resp.Close()
		s.complete()
		return
	}
	s.report()
	s.Broken(err, "no stop_reason had come")
}

// fail ends the stream with an error that the service reported.
func (s *stream) fail(e wire.APIError) {
	s.report()
	s.Err = s.Resp.StreamFailure(e, s.model)
}

// complete ends the stream of a reply that is whole.
func (s *stream) complete() {
	kind, failure := s.outcome()
	if failure == nil {
		for _, b := range s.blocks {
			s.end(b)
		}
	}
	s.report()
	if failure != nil {
		s.Fail(failure)
		return
	}
	finish := model.NewFinish(kind)
	finish.ReplayState = s.replay()
	s.Push(finish)
	s.Err = io.EOF
}

// outcome reads the stop_reason.
func (s *stream) outcome() (kind string, failure *model.Failure) {
	switch s.stop {
	case "max_tokens", "pause_turn":
		return model.FinishMaxTokens, nil
	case "model_context_window_exceeded":
		return "", model.Failf(model.CodeContextWindow,
			"the reply reached the end of the model's context window %s; compact the conversation or start a new one", s.Progress())
	case "refusal":
		why := wire.Or(strings.TrimRight(s.details.Explanation, "."), s.details.Category)
		if why != "" {
			why = " (" + why + ")"
		}
		return "", model.Failf(model.CodeContentFilter,
			"the service's content filter stopped the reply %s%s; put the request in other words, or use another model", s.Progress(), why)
	}
	// end_turn, stop_sequence, tool_use and what may be new. What is to be done follows
	// from what is there.
	for _, b := range s.blocks {
		if b.kind == model.BlockToolCall && !b.ended && !json.Valid([]byte(b.text.String())) {
			return "", s.Resp.Ended(s.Progress() + " the last tool call was not complete")
		}
	}
	switch {
	case s.Calls > 0:
		return model.FinishToolCalls, nil
	case len(s.blocks) == 0 && !s.afterTool:
		return "", model.Failf(model.CodeEmptyResponse, "the model answered with nothing at all; try again, or put the request in other words")
	}
	return model.FinishStop, nil
}

// whole takes a reply that was not streamed.
func (s *stream) whole() {
	body, err := s.Body()
	if err != nil {
		s.ended(err)
		return
	}
	if e, ok := wire.ParseError(body); ok {
		s.fail(e)
		return
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil || m.Content == nil {
		s.Fail(model.Failf(model.CodeServer,
			"the service answered with JSON that is no model's reply; check the base URL and the model: %.100q", body))
		return
	}
	s.count(m.Usage)
	for i := range m.Content {
		s.begin(i, &m.Content[i])
		if b := s.at[i]; b != nil {
			s.end(b)
		}
	}
	if s.stop = m.StopReason; s.stop == "" {
		s.report()
		s.Err = s.Resp.Ended("no stop_reason is in it")
		return
	}
	if m.StopDetails != nil {
		s.details = *m.StopDetails
	}
	s.complete()
}

// chars counts a piece of what the user can read.
func (s *stream) chars(piece string) { s.Chars += utf8.RuneCountInString(piece) }
