package js

import (
	"fmt"
	"strings"

	"dshsh/runtime"
)

// maxChain is how many operators, calls and members may follow each other in one
// expression: goja takes time in the square of it.
const maxChain = 2500

// tooComplex refuses what could take goja's parser, which recurses, out of its stack, which
// ends the process, or would keep it busy for minutes.
func tooComplex(id, file, code string) error {
	msg := ""
	switch {
	case len(code) > maxSource:
		msg = fmt.Sprintf("the file is larger than %d MiB", maxSource>>20)
	case nesting(code, false) > maxNesting:
		msg = fmt.Sprintf("brackets nest more than %d deep", maxNesting)
	default:
		line, what := longChain(code)
		if line == 0 {
			return nil
		}
		return &runtime.ScriptError{Script: id, Name: "SyntaxError", Pos: runtime.Position{File: file, Line: line}, Source: shorten(sourceLine(code, line)), Message: what}
	}
	return &runtime.ScriptError{Script: id, Name: "SyntaxError", Pos: runtime.Position{File: file}, Message: msg}
}

func shorten(s string) string {
	if len(s) > 200 {
		return s[:200] + "..."
	}
	return s
}

// nesting counts how deep brackets nest in a text, not looking into quoted parts of it if
// quoted is set. It is exact for JSON and an upper bound elsewhere.
func nesting(s string, quoted bool) int {
	depth, most := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '[', '{', '(':
			if depth++; depth > most {
				most = depth
			}
		case ']', '}', ')':
			if depth > 0 {
				depth--
			}
		case '"':
			if !quoted {
				continue
			}
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		case '\\':
			i++
		}
	}
	return most
}

// maxHeads is how many statements may be in one another without a block, such as those of
// an else-if ladder: esbuild takes time in the square of it.
const maxHeads = 1000

// longChain finds the line where an expression becomes longer than maxChain, or statements
// nest without a block more than maxHeads deep, and says so; 0 if none does. It reads tokens, not syntax: an expression ends at a semicolon, a comma in a list, a
// bracket that closes, and where two values stand side by side.
func longChain(code string) (line int, what string) {
	s := chainScanner{code: code, levels: []chainLevel{{}}}
	for s.i < len(code) {
		c, begin := code[s.i], s.i
		head, closed := s.head, s.closed
		s.behindHead, s.behindClosed = head, closed
		s.head, s.closed = false, false
		s.step()
		if c <= ' ' || strings.HasPrefix(code[begin:], "//") || strings.HasPrefix(code[begin:], "/*") || code[begin:min(s.i, len(code))] == "await" {
			s.head, s.closed = head, closed
		}
		if c > ' ' {
			s.last = code[min(s.i, len(code))-1]
		}
		switch {
		case s.top().links > maxChain:
			what = fmt.Sprintf("an expression has more than %d operators in a row; use a list and a loop", maxChain)
		case s.top().heads > maxHeads:
			what = fmt.Sprintf("more than %d statements are in one another; use blocks, a switch or a table", maxHeads)
		default:
			continue
		}
		return 1 + strings.Count(code[:min(s.i, len(code))], "\n"), what
	}
	return 0, ""
}

type chainLevel struct {
	links    int
	heads    int  // of statements whose bodies are not over
	dos      int  // do without its while
	head     bool // the brackets of a head
	template bool // ${ of a template
	list     bool // of items, which commas divide; elsewhere they make one long expression
}

// chainScanner walks over a source. Used by one goroutine.
type chainScanner struct {
	code   string
	i      int
	levels []chainLevel
	value  bool // what was read last ends a value
	last   byte // what it ended with
	head   bool // what was read last begins a statement that has a body
	closed bool // it is the end of such a head
	ended  bool // it may end a statement

	behindHead, behindClosed bool // head and closed of what was read before
}

func (s *chainScanner) top() *chainLevel { return &s.levels[len(s.levels)-1] }

func (s *chainScanner) open(template, list bool) {
	s.levels = append(s.levels, chainLevel{template: template, list: list})
	s.value = false
}

