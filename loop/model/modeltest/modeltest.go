// Package modeltest has stand-ins for a model service: Provider, a scripted
// model.Provider for tests of whatever drives one, and Server, an HTTP server on
// loopback that speaks the streaming wire formats of OpenAI and Anthropic, for tests of
// the providers and of the whole program.
//
// A script is a list of answers, one for each request:
//
//	p := modeltest.New(
//		modeltest.Tool("c1", "echo", `{"text":"ping"}`),
//		modeltest.Text("pong"),
//	)
//
// A Provider uses no clock and no real I/O, so it works inside a testing/synctest bubble
// when it was made in there. A Server uses a socket and real time.
package modeltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"dshsh/loop/model"
)

// Answer is what a Provider does with one request. It is immutable and may be used for
// several requests.
type Answer struct {
	items []Item
	fn    func(ctx context.Context, req *model.Request) Answer
}

// Item is one thing that an answer does. It is immutable.
type Item struct {
	chunks []model.Chunk
	err    error           // ends the stream
	early  bool            // err is returned by Stream itself
	gate   <-chan struct{} // waited for, as the context is
	hang   bool
	do     func()
}

// Play returns an answer made of items, played in order. After the last the stream is at
// its end: if there was no finish chunk that is an early end, as of a broken provider.
func Play(items ...Item) Answer { return Answer{items: items} }

// Reply returns an answer that streams exactly these chunks.
func Reply(chunks ...model.Chunk) Answer { return Play(Send(chunks...)) }

// Text returns an answer of one text block, streamed one character a delta:
// Text("abc") is seven chunks, block-start, three deltas, block-end, usage, finish stop.
// The usage is one input token and one output token a character.
func Text(s string) Answer {
	n := int64(utf8.RuneCountInString(s))
	return Reply(append(textChunks(0, model.BlockText, s, true),
		model.NewUsage(model.Usage{InputTokens: 1, OutputTokens: n}),
		model.NewFinish(model.FinishStop))...)
}

// Truncated is Text cut by the token limit.
func Truncated(s string) Answer {
	return Reply(append(textChunks(0, model.BlockText, s, true), model.NewFinish(model.FinishMaxTokens))...)
}

// Call is a tool call of a scripted answer. Arguments is raw JSON text.
type Call struct{ ID, Name, Arguments string }

// Tool returns an answer that is one tool call: block-start, one delta, block-end, finish
// tool-calls.
func Tool(id, name, arguments string) Answer { return Tools(Call{id, name, arguments}) }

// Tools returns an answer with several tool calls in one message.
func Tools(calls ...Call) Answer { return Say("", calls...) }

// Say returns an answer with text, if it is not empty, before its tool calls.
func Say(text string, calls ...Call) Answer {
	var chunks []model.Chunk
	next := 0
	if text != "" {
		chunks = textChunks(0, model.BlockText, text, true)
		next++
	}
	for _, c := range calls {
		chunks = append(chunks,
			model.NewBlockStart(next, model.BlockToolCall),
			model.NewToolCallDelta(next, c.ID, c.Name, c.Arguments),
			model.NewBlockEnd(next, model.ToolCall(c.ID, c.Name, c.Arguments)))
		next++
	}
	kind := model.FinishToolCalls
	if len(calls) == 0 {
		kind = model.FinishStop
	}
	return Reply(append(chunks, model.NewFinish(kind))...)
}

// Hang returns an answer that streams partial as the beginning of a text block, if it is
// not empty, and then waits until the request is cancelled.
func Hang(partial string) Answer {
	return Play(Send(textChunks(0, model.BlockText, partial, false)...), Block())
}

// Fail returns an answer whose stream breaks with a Failure before its first chunk. A
// failure after chunks is Play(Send(...), Break(err)); one in band is
// Reply(model.NewFailureFinish(f)).
func Fail(code, message string) Answer {
	return Play(Break(&model.Failure{Code: code, Message: message}))
}

// Refuse returns an answer for which Stream itself returns err.
func Refuse(err error) Answer { return Play(Item{err: err, early: true}) }

// Func returns an answer that is decided when the request is there. fn runs on the
// goroutine that called Stream; the request is a copy of its own.
func Func(fn func(ctx context.Context, req *model.Request) Answer) Answer { return Answer{fn: fn} }

