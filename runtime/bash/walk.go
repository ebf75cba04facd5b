package bash

import (
	"maps"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (w *walker) stmts(stmts []*syntax.Stmt, c context) {
	for _, s := range stmts {
		w.stmt(s, c)
	}
}

// apart runs fn as a process of its own, whose variables and folder end with it.
func (w *walker) apart(fn func()) {
	vars := w.vars
	w.vars = maps.Clone(vars)
	w.v.Open()
	fn()
	w.v.Close()
	w.vars = vars
}

func (w *walker) stmt(s *syntax.Stmt, c context) {
	if s == nil {
		return
	}
	if s.Background || s.Coprocess {
		b := *s
		b.Background, b.Coprocess = false, false
		w.apart(func() { w.stmt(&b, c) })
		return
	}
	call, simple := s.Cmd.(*syntax.CallExpr)
	var words []Word
	if simple {
		for _, a := range call.Args {
			words = append(words, w.word(a))
		}
		w.assigns(call.Assigns)
	}
	var redirects []Redirect
	for _, r := range s.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			text := w.document(r.Hdoc)
			w.v.Mention(text)
			c.input += text
			continue
		case syntax.WordHdoc:
			text := w.word(r.Word).Text
			w.v.Mention(text)
			c.input += text + "\n"
			continue
		}
		x := Redirect{Op: r.Op.String(), Target: w.word(r.Word)}
		if r.N != nil {
			x.FD = r.N.Value
		}
		redirects = append(redirects, x)
		w.v.Redirect(x)
		c.piped = c.piped || r.Op == syntax.RdrIn
	}
	if simple {
		if len(words) > 0 {
			w.program(&Program{Words: words, Via: c.via, Redirects: redirects, Input: c.input, Piped: c.piped})
		}
		return
	}
	w.command(s.Cmd, c)
}

// command reads what is no simple command.
func (w *walker) command(cmd syntax.Command, c context) {
	switch x := cmd.(type) {
	case *syntax.BinaryCmd:
		switch x.Op {
		case syntax.Pipe, syntax.PipeAll:
			w.apart(func() { w.stmt(x.X, c) })
			c.piped = true
			w.apart(func() { w.stmt(x.Y, c) })
		default:
			w.stmt(x.X, c)
			w.stmt(x.Y, c)
		}
	case *syntax.Subshell:
		w.apart(func() { w.stmts(x.Stmts, c) })
	case *syntax.Block:
		w.stmts(x.Stmts, c)
	case *syntax.IfClause:
		for ; x != nil; x = x.Else {
			w.stmts(x.Cond, c)
			w.stmts(x.Then, c)
		}
	case *syntax.WhileClause:
		w.stmts(x.Cond, c)
		w.stmts(x.Do, c)
	case *syntax.ForClause:
		if it, ok := x.Loop.(*syntax.WordIter); ok {
			for _, item := range it.Items {
				w.v.Mention(w.word(item).Text)
			}
			w.vars[it.Name.Value] = opaqueValue
		} else {
			w.inside(x.Loop)
		}
		w.stmts(x.Do, c)
	case *syntax.CaseClause:
		w.v.Mention(w.word(x.Word).Text)
		for _, item := range x.Items {
			for _, p := range item.Patterns {
				w.v.Mention(w.word(p).Text)
			}
			w.stmts(item.Stmts, c)
		}
	case *syntax.FuncDecl:
		w.stmt(x.Body, c) // as if it were called here
	case *syntax.TimeClause:
		w.stmt(x.Stmt, c)
	case *syntax.CoprocClause:
		w.apart(func() { w.stmt(x.Stmt, c) })
	case *syntax.DeclClause:
		w.assigns(x.Args)
	case nil:
	default: // [[ ]], (( )), let
		w.inside(x)
	}
}

// assigns takes over assignments.
func (w *walker) assigns(list []*syntax.Assign) {
	for _, a := range list {
		if a.Array != nil {
			w.inside(a.Array)
		}
		if a.Index != nil {
			w.inside(a.Index)
		}
		value := Word{}
		if a.Value != nil {
			value = w.word(a.Value)
			w.v.Mention(value.Text)
		}
		if a.Name != nil && !a.Naked {
			w.v.Assign(a.Name.Value)
		}
		switch {
		case a.Name == nil || a.Naked:
		case a.Array != nil || a.Index != nil || a.Append || value.Opaque:
			w.vars[a.Name.Value] = opaqueValue
		default:
			w.vars[a.Name.Value] = value.Text
		}
	}
}

