package loop

import (
	"encoding/json"

	"dshsh/loop/model"
	"dshsh/runtime"
)

// The one catalogue of events. A live event is an interception or a signal that must
// carry the live agent; durable facts are session records, read through session/event.

// AgentPayload is the payload of events that carry nothing but the agent.
type AgentPayload struct {
	Agent  Agent `json:"agent"`
	Replay bool  `json:"replay,omitempty"` // told again to a script that came into force later
}

// SessionStartPayload is the payload of agent/session-start.
type SessionStartPayload struct {
	Agent  Agent  `json:"agent"`
	Source string `json:"source"` // startup or resume
	Replay bool   `json:"replay,omitempty"`
}

// StatusPayload is the payload of agent/status.
type StatusPayload struct {
	Agent  Agent  `json:"agent"`
	Status string `json:"status"` // idle or running
}

// InboxPayload is the payload of agent/inbox/*.
type InboxPayload struct {
	Agent   Agent         `json:"agent"`
	Message model.Message `json:"message"`
	Turn    int           `json:"turn,omitempty"` // claimed only
}

// TurnPayload is the payload of events of a turn.
type TurnPayload struct {
	Agent  Agent           `json:"agent"`
	Turn   int             `json:"turn"`
	Signal *runtime.Signal `json:"signal,omitempty"`
}

// TurnEndPayload is the payload of agent/turn-end.
type TurnEndPayload struct {
	Agent  Agent     `json:"agent"`
	Turn   int       `json:"turn"`
	Reason EndReason `json:"reason"`
}

// AbortPayload is the payload of agent/turn-aborting. Signal is the listener's own, not
// the cancelled turn's.
type AbortPayload struct {
	Agent  Agent           `json:"agent"`
	Turn   int             `json:"turn"`
	Cause  *Cause          `json:"cause"`
	Signal *runtime.Signal `json:"signal"`
}

// PreStepPayload is the payload of agent/pre-step.
type PreStepPayload struct {
	Agent    Agent           `json:"agent"`
	Messages []model.Message `json:"messages"`
	Turn     int             `json:"turn"`
	Step     int             `json:"step"` // proposed, before step/start exists
	Signal   *runtime.Signal `json:"signal"`
}

// StepDecision is the result of agent/pre-step: reject, or enter with the messages.
type StepDecision struct {
	Kind     string          `json:"kind" enum:"reject|enter"`
	Messages []model.Message `json:"messages,omitempty"`
}

// Assembly is what a request's prompt is made of; the result of system-prompt/assemble.
type Assembly struct {
	Sections  []PromptSection   `json:"sections"`
	Contexts  []model.Section   `json:"contexts"`
	Tools     []model.ToolSpec  `json:"tools"`
	Variables map[string]string `json:"variables"`
}

// PromptSection is a piece of the system prompt. {{name}} in its text stands for a
// variable, unless it is Literal: what comes from a person's files is.
type PromptSection struct {
	Name    string `json:"name"`
	Text    string `json:"text"`
	Order   int    `json:"order,omitempty"` // ascending; equal ones stay as they are
	Literal bool   `json:"literal,omitempty"`
}

// AssemblePayload is the payload of system-prompt/assemble.
type AssemblePayload struct {
	Agent Agent `json:"agent"`
	Assembly
	Signal *runtime.Signal `json:"signal"`
}

// StepPayload is the payload of events of a step.
type StepPayload struct {
	Agent  Agent           `json:"agent"`
	Turn   int             `json:"turn"`
	Step   int             `json:"step"`
	Signal *runtime.Signal `json:"signal"`
}

// StreamPayload is the payload of llm/stream.
type StreamPayload struct {
	Agent   Agent          `json:"agent"`
	Request *model.Request `json:"request"`
}

// ChunksPayload is the payload of agent/stream-chunk.
type ChunksPayload struct {
	Agent  Agent         `json:"agent"`
	Turn   int           `json:"turn"`
	Step   int           `json:"step"`
	Chunks []model.Chunk `json:"chunks"`
}

