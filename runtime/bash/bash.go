// Package bash reads the text of a bash command: which programs it would run, with which
// words and redirections, also those inside pipes, lists, subshells, substitutions,
// wrappers such as env, sudo and xargs, and commands within commands (bash -c, eval, find
// -exec). Nothing is run and no file is looked at, so that what only running would tell
// is said to be unknown.
//
// Policies and the guards of the shell read commands with it, and so see the same, whether
// they are to allow or to deny. A program can still compute what it does: this is no
// sandbox.
//
// Everything here is a function of its arguments; any goroutine may call it.
package bash

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bounds of what is read.
const (
	MaxText  = 64 << 10 // bytes of a command; the rest is not read
	maxDepth = 8        // commands within commands
	maxNest  = 100      // brackets and the like within each other
	maxVia   = 30       // programs that run each other
)

// Errors of a command that is not read to its end.
var (
	ErrTooLong = fmt.Errorf("the command is longer than %d KiB", MaxText>>10)
	ErrTooDeep = errors.New("the command is nested too deep")
)

// Word is a word of a command, as far as the text tells what it will be. Plain data.
type Word struct {
	Text    string // quotes and escapes undone, known variables filled in
	Pattern string // the same as a pattern of path.Match, when it has unquoted * ? [; else ""
	Opaque  bool   // a part is known only when the command runs; Text lacks it
}

// Redirect is a redirection. Op is the operator without the number before it, which is FD.
// Here-documents are none. Plain data.
type Redirect struct {
	Op     string
	FD     string // "" where the operator's own is meant
	Target Word
}

// Reads says that the redirection changes no file.
func (r Redirect) Reads() bool { return r.Op == "<" || r.Op == "<&" || r.duplicates() }

// duplicates: as in 2>&1.
func (r Redirect) duplicates() bool {
	return r.Op == ">&" && (r.Target.Text == "-" || r.Target.Text != "" && strings.Trim(r.Target.Text, "0123456789") == "")
}

// Program is a program, or a builtin, that a command would run.
type Program struct {
	Words     []Word   // the name as it is written, and the arguments; at least one
	Via       []string // what runs it, outermost first: "sudo", "bash"
	Redirects []Redirect
	Input     string // of here-documents and here-strings
	Piped     bool   // its input comes from something else
	Wraps     bool   // it runs another program, which is visited next
}

// Name is the program's name without its folder: "rm" for /bin/rm.
func (p *Program) Name() string { return baseName(p.Words[0].Text) }

// baseName is path.Base for names that people write, "" included.
func baseName(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// Visitor is told what a command holds, in the order of the text.
type Visitor interface {
	// Open and Close enclose what runs in a process of its own, such as a subshell.
	Open()
	Close()
	Program(*Program)
	Redirect(Redirect)
	// Assign says that a variable is given a value, for one program or from here on.
	Assign(name string)
	// Mention is text that is no program's: here-documents, patterns, the items of a loop.
	Mention(text string)
	// Unknown says that something is run that the text does not tell: what is a name for
	// people, "a program whose name is computed".
	Unknown(what string)
}

// Walk reads a command. vars are variables whose values are known. An error says that it
// was not read to its end; what stands before that has been visited.
func Walk(src string, vars map[string]string, v Visitor) error {
	w := &walker{v: v, vars: make(map[string]string, len(vars))}
	for name, value := range vars {
		w.vars[name] = value
	}
	w.run(src, nil, context{})
	return w.err
}

// walker reads one command. vars are those that are known at the place where it is.
type walker struct {
	v     Visitor
	vars  map[string]string
	depth int
	err   error
}

// context is what surrounds a command. Immutable.
type context struct {
	via   []string
	input string
	piped bool
}

// opaqueValue stands for a value that only running the command would tell.
const opaqueValue = "\x00"

func (w *walker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// run reads a text, also one that is within another.
func (w *walker) run(src string, via []string, c context) {
	if w.depth >= maxDepth {
		w.fail(ErrTooDeep)
		return
	}
	w.depth++
	defer func() { w.depth-- }()
	if len(src) > MaxText {
		w.fail(ErrTooLong)
		src = src[:MaxText]
	}
	if tooNested(src) {
		w.fail(ErrTooDeep)
		return
	}
	stmts, err := parse(src)
	if err != nil {
		w.fail(err)
	}
	c.via = via
	w.stmts(stmts, c)
}

// parse gives the statements before an error too, as bash runs them. The parser is not
// ours: should it panic, the command is one that cannot be read.
func parse(src string) (stmts []*syntax.Stmt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the command cannot be read: %v", p)
		}
	}()
	p := syntax.NewParser(syntax.Variant(syntax.LangBash))
	for s, err := range p.StmtsSeq(strings.NewReader(src)) {
		if err != nil {
			return stmts, fmt.Errorf("the command cannot be read: %w", err)
		}
		stmts = append(stmts, s)
	}
	return stmts, nil
}

// tooNested bounds the recursion of the parser: it counts, without regard to quotes, what
// opens a level and is not closed.
func tooNested(src string) bool {
	depth, ticks := 0, 0
	for i := range len(src) {
		switch src[i] {
		case '(', '{':
			depth++
		case ')', '}':
			depth = max(depth-1, 0)
		case '`':
			ticks++
		}
		if depth > maxNest {
			return true
		}
	}
	words := 0
	for word := range strings.FieldsFuncSeq(src, func(r rune) bool { return strings.ContainsRune(" \t\n;&|", r) }) {
		switch word {
		case "if", "while", "until", "for", "case", "select", "time", "!", "coproc", "[[":
			words++
		case "fi", "done", "esac", "]]":
			words = max(words-1, 0)
		}
		if words > maxNest {
			return true
		}
	}
	return ticks > 4*maxNest*maxNest
}
