package fs

import (
	"context"
	"encoding/json"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"dshsh/loop/tool"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is the three tools in a fresh folder, as one agent uses them.
type env struct {
	t   *testing.T
	dir string
	f   *Files
	x   *tool.Exec
}

func newEnv(t *testing.T, change ...func(*Config)) *env {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dir: dir}
	for _, c := range change {
		c(&cfg)
	}
	e := &env{t: t, dir: dir, f: New(cfg), x: &tool.Exec{CallID: "c", AgentID: "a"}}
	t.Cleanup(func() {
		filepath.WalkDir(dir, func(path string, _ iofs.DirEntry, _ error) error {
			if strings.HasSuffix(path, ".tmp") {
				t.Errorf("left behind: %s", path)
			}
			return nil
		})
	})
	return e
}

func (e *env) path(name string) string { return filepath.Join(e.dir, name) }

func (e *env) put(name, content string) {
	e.t.Helper()
	if err := os.WriteFile(e.path(name), []byte(content), 0o644); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) has(name, want string) {
	e.t.Helper()
	data, err := os.ReadFile(e.path(name))
	if err != nil || string(data) != want {
		e.t.Errorf("%s holds %q (%v), want %q", name, data, err, want)
	}
}

func (e *env) call(t tool.Tool, args any) (tool.Result, error) {
	e.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		e.t.Fatal(err)
	}
	return t.Execute(e.t.Context(), raw, e.x)
}

// read returns what the model sees.
func (e *env) read(args ReadArgs) (string, error) {
	e.t.Helper()
	r, err := e.call(e.f.Read(), args)
	if err != nil {
		return "", err
	}
	return r.Content[0].Text, nil
}

func (e *env) mustRead(name string) string {
	e.t.Helper()
	s, err := e.read(ReadArgs{Path: name})
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

func (e *env) write(name, content string) error {
	_, err := e.call(e.f.Write(), WriteArgs{name, content})
	return err
}

func (e *env) edit(name, old, new string) error {
	_, err := e.call(e.f.Edit(), EditArgs{Path: name, Old: old, New: new})
	return err
}

func (e *env) ok(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// fails wants a coded failure whose text has a part.
func (e *env) fails(err error, code, part string) {
	e.t.Helper()
	var te *tool.Error
	if !errors.As(err, &te) || te.Code != code || !strings.Contains(err.Error(), part) {
		e.t.Errorf("got %v, want %s with %q", err, code, part)
	}
}

func TestReadShowsLines(t *testing.T) {
	e := newEnv(t)
	e.put("f", "one\ntwo\nthree\nfour")
	for _, c := range []struct {
		args ReadArgs
		want string
	}{
		{ReadArgs{Path: "f"}, "one\ntwo\nthree\nfour"},
		{ReadArgs{Path: e.path("f"), Offset: 3}, "three\nfour"},
		{ReadArgs{Path: "./x/../f", Offset: 2, Limit: 1}, "two\n[lines 2 to 2 of 4; go on with offset 3]"},
	} {
		if got, err := e.read(c.args); err != nil || got != c.want {
			t.Errorf("%+v: %q %v", c.args, got, err)
		}
	}
	_, err := e.read(ReadArgs{Path: "f", Offset: 9})
	e.fails(err, tool.CodeInvalidArgs, "has 4 lines")
	e.put("empty", "")
	if got := e.mustRead("empty"); got != "[the file is empty]" {
		t.Errorf("%q", got)
	}
}

func TestReadIsBounded(t *testing.T) {
	e := newEnv(t)
	var b strings.Builder
	for range 5000 {
		b.WriteString("0123456789 0123456789 0123456789\n")
	}
	e.put("many", b.String())
	got := e.mustRead("many")
	if len(got) > 33<<10 || !strings.Contains(got, "of 5000; go on with offset ") {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-80:])
	}
	e.put("long", "a\n"+strings.Repeat("x", 5<<20)+"\nb\n")
	got = e.mustRead("long")
	if len(got) > 33<<10 || !strings.HasPrefix(got, "a\nxxx") || !strings.Contains(got, " bytes cut ...]\nb\n[lines of more than 2048 bytes were cut]") {
		t.Errorf("%d bytes, %q", len(got), got[max(0, len(got)-120):])
	}
}

