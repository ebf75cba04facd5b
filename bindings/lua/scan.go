package lua

import "fmt"

// What one chunk may nest. The compiler recurses once for each level of brackets and
// blocks and once for each operator of an expression; these keep it far from the end of
// the Go stack, which would end the process.
const (
	maxNesting = 200  // open brackets and blocks, as in Lua's own compiler
	maxChain   = 2000 // operators, calls, index steps and elseifs that lie inside each other
)

// scanNesting reads the tokens of a chunk without parsing it and returns the line and the
// words of a refusal, or "". It is linear and does not recurse.
func scanNesting(src []byte) (line int, refusal string) {
	s := scanner{src: src, line: 1, levels: make([]level, 1, 32)}
	for s.next() {
		if len(s.levels) > maxNesting {
			return s.line, fmt.Sprintf("brackets and blocks are nested more than %d deep", maxNesting)
		}
		if s.total > maxChain {
			return s.line, fmt.Sprintf("an expression has more than %d operators; split it into statements", maxChain)
		}
	}
	return 0, ""
}

// scanner is the state of one scan. Used by one goroutine.
type scanner struct {
	src    []byte
	at     int
	line   int
	levels []level // open brackets and blocks, the chunk first
	total  int     // chain and elseifs of all levels
	ended  bool    // the last token could end an operand
}

// level is one open bracket or block.
type level struct{ chain, elseifs int }

func (s *scanner) push() { s.levels = append(s.levels, level{}); s.ended = false }

func (s *scanner) pop() {
	if n := len(s.levels); n > 1 {
		s.total -= s.levels[n-1].chain + s.levels[n-1].elseifs
		s.levels = s.levels[:n-1]
	}
	s.ended = true
}

// link counts one more operator in the expression at hand.
func (s *scanner) link() { s.levels[len(s.levels)-1].chain++; s.total++ }

// cut begins another expression or statement.
func (s *scanner) cut() {
	l := &s.levels[len(s.levels)-1]
	s.total -= l.chain
	l.chain = 0
	s.ended = false
}

// operand begins a name or a constant: after the end of another one it is the beginning
// of the next statement.
func (s *scanner) operand() {
	if s.ended {
		s.cut()
	}
	s.ended = true
}

func (s *scanner) peek(n int) byte {
	if s.at+n < len(s.src) {
		return s.src[s.at+n]
	}
	return 0
}

// next reads one token; false at the end.
func (s *scanner) next() bool {
	for s.at < len(s.src) {
		c := s.src[s.at]
		switch {
		case c == '\n':
			s.line++
			s.at++
		case c == ' ' || c == '\t' || c == '\r':
			s.at++
		case c == '-' && s.peek(1) == '-':
			s.at += 2
			if n := s.longBracket(); n >= 0 {
				s.skipLong(n)
			} else {
				for s.at < len(s.src) && s.src[s.at] != '\n' {
					s.at++
				}
			}
		default:
			s.token(c)
			return true
		}
	}
	return false
}

func (s *scanner) token(c byte) {
	switch {
	case isNameByte(c) && !isDigit(c):
		start := s.at
		for s.at < len(s.src) && isNameByte(s.src[s.at]) {
			s.at++
		}
		s.word(string(s.src[start:s.at]))
	case isDigit(c) || c == '.' && isDigit(s.peek(1)):
		s.number()
		s.operand()
	case c == '"' || c == '\'':
		s.quoted(c)
		s.literal()
	case c == '[' && s.longBracket() >= 0:
		s.skipLong(s.longBracket())
		s.literal()
	default:
		s.symbol(c)
	}
}

// literal is a string: after the end of an operand it is the argument of a call.
func (s *scanner) literal() {
	if s.ended {
		s.link()
	}
	s.ended = true
}

func (s *scanner) word(w string) {
	switch w {
	case "and", "or", "not":
		s.link()
		s.ended = false
	case "nil", "true", "false":
		s.operand()
	case "function":
		if s.ended {
			s.cut()
		}
		s.push()
	case "if", "repeat", "do":
		s.cut()
		s.push()
	case "elseif":
		s.cut()
		s.levels[len(s.levels)-1].elseifs++
		s.total++
	case "end", "until":
		s.pop()
		s.ended = w == "end"
	case "then", "else", "while", "for", "in", "local", "return", "break", "goto":
		s.cut()
	default:
		s.operand()
	}
}

func (s *scanner) symbol(c byte) {
	s.at++
	switch c {
	case '(', '{', '[':
		if s.ended {
			s.link()
		}
		s.push()
	case ')', '}', ']':
		s.pop()
	case ',', ';':
		s.cut()
	case '=', '~', '<', '>':
		if s.peek(0) == '=' {
			s.at++
			s.link()
			s.ended = false
		} else if c == '=' {
			s.cut()
		} else {
			s.link()
			s.ended = false
		}
	case '.':
		if s.peek(0) == '.' {
			s.at++
			if s.peek(0) == '.' {
				s.at++
				s.operand()
				return
			}
		}
		s.link()
		s.ended = false
	case ':':
		if s.peek(0) == ':' {
			s.at++
			s.cut()
			return
		}
		s.link()
		s.ended = false
	default: // + - * / % ^ #, and what the parser will refuse
		s.link()
		s.ended = false
	}
}

func (s *scanner) number() {
	for s.at < len(s.src) {
		c := s.src[s.at]
		if (c == '+' || c == '-') && (s.src[s.at-1] == 'e' || s.src[s.at-1] == 'E') || isNameByte(c) || c == '.' && s.peek(1) != '.' {
			s.at++
			continue
		}
		return
	}
}

func (s *scanner) quoted(q byte) {
	for s.at++; s.at < len(s.src); s.at++ {
		switch s.src[s.at] {
		case q:
			s.at++
			return
		case '\\':
			s.at++
			if s.at < len(s.src) && s.src[s.at] == '\n' {
				s.line++
			}
		case '\n':
			return // unterminated: the parser says so
		}
	}
}

// longBracket is how many = the long bracket that begins here has, or -1.
func (s *scanner) longBracket() int {
	if s.peek(0) != '[' {
		return -1
	}
	n := 0
	for s.peek(1+n) == '=' {
		n++
	}
	if s.peek(1+n) != '[' {
		return -1
	}
	return n
}

func (s *scanner) skipLong(n int) {
	for s.at += n + 2; s.at < len(s.src); s.at++ {
		switch s.src[s.at] {
		case '\n':
			s.line++
		case ']':
			k := 0
			for s.peek(1+k) == '=' {
				k++
			}
			if k == n && s.peek(1+k) == ']' {
				s.at += n + 2
				return
			}
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c)
}
