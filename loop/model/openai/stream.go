package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	resp      *wire.Response
	events    *wire.Events
	model     string
	afterTool bool // the request ended with tool results: an empty reply is an answer

	queue []model.Chunk // made, not yet yielded; queue[:head] is gone
	head  int
	err   error // what Next returns once the queue is empty

	began  bool
	frame  frame // the newest
	blocks int   // how many blocks were begun
	open   string
	text   strings.Builder // of the open block
	calls  []*call
	chars  int // of text and reasoning, for messages
	usage  *usage
	finish string // the finish_reason, once it came
}

var _ model.Stream = (*stream)(nil)

func newStream(resp *wire.Response, req *model.Request) *stream {
	s := &stream{resp: resp, events: wire.NewEvents(resp), model: req.Model}
	if n := len(req.Messages); n > 0 {
		s.afterTool = req.Messages[n-1].Source.Kind == model.SourceTool
	}
	return s
}

// Next implements model.Stream. Errors are io.EOF and *model.Failure.
func (s *stream) Next() (model.Chunk, error) {
	for s.head == len(s.queue) {
		if s.err != nil {
			return model.Chunk{}, s.err
		}
		s.queue, s.head = s.queue[:0], 0
		s.advance()
		if s.err != nil && s.err != io.EOF {
			_ = s.resp.Close()
		}
	}
	c := s.queue[s.head]
	s.head++
	return c, nil
}

// Close implements model.Stream.
func (s *stream) Close() error { return s.resp.Close() }

// advance reads one event and puts what it means into the queue, or into err.
func (s *stream) advance() {
	if !s.began {
		s.began = true
		// A service that does not stream answers with a JSON body, and one behind a
		// wrong address with a page. No line of an event stream begins like either.
		switch c, err := s.events.Peek(); {
		case err != nil:
			s.ended(err)
			return
		case c == '{' || c == '[':
			s.whole()
			return
		case c == '<':
			s.err = s.resp.Failure(model.Failf(model.CodeUnknown,
				"the address answered with a web page, not with a model's reply; check the base URL, which often ends in /v1"))
			return
		}
	}
	ev, err := s.events.Next()
	if err != nil {
		s.ended(err)
		return
	}
	data := bytes.TrimSpace(ev.Data)
	if len(data) == 0 {
		return
	}
	s.resp.Data()
	if string(data) == "[DONE]" {
		if s.finish == "" {
			s.report()
			s.err = s.resp.Ended(s.progress() + " [DONE] came, but no finish_reason")
			return
		}
		s.resp.Drain()
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
	for n := 0; s.err == nil; n++ {
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
	case s.err != nil:
	case s.finish != "":
		s.complete() // whatever this is, the reply was whole before it
	case ev.Type == "error":
		s.fail(wire.APIError{Message: string(data)})
	case ev.Cut:
		// The cut went through this frame. The next read tells how it ended.
		if _, cut := s.events.Next(); cut != nil {
			s.ended(cut)
		}
	default:
		s.err = s.resp.Failure(model.Failf(model.CodeServer,
			"the service sent a frame that is not a piece of a reply, %s: %.100q: %w", s.progress(), data, err))
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
			s.resp.Tail(tail)
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
		s.push(model.NewBlockStart(s.blocks, kind))
		s.blocks++
	}
	s.text.WriteString(piece)
	s.chars += utf8.RuneCountInString(piece)
	if kind == model.BlockText {
		s.push(model.NewTextDelta(s.blocks-1, piece))
	} else {
		s.push(model.NewReasoningDelta(s.blocks-1, piece))
	}
}

// closeText ends the open block of text or reasoning. Nothing else begins before that, so
// it is the newest block.
func (s *stream) closeText() {
	if s.open == "" {
		return
	}
	s.push(model.NewBlockEnd(s.blocks-1, model.Block{Type: s.open, Text: s.text.String()}))
	s.open = ""
	s.text = strings.Builder{} // not Reset: the block has its memory now
}

func (s *stream) push(c model.Chunk) { s.queue = append(s.queue, c) }

// ended handles the end of the bytes, orderly or not.
func (s *stream) ended(err error) {
	switch {
	case s.finish != "" && !aborted(err):
		// The reply is whole. How the connection came to its end is of no interest.
		_ = s.resp.Close()
		s.complete()
	case err == io.EOF:
		s.report()
		s.err = s.resp.Ended(s.progress() + " no finish_reason had come")
	default:
		s.report()
		if f, ok := err.(*model.Failure); ok {
			s.err = f
		} else {
			s.err = s.resp.Failure(model.Failf(model.CodeTransport, "the reply cannot be read %s: %w", s.progress(), err))
		}
	}
}

func aborted(err error) bool {
	f, ok := err.(*model.Failure)
	return ok && f.Code == model.CodeAborted
}

// progress says how far the reply came.
func (s *stream) progress() string {
	what := "before anything came"
	if s.chars > 0 || len(s.calls) > 0 {
		what = fmt.Sprintf("after %d characters", s.chars)
	}
	if n := len(s.calls); n == 1 {
		what += " and a tool call"
	} else if n > 1 {
		what += fmt.Sprintf(" and %d tool calls", n)
	}
	return what
}

// fail ends the stream with an error that the service reported.
func (s *stream) fail(e wire.APIError) {
	s.report()
	s.err = s.resp.StreamFailure(e, s.model)
}

// report passes the usage on. It is called once, when no more can come.
func (s *stream) report() {
	if s.usage != nil {
		s.push(model.NewUsage(s.usage.tokens()))
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
		s.err = s.resp.Failure(failure)
		return
	}
	s.push(model.NewFinish(kind))
	s.err = io.EOF
}

// outcome reads the finish_reason.
func (s *stream) outcome() (kind string, failure *model.Failure) {
	switch s.finish {
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return model.FinishMaxTokens, nil
	case "content_filter", "sensitive":
		return "", model.Failf(model.CodeContentFilter,
			"the service's content filter stopped the reply %s; put the request in other words, or use another model", s.progress())
	case "error", "network_error", "abort", "insufficient_system_resource":
		return "", model.Failf(model.CodeServer,
			"the service gave up on the reply %s (finish_reason %s); try again", s.progress(), s.finish)
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
	const most = 64 << 20
	body, err := io.ReadAll(io.LimitReader(s.events.Rest(), most))
	if err != nil {
		s.ended(err)
		return
	}
	_ = s.resp.Close()
	if e, ok := wire.ParseError(body); ok {
		s.fail(e)
		return
	}
	if err := json.Unmarshal(body, &s.frame); err != nil || len(s.frame.Choices) == 0 {
		s.err = s.resp.Failure(model.Failf(model.CodeServer,
			"the service answered with JSON that is no model's reply; check the base URL and the model: %.100q", body))
		return
	}
	s.usage = s.frame.Usage
	c := &s.frame.Choices[0]
	s.delta(&c.Message)
	s.finish = c.FinishReason
	if s.finish == "" {
		s.err = s.resp.Ended("no finish_reason is in it")
		return
	}
	s.complete()
}
