package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// maxDepth is how deep values may nest: encoding/json refuses more, and what the log takes everybody must be
// able to decode.
const maxDepth = 10000

var errEmpty = errors.New("it is empty")

// checkJSON says why b is not exactly one JSON value in UTF-8 (RFC 8259, white space around it allowed).
func checkJSON(b []byte) error {
	if len(b) == 0 {
		return errEmpty
	}
	if !utf8.Valid(b) {
		return errors.New("it is not UTF-8")
	}
	if !isJSON(b) {
		return fmt.Errorf("it is not valid JSON: %.60q", b)
	}
	return nil
}

// isJSON reports whether b is one JSON value, as far as bytes below 0x80 tell.
func isJSON(b []byte) bool {
	end := skipValue(b, 0)
	return end >= 0 && skipSpace(b, end) == len(b)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns where the JSON value that begins at b[i], after white space, ends; or -1 if there is none. It
// takes what encoding/json takes, does not recurse, and allocates nothing up to a depth of 64. It does not look at
// bytes above 0x7f inside strings: whoever calls it has checked that b is UTF-8.
func skipValue(b []byte, i int) int {
	var (
		objects uint64   // one bit for each open value of the innermost 64, set for objects; lowest is innermost
		outer   []uint64 // the bits of those further out, 64 at a time
		depth   int
	)
	for { // one value per round, with all that closes behind it
		i = skipSpace(b, i)
		if i >= len(b) {
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			if i = skipString(b, i+1); i < 0 {
				return -1
			}
		case c == '{' || c == '[':
			if depth == maxDepth {
				return -1
			}
			if depth > 0 && depth%64 == 0 {
				outer = append(outer, objects)
			}
			depth++
			objects <<= 1
			i = skipSpace(b, i+1)
			if i >= len(b) {
				return -1
			}
			if c == '[' {
				if b[i] != ']' {
					continue
				}
			} else {
				objects |= 1
				if b[i] != '}' {
					if i = skipKey(b, i); i < 0 {
						return -1
					}
					continue
				}
			}
			// Empty: the loop below closes it.
		case c == 't':
			i = skipLiteral(b, i, "true")
		case c == 'f':
			i = skipLiteral(b, i, "false")
		case c == 'n':
			i = skipLiteral(b, i, "null")
		default:
			i = skipNumber(b, i)
		}
		if i < 0 {
			return -1
		}
		for { // behind a value
			if depth == 0 {
				return i
			}
			i = skipSpace(b, i)
			if i >= len(b) {
				return -1
			}
			inObject := objects&1 != 0
			if b[i] == ',' {
				if i++; inObject {
					if i = skipKey(b, skipSpace(b, i)); i < 0 {
						return -1
					}
				}
				break
			}
			if inObject && b[i] != '}' || !inObject && b[i] != ']' {
				return -1
			}
			i++
			objects >>= 1
			depth--
			if depth > 0 && depth%64 == 0 {
				objects, outer = outer[len(outer)-1], outer[:len(outer)-1]
			}
		}
	}
}

// skipKey returns where the key and colon that begin at b[i] end, or -1.
func skipKey(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i = skipString(b, i+1); i < 0 {
		return -1
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return -1
	}
	return i + 1
}

func skipLiteral(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func skipNumber(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && '1' <= b[i] && b[i] <= '9':
		i = skipDigits(b, i)
	default:
		return -1
	}
	if i < len(b) && b[i] == '.' {
		from := i + 1
		if i = skipDigits(b, from); i == from {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from := i
		if i = skipDigits(b, from); i == from {
			return -1
		}
	}
	return i
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipString returns where the string whose first character is b[i] ends, closing quote included, or -1.
func skipString(b []byte, i int) int {
	for {
		// Eight bytes at a time: each term has the high bit of every byte that is a quote, a backslash or
		// a control character. A borrow can only set bits above a true one, so the lowest is always right.
		for len(b)-i >= 8 {
			w := binary.LittleEndian.Uint64(b[i:])
			quote := w ^ ones*'"'
			slash := w ^ ones*'\\'
			found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & highs
			if found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = skipEscape(b, i+1); i < 0 {
				return -1
			}
		case c < ' ':
			return -1
		default:
			i++
		}
	}
}

// skipEscape returns where the escape whose backslash is before b[i] ends, or -1.
func skipEscape(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if len(b)-i < 5 {
			return -1
		}
		for _, c := range b[i+1 : i+5] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return -1
			}
		}
		return i + 5
	}
	return -1
}
