package fs

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// ignores is what the .gitignore files of a folder and of those above it say. nil says
// nothing. Immutable.
type ignores struct {
	up    *ignores
	dir   string // absolute; what the rules are relative to
	rules []ignoreRule
}

// ignoreRule is one line of a .gitignore. Immutable.
type ignoreRule struct {
	pattern string // doublestar, matched against the whole path below dir
	keep    bool   // the line began with !
	dirOnly bool
}

const (
	ignoreFile = ".gitignore"
	gitFolder  = ".git"
)

// maxIgnoreFile is how much of a .gitignore is read.
const maxIgnoreFile = 1 << 20

// matches reports whether a path is to be left out. The deepest file that speaks of it decides, in
// it the last line. abs is absolute and in the folder of ig; that a folder above abs may be left out
// is seen by whoever walks there.
func (ig *ignores) matches(abs string, isDir bool) bool {
	for ; ig != nil; ig = ig.up {
		rel, ok := strings.CutPrefix(abs, withSeparator(ig.dir))
		if !ok {
			continue
		}
		rel = filepath.ToSlash(rel)
		for i := len(ig.rules) - 1; i >= 0; i-- {
			r := ig.rules[i]
			if r.dirOnly && !isDir {
				continue
			}
			if doublestar.MatchUnvalidated(r.pattern, rel) {
				return !r.keep
			}
		}
	}
	return false
}

// below returns the ignores for a folder whose .gitignore has been read.
func (ig *ignores) below(dir string, content []byte) *ignores {
	rules := parseIgnore(content)
	if len(rules) == 0 {
		return ig
	}
	return &ignores{up: ig, dir: dir, rules: rules}
}

// ignoresAbove reads the .gitignore files of the folders above dir, up to the one that
// is a repository of git.
func ignoresAbove(dir string) *ignores {
	var dirs []string
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, gitFolder)); err == nil {
			break
		}
		if at == filepath.Dir(at) {
			break
		}
		dirs = append(dirs, filepath.Dir(at))
	}
	var ig *ignores
	for i := len(dirs) - 1; i >= 0; i-- {
		file, err := os.OpenFile(filepath.Join(dirs[i], ignoreFile), os.O_RDONLY|openWithoutWaiting, 0)
		if err == nil {
			ig = ig.below(dirs[i], readIgnore(file))
		}
	}
	return ig
}

// readIgnore reads and closes a .gitignore. One that cannot be read says nothing.
func readIgnore(file *os.File) []byte {
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(file, maxIgnoreFile))
	if err != nil {
		return nil
	}
	return data
}

func parseIgnore(content []byte) []ignoreRule {
	var rules []ignoreRule
	for line := range bytes.Lines(bytes.TrimPrefix(content, bomUTF8)) {
		text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
		if r, ok := parseIgnoreLine(text); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

// parseIgnoreLine turns a line into a pattern of doublestar, whose language is nearly
// that of git.
func parseIgnoreLine(line string) (ignoreRule, bool) {
	var r ignoreRule
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line = trimBlanks(line)
	line, r.keep = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	if line == "" {
		return r, false
	}
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(escapeBraces(line), "/")
	if !anchored {
		line = "**/" + line
	}
	if strings.HasSuffix(line, "/**") {
		line += "/*" // git: what is in the folder, not the folder itself
	}
	r.pattern = line
	return r, doublestar.ValidatePattern(line)
}

// trimBlanks takes off the blanks at the end that no backslash protects.
func trimBlanks(line string) string {
	for strings.HasSuffix(line, " ") {
		rest := line[:len(line)-1]
		if n := len(rest) - len(strings.TrimRight(rest, `\`)); n%2 == 1 {
			return line
		}
		line = rest
	}
	return line
}

// escapeBraces protects what means alternatives to doublestar and nothing to git.
func escapeBraces(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line):
			b.WriteByte(c)
			i++
			b.WriteByte(line[i])
		case c == '{' || c == '}':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func withSeparator(dir string) string {
	if strings.HasSuffix(dir, string(filepath.Separator)) {
		return dir
	}
	return dir + string(filepath.Separator)
}