// step reads one token.
func (s *chainScanner) step() {
	c := s.code[s.i]
	switch {
	case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		s.i++
	case strings.HasPrefix(s.code[s.i:], "//") || s.i == 0 && strings.HasPrefix(s.code, "#!"):
		s.skipTo("\n")
	case strings.HasPrefix(s.code[s.i:], "/*"):
		s.i += 2
		s.skipTo("*/")
	case c == '"' || c == '\'':
		s.quoted(c)
		s.isValue()
	case c == '`':
		if s.value {
			s.top().links++ // a tag
		}
		s.i++
		s.template()
	case wordByte(c):
		s.word()
	case c == '(' || c == '[':
		if s.value {
			s.top().links++ // a call, or a member
		}
		s.i++
		s.open(false, s.value || c == '[')
		s.top().head = s.behindHead && c == '('
	case c == '{':
		s.i++
		block := s.value || s.last == 0 || strings.IndexByte(";{>", s.last) >= 0
		s.open(false, !block)
	case c == ')' || c == ']' || c == '}':
		s.i++
		was, head := s.top().template, s.top().head
		if len(s.levels) > 1 {
			s.levels = s.levels[:len(s.levels)-1]
		}
		if was && c == '}' {
			s.template()
			return
		}
		s.value = true
		s.ended = c == '}'
		s.closed = head
	case c == ',' && !s.top().list:
		s.i++
		s.top().links++
		s.value = false
	case c == ',' || c == ';':
		s.i++
		if c == ';' {
			s.ended = true
		}
		s.top().links, s.value = 0, false
	case c == '/' && !s.value:
		s.pattern()
		s.isValue()
	case s.value && (strings.HasPrefix(s.code[s.i:], "++") || strings.HasPrefix(s.code[s.i:], "--")):
		s.i += 2
		s.top().links++
	default: // an operator
		s.i++
		s.top().links++
		s.value = false
	}
}

// isValue notes a value: behind another one it begins a statement.
func (s *chainScanner) isValue() {
	if s.value {
		s.top().links = 0
	}
	s.value = true
}

func (s *chainScanner) word() {
	start := s.i
	for s.i < len(s.code) && wordByte(s.code[s.i]) {
		s.i++
	}
	word := s.code[start:s.i]
	if s.last != '.' && !strings.HasPrefix(strings.TrimLeft(s.code[s.i:], " "), ":") { // else it is a name
		s.heads(word)
	}
	s.ended = word == "return"
	switch word {
	case "in", "of", "instanceof", "as", "satisfies":
		if s.value {
			s.top().links++
			s.value = false
			return
		}
		s.isValue()
	case "new", "typeof", "void", "delete", "await", "yield", "async":
		if s.value {
			s.top().links = 0
		}
		s.top().links++
		s.value = false
	case "return", "case", "throw", "else", "do":
		s.top().links, s.value = 0, false
	default:
		s.isValue()
	}
}

// heads counts statements that are in one another without a block.
func (s *chainScanner) heads(word string) {
	top := s.top()
	over := s.ended || s.value && !s.behindClosed // the statement before
	switch word {
	case "else":
		top.heads++
		return
	case "while":
		if over && top.dos > 0 {
			top.dos-- // the end of a do
			return
		}
	case "if", "for", "with", "do":
	default:
		return
	}
	if over {
		top.heads, top.dos = 0, 0
	}
	top.heads++
	if s.head = word != "do"; !s.head {
		top.dos++
	}
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c == '#' || c >= 0x80
}

func (s *chainScanner) skipTo(end string) {
	if n := strings.Index(s.code[s.i:], end); n >= 0 {
		s.i += n + len(end)
		return
	}
	s.i = len(s.code)
}

// quoted skips a text, which ends with its line at the latest.
func (s *chainScanner) quoted(q byte) {
	for s.i++; s.i < len(s.code); s.i++ {
		switch s.code[s.i] {
		case '\\':
			s.i++
		case '\n':
			return
		case q:
			s.i++
			return
		}
	}
}

// pattern skips a regular expression, which ends with its line at the latest.
func (s *chainScanner) pattern() {
	class := false
	for s.i++; s.i < len(s.code); s.i++ {
		switch s.code[s.i] {
		case '\\':
			s.i++
		case '\n':
			return
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if !class {
				s.i++
				return
			}
		}
	}
}

// template reads the text of a template up to its end or to a ${.
func (s *chainScanner) template() {
	for ; s.i < len(s.code); s.i++ {
		switch s.code[s.i] {
		case '\\':
			s.i++
		case '`':
			s.i++
			s.value = true
			return
		case '$':
			if strings.HasPrefix(s.code[s.i:], "${") {
				s.i += 2
				s.open(true, false)
				return
			}
		}
	}
}