// RequestErrorPayload is the payload of agent/request-error.
type RequestErrorPayload struct {
	Agent       Agent           `json:"agent"`
	Turn        int             `json:"turn"`
	Step        int             `json:"step"`
	Provider    string          `json:"provider"`
	Failure     *model.Failure  `json:"failure"`
	RetryPolicy *RetryPolicy    `json:"retryPolicy,omitempty"`
	Signal      *runtime.Signal `json:"signal"`
}

// Recovery is the result of agent/request-error; the zero value gives up.
type Recovery struct {
	Kind    string `json:"kind" enum:"retry"`
	AfterMs int64  `json:"afterMs,omitempty"`
}

// StepResultPayload is the payload of agent/step-result.
type StepResultPayload struct {
	Agent   Agent         `json:"agent"`
	Turn    int           `json:"turn"`
	Step    int           `json:"step"`
	Message model.Message `json:"message"`
	Finish  string        `json:"finish"`
}

// StepResult is the result of agent/step-result: the message to record.
type StepResult struct {
	Message model.Message `json:"message"`
}

// ErrorPayload is the payload of agent/error. Error is the very value that failed; Step
// is the last step that was opened, 0 if none.
type ErrorPayload struct {
	Agent Agent `json:"agent"`
	Turn  int   `json:"turn"`
	Step  int   `json:"step"`
	Error error `json:"error"`
}

// Continuation is the result of agent/turn-continuation.
type Continuation struct {
	Kind     string          `json:"kind" enum:"stop|continue"`
	Messages []model.Message `json:"messages,omitempty"`
}

// SeqRange names records of the surface by their numbers, both included.
type SeqRange struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// CompactionPayload is the payload of compaction/before: these messages are about to be
// replaced by a summary.
type CompactionPayload struct {
	Agent        Agent           `json:"agent"`
	Reason       string          `json:"reason"` // threshold, overflow or command
	Range        SeqRange        `json:"range"`
	Seqs         []int64         `json:"seqs"`                   // of the records that are replaced
	Tokens       int             `json:"tokens"`                 // of them, about
	Instructions string          `json:"instructions,omitempty"` // the person's, for the summary
	Turn         int             `json:"turn,omitempty"`         // none outside a turn
	Signal       *runtime.Signal `json:"signal"`
}

// Compaction is the result of compaction/before; the zero value has the model summarise.
type Compaction struct {
	Kind    string  `json:"kind,omitempty" enum:"veto"`
	Summary string  `json:"summary,omitempty"` // instead of the model's
	Pin     []int64 `json:"pin,omitempty"`     // records that stay as they are
}

// CompactedPayload is the payload of compaction/after. Range and Tokens are of what was
// replaced.
type CompactedPayload struct {
	Agent   Agent    `json:"agent"`
	Reason  string   `json:"reason"`
	Range   SeqRange `json:"range"`
	Tokens  int      `json:"tokens"`
	Summary string   `json:"summary"`
	Turn    int      `json:"turn,omitempty"`
}

// SessionPayload is the payload of session/created, session/flush, session/disposed.
type SessionPayload struct {
	Session *Session `json:"session"`
}

// RecordPayload is the payload of session/event.
type RecordPayload struct {
	Session *Session `json:"session"`
	Event   Event    `json:"event"`
	Agent   Agent    `json:"agent,omitempty"`
}

// Event is a session record as listeners read it.
type Event struct {
	Type            string          `json:"type"`
	Seq             int64           `json:"seq"`
	Time            int64           `json:"time"`
	Data            json.RawMessage `json:"data"`
	Ignorable       bool            `json:"ignorable,omitempty"`
	SurfaceOp       json.RawMessage `json:"surfaceOp,omitempty"`
	SourceEventSeqs []int64         `json:"sourceEventSeqs,omitempty"`
}

// ScriptsPayload is the payload of scripts/loaded and scripts/unloaded.
type ScriptsPayload struct {
	Generation int      `json:"generation"`
	Names      []string `json:"names"`
}

// ReloadFailedPayload is the payload of scripts/reload-failed.
type ReloadFailedPayload struct {
	Generation int      `json:"generation"` // the one that stays in force
	Names      []string `json:"names"`
	Error      error    `json:"error"`
}

// InputPayload is the payload of repl/input.
type InputPayload struct {
	Agent Agent  `json:"agent"`
	Text  string `json:"text"`
}

