package bash_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"dshsh/runtime/bash"
)

// show lists the programs of a command: "via>name(args)"; what is not known is a ?.
func show(c bash.Command) string {
	var out []string
	for _, p := range c.Programs {
		name := "?"
		if p.Name != nil {
			name = *p.Name
		}
		var args []string
		for _, a := range p.Args {
			if a == nil {
				args = append(args, "?")
			} else {
				args = append(args, *a)
			}
		}
		out = append(out, strings.Join(append(p.Via, name), ">")+"("+strings.Join(args, " ")+")")
	}
	s := strings.Join(out, "; ")
	if c.Dynamic {
		s += " dynamic"
	}
	return s
}

// A rule on the first word must see every part.
func TestR126_EveryPartOfACommand(t *testing.T) {
	for command, want := range map[string]string{
		"ls && rm v":                      "ls(); rm(v)",
		"ls; rm v":                        "ls(); rm(v)",
		"ls | xargs rm":                   "ls(); xargs>rm(?)",
		"$(rm v)":                         "rm(v); ?() dynamic",
		"echo \"a $(rm v)\"":              "rm(v); echo(?)",
		"echo `rm v`":                     "rm(v); echo(?)",
		"ls\nrm v":                        "ls(); rm(v)",
		"(rm v)":                          "rm(v)",
		"bash -c 'rm v'":                  "bash>rm(v)",
		"bash -lc \"sh -c 'rm v'\"":       "bash>sh>rm(v)",
		"ls & rm v":                       "ls(); rm(v)",
		"ls || { rm v; }":                 "ls(); rm(v)",
		"if a; then rm v; else b; fi":     "a(); rm(v); b()",
		"while a; do rm v; done":          "a(); rm(v)",
		"for f in a b; do rm $f; done":    "rm(?)",
		"case x in x) rm v;; esac":        "rm(v)",
		"f() { rm v; }; f":                "rm(v); f()",
		"cat <(rm v)":                     "rm(v); cat(?)",
		"cat <<EOF\n$(rm v)\nEOF":         "rm(v); cat()",
		"cat <<'EOF'\n$(rm v)\nEOF":       "cat()",
		"bash <<EOF\nrm v\nEOF":           "bash>rm(v)",
		"bash <<< 'rm v'":                 "bash>rm(v)",
		"echo 'rm v' | sh":                "echo(rm v); sh() dynamic",
		"eval 'rm v'":                     "eval>rm(v)",
		"eval \"$x\"":                     " dynamic",
		"trap 'rm v' EXIT":                "trap>rm(v)",
		"x=$(rm v)":                       "rm(v)",
		"[[ -n $(rm v) ]] && ls":          "rm(v); ls()",
		"echo $((1 + $(rm v)))":           "rm(v); echo(?)",
		"echo ${x:-$(rm v)}":              "rm(v); echo(?)",
		"a=(1 $(rm v))":                   "rm(v)",
		"coproc rm v":                     "rm(v)",
		"# rm v\nls":                      "ls()",
		"echo '; rm v'":                   "echo(; rm v)",
		"find . -name x -exec rm {} +":    "find(. -name x -exec rm {} +); find>rm(?)",
		"find . -execdir sudo rm v ';'":   "find(. -execdir sudo rm v ;); find>sudo>rm(v)",
		"source x":                        "source(x) dynamic",
		"bash deploy.sh":                  "bash(deploy.sh) dynamic",
		"x=rm; $x v":                      "rm(v)",
		"x='rm v'; $x":                    "?() dynamic",
		"x=rm; (x=ls); $x v":              "rm(v)",
		"x=ls; x=rm $x v":                 "ls(v)",
		"x=ls; read x; $x v":              "read(x); ?(v) dynamic",
		"$x v":                            "?(v) dynamic",
		"r? v":                            "?(v) dynamic",
		"{rm,v}":                          "?() dynamic",
		"rm ~/x *.o \"$HOME\"":            "rm(~/x *.o ~)",
		"! time rm v":                     "rm(v)",
		"":                                "",
		"rm v; )":                         "rm(v) dynamic",
		strings.Repeat("bash -c ", 20):    "bash>bash()", // the command of the first -c is the word after it
		strings.Repeat("$(", 9) + "rm v)": " dynamic",
	} {
		if got := show(bash.Parse(command)); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", command, got, want)
		}
	}
}

