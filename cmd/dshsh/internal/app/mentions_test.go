package app

import (
	"strings"
	"testing"
)

func TestMentions(t *testing.T) {
	exists := func(path string) bool {
		return strings.Contains("|a.go|b/c.txt|with blank.md|dir|über.md|", "|"+path+"|")
	}
	for text, want := range map[string]string{
		"look at @a.go":                   "a.go",
		"@a.go, @b/c.txt.":                "a.go b/c.txt",
		"(see @a.go)":                     "a.go",
		`@"with blank.md" and @'a.go'`:    "with blank.md a.go",
		"@dir lists":                      "dir",
		"@über.md!":                       "über.md",
		"mail me@a.go or x@b/c.txt":       "",
		"@Override\n@app.route('/')":      "",
		"@none.go":                        "",
		"@ a.go":                          "",
		`@"a.go`:                          "",
		"@":                               "",
		"@@a.go":                          "",
		"`@a.go`":                         "",
		"first\n@a.go\n":                  "a.go",
		"npm i @types/node @a.go:12":      "",
		"@a.go?! and again @a.go":         "a.go a.go",
		"\"quoted @a.go\" and @b/c.txt\"": "a.go b/c.txt",
	} {
		if got := strings.Join(mentions(text, exists), " "); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
