package openai

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

// stream turns the frames of one reply into chunks. Next is used on one goroutine, Close
// may be called from any.
type stream struct {
	wire.Feed
	model     string
	afterTool bool // the request ended with tool results: an empty reply is an answer

	frame  frame // the newest
	blocks int   // how many blocks were begun
	open   string
	text   strings.Builder // of the open block
	calls  []*call
	usage  *usage
	finish string // the finish_reason, once it came
}

var _ model.Stream = (*stream)(nil)

func newStream(resp *wire.Response, req *model.Request) *stream {
	return &stream{Feed: wire.NewFeed(resp), model: req.Model, afterTool: wire.AfterTool(req)}
}

// Next implements model.Stream. Errors are io.EOF and *model.Failure.
func (s *stream) Next() (model.Chunk, error) { return s.Pull(s.advance) }

// advance reads one event and puts what it means into the queue, or into err.
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
	if len(data) == 0 {
		return
	}
	s.Resp.Data()
	if string(data) == "[DONE]" {
		if s.finish == "" {
			s.report()
			s.Err = s.Resp.Ended(s.Progress() + " [DONE] came, but no finish_reason")
			return
		}
		s.Resp.Drain()
		s.complete()
		return
	}
	s.frames(data, ev)
}

// frames takes the data of one event: a frame, or several where a service leaves out the
// blank lines between them.
func (s *stream) frames(data []byte, ev wire.Event) {
	err := s.frame.decode(data)
	if err == nil {
		s.take(data, ev.Type)
		return
	}
	rest := json.NewDecoder(bytes.NewReader(data))
	for n := 0; s.Err == nil; n++ {
		var raw json.RawMessage
		if err = rest.Decode(&raw); err == io.EOF && n > 0 {
			return
		} else if err != nil {
			break
		}
		if err = s.frame.decode(raw); err != nil {
			break
		}
		s.take(raw, ev.Type)
	}
	switch {
	case s.Err != nil:
	case s.finish != "":
		s.complete() // whatever this is, the reply was whole before it
	case ev.Type == "error":
		s.fail(wire.APIError{Message: string(data)})
	case ev.Cut:
		// The cut went through this frame. The next read tells how it ended.
		if _, cut := s.Events.Next(); cut != nil {
			s.ended(cut)
		}
	default:
		s.Fail(model.Failf(model.CodeServer,
			"the service sent a frame that is not a piece of a reply, %s: %.100q: %w", s.Progress(), data, err))
	}
}

// take applies the decoded frame; raw is its text.
func (s *stream) take(raw []byte, eventType string) {
	f := &s.frame
	if len(f.Error) > 0 || f.Object == "error" || eventType == "error" {
		if e, ok := wire.ParseError(raw); ok {
			s.fail(e)
			return
		}
		if eventType == "error" {
			s.fail(wire.APIError{Message: string(raw)})
			return
		}
	}
	if f.Usage != nil {
		s.usage = f.Usage
	}
	for i := range f.Choices {
		c := &f.Choices[i]
		if c.Index != 0 {
			continue // we never ask for more than one
		}
		if c.Usage != nil {
			s.usage = c.Usage
		}
		if len(c.Error) > 0 {
			if e, ok := wire.ParseError([]byte(`{"error":` + string(c.Error) + `}`)); ok {
				s.fail(e)
				return
			}
		}
		s.delta(&c.Delta)
		if c.FinishReason != "" {
			s.finish = c.FinishReason
			// Usage and [DONE] may still come, but not all services send them, and some
			// keep the connection open.
			const tail = 2 * time.Second
			s.Resp.Tail(tail)
		}
	}
}