// Input is the result of repl/input: the text to go on with, or handled.
type Input struct {
	Kind string `json:"kind,omitempty" enum:"handled"`
	Text string `json:"text,omitempty"`
}

func emitSample(event, js string) runtime.Sample {
	return runtime.Sample{
		JS:  "ctx.on('" + event + "', (e) => { ctx.log(" + js + "); });",
		Lua: "ctx.on('" + event + "', function(e) ctx.log(" + js + ") end)",
	}
}

// The events.
var (
	AgentCreated = runtime.NewEmit[AgentPayload]("agent/created",
		"An agent was published. A throw vetoes its creation.", emitSample("agent/created", "e.agent.id"))
	AgentDisposed = runtime.NewEmit[AgentPayload]("agent/disposed",
		"An agent is gone; its session is still stored.", emitSample("agent/disposed", "e.agent.id"))
	AgentSessionStart = runtime.NewSerial[SessionStartPayload]("agent/session-start",
		"Once per agent, right after it was created; its first turn waits for it. A throw is contained.",
		runtime.Sample{
			JS:  "ctx.on('agent/session-start', ({ agent }) => { agent.inject('Today is a good day.'); });",
			Lua: "ctx.on('agent/session-start', function(e) e.agent:inject('Today is a good day.') end)",
		}, runtime.Contained())
	AgentStatus = runtime.NewEmit[StatusPayload]("agent/status",
		"The agent became running or idle.", emitSample("agent/status", "e.status"))
	InboxInserted = runtime.NewEmit[InboxPayload]("agent/inbox/inserted",
		"A message was queued.", emitSample("agent/inbox/inserted", "e.message.id"))
	InboxClaimed = runtime.NewEmit[InboxPayload]("agent/inbox/claimed",
		"A queued message was taken into a turn.", emitSample("agent/inbox/claimed", "e.turn"))
	InboxDiscarded = runtime.NewEmit[InboxPayload]("agent/inbox/discarded",
		"A queued message was removed unread.", emitSample("agent/inbox/discarded", "e.message.id"))
	TurnStarted = runtime.NewEmit[TurnPayload]("agent/turn-start",
		"A turn was opened; the live twin of the record turn/start.", emitSample("agent/turn-start", "e.turn"))
	TurnEnded = runtime.NewEmit[TurnEndPayload]("agent/turn-end",
		"A turn was closed; the live twin of the record turn/end.", emitSample("agent/turn-end", "e.reason.kind"))
	TurnStarting = runtime.NewSerial[TurnPayload]("agent/turn-starting",
		"Once per turn, before its first step. A throw refuses the turn: no model is called.",
		runtime.Sample{
			JS:  "ctx.on('agent/turn-starting', ({ turn }) => { if (turn > 50) throw new Error('turn budget spent'); });",
			Lua: "ctx.on('agent/turn-starting', function(e) if e.turn > 50 then error('turn budget spent') end end)",
		})
	PreStep = runtime.NewWaterfall[PreStepPayload, StepDecision]("agent/pre-step",
		"Wraps every proposed step: enter with these messages, or reject. A throw fails the turn.",
		runtime.Sample{
			JS:  "ctx.on('agent/pre-step', async (p, next) => next());",
			Lua: "ctx.on('agent/pre-step', function(p, next) return next() end)",
		}, runtime.Rules[PreStepPayload, StepDecision]{
			Decode:     decodeStepDecision,
			Outcome:    func(d StepDecision) string { return d.Kind },
			Quarantine: func(string) (StepDecision, error) { return StepDecision{Kind: "reject"}, nil },
		})
	AssemblePrompt = runtime.NewWaterfall[AssemblePayload, Assembly]("system-prompt/assemble",
		"Builds the system prompt, the runtime context and the list of tools. What is returned is used.",
		runtime.Sample{
			JS:  "ctx.on('system-prompt/assemble', async (p, next) => { const a = await next(); return { ...a, sections: [...a.sections, { name: 'tone', text: 'Be brief.' }] }; });",
			Lua: "ctx.on('system-prompt/assemble', function(p, next) local a = next():totable() a.sections = { { name = 'tone', text = 'Be brief.' } } return a end)",
		}, runtime.Rules[AssemblePayload, Assembly]{})
	AgentRequest = runtime.NewWaterfall[StepPayload, model.Config]("agent/request",
		"Chooses the model and its settings before every request, retries included.",
		runtime.Sample{
			JS:  "ctx.on('agent/request', async (p, next) => ({ ...(await next()), temperature: 0 }));",
			Lua: "ctx.on('agent/request', function(p, next) local c = next():totable() c.temperature = 0 return c end)",
		}, runtime.Rules[StepPayload, model.Config]{})
	LLMStream = runtime.NewWaterfall[StreamPayload, *Reply]("llm/stream",
		"Wraps every model call: pass it on, or answer with a canned reply {text?, toolCalls?, finish?}.",
		runtime.Sample{
			JS:  "ctx.on('llm/stream', ({ request }, next) => request.model === 'none' ? { text: 'no model today' } : next());",
			Lua: "ctx.on('llm/stream', function(p, next) if p.request.model == 'none' then return { text = 'no model today' } end return next() end)",
		}, runtime.Rules[StreamPayload, *Reply]{Decode: decodeReply})
	StreamChunk = runtime.NewEmit[ChunksPayload]("agent/stream-chunk",
		"Chunks of a reply arrived, in batches.", emitSample("agent/stream-chunk", "e.step"))
	RequestError = runtime.NewWaterfall[RequestErrorPayload, Recovery]("agent/request-error",
		"A model call failed, the step is still open: {kind:'retry', afterMs?} tries again.",
		runtime.Sample{
			JS:  "ctx.on('agent/request-error', ({ failure }) => { if (failure.code === 'SERVER') return { kind: 'retry', afterMs: 100 }; });",
			Lua: "ctx.on('agent/request-error', function(e) if e.failure.code == 'SERVER' then return { kind = 'retry', afterMs = 100 } end end)",
		}, runtime.Rules[RequestErrorPayload, Recovery]{Outcome: func(r Recovery) string { return r.Kind }})
	StepResultEvent = runtime.NewWaterfall[StepResultPayload, StepResult]("agent/step-result",
		"May replace the assistant's message before it is recorded and its tools run.",
		runtime.Sample{
			JS:  "ctx.on('agent/step-result', (p, next) => next());",
			Lua: "ctx.on('agent/step-result', function(p, next) return next() end)",
		}, runtime.Rules[StepResultPayload, StepResult]{Decode: decodeStepResult})
	TurnContinuation = runtime.NewWaterfall[TurnPayload, Continuation]("agent/turn-continuation",
		"At a natural stop with nothing queued for the next step: {kind:'continue', messages} goes on.",
		runtime.Sample{
			JS:  "ctx.on('agent/turn-continuation', (p, next) => next());",
			Lua: "ctx.on('agent/turn-continuation', function(p, next) return next() end)",
		}, runtime.Rules[TurnPayload, Continuation]{
			Decode:  decodeContinuation,
			Outcome: func(c Continuation) string { return c.Kind },
		})
	TurnStopping = runtime.NewSerial[TurnPayload]("agent/turn-stopping",
		"The turn would end here; steer or inject to go on.",
		runtime.Sample{
			JS:  "let asked = false;\nctx.on('agent/turn-stopping', ({ agent }) => { if (!asked) { asked = true; agent.steer('Are you sure?'); } });",
			Lua: "local asked = false\nctx.on('agent/turn-stopping', function(e) if not asked then asked = true e.agent:steer('Are you sure?') end end)",
		}, runtime.SkipQuarantined())
	TurnAborting = runtime.NewSerial[AbortPayload]("agent/turn-aborting",
		"The turn was cancelled; once, before its end is recorded.", emitSample("agent/turn-aborting", "e.cause.kind"),
		runtime.SkipQuarantined())
	AgentError = runtime.NewEmit[ErrorPayload]("agent/error",
		"A turn failed, or a listener of its abort did.", emitSample("agent/error", "e.error.message"))
	CompactionBefore = runtime.NewWaterfall[CompactionPayload, Compaction]("compaction/before",
		"The conversation is about to be shortened: {kind:'veto'} keeps it, {summary} is used instead of the model's, {pin:[seq]} keeps records as they are.",
		runtime.Sample{
			JS:  "ctx.on('compaction/before', ({ seqs, reason }) => reason === 'threshold' ? { pin: [seqs[0]] } : undefined);",
			Lua: "ctx.on('compaction/before', function(e) if e.reason == 'threshold' then return { pin = { e.seqs[1] } } end end)",
		}, runtime.Rules[CompactionPayload, Compaction]{Decode: decodeCompaction, Outcome: Compaction.outcome})
	CompactionAfter = runtime.NewEmit[CompactedPayload]("compaction/after",
		"A summary stands in the place of a part of the conversation.", emitSample("compaction/after", "e.tokens"))
	SessionCreated = runtime.NewEmit[SessionPayload]("session/created",
		"A session was opened.", emitSample("session/created", "e.session.id"))
	SessionEvent = runtime.NewEmit[RecordPayload]("session/event",
		"A record was committed to the log. A throw on turn/start, step/start or step/end fails the turn.",
		emitSample("session/event", "e.event.type"))
	SessionFlush = runtime.NewParallel[SessionPayload]("session/flush",
		"Somebody asks for what is buffered to be written.", emitSample("session/flush", "e.session.id"))
	SessionDisposed = runtime.NewEmit[SessionPayload]("session/disposed",
		"A session was closed.", emitSample("session/disposed", "e.session.id"))
	ScriptsLoaded = runtime.NewEmit[ScriptsPayload]("scripts/loaded",
		"A generation of scripts came into force.", emitSample("scripts/loaded", "e.generation"))
	ScriptsReloadFailed = runtime.NewEmit[ReloadFailedPayload]("scripts/reload-failed",
		"A changed script did not load; the old one stays.", emitSample("scripts/reload-failed", "e.error.message"))
	ScriptsUnloaded = runtime.NewEmit[ScriptsPayload]("scripts/unloaded",
		"Scripts are no longer part of the newest generation.", emitSample("scripts/unloaded", "e.generation"))
	ReplInput = runtime.NewWaterfall[InputPayload, Input]("repl/input",
		"A line was typed: rewrite it with {text}, or swallow it with {kind:'handled'}.",
		runtime.Sample{
			JS:  "ctx.on('repl/input', ({ text }) => text === 'hi' ? { text: 'Good morning.' } : undefined);",
			Lua: "ctx.on('repl/input', function(e) if e.text == 'hi' then return { text = 'Good morning.' } end end)",
		}, runtime.Rules[InputPayload, Input]{Outcome: func(i Input) string {
			if i.Kind != "" {
				return i.Kind
			}
			return "text"
		}})
)