// inside reads the substitutions within something whose value is of no interest.
func (w *walker) inside(n syntax.Node) {
	if n == nil {
		return
	}
	syntax.Walk(n, func(n syntax.Node) bool {
		switch x := n.(type) {
		case *syntax.CmdSubst:
			w.substitution(x.Stmts)
			return false
		case *syntax.ProcSubst:
			w.substitution(x.Stmts)
			return false
		case *syntax.Lit:
			w.v.Mention(x.Value)
		case *syntax.SglQuoted:
			w.v.Mention(x.Value)
		}
		return true
	})
}

func (w *walker) substitution(stmts []*syntax.Stmt) {
	if w.depth >= maxDepth {
		w.fail(ErrTooDeep)
		return
	}
	w.depth++
	w.apart(func() { w.stmts(stmts, context{}) })
	w.depth--
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

func (w *walker) word(x *syntax.Word) Word {
	if x == nil {
		return Word{}
	}
	var b builder
	for i, p := range x.Parts {
		w.part(&b, p, false, i == 0)
	}
	out := Word{Text: b.text.String(), Opaque: b.opaque}
	if b.glob {
		out.Pattern = b.pattern.String()
	}
	return out
}

// document is the text of a here-document.
func (w *walker) document(x *syntax.Word) string {
	if x == nil {
		return ""
	}
	var b builder
	for _, p := range x.Parts {
		w.part(&b, p, true, false)
	}
	return b.text.String()
}

func (w *walker) part(b *builder, p syntax.WordPart, quoted, first bool) {
	switch x := p.(type) {
	case *syntax.Lit:
		if quoted {
			b.literal(unescapeQuoted(x.Value))
			return
		}
		w.unquoted(b, x.Value, first)
	case *syntax.SglQuoted:
		if x.Dollar {
			b.literal(unescape(x.Value))
		} else {
			b.literal(x.Value)
		}
	case *syntax.DblQuoted:
		for _, q := range x.Parts {
			w.part(b, q, true, false)
		}
	case *syntax.ParamExp:
		w.variable(b, x, quoted)
	case *syntax.CmdSubst:
		b.opaque = true
		w.substitution(x.Stmts)
	case *syntax.ProcSubst:
		b.opaque = true
		w.substitution(x.Stmts)
	default:
		b.opaque = true
		w.inside(x)
	}
}

// unquoted adds text with its escapes, patterns, braces and the home folder.
func (w *walker) unquoted(b *builder, s string, first bool) {
	if first && (s == "~" || strings.HasPrefix(s, "~/")) && w.vars["HOME"] != "" {
		b.literal(w.vars["HOME"])
		s = s[1:]
	} else if first && strings.HasPrefix(s, "~") {
		b.opaque = true
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i < len(s) && s[i] != '\n' {
				n := 1
				for i+n < len(s) && s[i+n]&0xC0 == 0x80 { // the rest of a rune
					n++
				}
				b.literal(s[i : i+n])
				i += n - 1
			}
			continue
		case '*', '?', '[':
			b.glob = true
		case '{':
			b.brace = true
		case ',', '.':
			// Which words braces make is not worked out.
			b.opaque = b.opaque || b.brace && (c == ',' || strings.HasPrefix(s[i:], ".."))
		}
		b.text.WriteByte(s[i])
		b.pattern.WriteByte(s[i])
	}
}

func (w *walker) variable(b *builder, x *syntax.ParamExp, quoted bool) {
	plain := x.Param != nil && !x.Excl && !x.Length && !x.Width && !x.IsSet && x.Index == nil && x.Slice == nil && x.Repl == nil && x.Names == 0 && x.Exp == nil && x.NestedParam == nil && x.Flags == nil && len(x.Modifiers) == 0
	if !plain {
		b.opaque = true
		w.inside(x)
		return
	}
	value, ok := w.vars[x.Param.Value]
	if !ok || value == opaqueValue {
		b.opaque = true
		return
	}
	// Without quotes it may become several words, or a pattern.
	b.opaque = b.opaque || !quoted && strings.ContainsAny(value, " \t\n*?[")
	b.literal(value)
}
