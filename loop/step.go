package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"dshsh/loop/model"
	"dshsh/runtime"
)

// stepOutcome is what a step leaves to the turn.
type stepOutcome struct {
	owed      bool // tools ran: the model owes its response to them
	maxTokens bool
}

// step is one model call, with its retries, and the tools that it asks for.
func (a *agent) step(act *activity, asm Assembly, msgs []model.Message) (res stepOutcome, err error) {
	act.step++
	thrown, err := a.appendMark(RecStepStart, StepMark{Turn: act.turn, Step: act.step})
	if err != nil {
		act.step--
		return res, err
	}
	act.stepOpen = true
	if thrown != nil {
		return res, thrown
	}
	for _, m := range msgs {
		if _, err := a.append(RecUserMessage, m); err != nil {
			return res, err
		}
	}
	msg, finish, err := a.ask(act, asm)
	if err != nil {
		return res, err
	}
	res.maxTokens = finish == model.FinishMaxTokens
	var calls []model.Block
	for _, b := range msg.Content {
		if b.Type == model.BlockToolCall {
			calls = append(calls, b)
		}
	}
	if len(calls) > 0 {
		concluded, err := a.runCalls(act, calls)
		if err != nil {
			return res, err
		}
		res.owed = !concluded
	}
	if err := act.check(); err != nil {
		return res, err
	}
	return res, a.closeStep(act)
}

// ask gets the model's reply, trying again where agent/request-error says so and then
// with the next model of Config.Fallback, and records it. A cancelled reply keeps what is worth keeping.
func (a *agent) ask(act *activity, asm Assembly) (model.Message, string, error) {
	act.retries, act.shrunk = map[string]int{}, 0
	for {
		req, err := a.request(act, asm)
		if err != nil {
			return model.Message{}, "", err
		}
		if err := a.makeRoom(act, req, asm); err != nil {
			return model.Message{}, "", err
		}
		got, err := a.stream(act, req)
		if err != nil {
			return model.Message{}, "", err
		}
		if act.aborted() {
			return model.Message{}, "", errors.Join(context.Cause(act.ctx), a.keepInterrupted(act, req, got))
		}
		fin := got.asm.Finish()
		if fin.Kind != model.FinishError && fin.Kind != model.FinishAborted {
			msg, err := a.recordReply(act, req, got)
			return msg, fin.Kind, err
		}
		failure := fin.Failure
		if failure == nil {
			failure = &model.Failure{Message: "the model call failed", Code: model.CodeUnknown}
		}
		again, err := a.recover(act, req, failure)
		if err != nil {
			return model.Message{}, "", err
		}
		if err := act.check(); err != nil {
			return model.Message{}, "", err
		}
		if !again && failure.Code == model.CodeContextWindow {
			if err := a.shrink(act, req, asm, failure); err != nil {
				return model.Message{}, "", err
			}
			again = true
		}
		if !again {
			if again, err = a.fallBack(act, req, failure); err != nil {
				return model.Message{}, "", err
			}
		}
		if !again {
			if got.err != nil && failure.Unwrap() == nil {
				failure = failure.WithCause(got.err)
			}
			return model.Message{}, "", failure
		}
	}
}

// received is one attempt's reply.
type received struct {
	asm  *model.Assembler
	seqs []int64 // of its chunk records
	err  error   // what the provider failed with, if it did
}

// keepInterrupted records the kept prefix of a cancelled reply.
func (a *agent) keepInterrupted(act *activity, req *model.Request, got received) error {
	blocks := got.asm.Interrupted()
	if len(blocks) == 0 {
		return nil
	}
	msg := model.Message{ID: a.newID("a"), Role: model.RoleAssistant, Content: blocks,
		Source: model.Source{Kind: model.SourceModel, Provider: req.Provider, Model: req.Model}}
	_, err := a.append(RecAssistant, AssistantMessage{Turn: act.turn, Step: act.step, Message: msg, Usage: got.asm.Usage(), Interrupted: true}, orEmpty(got.seqs)...)
	return err
}

