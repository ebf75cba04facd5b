// Package model is the contract between the loop and whatever produces the
// assistant's replies: the message and chunk shapes (which are also what the
// session log holds), the request, the provider interface and the failure that
// every provider error becomes.
//
// Shapes follow the session log's vocabulary exactly; the `json` tags are the one
// place where the names are given, so the log, JavaScript and Lua all read the same.
// Every type of this file is plain data: treat a value as immutable once it has been
// handed to the loop.
package model

import (
	"context"
	"encoding/json"
)

// Roles of a Message.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Message is one entry of the conversation.
type Message struct {
	ID      string  `json:"id"`
	Role    string  `json:"role"`
	Content []Block `json:"content"`
	Source  Source  `json:"source"`
}

// Block types.
const (
	BlockText       = "text"
	BlockReasoning  = "reasoning"
	BlockImage      = "image"
	BlockToolCall   = "tool-call"
	BlockToolResult = "tool-result"
)

// Block is one part of a message's content. Type says which of the other fields
// mean something:
//
//	text, reasoning   Text
//	image             Attachment (a reference; opaque to the loop)
//	tool-call         ID, Name, Arguments (the raw JSON text that the model wrote)
//	tool-result       ToolCallID, Content (blocks), IsError
type Block struct {
	Type       string          `json:"type"`
	Text       string          `json:"text,omitempty"`
	Attachment json.RawMessage `json:"attachment,omitempty"`
	ID         string          `json:"id,omitempty"`
	Name       string          `json:"name,omitempty"`
	Arguments  string          `json:"arguments,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	Content    []Block         `json:"content,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
}

// Text returns a text block.
func Text(s string) Block { return Block{Type: BlockText, Text: s} }

// Source kinds.
const (
	SourceUser   = "user"
	SourcePlugin = "plugin"
	SourceModel  = "model"
	SourceTool   = "tool"
)

// Source says where a message came from. Kind decides which fields are set:
// plugin (Plugin, Form, Sections, Summary), model (Provider, Model, ReplayState),
// tool (CallID). In dshsh a script is the plugin: Plugin is its identity, such as
// "project/guard.js".
type Source struct {
	Kind        string          `json:"kind"`
	Plugin      string          `json:"plugin,omitempty"`
	Form        string          `json:"form,omitempty"`
	Sections    []Section       `json:"sections,omitempty"`
	Summary     string          `json:"summary,omitempty"`
	Provider    string          `json:"provider,omitempty"`
	Model       string          `json:"model,omitempty"`
	ReplayState json.RawMessage `json:"replayState,omitempty"`
	CallID      string          `json:"callId,omitempty"`
}

// Section is a named piece of prompt text.
type Section struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Chunk types.
const (
	ChunkBlockStart     = "block-start"
	ChunkTextDelta      = "text-delta"
	ChunkReasoningDelta = "reasoning-delta"
	ChunkToolCallDelta  = "tool-call-delta"
	ChunkBlockEnd       = "block-end"
	ChunkUsage          = "usage"
	ChunkFinish         = "finish"
)

// Chunk is one piece of a streamed reply. Type decides which fields are set:
//
//	block-start                  Index, BlockType
//	text-delta, reasoning-delta  Index, Text
//	tool-call-delta              Index, ID, Name (first delta of a call), ArgumentsDelta
//	block-end                    Index, Block (authoritative)
//	usage                        Usage
//	finish                       Reason, ReplayState; the last chunk of a stream
type Chunk struct {
	Type           string          `json:"type"`
	Index          *int            `json:"index,omitempty"`
	BlockType      string          `json:"blockType,omitempty"`
	Text           string          `json:"text,omitempty"`
	ID             string          `json:"id,omitempty"`
	Name           string          `json:"name,omitempty"`
	ArgumentsDelta string          `json:"argumentsDelta,omitempty"`
	Block          *Block          `json:"block,omitempty"`
	Usage          *Usage          `json:"usage,omitempty"`
	Reason         *Finish         `json:"reason,omitempty"`
	ReplayState    json.RawMessage `json:"replayState,omitempty"`
}

// Finish kinds.
const (
	FinishStop      = "stop"
	FinishToolCalls = "tool-calls"
	FinishMaxTokens = "max-tokens"
	FinishAborted   = "aborted"
	FinishError     = "error"
)

