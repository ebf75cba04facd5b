package fs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dshsh/loop/tool"
)

// text calls a tool and returns what the model sees.
func (e *env) text(t tool.Tool, args any) string {
	e.t.Helper()
	r, err := e.call(t, args)
	if err != nil {
		e.t.Fatal(err)
	}
	return r.Content[0].Text
}

func (e *env) tree(files map[string]string) {
	e.t.Helper()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(e.path(name)), 0o755); err != nil {
			e.t.Fatal(err)
		}
		e.put(name, content)
	}
}

// eachGrep runs a test without ripgrep, and with it where it is installed: the results
// are to be the same.
func eachGrep(t *testing.T, test func(t *testing.T, e *env)) {
	t.Run("own", func(t *testing.T) { test(t, newEnv(t)) })
	t.Run("rg", func(t *testing.T) {
		rg, err := exec.LookPath("rg")
		if err != nil {
			t.Skip("ripgrep is not installed")
		}
		test(t, newEnv(t, func(c *Config) { c.Ripgrep = rg }))
	})
}

func TestLs(t *testing.T) {
	e := newEnv(t)
	e.tree(map[string]string{"b.go": "12345", "a/x": "", ".hidden": "1"})
	if got, want := e.text(e.f.Ls(), LsArgs{}), "         1  .hidden\n         -  a/\n         5  b.go"; got != want {
		t.Errorf("%q", got)
	}
	if got := e.text(e.f.Ls(), LsArgs{Path: "b.go"}); got != "         5  b.go" {
		t.Errorf("%q", got)
	}
	e.ok(os.Mkdir(e.path("empty"), 0o755))
	if got := e.text(e.f.Ls(), LsArgs{Path: "empty"}); got != "[the folder is empty]" {
		t.Errorf("%q", got)
	}
	_, err := e.call(e.f.Ls(), LsArgs{Path: "a/y"})
	e.fails(err, CodeNotFound, "there is no file")
	r, err := e.call(e.f.Ls(), LsArgs{Path: "a"})
	e.ok(err)
	var v LsValue
	e.ok(json.Unmarshal(r.Value, &v))
	if v.Path != e.path("a") || v.Total != 1 || v.Truncated || len(v.Entries) != 1 || v.Entries[0] != (Entry{Name: "x", Kind: "file"}) {
		t.Errorf("%+v", v)
	}
}

func TestLsIsBounded(t *testing.T) {
	e := newEnv(t)
	for i := range 1100 {
		e.put(fmt.Sprintf("file-with-a-rather-long-name-%04d", i), "")
	}
	r, err := e.call(e.f.Ls(), LsArgs{})
	e.ok(err)
	text := r.Content[0].Text
	if len(text) > 33<<10 || !strings.HasSuffix(text, "[1000 of 1100 entries; use glob for those with certain names]") || !strings.Contains(string(r.Meta), `"truncated":true`) {
		t.Errorf("%d bytes, %q, %s", len(text), text[len(text)-200:], r.Meta)
	}
}

func TestGlob(t *testing.T) {
	e := newEnv(t)
	e.tree(map[string]string{"a.go": "", "b.txt": "", "src/c.go": "", "src/x/d.go": "", "src/x/d_test.go": "", ".git/e.go": "", "out/f.go": "", ".gitignore": "out/\n"})
	for _, c := range []struct {
		args GlobArgs
		want string
	}{
		{GlobArgs{Pattern: "*.go"}, "a.go\nsrc/c.go\nsrc/x/d.go\nsrc/x/d_test.go"},
		{GlobArgs{Pattern: "./src/**/*.go"}, "src/c.go\nsrc/x/d.go\nsrc/x/d_test.go"},
		{GlobArgs{Pattern: "src/*.go"}, "src/c.go"},
		{GlobArgs{Pattern: "*.go", Path: "src/x"}, "src/x/d.go\nsrc/x/d_test.go"},
		{GlobArgs{Pattern: "{a,b}.*"}, "a.go\nb.txt"},
		{GlobArgs{Pattern: "x"}, "src/x/"},
		{GlobArgs{Pattern: "f.go"}, "[nothing matches]"},
		{GlobArgs{Pattern: "f.go", Ignored: true}, "out/f.go"},
	} {
		if got := e.text(e.f.Glob(), c.args); got != c.want {
			t.Errorf("%+v: %q", c.args, got)
		}
	}
	for _, c := range []struct {
		args GlobArgs
		code string
		part string
	}{
		{GlobArgs{Pattern: "/etc/*"}, tool.CodeInvalidArgs, "give the folder as path"},
		{GlobArgs{Pattern: "../*"}, tool.CodeInvalidArgs, "leads up"},
		{GlobArgs{Pattern: "[a"}, tool.CodeInvalidArgs, "left open"},
		{GlobArgs{Pattern: "*", Path: "a.go"}, CodeNotFolder, "is no folder"},
		{GlobArgs{Pattern: "*", Path: "nowhere"}, CodeNotFound, "nowhere"},
	} {
		_, err := e.call(e.f.Glob(), c.args)
		e.fails(err, c.code, c.part)
	}
}

