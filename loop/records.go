package loop

import (
	"encoding/json"

	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/runtime"
)

// Types of the records that the loop writes. Shapes are the structs below.
const (
	RecInboxSpliced      = "agent/inbox/spliced"
	RecTurnStart         = "turn/start"
	RecTurnEnd           = "turn/end"
	RecStepStart         = "step/start"
	RecStepEnd           = "step/end"
	RecUserMessage       = "user/message" // surface; data is the model.Message itself
	RecRequestHeader     = "request/header"
	RecRequestContext    = "request/context"
	RecChunk             = "assistant/chunk"
	RecAssistant         = "assistant/message" // surface
	RecToolCall          = "tool/call"
	RecToolResult        = "tool/result" // surface
	RecToolRewritten     = "tool/rewritten"
	RecTodos             = "todo/write" // the last one counts
	RecCodeStart         = "tool/code-dispatch-start"
	RecCodeDispatch      = "tool/code-dispatch"
	RecApprovalAsked     = "approval/asked"
	RecApprovalDecided   = "approval/decided"
	RecScriptState       = "script/state"
	RecHookDecision      = "hook/decision"      // ignorable
	RecHookError         = "hook/error"         // ignorable
	RecQuarantined       = "script/quarantined" // ignorable
	RecGeneration        = "scripts/generation" // ignorable
	RecGrant             = "script/grant"       // ignorable
	RecCompactionStart   = "compaction/start"
	RecCompactionSummary = "compaction/summary" // the message that replaces follows at once
	RecCompactionPrune   = "compaction/prune"   // the same, without a summary of its own
	RecCompactionEnd     = "compaction/end"
	RecEndSeed           = "session/end-seed" // written by the session package
)

// Todos is the list of what the model has to do, whole.
type Todos struct {
	Todos []tool.Todo `json:"todos"`
}

// Inbox targets.
const (
	NextTurn = "next-turn"
	NextStep = "next-step"
)

// Spliced is one mutation of the inbox.
type Spliced struct {
	Target       string          `json:"target"` // next-turn or next-step
	Start        int             `json:"start"`
	RemovedCount int             `json:"removedCount,omitempty"`
	Inserted     []model.Message `json:"inserted"`
	Outcome      string          `json:"outcome,omitempty"` // "canceled" when something was removed by other than a claim
}

// TurnStart opens a turn. Generation is the scripts' that it holds.
type TurnStart struct {
	Turn       int `json:"turn"`
	Generation int `json:"generation"`
}

// TurnEnd closes a turn.
type TurnEnd struct {
	Turn   int       `json:"turn"`
	Reason EndReason `json:"reason"`
}

// Kinds of an EndReason.
const (
	EndCompleted   = "completed"
	EndMaxTokens   = "max-tokens"
	EndBlocked     = "blocked"
	EndAborted     = "aborted"
	EndError       = "error"
	EndInterrupted = "interrupted" // only written by repair
)

// EndReason says how a turn ended: Reason with aborted, Error with error.
type EndReason struct {
	Kind   string         `json:"kind"`
	Reason *Cause         `json:"reason,omitempty"`
	Error  *model.Failure `json:"error,omitempty"`
}

// StepMark is a step/start or a step/end.
type StepMark struct {
	Turn int `json:"turn"`
	Step int `json:"step"`
}

// Header is what a request is made of besides its messages. Empty members are absent.
type Header struct {
	Config          model.Config     `json:"config"`
	AdapterDefaults *AdapterDefaults `json:"adapterDefaults,omitempty"`
	System          string           `json:"system,omitempty"`
	Tools           []model.ToolSpec `json:"tools,omitempty"`
}

// AdapterDefaults marks the values of a config that the provider's defaults supplied.
type AdapterDefaults struct {
	ReasoningEffort bool `json:"reasoningEffort,omitempty"`
	MaxTokens       bool `json:"maxTokens,omitempty"`
}

// RequestHeader is logged before a request whose header differs from the last one.
type RequestHeader struct {
	Header Header `json:"header"`
	Reason string `json:"reason"` // initial, resume or change
}

// RequestContext is logged beside the header when it changed.
type RequestContext struct {
	Provider      string `json:"provider"`
	Model         string `json:"model"`
	ContextWindow int    `json:"contextWindow,omitempty"`
}

// ChunkRecord is one streamed chunk.
type ChunkRecord struct {
	Turn  int         `json:"turn"`
	Step  int         `json:"step"`
	Chunk model.Chunk `json:"chunk"`
}

// AssistantMessage is a reply, whole or the kept part of a cancelled one.
type AssistantMessage struct {
	Turn        int           `json:"turn"`
	Step        int           `json:"step"`
	Message     model.Message `json:"message"`
	Usage       *model.Usage  `json:"usage,omitempty"`
	Interrupted bool          `json:"interrupted,omitempty"`
}

