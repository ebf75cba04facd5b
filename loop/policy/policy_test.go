package policy

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/loop/tool/fs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain is a tool that says nothing of itself.
type plain struct{}

func (plain) Spec() model.ToolSpec { return model.ToolSpec{Name: "plain"} }
func (plain) Execute(context.Context, json.RawMessage, *tool.Exec) (tool.Result, error) {
	return tool.Result{}, nil
}

type harmless struct{ plain }

func (harmless) ReadOnly(json.RawMessage) bool { return true }

// commander is a tool whose arguments are the command, as a JSON string.
type commander struct {
	plain
	dir string
}

func (c commander) Command(args json.RawMessage, _ string) (string, string) {
	var s string
	if json.Unmarshal(args, &s) != nil {
		return "", ""
	}
	return s, c.dir
}

// place is a project with protected places, beside a folder that is outside of it.
type place struct {
	t         *testing.T
	dir, out  string
	cfg       Config
	read      tool.Tool
	write     tool.Tool
	edit      tool.Tool
	bash      tool.Tool
	protected string // a file in .dshsh/scripts
}

func newPlace(t *testing.T) *place {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, dir: filepath.Join(base, "work"), out: filepath.Join(base, "out")}
	for _, d := range []string{"work/.dshsh/scripts", "work/src", "out", "home/.config/dshsh/scripts"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.protected = filepath.Join(p.dir, ".dshsh/scripts/guard.js")
	for _, f := range []string{p.protected, filepath.Join(p.dir, "src/a.go"), filepath.Join(p.out, "secret")} {
		if err := os.WriteFile(f, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(base, "home")
	p.cfg = Config{
		Dir:       p.dir,
		Protected: []string{filepath.Join(p.dir, ".dshsh/scripts"), filepath.Join(home, ".config/dshsh"), filepath.Join(home, "state")},
		Vars:      map[string]string{"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config")},
	}
	f := fs.New(fs.Config{Dir: p.dir})
	p.read, p.write, p.edit, p.bash = f.Read(), f.Write(), f.Edit(), commander{dir: p.dir}
	return p
}

func (p *place) link(target, name string) {
	p.t.Helper()
	if err := os.Symlink(target, filepath.Join(p.dir, name)); err != nil {
		p.t.Skip(err)
	}
}

func (p *place) call(t tool.Tool, args any) Call {
	p.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		p.t.Fatal(err)
	}
	return Call{Tool: t, Name: t.Spec().Name, Args: raw}
}

func (p *place) decides(c Call, kind, part string) {
	p.t.Helper()
	if d := Default(p.cfg, c); d.Kind != kind || !strings.Contains(d.Reason, part) {
		p.t.Errorf("%s %s: %+v, want %s with %q", c.Name, c.Args, d, kind, part)
	}
}

func TestDefault(t *testing.T) {
	p := newPlace(t)
	p.link(p.out, "leak")
	p.link("src", "in")
	p.decides(p.call(p.read, fs.ReadArgs{Path: "src/a.go"}), Allow, "")
	p.decides(p.call(p.read, fs.ReadArgs{Path: "in/a.go"}), Allow, "")
	p.decides(p.call(p.read, fs.ReadArgs{Path: "no/such"}), Allow, "")
	p.decides(p.call(p.read, fs.ReadArgs{Path: p.out + "/secret"}), Ask, "read wants to read "+p.out+"/secret, which is outside of the project's folder")
	p.decides(p.call(p.read, fs.ReadArgs{Path: "../out/secret"}), Ask, "outside")
	p.decides(p.call(p.read, fs.ReadArgs{Path: "leak/secret"}), Ask, "leak/secret, which leads outside of the project's folder, to "+p.out+"/secret")
	p.decides(p.call(p.read, fs.ReadArgs{Path: p.dir + "-other/x"}), Ask, "outside")
	p.decides(p.call(p.write, fs.WriteArgs{Path: "src/a.go"}), Ask, "write wants to change src/a.go")
	p.decides(p.call(p.edit, fs.EditArgs{Path: "leak/x", Old: "a"}), Ask, "leads outside")
	p.decides(p.call(p.bash, "ls\n"), Ask, "plain wants to run: ls")
	p.decides(p.call(p.bash, 7), Ask, "cannot be read")
	p.decides(p.call(p.bash, strings.Repeat("x", 1000)), Ask, "... (1000 characters in all)")
	p.decides(p.call(plain{}, 1), Ask, "may change things")
	p.decides(p.call(harmless{}, 1), Allow, "")
	p.decides(Call{Name: "nope"}, Allow, "no such tool")
	script := p.call(plain{}, 1)
	script.ScriptTool = true
	p.decides(script, Allow, "granted")
}

