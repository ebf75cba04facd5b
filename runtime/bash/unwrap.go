package bash

import (
	"slices"
	"strings"
)

// set is a set of names.
type set map[string]bool

func names(list string) set {
	s := set{}
	for _, n := range strings.Fields(list) {
		s[n] = true
	}
	return s
}

var (
	shells = names("sh bash dash zsh ksh ash mksh fish rbash")
	// setters give variables values that the text does not tell.
	setters = names("read readarray mapfile getopts unset")
)

// wrapper is a program that runs another one, which its arguments name.
type wrapper struct {
	short   string // options with a value: -u root
	long    set    // the same, as --user root
	skip    int    // operands before the program: the 5 of timeout 5
	assigns bool   // NAME=VALUE may stand before the program
	text    string // of the options with a value, those whose value is a command: script -c
	dir     string // those whose value is the folder to be in
	more    bool   // it adds arguments that the text does not have
	joined  bool   // the words are one text for a shell
	none    string // options with which nothing is run
}

var wrappers = map[string]wrapper{
	"sudo":       {short: "ugphRrtTUCD", long: names("user group prompt host chroot role type command-timeout other-user close-from chdir"), assigns: true, dir: "D", none: "lvkK"},
	"doas":       {short: "uC"},
	"env":        {short: "uCS", long: names("unset chdir split-string"), assigns: true, text: "S", dir: "C"},
	"nice":       {short: "n", long: names("adjustment")},
	"nohup":      {},
	"setsid":     {},
	"stdbuf":     {short: "ioe", long: names("input output error")},
	"ionice":     {short: "cnpPu", long: names("class classdata pid pgid uid")},
	"chrt":       {short: "TPD", skip: 1},
	"taskset":    {skip: 1},
	"timeout":    {short: "ks", long: names("kill-after signal"), skip: 1},
	"time":       {short: "fo", long: names("format output")},
	"command":    {none: "vV"},
	"builtin":    {},
	"exec":       {short: "a"},
	"xargs":      {short: "aEIJLRSnPsd", long: names("arg-file delimiter max-args max-procs max-chars process-slot-var"), more: true},
	"parallel":   {short: "jnLNaIdES", long: names("jobs max-args arg-file delimiter"), more: true},
	"watch":      {short: "nq", long: names("interval equexit"), joined: true},
	"entr":       {},
	"strace":     {short: "abeEIoOpPsSuUX", long: names("output trace signal env user")},
	"ltrace":     {short: "aAeDlnopsuwxF"},
	"flock":      {short: "wEc", long: names("timeout conflict-exit-code command"), skip: 1, text: "c"},
	"script":     {short: "cIOBTEm", text: "c", skip: 1, long: names("command")},
	"su":         {short: "cgGsw", text: "c", skip: 1, long: names("command group shell")},
	"runuser":    {short: "ucgGsw", text: "c", long: names("user command group shell")},
	"setpriv":    {long: names("reuid regid groups")},
	"chroot":     {long: names("userspec groups"), skip: 1},
	"unshare":    {short: "SGRw", long: names("setuid setgid root wd")},
	"busybox":    {},
	"toybox":     {},
	"unbuffer":   {},
	"fakeroot":   {short: "lsib"},
	"torsocks":   {},
	"caffeinate": {short: "tw"},
}

// program visits a program and what it runs.
func (w *walker) program(p *Program) {
	if p.Words[0].Opaque || p.Words[0].Pattern != "" {
		w.v.Unknown("a program whose name is computed")
	}
	name, args := p.Name(), p.Words[1:]
	if setters[name] || name == "printf" && len(args) > 1 && args[0].Text == "-v" {
		for _, a := range args {
			w.vars[a.Text] = opaqueValue
		}
	}
	if len(p.Via) >= maxVia {
		w.v.Program(p)
		w.fail(ErrTooDeep)
		return
	}
	via := append(slices.Clip(p.Via), name)
	in := context{input: p.Input, piped: p.Piped}
	switch {
	case name == "eval":
		w.eval(p, via, in)
	case name == "trap" && len(args) > 1 && !strings.HasPrefix(args[0].Text, "-"):
		w.runs(p)
		w.run(args[0].Text, via, in)
	case name == "source" || name == ".":
		w.v.Program(p)
		w.v.Unknown(name)
	case shells[name]:
		w.shell(p, via, in)
	case name == "find":
		w.v.Program(p)
		w.find(p, via)
	default:
		x, ok := wrappers[name]
		if !ok || !w.wrapped(p, x, via, in) {
			w.v.Program(p)
		}
	}
}

// runs visits a program that runs what is visited next.
func (w *walker) runs(p *Program) {
	q := *p
	q.Wraps = true
	w.v.Program(&q)
}

