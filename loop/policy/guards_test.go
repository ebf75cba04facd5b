package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dshsh/loop/tool/fs"
	"dshsh/runtime/bash"
)

// guards returns the kind of what the guards say, "" for no objection.
func (p *place) guards(c Call) string {
	d, ok := Guards(p.cfg, c)
	if ok != (d.Kind != "") || ok && d.Reason == "" {
		p.t.Errorf("%s: %v %+v", c.Args, ok, d)
	}
	return d.Kind
}

func TestR125_ProtectedPathsAreNotWritten(t *testing.T) {
	p := newPlace(t)
	p.link(".dshsh", "a")
	p.link("a/scripts", "b")
	p.link(".dshsh/scripts/guard.js", "g")
	p.link(".dshsh/scripts/new.js", "dangling")
	// A script that is a link to a file elsewhere, and a link to that link.
	p.link(p.out+"/real.js", ".dshsh/scripts/linked.js")
	p.link(".dshsh/scripts/linked.js", "far")
	home := p.cfg.Vars["HOME"]
	for path, denied := range map[string]bool{
		".dshsh/scripts/guard.js":           true,
		"./src/../.dshsh/scripts/guard.js":  true,
		".dshsh/scripts/sub/new.js":         true,
		".dshsh/scripts":                    true,
		p.protected:                         true,
		"a/scripts/guard.js":                true,
		"b/guard.js":                        true,
		"g":                                 true,
		"dangling":                          true,
		".dshsh/scripts/linked.js":          true,
		"b/linked.js":                       true,
		"far":                               true,
		home + "/.config/dshsh/config.toml": true,
		home + "/state/trust":               true,
		"src/a.go":                          false,
		".dshsh/notes":                      false,
		".dshsh/scripts2/x":                 false,
		p.out + "/secret":                   false,
	} {
		want := ""
		if denied {
			want = Deny
		}
		if got := p.guards(p.call(p.write, fs.WriteArgs{Path: path})); got != want {
			t.Errorf("write %s: %q", path, got)
		}
		if got := p.guards(p.call(p.edit, fs.EditArgs{Path: path, Old: "x"})); got != want {
			t.Errorf("edit %s: %q", path, got)
		}
		if got := p.guards(p.call(p.read, fs.ReadArgs{Path: path})); got != "" {
			t.Errorf("read %s: %q", path, got)
		}
	}
	p.link("loop", "loop")
	if got := p.guards(p.call(p.write, fs.WriteArgs{Path: "loop/x"})); got != Deny {
		t.Errorf("a loop: %q", got)
	}
	if d, _ := Guards(p.cfg, p.call(p.write, fs.WriteArgs{Path: "g"})); !strings.Contains(d.Reason, "is protected") {
		t.Errorf("%q", d.Reason)
	}
}

func TestR125_FolderReachedByALink(t *testing.T) {
	p := newPlace(t)
	// The working folder itself is given by a link.
	alias := p.dir + "-alias"
	if err := os.Symlink(p.dir, alias); err != nil {
		t.Skip(err)
	}
	p.cfg.Protected = []string{filepath.Join(alias, ".dshsh/scripts")}
	p.cfg.Dir = alias
	if got := p.guards(p.call(p.write, fs.WriteArgs{Path: p.protected})); got != Deny {
		t.Errorf("%q", got)
	}
	p.decides(p.call(p.read, fs.ReadArgs{Path: p.dir + "/src/a.go"}), Allow, "")
}

func TestR128_Confinement(t *testing.T) {
	p := newPlace(t)
	p.cfg.Confine = true
	p.link(p.out+"/secret", "file")
	p.link(p.out, "folder")
	p.link(p.out+"/not-yet", "dangling")
	p.link("src/a.go", "inside")
	for path, want := range map[string]string{
		"file": Deny, "folder/secret": Deny, "folder/new": Deny, "dangling": Deny, "../out/secret": Deny, p.out: Deny,
		"inside": "", "src/a.go": "", "new/file": "", ".": "",
	} {
		for _, c := range []Call{p.call(p.read, fs.ReadArgs{Path: path}), p.call(p.write, fs.WriteArgs{Path: path}), p.call(p.edit, fs.EditArgs{Path: path, Old: "x"})} {
			if got := p.guards(c); got != want {
				t.Errorf("%s: %q", path, got)
			}
		}
	}
}