func TestModes(t *testing.T) {
	ask, deny, allow := Decision{Ask, "r"}, Decision{Deny, "r"}, Decision{Allow, "r"}
	for _, c := range []struct {
		mode string
		want [3]string
	}{{"", [3]string{Ask, Deny, Allow}}, {"ask", [3]string{Ask, Deny, Allow}}, {"never", [3]string{Deny, Deny, Allow}}, {"all", [3]string{Allow, Deny, Allow}}} {
		m, err := ParseMode(c.mode)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range []Decision{ask, deny, allow} {
			if got := m.Settle(d).Kind; got != c.want[i] {
				t.Errorf("%q: %s became %s", c.mode, d.Kind, got)
			}
		}
	}
	if _, err := ParseMode("nevr"); err == nil || !strings.Contains(err.Error(), `did you mean "never"`) {
		t.Error(err)
	}
}

// Tools that search are judged by the folder that they are given, as reading is.
func TestR128_DefaultOfToolsThatSearch(t *testing.T) {
	p := newPlace(t)
	p.link(p.out, "outlink")
	p.link("src", "inlink")
	f := fs.New(fs.Config{Dir: p.dir})
	for _, tl := range []tool.Tool{f.Ls(), f.Glob(), f.Grep()} {
		args := func(path string) map[string]any {
			a := map[string]any{"pattern": "x"}
			if tl.Spec().Name == "ls" {
				a = map[string]any{}
			}
			if path != "" {
				a["path"] = path
			}
			return a
		}
		for _, in := range []string{"", ".", "src", "src/..", "inlink", p.dir} {
			p.decides(p.call(tl, args(in)), Allow, "only reads")
		}
		for _, out := range []string{"..", "outlink", "outlink/secret", p.out, "src/../../out"} {
			p.decides(p.call(tl, args(out)), Ask, "outside of the project's folder")
			confined := p.cfg
			confined.Confine = true
			if d, ok := Guards(confined, p.call(tl, args(out))); !ok || d.Kind != Deny {
				t.Errorf("%s %s: %+v", tl.Spec().Name, out, d)
			}
		}
	}
}

func TestSavedOutputsAreReadWithoutAsking(t *testing.T) {
	p := newPlace(t)
	p.link(filepath.Join(p.out, "secret"), "x")
	files := filepath.Join(p.out, "ID.files")
	if err := os.Mkdir(files, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(p.out, "secret"), filepath.Join(files, "link")); err != nil {
		t.Skip(err)
	}
	confined := p.cfg
	confined.Confine = true
	for path, kind := range map[string]string{
		filepath.Join(files, "c1.txt"): Allow, filepath.Join(files, "link"): Ask, filepath.Join(files, "../secret"): Ask, filepath.Join(p.out, "ID.files2/c"): Ask,
	} {
		c := p.call(p.read, fs.ReadArgs{Path: path})
		c.SavedDirs = []string{files}
		p.decides(c, kind, "")
		if _, refused := Guards(confined, c); refused != (kind == Ask) {
			t.Errorf("confined to the folder, %s: refused %v", path, refused)
		}
		w := p.call(p.write, fs.WriteArgs{Path: path})
		w.SavedDirs = []string{files}
		p.decides(w, Ask, "wants to change")
	}
}
