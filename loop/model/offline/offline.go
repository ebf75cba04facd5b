// Package offline is the model provider that is built in: no key, no network, no clock,
// no chance. It is no language model and says so. What it can do is obey a message
// made of these lines, so that tools, policies, sessions and the terminal can be tried:
//
//	call NAME JSON                  one tool call, in a step of its own
//	calls NAME JSON | NAME JSON     several tool calls in one message
//	say TEXT                        answers TEXT, a word a chunk
//	think TEXT                      sends TEXT as reasoning
//	hang                            streams a little and waits for the abort
//	fail CODE                       fails with this code
//
// The lines run in order over the steps of the turn. Think and say lines in front of a
// call belong to its message. When a tool has answered the last line, a short reply sums
// up what the calls gave. A message with a faulty line is answered with what is wrong,
// and none of it runs. Everything else gets a short answer that tells these lines.
//
// The message it obeys is the last one that is not a tool's, where text that the loop or
// a script adds around it (a context snapshot, a note after a tool call) is passed over;
// see instruction. The number of assistant messages after it says which reply is due, so
// a Provider keeps no state and a resumed or forked session goes on where it was.
package offline

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode"

	"dshsh/loop/model"
)

// Name is what Config.Provider selects the provider by, and also the usual name of its
// model; any other model name is answered just the same.
const Name = "offline"

// contextWindow is made up, in a size that is common, so that a display of how full the
// context is has something to show.
const contextWindow = 128_000

// Provider is the offline provider. It is immutable.
type Provider struct{}

var _ model.Provider = (*Provider)(nil)

// New returns the offline provider.
func New() *Provider { return &Provider{} }

// Name implements model.Provider.
func (*Provider) Name() string { return Name }

// Info implements model.Provider.
func (*Provider) Info(string) model.Info { return model.Info{ContextWindow: contextWindow} }

// Stream implements model.Provider. It fails only when ctx is done.
func (*Provider) Stream(ctx context.Context, req *model.Request) (model.Stream, error) {
	if ctx.Err() != nil {
		return nil, model.AsFailure(ctx, context.Cause(ctx))
	}
	r := due(req)
	return &stream{
		ctx:    ctx,
		chunks: r.chunks(req),
		fail:   r.fail,
		closed: make(chan struct{}),
	}, nil
}

// due returns the reply that the request asks for.
func due(req *model.Request) reply {
	if req.Purpose == model.PurposeSummary {
		return reply{says: []say{{text: digest(req)}}}
	}
	at := instruction(req.Messages)
	if at < 0 {
		return reply{says: []say{{text: introduction(req)}}}
	}
	text := req.Messages[at].Words()
	if !isProgram(text) {
		return reply{says: []say{{text: introduction(req)}}}
	}
	p, err := parse(text)
	if err != nil {
		return reply{says: []say{{text: complaint(req, err)}}}
	}
	after := req.Messages[at+1:]
	n := 0
	for _, m := range after {
		if m.Role == model.RoleAssistant {
			n++
		}
	}
	if n >= len(p) {
		return reply{says: []say{{text: summary(after)}}}
	}
	r := p[n]
	if onlyThinks(r) {
		r.says = append(r.says[:len(r.says):len(r.says)], say{text: onlyThought})
	}
	return r
}

// onlyThinks reports whether the reply would end the turn with nothing to see.
func onlyThinks(r reply) bool {
	for _, s := range r.says {
		if !s.think {
			return false
		}
	}
	return len(r.calls) == 0 && !r.hang && r.fail == ""
}

// instruction returns the index of the message to obey, or -1.
//
// It is the last message of the exchange that neither comes from a tool nor is context.
// An exchange reaches back to the last assistant message that called no tool. Messages of
// a plugin that carry a form (snapshot, notice, ...) are context. So are those without
// one, such as what a script adds after a tool call, unless they are programs or nothing
// else stands in the exchange: a script may drive an agent, too.
func instruction(messages []model.Message) int {
	spare := -1 // what to answer if nothing better is found
	for i := len(messages) - 1; i >= 0; i-- {
		m := &messages[i]
		switch {
		case m.Role == model.RoleAssistant:
			if spare >= 0 && len(m.ToolCalls()) == 0 {
				return spare
			}
		case m.Role != model.RoleUser, m.Source.Kind == model.SourceTool:
		case m.Source.Kind == model.SourcePlugin && m.Source.Form != "" && m.Source.Form != formRelay:
		case m.Source.Kind == model.SourcePlugin && !isProgram(m.PlainText()):
			if spare < 0 {
				spare = i
			}
		default:
			return i
		}
	}
	return spare
}

