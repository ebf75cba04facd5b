package runtime

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Causes that tell why a script did not answer. errors.Is finds them in what a call
// returns.
var (
	ErrDeadline    = errors.New("deadline exceeded")
	ErrMemory      = errors.New("memory limit exceeded")
	ErrUnloaded    = errors.New("script unloaded")
	ErrQuarantined = errors.New("script quarantined")
	ErrNextTwice   = errors.New("next called twice")
	ErrLost        = errors.New("lost with another hook's deadline")
	ErrLoading     = errors.New("not while loading")
	ErrNotAwaited  = errors.New("not awaited")
	errHookOver    = errors.New("the listener has already answered")
)

// ScriptError is a failure inside a script, or of the host on a script's behalf.
// Immutable. Error() is what a person reads: "guard.lua:12: tools/pre-execute: attempt
// to index nil".
type ScriptError struct {
	Script  string     // the script's identity: "project/guard.lua"
	Event   string     // the event whose listener failed; "" at load and elsewhere
	Pos     Position   // where, as far as known
	Name    string     // the error's name: "Error", "TypeError"
	Message string     // bare: without place or name
	Code    string     // the thrown value's own code, or ""
	Value   Value      // what was thrown when it is no error
	Stack   []Position // innermost first
	Source  string     // the source line at Pos, for load errors
	Err     error      // what Go put in, or nil
}

func (e *ScriptError) Error() string {
	var b strings.Builder
	file := e.Pos.File
	if file == "" {
		file = path.Base(e.Script)
	}
	b.WriteString(file)
	if e.Pos.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Pos.Line)
	}
	b.WriteString(": ")
	if e.Event != "" {
		b.WriteString(e.Event)
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	return b.String()
}

// MaxMessage is how many bytes are kept of what a script throws, or gives as a reason: it is
// shown to people and models, and recorded.
const MaxMessage = 8 << 10

// Brief cuts a text of a script's to MaxMessage: its beginning and its end are kept.
func Brief(text string) string { return shorten(text, MaxMessage) }

func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := text[:limit*3/4], text[len(text)-limit/4:]
	return fmt.Sprintf("%s... (%s bytes left out) ...%s", strings.ToValidUTF8(head, ""), thousands(len(text)-len(head)-len(tail)), strings.ToValidUTF8(tail, ""))
}

// Unwrap gives what Go put in.
func (e *ScriptError) Unwrap() error { return e.Err }

// ErrorCode is the code that records carry: the thrown value's own, or "".
func (e *ScriptError) ErrorCode() string { return e.Code }

// Message is an error's text as records carry it: bare, without script and place.
// Errors with causes flatten to "outer: cause".
func Message(err error) string {
	var se *ScriptError
	if errors.As(err, &se) && error(se) == err {
		return se.Message
	}
	return Brief(err.Error())
}

// ResultError is why a binding could not read what a function returned. Immutable.
type ResultError struct{ Err error }

func (e *ResultError) Error() string { return "what it returned cannot be taken: " + e.Err.Error() }

// Unwrap gives why.
func (e *ResultError) Unwrap() error { return e.Err }

// returned says that a call failed for nothing but what it returned: not for what it
// threw, whatever that wraps.
func returned(err error) bool {
	var se *ScriptError
	if errors.As(err, &se) {
		err = se.Err
	}
	_, ok := err.(*ResultError)
	return ok
}

// inEvent stamps the event's name on a script error that has none yet.
func inEvent(err error, l *Listener) error { return blame(err, l.Instance, l.Event.Name, l.Pos) }

// blame says of a failure in a script of which script and of what it is, where that is
// not said yet.
func blame(err error, in *Instance, what string, pos Position) error {
	if err == nil || in == nil {
		return err
	}
	var se *ScriptError
	if errors.As(err, &se) {
		if se.Event != "" && se.Script != "" {
			return err
		}
		c := *se
		c.Event, c.Script = what, in.ID
		if c.Pos.Line == 0 {
			c.Pos = pos
		}
		if error(se) == err {
			return &c
		}
	}
	return &ScriptError{Script: in.ID, Event: what, Pos: pos, Name: "Error", Message: Brief(err.Error()), Err: err}
}

// ErrorShape is a failure as scripts see it and throw it: the shape in which a thrown
// value crosses.
type ErrorShape struct {
	Name    string     `json:"name"`
	Message string     `json:"message"` // bare
	Code    string     `json:"code,omitempty"`
	Value   any        `json:"value,omitempty"`
	Script  string     `json:"script,omitempty"`
	Line    int        `json:"line,omitempty"`
	Stack   []Position `json:"stack,omitempty"`
}

// ShapeOf describes any error in the shape that scripts read.
func ShapeOf(err error) ErrorShape {
	s := ErrorShape{Name: "Error", Message: Message(err), Code: CodeOf(err)}
	var se *ScriptError
	if errors.As(err, &se) {
		s.Value, s.Script, s.Line, s.Stack = se.Value, se.Script, se.Pos.Line, se.Stack
		if se.Name != "" {
			s.Name = se.Name
		}
	}
	return s
}

// CodeOf is the code that an error carries (ErrorCode() string), or "".
func CodeOf(err error) string {
	var coded interface{ ErrorCode() string }
	if errors.As(err, &coded) {
		return coded.ErrorCode()
	}
	return ""
}
