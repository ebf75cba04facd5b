package session

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"
)

// idAlphabet is Crockford's base 32 in lower case: its order is the bytes' order, it has no letters that are read
// for digits, and names made of it differ on file systems that ignore case.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

const (
	idTimeDigits   = 9 // 45 bits of milliseconds, enough until the year 3084
	idRandomDigits = 4
	maxIDLength    = 100
)

// NewID returns a fresh session id: 13 lower-case letters and digits that sort by time to the millisecond and are
// safe as a file name. Any goroutine may call it.
func NewID(now time.Time) string {
	var id [idTimeDigits + idRandomDigits]byte
	ms := uint64(max(now.UnixMilli(), 0))
	for i := idTimeDigits - 1; i >= 0; i-- {
		id[i] = idAlphabet[ms&31]
		ms >>= 5
	}
	rand.Read(id[idTimeDigits:]) // never fails: crypto/rand ends the process instead
	for i := idTimeDigits; i < len(id); i++ {
		id[i] = idAlphabet[id[i]&31]
	}
	return string(id[:])
}

// CheckID reports why an id cannot name a session: it becomes part of a file name, so it is 1 to 100 letters,
// digits, '.', '_' and '-', beginning with a letter or a digit and not ending with a dot.
func CheckID(id string) error {
	bad := func(why string) error {
		return fmt.Errorf("session id %q: %w: %s", id, InvalidID, why)
	}
	if id == "" || len(id) > maxIDLength {
		return bad(fmt.Sprintf("it must have 1 to %d characters", maxIDLength))
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return bad("use letters, digits, '.', '_' and '-', a letter or digit first")
		}
	}
	if strings.HasSuffix(id, ".") {
		return bad("it must not end with a dot")
	}
	return nil
}
