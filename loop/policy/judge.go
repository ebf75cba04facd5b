package policy

import (
	"path"
	"path/filepath"
	"strings"

	"dshsh/loop/tool/fs"
)

// judge reads the text of a command for what it would do to protected places. One goroutine uses
// it, for one command.
type judge struct {
	cfg   Config
	set   protected
	names []string // what a mention of a protected place looks like in a text
	vars  map[string]string
	depth int

	dirs []string // the folder that the command is in, for each subshell; "" when unknown

	looked    int      // arguments that were looked up
	mentioned bool     // a word looks like a protected place
	unclear   string   // a command that may change something that the text does not name
	worst     Decision // so far
}

// maxArguments is how many arguments of a command are looked up: this runs on the host
// thread.
const maxArguments = 500

func newJudge(cfg Config, dir string) *judge {
	// $PWD is wherever the command is by then, which is what "." is taken for.
	j := &judge{cfg: cfg, set: newProtected(cfg), vars: map[string]string{"PWD": "."}, dirs: []string{dir}}
	if dir == "" {
		j.dirs[0] = cfg.Dir
	}
	for _, p := range j.set.paths {
		j.names = append(j.names, mentions(p)...)
	}
	return j
}

// mentions is what a text has that speaks of a place: its last two names, and a name of
// it that is hidden, since these are rare in other texts.
func mentions(place string) []string {
	parts := strings.Split(filepath.ToSlash(place), "/")
	var names []string
	if n := len(parts); n > 2 {
		names = append(names, parts[n-2]+"/"+parts[n-1])
	}
	for _, p := range parts {
		if len(p) > 1 && p[0] == '.' {
			names = append(names, p)
		}
	}
	return names
}

// text judges a command. A Kind of "" is no objection.
func (j *judge) text(command string) Decision {
	j.run(command)
	if j.worst.Kind == "" && j.mentioned && j.unclear != "" {
		j.ask(j.unclear + " may change a protected place that the command names; which, its text does not tell")
	}
	return j.worst
}

// run judges a command, also one that is within another.
func (j *judge) run(command string) {
	if j.depth >= maxNesting {
		j.ask("the command is nested too deep to be read")
		return
	}
	j.depth++
	defer func() { j.depth-- }()
	for _, s := range lex(command, j.vars, j.cfg.Vars, 0) {
		switch {
		case s.open:
			j.dirs = append(j.dirs, j.dir())
		case s.close:
			if len(j.dirs) > 1 {
				j.dirs = j.dirs[:len(j.dirs)-1]
			}
		default:
			j.simple(s)
		}
	}
}

func (j *judge) dir() string { return j.dirs[len(j.dirs)-1] }

func (j *judge) deny(name string) {
	if j.worst.Kind != Deny {
		j.worst = Decision{Deny, protectedReason(name)}
	}
}

func (j *judge) ask(reason string) {
	if j.worst.Kind == "" {
		j.worst = Decision{Ask, reason}
	}
}

// simple judges one simple command.
func (j *judge) simple(s step) {
	for _, r := range s.redirects {
		j.mention(r.target.text)
		if r.op == "<" || r.op == "<&" || strings.HasPrefix(r.op, "<<") {
			continue
		}
		if r.op == ">&" && (isNumber(r.target.text) || r.target.text == "-") {
			continue
		}
		if r.target.opaque {
			j.unclear = "a redirection"
		}
		if j.where(r.target) == inside {
			j.deny(r.target.text)
		}
	}
	j.mention(s.input)
	j.program(s.words, s)
}

// program judges a program with its arguments; s is the command that it is in.
func (j *judge) program(words []word, s step) {
	if len(words) == 0 {
		return
	}
	name := path.Base(filepath.ToSlash(words[0].text))
	args := words[1:]
	for _, w := range args {
		j.mention(w.text)
	}
	if words[0].opaque {
		j.unclear = "a program whose name is computed"
	}
	switch {
	case name == "cd" || name == "pushd":
		j.changeDir(args)
	case name == "popd":
		j.dirs[len(j.dirs)-1] = ""
	case name == "eval":
		j.eval(args)
	case name == "trap":
		if len(args) > 0 {
			j.run(args[0].text)
		}
	case shells[name]:
		j.shell(name, args, s)
	case wrappers[name]:
		j.wrapped(name, args, s)
	case name == "find":
		j.find(args, s)
	case name == "for" || name == "select" || name == "case" || name == "function":
		// Words of the language; what they name is only a mention.
	case readers[name] || name == "sed" && !editsInPlace(args) || name == "sort" && !hasFlag(args, 'o', "--output"):
	case copiers[name]:
		j.copy(args)
	case name == "mv":
		if n := len(args) - 1; n > 0 && !hasFlag(args, 't', "--target-directory") {
			j.write(name, args[:n])
		} else {
			j.write(name, args)
		}
		j.copy(args)
	case writers[name] || name == "sed" || name == "sort":
		j.write(name, args)
	default:
		for _, w := range args {
			if w.opaque {
				j.unclear = name
			}
			if j.where(w) == inside {
				j.ask(name + " is given " + w.text + ", which is protected; whether it changes it, the text of the command does not tell")
			}
		}
		if s.input != "" || s.piped {
			j.unclear = name
		}
		for _, w := range args {
			// A program as an argument; to git and gh it is a text for people.
			if name == "git" || name == "gh" || !strings.ContainsAny(w.text, " \n;(") {
				continue
			}
			for _, n := range j.names {
				if strings.Contains(w.text, n) {
					j.unclear = name
				}
			}
		}
	}
}

