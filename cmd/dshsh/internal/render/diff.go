package render

import (
	"fmt"
	"strings"
)

// Diff shows a unified diff of one file, at most so many lines of it; long ones are wrapped.
// The two lines with the file's name are left out: who shows a diff has named it. The
// result is printable (see Printable).
func Diff(diff string, o Options, most int) string {
	r := &Renderer{opts: o}
	lines := strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
	if len(lines) > 2 && strings.HasPrefix(lines[0], "--- ") && strings.HasPrefix(lines[1], "+++ ") {
		lines = lines[2:]
	}
	var b strings.Builder
	left := 3 * most // rows, of lines that are wrapped
	for i, line := range lines {
		// One line more than the limit is shown rather than the words that hide it.
		if i == most && len(lines) > most+1 {
			b.WriteString("  " + r.dim(fmt.Sprintf("... %d more lines", len(lines)-i)) + "\n")
			break
		}
		c := diffColor(line)
		for row := range rows(expandTabs(Visible(line)), r.room(2)) {
			if c != "" {
				row = r.paint(c, row)
			}
			if left--; left < 0 {
				b.WriteString("  " + r.dim("... and more") + "\n")
				return b.String()
			}
			b.WriteString("  " + row + "\n")
		}
	}
	return b.String()
}
