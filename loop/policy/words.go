package policy

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// word is a word of a command, as far as the text tells what it will be.
type word struct {
	text    string // quotes and escapes undone, known variables filled in
	pattern string // the same as a pattern of path.Match, when it has unquoted * ? [; else ""
	opaque  bool   // a part is known only when the command runs; text lacks it
}

// redirect is a redirection. op is the operator without the number before it.
type redirect struct {
	op     string
	target word
}

// step is a simple command, or the start or end of a subshell.
type step struct {
	open, close bool
	words       []word // without assignments before the program
	redirects   []redirect
	input       string // of here-documents and here-strings
	piped       bool   // its input is the output of the command before it
}

// lexer takes the text of a bash command apart. It is lenient: what it does not
// understand it takes by the letter, and it always comes to an end. One goroutine uses it.
type lexer struct {
	src   string
	pos   int
	depth int // of substitutions
	vars  map[string]string
	known map[string]string // variables from outside

	steps    []step
	cur      step
	started  bool // cur has something
	pending  []*pendingDoc
	piped    bool
	prefix   bool // every word of cur so far was an assignment or a keyword
	lateDocs []lateDoc
}

type pendingDoc struct {
	end    string
	quoted bool
	tabs   bool
	step   int // index into steps; len(steps) while the command is being read
}

type lateDoc struct {
	step int
	text string
}

// maxNesting is how deep substitutions and commands within commands are followed.
const maxNesting = 8

// lex returns the steps of a command. known are variables from outside; vars those
// that the text has set so far, which lex adds to.
func lex(src string, vars, known map[string]string, depth int) []step {
	l := &lexer{src: src, vars: vars, known: known, depth: depth, prefix: true}
	for l.pos < len(l.src) {
		l.next()
	}
	l.finish()
	l.readDocs()
	for _, d := range l.lateDocs {
		if d.step < len(l.steps) {
			l.steps[d.step].input += d.text
		}
	}
	return l.steps
}

func (l *lexer) at(s string) bool { return strings.HasPrefix(l.src[l.pos:], s) }

// operators that end a command, longest first.
var separators = []string{"&&", "||", "|&", ";;", ";", "|", "&", "\n"}

// redirections, longest first.
var redirections = []string{"<<<", "<<-", "&>>", "<<", "<>", "<&", ">>", ">&", ">|", "&>", "<", ">"}

func (l *lexer) next() {
	c := l.src[l.pos]
	switch {
	case c == ' ' || c == '\t' || c == '\r':
		l.pos++
		return
	case l.at("\\\n"):
		l.pos += 2
		return
	case c == '#':
		for l.pos < len(l.src) && l.src[l.pos] != '\n' {
			l.pos++
		}
		return
	case c == '(' || c == ')':
		l.finish()
		l.pos++
		l.steps = append(l.steps, step{open: c == '(', close: c == ')'})
		return
	}
	if !l.at("<(") && !l.at(">(") {
		for _, op := range redirections {
			if l.at(op) {
				l.pos += len(op)
				l.redirect(op)
				return
			}
		}
	}
	for _, op := range separators {
		if l.at(op) {
			l.pos += len(op)
			l.finish()
			l.piped = op == "|" || op == "|&"
			if op == "\n" {
				l.readDocs()
			}
			return
		}
	}
	start := l.pos
	w := l.word()
	if l.pos == start { // cannot be; but never stand still
		l.pos++
		return
	}
	raw := l.src[start:l.pos]
	if l.pos < len(l.src) && (l.src[l.pos] == '<' || l.src[l.pos] == '>') && isNumber(raw) {
		return // the number of a file descriptor
	}
	l.started = true
	if l.prefix {
		if keywords[raw] {
			return
		}
		if name, value, ok := strings.Cut(w.text, "="); ok && isAssignment(raw) {
			l.assign(strings.TrimSuffix(name, "+"), value, w.opaque || strings.HasSuffix(name, "+"))
			return
		}
	}
	l.prefix = l.prefix && declares[raw]
	l.cur.words = append(l.cur.words, w)
}

// keywords may stand before a command, or alone.
var keywords = map[string]bool{
	"if": true, "then": true, "elif": true, "else": true, "fi": true, "while": true, "until": true,
	"do": true, "done": true, "esac": true, "{": true, "}": true, "!": true, "time": true, "coproc": true,
}

// declares are commands whose arguments are assignments.
var declares = map[string]bool{"export": true, "local": true, "declare": true, "readonly": true, "typeset": true}

// isAssignment reports whether a word, as it is written, is NAME=... or NAME+=...
func isAssignment(raw string) bool {
	for i := range len(raw) {
		switch {
		case isNameByte(raw[i], i == 0):
		case raw[i] == '=':
			return i > 0
		case raw[i] == '+' && i > 0:
			return strings.HasPrefix(raw[i:], "+=")
		default:
			return false
		}
	}
	return false
}

func (l *lexer) assign(name, value string, opaque bool) {
	if opaque {
		l.vars[name] = opaqueValue
		return
	}
	l.vars[name] = value
}