// Wrapping or writing a program otherwise does not hide it.
func TestR127_WrappedPrograms(t *testing.T) {
	for command, want := range map[string]string{
		"env rm v":                              "env>rm(v)",
		"env -i A=b rm v":                       "env>rm(v)",
		"env -u A -C d rm v":                    "env>rm(v)",
		"env -S 'rm v'":                         "env>rm(v)",
		"env --split-string='rm v'":             "env>rm(v)",
		"env - rm v":                            "env>rm(v)",
		"timeout 5 rm v":                        "timeout>rm(v)",
		"timeout -s KILL --kill-after=3 5 rm v": "timeout>rm(v)",
		"nice rm v":                             "nice>rm(v)",
		"nice -n 5 rm v":                        "nice>rm(v)",
		"nohup rm v &":                          "nohup>rm(v)",
		"sudo rm v":                             "sudo>rm(v)",
		"sudo -u root -n A=b rm v":              "sudo>rm(v)",
		"sudo -uroot -- rm v":                   "sudo>rm(v)",
		"sudo -l":                               "sudo(-l)",
		"sudo env nice timeout 5 rm v":          "sudo>env>nice>timeout>rm(v)",
		"/usr/bin/sudo /bin/rm v":               "sudo>rm(v)",
		"/bin/rm v":                             "rm(v)",
		`\rm v`:                                 "rm(v)",
		`r""m v`:                                "rm(v)",
		`'r'"m" v`:                              "rm(v)",
		`$'\x72m' v`:                            "rm(v)",
		"r\\\nm v":                              "rm(v)",
		"command rm v":                          "command>rm(v)",
		"command -v rm":                         "command(-v rm)",
		"builtin eval rm v":                     "builtin>eval>rm(v)",
		"exec -a x rm v":                        "exec>rm(v)",
		"exec >out":                             "exec()",
		"xargs -n 1 -I {} rm {}":                "xargs>rm({} ?)",
		"xargs":                                 "xargs()",
		"busybox rm v":                          "busybox>rm(v)",
		"flock lock rm v":                       "flock>rm(v)",
		"flock lock -c 'rm v'":                  "flock>rm(v)",
		"su -c 'rm v' bob":                      "su>rm(v)",
		"watch -n 1 'rm v'":                     "watch>rm(v)",
		"A=b rm v":                              "rm(v)",
		"sudo $x rm v":                          "sudo>?(rm v) dynamic",
		"./wrapper rm v":                        "wrapper(rm v)",
		"env":                                   "env()",
	} {
		if got := show(bash.Parse(command)); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", command, got, want)
		}
	}
}

func TestParseIsPlainData(t *testing.T) {
	got, err := json.Marshal(bash.Parse(`2>err sudo /bin/rm -f "$x" >>log <in 2>&1 | cat >"$y"`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"programs":[{"name":"rm","path":"/bin/rm","args":["-f",null],"via":["sudo"],"redirects":[{"op":">","path":"err","fd":"2"},{"op":">>","path":"log"},{"op":"<","path":"in"}]},` +
		`{"name":"cat","args":[],"via":[],"redirects":[{"op":">","path":null}]}],` +
		`"redirects":[{"op":">","path":"err","fd":"2"},{"op":">>","path":"log"},{"op":"<","path":"in"},{"op":">","path":null}],"dynamic":false}`
	if strings.ReplaceAll(strings.ReplaceAll(string(got), `\u003e`, ">"), `\u003c`, "<") != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got, _ = json.Marshal(bash.Parse(""))
	if string(got) != `{"programs":[],"redirects":[],"dynamic":false}` {
		t.Errorf("%s", got)
	}
	if c := bash.Parse("rm v; if"); !c.Dynamic || c.Error == "" || len(c.Programs) != 1 {
		t.Errorf("%+v", c)
	}
}

// Whatever the text is, reading it ends, soon, and without a panic.
func TestReadingIsBounded(t *testing.T) {
	for _, command := range []string{
		strings.Repeat("rm a/b/c ", 14_000), "echo " + strings.Repeat("$(ls x) ", 16_000), strings.Repeat("\"$(", 40_000), strings.Repeat("<<a ", 30_000) + "\n",
		strings.Repeat("(", 60_000), strings.Repeat("if ", 20_000), strings.Repeat("! ", 30_000), strings.Repeat("env ", 16_000), strings.Repeat("sudo eval ", 6_000), strings.Repeat("`", 60_000),
		strings.Repeat("eval eval ", 6_000), strings.Repeat("[[ ", 20_000), strings.Repeat("${", 30_000), strings.Repeat("a=(", 20_000), strings.Repeat("x|", 30_000), strings.Repeat("find . -exec ", 5_000), strings.Repeat("\\", 60_000), strings.Repeat("$((", 20_000), strings.Repeat("{ ", 30_000),
	} {
		began := time.Now()
		c := bash.Parse(command)
		if d := time.Since(began); d > 20*time.Second { // none takes a second on a machine with nothing else to do
			t.Errorf("%.20q: %v", command, d)
		}
		if len(command) > bash.MaxText && (!c.Dynamic || c.Error == "") {
			t.Errorf("%.20q: it is too long, and %+.200v", command, fmt.Sprint(c))
		}
	}
	if c := bash.Parse("ls; " + strings.Repeat("rm v;", 20_000)); len(c.Programs) < 1000 || !c.Dynamic {
		t.Errorf("%d programs of the part that is read", len(c.Programs))
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"rm -rf a; b", "cat <<EOF\n$(x)\nEOF", "a=$(b \"c\") d >e 2>&1 | f", "case x in y) z;; esac", "$'\\x41' ${a} `b` <(c)", "find . -exec rm {} +", "sudo -u x env -S 'a b' c", "bash -c 'eval \"rm $1\"'", "f() { [[ a ]]; }; for x in {1..3}; do ((x++)); done"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		began := time.Now()
		c := bash.Parse(s)
		if d := time.Since(began); d > 5*time.Second {
			t.Fatal(d)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Fatal(err)
		}
	})
}
