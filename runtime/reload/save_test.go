package reload

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dshsh/runtime"
)

// The ways in which programs save, each of which must bring the new version into force.
func TestSaves(t *testing.T) {
	for name, save := range map[string]func(r *rig){
		"truncate and write": func(r *rig) { r.write("a.js", "say two") },
		"in chunks": func(r *rig) {
			f, err := os.Create(r.path("a.js"))
			r.ok(err)
			for _, ch := range "say two" {
				_, err := f.WriteString(string(ch))
				r.ok(err)
			}
			r.ok(f.Close())
		},
		"rename over": func(r *rig) { r.replace("a.js", "say two") },
		"keep a backup": func(r *rig) {
			r.ok(os.Rename(r.path("a.js"), r.path("a.js~")))
			r.write("a.js", "say two")
			r.ok(os.Remove(r.path("a.js~")))
		},
		"remove and create": func(r *rig) {
			r.ok(os.Remove(r.path("a.js")))
			r.write("a.js", "say two")
		},
		"truncate, sync, write": func(r *rig) { // as VS Code does
			f, err := os.OpenFile(r.path("a.js"), os.O_WRONLY|os.O_TRUNC, 0)
			r.ok(err)
			r.ok(f.Sync())
			_, err = f.WriteString("say two")
			r.ok(err)
			r.ok(f.Close())
		},
		"hard link": func(r *rig) {
			other := filepath.Join(r.top, "other")
			r.write(other, "say two")
			r.ok(os.Remove(r.path("a.js")))
			r.ok(os.Link(other, r.path("a.js")))
		},
		"write beside, sync, rename": func(r *rig) { // as VS Code does where it must
			f, err := os.Create(r.path("a.js.vsctmp"))
			r.ok(err)
			_, err = f.WriteString("say two")
			r.ok(err)
			r.ok(f.Sync())
			r.ok(f.Close())
			r.ok(os.Rename(r.path("a.js.vsctmp"), r.path("a.js")))
		},
		"vim's own calls": func(r *rig) { // with a swap file, a probe of the folder and a backup
			r.write(".a.js.swp", "b0VIM")
			r.write(".a.js.swx", "")
			r.ok(os.Remove(r.path(".a.js.swx")))
			r.write("4913", "")
			r.ok(os.Chmod(r.path("4913"), 0o644))
			r.ok(os.Remove(r.path("4913")))
			r.ok(os.Rename(r.path("a.js"), r.path("a.js~")))
			f, err := os.OpenFile(r.path("a.js"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
			r.ok(err)
			_, err = f.WriteString("say two")
			r.ok(err)
			r.ok(f.Sync())
			r.ok(f.Close())
			r.ok(os.Chmod(r.path("a.js"), 0o644))
			r.ok(os.Remove(r.path("a.js~")))
			r.ok(os.Remove(r.path(".a.js.swp")))
		},
		"vim": func(r *rig) {
			vim, err := exec.LookPath("vim")
			if err != nil {
				r.t.Skip("no vim here: the other ways stand in for it")
			}
			cmd := exec.Command(vim, "-u", "NONE", "-n", "-es", "-c", "%s/one/two/", "-c", "wq", r.path("a.js"))
			if out, err := cmd.CombinedOutput(); err != nil {
				r.t.Fatalf("vim: %v: %s", err, out)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.write("a.js", "say one")
			r.write("b.js", "say b")
			r.start()
			r.says("one b")
			save(r)
			r.says("two b")
			r.saw("one change", func(rep Report) bool { return rep.Trigger == TriggerSave && len(rep.Changed) == 1 })
			r.idle()
			for _, rep := range r.told() {
				if len(rep.Failures)+len(rep.Removed) > 0 {
					t.Errorf("a state half way was taken: %v", rep)
				}
			}
		})
	}
}

func TestAddedRenamedRemoved(t *testing.T) {
	r := newRig(t)
	r.start()
	r.says("")
	r.write("b.js", "say b") // R045
	r.says("b")
	r.write("a.lua", "say a")
	r.says("a b")
	r.ok(os.Rename(r.path("a.lua"), r.path("c.lua")))
	r.says("b a")
	rep := r.saw("the rename", func(rep Report) bool { return len(rep.Removed) == 1 })
	if rep.Removed[0] != "project/a.lua" {
		t.Errorf("removed %v", rep.Removed)
	}
	r.ok(os.Remove(r.path("b.js")))
	r.says("a")
	r.ok(os.Remove(r.path("c.lua")))
	r.says("")
}

func TestR041_FiveFilesAtOnce(t *testing.T) {
	r := newRig(t)
	names := strings.Fields("a.js b.js c.js d.js e.js")
	for _, n := range names {
		r.write(n, "say one")
	}
	r.start()
	for _, n := range names {
		r.write(n, "say two")
	}
	r.says("two two two two two")
}

func TestUnchangedScriptsKeepTheirVM(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.write("b.js", "say b")
	r.start()
	r.write("a.js", "say x")
	r.says("x b")
	if n := r.e.made.Load(); n != 3 {
		t.Errorf("%d VMs were made, want 3", n)
	}
	r.until("the old VM is closed", func() bool { return r.e.vms.Load() == 2 })
	parsed := r.e.parsed.Load()
	r.write("a.js", "say a") // back: the program is known
	r.says("a b")
	if n := r.e.parsed.Load(); n != parsed {
		t.Errorf("an edit that was taken back was compiled again")
	}
}

func TestChmodAndTouchChangeNothing(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.start()
	r.ok(os.Chmod(r.path("a.js"), 0o600))
	r.write("a.js", "say a")
	r.write("b.js", "say b")
	r.says("a b")
	r.idle()
	for _, rep := range r.told() {
		if len(rep.Changed) > 0 {
			t.Errorf("nothing was written to it: %v", rep)
		}
	}
}

func TestR043_EditorLeftovers(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.ok(os.Symlink("user@host.123:456", r.path(".#p.js")))
	for _, n := range strings.Fields("p.js~ #p.js# .p.js.swp .p.js.swx 4913 p.js.orig _lib.js .hidden.js a.test.js a.test.ts a.test.mjs a_test.lua types.d.ts notes.txt") {
		r.write(n, "syntax error")
	}
	r.mkdir(r.path("x.js"))
	r.mkdir(r.path("sub"))
	r.write("sub/inner.js", "syntax error")
	rep := r.start()
	if got := rep.String(); !strings.HasPrefix(got, "1 script in force: a.js  1 listener  ") {
		t.Errorf("report %q", got)
	}
	r.ok(os.Remove(r.path(".#p.js")))
	r.ok(os.Symlink("user@host.123:457", r.path(".#q.js")))
	r.mkdir(r.path("y.js"))
	r.write("b.js", "say b")
	r.says("a b")
	r.idle()
	if n := len(r.told()); n != 2 {
		t.Errorf("%d reports, want 2: %v", n, r.told())
	}
	if n := len(r.m.Status(t.Context())); n != 2 {
		t.Errorf("%d scripts are listed, want 2", n)
	}
}

func TestR050_Modules(t *testing.T) {
	for _, op := range []string{"need", "bundle"} {
		t.Run(op, func(t *testing.T) {
			r := newRig(t)
			r.mkdir(r.path("lib"))
			r.write("_one.js", "say one")
			r.write("lib/deep.js", "say deep")
			r.write("a.js", op+" _one.js", op+" lib/deep.js")
			r.start()
			r.says("one deep")
			hash := r.status("project/a.js").Hash
			r.write("_one.js", "say two")
			r.says("two deep")
			r.write("lib/deep.js", "say deeper")
			r.says("two deeper")
			if r.status("project/a.js").Hash == hash {
				t.Error("the hash does not cover the module")
			}
			r.replace("lib/deep.js", "say deepest")
			r.says("two deepest")
			r.ok(os.RemoveAll(r.path("lib")))
			r.state("project/a.js", StateFailed)
			r.says("two deepest") // R044
			r.mkdir(r.path("lib"))
			r.write("lib/deep.js", "say back")
			r.says("two back")
		})
	}
}

func TestModuleThatAppears(t *testing.T) {
	for _, c := range []struct{ op, lib string }{{"need", "_lib.js"}, {"find", "_lib.js"}, {"find", "lib.js"}, {"find", "lib/x.js"}} {
		t.Run(c.op+" "+c.lib, func(t *testing.T) {
			r := newRig(t)
			r.write("a.js", "say a")
			r.start()
			r.write("b.js", "say b", c.op+" "+c.lib)
			r.state("project/b.js", StateAbsent)
			r.says("a")
			r.write("a.js", "say x") // it does not hold back others
			r.says("x")
			r.mkdir(filepath.Dir(r.path(c.lib)))
			r.write(c.lib, "say lib")
			if c.lib == "lib.js" { // it is a script too
				r.says("x b lib lib")
			} else {
				r.says("x b lib")
			}
		})
	}
}

func TestModuleLink(t *testing.T) {
	r := newRig(t)
	r.mkdir(r.path("lib1"))
	r.mkdir(r.path("lib2"))
	r.write("lib1/x.js", "say one")
	r.write("lib2/x.js", "say two")
	r.link("lib1", "lib")
	r.write("a.js", "need lib1/x.js") // engines ask for resolved paths
	r.start()
	r.says("one")
	made := r.e.made.Load()
	r.link("lib2", "lib")
	r.until("it is loaded anew", func() bool { return r.e.made.Load() > made })
}

func TestModulesStayInside(t *testing.T) {
	r := newRig(t)
	r.write(filepath.Join(r.top, "secret"), "say secret")
	r.link(filepath.Join(r.top, "secret"), "_in.js")
	r.write("a.js", "need ../secret")
	r.write("b.js", "need _in.js")
	rep := r.start()
	if len(rep.Failures) != 2 {
		t.Fatalf("failures %v, want 2", rep.Failures)
	}
	for _, f := range rep.Failures {
		if !strings.Contains(f.String(), "copy it there") {
			t.Errorf("failure %q", f)
		}
	}
	r.says("")
}

func TestLateModule(t *testing.T) {
	r := newRig(t)
	r.write("_word", "one")
	r.write("a.js", "grow _word")
	r.start()
	r.says("one")
	r.write("_word", "two") // the poll finds it at the latest
	r.says("two")
}

func TestTextStaysForOldVMs(t *testing.T) {
	r := newRig(t)
	r.write("_lib.js", "say one")
	r.write("a.js", "need _lib.js")
	r.start()
	r.write("_lib.js", "fail on purpose")
	r.state("project/a.js", StateFailed)
	r.ok(r.host.Do(t.Context(), func() {
		in := r.host.Current().Instances[0]
		in.Rebuild(os.ErrDeadlineExceeded)
		if err := in.Quarantined(); err != nil {
			t.Errorf("the rebuilt VM took what is on the disk: %v", err)
		}
	}))
	r.says("one")
}

func TestCommandLineFiles(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(r.top, "elsewhere", "_x.test.js")
	r.mkdir(filepath.Dir(file))
	r.write(file, "say cli", "need lib.js")
	r.write(filepath.Join(r.top, "elsewhere", "lib.js"), "say lib")
	r.write("a.js", "say a")
	r.c.Files = []string{file}
	r.start()
	r.says("a cli lib")
	r.replace(file, "say new")
	r.says("a new")
	if s := r.status("cli/_x.test.js"); s.Path != file || s.Layer != runtime.LayerCommandLine {
		t.Errorf("status %+v", s)
	}
}
