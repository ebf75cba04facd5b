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

func (c commander) Command(args json.RawMessage) (string, string) {
	var s string
	if json.Unmarshal(args, &s) != nil {
		return "", ""
	}
	return s, c.dir
}

// place is a working folder with protected places, beside a folder that is outside of it.
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
	p.decides(p.call(p.read, fs.ReadArgs{Path: p.out + "/secret"}), Ask, "read wants to read "+p.out+"/secret, which is outside of the working folder")
	p.decides(p.call(p.read, fs.ReadArgs{Path: "../out/secret"}), Ask, "outside")
	p.decides(p.call(p.read, fs.ReadArgs{Path: "leak/secret"}), Ask, "leak/secret, which leads outside of the working folder, to "+p.out+"/secret")
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

func TestApprovals(t *testing.T) {
	var a Approvals
	if a.Has("bash", json.RawMessage(`{}`)) {
		t.Error("the empty set has something")
	}
	a.Add("bash", json.RawMessage(`{"command":"ls", "n":1e3,"o":{"b":1,"a":[1,2]}}`))
	for args, want := range map[string]bool{
		`{"o":{"a":[1,2],"b":1},"n":1e3,"command":"ls"}`: true,
		`{"o":{"a":[2,1],"b":1},"n":1e3,"command":"ls"}`: false,
		`{"o":{"a":[1,2],"b":1},"n":1e3,"command":"rm"}`: false,
		`{"command":"ls"}`: false,
		`{`:                false,
	} {
		if got := a.Has("bash", json.RawMessage(args)); got != want {
			t.Errorf("%s: %v", args, got)
		}
	}
	if a.Has("sh", json.RawMessage(`{"o":{"a":[1,2],"b":1},"n":1e3,"command":"ls"}`)) {
		t.Error("another tool is allowed too")
	}
	a.Add("n", json.RawMessage(`9007199254740993`))
	if a.Has("n", json.RawMessage(`9007199254740992`)) {
		t.Error("numbers are rounded")
	}
	a.Add("x", json.RawMessage(`{} {}`))
	if a.Has("x", json.RawMessage(`{}`)) {
		t.Error("two values are one")
	}
	a.Clear()
	if a.Has("n", json.RawMessage(`9007199254740993`)) {
		t.Error("Clear forgot nothing")
	}
}