func (w *walker) eval(p *Program, via []string, in context) {
	var text []string
	for _, a := range p.Words[1:] {
		text = append(text, a.Text)
		if a.Opaque {
			w.v.Unknown("eval")
		}
	}
	w.runs(p)
	w.run(strings.Join(text, " "), via, in)
}

// shell reads the command of -c, or the input.
func (w *walker) shell(p *Program, via []string, in context) {
	name, args := p.Name(), p.Words[1:]
	command, stdin := false, false
	i := 0
	for ; i < len(args); i++ {
		t := args[i].Text
		if t == "--" {
			i++
			break
		}
		if len(t) < 2 || t[0] != '-' && t[0] != '+' {
			break
		}
		if strings.HasPrefix(t, "--") {
			if t == "--rcfile" || t == "--init-file" {
				i++
			}
			continue
		}
		command = command || t[0] == '-' && strings.Contains(t, "c")
		stdin = stdin || t[0] == '-' && strings.Contains(t, "s")
		if strings.ContainsAny(t, "oO") {
			i++
		}
	}
	i = min(i, len(args))
	switch {
	case command && i < len(args):
		if args[i].Opaque {
			w.v.Unknown(name + " -c")
		}
		w.runs(p)
		w.apart(func() { w.run(args[i].Text, via, in) })
	case (stdin || i == len(args)) && in.input != "":
		w.runs(p)
		w.apart(func() { w.run(in.input, via, context{}) })
	default:
		w.v.Program(p)
	}
	if !command && (in.piped || i < len(args) && !stdin) {
		w.v.Unknown(name) // runs what the text does not show
	}
}

// find visits the programs of -exec and its like.
func (w *walker) find(p *Program, via []string) {
	for i := 1; i < len(p.Words); i++ {
		switch p.Words[i].Text {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		var run []Word
		for i++; i < len(p.Words) && p.Words[i].Text != ";" && p.Words[i].Text != "+"; i++ {
			a := p.Words[i]
			if strings.Contains(a.Text, "{}") {
				a = Word{Opaque: true}
			}
			run = append(run, a)
		}
		if len(run) > 0 {
			w.program(&Program{Words: run, Via: via})
		}
	}
}

// wrapped visits the program that a wrapper runs; false when it runs none.
func (w *walker) wrapped(p *Program, x wrapper, via []string, in context) bool {
	args := p.Words[1:]
	var text, dir *Word
	skip, i := x.skip, 0
	value := func(opt string, v *Word) {
		switch {
		case opt == "" || v == nil:
		case strings.Contains(x.text, opt) || opt == "command" || opt == "split-string":
			text = v
		case strings.Contains(x.dir, opt) || opt == "chdir":
			dir = v
		}
	}
	at := func(i int) *Word {
		if i < len(args) {
			return &args[i]
		}
		return nil
	}
options:
	for ; i < len(args); i++ {
		t := args[i].Text
		switch {
		case t == "--":
			i++
			break options
		case strings.HasPrefix(t, "--"):
			name, v, given := strings.Cut(t[2:], "=")
			if given {
				value(name, &Word{Text: v, Opaque: args[i].Opaque})
			} else if x.long[name] {
				i++
				value(name, at(i))
			}
		case len(t) > 1 && t[0] == '-':
			for k := 1; k < len(t); k++ {
				if strings.IndexByte(x.none, t[k]) >= 0 {
					return false
				}
				if strings.IndexByte(x.short, t[k]) < 0 {
					continue
				}
				if k == len(t)-1 {
					i++
					value(t[k:], at(i))
				} else {
					value(t[k:k+1], &Word{Text: t[k+1:], Opaque: args[i].Opaque})
				}
				break
			}
		case t == "-" || x.assigns && isAssignment(t):
		case skip > 0:
			skip--
		default:
			break options
		}
	}
	inner := slices.Clip(args[min(i, len(args)):])
	if text == nil && (len(inner) == 0 || skip > 0) {
		return false
	}
	w.runs(p)
	inside := func() {
		if dir != nil {
			w.v.Program(&Program{Words: []Word{{Text: "cd"}, *dir}, Via: via, Wraps: true})
		}
		switch {
		case text != nil:
			if text.Opaque {
				w.v.Unknown(p.Name())
			}
			line := text.Text
			for _, a := range inner {
				line += " " + a.Text
			}
			w.run(line, via, in)
		case x.joined:
			var line []string
			for _, a := range inner {
				line = append(line, a.Text)
			}
			w.run(strings.Join(line, " "), via, in)
		default:
			if x.more {
				inner = append(inner, Word{Opaque: true})
			}
			w.program(&Program{Words: inner, Via: via, Redirects: p.Redirects, Input: p.Input, Piped: p.Piped})
		}
	}
	if dir != nil || text != nil {
		w.apart(inside)
	} else {
		inside()
	}
	return true
}

// isAssignment reports whether a word is NAME=...
func isAssignment(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9':
		case c == '=':
			return i > 0
		default:
			return false
		}
	}
	return false
}