func TestReadRefusals(t *testing.T) {
	e := newEnv(t)
	e.put("notes.txt", "x")
	_, err := e.read(ReadArgs{Path: "nodes.txt"})
	e.fails(err, CodeNotFound, `did you mean "notes.txt"`)
	if !errors.Is(err, iofs.ErrNotExist) {
		t.Error("the cause is lost")
	}
	_, err = e.read(ReadArgs{Path: "no/such"})
	e.fails(err, CodeNotFound, "nor its folder")
	_, err = e.read(ReadArgs{Path: "."})
	e.fails(err, CodeNotFile, "is a folder")
	if runtime.GOOS != "windows" {
		_, err = e.read(ReadArgs{Path: "/dev/zero"})
		e.fails(err, CodeNotFile, "no ordinary file")
	}
	e.put("bin", "a\x00b")
	_, err = e.read(ReadArgs{Path: "bin"})
	e.fails(err, CodeEncoding, "binary file of 3 bytes")
	_, err = e.read(ReadArgs{Path: "a\x00b"})
	if err == nil {
		t.Error("a zero byte in a path is no error")
	}
}

func TestWriteMakesFilesAndFolders(t *testing.T) {
	e := newEnv(t)
	r, err := e.call(e.f.Write(), WriteArgs{"a/b/c", "hello\n"})
	e.ok(err)
	e.has("a/b/c", "hello\n")
	var m ChangeMeta
	e.ok(json.Unmarshal(r.Meta, &m))
	if !m.Created || m.Path != e.path("a/b/c") || m.Hash != tool.Hash([]byte("hello\n")) || !strings.Contains(m.Diff, "--- /dev/null\n+++ "+m.Path+"\n@@ -0,0 +1 @@\n+hello\n") {
		t.Errorf("%+v", m)
	}
	r, err = e.call(e.f.Write(), WriteArgs{"a/b/c", "hello\n"})
	e.ok(err)
	if !strings.Contains(r.Content[0].Text, "already") {
		t.Errorf("%q", r.Content[0].Text)
	}
}

func TestR096_CRLFIsMatchedAndKept(t *testing.T) {
	e := newEnv(t)
	e.put("f", "one\r\ntwo\r\nthree\r\nfour\r\n")
	if got := e.mustRead("f"); got != "one\ntwo\nthree\nfour\n" {
		t.Errorf("shown as %q", got)
	}
	e.ok(e.edit("f", "two\nthree\n", "2\n2b\n3\n"))
	e.has("f", "one\r\n2\r\n2b\r\n3\r\nfour\r\n")
	e.ok(e.edit("f", "four", "4\n5")) // matches exactly; the new line is CRLF too
	e.has("f", "one\r\n2\r\n2b\r\n3\r\n4\r\n5\r\n")
	e.ok(e.edit("f", "2\n2b", "2c"))
	e.has("f", "one\r\n2c\r\n3\r\n4\r\n5\r\n")
	e.ok(e.edit("f", "\n4", ""))
	e.has("f", "one\r\n2c\r\n3\r\n5\r\n")
	e.ok(e.write("f", "all\nnew\n"))
	e.has("f", "all\r\nnew\r\n")
}

func TestR096_OtherEndings(t *testing.T) {
	e := newEnv(t)
	e.put("lf", "one\ntwo\n")
	e.ok(e.edit("lf", "one\r\ntwo", "1\r\n2"))
	e.has("lf", "1\n2\n")
	e.put("mixed", "a\nb\r\nc\nd\r\n")
	e.ok(e.edit("mixed", "b", "b1\nb2"))
	e.ok(e.edit("mixed", "c", "c1\nc2"))
	e.has("mixed", "a\nb1\r\nb2\r\nc1\nc2\nd\r\n")
	e.put("exact", "x\ny\r\nx\r\ny\r\n")
	e.ok(e.edit("exact", "x\ny", "z")) // the exact place, not the one that is like it
	e.has("exact", "z\r\nx\r\ny\r\n")
	e.put("cr", "a\n")
	e.ok(e.edit("cr", "a", "a\r\nb")) // asked for letter for letter
	e.has("cr", "a\r\nb\n")
}