// mention looks for what speaks of a protected place.
func (j *judge) mention(text string) {
	for _, n := range j.names {
		j.mentioned = j.mentioned || strings.Contains(text, n)
	}
}

func (j *judge) changeDir(args []word) {
	to := &j.dirs[len(j.dirs)-1]
	for _, w := range args {
		if strings.HasPrefix(w.text, "-") && w.text != "-" {
			continue
		}
		if w.opaque || w.pattern != "" || w.text == "-" {
			*to = ""
			return
		}
		if p, ok := j.abs(w.text); ok {
			*to = p
		}
		return
	}
	*to = j.cfg.Vars["HOME"]
}

func (j *judge) eval(args []word) {
	var text []string
	for _, w := range args {
		text = append(text, w.text)
		if w.opaque {
			j.unclear = "eval"
		}
	}
	j.run(strings.Join(text, " "))
}

// shell judges sh and its like: the command of -c, or the input.
func (j *judge) shell(name string, args []word, s step) {
	for i, w := range args {
		if strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "c") {
			for _, c := range args[i+1:] {
				if strings.HasPrefix(c.text, "-") || strings.HasPrefix(c.text, "+") {
					continue
				}
				if c.opaque {
					j.unclear = name + " -c"
				}
				j.dirs = append(j.dirs, j.dir())
				j.run(c.text)
				j.dirs = j.dirs[:len(j.dirs)-1]
				return
			}
		}
	}
	if s.input != "" {
		j.run(s.input)
	}
	if s.piped || len(args) > 0 {
		j.unclear = name // runs what the text does not show
	}
}

// wrapped judges the program that a wrapper runs. Which of the words it is depends on the
// wrapper's options; the first that is known to us is taken, else the first that is no
// option. xargs adds arguments that the text does not have.
func (j *judge) wrapped(name string, args []word, s step) {
	if name == "xargs" || name == "parallel" {
		args = append(args[:len(args):len(args)], word{opaque: true})
	}
	first := -1
	for i, w := range args {
		base := path.Base(filepath.ToSlash(w.text))
		if readers[base] || writers[base] || copiers[base] || shells[base] || wrappers[base] || base == "find" || base == "sed" || base == "eval" {
			j.program(args[i:], s)
			return
		}
		option := strings.HasPrefix(w.text, "-") || isAssignment(w.text) || w.text != "" && w.text[0] >= '0' && w.text[0] <= '9'
		if first < 0 && !option {
			first = i
		}
	}
	if first >= 0 {
		j.program(args[first:], s)
	}
}

func (j *judge) find(args []word, s step) {
	changes := false
	for i, w := range args {
		switch w.text {
		case "-delete", "-fprint", "-fprint0", "-fprintf", "-fls":
			changes = true
		case "-exec", "-execdir", "-ok", "-okdir":
			run := append([]word(nil), args[i+1:]...)
			for k := range run {
				if run[k].text == ";" || run[k].text == "+" {
					run = run[:k]
					break
				}
				if strings.Contains(run[k].text, "{}") {
					run[k] = word{opaque: true}
				}
			}
			if len(run) > 0 && !readers[path.Base(run[0].text)] {
				changes = true
			}
			j.program(run, s)
		}
	}
	if !changes {
		return
	}
	for _, w := range args {
		if strings.HasPrefix(w.text, "-") {
			break
		}
		switch j.where(w) {
		case inside:
			j.deny(w.text)
		case above:
			j.ask("find changes files below " + w.text + ", where protected ones are too")
		}
	}
}