// opaqueValue stands for a value that only running the command would tell.
const opaqueValue = "\x00"

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// finish ends the command that is being read.
func (l *lexer) finish() {
	if l.started {
		if len(l.cur.words) > 1 && (l.cur.words[0].text == "for" || l.cur.words[0].text == "select") {
			l.vars[l.cur.words[1].text] = opaqueValue
		}
		l.cur.piped = l.piped
		l.steps = append(l.steps, l.cur)
	}
	for _, d := range l.pending {
		if d.step < 0 {
			d.step = len(l.steps) - 1
		}
	}
	l.cur, l.started, l.prefix, l.piped = step{}, false, true, false
}

func (l *lexer) redirect(op string) {
	for l.pos < len(l.src) && (l.src[l.pos] == ' ' || l.src[l.pos] == '\t') {
		l.pos++
	}
	start := l.pos
	w := l.word()
	raw := l.src[start:l.pos]
	l.started = true
	switch op {
	case "<<", "<<-":
		l.pending = append(l.pending, &pendingDoc{end: w.text, quoted: strings.ContainsAny(raw, `'"\`), tabs: op == "<<-", step: -1})
	case "<<<":
		l.cur.input += w.text + "\n"
	default:
		l.cur.redirects = append(l.cur.redirects, redirect{op, w})
	}
}

// readDocs reads the bodies of here-documents, which begin after the line.
func (l *lexer) readDocs() {
	for _, d := range l.pending {
		var body strings.Builder
		for l.pos < len(l.src) {
			line, _, _ := strings.Cut(l.src[l.pos:], "\n")
			l.pos = min(l.pos+len(line)+1, len(l.src))
			if d.tabs {
				line = strings.TrimLeft(line, "\t")
			}
			if line == d.end {
				break
			}
			body.WriteString(line + "\n")
		}
		text := body.String()
		if !d.quoted {
			// Substitutions in it are run.
			sub := &lexer{src: text, vars: l.vars, known: l.known, depth: l.depth}
			var w builder
			sub.quotedText(&w, 0)
			l.steps = append(l.steps, sub.steps...)
			text = w.text.String()
		}
		l.lateDocs = append(l.lateDocs, lateDoc{d.step, text})
	}
	l.pending = nil
}

// builder puts a word together.
type builder struct {
	text, pattern strings.Builder
	glob, opaque  bool
	brace         bool
}

// literal adds text that is quoted, so that it is no pattern.
func (b *builder) literal(s string) {
	b.text.WriteString(s)
	for _, r := range s {
		if strings.ContainsRune(`*?[]\`, r) {
			b.pattern.WriteByte('\\')
		}
		b.pattern.WriteRune(r)
	}
}

func (l *lexer) word() word {
	var b builder
	start := l.pos
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case strings.IndexByte(" \t\r\n;&|()", c) >= 0:
			return b.word()
		case c == '<' || c == '>':
			if l.pos+1 < len(l.src) && l.src[l.pos+1] == '(' { // process substitution
				l.pos++
				l.substitution(&b)
				continue
			}
			return b.word()
		case c == '\\':
			l.pos++
			if l.pos < len(l.src) {
				_, n := utf8.DecodeRuneInString(l.src[l.pos:])
				if l.src[l.pos] != '\n' {
					b.literal(l.src[l.pos : l.pos+n])
				}
				l.pos += n
			}
		case c == '\'':
			l.pos++
			text, _, found := strings.Cut(l.src[l.pos:], "'")
			b.literal(text)
			l.pos += len(text)
			if found {
				l.pos++
			}
		case c == '"':
			l.pos++
			l.quotedText(&b, '"')
		case c == '$' || c == '`':
			l.expansion(&b, false)
		case c == '~' && l.pos == start:
			l.pos++
			if home := l.known["HOME"]; home != "" && (l.pos == len(l.src) || strings.IndexByte("/ \t\n;&|)", l.src[l.pos]) >= 0) {
				b.literal(home)
			} else {
				b.literal("~")
				b.opaque = true
			}
		default:
			_, n := utf8.DecodeRuneInString(l.src[l.pos:])
			b.glob = b.glob || c == '*' || c == '?' || c == '['
			b.brace = b.brace || c == '{'
			// Which words braces make is not worked out.
			b.opaque = b.opaque || b.brace && (c == ',' || strings.HasPrefix(l.src[l.pos:], ".."))
			b.text.WriteString(l.src[l.pos : l.pos+n])
			b.pattern.WriteString(l.src[l.pos : l.pos+n])
			l.pos += n
		}
	}
	return b.word()
}

func (b *builder) word() word {
	w := word{text: b.text.String(), opaque: b.opaque}
	if b.glob {
		w.pattern = b.pattern.String()
	}
	return w
}

// quotedText reads the inside of double quotes, up to and with the end quote; with end 0
// all that there is.
func (l *lexer) quotedText(b *builder, end byte) {
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case end != 0 && c == end:
			l.pos++
			return
		case c == '\\' && l.pos+1 < len(l.src) && strings.IndexByte("$`\"\\\n", l.src[l.pos+1]) >= 0:
			if l.src[l.pos+1] != '\n' {
				b.literal(l.src[l.pos+1 : l.pos+2])
			}
			l.pos += 2
		case c == '$' || c == '`':
			l.expansion(b, true)
		default:
			_, n := utf8.DecodeRuneInString(l.src[l.pos:])
			b.literal(l.src[l.pos : l.pos+n])
			l.pos += n
		}
	}
}