// orEmpty makes an absent list a present empty one, as assistant/message allows.
func orEmpty(seqs []int64) []int64 {
	if seqs == nil {
		return []int64{}
	}
	return seqs
}

// recordReply offers the message to agent/step-result and records it.
func (a *agent) recordReply(act *activity, req *model.Request, got received) (model.Message, error) {
	msg := got.asm.Message(a.newID("a"), req.Config)
	p := StepResultPayload{Agent: a, Turn: act.turn, Step: act.step, Message: msg, Finish: got.asm.Finish().Kind}
	r, err := StepResultEvent.Run(a.h.Host, a.awaiting(act), p, func(p StepResultPayload) (StepResult, error) {
		return StepResult{Message: p.Message}, nil
	})
	if err != nil {
		return msg, err
	}
	_, err = a.append(RecAssistant, AssistantMessage{Turn: act.turn, Step: act.step, Message: r.Message, Usage: got.asm.Usage()}, orEmpty(got.seqs)...)
	return r.Message, err
}

// request makes the request of one attempt: agent/request chooses the model, and a header
// that differs from the last one is logged.
func (a *agent) request(act *activity, asm Assembly) (*model.Request, error) {
	seed := a.header.seed(a.opts)
	if n := act.fallback; n > 0 {
		r := a.h.cfg.Fallback[n-1]
		seed = model.Config{Provider: r.Provider, Model: r.Model, MaxTokens: a.opts.MaxTokens}
	}
	cfg, err := AgentRequest.Run(a.h.Host, a.awaiting(act), StepPayload{Agent: a, Turn: act.turn, Step: act.step, Signal: act.signal},
		func(StepPayload) (model.Config, error) { return seed, nil })
	if err != nil {
		return nil, err
	}
	if err := act.check(); err != nil {
		return nil, err
	}
	if cfg.Provider == "" || cfg.Model == "" {
		return nil, errors.New("no provider and model: set one with --provider and --model, or from a script with agent/request")
	}
	a.header.routed = true
	info := a.h.info(cfg)
	h := Header{Tools: asm.Tools}
	h.Config, h.AdapterDefaults = applyDefaults(cfg, info)
	if h.System, err = renderSystem(asm, h.Config); err != nil {
		return nil, err
	}
	if act.fallback > 0 && a.header.first == nil {
		a.header.first = a.header.last
	}
	if err := a.logHeader(h, info); err != nil {
		return nil, err
	}
	if act.fallback == 0 {
		a.header.first = nil
	}
	return &model.Request{Config: h.Config, Messages: a.history.derive(), System: h.System, Tools: h.Tools, SessionID: a.id}, nil
}

// stream makes one model call and records its chunks as they come.
func (a *agent) stream(act *activity, req *model.Request) (received, error) {
	got := received{asm: model.NewAssembler()}
	err := a.read(act, req, &got, func(batch []model.Chunk) error {
		for _, c := range batch {
			rec, err := a.append(RecChunk, ChunkRecord{Turn: act.turn, Step: act.step, Chunk: c})
			if err != nil {
				return err
			}
			got.seqs = append(got.seqs, rec.Seq)
			got.asm.Add(c)
			if act.aborted() {
				return nil
			}
		}
		StreamChunk.Fire(a.h.Host, a.target(), ChunksPayload{Agent: a, Turn: act.turn, Step: act.step, Chunks: batch})
		return nil
	})
	return got, err
}

