package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"dshsh/loop/policy"
	"dshsh/loop/tool"
)

// rulesHead begins a file of rules that the program makes.
const rulesHead = `# What dshsh may do without asking, in any session. It adds to this file when a question is
# answered with "a"; edit it as you like. docs/approvals.md says what the keys mean.
`

// ReadRules reads a file of rules; a file that is not there has none. An error says where
// in it, and then none of its rules count.
func ReadRules(path string) ([]policy.Rule, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	found, err := parseRules(path, data)
	var out []policy.Rule
	for _, f := range found {
		out = append(out, f.rule)
	}
	return out, err
}

// foundRule is a rule and the line of its [[rule]].
type foundRule struct {
	rule policy.Rule
	line int
}

func parseRules(path string, data []byte) ([]foundRule, error) {
	entries, err := readTOML(path, data)
	if err != nil {
		return nil, err
	}
	var out []foundRule
	for _, e := range entries {
		if e.key == "" {
			if !strings.HasPrefix(e.table, "rule ") {
				return nil, fmt.Errorf("%s:%d: unknown table %s; there are only [[rule]]", path, e.line, e.table)
			}
			out = append(out, foundRule{line: e.line})
			continue
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("%s:%d: %s belongs below a [[rule]]", path, e.line, e.key)
		}
		r := &out[len(out)-1].rule
		field := map[string]*string{"tool": &r.Tool, "command": &r.Command, "path": &r.Path, "project": &r.Project, "decision": &r.Decision}
		to := field[e.key]
		if to == nil {
			return nil, fmt.Errorf("%s:%d: unknown key %q%s", path, e.line, e.key, meant(e.key, []string{"tool", "command", "path", "project", "decision"}))
		}
		text, ok := e.value.(string)
		if !ok {
			return nil, fmt.Errorf("%s:%d: %s: want a text in quotes", path, e.line, e.key)
		}
		if text == "" {
			return nil, fmt.Errorf("%s:%d: %s is empty; leave it out for any", path, e.line, e.key)
		}
		*to = text
	}
	for _, f := range out {
		if err := f.rule.Check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, f.line, err)
		}
	}
	return out, nil
}

// meant is what a message adds about a name that is not known.
func meant(got string, known []string) string {
	if near := tool.Nearest(got, known); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return "; there are " + strings.Join(known, ", ")
}

// AddRules writes rules to the end of the file, which is made when it is missing. What
// people wrote into it stays. A file that cannot be read is not written.
func AddRules(path string, rules []policy.Rule) error {
	return changeRules(path, func(found []foundRule, text string) string {
		if text == "" {
			text = rulesHead
		} else if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
	next:
		for _, r := range rules {
			for _, f := range found {
				if f.rule == r {
					continue next
				}
			}
			text += ruleText(r)
		}
		return text
	})
}

// RemoveRule takes a rule out of the file, with the lines up to the next one.
func RemoveRule(path string, r policy.Rule) error {
	return changeRules(path, func(found []foundRule, text string) string {
		lines := strings.SplitAfter(text, "\n")
		for i := len(found) - 1; i >= 0; i-- {
			if found[i].rule != r {
				continue
			}
			from, to := found[i].line-1, len(lines)
			if i+1 < len(found) {
				to = found[i+1].line - 1
			}
			// What stands right above the next rule speaks of that one.
			for to > from+1 && i+1 < len(found) && strings.HasPrefix(strings.TrimSpace(lines[to-1]), "#") {
				to--
			}
			lines = append(lines[:from:from], lines[to:]...)
		}
		return strings.Join(lines, "")
	})
}

// ruleText is a rule as it stands in the file.
func ruleText(r policy.Rule) string {
	var b strings.Builder
	b.WriteString("\n[[rule]]\n")
	for _, f := range [][2]string{{"decision", r.Decision}, {"tool", r.Tool}, {"command", r.Command}, {"path", r.Path}, {"project", r.Project}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s = %s\n", f[0], quoteTOML(f[1]))
		}
	}
	return b.String()
}

// quoteTOML writes a text in the form that is easiest to read.
func quoteTOML(s string) string {
	plain := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
	switch {
	case plain && !strings.ContainsAny(s, `"\`):
		return `"` + s + `"`
	case plain && !strings.Contains(s, "'"):
		return "'" + s + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// changeRules replaces the file whole, one shell at a time.
func changeRules(path string, change func(found []foundRule, text string) string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("saving the rule: %w", err)
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return fmt.Errorf("saving the rule: %w", err)
	}
	defer unlock()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("saving the rule: %w", err)
	}
	found, err := parseRules(path, data)
	if err != nil {
		return fmt.Errorf("the rule is not saved, since the file cannot be read: %w", err)
	}
	text := change(found, string(data))
	if _, err := parseRules(path, []byte(text)); err != nil {
		return fmt.Errorf("the rule cannot be written so that it is read again: %w", err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link to where somebody keeps such files stays one
	}
	return replaceFile(path, text)
}

// replaceFile gives a file a new content, or none of it.
func replaceFile(path, text string) error {
	tmp := path + "." + strconv.Itoa(os.Getpid()) + ".tmp"
	err := os.WriteFile(tmp, []byte(text), 0o600)
	if err == nil {
		if st, serr := os.Stat(path); serr == nil {
			err = os.Chmod(tmp, st.Mode().Perm())
		}
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("saving the rule: %w", err)
	}
	return nil
}
