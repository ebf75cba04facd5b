package render

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Visible returns s with everything that could act on a terminal, or hide in one, made
// visible. Text of models, tools, files and scripts passes through it before it is
// shown: such bytes are displayed, never obeyed.
//
//	C0 controls and DEL    ^[ ^G ^? (caret notation); \n and \t stay
//	\r\n                   \n (the file's line ending; any other \r is ^M)
//	C1 controls            \u009b
//	bidirectional and line-separator controls, invisible tag characters,
//	zero-width spaces      \u202e, \U000e0041
//	bytes that are no UTF-8   \xff
//
// The joiners that emoji and several scripts need (U+200C, U+200D, variation
// selectors) stay. Text without any of these is returned as it is, without a copy.
// Any goroutine may call it.
func Visible(s string) string {
	i := firstHidden(s)
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:i])
	// Whether this is the tag sequence of a flag emoji (England, Scotland, Wales).
	flag := strings.HasSuffix(s[:i], "\U0001F3F4")
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t':
			b.WriteByte(byte(r))
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"):
			// The \n that follows is the line end.
		case r < ' ':
			b.WriteByte('^')
			b.WriteByte(byte(r) + '@')
		case r == 0x7f:
			b.WriteString("^?")
		case isTag(r) && flag:
			b.WriteRune(r)
		case isHidden(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case isHidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		flag = r == 0x1F3F4 || flag && isTag(r)
		i += n
	}
	return b.String()
}

// firstHidden returns the index of the first byte of s that Visible would have to
// look at, or len(s).
func firstHidden(s string) int {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || isHidden(r) {
			return i
		}
		i += n
	}
	return len(s)
}

func isTag(r rune) bool { return r >= 0xE0000 && r <= 0xE007F }

// isHidden reports whether r, not an ASCII control, is one that Visible writes as an
// escape: it moves or reorders what is around it, or cannot be seen at all.
func isHidden(r rune) bool {
	switch {
	case r < 0x80:
		return false
	case r < 0xa0: // C1 controls: U+009B is CSI
		return true
	case r < 0x061c:
		return r == 0xad // soft hyphen
	case r == 0x061c, r == 0x180e, r == 0xfeff, r == 0x2060:
		return true
	case r == 0x200b, r == 0x200e, r == 0x200f:
		return true
	case r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x206f:
		return true
	case r >= 0xfff9 && r <= 0xfffb:
		return true
	}
	return isTag(r)
}

// Printable returns s, text of our own that may hold colours, with everything but
// \n, \t and colour sequences (ESC [ digits and ; m) made visible as by Visible. It is
// the last guard before the terminal: a caller that forgot Visible can then colour
// text at worst, not move the cursor or ask the terminal for an answer.
func Printable(s string) string {
	if firstHidden(s) == len(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for s != "" {
		esc := strings.IndexByte(s, 0x1b)
		if esc < 0 {
			b.WriteString(Visible(s))
			break
		}
		b.WriteString(Visible(s[:esc]))
		s = s[esc:]
		if n := sgrLen(s); n > 0 {
			b.WriteString(s[:n])
			s = s[n:]
		} else {
			b.WriteString("^[")
			s = s[1:]
		}
	}
	return b.String()
}

// sgrLen returns the length of the colour sequence that s begins with, or 0.
func sgrLen(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	for i := 2; i < len(s); i++ {
		switch c := s[i]; {
		case c == 'm':
			return i + 1
		case c >= '0' && c <= '9', c == ';', c == ':':
		default:
			return 0
		}
	}
	return 0
}
