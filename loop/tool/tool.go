// Package tool is the contract between the loop and the tools that an agent may
// call, with the parts that every tool needs: checked arguments, coded failures and
// bounded output. The built-in tools are in the packages below this one.
//
// A tool is one value that implements [Tool]. What else it can say of itself, it
// says by implementing more interfaces: [ConcurrencySafer], [Reader], [PathUser],
// [CommandUser], [Timeouter]. A tool that implements none of them is the careful
// case: it runs alone, is taken to change things, and has no limit of its own.
package tool

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"dshsh/loop/model"
)

// Tool is something the model can call.
//
// All methods, those of the optional interfaces too, may be called from any
// goroutine and at the same time; a tool guards its own state. Only Execute may block.
type Tool interface {
	// Spec is what the model is told. It does no I/O and gives the same answer each
	// time; Parameters is a JSON Schema of type object.
	Spec() model.ToolSpec

	// Execute runs one call. The loop calls it off the host thread, after the
	// arguments were checked against Spec().Parameters and every policy has allowed
	// them. args is one valid JSON value. When ctx ends it must stop what it does, leave
	// no process behind and return soon; the loop waits for it however long that takes.
	//
	// A failure is best an *[Error], whose name and code are recorded; the text of any
	// other error is shown to the model all the same. When it returns an error, a
	// Content that is not empty is shown to the model after the error's text: what
	// a command printed before it was ended is worth keeping.
	Execute(ctx context.Context, args json.RawMessage, x *Exec) (Result, error)
}

// ConcurrencySafer is implemented by a tool of which calls may run beside other safe
// calls. Without it, and wherever it answers false, a call runs alone.
type ConcurrencySafer interface {
	ConcurrencySafe(args json.RawMessage) bool
}

// Reader is implemented by a tool that can tell that a call changes nothing outside
// this process. Without it, and wherever it answers false, the call is taken to change
// things: the session log is synced before it starts, and the default policy asks.
type Reader interface {
	ReadOnly(args json.RawMessage) bool
}

// PathUser is implemented by a tool whose arguments name files. Policies judge these
// paths, so the list must be complete: each file that the call would read or change.
// Arguments that cannot be decoded give nil.
type PathUser interface {
	Paths(args json.RawMessage) []PathUse
}

// PathUse is one file that a call would use. Path is absolute and clean: what the
// arguments say, resolved against the tool's folder, links not followed (a policy
// follows them). Plain data.
type PathUse struct {
	Path  string `json:"path"`
	Write bool   `json:"write"`
}

// CommandUser is implemented by a tool that runs a shell command. Command returns the
// command as the shell would be given it and the absolute folder that it starts in if that agent
// calls; arguments that cannot be decoded give "".
type CommandUser interface {
	Command(args json.RawMessage, agentID string) (command, dir string)
}

// Previewer is implemented by a tool that can tell what a call would change, for the
// person who is asked. Preview changes nothing and gives a unified diff, "" when it knows of
// none; an error is why the call would fail. It may block, and is called off the host thread
// with an Exec of which only the exported fields are set.
type Previewer interface {
	Preview(ctx context.Context, args json.RawMessage, x *Exec) (diff string, err error)
}

// Timeouter is implemented by a tool whose calls the loop is to end after a time: the
// context that Execute gets is then cancelled with cause [context.DeadlineExceeded].
// 0 is no limit. A tool that keeps its own clock does not implement it.
type Timeouter interface {
	Timeout(args json.RawMessage) time.Duration
}

// Finalizer is implemented by a tool that puts the last hand to what the model sees of a
// call: it is called once for each of its calls, whatever came of it, denials included.
// It may change the content alone; nil keeps it, an error makes the call a failure. It is
// called on the host thread and must not block.
type Finalizer interface {
	FinalizeContent(content []model.Block, isError bool) ([]model.Block, error)
}

// Result is what a call that worked gives back. Plain data.
type Result struct {
	Content []model.Block   // what the model sees; empty is shown as no content
	Value   json.RawMessage // the same for programs (run_code, scripts): any JSON value; nil for none
	Meta    json.RawMessage // for the log and the terminal, never for the model; nil for none
}

// TextResult returns a result whose content is one text block.
func TextResult(text string) Result {
	return Result{Content: []model.Block{model.Text(text)}}
}

// Exec is one call as the tool's body sees it. The loop makes it and sets the exported
// fields before it calls Execute; nobody changes them after that. The methods may be
// called from any goroutine.
type Exec struct {
	CallID  string // the call's id, unique in the session
	AgentID string // the agent that calls

	// FilesDir is the folder beside the session log where a tool may keep what its
	// result has no room for. It is made when first needed. "" means nowhere: what is
	// cut is lost, and the result says so.
	FilesDir string

	// SavedDirs are FilesDir and, in a fork, the same folders of the sessions that it comes
	// from: what results of this session say is kept there may be read without asking.
	SavedDirs []string

	// FileIntent, when not nil, is asked by a tool that is about to change a file, when
	// the change is known and nothing is written yet. An error refuses the change; the tool
	// gives it back as it is. It may take long, so nothing is locked around it.
	FileIntent func(ctx context.Context, change FileChange) error

	// FileObserved, when not nil, is told each time that the body has seen or
	// made the whole content of a file.
	FileObserved func(seen FileSeen)

	mu        sync.Mutex // guards what follows
	deferred  []model.Message
	concluded bool
	todos     []Todo
	listed    bool // todos was set
}

// Todo is one item of the list of what the model has to do. Plain data.
type Todo struct {
	Content string `json:"content"`
	Status  string `json:"status"` // pending, in_progress or completed
}

// Statuses of a Todo.
const (
	TodoPending    = "pending"
	TodoInProgress = "in_progress"
	TodoCompleted  = "completed"
)

// FileChange describes a change that a tool is about to make. Plain data.
type FileChange struct {
	Kind string // "write" (the whole content) or "edit" (a part)
	Path string // absolute; the file that will change, links followed
	Hash string // of the content there now, as [Hash] gives it; "" when there is no file
	Diff string // unified, from what is there to what will be; may be cut at its end
}

// Kinds of a FileChange.
const (
	ChangeWrite = "write"
	ChangeEdit  = "edit"
)

// FileSeen names the content of a file at a moment. Plain data.
type FileSeen struct {
	Path string // absolute, links followed
	Hash string // as [Hash] gives it
}

// DeferContext asks the loop to put a message into the conversation after this call's
// result, in the next step. It counts even when the body fails afterwards. What is
// deferred after the body returned is dropped.
func (x *Exec) DeferContext(m model.Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deferred = append(x.deferred, m)
}

// ConcludeTurn asks the loop to end the turn after this step, without a further model
// call.
func (x *Exec) ConcludeTurn() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.concluded = true
}

// SetTodos asks the loop to put a list in the place of the session's list of what there is to
// do, if the call succeeds. The last one counts.
func (x *Exec) SetTodos(todos []Todo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.todos, x.listed = todos, true
}

// Todos returns what SetTodos was given last; false when it was not called.
func (x *Exec) Todos() ([]Todo, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.todos, x.listed
}

// Deferred returns what DeferContext was given, in order. The loop reads it when the body
// has returned.
func (x *Exec) Deferred() []model.Message {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]model.Message(nil), x.deferred...)
}

// Concluded reports whether ConcludeTurn was called.
func (x *Exec) Concluded() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.concluded
}
