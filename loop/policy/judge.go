package policy

import (
	"maps"
	"path"
	"path/filepath"
	"strings"

	"dshsh/loop/tool/fs"
	"dshsh/runtime/bash"
)

type word = bash.Word

// judge reads the text of a command for what it would do to protected places. It is a
// bash.Visitor. One goroutine uses it, for one command.
type judge struct {
	cfg   Config
	set   protected
	names []string // what a mention of a protected place looks like in a text

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
	j := &judge{cfg: cfg, set: newProtected(cfg), dirs: []string{dir}}
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
	// $PWD is wherever the command is by then, which is what "." is taken for.
	vars := map[string]string{"PWD": "."}
	maps.Copy(vars, j.cfg.Vars)
	if err := bash.Walk(command, vars, j); err != nil {
		j.Mention(command)
		j.unclear = "the command, which is not read to its end (" + err.Error() + "),"
	}
	if j.worst.Kind == "" && j.mentioned && j.unclear != "" {
		j.ask(j.unclear + " may change a protected place that the command names; which, its text does not tell")
	}
	return j.worst
}

// Open implements bash.Visitor.
func (j *judge) Open() { j.dirs = append(j.dirs, j.dir()) }

// Close implements bash.Visitor.
func (j *judge) Close() { j.dirs = j.dirs[:len(j.dirs)-1] }

// Unknown implements bash.Visitor.
func (j *judge) Unknown(what string) { j.unclear = what }

// Assign implements bash.Visitor: the values are read where they are used.
func (j *judge) Assign(string) {}

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

// Redirect implements bash.Visitor.
func (j *judge) Redirect(r bash.Redirect) {
	j.Mention(r.Target.Text)
	if r.Reads() {
		return
	}
	if r.Target.Opaque {
		j.unclear = "a redirection"
	}
	if j.where(r.Target) == inside {
		j.deny(r.Target.Text)
	}
}

// Program implements bash.Visitor.
func (j *judge) Program(p *bash.Program) {
	name, args := p.Name(), p.Words[1:]
	for _, w := range args {
		j.Mention(w.Text)
	}
	switch {
	case name == "cd" || name == "pushd":
		j.changeDir(args)
	case name == "popd":
		j.dirs[len(j.dirs)-1] = ""
	case p.Wraps:
	case name == "find":
		j.find(args)
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
		j.other(name, p)
	}
}

// other judges a program that is not known.
func (j *judge) other(name string, p *bash.Program) {
	args := p.Words[1:]
	for _, w := range args {
		if w.Opaque {
			j.unclear = name
		}
		if j.where(w) == inside {
			j.ask(name + " is given " + w.Text + ", which is protected; whether it changes it, the text of the command does not tell")
		}
	}
	if p.Input != "" || p.Piped {
		j.unclear = name
	}
	for _, w := range args {
		// A program as an argument; to git and gh it is a text for people.
		if name == "git" || name == "gh" || !strings.ContainsAny(w.Text, " \n;(") {
			continue
		}
		for _, n := range j.names {
			if strings.Contains(w.Text, n) {
				j.unclear = name
			}
		}
	}
}

// Mention implements bash.Visitor: it looks for what speaks of a protected place.
func (j *judge) Mention(text string) {
	for _, n := range j.names {
		j.mentioned = j.mentioned || strings.Contains(text, n)
	}
}

func (j *judge) changeDir(args []word) {
	to := &j.dirs[len(j.dirs)-1]
	for _, w := range args {
		if strings.HasPrefix(w.Text, "-") && w.Text != "-" {
			continue
		}
		if w.Opaque || w.Pattern != "" || w.Text == "-" {
			*to = ""
			return
		}
		if p, ok := j.abs(w.Text); ok {
			*to = p
		}
		return
	}
	*to = j.cfg.Vars["HOME"]
}

// find judges a find that changes what it finds. The programs that it runs are visited on
// their own.
func (j *judge) find(args []word) {
	changes := false
	for i, w := range args {
		switch w.Text {
		case "-delete", "-fprint", "-fprint0", "-fprintf", "-fls":
			changes = true
		case "-exec", "-execdir", "-ok", "-okdir":
			changes = changes || i+1 < len(args) && !readers[path.Base(args[i+1].Text)]
		}
	}
	if !changes {
		return
	}
	for _, w := range args {
		if strings.HasPrefix(w.Text, "-") {
			break
		}
		switch j.where(w) {
		case inside:
			j.deny(w.Text)
		case above:
			j.ask("find changes files below " + w.Text + ", where protected ones are too")
		}
	}
}

// write judges a program that changes what it is given.
func (j *judge) write(name string, args []word) {
	for _, w := range args {
		if w.Opaque {
			j.unclear = name
		}
		switch j.where(w) {
		case inside:
			j.deny(w.Text)
		case above:
			switch {
			case removers[name] && !w.Opaque:
				j.deny(w.Text)
			case removers[name]:
				j.ask(name + " is given something below " + w.Text + ", where protected files are too; what, the text of the command does not tell")
			case name == "ln":
				j.ask("a link at " + w.Text + " may replace what is protected there")
			case hasFlag(args, 'R', "--recursive"):
				j.ask(name + " changes everything below " + w.Text + ", also what is protected there")
			}
		}
	}
}

// copy judges a program that changes its last argument, or what -t names.
func (j *judge) copy(args []word) {
	var names []word
	all := false
	for _, w := range args {
		if w.Opaque {
			j.unclear = "a copy"
		}
		if strings.HasPrefix(w.Text, "-") {
			all = all || strings.HasPrefix(w.Text, "--t") || strings.HasPrefix(w.Text, "--link") ||
				!strings.HasPrefix(w.Text, "--") && strings.ContainsAny(w.Text, "tl")
			if _, value, ok := strings.Cut(w.Text, "="); ok {
				names = append(names, word{Text: value})
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
				j.deny(w.Text)
			}
			continue
		}
		// Into a folder: the copy has the source's name there.
		copied := target
		copied.Text = target.Text + "/" + path.Base(filepath.ToSlash(w.Text))
		copied.Pattern = ""
		switch j.where(copied) {
		case inside:
			j.deny(copied.Text)
		case above:
			j.ask("a copy to " + copied.Text + " may replace what is protected there")
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
	if _, value, ok := strings.Cut(w.Text, "="); ok && at == apart {
		at = j.place(word{Text: value})
	}
	return at
}

func (j *judge) place(w word) int {
	if w.Text == "" || len(w.Text) > 4096 || w.Opaque && !filepath.IsAbs(w.Text) && j.dir() == "" {
		return apart
	}
	if j.looked++; j.looked > maxArguments {
		j.ask("the command is too long to be read")
		return apart
	}
	if w.Pattern != "" {
		return j.globPlace(w.Pattern)
	}
	p, ok := j.abs(w.Text)
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
		if w.Text == long || strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "--") && strings.IndexByte(w.Text, short) > 0 {
			return true
		}
	}
	return false
}

// editsInPlace reports whether sed is told to change its files. Also the commands w and e of its
// language do that; they are rare, and taken as such.
func editsInPlace(args []word) bool {
	for i, w := range args {
		if hasFlag(args[i:i+1], 'i', "--in-place") || strings.HasPrefix(w.Text, "--in-place=") || strings.HasPrefix(w.Text, "w ") || strings.Contains(w.Text, "/w ") {
			return true
		}
	}
	return false
}
