package session

import (
	"fmt"
	"strings"
)

// Code says what kind of failure an error of this package is. Errors wrap a Code, so that
// errors.Is(err, session.NotFound) and errors.As(err, &code) both work. Codes are immutable.
type Code string

// The codes. Their text is what a caller may show or record as the error's code.
const (
	// NotFound: there is no session with that id in the store.
	NotFound Code = "SESSION_NOT_FOUND"
	// NotLive: the session exists and is not open in this process. For callers; the package does not return it.
	NotLive Code = "SESSION_NOT_LIVE"
	// Exists: the id is taken.
	Exists Code = "SESSION_ALREADY_EXISTS"
	// Locked: another Log, in this process or another, has the session open. The error is a *LockedError.
	Locked Code = "SESSION_LOCKED"
	// Damaged: the file is not a whole log. The error is a *DamageError.
	Damaged Code = "SESSION_DAMAGED"
	// Newer: the header's version is one that this program does not know.
	Newer Code = "SESSION_NEWER"
	// InvalidBoundary: a fork was asked for at a seq that the parent does not have.
	InvalidBoundary Code = "INVALID_BOUNDARY"
	// OpenTurn: a fork was asked for at a seq at which the validator says that something is still open.
	OpenTurn Code = "OPEN_TURN"
	// InvalidID: an id that cannot be a file name.
	InvalidID Code = "INVALID_SESSION_ID"
	// InvalidRecord: an entry's envelope or data has a shape that no log may hold.
	InvalidRecord Code = "INVALID_RECORD"
	// Refused: the validator did not let a record follow.
	Refused Code = "RECORD_REFUSED"
	// Busy: Append was called while another append of this log was in progress (B195).
	Busy Code = "SESSION_BUSY"
	// Closed: the log was closed.
	Closed Code = "SESSION_CLOSED"
	// WriteFailed: the record was not written and is not in the log; a later append may succeed.
	WriteFailed Code = "WRITE_FAILED"
	// Changed: the file is not as this log left it: another program wrote to it, cut it or removed it.
	Changed Code = "SESSION_CHANGED"
	// SyncFailed: an fsync failed. The records are in the file, whether they survive a power failure is open.
	SyncFailed Code = "SYNC_FAILED"
	// Lost: after a failed fsync the file did not hold what was written; the log takes no more records.
	Lost Code = "SESSION_TAIL_LOST"
)

var codeText = map[Code]string{
	NotFound:        "no such session",
	NotLive:         "the session is not open here",
	Exists:          "the session exists already",
	Locked:          "the session is in use",
	Damaged:         "the session is damaged",
	Newer:           "written by a newer version",
	InvalidBoundary: "no such place to fork at",
	OpenTurn:        "a turn is open there",
	InvalidID:       "not a session id",
	InvalidRecord:   "not a valid record",
	Refused:         "the record may not follow here",
	Busy:            "an append is in progress",
	Closed:          "the log is closed",
	WriteFailed:     "the record was not written",
	Changed:         "another program changed the file",
	SyncFailed:      "the file could not be synced",
	Lost:            "the file lost what was written to it",
}

// Error returns the code in words.
func (c Code) Error() string {
	if s, ok := codeText[c]; ok {
		return s
	}
	return string(c)
}

// LockedError says who has a session open. It is immutable and wraps [Locked].
type LockedError struct {
	ID     string
	Path   string
	Holder *Holder // nil when the holder left no description
}

// Error names the session, its holder and the way out.
func (e *LockedError) Error() string {
	who := "another process"
	if e.Holder != nil {
		who = e.Holder.String()
	}
	return fmt.Sprintf("session %s is in use by %s: end it there, or work on a copy: `dshsh session fork %s` (%s)",
		e.ID, who, e.ID, e.Path)
}

// Unwrap returns Locked.
func (e *LockedError) Unwrap() error { return Locked }

// DamageError lists what is wrong with a file. It is immutable and wraps [Damaged].
type DamageError struct {
	ID       string
	Path     string
	Problems []Problem // at least one, in file order
}

// Error names the first damaged line, how many more there are and the way out.
func (e *DamageError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "session %s is damaged: %s:%d: %s", e.ID, e.Path, e.Problems[0].Line, e.Problems[0].Message)
	if n := len(e.Problems) - 1; n > 0 {
		fmt.Fprintf(&b, " (and %d more)", n)
	}
	fmt.Fprintf(&b, ": `dshsh session repair %s` writes a mended copy beside it", e.ID)
	return b.String()
}

// Unwrap returns Damaged.
func (e *DamageError) Unwrap() error { return Damaged }
