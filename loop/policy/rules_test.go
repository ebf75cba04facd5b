package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dshsh/loop/tool/fs"
)

func (p *place) rules(list ...Rule) *Rules {
	p.t.Helper()
	rs := &Rules{}
	for _, r := range list {
		if err := rs.Add(r, false); err != nil {
			p.t.Fatal(err)
		}
	}
	return rs
}

func (p *place) run(command string) Call {
	c := p.call(p.bash, command)
	c.Name = "bash"
	return c
}

func (p *place) judged(rs *Rules, c Call, want string) {
	p.t.Helper()
	if d, by, _ := rs.Judge(p.cfg, c); d.Kind != want {
		p.t.Errorf("%s: %q by %q, want %q", c.Args, d.Kind, by, want)
	}
}

// TestAllowedIsWhatTheRuleSays: R126 and R127 from the side that allows.
func TestAllowedIsWhatTheRuleSays(t *testing.T) {
	p := newPlace(t)
	rs := p.rules(Rule{Decision: Allow, Tool: "bash", Command: "git status *"}, Rule{Decision: Allow, Tool: "bash", Command: "go test ./..."},
		Rule{Decision: Allow, Tool: "bash", Command: "echo 'a  b' x*"})
	for _, c := range []string{"git status", "git  status -sb .", `"git" sta"tus"`, "git status 2>&1", "git status >/dev/null", "git status && go test ./...",
		"git status | git status", "git status # and so on", "cd sub && git status", "(git status)", "git status\ngit status", "git status *.go", "echo 'a  b' xyz"} {
		p.judged(rs, p.run(c), Allow)
	}
	for _, c := range []string{
		"git", "git statusx", "git stash", "git -c x=y status", "git status; rm -rf x", "git status && rm x", "git status || rm x", "git status & rm x", "git status | sh",
		"git status\nrm x", "git status $(rm x)", "git status `rm x`", "git status <(rm x)", "git status $(git status)", "git status $X", "git status {a,b}",
		"git status > file", "git status >> file", "git status 2> file", "git status < file", "git status &> file", "git status <<< x", "git status <<E\nE",
		"X=1 git status", "PATH=/tmp; git status", "PATH=/tmp git status", "export GIT_DIR=x; git status", "GIT_PAGER='rm x' git status",
		"alias git=rm; git status", "git() { rm x; }; git status", "bash -c 'git status'", "sh -c 'git status'", "eval git status", "env git status", "sudo git status",
		"timeout 5 git status", "xargs git status", "echo x | xargs git status", "/tmp/git status", "./git status", "./sub/../git status", "cd /tmp && git status", "cd .. && git status",
		"cd $X && git status", "cd - && git status", "for f in a; do git status; done", "[[ -f x ]] && git status", "git status; source x", "git sta*", "g*t status", "$G status", "git\\\n statu",
		"go test ./... -exec rm", "go test .", "echo 'a b' x", "echo a b x", "echo 'a  b' y", "git status; (rm x", "", "#",
	} {
		p.judged(rs, p.run(c), "")
	}
}

// TestDeniedIsWhatTheRuleMeans: R126 and R127 from the side that denies.
func TestDeniedIsWhatTheRuleMeans(t *testing.T) {
	p := newPlace(t)
	rs := p.rules(Rule{Decision: Allow, Tool: "*"}, Rule{Decision: Deny, Tool: "bash", Command: "rm"}, Rule{Decision: Ask, Tool: "bash", Command: "git push"})
	for _, c := range []string{"rm v", "ls && rm v", "ls; rm v", "ls | xargs rm", "echo $(rm v)", "ls\nrm v", "(rm v)", "bash -c 'rm v'", "ls & rm v",
		"env rm v", "timeout 5 rm v", "nice rm v", "/bin/rm v", `\rm v`, `r""m v`, "X=rm; $X v", "f() { rm v; }; f", "find . -exec rm {} +", "sudo -u me rm v", "X=1 rm v"} {
		p.judged(rs, p.run(c), Deny)
	}
	for _, c := range []string{"git push", "git push --force", "git -C /tmp push", "git -c a=b -C x push", "$(echo rm) v", "git $X"} {
		p.judged(rs, p.run(c), Ask)
	}
	for _, c := range []string{"ls", "rmdir x", "echo rm", "git stash push", "git pushx"} {
		p.judged(rs, p.run(c), Allow)
	}
}

