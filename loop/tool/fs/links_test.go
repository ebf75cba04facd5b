//go:build unix

package fs

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"dshsh/loop/tool"
)

func (e *env) link(target, name string) {
	e.t.Helper()
	if err := os.Symlink(target, e.path(name)); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) isLink(name string) {
	e.t.Helper()
	st, err := os.Lstat(e.path(name))
	if err != nil || st.Mode()&os.ModeSymlink == 0 {
		e.t.Errorf("%s is no link any more", name)
	}
}

func TestR099_LinksAreKept(t *testing.T) {
	e := newEnv(t)
	e.put("f", "one\n")
	e.link("f", "l1")
	e.link("l1", "l2")
	e.link(e.path("l2"), "l3")
	e.link("sub/new", "dangling")
	e.ok(e.write("l1", "two\n"))
	e.ok(e.edit("l3", "two", "three"))
	e.has("f", "three\n")
	e.ok(e.write("dangling", "made\n"))
	e.has("sub/new", "made\n")
	for _, l := range []string{"l1", "l2", "l3", "dangling"} {
		e.isLink(l)
	}
	e.link("loop", "loop")
	if err := e.write("loop", "x"); err == nil || !strings.Contains(err.Error(), "loop of them") {
		t.Errorf("%v", err)
	}
}

func TestR099_HardLinksAreKept(t *testing.T) {
	e := newEnv(t)
	e.put("f", "a long first content\n")
	if err := os.Link(e.path("f"), e.path("g")); err != nil {
		t.Skip(err)
	}
	e.ok(e.edit("g", "a long first", "short"))
	e.has("f", "short content\n")
	a, _ := os.Stat(e.path("f"))
	b, _ := os.Stat(e.path("g"))
	if !os.SameFile(a, b) {
		t.Error("they are two files now")
	}
}

func TestModeAndOwnerAreKept(t *testing.T) {
	e := newEnv(t)
	for _, mode := range []os.FileMode{0o755, 0o600, 0o640, 0o666, 0o755 | os.ModeSetgid} {
		e.put("f", "one\n")
		if err := os.Chmod(e.path("f"), mode); err != nil {
			t.Fatal(err)
		}
		if os.Getuid() == 0 {
			if err := os.Chown(e.path("f"), 1234, 1234); err != nil {
				t.Fatal(err)
			}
			os.Chmod(e.path("f"), mode) // a change of owner drops set-id bits
		}
		before, _ := os.Stat(e.path("f"))
		e.ok(e.edit("f", "one", "two"))
		after, _ := os.Stat(e.path("f"))
		if before.Mode() != after.Mode() {
			t.Errorf("mode %v became %v", before.Mode(), after.Mode())
		}
		b, a := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
		if b.Uid != a.Uid || b.Gid != a.Gid {
			t.Errorf("owner %d:%d became %d:%d", b.Uid, b.Gid, a.Uid, a.Gid)
		}
		os.Remove(e.path("f"))
		e.f.Forget("a")
	}
}

func TestReadOnlyFilesAndFolders(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("everything is writable for root")
	}
	e := newEnv(t)
	e.put("f", "one\n")
	os.Chmod(e.path("f"), 0o444)
	if err := e.edit("f", "one", "two"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("%v", err)
	}
	e.has("f", "one\n")
	os.Mkdir(e.path("d"), 0o755)
	e.put("d/f", "one\n")
	os.Chmod(e.path("d"), 0o555)
	defer os.Chmod(e.path("d"), 0o755)
	e.ok(e.edit("d/f", "one", "two"))
	e.has("d/f", "two\n")
}

func TestPipesAreNotWaitedFor(t *testing.T) {
	e := newEnv(t)
	if err := syscall.Mkfifo(e.path("p"), 0o600); err != nil {
		t.Skip(err)
	}
	_, err := e.read(ReadArgs{Path: "p"})
	e.fails(err, CodeNotFile, "no ordinary file")
	e.fails(e.write("p", "x"), CodeNotFile, "no ordinary file")
}

