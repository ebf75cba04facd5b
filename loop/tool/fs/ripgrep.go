package fs

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// maxNames bounds what is read of ripgrep's list of files.
const maxNames = 16 << 20

// filesWithMatches asks ripgrep which files below a folder have lines that match, relative to the
// folder and sorted as a walk would meet them. What it finds is searched once more, by the same code as
// without it, so that the results are the same. ok is false when it cannot tell: the
// expression is not one of its language, or it failed.
func filesWithMatches(ctx context.Context, rg, real string, re *regexp.Regexp, ignored bool) (files []string, ok bool) {
	args := []string{"--no-config", "--files-with-matches", "--null", "--hidden", "--glob", "!" + gitFolder, "--text", "--encoding", "none", "--crlf",
		"--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global", "--no-require-git", "--no-messages", "--color", "never"}
	if ignored {
		args = append(args, "--no-ignore")
	}
	args = append(args, "--regexp", forRust(re), "--", ".")
	cmd := exec.CommandContext(ctx, rg, args...)
	cmd.Dir, cmd.Env = real, []string{"LC_ALL=C"}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return nil, false
	}
	names, err := io.ReadAll(io.LimitReader(out, maxNames))
	if err != nil || len(names) == maxNames {
		_ = cmd.Process.Kill() // it may be gone
		_ = cmd.Wait()
		return nil, false
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 1 { // 1: there is none
		return nil, false
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if name = strings.TrimPrefix(name, "."+string(filepath.Separator)); name != "" {
			files = append(files, name)
		}
	}
	slices.SortFunc(files, func(a, b string) int {
		return slices.Compare(strings.Split(a, string(filepath.Separator)), strings.Split(b, string(filepath.Separator)))
	})
	return files, true
}

// forRust writes an expression in ripgrep's language. Go's own form has the classes that
// differ spelled out; only the borders of words are left, which are ASCII in Go.
func forRust(re *regexp.Regexp) string {
	src := re.String()
	if parsed, err := syntax.Parse(src, syntax.Perl); err == nil {
		byLine(parsed)
		src = parsed.String()
	}
	var b strings.Builder
	for i := 0; i < len(src); i++ {
		if src[i] != '\\' || i+1 == len(src) {
			b.WriteByte(src[i])
			continue
		}
		i++
		switch c := src[i]; c {
		case 'b', 'B':
			b.WriteString(`(?-u:\` + string(c) + `)`)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}

// byLine turns the start and end of a text, which is one line to us, into those of a line.
func byLine(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op = syntax.OpEndLine
	}
	for _, sub := range re.Sub {
		byLine(sub)
	}
}
