package wire

import (
	"fmt"
	"io"

	"dshsh/loop/model"
)

// Feed is the part of a model.Stream that providers share: between the events of the
// reply and the queue of chunks. Pull and what it calls are used on one goroutine, Close
// may be called from any.
type Feed struct {
	Resp   *Response
	Events *Events
	// Err is what Pull returns once the queue is empty: io.EOF or a *model.Failure.
	Err error
	// Chars counts the characters of text and reasoning, Calls the tool calls, for
	// Progress.
	Chars, Calls int

	queue []model.Chunk // made, not yet yielded; queue[:head] is gone
	head  int
	began bool
}

// NewFeed returns the Feed of a reply that began with a success.
func NewFeed(resp *Response) Feed { return Feed{Resp: resp, Events: NewEvents(resp)} }

// Pull returns the next chunk. While there is none it calls advance, which reads one
// event and calls Push or sets Err.
func (f *Feed) Pull(advance func()) (model.Chunk, error) {
	for f.head == len(f.queue) {
		if f.Err != nil {
			return model.Chunk{}, f.Err
		}
		f.queue, f.head = f.queue[:0], 0
		advance()
		if f.Err != nil && f.Err != io.EOF {
			_ = f.Resp.Close()
		}
	}
	c := f.queue[f.head]
	f.head++
	return c, nil
}

// Push puts a chunk into the queue.
func (f *Feed) Push(c model.Chunk) { f.queue = append(f.queue, c) }

// Close implements model.Stream.
func (f *Feed) Close() error { return f.Resp.Close() }

// Whole reports, at the first call, whether the reply is no stream but a JSON body: a
// service that does not stream answers with one. A web page, from behind a wrong
// address, becomes Err, as does a reply that ends before it begins, for which Whole
// returns the error as well. No line of an event stream begins like either.
func (f *Feed) Whole() (whole bool, err error) {
	if f.began {
		return false, nil
	}
	f.began = true
	c, err := f.Events.Peek()
	switch {
	case err != nil:
		return false, err
	case c == '<':
		f.Fail(model.Failf(model.CodeUnknown,
			"the address answered with a web page, not with a model's reply; check the base URL, %s", f.Resp.service.urlHint()))
		return false, f.Err
	}
	return c == '{' || c == '[', nil
}

// Body reads the rest of a reply that is whole, and closes.
func (f *Feed) Body() ([]byte, error) {
	const most = 64 << 20
	body, err := io.ReadAll(io.LimitReader(f.Events.Rest(), most))
	if err == nil {
		_ = f.Resp.Close()
	}
	return body, err
}

// Fail ends the stream with a failure, to which what is known of the exchange is added.
func (f *Feed) Fail(failure *model.Failure) { f.Err = f.Resp.Failure(failure) }

// Broken ends the stream with the end of the bytes, orderly (io.EOF) or not. missing says
// what had not come.
func (f *Feed) Broken(err error, missing string) {
	if f.Err != nil {
		return
	}
	failure, ok := err.(*model.Failure)
	switch {
	case err == io.EOF:
		f.Err = f.Resp.Ended(f.Progress() + " " + missing)
	case ok:
		f.Err = failure
	default:
		f.Fail(model.Failf(model.CodeTransport, "the reply cannot be read %s: %w", f.Progress(), err))
	}
}

// Progress says how far the reply came.
func (f *Feed) Progress() string {
	what := "before anything came"
	if f.Chars > 0 || f.Calls > 0 {
		what = fmt.Sprintf("after %d characters", f.Chars)
	}
	if f.Calls == 1 {
		what += " and a tool call"
	} else if f.Calls > 1 {
		what += fmt.Sprintf(" and %d tool calls", f.Calls)
	}
	return what
}

// Aborted reports whether err is the failure of a call that was cancelled.
func Aborted(err error) bool {
	f, ok := err.(*model.Failure)
	return ok && f.Code == model.CodeAborted
}
