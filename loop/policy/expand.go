package policy

import (
	"strconv"
	"strings"
)

// expansion reads what begins with $ or a backquote.
func (l *lexer) expansion(b *builder, quoted bool) {
	if l.src[l.pos] == '`' {
		l.pos++
		inner := l.until('`')
		l.run(strings.ReplaceAll(inner, "\\`", "`"))
		b.opaque = true
		return
	}
	l.pos++
	if l.pos == len(l.src) {
		b.literal("$")
		return
	}
	switch c := l.src[l.pos]; {
	case c == '(':
		l.substitution(b)
	case c == '\'' && !quoted:
		l.pos++
		b.literal(unescape(l.until('\'')))
	case c == '"' && !quoted: // the same as without the $
	case c == '{':
		l.pos++
		l.variable(b, l.until('}'), quoted)
	case isNameByte(c, true):
		start := l.pos
		for l.pos < len(l.src) && isNameByte(l.src[l.pos], l.pos == start) {
			l.pos++
		}
		l.variable(b, l.src[start:l.pos], quoted)
	case strings.IndexByte("@*#?$!-0123456789", c) >= 0:
		l.pos++
		b.opaque = true
	default:
		b.literal("$")
	}
}

func isNameByte(c byte, first bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || !first && c >= '0' && c <= '9'
}

// until returns the text up to an end that is not escaped, and goes behind it.
func (l *lexer) until(end byte) string {
	start := l.pos
	for l.pos < len(l.src) {
		switch l.src[l.pos] {
		case '\\':
			l.pos++
		case end:
			l.pos++
			return l.src[start : l.pos-1]
		}
		l.pos++
	}
	l.pos = len(l.src)
	return l.src[start:]
}

func (l *lexer) variable(b *builder, name string, quoted bool) {
	value, ok := l.vars[name]
	if !ok {
		value, ok = l.known[name]
	}
	if !ok || value == opaqueValue {
		b.opaque = true
		return
	}
	// Without quotes it may become several words, or a pattern.
	b.opaque = b.opaque || !quoted && strings.ContainsAny(value, " \t\n*?[")
	b.literal(value)
}

// substitution reads from the bracket of a $(, <( or >( to its end.
func (l *lexer) substitution(b *builder) {
	start := l.pos + 1
	end := closingBracket(l.src, start)
	l.pos = min(end+1, len(l.src))
	b.opaque = true
	if strings.HasPrefix(l.src[start:end], "(") {
		return // arithmetic
	}
	l.run(l.src[start:end])
}

// run adds the steps of a command within the command, which runs in a subshell.
func (l *lexer) run(text string) {
	if l.depth >= maxNesting {
		return
	}
	vars := make(map[string]string, len(l.vars))
	for k, v := range l.vars {
		vars[k] = v
	}
	l.steps = append(l.steps, step{open: true})
	l.steps = append(l.steps, lex(text, vars, l.known, l.depth+1)...)
	l.steps = append(l.steps, step{close: true})
}

// closingBracket returns where the bracket that was opened before start is closed, or the
// end of the text.
func closingBracket(s string, start int) int {
	depth := 1
	for i := start; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '\'':
			n := strings.IndexByte(s[i+1:], '\'')
			if n < 0 {
				return len(s)
			}
			i += n + 1
		case '"':
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				} else if strings.HasPrefix(s[i:], "$(") {
					i = closingBracket(s, i+2)
				}
			}
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(s)
}

// unescape undoes the escapes of $'...'.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'x', 'u', 'U', '0', '1', '2', '3', '4', '5', '6', '7':
			base, most, from := 16, 2, i+1
			switch c {
			case 'u':
				most = 4
			case 'U':
				most = 8
			case 'x':
			default:
				base, most, from = 8, 3, i
			}
			to := from
			for to < len(s) && to-from < most && isDigit(s[to], base) {
				to++
			}
			n, err := strconv.ParseUint(s[from:to], base, 32)
			switch {
			case err != nil:
				b.WriteByte(c)
			case base == 8 || most == 2:
				b.WriteByte(byte(n))
				i = to - 1
			default:
				b.WriteRune(rune(n))
				i = to - 1
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isDigit(c byte, base int) bool {
	_, err := strconv.ParseUint(string(c), base, 8)
	return err == nil
}