// Send yields the chunks.
func Send(chunks ...model.Chunk) Item { return Item{chunks: chunks} }

// SendText yields a whole text block with the given index, one character a delta.
func SendText(index int, text string) Item {
	return Send(textChunks(index, model.BlockText, text, true)...)
}

// Gate waits until gate is closed or gives a value. The request's cancel and Close end
// the wait.
func Gate(gate <-chan struct{}) Item { return Item{gate: gate} }

// Block waits until the request is cancelled or the stream closed.
func Block() Item { return Item{hang: true} }

// Break ends the stream with err.
func Break(err error) Item { return Item{err: err} }

// Do calls fn on the goroutine that reads the stream.
func Do(fn func()) Item { return Item{do: fn} }

func textChunks(index int, kind, text string, whole bool) []model.Chunk {
	if text == "" && !whole {
		return nil
	}
	delta := model.NewTextDelta
	if kind == model.BlockReasoning {
		delta = model.NewReasoningDelta
	}
	chunks := []model.Chunk{model.NewBlockStart(index, kind)}
	for _, r := range text {
		chunks = append(chunks, delta(index, string(r)))
	}
	if whole {
		chunks = append(chunks, model.NewBlockEnd(index, model.Block{Type: kind, Text: text}))
	}
	return chunks
}

// Provider is a model.Provider that plays a script. Its methods may be called from any
// goroutine. The exported fields are set before the first use.
type Provider struct {
	ProviderName string     // what Name returns; "fake" by default
	ModelInfo    model.Info // what Info returns for every model

	mu        sync.Mutex       // guards what follows
	answers   []Answer         // not yet used
	otherwise *Answer          // for requests after the last
	requests  []*model.Request // what came, copied
	stats     Stats
	changed   chan struct{} // closed and renewed when stats change
}

var _ model.Provider = (*Provider)(nil)

// Stats counts what has happened to a Provider.
type Stats struct {
	Requests int // calls of Stream
	Open     int // streams that neither ended nor were closed
	Hanging  int // streams that wait in Block or Gate at this moment
	Left     int // answers not used yet
}

// New returns a Provider that gives these answers, one for each request.
func New(answers ...Answer) *Provider {
	return &Provider{
		ProviderName: "fake",
		answers:      answers,
		stats:        Stats{Left: len(answers)},
		changed:      make(chan struct{}),
	}
}

// Add puts more answers at the end of the script.
func (p *Provider) Add(answers ...Answer) {
	p.update(func() {
		p.answers = append(p.answers[:len(p.answers):len(p.answers)], answers...)
		p.stats.Left = len(p.answers)
	})
}

// Otherwise gives answer to every request after the script's last, instead of failing.
// It returns p.
func (p *Provider) Otherwise(answer Answer) *Provider {
	p.update(func() { p.otherwise = &answer })
	return p
}

// Name implements model.Provider.
func (p *Provider) Name() string { return p.ProviderName }

// Info implements model.Provider.
func (p *Provider) Info(string) model.Info { return p.ModelInfo }

// Requests returns the requests so far, oldest first. They are copies made when they
// came, and are shared with other callers: only read them.
func (p *Provider) Requests() []*model.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[:len(p.requests):len(p.requests)]
}

// Last returns the newest request, or nil if there was none.
func (p *Provider) Last() *model.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) == 0 {
		return nil
	}
	return p.requests[len(p.requests)-1]
}

// Stats returns the present counts.
func (p *Provider) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Wait returns when the counts satisfy until, or with an error that tells them when ctx
// is done. It must not be called while something that the stream's reader needs is held.
func (p *Provider) Wait(ctx context.Context, until func(Stats) bool) error {
	for {
		p.mu.Lock()
		stats, changed := p.stats, p.changed
		p.mu.Unlock()
		if until(stats) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("modeltest: wait given up at %+v: %w", stats, context.Cause(ctx))
		}
	}
}

// WaitRequests returns when n requests have come.
func (p *Provider) WaitRequests(ctx context.Context, n int) error {
	return p.Wait(ctx, func(s Stats) bool { return s.Requests >= n })
}