// Catalogue is every event that ctx.on knows.
func Catalogue() *runtime.Catalogue { return catalogue }

var catalogue = runtime.NewCatalogue(
	AgentCreated.Event, AgentDisposed.Event, AgentSessionStart.Event, AgentStatus.Event,
	InboxInserted.Event, InboxClaimed.Event, InboxDiscarded.Event,
	TurnStarted.Event, TurnEnded.Event, TurnStarting.Event, PreStep.Event,
	AssemblePrompt.Event, AgentRequest.Event, LLMStream.Event, StreamChunk.Event, RequestError.Event,
	StepResultEvent.Event, PreExecute.Event, ApprovalRequest.Event, ToolsExecute.Event, PostExecute.Event, ToolsResult.Event, CodeLog.Event,
	WriteIntent.Event, EditIntent.Event, FileObserved.Event,
	TurnContinuation.Event, TurnStopping.Event, TurnAborting.Event, AgentError.Event,
	CompactionBefore.Event, CompactionAfter.Event,
	SessionCreated.Event, SessionEvent.Event, SessionFlush.Event, SessionDisposed.Event,
	ScriptsLoaded.Event, ScriptsReloadFailed.Event, ScriptsUnloaded.Event, ReplInput.Event,
).WithHint(func(name string) string {
	if relational[name] || free[name] {
		return "it is a record; ctx.on('session/event', ...) hears every record, and event.type names it"
	}
	return ""
})
