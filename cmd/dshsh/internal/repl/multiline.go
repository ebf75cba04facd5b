package repl

import "strings"

// quote begins and ends a block of several lines.
const quote = `"""`

// unfinished reports whether more lines belong to text: it began a """ block and has not
// ended it, or it ends in a single backslash, which stands for the line end. Pure.
func unfinished(text string) (block, backslash bool) {
	if rest, ok := strings.CutPrefix(strings.TrimLeft(text, " \t"), quote); ok {
		return !strings.HasSuffix(strings.TrimRight(rest, " \t\n"), quote), false
	}
	n := len(text) - len(strings.TrimRight(text, `\`))
	return false, n%2 == 1
}

// unquote returns what a finished text means: the inside of a """ block, else itself. Pure.
func unquote(text string) string {
	inner, ok := strings.CutPrefix(strings.TrimLeft(text, " \t"), quote)
	if !ok {
		return text
	}
	inner, ok = strings.CutSuffix(strings.TrimRight(inner, " \t\n"), quote)
	if !ok {
		return text
	}
	return strings.TrimSuffix(strings.TrimPrefix(inner, "\n"), "\n")
}