func TestR125_Commands(t *testing.T) {
	p := newPlace(t)
	p.link(".dshsh", "alias")
	const g = ".dshsh/scripts/guard.js"
	for command, want := range map[string]string{
		// Nothing to do with it.
		"ls -la":                             "",
		"rm -rf build && go test ./...":      "",
		"rm -rf *":                           "", // a * leaves out what begins with a dot
		"cp a.txt . ; mv b.txt . ; mv c ../": "",
		"echo hi > out.txt 2>&1":             "",
		"cat > notes.md <<'EOF'\nsee .dshsh/scripts\nEOF": "",
		"git commit -m 'guard the .dshsh folder'":         "",
		"x=$(date); echo \"$x\" | tee log":                "",
		"mkdir -p .dshsh/notes":                           "",

		// Reading it.
		"cat " + g: "", "ls .dshsh/scripts | sort": "", "grep -rn foo .dshsh": "", "sed -n 1,5p " + g: "",
		"cp " + g + " /tmp/copy.js": "", "diff " + g + " x.js": "", "cat <" + g: "", "find .dshsh -name '*.js'": "",
		"cd .dshsh/scripts && ls && cat guard.js": "", "wc -l < " + g: "",

		// Changing it.
		"echo x > " + g: Deny, "echo x >> " + g: Deny, "echo x >| " + g: Deny, "ls &> " + g: Deny, ": >\".dshsh\"/scripts/'guard.js'": Deny,
		"rm " + g: Deny, "/bin/rm -f " + g: Deny, "\\rm " + g: Deny, "r\"\"m " + g: Deny, "$'\\x72m' " + g: Deny,
		"rm -rf .dshsh": Deny, "rm -rf .": Deny, "rm -rf " + p.dir: Deny, "rm -rf ../work": Deny, "mv .dshsh/scripts /tmp": Deny, "mv .dshsh x": Deny,
		"rm .dshsh/scripts/*": Deny, "rm .dshsh/*/guard.js": Deny, "rm -r .d*": Deny, "rm .dshsh/scripts/g?ard.js": Deny,
		"sed -i s/deny/allow/ " + g: Deny, "cp x.js " + g: Deny, "cp x.js .dshsh/scripts/": Deny, "cp -r scripts .dshsh/": Deny, "cp -t .dshsh/scripts x.js": Deny,
		"cp --target-directory=.dshsh/scripts x.js": Deny, "ln " + g + " hard": Deny, "ln -sf /tmp/x " + g: Deny, "tee " + g + " <x": Deny,
		"truncate -s 0 " + g: Deny, "dd if=/dev/null of=" + g: Deny, "touch .dshsh/scripts/new.lua": Deny, "chmod 000 " + g: Deny, "mkdir .dshsh/scripts/sub": Deny,
		"cd .dshsh/scripts && rm guard.js": Deny, "cd .dshsh; rm -r scripts": Deny, "(cd .dshsh/scripts; echo >guard.js)": Deny, "pushd .dshsh/scripts; rm *": Deny,
		"cd src && rm ../" + g: Deny, "rm alias/scripts/guard.js": Deny, "rm \"$PWD/" + g + "\"": Deny,
		"rm ~/.config/dshsh/config.toml": Deny, "echo >\"$HOME/.config/dshsh/scripts/x.js\"": Deny, "rm -r ${XDG_CONFIG_HOME}/dshsh": Deny,
		"find .dshsh/scripts -delete": Deny, "find .dshsh/scripts -exec rm {} ;": Deny, "sort -o " + g + " x": Deny,
		"p=" + g + "; rm $p": Deny, "export p=" + g + "\nrm \"$p\"": Deny, "if true; then rm " + g + "; fi": Deny, "{ echo x; } > " + g: Deny,

		// Through others.
		"ls && rm " + g: Deny, "ls; rm " + g: Deny, "ls & rm " + g: Deny, "ls\nrm " + g: Deny, "$(rm " + g + ")": Deny, "echo \"$(rm " + g + ")\"": Deny, "echo `rm " + g + "`": Deny,
		"(rm " + g + ")": Deny, "bash -c 'rm " + g + "'": Deny, "bash -lc \"rm " + g + "\"": Deny, "eval rm " + g: Deny, "eval 'rm " + g + "'": Deny, "trap 'rm " + g + "' EXIT": Deny,
		"env rm " + g: Deny, "env A=b rm " + g: Deny, "timeout 5 rm " + g: Deny, "nice -n 5 rm " + g: Deny, "sudo -u root rm " + g: Deny, "nohup rm " + g + " &": Deny, "xargs rm " + g: Deny,
		"command rm " + g: Deny, "cat <(rm " + g + ")": Deny, "bash <<EOF\nrm " + g + "\nEOF": Deny, "bash <<< 'rm " + g + "'": Deny, "cat <<EOF\n$(rm " + g + ")\nEOF": Deny,
		"true # x\nrm " + g: Deny, "case x in x) rm " + g + ";; esac": Deny, "while true; do rm " + g + "; done": Deny, "time rm " + g: Deny, "! rm " + g: Deny,

		// What only running would tell.
		"echo " + g + " | xargs rm": Ask, "find .dshsh | xargs rm": Ask, "python3 -c \"open('" + g + "','w')\"": Ask, "node -e 'fs.rmSync(\".dshsh\")'": Ask,
		"for f in .dshsh/scripts/*; do rm $f; done": Ask, "rm -rf .dshsh/{scripts,x}": Ask, "git checkout -- " + g: Ask, "vim " + g: Ask, "echo 'rm " + g + "' | sh": Ask,
		"python3 - <<EOF\nopen('" + g + "','w')\nEOF": Ask, "find . -name '*.js' -delete": Ask, "rm -rf ./$x": Ask, "p=.dshsh; q=$(ls $p); rm $p/$q/guard.js": Ask,
		"./unknown-wrapper rm " + g: Ask, "chmod -R 000 .": Ask, "ln -s /tmp/evil .dshsh": Ask, "x=rm; y=" + g + "; $z $y": Ask, "perl -i -pe s/a/b/ " + g: Ask,
	} {
		if got := p.guards(p.call(p.bash, command)); got != want {
			d, _ := Guards(p.cfg, p.call(p.bash, command))
			t.Errorf("%q: %q (%s), want %q", command, got, d.Reason, want)
		}
	}
}

