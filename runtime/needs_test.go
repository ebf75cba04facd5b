package runtime_test

import (
	"errors"
	"strings"
	"testing"

	"dshsh/runtime"
	"dshsh/runtime/runtimetest"
)

func TestPatternsOfNeeds(t *testing.T) {
	for _, c := range []struct {
		kind, pattern string
		yes, no       string // targets, separated by |
	}{
		{"read", "docs/**", "/w/docs|/w/docs/a|/w/docs/a/b", "/w|/w/doc|/w/docsx|/docs/a|/other/docs/a"},
		{"read", "**", "/w|/w/a|/w/a/.b", "/|/x|/wx"},
		{"read", "./a.txt", "/w/a.txt", "/w/A.txt|/w/a.txt/b|/w/b/a.txt"},
		{"read", "**/*.md", "/w/a.md|/w/x/y/a.md|/w/.md", "/w/a.mdx|/x/a.md"},
		{"write", "a/**/b/?.c", "/w/a/b/x.c|/w/a/x/y/b/z.c|/w/a/b/b/x.c", "/w/a/b/xx.c|/w/a/x/c/z.c|/w/b/x.c"},
		{"read", "/etc/**", "/etc|/etc/a/b", "/etcx|/w/etc/a"},
		{"read", "/**", "/|/w/a|/x", ""},
		{"exec", "/x/git status *", "/x/git status|/x/git status -s a", "/x/git|/x/git statusx|/x/git -C / status|/y/git status|/x/git  status"},
		{"exec", "/x/a", "/x/a", "/x/a b"},
		{"exec", "/x/a *", "/x/a|/x/a b c", "/x/ab"},
		{"exec", "/x/a --f=*.md x", "/x/a --f=y.md x|/x/a --f=.md x", "/x/a --f=md x|/x/a --f=y.md|/x/a --f=y.md x y"},
		{"exec", "/x/a * b", "/x/a c b", "/x/a b|/x/a c d b"},
		{"exec", "/x/a what?", "/x/a what?", "/x/a whats"},
		{"http", "api.example.com", "api.example.com:443", "api.example.com:8080|example.com:443|x.api.example.com:443|api.example.com.evil:443"},
		{"http", "API.example.com:8080", "api.example.com:8080", "api.example.com:443"},
		{"http", "*.example.com", "a.example.com:443|a.b.example.com:443", "example.com:443|aexample.com:443"},
		{"http", "*", "x:443|127.0.0.1:443", "x:1"},
		{"http", "[::1]:8080", "::1:8080", "::1:443"},
		{"http", "10.0.0.1", "10.0.0.1:443", "10.0.0.10:443"},
		{"approve", "ba*", "bash|ba", "cba"},
	} {
		n, err := runtime.ParseNeed(c.kind, c.pattern)
		if err != nil {
			t.Errorf("%s %q: %v", c.kind, c.pattern, err)
			continue
		}
		match := func(target string) bool {
			switch c.kind {
			case "exec":
				words := strings.Split(target, " ")
				return n.MatchExec(words[0], words[0], words[1:])
			case "http":
				i := strings.LastIndexByte(target, ':')
				return n.MatchHost(target[:i], target[i+1:], "443")
			case "approve":
				return n.MatchName(target)
			}
			return n.MatchPath("/w", target)
		}
		for i, list := range []string{c.yes, c.no} {
			for target := range strings.SplitSeq(list, "|") {
				if target != "" && match(target) != (i == 0) {
					t.Errorf("%s covers %s: %v", n, target, i != 0)
				}
			}
		}
	}
}

func TestIllFormedPatterns(t *testing.T) {
	for kind, list := range map[string]map[string]string{
		"read": {"": "is empty", "  ": "is empty", "~/x": "~", "a/../b": "..", "../x": "..", "a//b": "//", "docs/": `write "docs/**"`, "a**": "whole names",
			"a[b]": "patterns have only", "a\x1b[2J": "cannot be shown", "a\u202eb": "cannot be shown", strings.Repeat("x", 501): "too long"},
		"exec":    {"git status": "absolute path", "/usr/../bin/git": "absolute path", "/bin/*": "one program", "/bin/a; b": "shells", "/bin/a 'b c'": "shells", "/bin/a $HOME": "shells"},
		"http":    {"https://a.com": "without scheme", "a.com/x": "without scheme", "a.com:0": "port", "a.com:x": "port", "a.com:99999": "port", "*.com": "top-level", "a.*.com": "first part", "a..com": "is not a host", "a@b.com": "without scheme"},
		"approve": {"a b": "no name", "/x": "no name"},
		"reed":    {"x": `did you mean "read"`},
	} {
		for pattern, want := range list {
			if _, err := runtime.ParseNeed(kind, pattern); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: %v, want %s", kind, pattern, err, want)
			}
		}
	}
}

// desk grants by text.
type desk map[string]bool

func (d desk) Granted(_ *runtime.Instance, n runtime.Need) error {
	if d[n.String()] {
		return nil
	}
	return errors.New("ask the user")
}

// TestPermit: what is declared and granted, by whom, and who is told.
func TestPermit(t *testing.T) {
	grants := desk{"read a": true}
	h := runtimetest.NewHost(t, func(c *runtime.HostConfig) { c.Grants = grants })
	h.Run(func() {
		need := func(c *runtimetest.Call) {
			if _, err := c.Do("need", map[string]any{"read": []any{"a", "b", "a"}}); err != nil {
				t.Error(err)
			}
		}
		in := h.Script("project/x.toy", runtimetest.Lua, need)
		own := h.Script("bundled/x.toy", runtimetest.Lua, need)
		bare := h.Script("user/x.toy", runtimetest.Lua, func(*runtimetest.Call) {})
		h.Use(own, bare, in)
		read := func(in *runtime.Instance, name string) string {
			err := in.Permit(runtime.NeedRead, name, func(n runtime.Need) bool { return n.MatchPath("/", "/"+name) })
			if err == nil {
				return "yes"
			}
			if !errors.Is(err, runtime.ErrNotGranted) || runtime.CodeOf(err) != "NOT_GRANTED" {
				t.Errorf("%v is no ErrNotGranted", err)
			}
			return err.Error()
		}
		for _, c := range []struct {
			in         *runtime.Instance
			name, want string
		}{
			{in, "a", "yes"},
			{in, "b", `project/x.toy declares "read b", which waits for the user: ask the user`},
			{in, "c", "project/x.toy wants read c, and it declares only a, b; add it to ctx.need({read: [...]})"},
			{own, "b", "yes"},
			{own, "c", "declares only a, b"},
			{bare, "a", "it declares no such need"},
		} {
			if got := read(c.in, c.name); !strings.Contains(got, c.want) {
				t.Errorf("%s %s: %s, want %s", c.in.ID, c.name, got, c.want)
			}
		}
		grants["read b"] = true
		if got := read(in, "b"); got != "yes" {
			t.Errorf("granted meanwhile: %s", got)
		}
		if n := len(in.Granted(runtime.NeedRead)) + len(in.Granted(runtime.NeedWrite)); n != 2 {
			t.Errorf("%d needs are granted", n)
		}
	})
}