// Finish says why a stream ended. Failure is set for aborted and error only.
type Finish struct {
	Kind    string   `json:"kind"`
	Failure *Failure `json:"failure,omitempty"`
}

// Usage counts tokens of one model call.
type Usage struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens,omitempty"`
	CacheWriteTokens int64 `json:"cacheWriteTokens,omitempty"`
	ReasoningTokens  int64 `json:"reasoningTokens,omitempty"`
}

// Failure codes. CodeUnknown is what an error without a code of its own gets.
const (
	CodeUnknown           = "UNKNOWN"
	CodeNoAdapter         = "NO_ADAPTER"
	CodeAborted           = "ABORTED"
	CodeEmptyResponse     = "EMPTY_RESPONSE"
	CodeRateLimit         = "RATE_LIMIT"
	CodeServer            = "SERVER"
	CodeTimeout           = "TIMEOUT"
	CodeTransport         = "TRANSPORT"
	CodeQuota             = "QUOTA"
	CodeContextWindow     = "CONTEXT_WINDOW_EXCEEDED"
	CodeInvalidCredential = "INVALID_CREDENTIAL"
	CodeContentFilter     = "CONTENT_FILTER" // the service refused or cut the reply for its content; a retry is in vain
)

// Failure is how a model call failed, as the log records it. It is an error, so a
// provider returns it directly. Message says what happened and what to do about it.
type Failure struct {
	Message              string `json:"message"`
	Code                 string `json:"code"`
	Status               int    `json:"status,omitempty"`               // HTTP status, if there was one
	ProviderRetryAfterMs *int64 `json:"providerRetryAfterMs,omitempty"` // what the provider asked us to wait
	RequestID            string `json:"requestId,omitempty"`

	cause error
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns what WithCause put in, or nil.
func (f *Failure) Unwrap() error { return f.cause }

// WithCause returns a copy that errors.Is and errors.As see through to err.
func (f *Failure) WithCause(err error) *Failure {
	g := *f
	g.cause = err
	return &g
}

// Config is the part of a request that says which model answers and how.
type Config struct {
	Provider        string   `json:"provider"`
	Model           string   `json:"model"`
	ReasoningEffort string   `json:"reasoningEffort,omitempty"`
	Temperature     *float64 `json:"temperature,omitempty"`
	MaxTokens       int      `json:"maxTokens,omitempty"`
	Stop            []string `json:"stop,omitempty"`
}

// ToolSpec is what the model is told of a tool. Parameters is a JSON Schema object.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Request is one model call. Providers read it and never change it.
type Request struct {
	Config
	Messages  []Message  `json:"messages"`
	System    string     `json:"system,omitempty"`
	Tools     []ToolSpec `json:"tools,omitempty"`
	SessionID string     `json:"sessionId"`
	// Purpose is PurposeSummary where the loop itself asks; "" is a step of a turn. No
	// service is told.
	Purpose string `json:"purpose,omitempty"`
}

// PurposeSummary is the Purpose of a request for a summary of the conversation.
const PurposeSummary = "summary"

// Info is what a provider knows of one of its models.
type Info struct {
	ContextWindow   int    // tokens; 0 when unknown
	ReasoningEffort string // the provider's default, applied when the config has none; "" for none
	MaxTokens       int    // likewise; 0 for none
}

// Provider speaks to one model service. Its methods may be called from any goroutine.
type Provider interface {
	// Name is what Config.Provider selects it by.
	Name() string
	// Info reports what is known of a model. It does no I/O.
	Info(model string) Info
	// Stream starts one call and returns when the service has begun to answer, or
	// before. It is called off the host thread. Cancelling ctx ends the call at once:
	// the socket is closed and Next returns. A failure is best a *Failure; anything
	// else becomes one with code UNKNOWN (or ABORTED when ctx is done).
	Stream(ctx context.Context, req *Request) (Stream, error)
}

// Stream yields the chunks of one reply. One goroutine uses it, off the host thread.
type Stream interface {
	// Next blocks for the next chunk. After the finish chunk it returns io.EOF. A
	// stream that ends without a finish chunk in any other way returns an error: an
	// early end, a cut or an error inside a 200 is never a success.
	Next() (Chunk, error)
	// Close releases the connection. It may be called at any time, more than once.
	Close() error
}