// WaitHanging returns when a stream has reached a Block or a closed Gate and waits there.
func (p *Provider) WaitHanging(ctx context.Context) error {
	return p.Wait(ctx, func(s Stats) bool { return s.Hanging > 0 })
}

func (p *Provider) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Stream implements model.Provider. A request after the script's last fails with code
// UNKNOWN, which nothing retries, and says what it was.
func (p *Provider) Stream(ctx context.Context, req *model.Request) (model.Stream, error) {
	var answer Answer
	var found bool
	var n int
	p.update(func() {
		p.requests = append(p.requests, req.Clone())
		p.stats.Requests++
		n = p.stats.Requests
		switch {
		case len(p.answers) > 0:
			answer, found = p.answers[0], true
			p.answers = p.answers[1:]
			p.stats.Left = len(p.answers)
		case p.otherwise != nil:
			answer, found = *p.otherwise, true
		}
	})
	if !found {
		return nil, ranOut(n, req)
	}
	for answer.fn != nil {
		answer = answer.fn(ctx, req.Clone())
	}
	if ctx.Err() != nil {
		return nil, model.AsFailure(ctx, context.Cause(ctx))
	}
	for _, item := range answer.items {
		if item.early {
			return nil, item.err
		}
	}
	p.update(func() { p.stats.Open++ })
	s := &stream{provider: p, items: answer.items}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s, nil
}

// ranOut is the failure of request n, for which the script has no answer.
func ranOut(n int, req *model.Request) error {
	last := "without messages"
	if len(req.Messages) > 0 {
		m := req.Messages[len(req.Messages)-1]
		last = fmt.Sprintf("whose last message is %s %q", m.Role, model.PlainText(m.Content))
	}
	return model.Failf(model.CodeUnknown,
		"modeltest: the script has no answer for request %d, %s; give New one more, or use Otherwise", n, last)
}

// errClosed is what Next returns after Close.
var errClosed = errors.New("modeltest: the stream is closed")

// stream plays one answer. Next is called on one goroutine, Close on any.
type stream struct {
	provider *Provider
	ctx      context.Context
	cancel   context.CancelCauseFunc
	items    []Item
	pos      int // in the chunks of items[0]
	finished bool
	err      error // sticky
	once     sync.Once
}

func (s *stream) Next() (model.Chunk, error) {
	c, err := s.next()
	if err != nil {
		s.err = err
		s.end()
	}
	return c, err
}

func (s *stream) next() (model.Chunk, error) {
	if s.err != nil {
		return model.Chunk{}, s.err
	}
	for {
		if s.ctx.Err() != nil {
			return model.Chunk{}, s.cancelled()
		}
		if s.finished {
			return model.Chunk{}, io.EOF
		}
		if len(s.items) == 0 {
			return model.Chunk{}, model.Failf(model.CodeTransport,
				"modeltest: the answer ended without a finish chunk: %w", io.ErrUnexpectedEOF)
		}
		item := s.items[0]
		if s.pos < len(item.chunks) {
			c := item.chunks[s.pos]
			s.pos++
			s.finished = c.Type == model.ChunkFinish
			return c, nil
		}
		s.items, s.pos = s.items[1:], 0
		switch {
		case item.err != nil:
			return model.Chunk{}, item.err
		case item.do != nil:
			item.do()
		case item.hang, item.gate != nil:
			s.wait(item.gate)
		}
	}
}

// wait blocks until the gate opens (never, when it is nil) or the stream is over.
func (s *stream) wait(gate <-chan struct{}) {
	select {
	case <-gate: // open already: no need to tell anyone
		return
	default:
	}
	s.provider.update(func() { s.provider.stats.Hanging++ })
	defer s.provider.update(func() { s.provider.stats.Hanging-- })
	select {
	case <-gate:
	case <-s.ctx.Done():
	}
}

func (s *stream) cancelled() error {
	cause := context.Cause(s.ctx)
	if errors.Is(cause, errClosed) {
		return cause
	}
	return model.AsFailure(s.ctx, cause)
}

func (s *stream) end() {
	s.once.Do(func() {
		s.cancel(errClosed)
		s.provider.update(func() { s.provider.stats.Open-- })
	})
}

func (s *stream) Close() error {
	s.end()
	return nil
}