// write judges a program that changes what it is given.
func (j *judge) write(name string, args []word) {
	for _, w := range args {
		if w.opaque {
			j.unclear = name
		}
		switch j.where(w) {
		case inside:
			j.deny(w.text)
		case above:
			switch {
			case removers[name] && !w.opaque:
				j.deny(w.text)
			case removers[name]:
				j.ask(name + " is given something below " + w.text + ", where protected files are too; what, the text of the command does not tell")
			case name == "ln":
				j.ask("a link at " + w.text + " may replace what is protected there")
			case hasFlag(args, 'R', "--recursive"):
				j.ask(name + " changes everything below " + w.text + ", also what is protected there")
			}
		}
	}
}

// copy judges a program that changes its last argument, or what -t names.
func (j *judge) copy(args []word) {
	var names []word
	all := false
	for _, w := range args {
		if w.opaque {
			j.unclear = "a copy"
		}
		if strings.HasPrefix(w.text, "-") {
			all = all || strings.HasPrefix(w.text, "--t") || strings.HasPrefix(w.text, "--link") ||
				!strings.HasPrefix(w.text, "--") && strings.ContainsAny(w.text, "tl")
			if _, value, ok := strings.Cut(w.text, "="); ok {
				names = append(names, word{text: value})
			}
			continue
		}
		names = append(names, w)
	}
	if len(names) == 0 {
		return
	}
	target := names[len(names)-1]
	for i, w := range names {
		if i == len(names)-1 || all {
			if j.where(w) == inside {
				j.deny(w.text)
			}
			continue
		}
		// Into a folder: the copy has the source's name there.
		copied := target
		copied.text = target.text + "/" + path.Base(filepath.ToSlash(w.text))
		copied.pattern = ""
		switch j.where(copied) {
		case inside:
			j.deny(copied.text)
		case above:
			j.ask("a copy to " + copied.text + " may replace what is protected there")
		}
	}
}

// relations of an argument to the protected places.
const (
	apart  = iota
	inside // it is one, or in one
	above  // one is below it
)

// where says how the file that an argument names lies to the protected places. An
// argument NAME=VALUE or --name=VALUE is taken as its value.
func (j *judge) where(w word) int {
	at := j.place(w)
	if _, value, ok := strings.Cut(w.text, "="); ok && at == apart {
		at = j.place(word{text: value})
	}
	return at
}

func (j *judge) place(w word) int {
	if w.text == "" || len(w.text) > 4096 || w.opaque && !filepath.IsAbs(w.text) && j.dir() == "" {
		return apart
	}
	if j.looked++; j.looked > maxArguments {
		j.ask("the command is too long to be read")
		return apart
	}
	if w.pattern != "" {
		return j.globPlace(w.pattern)
	}
	p, ok := j.abs(w.text)
	if !ok {
		return apart
	}
	places, err := fs.Places(j.cfg.Dir, p)
	if err != nil {
		places = []string{p}
	}
	for _, at := range append(places, p) {
		if j.set.holds(at) {
			return inside
		}
	}
	if j.set.isBelow(places[len(places)-1]) || j.set.isBelow(p) {
		return above
	}
	return apart
}

// abs makes a path absolute against the folder that the command is in, if it is known.
func (j *judge) abs(p string) (string, bool) {
	if !filepath.IsAbs(p) {
		if j.dir() == "" {
			return "", false
		}
		p = filepath.Join(j.dir(), p)
	}
	return filepath.Clean(p), true
}

// globPlace is place for a pattern: it compares name by name below the folder where the
// pattern begins.
func (j *judge) globPlace(pattern string) int {
	if !filepath.IsAbs(pattern) {
		if j.dir() == "" {
			return apart
		}
		pattern = j.dir() + "/" + pattern
	}
	want := strings.Split(path.Clean(pattern), "/")[1:]
	at := apart
	for _, p := range j.set.paths {
		have := strings.Split(filepath.ToSlash(p), "/")[1:]
		n := min(len(want), len(have))
		match := true
		for i := range n {
			ok, err := path.Match(want[i], have[i])
			// A * does not match a name that begins with a dot.
			hidden := strings.HasPrefix(have[i], ".") && !strings.HasPrefix(strings.TrimPrefix(want[i], `\`), ".")
			match = match && (err != nil || ok && !hidden)
		}
		switch {
		case match && len(want) >= len(have):
			return inside
		case match:
			at = above
		}
	}
	return at
}

func hasFlag(args []word, short byte, long string) bool {
	for _, w := range args {
		if w.text == long || strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.IndexByte(w.text, short) > 0 {
			return true
		}
	}
	return false
}

// editsInPlace reports whether sed is told to change its files. Also the commands w and e of its
// language do that; they are rare, and taken as such.
func editsInPlace(args []word) bool {
	for i, w := range args {
		if hasFlag(args[i:i+1], 'i', "--in-place") || strings.HasPrefix(w.text, "--in-place=") || strings.HasPrefix(w.text, "w ") || strings.Contains(w.text, "/w ") {
			return true
		}
	}
	return false
}
