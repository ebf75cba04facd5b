package fs

import "strings"

// looseMatch is a run of whole lines that are the old text but for the white space at
// their ends, with the new text indented as they are. Offsets are those of the text
// that was searched.
type looseMatch struct {
	place
	text string
}

// findLoosely looks for old in a text with LF endings, line by line and without the white space
// at both ends of each. Where lines of one indentation in old have several in the text, what the
// new text should look like is unknown, and it is no match.
func findLoosely(text, old, new string) []looseMatch {
	old, ended := strings.CutSuffix(toLF(old), "\n")
	new = toLF(new)
	want := strings.Split(old, "\n")
	if strings.TrimSpace(old) == "" {
		return nil
	}
	lines := strings.SplitAfter(text, "\n")
	starts := make([]int, len(lines)+1)
	for i, l := range lines {
		starts[i+1] = starts[i] + len(l)
	}
	var found []looseMatch
	for i := 0; i+len(want) <= len(lines); i++ {
		indents, ok := sameLines(lines[i:i+len(want)], want)
		if !ok {
			continue
		}
		m := looseMatch{place: place{starts[i], starts[i+len(want)]}, text: indents.fit(new)}
		if last := lines[i+len(want)-1]; !ended && strings.HasSuffix(last, "\n") {
			m.to--
		}
		found = append(found, m)
		i += len(want) - 1
	}
	return found
}

// indents maps the indentation of lines in the old text to that in the file.
type indents map[string]string

// sameLines compares lines without the white space at their ends.
func sameLines(have, want []string) (indents, bool) {
	in := indents{}
	for i := range want {
		if strings.TrimSpace(have[i]) != strings.TrimSpace(want[i]) {
			return nil, false
		}
		if strings.TrimSpace(want[i]) == "" {
			continue
		}
		from, to := indentOf(want[i]), indentOf(have[i])
		if known, ok := in[from]; ok && known != to {
			return nil, false
		}
		in[from] = to
	}
	return in, true
}

// fit gives each line of a text the indentation that the map has for its own, or for the
// longest beginning of it.
func (in indents) fit(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		own := indentOf(line)
		for n := len(own); n >= 0; n-- {
			if to, ok := in[own[:n]]; ok {
				lines[i] = to + line[n:]
				break
			}
		}
	}
	return strings.Join(lines, "\n")
}

func indentOf(line string) string {
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}
