package tool

import (
	"fmt"
	"sort"
	"strings"
)

// Names and codes of the failures that the loop itself records in tool/result.
const (
	NameAbort          = "AbortError"
	NameNotFound       = "ToolNotFoundError"
	NameArgs           = "ToolArgsError"
	NameOutput         = "ToolOutputError"
	NameNotStarted     = "ToolNotStartedError"
	NameOutcomeUnknown = "ToolOutcomeUnknownError"

	CodeAborted               = "ABORTED"
	CodeAbortedBeforeDispatch = "ABORTED_BEFORE_DISPATCH"
	CodeUnknownTool           = "UNKNOWN_TOOL"
	CodeInvalidArgs           = "INVALID_ARGS"
	CodeInvalidOutput         = "INVALID_TOOL_OUTPUT"
	CodeNotStarted            = "TOOL_NOT_STARTED"
	CodeOutcomeUnknown        = "TOOL_OUTCOME_UNKNOWN"
)

// Error is a failure with a name and a code, which become tool/result.error. Message
// is for the model and for people: what happened and what to do about it.
// Immutable once returned.
type Error struct {
	Name    string
	Code    string
	Message string
	Cause   error // what errors.Is and errors.As find; may be nil
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Aborted is the failure of a call whose body had started when the turn was cancelled.
func Aborted() *Error {
	return &Error{Name: NameAbort, Code: CodeAborted, Message: "tool call aborted"}
}

// AbortedBeforeDispatch is the failure of a call that was cancelled before its body
// started.
func AbortedBeforeDispatch() *Error {
	return &Error{Name: NameAbort, Code: CodeAbortedBeforeDispatch, Message: "tool call aborted before it started"}
}

// UnknownTool is the failure of a call to a tool that is not there. known are the names of
// those that are; the nearest is suggested.
func UnknownTool(name string, known []string) *Error {
	msg := fmt.Sprintf("unknown tool %q", name)
	if near := Nearest(name, known); near != "" {
		msg += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return &Error{Name: NameNotFound, Code: CodeUnknownTool, Message: msg}
}

// InvalidArgs is the failure of a call whose arguments do not fit the tool. The
// message is formatted as by fmt.Sprintf.
func InvalidArgs(format string, a ...any) *Error {
	return &Error{Name: NameArgs, Code: CodeInvalidArgs, Message: fmt.Sprintf(format, a...)}
}

// InvalidOutput is the failure of a call whose body gave back something that cannot be
// recorded. The message is formatted as by fmt.Sprintf.
func InvalidOutput(format string, a ...any) *Error {
	return &Error{Name: NameOutput, Code: CodeInvalidOutput, Message: fmt.Sprintf(format, a...)}
}

// NotStarted is the failure that repair gives to a call that was asked for and never
// recorded as started.
func NotStarted() *Error {
	return &Error{Name: NameNotStarted, Code: CodeNotStarted,
		Message: "the session ended before this call was recorded as started; retry it if it is still needed"}
}

// OutcomeUnknown is the failure that repair gives to a call that had started and has no
// result.
func OutcomeUnknown() *Error {
	return &Error{Name: NameOutcomeUnknown, Code: CodeOutcomeUnknown,
		Message: "the session ended while this call ran, so its outcome is unknown; look at what it may have done before you retry it"}
}

// Nearest returns the name in known that is most like the given one, or "" when none is
// near enough to be what was meant.
func Nearest(name string, known []string) string {
	sorted := append([]string(nil), known...)
	sort.Strings(sorted)
	fold := strings.ToLower(name)
	// A third of the letters may differ: beyond that a suggestion confuses.
	best, limit := "", max(1, len(fold)/3)
	for _, k := range sorted {
		if d := distance(fold, strings.ToLower(k), limit); d <= limit {
			best, limit = k, d-1
			if limit < 0 {
				break
			}
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap to get from a to
// b; anything above limit may be reported as limit+1.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
