package fs

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	diffContext = 3        // lines around a change
	maxDiff     = 64 << 10 // bytes of a diff; longer ones are cut at their end
	maxDistance = 1000     // lines that may differ before the middle is shown as replaced whole
)

// Diff returns the unified diff between two contents, "" when they are the same. Names
// are put into its head as they are. It is valid UTF-8, shows line ends without
// their CR, and is cut at its end, with a mark, when it is long.
func Diff(oldName, newName string, old, new []byte) string {
	if bytes.Equal(old, new) {
		return ""
	}
	a, b := splitLines(old), splitLines(new)
	ops := compare(a, b)

	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", oldName, newName)
	for _, h := range hunks(ops) {
		text := hunkText(h, a, b)
		if out.Len()+len(text) > maxDiff {
			if room := maxDiff - out.Len(); room > 0 {
				text = text[:strings.LastIndexByte(text[:room], '\n')+1]
				out.WriteString(text)
			}
			out.WriteString("[... the rest of the diff is cut ...]\n")
			break
		}
		out.WriteString(text)
	}
	return strings.ToValidUTF8(out.String(), replacement)
}

// diffName is the old name in a diff.
func diffName(path string, there bool) string {
	if !there {
		return "/dev/null"
	}
	return path
}

func splitLines(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	lines := strings.SplitAfter(string(data), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// op is one line of a comparison: kind ' ' is line i of a and line j of b, '-' is line i of
// a, '+' is line j of b. i and j are from 0 and say where the other side is then.
type op struct {
	kind byte
	i, j int
}

// compare lists the lines of both sides in the order of a diff, from shortly before the
// first change to shortly behind the last.
func compare(a, b []string) []op {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var ops []op
	for k := max(head-diffContext, 0); k < head; k++ { // more is never shown
		ops = append(ops, op{' ', k, k})
	}
	ops = append(ops, myers(a[head:len(a)-tail], b[head:len(b)-tail], head)...)
	for k := tail; k > max(tail-diffContext, 0); k-- {
		ops = append(ops, op{' ', len(a) - k, len(b) - k})
	}
	return ops
}

// myers is the greedy algorithm of E. Myers. at is the number of equal lines before
// both sides. Sides that differ in more than maxDistance lines are given as all removed, all
// added: the search takes time and memory by the square of that.
func myers(a, b []string, at int) []op {
	n, m := len(a), len(b)
	limit := min(n+m, maxDistance)
	// reach[k+offset] is how far into a the best path on diagonal k is; trace keeps it for
	// each distance.
	offset := limit + 1
	reach := make([]int, 2*limit+3)
	var trace [][]int
	for d := 0; d <= limit; d++ {
		trace = append(trace, append([]int(nil), reach[offset-d-1:offset+d+2]...))
		for k := -d; k <= d; k += 2 {
			x := 0
			if k == -d || k != d && reach[k-1+offset] < reach[k+1+offset] {
				x = reach[k+1+offset]
			} else {
				x = reach[k-1+offset] + 1
			}
			for x < n && x-k < m && a[x] == b[x-k] {
				x++
			}
			reach[k+offset] = x
			if x >= n && x-k >= m {
				return walkBack(trace, n, m, at)
			}
		}
	}
	var ops []op
	for i := range n {
		ops = append(ops, op{'-', at + i, at})
	}
	for j := range m {
		ops = append(ops, op{'+', at + n, at + j})
	}
	return ops
}

// walkBack follows the trace from the end to the start.
func walkBack(trace [][]int, n, m, at int) []op {
	var back []op
	x, y := n, m
	for d := len(trace) - 1; d >= 0; d-- {
		reach := func(k int) int { return trace[d][k+d+1] }
		k := x - y
		prev := k - 1
		if k == -d || k != d && reach(k-1) < reach(k+1) {
			prev = k + 1
		}
		px := 0
		if d > 0 {
			px = reach(prev)
		}
		py := px - prev
		for d > 0 && x > px && y > py || d == 0 && x > 0 && y > 0 {
			x, y = x-1, y-1
			back = append(back, op{' ', at + x, at + y})
		}
		if d == 0 {
			break
		}
		if prev == k+1 {
			y--
			back = append(back, op{'+', at + x, at + y})
		} else {
			x--
			back = append(back, op{'-', at + x, at + y})
		}
	}
	for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
		back[i], back[j] = back[j], back[i]
	}
	return back
}

// hunks groups the changes with the lines around them.
func hunks(ops []op) [][]op {
	var all [][]op
	for i := 0; i < len(ops); {
		if ops[i].kind == ' ' {
			i++
			continue
		}
		start, end := max(i-diffContext, 0), i+1
		// Changes that are so near that their surroundings touch are one hunk.
		for k := end; k < len(ops) && k < end+2*diffContext+1; k++ {
			if ops[k].kind != ' ' {
				end = k + 1
			}
		}
		i = end
		all = append(all, ops[start:min(end+diffContext, len(ops))])
	}
	return all
}

func hunkText(h []op, a, b []string) string {
	var body strings.Builder
	oldN, newN := 0, 0
	for _, o := range h {
		line := ""
		switch o.kind {
		case '+':
			line = b[o.j]
			newN++
		case '-':
			line = a[o.i]
			oldN++
		default:
			line = a[o.i]
			oldN++
			newN++
		}
		text, ended := strings.CutSuffix(line, "\n")
		body.WriteByte(o.kind)
		body.WriteString(strings.TrimSuffix(text, "\r"))
		body.WriteByte('\n')
		if !ended {
			body.WriteString("\\ No newline at end of file\n")
		}
	}
	return fmt.Sprintf("@@ -%s +%s @@\n", span(h[0].i, oldN), span(h[0].j, newN)) + body.String()
}

// span is a range of lines in the head of a hunk. Of none, the line before is named.
func span(start, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, n)
}