// The guard sees what ctx.shell shows to scripts: every part of a command (R126), and a
// program however it is wrapped or written (R127).
func TestR126_R127_TheGuardAndScriptsSeeTheSame(t *testing.T) {
	p := newPlace(t)
	const g = ".dshsh/scripts/guard.js"
	for _, command := range []string{
		"ls && rm V", "ls; rm V", "$(rm V)", "ls\nrm V", "(rm V)", "bash -c 'rm V'", "ls & rm V", "xargs rm V",
		"env rm V", "timeout 5 rm V", "nice rm V", "/bin/rm V", `\rm V`, `r""m V`, "sudo -u root env -u A rm V", "env -C .dshsh/scripts rm guard.js", "flock x rm V", "ls | while read x; do rm V; done",
		"x=" + g + "; x=a rm $x", "{ rm V; } 2>&1 | cat", "ls | (rm V)", "coproc rm V", "watch 'rm V'", "find . -maxdepth 0 -exec rm V ';'",
	} {
		command = strings.ReplaceAll(command, "V", g)
		found := false
		for _, prog := range bash.Parse(command).Programs {
			found = found || prog.Name != nil && *prog.Name == "rm"
		}
		if got := p.guards(p.call(p.bash, command)); got != Deny || !found {
			t.Errorf("%q: the guard says %q, scripts see rm: %v", command, got, found)
		}
	}
	for command, want := range map[string]string{
		"cd .dshsh/scripts | rm guard.js":         "", // the cd is another process's
		"rm " + g + " ; )":                        Deny,
		"( rm " + g + "; case":                    Ask, // it cannot be read, and names the place
		"./wrapper rm " + g:                       Ask,
		"ls; " + strings.Repeat("ls;", 30_000):    "",
		strings.Repeat("ls;", 30_000) + "rm " + g: Ask,
	} {
		if got := p.guards(p.call(p.bash, command)); got != want {
			t.Errorf("%.60q: %q, want %q", command, got, want)
		}
	}
}

func TestCommandsOfAnyFormEnd(t *testing.T) {
	p := newPlace(t)
	for _, c := range []string{
		"", "'", "\"", "\\", "$", "$(", "${", "`", "((((", "))))", "<<", "<<EOF", "cat <<EOF\nx", ">", ">&", "a=", "=", "{", "$'\\x", "$'\\", "\"$(\"", "a <(", "\x00", "~", "~/", "-", "[", "rm [", "cd", "cd -",
		"eval", "bash -c", "find -exec", "xargs", "cp", "mv", "mv x", "trap", strings.Repeat("$(", 10_000), strings.Repeat("(", 10_000), strings.Repeat("bash -c ", 100) + "x", "\xff\xfe",
	} {
		p.guards(p.call(p.bash, c))
	}
}

func TestLongCommandsAreBounded(t *testing.T) {
	p := newPlace(t)
	for command, want := range map[string]string{
		strings.Repeat("rm a/b/c ", 14_000):                           Ask,
		"echo " + strings.Repeat("$(ls x) ", 16_000):                  "",
		"rm .dshsh/scripts/x; " + strings.Repeat("rm a/b/c;", 14_000): Deny,
		strings.Repeat("\"$(", 40_000):                                "",
		strings.Repeat("<<a ", 30_000) + "\n":                         "",
	} {
		began := time.Now()
		got := p.guards(p.call(p.bash, command))
		if d := time.Since(began); got != want || d > 5*time.Second {
			t.Errorf("%.20s: %q after %v", command, got, d)
		}
		t.Log(time.Since(began))
	}
}

func FuzzGuards(f *testing.F) {
	for _, s := range []string{"rm -rf a; b", "cat <<EOF\n$(x)\nEOF", "a=$(b \"c\") d >e 2>&1 | f", "case x in y) z;; esac", "$'\\x41' ${a} `b` <(c)", "find . -exec rm {} +"} {
		f.Add(s)
	}
	cfg := Config{Dir: "/w", Protected: []string{"/w/.dshsh/scripts"}}
	f.Fuzz(func(t *testing.T, s string) {
		newJudge(cfg, "/w").text(s)
	})
}