func TestBOMIsKeptAndNotShown(t *testing.T) {
	e := newEnv(t)
	e.put("f", "\xef\xbb\xbfone\r\ntwo\r\n")
	if got := e.mustRead("f"); got != "one\ntwo\n" {
		t.Errorf("shown as %q", got)
	}
	e.ok(e.edit("f", "one\ntwo", "1\n2"))
	e.has("f", "\xef\xbb\xbf1\r\n2\r\n")
	e.ok(e.write("f", "new\n"))
	e.has("f", "\xef\xbb\xbfnew\r\n")
}

func TestEditMatching(t *testing.T) {
	e := newEnv(t)
	e.put("f", "func a() {\n\treturn 1\n}\n\nfunc b() {\n\treturn 1\n}\n")
	e.fails(e.edit("f", "return 1", "return 2"), CodeAmbiguous, "2 times (lines 2, 6)")
	e.fails(e.edit("f", "    func a() {\n    return 1\n    }", "x"), CodeNoMatch, "at line 1 it is the same but for white space. There it is:\nfunc a() {\n\treturn 1\n}")
	e.fails(e.edit("f", "func b() {\n\treturn 3\n", "x"), CodeNoMatch, "line 5 is like its first line")
	e.fails(e.edit("f", "nowhere", "x"), CodeNoMatch, "read the file again")
	e.fails(e.edit("f", "", "x"), tool.CodeInvalidArgs, "use write")
	e.fails(e.edit("f", "x", "x"), tool.CodeInvalidArgs, "nothing to change")
	e.fails(e.edit("g", "x", "y"), CodeNotFound, "g")
	r, err := e.call(e.f.Edit(), EditArgs{Path: "f", Old: "return 1", New: "return 2", All: true})
	e.ok(err)
	if !strings.HasSuffix(r.Content[0].Text, "at line 2, 6") {
		t.Errorf("%q", r.Content[0].Text)
	}
	e.has("f", "func a() {\n\treturn 2\n}\n\nfunc b() {\n\treturn 2\n}\n")
}

func TestEditWhereWhiteSpaceDiffers(t *testing.T) {
	for name, c := range map[string]struct{ was, old, new, want string }{
		"spaces for tabs":        {"f {\n\ta\n\t\tb\n}\n", "    a\n        b", "    a\n    c\n        d", "f {\n\ta\n\tc\n\t\td\n}\n"},
		"too shallow":            {"class:\n    def f:\n        pass\n", "def f:\n    pass\n", "def f:\n    return 1\n", "class:\n    def f:\n        return 1\n"},
		"deeper than known":      {"  a\n  b\n", "a\nb", "a\n  if\nb", "  a\n    if\n  b\n"},
		"blanks at the end":      {"a  \nb\t\n", "a\nb", "c", "c\n"},
		"blank lines in between": {"a\n  \nb\n", "a\n\nb\n", "a\n\nc\n", "a\n\nc\n"},
		"CRLF":                   {"x\r\n\ta\r\n\tb\r\ny\r\n", "  a\n  b\n", "  c\n  d\n", "x\r\n\tc\r\n\td\r\ny\r\n"},
		"no newline at the end":  {"x\n\ta", "    a", "    b", "x\n\tb"},
		"a line is taken out":    {"x\n\ta\ny\n", "    a\n", "", "x\ny\n"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.put("f", c.was)
			r, err := e.call(e.f.Edit(), EditArgs{Path: "f", Old: c.old, New: c.new})
			e.ok(err)
			e.has("f", c.want)
			if !strings.Contains(r.Content[0].Text, "is not that of the file") || !strings.Contains(string(r.Meta), `"diff":"`) {
				t.Errorf("%q %s", r.Content[0].Text, r.Meta)
			}
		})
	}
	e := newEnv(t)
	e.put("f", "  a\nx\n\ta\n")
	e.fails(e.edit("f", "   a", "b"), CodeAmbiguous, "2 times (lines 1, 3)")
	_, err := e.call(e.f.Edit(), EditArgs{Path: "f", Old: "   a", New: "   b", All: true})
	e.ok(err)
	e.has("f", "  b\nx\n\tb\n")
	e.fails(e.edit("f", " \n", "b"), CodeNoMatch, "")
	e.fails(e.edit("f", "   b", "  b"), CodeAmbiguous, "")
	e.put("latin", "\ta\n\xe9\n")
	e.fails(e.edit("latin", "    a", "b"), CodeNoMatch, "the same but for white space")
}