// delta takes a piece of the message.
func (s *stream) delta(d *delta) {
	if d.ReasoningContent != "" {
		s.write(model.BlockReasoning, d.ReasoningContent)
	} else if d.Reasoning != "" {
		s.write(model.BlockReasoning, string(d.Reasoning))
	}
	if d.Content.reasoning != "" {
		s.write(model.BlockReasoning, d.Content.reasoning)
	}
	if d.Content.text != "" {
		s.write(model.BlockText, d.Content.text)
	}
	if d.Refusal != "" {
		s.write(model.BlockText, d.Refusal) // the model's own words, for the user to read
	}
	for i := range d.ToolCalls {
		s.fragment(&d.ToolCalls[i])
	}
}

// write adds to the open block of this kind, or begins one.
func (s *stream) write(kind, piece string) {
	if s.open != kind {
		s.closeText()
		s.open = kind
		s.Push(model.NewBlockStart(s.blocks, kind))
		s.blocks++
	}
	s.text.WriteString(piece)
	s.Chars += utf8.RuneCountInString(piece)
	if kind == model.BlockText {
		s.Push(model.NewTextDelta(s.blocks-1, piece))
	} else {
		s.Push(model.NewReasoningDelta(s.blocks-1, piece))
	}
}

// closeText ends the open block of text or reasoning. Nothing else begins before that, so
// it is the newest block.
func (s *stream) closeText() {
	if s.open == "" {
		return
	}
	s.Push(model.NewBlockEnd(s.blocks-1, model.Block{Type: s.open, Text: s.text.String()}))
	s.open = ""
	s.text = strings.Builder{} // not Reset: the block has its memory now
}

// ended handles the end of the bytes, orderly or not.
func (s *stream) ended(err error) {
	switch {
	case s.finish != "" && !wire.Aborted(err):
		// The reply is whole. How the connection came to its end is of no interest.
		_ = s.Resp.Close()
		s.complete()
	default:
		s.report()
		s.Broken(err, "no finish_reason had come")
	}
}

// fail ends the stream with an error that the service reported.
func (s *stream) fail(e wire.APIError) {
	s.report()
	s.Err = s.Resp.StreamFailure(e, s.model)
}

// report passes the usage on. It is called once, when no more can come.
func (s *stream) report() {
	if s.usage != nil {
		s.Push(model.NewUsage(s.usage.tokens()))
		s.usage = nil
	}
}

// complete ends the stream of a reply that is whole.
func (s *stream) complete() {
	kind, failure := s.outcome()
	if failure == nil {
		s.closeText()
		s.closeCalls()
	}
	s.report()
	if failure != nil {
		s.Fail(failure)
		return
	}
	s.Push(model.NewFinish(kind))
	s.Err = io.EOF
}

// outcome reads the finish_reason.
func (s *stream) outcome() (kind string, failure *model.Failure) {
	switch s.finish {
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return model.FinishMaxTokens, nil
	case "content_filter", "sensitive":
		return "", model.Failf(model.CodeContentFilter,
			"the service's content filter stopped the reply %s; put the request in other words, or use another model", s.Progress())
	case "error", "network_error", "abort", "insufficient_system_resource":
		return "", model.Failf(model.CodeServer,
			"the service gave up on the reply %s (finish_reason %s); try again", s.Progress(), s.finish)
	}
	// stop, tool_calls, function_call and what else services call a good end. What is to
	// be done follows from what is there: some say stop beside tool calls.
	switch {
	case len(s.calls) > 0:
		return model.FinishToolCalls, nil
	case s.blocks == 0 && !s.afterTool:
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
	if err := json.Unmarshal(body, &s.frame); err != nil || len(s.frame.Choices) == 0 {
		s.Fail(model.Failf(model.CodeServer,
			"the service answered with JSON that is no model's reply; check the base URL and the model: %.100q", body))
		return
	}
	s.usage = s.frame.Usage
	c := &s.frame.Choices[0]
	s.delta(&c.Message)
	s.finish = c.FinishReason
	if s.finish == "" {
		s.Err = s.Resp.Ended("no finish_reason is in it")
		return
	}
	s.complete()
}
