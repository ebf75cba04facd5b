package policy

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"dshsh/loop/tool"
	"dshsh/loop/tool/fs"
	"dshsh/runtime/bash"
)

// Rule is an answer that a person has given for good: what becomes of calls that are like
// one another. Plain data; [Rule.Check] says whether it is one.
type Rule struct {
	// Decision is allow, ask or deny. Where several rules match, the strictest decides.
	Decision string
	// Tool is the name of the tool; * stands for any part of it.
	Tool string
	// Command is for tools that run commands: the words of one program, quoted as in a
	// shell. * stands for any part of a word, and as the last word for any further ones. "" is
	// any command.
	Command string
	// Path is for tools that name files: a pattern with * and **, relative to the project's
	// folder, absolute, or below ~/. It is compared with where a path leads. "" is any file.
	Path string
	// Project is the folder of the project that the rule is for, absolute; "" is any.
	Project string
}

// Check says what is wrong with a rule, for the person who wrote it.
func (r Rule) Check() error {
	_, err := compile(r)
	return err
}

// String is the rule in words, without its decision: "bash: git status with any arguments,
// in /home/me/src".
func (r Rule) String() string { return r.words("in " + r.Project) }

// Words is the rule as a person is asked about it, in the project that it is for: "git
// status with any arguments, in this project".
func (r Rule) Words() string { return strings.TrimPrefix(r.words("in this project"), r.Tool+": ") }

func (r Rule) words(where string) string {
	what := "any call of " + r.Tool
	switch {
	case r.Command != "":
		what = r.Tool + ": " + r.Command
		if rest, ok := strings.CutSuffix(what, " *"); ok {
			what = rest + " with any arguments"
		}
	case r.Path != "":
		what = r.Tool + " " + r.Path
	}
	if r.Project == "" {
		where = "anywhere"
	}
	return what + ", " + where
}

// rule is a Rule that has been read. Immutable.
type rule struct {
	Rule
	session bool
	words   []bash.Word // of Command, without the last one if that is *
	more    bool        // any further words
}

func compile(r Rule) (*rule, error) {
	c := &rule{Rule: r}
	switch r.Decision {
	case Allow, Ask, Deny:
	default:
		return nil, fmt.Errorf("decision: %q is none; there are allow, ask and deny", r.Decision)
	}
	switch {
	case r.Tool == "":
		return nil, errors.New("tool is missing: the name of a tool, or * for any")
	case r.Command != "" && r.Path != "":
		return nil, errors.New("a rule has a command or a path, not both")
	case r.Project != "" && !filepath.IsAbs(r.Project):
		return nil, fmt.Errorf("project: %q is not absolute", r.Project)
	case r.Path != "":
		if !doublestar.ValidatePattern(filepath.ToSlash(r.Path)) {
			return nil, fmt.Errorf("path: %q is no pattern", r.Path)
		}
		if slices.Contains(strings.Split(filepath.ToSlash(r.Path), "/"), "..") {
			return nil, fmt.Errorf("path: %q: a pattern has no ..; give an absolute one for what is outside of the project", r.Path)
		}
	case r.Command != "":
		var p single
		if err := bash.Walk(r.Command, nil, &p); err != nil {
			return nil, fmt.Errorf("command: %w", err)
		}
		if len(p.words) == 0 || p.odd {
			return nil, fmt.Errorf("command: %q is not the words of one program; a rule has no ; | && > $ and no NAME=VALUE", r.Command)
		}
		c.words = p.words
		if last := p.words[len(p.words)-1]; len(p.words) > 1 && last.Pattern == "*" {
			c.words, c.more = p.words[:len(p.words)-1], true
		}
	}
	return c, nil
}

// single is a bash.Visitor that takes the words of one program and nothing else.
type single struct {
	words []bash.Word
	odd   bool
}

func (p *single) Program(q *bash.Program) {
	if len(q.Via) > 0 {
		return // what a wrapper runs: the words are those of the wrapper
	}
	for _, w := range q.Words {
		p.odd = p.odd || w.Opaque
	}
	p.odd = p.odd || p.words != nil
	p.words = q.Words
}
func (p *single) Open()                  {}
func (p *single) Close()                 {}
func (p *single) Redirect(bash.Redirect) { p.odd = true }
func (p *single) Assign(string)          { p.odd = true }
func (p *single) Mention(string)         { p.odd = true }
func (p *single) Unknown(string)         {}

