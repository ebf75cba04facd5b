package repl

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// keyKind says what a key asks for.
type keyKind int

const (
	keyText  keyKind = iota // text typed, or sent by a terminal without bracketed paste
	keyPaste                // text pasted
	keyEnter
	keyNewline // a line end in the text: Alt-Enter, Shift-Enter where terminals tell
	keyInterrupt
	keyEOF // Ctrl-D: delete, or the end of input on an empty line
	keyLeft
	keyRight
	keyUp
	keyDown
	keyHome
	keyEnd
	keyWordLeft
	keyWordRight
	keyBackspace
	keyDelete
	keyKillEnd
	keyKillStart
	keyKillWordLeft
	keyKillWordRight
	keyYank
	keyTranspose
	keyTab
	keyBackTab
	keySearch
	keyEscape // also Ctrl-G
	keyClear
	keySuspend
	keyCompose // Ctrl-X Ctrl-E: write the line in an editor
)

// key is one key press, or a run of text. It is a value.
type key struct {
	kind keyKind
	text string // of keyText and keyPaste
}

// Ctrl-X begins a sequence of two keys.
const ctrlX, ctrlE = 0x18, 0x05

// maxSequence bounds an escape sequence or an answer of the terminal; what is longer is
// none.
const maxSequence = 4096

var (
	pasteStart = []byte("\x1b[200~")
	pasteEnd   = []byte("\x1b[201~")
)

// decoder turns what the terminal sends into keys. Answers to queries, mouse and focus
// reports and sequences that it does not know are swallowed: they never become text. Only
// the goroutine that reads keys uses it.
type decoder struct {
	rest    []byte // an unfinished sequence, character or paste
	pasting bool
	scanned int // how much of rest is known not to hold the paste's end
}

// feed takes what was read and returns the keys that are complete.
func (d *decoder) feed(chunk []byte) []key {
	// A person can end a paste whose end never came: Ctrl-C arrives alone.
	if d.pasting && len(chunk) == 1 && chunk[0] == 3 {
		*d = decoder{}
		return []key{{kind: keyInterrupt}}
	}
	d.rest = append(d.rest, chunk...)
	return d.take(nil, false)
}

// pending reports whether bytes wait for the rest of their sequence, and whether they are
// a lone escape, for which a person waits.
func (d *decoder) pending() (some, escape bool) {
	return len(d.rest) > 0 && !d.pasting, len(d.rest) == 1 && d.rest[0] == 0x1b
}

// timeout gives up waiting: a lone escape is the key, any other unfinished sequence
// is dropped.
func (d *decoder) timeout() []key {
	if d.pasting {
		return nil
	}
	return d.take(nil, true)
}

// take consumes d.rest as far as it goes; final says that nothing will follow.
func (d *decoder) take(keys []key, final bool) []key {
	for len(d.rest) > 0 {
		if d.pasting {
			end := bytes.Index(d.rest[d.scanned:], pasteEnd)
			if end < 0 {
				d.scanned = max(len(d.rest)-len(pasteEnd)+1, 0)
				return keys
			}
			end += d.scanned
			keys = append(keys, key{kind: keyPaste, text: cleanPaste(d.rest[:end])})
			d.rest = d.rest[end+len(pasteEnd):]
			d.pasting, d.scanned = false, 0
			continue
		}
		c := d.rest[0]
		switch {
		case c == 0x1b:
			k, n, known := decodeEscape(d.rest)
			switch {
			case n > 0:
				d.rest = d.rest[n:]
				if known {
					keys = append(keys, k)
				}
			case bytes.HasPrefix(d.rest, pasteStart):
				d.rest, d.pasting = d.rest[len(pasteStart):], true
			case final && len(d.rest) == 1:
				d.rest = nil
				keys = append(keys, key{kind: keyEscape})
			case final || len(d.rest) > maxSequence:
				d.rest = nil
			default:
				return keys
			}
		case c == ctrlX:
			if len(d.rest) == 1 && !final {
				return keys
			}
			n := 1
			if len(d.rest) > 1 && (d.rest[1] == ctrlE || d.rest[1] == 'e') {
				keys = append(keys, key{kind: keyCompose})
				n = 2
			}
			d.rest = d.rest[n:]
		case c < ' ' && c != '\t' || c == 0x7f:
			d.rest = d.rest[1:]
			if k, ok := controlKeys[c]; ok {
				keys = append(keys, key{kind: k})
			}
		case c == '\t' && len(d.rest) == 1:
			d.rest = nil
			keys = append(keys, key{kind: keyTab})
		default:
			text, n := plainText(d.rest, final)
			if n == 0 {
				return keys
			}
			d.rest = d.rest[n:]
			keys = append(keys, key{kind: keyText, text: text})
		}
	}
	d.rest = nil
	return keys
}