func TestR100_ChangedSinceRead(t *testing.T) {
	e := newEnv(t)
	e.put("f", "one\ntwo\n")
	e.mustRead("f")
	e.put("f", "one\ntwo\noutside\n")
	e.fails(e.write("f", "mine\n"), CodeChanged, "changed since it was read")
	e.fails(e.edit("f", "one", "1"), CodeChanged, "changed since it was read")
	e.has("f", "one\ntwo\noutside\n")
	e.mustRead("f")
	e.ok(e.edit("f", "one", "1"))
	e.ok(e.edit("f", "two", "2")) // the agent's own edits in a row
	e.ok(e.write("f", "w\n"))
	e.ok(e.edit("f", "w", "v"))
	e.has("f", "v\n")
}

func TestR100_IsPerAgent(t *testing.T) {
	e := newEnv(t)
	e.put("f", "one\n")
	e.mustRead("f")
	mine := e.x
	e.x = &tool.Exec{AgentID: "b"}
	e.mustRead("f")
	e.ok(e.edit("f", "one", "two"))
	e.x = mine
	e.fails(e.edit("f", "two", "three"), CodeChanged, "")
	e.f.Forget("a")
	e.ok(e.edit("f", "two", "three"))
}

func TestR100_ChangedWhileLeaveWasAsked(t *testing.T) {
	e := newEnv(t)
	e.put("f", "one\n")
	var asked tool.FileChange
	e.x.FileIntent = func(_ context.Context, c tool.FileChange) error {
		asked = c
		e.put("f", "one\noutside\n")
		return nil
	}
	e.fails(e.edit("f", "one", "two"), CodeChanged, "")
	e.has("f", "one\noutside\n")
	if asked.Kind != tool.ChangeEdit || asked.Path != e.path("f") || asked.Hash != tool.Hash([]byte("one\n")) || !strings.Contains(asked.Diff, "-one\n+two\n") {
		t.Errorf("%+v", asked)
	}
}

func TestIntentRefusesAndObservedIsTold(t *testing.T) {
	e := newEnv(t)
	var seen []tool.FileSeen
	e.x.FileObserved = func(s tool.FileSeen) { seen = append(seen, s) }
	refusal := errors.New("a script said no")
	e.x.FileIntent = func(context.Context, tool.FileChange) error { return refusal }
	if err := e.write("f", "x"); !errors.Is(err, refusal) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(e.path("f")); err == nil || len(seen) > 0 {
		t.Error("written all the same")
	}
	e.x.FileIntent = nil
	e.ok(e.write("f", "x"))
	e.mustRead("f")
	want := tool.FileSeen{Path: e.path("f"), Hash: tool.Hash([]byte("x"))}
	if len(seen) != 2 || seen[0] != want || seen[1] != want {
		t.Errorf("%+v", seen)
	}
}