// Rules is the rules that are in force. It is used on the host thread. The zero value has
// none.
type Rules struct{ list []*rule }

// ListedRule is a rule with where it comes from. Plain data.
type ListedRule struct {
	Rule
	Session bool // it ends with the session; else it is the user's, from the file
}

// Add puts a rule in force. One that is there already is not added again.
func (rs *Rules) Add(r Rule, session bool) error {
	c, err := compile(r)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rs.list, func(x *rule) bool { return x.Rule == r && x.session == session }) {
		c.session = session
		rs.list = append(rs.list, c)
	}
	return nil
}

// List is the rules in the order in which they were added.
func (rs *Rules) List() []ListedRule {
	out := make([]ListedRule, len(rs.list))
	for i, r := range rs.list {
		out[i] = ListedRule{r.Rule, r.session}
	}
	return out
}

// Remove takes out a rule by its place in List, from 0 on.
func (rs *Rules) Remove(i int) { rs.list = slices.Delete(rs.list, i, i+1) }

// Judge says what the rules have decided about a call; by is the rule, in words. It
// reports false when no rule is about it. A command is allowed only if each of its
// programs is, and if there is nothing in it that rules cannot judge: redirections,
// variables, wrappers, words that only running it would tell. To be denied or asked for it
// is enough that one of its programs is.
func (rs *Rules) Judge(cfg Config, call Call) (d Decision, by string, ok bool) {
	if len(rs.list) == 0 || call.Tool == nil {
		return Decision{}, "", false
	}
	var list []*rule
	for _, r := range rs.list {
		if wild(r.Tool, call.Name) && (r.Project == "" || r.Project == cfg.root()) {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return Decision{}, "", false
	}
	s := newSubject(cfg, call)
	for _, kind := range []string{Deny, Ask} {
		for _, r := range list {
			if r.Decision != kind {
				continue
			}
			switch s.touches(cfg, r) {
			case yes:
				return Decision{kind, fmt.Sprintf("a rule says %s: %s", kind, r)}, r.String(), true
			case perhaps:
				return Decision{Ask, fmt.Sprintf("it may be what a rule says %s to: %s", kind, r)}, r.String(), true
			}
		}
	}
	allows := slices.DeleteFunc(list, func(r *rule) bool { return r.Decision != Allow })
	if used, ok := s.allowed(cfg, allows); ok {
		return Decision{Allow, "a rule allows it"}, strings.Join(used, "; "), true
	}
	return Decision{}, "", false
}

// subject is a call as rules see it. Immutable once made.
type subject struct {
	command string // "" of a tool that runs none
	cmd     *plainness
	paths   []tool.PathUse
}

func newSubject(cfg Config, call Call) *subject {
	s := &subject{}
	if c, ok := call.Tool.(tool.CommandUser); ok {
		var dir string
		if s.command, dir = c.Command(call.Args, call.AgentID); s.command != "" {
			s.cmd = look(cfg, s.command, dir)
		}
	}
	if p, ok := call.Tool.(tool.PathUser); ok {
		s.paths = p.Paths(call.Args)
	}
	return s
}

// How a restricting rule lies to a call.
const (
	no = iota
	perhaps
	yes
)

func (s *subject) touches(cfg Config, r *rule) int {
	switch {
	case r.Command != "":
		at := no
		if s.cmd != nil {
			for _, p := range s.cmd.programs {
				at = max(at, r.restricts(p))
			}
		}
		return at
	case r.Path != "":
		for _, use := range s.paths {
			places, err := fs.Places(cfg.Dir, use.Path)
			if err != nil {
				return perhaps
			}
			for _, p := range append(places, use.Path) {
				if r.matchPath(cfg, p) {
					return yes
				}
			}
		}
		return no
	}
	return yes
}

// allowed says whether rules that allow cover all of a call, and which did.
func (s *subject) allowed(cfg Config, list []*rule) (used []string, ok bool) {
	cover := func(match func(*rule) bool) bool {
		i := slices.IndexFunc(list, func(r *rule) bool { return r.Command == "" && r.Path == "" || match(r) })
		if i < 0 {
			return false
		}
		if by := list[i].String(); !slices.Contains(used, by) {
			used = append(used, by)
		}
		return true
	}
	switch {
	case len(list) == 0:
		return nil, false
	case s.cmd != nil:
		if whole := slices.IndexFunc(list, func(r *rule) bool { return r.Command == "" && r.Path == "" }); whole >= 0 {
			return []string{list[whole].String()}, true
		}
		if s.cmd.odd != "" {
			return nil, false
		}
		for _, p := range s.cmd.judged() {
			if !cover(func(r *rule) bool { return r.allows(p) }) {
				return nil, false
			}
		}
	case len(s.paths) > 0:
		for _, use := range s.paths {
			_, real, err := fs.Resolve(cfg.Dir, use.Path)
			if err != nil || !cover(func(r *rule) bool { return r.Path != "" && r.matchPath(cfg, real) }) {
				return nil, false
			}
		}
	default:
		cover(func(*rule) bool { return false })
	}
	return used, len(used) > 0
}

// allows reports whether a program is what the rule allows: the same words, the name as it
// is written, since another folder's git is another program.
func (r *rule) allows(p *bash.Program) bool {
	if r.Command == "" || len(p.Words) < len(r.words) || !r.more && len(p.Words) > len(r.words) {
		return false
	}
	for i, w := range r.words {
		// A word that stands for files is a word for any, or the same word.
		got := p.Words[i]
		same := got.Pattern == "" || w.Pattern == "*" || w.Pattern == "" && w.Text == got.Text
		if got.Opaque || !same || !matchWord(w, got.Text) {
			return false
		}
	}
	return true
}

// restricts says how a rule that restricts lies to a program. It also covers the program
// in any folder, with further words, and with options before the words that the rule has.
func (r *rule) restricts(p *bash.Program) int {
	name := p.Words[0]
	at := yes
	switch {
	case name.Opaque:
		at = perhaps
	case !matchWord(r.words[0], p.Name()) && !matchWord(r.words[0], name.Text):
		return no
	}
	args, want := p.Words[1:], r.words[1:]
	best := matchArgs(want, args)
	for i := 0; i < len(args) && i < maxOptions && best != yes && len(want) > 0 && strings.HasPrefix(args[0].Text, "-"); i++ {
		best = max(best, matchArgs(want, args[i+1:]))
	}
	return min(at, best)
}

// maxOptions is how far behind options the words of a rule are looked for.
const maxOptions = 20

func matchArgs(want, args []bash.Word) int {
	at := yes
	for i, w := range want {
		switch {
		case i >= len(args):
			return no
		case args[i].Opaque:
			at = perhaps
		case !matchWord(w, args[i].Text):
			return no
		}
	}
	return at
}

// matchWord compares with a word of a rule, in which an unquoted * stands for anything.
func matchWord(w bash.Word, text string) bool {
	if w.Pattern == "" {
		return w.Text == text
	}
	var parts []string // between the stars, without escapes
	var b strings.Builder
	for i := 0; i < len(w.Pattern); i++ {
		switch c := w.Pattern[i]; {
		case c == '*':
			parts = append(parts, b.String())
			b.Reset()
			continue
		case c == '\\' && i+1 < len(w.Pattern):
			i++
		}
		b.WriteByte(w.Pattern[i])
	}
	return between(append(parts, b.String()), text)
}

// wild compares with a pattern in which * stands for anything.
func wild(pattern, text string) bool { return between(strings.Split(pattern, "*"), text) }

// between reports whether text is the parts, with anything between them.
func between(parts []string, text string) bool {
	if len(parts) == 1 {
		return parts[0] == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		_, rest, ok := strings.Cut(text, p)
		if !ok {
			return false
		}
		text = rest
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}

// matchPath compares an absolute path, links followed or not, with the rule's pattern.
func (r *rule) matchPath(cfg Config, path string) bool {
	pattern := filepath.ToSlash(r.Path)
	if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
		pattern = filepath.ToSlash(cfg.Vars["HOME"]) + "/" + rest
	}
	if !strings.HasPrefix(pattern, "/") && !filepath.IsAbs(pattern) {
		root := cmp.Or(r.Project, cfg.root())
		_, real, err := fs.Resolve(root, ".")
		if err != nil {
			real = root
		}
		if !within(root, path) {
			root = real
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || !within(root, path) {
			return false
		}
		path = rel
	}
	ok, err := doublestar.Match(pattern, filepath.ToSlash(path))
	return err == nil && ok
}