// plainText takes the run of text at the start of b, which does not begin with a control
// byte other than a tab. A tab inside a run is text, since nobody types that fast; the last
// byte is the key. It returns 0 if there is only the start of a character and more may
// come.
func plainText(b []byte, final bool) (string, int) {
	n := 0
	for n < len(b) && (b[n] >= ' ' && b[n] != 0x7f || b[n] == '\t') {
		n++
	}
	if n == len(b) && n > 1 && b[n-1] == '\t' {
		n--
	}
	if n == len(b) && !final {
		// Leave a character that is not all there for the next read.
		for back := 1; back < utf8.UTFMax && back <= n; back++ {
			if c := b[n-back]; utf8.RuneStart(c) {
				if c >= utf8.RuneSelf && !utf8.FullRune(b[n-back:n]) {
					n -= back
				}
				break
			}
		}
	}
	var s strings.Builder
	for rest := b[:n]; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r >= 0x80 && r < 0xa0 { // C1 controls are not text that anyone types
			r = utf8.RuneError
		}
		s.WriteRune(r)
		rest = rest[size:]
	}
	return s.String(), n
}

var controlKeys = map[byte]keyKind{
	1: keyHome, 2: keyLeft, 3: keyInterrupt, 4: keyEOF, 5: keyEnd, 6: keyRight,
	7: keyEscape, 8: keyBackspace, 10: keyEnter, 11: keyKillEnd, 12: keyClear,
	13: keyEnter, 14: keyDown, 16: keyUp, 18: keySearch, 20: keyTranspose,
	21: keyKillStart, 23: keyKillWordLeft, 25: keyYank, 26: keySuspend, 127: keyBackspace,
}

var altKeys = map[byte]keyKind{
	'b': keyWordLeft, 'f': keyWordRight, 'd': keyKillWordRight, 8: keyKillWordLeft,
	127: keyKillWordLeft, '\r': keyNewline, '\n': keyNewline,
}

// csiKeys are sequences ESC [ PARAMETERS FINAL and ESC O FINAL, without the ESC and the
// bracket or O.
var csiKeys = map[string]keyKind{
	"A": keyUp, "B": keyDown, "C": keyRight, "D": keyLeft, "H": keyHome, "F": keyEnd,
	"1~": keyHome, "7~": keyHome, "4~": keyEnd, "8~": keyEnd, "3~": keyDelete, "Z": keyBackTab,
	"1;5C": keyWordRight, "1;3C": keyWordRight, "1;5D": keyWordLeft, "1;3D": keyWordLeft,
	"5C": keyWordRight, "5D": keyWordLeft, "3;5~": keyKillWordRight, "3;3~": keyKillWordRight,
	"13;2u": keyNewline, "13;3u": keyNewline, "27;2;13~": keyNewline, "27;3;13~": keyNewline,
	"M": keyEnter, // keypad, after ESC O
}

// decodeEscape reads the sequence that b, which begins with ESC, begins with. n is its
// length, 0 if it is not complete or is the start of a paste; known says whether it
// is a key.
func decodeEscape(b []byte) (k key, n int, known bool) {
	if len(b) < 2 {
		return key{}, 0, false
	}
	switch b[1] {
	case '[':
		return decodeCSI(b)
	case 'O':
		if len(b) < 3 {
			return key{}, 0, false
		}
		kind, ok := csiKeys[string(b[2:3])]
		return key{kind: kind}, 3, ok
	case ']', 'P', '_', '^', 'X': // answers: they end with BEL (only ]) or ESC \
		for i := 2; i < len(b); i++ {
			if b[i] == 7 && b[1] == ']' {
				return key{}, i + 1, false
			}
			if b[i] == 0x1b && i+1 < len(b) {
				if b[i+1] == '\\' {
					return key{}, i + 2, false
				}
				return key{}, i, false // cut off by another sequence
			}
		}
		return key{}, 0, false
	case 0x1b: // Escape twice, or Escape before a sequence
		return key{kind: keyEscape}, 1, true
	}
	if kind, ok := altKeys[b[1]]; ok {
		return key{kind: kind}, 2, true
	}
	// Alt with some other key: the whole character goes.
	_, size := utf8.DecodeRune(b[1:])
	if !utf8.FullRune(b[1:]) {
		return key{}, 0, false
	}
	return key{}, 1 + size, false
}

func decodeCSI(b []byte) (k key, n int, known bool) {
	if bytes.HasPrefix(b, pasteStart) {
		return key{}, 0, false
	}
	for i := 2; i < len(b); i++ {
		c := b[i]
		switch {
		case c >= 0x20 && c <= 0x3f: // parameters and intermediates
		case c >= 0x40 && c <= 0x7e:
			seq := string(b[2 : i+1])
			if seq == "M" { // a mouse report of the old kind: three bytes follow
				if len(b) < i+4 {
					return key{}, 0, false
				}
				return key{}, i + 4, false
			}
			kind, ok := csiKeys[seq]
			return key{kind: kind}, i + 1, ok
		default: // cut off by something else
			return key{}, i, false
		}
	}
	return key{}, 0, false
}