// read makes one model call and hands its chunks to take, in batches as they come, until
// the stream has ended or the activity has. take adds them to got.
func (a *agent) read(act *activity, req *model.Request, got *received, take func(batch []model.Chunk) error) error {
	reply, err := LLMStream.Run(a.h.Host, a.awaiting(act), StreamPayload{Agent: a, Request: req},
		func(p StreamPayload) (*Reply, error) { return a.h.reply(p.Request), nil })
	if err != nil {
		return err
	}
	if act.aborted() {
		return nil
	}
	ctx, cancel := context.WithCancel(act.ctx)
	pump := startPump(ctx, reply)
	defer func() {
		cancel()
		_ = a.h.Thread.Away(pump.join)
	}()
	for !got.asm.Finished() {
		batch, err := a.receive(act, pump)
		if act.aborted() || err == io.EOF {
			return nil // no finish chunk means stop
		}
		if err != nil {
			// A provider's failure is an in-band finish, recorded as any other chunk.
			got.err = err
			batch = append(batch, finishOf(ctx, err))
		}
		if err := take(batch); err != nil {
			return err
		}
		if act.aborted() {
			return nil
		}
	}
	return nil
}

func finishOf(ctx context.Context, err error) model.Chunk {
	f := model.AsFailure(ctx, err)
	kind := model.FinishError
	if f.Code == model.CodeAborted {
		kind = model.FinishAborted
	}
	return model.Chunk{Type: model.ChunkFinish, Reason: &model.Finish{Kind: kind, Failure: f}}
}

// Reply is a model's answer to come, as llm/stream hands it through: scripts can return
// it and nothing else.
type Reply struct {
	open func(ctx context.Context) (model.Stream, error)
}

var replyClass = &runtime.Class{Name: "reply", Doc: "The model's answer to come. It can only be returned."}

// Class implements runtime.Object.
func (*Reply) Class() *runtime.Class { return replyClass }

// reply is the answer of the request's provider.
func (h *Host) reply(req *model.Request) *Reply {
	p := h.providers[req.Provider]
	return &Reply{open: func(ctx context.Context) (model.Stream, error) {
		if p == nil {
			return nil, &model.Failure{Message: fmt.Sprintf("no provider %q is configured", req.Provider), Code: model.CodeNoAdapter}
		}
		return p.Stream(ctx, req)
	}}
}

// cannedReply is what a script may answer llm/stream with.
type cannedReply struct {
	Text      string       `json:"text,omitempty"`
	ToolCalls []cannedCall `json:"toolCalls,omitempty"`
	Finish    string       `json:"finish,omitempty" enum:"stop|tool-calls|max-tokens"`
}

type cannedCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func decodeReply(p StreamPayload, _ *runtime.Listener, v runtime.Value) (*Reply, error) {
	if r, ok := v.(*Reply); ok {
		return r, nil
	}
	var c cannedReply
	if err := runtime.Decode(v, &c); err != nil {
		return nil, err
	}
	a := p.Agent.(*agent)
	chunks := c.chunks(func() string { return a.newID("canned-") })
	return &Reply{open: func(context.Context) (model.Stream, error) { return &cannedStream{chunks: chunks}, nil }}, nil
}

func (c cannedReply) chunks(newID func() string) []model.Chunk {
	var out []model.Chunk
	block := func(b model.Block) {
		i := len(out) / 2
		out = append(out, model.Chunk{Type: model.ChunkBlockStart, Index: &i, BlockType: b.Type}, model.Chunk{Type: model.ChunkBlockEnd, Index: &i, Block: &b})
	}
	if c.Text != "" {
		block(model.Text(c.Text))
	}
	finish := model.FinishStop
	for _, call := range c.ToolCalls {
		finish = model.FinishToolCalls
		args := string(call.Arguments)
		if args == "" {
			args = "{}"
		}
		block(model.Block{Type: model.BlockToolCall, ID: newID(), Name: call.Name, Arguments: args})
	}
	if c.Finish != "" {
		finish = c.Finish
	}
	return append(out, model.Chunk{Type: model.ChunkFinish, Reason: &model.Finish{Kind: finish}})
}

type cannedStream struct{ chunks []model.Chunk }

func (s *cannedStream) Next() (model.Chunk, error) {
	if len(s.chunks) == 0 {
		return model.Chunk{}, io.EOF
	}
	c := s.chunks[0]
	s.chunks = s.chunks[1:]
	return c, nil
}

func (s *cannedStream) Close() error { return nil }
