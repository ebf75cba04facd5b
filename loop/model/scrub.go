package model

import (
	"strings"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// Scrub returns s with every run of bytes that is not UTF-8 replaced by U+FFFD. That
// covers unpaired surrogates too, which in a Go string are three such bytes. A string
// that is clean comes back as it is, without a copy. One invalid byte in the history
// makes a provider refuse every later request, so text is scrubbed where it enters.
func Scrub(s string) string {
	return strings.ToValidUTF8(s, replacement)
}

// ScrubJSON is Scrub for JSON text: besides invalid bytes it replaces the escapes of
// unpaired surrogates, such as \ud83d, by \ufffd of the same length. The text need not
// be whole or valid JSON; what is not an escape stays untouched.
func ScrubJSON(s string) string {
	s = Scrub(s)
	if !strings.Contains(s, `\u`) {
		return s
	}
	var out []byte // made at the first change
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			i++
			continue
		}
		if !surrogate(s[i:], 0xD800, 0xDFFF) {
			i += 2 // any other escape: its second byte cannot begin a new one
			continue
		}
		if surrogate(s[i:], 0xD800, 0xDBFF) && i+6 <= len(s) && surrogate(s[i+6:], 0xDC00, 0xDFFF) {
			i += 12
			continue
		}
		if out == nil {
			out = []byte(s)
		}
		copy(out[i:], `\ufffd`)
		i += 6
	}
	if out == nil {
		return s
	}
	return string(out)
}

// surrogate reports whether s begins with a \uXXXX escape between low and high.
func surrogate(s string, low, high rune) bool {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return false
	}
	var r rune
	for _, c := range []byte(s[2:6]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return false
		}
		r = r<<4 | rune(c)
	}
	return low <= r && r <= high
}

// ScrubBlocks returns the blocks with all their text scrubbed. Blocks that are clean
// come back as they are; the argument is never written to.
func ScrubBlocks(blocks []Block) []Block {
	for i := range blocks {
		if !blocks[i].clean() {
			out := make([]Block, len(blocks))
			for j, b := range blocks {
				b.Text, b.ID, b.Name = Scrub(b.Text), Scrub(b.ID), Scrub(b.Name)
				b.Arguments, b.ToolCallID = ScrubJSON(b.Arguments), Scrub(b.ToolCallID)
				b.Content = ScrubBlocks(b.Content)
				out[j] = b
			}
			return out
		}
	}
	return blocks
}

func (b *Block) clean() bool {
	for i := range b.Content {
		if !b.Content[i].clean() {
			return false
		}
	}
	return utf8.ValidString(b.Text) && utf8.ValidString(b.ID) && utf8.ValidString(b.Name) &&
		utf8.ValidString(b.ToolCallID) && ScrubJSON(b.Arguments) == b.Arguments
}
