package repl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompleteMention(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"main.go", "make it.md", "sub/x.go", ".hidden"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"see @ma":      `@main.go |@"make it.md" `,
		"@su":          "@sub/",
		"@sub/":        "@sub/x.go ",
		`@"make`:       `@"make it.md" `,
		"@.h":          "@.hidden ",
		"@":            `@main.go |@"make it.md" |@sub/`,
		"me@ma":        "",
		"@main.go and": "",
		"@none/":       "",
	} {
		var got []string
		for _, c := range completeMention(dir, line) {
			got = append(got, c.Text)
			if !strings.HasPrefix(line[c.From:], "@") {
				t.Errorf("%q: from %d", line, c.From)
			}
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%q: got %q, want %q", line, strings.Join(got, "|"), want)
		}
	}
}