func TestGlobIsBounded(t *testing.T) {
	e := newEnv(t)
	for i := range 1010 {
		e.put(fmt.Sprintf("f%04d", i), "")
	}
	text := e.text(e.f.Glob(), GlobArgs{Pattern: "f*"})
	if !strings.HasSuffix(text, "f0999\n[the first 1000 of 1010; narrow the pattern or the folder]") {
		t.Errorf("%q", text[len(text)-100:])
	}
}

// What we make of .gitignore is what git makes of it.
func TestGitignoreAsGitReadsIt(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	e := newEnv(t)
	root := strings.Join([]string{
		"# comment", `\#hash`, "*.log", "!keep.log", "/top", "build/", "doc/*.txt", "**/deep/**", "a/**/z", "foo**bar", "x?z", "[abc]1", "[!d]2",
		"brace{1,2}", `star\*`, "trailing   ", `blank\ `, "crlf\r", "/only/", "mid/dle", "inside/**", `\!bang`, "un[closed", "*/slash", "!/late.log", "",
	}, "\n")
	names := []string{
		"#hash", "a.log", "keep.log", "late.log", "sub/late.log", "top", "sub/top", "build", "sub/build/x", "doc/a.txt", "doc/sub/a.txt",
		"deep/a", "q/deep/a/b", "a/z", "a/b/z", "a/b/c/z", "fooXbar", "foo/bar", "xyz", "x/z", "a1", "d1", "a2", "d2", "brace1", "brace{1,2}",
		"star*", "starx", "trailing", "trailing   ", "blank ", "blank", "crlf", "only/x", "sub/only/x", "mid/dle", "q/mid/dle", "inside/a/b",
		"!bang", "un[closed", "p/slash", "p/q/slash", "sub/kept.log", "sub/own", "plain", "sub/deeper/own",
	}
	files := map[string]string{".gitignore": root, "sub/.gitignore": "!kept.log\nown\n", "sub/deeper/.gitignore": "!own\n"}
	for _, n := range names {
		if st, err := os.Stat(e.path(n)); err == nil && st.IsDir() {
			continue
		}
		files[n] = ""
	}
	delete(files, "build") // a folder elsewhere only
	e.tree(files)
	run := func(args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir = e.dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	run("init", "-q", ".")
	want := map[string]bool{}
	for _, n := range strings.Split(strings.TrimSuffix(run("ls-files", "-z", "--others", "--exclude-standard"), "\x00"), "\x00") {
		want[n] = true
	}
	r, err := e.call(e.f.Glob(), GlobArgs{Pattern: "*"})
	e.ok(err)
	var v GlobValue
	e.ok(json.Unmarshal(r.Value, &v))
	got := map[string]bool{}
	for _, n := range v.Paths {
		if st, err := os.Stat(e.path(n)); err == nil && !st.IsDir() {
			got[filepath.ToSlash(n)] = true
		}
	}
	for n := range files {
		if got[n] != want[n] {
			t.Errorf("%q: shown %v, git %v", n, got[n], want[n])
		}
	}
}

func TestGitignoreOfFoldersAbove(t *testing.T) {
	eachGrep(t, func(t *testing.T, e *env) {
		e.tree(map[string]string{".gitignore": "*.log\n", "repo/.git/HEAD": "x", "repo/.gitignore": "*.out\n", "repo/sub/a.log": "x", "repo/sub/a.out": "x", "repo/sub/a.txt": "x"})
		// The repository's rules count, those above it do not.
		if got := e.text(e.f.Glob(), GlobArgs{Pattern: "a.*", Path: "repo/sub"}); got != "repo/sub/a.log\nrepo/sub/a.txt" {
			t.Errorf("%q", got)
		}
		if got := e.text(e.f.Grep(), GrepArgs{Pattern: "x", Path: "repo/sub"}); got != "repo/sub/a.log:1:x\nrepo/sub/a.txt:1:x" {
			t.Errorf("%q", got)
		}
	})
}

func TestGrep(t *testing.T) {
	eachGrep(t, func(t *testing.T, e *env) {
		e.tree(map[string]string{
			"a.go": "one\ntwo\nthree\nfour\nfive\nsix\nseven\nTWO\n", "b/c.txt": "two\r\nx\r\n", "b.txt": "not this", "bin": "two\x00two\n",
			"out/d.go": "two\n", ".gitignore": "out\n", ".hid": "two", ".git/x": "two", "utf16": "\xff\xfet\x00w\x00o\x00", "bom": "\xef\xbb\xbftwo\n",
		})
		for _, c := range []struct {
			args GrepArgs
			want string
		}{
			{GrepArgs{Pattern: "two"}, ".hid:1:two\na.go:2:two\nb/c.txt:1:two\nbom:1:two"},
			{GrepArgs{Pattern: "^two$", Glob: "*.txt"}, "b/c.txt:1:two"},
			{GrepArgs{Pattern: "two", Glob: "*.go", IgnoreCase: true}, "a.go:2:two\na.go:8:TWO"},
			{GrepArgs{Pattern: "two|seven", Path: "a.go", Context: 1}, "a.go-1-one\na.go:2:two\na.go-3-three\n--\na.go-6-six\na.go:7:seven\na.go-8-TWO"},
			{GrepArgs{Pattern: "two|four", Path: "a.go", Context: 1}, "a.go-1-one\na.go:2:two\na.go-3-three\na.go:4:four\na.go-5-five"},
			{GrepArgs{Pattern: "two|three", Path: "a.go", Context: 1}, "a.go-1-one\na.go:2:two\na.go:3:three\na.go-4-four"},
			{GrepArgs{Pattern: "two", Files: true}, ".hid\na.go\nb/c.txt\nbom"},
			{GrepArgs{Pattern: "two", Ignored: true, Glob: "*.go"}, "a.go:2:two\nout/d.go:1:two"},
			{GrepArgs{Pattern: "nowhere"}, "[nothing matches]"},
			{GrepArgs{Pattern: "two", Limit: 1, Context: 1, Glob: "*.go"}, "a.go-1-one\na.go:2:two\na.go-3-three\n[the first 1 matching lines; there may be more: narrow the pattern or the folder, or raise limit]"},
			{GrepArgs{Pattern: "two", Limit: 2, Files: true}, ".hid\na.go\n[the first 2 files; there may be more: narrow the pattern or the folder, or raise limit]"},
			{GrepArgs{Pattern: "two", Path: "out/d.go"}, "out/d.go:1:two"},
		} {
			if got := e.text(e.f.Grep(), c.args); got != c.want {
				t.Errorf("%+v:\n%s\nwant\n%s", c.args, got, c.want)
			}
		}
		_, err := e.call(e.f.Grep(), GrepArgs{Pattern: "two", Path: "bin"})
		e.fails(err, CodeEncoding, "binary file")
		_, err = e.call(e.f.Grep(), GrepArgs{Pattern: "a(?=b)"})
		e.fails(err, tool.CodeInvalidArgs, "pattern")
	})
}

// Expressions that mean something else in ripgrep's language find the same.
func TestGrepLanguageIsTheSame(t *testing.T) {
	eachGrep(t, func(t *testing.T, e *env) {
		e.put("f", "éa\nx y\nxy\n1\n٣\nab{\na\\b\nſ\n")
		for pattern, want := range map[string]string{
			`\ba`: "f:1:éa\nf:6:ab{\nf:7:a\\b", `x\Wy`: "f:2:x y", `^\d$`: "f:4:1", `^\W$`: "f:5:٣\nf:8:ſ", `b\{`: "f:6:ab{", `a\\b`: "f:7:a\\b",
			`(?i)^s$`: "f:8:ſ", `x\By`: "f:3:xy", `^.a`: "f:1:éa", `\Qb{\E`: "f:6:ab{", `a$\n^b`: "[nothing matches]", `[[:alpha:]]{2}`: "f:3:xy\nf:6:ab{",
		} {
			if got := e.text(e.f.Grep(), GrepArgs{Pattern: pattern}); got != want {
				t.Errorf("%s: %q, want %q", pattern, got, want)
			}
		}
	})
}

func TestR093_MatchInsideALongLine(t *testing.T) {
	eachGrep(t, func(t *testing.T, e *env) {
		half := strings.Repeat("é", 1_250_000)
		e.put("f", "short\n"+half+"needle"+half+"\nneedle\n")
		r, err := e.call(e.f.Grep(), GrepArgs{Pattern: "needle", Context: 1})
		e.ok(err)
		text := r.Content[0].Text
		var v GrepValue
		e.ok(json.Unmarshal(r.Value, &v))
		if len(text) > 2<<10 || !strings.Contains(text, "éneedleé") || strings.Count(text, "bytes cut ...]") != 2 || !v.Truncated || v.Lines != 2 {
			t.Errorf("%d bytes, %+v\n%s", len(text), v, text)
		}
		if strings.Contains(text, replacement) {
			t.Error("a character was cut in two")
		}
	})
}

func TestGrepIsBounded(t *testing.T) {
	e := newEnv(t)
	e.put("f", strings.Repeat(strings.Repeat("needle ", 50)+"\n", 3000))
	e.x.FilesDir = t.TempDir()
	r, err := e.call(e.f.Grep(), GrepArgs{Pattern: "needle", Limit: 2000})
	e.ok(err)
	var v GrepValue
	e.ok(json.Unmarshal(r.Meta, &v))
	if n := len(r.Content[0].Text); n > 33<<10 || !v.Truncated || v.Lines != 2000 || v.OutputPath == "" {
		t.Errorf("%d bytes, %+v", n, v)
	}
	if data, err := os.ReadFile(v.OutputPath); err != nil || strings.Count(string(data), "\n") != 2000 {
		t.Errorf("%v, %d lines", err, strings.Count(string(data), "\n"))
	}
}

func TestSearchEndsWithItsContext(t *testing.T) {
	e := newEnv(t)
	e.put("f", "two\n")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithTimeoutCause(t.Context(), -time.Second, context.DeadlineExceeded)
	defer stop()
	for _, tl := range []tool.Tool{e.f.Grep(), e.f.Glob()} {
		_, err := tl.Execute(cancelled, json.RawMessage(`{"pattern":"two"}`), e.x)
		e.fails(err, tool.CodeAborted, "aborted")
		r, err := tl.Execute(late, json.RawMessage(`{"pattern":"two"}`), e.x)
		e.ok(err)
		if !strings.Contains(r.Content[0].Text, "stopped after 1m0s") || !strings.Contains(string(r.Meta), `"truncated":true`) {
			t.Errorf("%s %s", r.Content[0].Text, r.Meta)
		}
	}
}

func TestListToolsAreReaders(t *testing.T) {
	e := newEnv(t)
	for _, tl := range []tool.Tool{e.f.Ls(), e.f.Glob(), e.f.Grep()} {
		name := tl.Spec().Name
		if _, err := tool.CompileSchema(name, tl.Spec().Parameters); err != nil {
			t.Error(err)
		}
		args := json.RawMessage(`{"pattern":"x","path":"sub/../sub"}`)
		if name == "ls" {
			args = json.RawMessage(`{"path":"sub/../sub"}`)
		}
		if !tl.(tool.Reader).ReadOnly(args) || !tl.(tool.ConcurrencySafer).ConcurrencySafe(args) {
			t.Errorf("%s", name)
		}
		if p := tl.(tool.PathUser).Paths(args); len(p) != 1 || p[0] != (tool.PathUse{Path: e.path("sub")}) {
			t.Errorf("%s: %v", name, p)
		}
		args = json.RawMessage(`{"pattern":"x"}`)
		if name == "ls" {
			args = json.RawMessage(`{}`)
		}
		if p := tl.(tool.PathUser).Paths(args); len(p) != 1 || p[0].Path != e.dir {
			t.Errorf("%s: %v", name, p)
		}
	}
}