func TestR128_Resolve(t *testing.T) {
	e := newEnv(t)
	out, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(e.path("d/e"), 0o755)
	e.put("d/f", "")
	e.link("d", "in")
	e.link(out, "out")
	e.link(out+"/not/yet", "dangling")
	e.link("d/../d/e/../f", "winding")
	e.link("../"+filepath.Base(e.dir)+"/d", "up")
	for path, want := range map[string]string{
		"d/f":                 e.path("d/f"),
		"d/../../x":           filepath.Join(filepath.Dir(e.dir), "x"),
		"in/f":                e.path("d/f"),
		"in/new/deep":         e.path("d/new/deep"),
		"in/../g":             e.path("g"), // the text first, then the links
		"out/x":               out + "/x",
		"out/x/../../y":       e.path("y"),
		"dangling":            out + "/not/yet",
		"dangling/more":       out + "/not/yet/more",
		"winding":             e.path("d/f"),
		"up/f":                e.path("d/f"),
		"no/such/../f":        e.path("no/f"),
		".":                   e.dir,
		"/":                   "/",
		e.path("in") + "//f/": e.path("d/f"),
	} {
		abs, real, err := Resolve(e.dir, path)
		if err != nil || real != want {
			t.Errorf("%s: %s (%v), want %s", path, real, err, want)
		}
		if !filepath.IsAbs(abs) || abs != filepath.Clean(abs) {
			t.Errorf("%s: abs %s", path, abs)
		}
	}
	for _, path := range []string{"", "a\x00b", "d/f/x"} {
		if _, _, err := Resolve(e.dir, path); err == nil {
			t.Errorf("%q: no error", path)
		}
	}
	if _, _, err := Resolve("relative", "x"); err == nil {
		t.Error("a relative folder is no error")
	}
}

// Links in a folder are shown and not followed, wherever they lead.
func TestR128_SearchesStayInTheFolder(t *testing.T) {
	eachGrep(t, func(t *testing.T, e *env) {
		outside := t.TempDir()
		if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("two\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		e.put("f", "two\n")
		e.link(outside, "dir")
		e.link(filepath.Join(outside, "secret"), "file")
		e.link("f", "same")
		e.link(".", "self")
		if got := e.text(e.f.Grep(), GrepArgs{Pattern: "two"}); got != "f:1:two" {
			t.Errorf("%q", got)
		}
		if got := e.text(e.f.Glob(), GlobArgs{Pattern: "**"}); got != "dir\nf\nfile\nsame\nself" {
			t.Errorf("%q", got)
		}
		if got := e.text(e.f.Ls(), LsArgs{}); !strings.Contains(got, "-  dir -> "+outside+"\n") || !strings.Contains(got, "-  self -> .") {
			t.Errorf("%q", got)
		}
	})
}

func TestR128_CheckSeesWhereASearchLeads(t *testing.T) {
	var seen []string
	e := newEnv(t, func(c *Config) {
		c.Check = func(real string, _ bool) error { seen = append(seen, real); return os.ErrPermission }
	})
	outside, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e.link(outside, "dir")
	for _, c := range []struct {
		tool tool.Tool
		args any
	}{{e.f.Ls(), LsArgs{Path: "dir"}}, {e.f.Glob(), GlobArgs{Pattern: "*", Path: "dir"}}, {e.f.Grep(), GrepArgs{Pattern: "x", Path: "dir"}}} {
		if _, err := e.call(c.tool, c.args); err == nil {
			t.Errorf("%T was not refused", c.tool)
		}
	}
	for _, p := range seen {
		if p != outside {
			t.Errorf("Check was asked for %s", p)
		}
	}
	if len(seen) != 3 {
		t.Errorf("Check was asked %d times", len(seen))
	}
	// What the session saved itself is read without it, and not changed.
	saved := filepath.Join(outside, "saved")
	if err := os.WriteFile(saved, []byte("whole\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.x.SavedDirs = []string{outside}
	if got := e.mustRead(saved); got != "whole\n" {
		t.Errorf("%q", got)
	}
	if err := e.write(saved, "x"); err == nil {
		t.Error("written")
	}
}
