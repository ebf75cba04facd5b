package fs

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"
)

func TestDiff(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"a\n", "a\n", ""},
		{"", "a\nb\n", "--- o\n+++ n\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"a\nb\n", "", "--- o\n+++ n\n@@ -1,2 +0,0 @@\n-a\n-b\n"},
		{"a", "b", "--- o\n+++ n\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nX\n6\n7\n8\n9\n", "--- o\n+++ n\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8\n"},
		{"a\r\nb\r\n", "a\r\nc\r\n", "--- o\n+++ n\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
	} {
		if got := Diff("o", "n", []byte(c.old), []byte(c.new)); got != c.want {
			t.Errorf("%q -> %q:\n%s", c.old, c.new, got)
		}
	}
}

// patch applies a diff, checking all of it.
func patch(old, diff string) (string, error) {
	a := splitLines([]byte(old))
	var out strings.Builder
	at := 0
	lines := strings.SplitAfter(diff, "\n")[2:]
	for i := 0; i < len(lines) && lines[i] != ""; {
		var oldSpan, newSpan string
		if _, err := fmt.Sscanf(lines[i], "@@ -%s +%s @@", &oldSpan, &newSpan); err != nil {
			return "", fmt.Errorf("%q: %w", lines[i], err)
		}
		var start, n int
		if c, _ := fmt.Sscanf(oldSpan, "%d,%d", &start, &n); c == 1 {
			n = 1
		}
		if n > 0 {
			start--
		}
		for ; at < start; at++ {
			out.WriteString(a[at])
		}
		for i++; i < len(lines) && lines[i] != "" && lines[i][0] != '@'; i++ {
			text := lines[i][1:]
			if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\\") {
				text = strings.TrimSuffix(text, "\n")
			}
			switch lines[i][0] {
			case ' ', '-':
				if at >= len(a) || a[at] != text {
					return "", fmt.Errorf("line %d is not %q", at, text)
				}
				at++
				if lines[i][0] == ' ' {
					out.WriteString(text)
				}
			case '+':
				out.WriteString(text)
			}
		}
	}
	for ; at < len(a); at++ {
		out.WriteString(a[at])
	}
	return out.String(), nil
}

func TestDiffCanBeApplied(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	text := func() string {
		var b strings.Builder
		for range rng.Intn(40) {
			b.WriteString(strings.Repeat("x", rng.Intn(3)) + "\n")
		}
		if rng.Intn(2) == 0 {
			b.WriteString("end")
		}
		return b.String()
	}
	for range 500 {
		old, new := text(), text()
		d := Diff("o", "n", []byte(old), []byte(new))
		if d == "" {
			continue
		}
		if got, err := patch(old, d); err != nil || got != new {
			t.Fatalf("%q -> %q: %v, got %q\n%s", old, new, err, got, d)
		}
	}
}

func TestDiffOfLargeContentsIsBounded(t *testing.T) {
	var a, b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&a, "old %d\n", i)
		fmt.Fprintf(&b, "new %d\n", i)
	}
	began := time.Now()
	d := Diff("o", "n", []byte(a.String()), []byte(b.String()))
	if len(d) > maxDiff+100 || !strings.HasSuffix(d, "[... the rest of the diff is cut ...]\n") || time.Since(began) > 10*time.Second {
		t.Errorf("%d bytes after %v", len(d), time.Since(began))
	}
	one := strings.Replace(a.String(), "old 50000\n", "old\n", 1)
	if d := Diff("o", "n", []byte(a.String()), []byte(one)); !strings.HasPrefix(d, "--- o\n+++ n\n@@ -49998,7 +49998,7 @@\n old 49997\n") {
		t.Errorf("%.100q", d)
	}
	if d := Diff("o", "n", []byte("x"), []byte("caf\xe9\n")); !strings.Contains(d, "+caf\uFFFD\n") {
		t.Errorf("%q", d)
	}
}