// formRelay marks a plugin's message that passes on what somebody said; it is treated as
// one without a form.
const formRelay = "relay"

// stream yields one reply. Next is called on one goroutine, Close on any.
type stream struct {
	ctx    context.Context
	chunks []model.Chunk // what is left
	fail   string        // the code to fail with after the chunks
	closed chan struct{}
	once   sync.Once // guards the closing of closed
	done   bool      // the finish chunk is out
}

// errClosed is what Next returns after Close.
var errClosed = errors.New("offline: the stream is closed")

// Next implements model.Stream.
func (s *stream) Next() (model.Chunk, error) {
	if err := s.over(); err != nil {
		return model.Chunk{}, err
	}
	switch {
	case len(s.chunks) > 0:
		c := s.chunks[0]
		s.chunks = s.chunks[1:]
		s.done = c.Type == model.ChunkFinish
		return c, nil
	case s.done:
		return model.Chunk{}, io.EOF
	case s.fail != "":
		return model.Chunk{}, model.Failf(s.fail, "the offline provider failed with %s, as the message asked", s.fail)
	}
	// The reply hangs.
	select {
	case <-s.ctx.Done():
	case <-s.closed:
	}
	return model.Chunk{}, s.over()
}

// over returns the error of a stream that was cancelled or closed.
func (s *stream) over() error {
	if s.ctx.Err() != nil {
		return model.AsFailure(s.ctx, context.Cause(s.ctx))
	}
	select {
	case <-s.closed:
		return errClosed
	default:
		return nil
	}
}

// Close implements model.Stream.
func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// chunks returns what the reply streams, up to its finish, hang or failure.
func (r reply) chunks(req *model.Request) []model.Chunk {
	var out []model.Chunk
	index, written := 0, 0
	for _, s := range r.says {
		block, delta := model.Text(s.text), model.NewTextDelta
		if s.think {
			block, delta = model.Reasoning(s.text), model.NewReasoningDelta
		}
		out = append(out, model.NewBlockStart(index, block.Type))
		for _, w := range words(s.text) {
			out = append(out, delta(index, w))
		}
		out = append(out, model.NewBlockEnd(index, block))
		written += len(s.text)
		index++
	}
	if r.hang {
		out = append(out, model.NewBlockStart(index, model.BlockText))
		for _, w := range words(hanging) {
			out = append(out, model.NewTextDelta(index, w))
		}
		return out
	}
	if r.fail != "" {
		return out
	}
	finish := model.FinishStop
	ids := newIDs(req.Messages)
	for _, c := range r.calls {
		id := ids.next()
		out = append(out,
			model.NewBlockStart(index, model.BlockToolCall),
			model.NewToolCallDelta(index, id, c.name, c.arguments),
			model.NewBlockEnd(index, model.ToolCall(id, c.name, c.arguments)))
		written += len(c.arguments)
		index++
		finish = model.FinishToolCalls
	}
	return append(out,
		model.NewUsage(model.Usage{InputTokens: estimate(size(req)), OutputTokens: estimate(written)}),
		model.NewFinish(finish))
}

// words cuts s behind each run of space; joined they are s again.
func words(s string) []string {
	var out []string
	start, space := 0, false
	for i, r := range s {
		if unicode.IsSpace(r) {
			space = true
		} else if space {
			out = append(out, s[start:i])
			start, space = i, false
		}
	}
	return append(out, s[start:])
}

// estimate turns bytes into tokens by the usual rule of thumb.
func estimate(bytes int) int64 { return int64(bytes+3) / 4 }

// size returns the bytes of text in a request.
func size(req *model.Request) int {
	n := len(req.System)
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	for _, m := range req.Messages {
		n += sizeOf(m.Content)
	}
	return n
}

func sizeOf(blocks []model.Block) int {
	n := 0
	for _, b := range blocks {
		n += len(b.Text) + len(b.Arguments) + sizeOf(b.Content)
	}
	return n
}

// oneLine returns the first line of s that is not blank.
func oneLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}