func TestR101_OtherEncodings(t *testing.T) {
	e := newEnv(t)
	latin := "caf\xe9 = 1\nna\xefve = 2\n"
	e.put("latin1", latin)
	if got := e.mustRead("latin1"); !strings.HasPrefix(got, "caf\uFFFD = 1\n") || !strings.Contains(got, "[not UTF-8") {
		t.Errorf("%q", got)
	}
	e.ok(e.edit("latin1", " = 2", " = 3"))
	e.has("latin1", "caf\xe9 = 1\nna\xefve = 3\n")
	e.fails(e.edit("latin1", "caf\uFFFD", "cafe"), CodeNoMatch, "leave them out")
	e.fails(e.edit("latin1", " = 3", " = é"), CodeEncoding, "only ASCII")
	e.fails(e.write("latin1", "caf\uFFFD = 9\n"), CodeEncoding, "use edit")
	e.has("latin1", "caf\xe9 = 1\nna\xefve = 3\n")

	gbk := "\xc4\xe3\xba\xc3 name=old\n\x81\x41=1\n" // the second line's A is half a character
	e.put("gbk", gbk)
	e.mustRead("gbk")
	e.ok(e.edit("gbk", "name=old", "name=new"))
	e.has("gbk", "\xc4\xe3\xba\xc3 name=new\n\x81\x41=1\n")
	e.fails(e.edit("gbk", "A=1", "B=1"), CodeEncoding, "inside of a character")

	e.put("utf16", "\xff\xfea\x00\n\x00")
	_, err := e.read(ReadArgs{Path: "utf16"})
	e.fails(err, CodeEncoding, "UTF-16")
	e.fails(e.write("utf16", "x"), CodeEncoding, "UTF-16")
	e.fails(e.edit("utf16", "a", "b"), CodeEncoding, "UTF-16")
}

func TestCheckIsTheLastWord(t *testing.T) {
	refusal := errors.New("outside")
	e := newEnv(t, func(c *Config) {
		c.Check = func(real string, write bool) error {
			if strings.HasSuffix(real, "secret") && (write || strings.Contains(real, "deep")) {
				return refusal
			}
			return nil
		}
	})
	e.put("secret", "x")
	e.mustRead("secret")
	for _, err := range []error{e.write("secret", "y"), e.edit("secret", "x", "y"), e.write("deep/secret", "y")} {
		if !errors.Is(err, refusal) {
			t.Errorf("%v", err)
		}
	}
	e.has("secret", "x")
}

func TestLargeFilesAreRefused(t *testing.T) {
	e := newEnv(t, func(c *Config) { c.MaxBytes = 10 })
	e.put("f", "0123456789a")
	e.fails(e.edit("f", "0", "1"), CodeTooLarge, "10 bytes")
	e.fails(e.write("f", "x"), CodeTooLarge, "use a command")
	e.mustRead("f")
}

func TestSpecsAndPaths(t *testing.T) {
	e := newEnv(t)
	for _, tl := range e.f.Tools() {
		s := tl.Spec()
		if _, err := tool.CompileSchema(s.Name, s.Parameters); err != nil {
			t.Error(err)
		}
		args := `{"path":"a/../b"}`
		switch s.Name {
		case "write":
			args = `{"path":"a/../b","content":""}`
		case "edit":
			args = `{"path":"a/../b","old":"x","new":""}`
		case "glob", "grep":
			args = `{"path":"a/../b","pattern":"x"}`
		}
		_, reads := tl.(tool.Reader)
		use := tl.(tool.PathUser).Paths(json.RawMessage(args))
		if len(use) != 1 || use[0].Path != e.path("b") || use[0].Write == reads {
			t.Errorf("%s: %+v", s.Name, use)
		}
		if use := tl.(tool.PathUser).Paths(json.RawMessage(`{"paht":"b"}`)); use != nil {
			t.Errorf("%s: %+v", s.Name, use)
		}
	}
}

func TestCancelled(t *testing.T) {
	e := newEnv(t)
	e.put("f", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		tool tool.Tool
		args string
	}{{e.f.Read(), `{"path":"f"}`}, {e.f.Write(), `{"path":"f","content":"y"}`}, {e.f.Edit(), `{"path":"f","old":"x","new":"y"}`}} {
		_, err := c.tool.Execute(ctx, json.RawMessage(c.args), e.x)
		e.fails(err, tool.CodeAborted, "")
	}
	e.has("f", "x")
}