// ToolCallRecord is written when a call starts, before any policy. Arguments is what the
// model wrote.
type ToolCallRecord struct {
	Turn      int    `json:"turn"`
	Step      int    `json:"step"`
	CallID    string `json:"callId"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// ToolResultRecord is a call's outcome, in model order.
type ToolResultRecord struct {
	Turn    int             `json:"turn"`
	Step    int             `json:"step"`
	Message model.Message   `json:"message"`
	Error   *ErrorInfo      `json:"error,omitempty"`
	Meta    json.RawMessage `json:"meta,omitempty"`
}

// ErrorInfo is a coded failure's name and code.
type ErrorInfo struct {
	Name string `json:"name"`
	Code string `json:"code"`
}

// CodeStart is a call that a program of run_code makes, when it starts, before any policy.
type CodeStart struct {
	RootCallID   string          `json:"rootCallId"`   // of the model's call
	ParentCallID string          `json:"parentCallId"` // of the run_code; the same, since a program runs no other
	SubCallID    string          `json:"subCallId"`
	Name         string          `json:"name"`
	Arguments    json.RawMessage `json:"arguments"`
}

// CodeDispatch is what came of such a call, in the order of their starts.
type CodeDispatch struct {
	CodeStart
	IsError bool          `json:"isError"`
	Content []model.Block `json:"content"` // as tools/code-dispatch-log left it
}

// ToolRewritten says that a call ran with other arguments than the model asked for.
type ToolRewritten struct {
	CallID    string          `json:"callId"`
	Arguments json.RawMessage `json:"arguments"`
	By        []string        `json:"by"` // the scripts that rewrote them
}

// ApprovalAsked and ApprovalDecided record a question to the person.
type ApprovalAsked struct {
	ID       string `json:"id"`
	ToolName string `json:"toolName"`
	CallID   string `json:"callId,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// ApprovalDecided is the answer to ApprovalAsked: allowed-once, rejected, cancelled or
// unavailable. Rule is the rule of the user's that answered for the person, in words.
type ApprovalDecided struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	Rule    string `json:"rule,omitempty"`
}

// HookDecision is a waterfall whose outcome a script changed, or in which one failed.
type HookDecision struct {
	Event   string            `json:"event"`
	Turn    int               `json:"turn,omitempty"`
	Step    int               `json:"step,omitempty"`
	CallID  string            `json:"callId,omitempty"`
	Input   json.RawMessage   `json:"input,omitempty"` // the arguments, at most 4 KiB of them
	Layers  []runtime.Verdict `json:"layers"`
	Decided string            `json:"decided"`
}

// HookError is a contained failure of a script.
type HookError struct {
	Event   string `json:"event"`
	Turn    int    `json:"turn,omitempty"`
	Step    int    `json:"step,omitempty"`
	Script  string `json:"script"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// Quarantined says that a script's listeners fail from now on.
type Quarantined struct {
	Script string `json:"script"`
	Hash   string `json:"hash"`
	Reason string `json:"reason"`
}

// GenerationRecord names the scripts of a generation.
type GenerationRecord struct {
	Generation int               `json:"generation"`
	Scripts    []GenerationEntry `json:"scripts"`
}

// GenerationEntry is one script of a GenerationRecord.
type GenerationEntry struct {
	Name  string `json:"name"`
	Layer string `json:"layer"`
	Hash  string `json:"hash"`
}

// Cause says who cancelled: user, parent, hook (with a reason) or disposed. It is the
// error that the turn's context ends with. Immutable.
type Cause struct {
	Kind   string `json:"kind" enum:"user|parent|hook|disposed|legacy"`
	Reason string `json:"reason,omitempty"`
}

// Kinds of a Cause.
const (
	CauseUser     = "user"
	CauseParent   = "parent"
	CauseHook     = "hook"
	CauseDisposed = "disposed"
)

func (c *Cause) Error() string {
	if c.Reason != "" {
		return "cancelled by " + c.Kind + ": " + c.Reason
	}
	return "cancelled by " + c.Kind
}

// surface says whether a record type stands on the surface that the model sees.
func surface(typ string) bool {
	return typ == RecUserMessage || typ == RecAssistant || typ == RecToolResult
}

// CompactionStart opens a compaction; Turn is nil outside a turn.
type CompactionStart struct {
	CompactionID string `json:"compactionId"`
	Turn         *int   `json:"turn"`
}

// CompactionSummary is the summary that stands in the place of a part of the surface from
// the next record on. The originals stay in the log.
type CompactionSummary struct {
	CompactionID       string       `json:"compactionId"`
	Summary            string       `json:"summary"`
	ShadowedRange      SeqRange     `json:"shadowedRange"`
	ShadowedSeqs       []int64      `json:"shadowedSeqs"`
	ShadowedTokenCount int          `json:"shadowedTokenCount"` // about
	Provider           string       `json:"provider"`
	Model              string       `json:"model"`
	MaxTokens          int          `json:"maxTokens,omitempty"`
	Usage              *model.Usage `json:"usage,omitempty"`         // of all calls that it took
	LLMStreamCall      bool         `json:"llmStreamCall,omitempty"` // a model wrote it
}

// CompactionPrune is a part of the surface that the next record stands for, without a
// summary of its own.
type CompactionPrune struct {
	ShadowedRange      SeqRange `json:"shadowedRange"`
	ShadowedSeqs       []int64  `json:"shadowedSeqs"`
	ShadowedTokenCount int      `json:"shadowedTokenCount"`
}

// CompactionEnd closes a compaction. With Error nothing was replaced.
type CompactionEnd struct {
	CompactionID string         `json:"compactionId"`
	Turn         *int           `json:"turn"`
	Error        *model.Failure `json:"error,omitempty"`
}