func TestRulesOnPaths(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{"src", "src/sub"} {
		if err := os.MkdirAll(filepath.Join(p.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"src/out": p.out, "src/in": filepath.Join(p.dir, "src/sub"), "src/dangling": filepath.Join(p.out, "new"), "alias": filepath.Join(p.dir, "src")} {
		if err := os.Symlink(to, filepath.Join(p.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path string) Call {
		c := p.call(p.write, fs.WriteArgs{Path: path, Content: "x"})
		c.Name = "write"
		return c
	}
	rs := p.rules(Rule{Decision: Allow, Tool: "write", Path: "src/**", Project: p.dir}, Rule{Decision: Deny, Tool: "*", Path: "src/**/*.key"})
	for path, want := range map[string]string{
		"src/a": Allow, "src/sub/b": Allow, "src/in/b": Allow, "alias/a": Allow, filepath.Join(p.dir, "src/a"): Allow, "sub/../src/a": Allow,
		"a": "", "src/../a": "", "src/out/a": "", "src/dangling": "", p.out + "/a": "", "srcx/a": "",
		"src/a.key": Deny, "src/sub/a.key": Deny, "alias/a.key": Deny, "src/in/x.key": Deny,
	} {
		p.judged(rs, write(path), want)
	}
	// From a folder below, paths start there and patterns at the project's folder.
	p.cfg.Root, p.cfg.Dir = p.dir, filepath.Join(p.dir, "src")
	p.judged(rs, write(filepath.Join(p.dir, "src/a")), Allow)
	p.judged(rs, write(filepath.Join(p.dir, "a")), "")
	// Another project's rule is none.
	p.cfg.Root = filepath.Join(p.dir, "src")
	p.judged(rs, write(filepath.Join(p.dir, "src/a")), "")
}

func TestRulesThatAreNone(t *testing.T) {
	for want, r := range map[string]Rule{
		"there are allow, ask and deny": {Decision: "alow", Tool: "bash"},
		"tool is missing":               {Decision: Allow},
		"not both":                      {Decision: Allow, Tool: "x", Command: "a", Path: "b"},
		"not absolute":                  {Decision: Allow, Tool: "x", Project: "here"},
		"no ..":                         {Decision: Allow, Tool: "x", Path: "../x"},
		"words of one program":          {Decision: Allow, Tool: "x", Command: "a; b"},
		"words of one":                  {Decision: Allow, Tool: "x", Command: "a $B"},
		"of one program":                {Decision: Allow, Tool: "x", Command: "A=1 b"},
		"one program":                   {Decision: Allow, Tool: "x", Command: "b > c"},
		"cannot be read":                {Decision: Allow, Tool: "x", Command: "b 'c"},
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", r, err, want)
		}
	}
}

// TestOffers: what is proposed allows the call, and no more than its words say.
func TestOffers(t *testing.T) {
	p := newPlace(t)
	rs := &Rules{}
	for command, want := range map[string]string{
		"git status -sb":              "git status *",
		"go test ./loop/...":          "go test *",
		"npm run build -- --fast":     "npm run build *",
		"go run ./cmd/x -v":           "go run ./cmd/x *",
		"git --version":               "git --version",
		"npm run":                     "npm run",
		"echo hi":                     "echo hi",
		"ls *.go 'a b'":               "ls '*.go' 'a b'",
		"python3 build.py --all":      "python3 build.py --all",
		"git log -3 | head -2":        "git log * & head -2",
		"cd sub && make all":          "make all *",
		"git status && git status -s": "git status *",
	} {
		o := rs.Offer(p.cfg, p.run(command))
		var got []string
		again := &Rules{}
		for _, r := range o.Rules {
			got = append(got, r.Command)
			if err := again.Add(r, true); err != nil {
				t.Error(err)
			}
		}
		if text := strings.Join(got, " & "); text != want {
			t.Errorf("%s: %q (%s), want %q", command, text, o.Once, want)
		}
		p.judged(again, p.run(command), Allow)
	}
	for _, command := range []string{"rm x", "ls; rm x", "sudo ls", "curl x | sh", "curl x | bash -s", "python3 -c 'x'", "python -", "node -e x", "node --eval=x", "perl -pe x f", "sh -c x",
		"bash x.sh $A", "echo x > f", "X=1 make", "eval x", "xargs ls", "find . -exec ls {} +", "source x", "awk '{}' f", "chmod +x f", "a; b; c; d", "$X", "cd .. && ls", "kill 1", "node", "ls $(x)"} {
		if o := rs.Offer(p.cfg, p.run(command)); len(o.Rules) > 0 || o.Once == "" {
			t.Errorf("%s: offers %v", command, o.Rules)
		}
	}
	for path, want := range map[string]string{"a[1].txt": `a\[1\].txt`, "sub/../b": "b", p.out + "/x": p.out + "/x"} {
		c := p.call(p.write, fs.WriteArgs{Path: path})
		c.Name = "write"
		o := rs.Offer(p.cfg, c)
		if len(o.Rules) != 1 || o.Rules[0].Path != want {
			t.Errorf("%s: %+v", path, o)
			continue
		}
		p.judged(p.rules(o.Rules[0]), c, Allow)
	}
	r := Rule{Decision: Allow, Tool: "bash", Command: "git status *", Project: "/p"}
	if got := r.Words(); got != "git status with any arguments, in this project" {
		t.Error(got)
	}
	if got := r.String(); got != "bash: git status with any arguments, in /p" {
		t.Error(got)
	}
}
