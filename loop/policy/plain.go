package policy

import (
	"fmt"

	"dshsh/loop/tool/fs"
	"dshsh/runtime/bash"
)

// plainness is what a command holds, for rules. It is a bash.Visitor; one goroutine makes
// it, after that it is immutable.
type plainness struct {
	cfg      Config
	programs []*bash.Program
	odd      string   // why no rule can allow it; "" when one can
	dirs     []string // the folder that the command is in, for each subshell
	moves    map[*bash.Program]bool
}

// look reads a command that starts in dir.
func look(cfg Config, command, dir string) *plainness {
	if dir == "" {
		dir = cfg.Dir
	}
	p := &plainness{cfg: cfg, dirs: []string{dir}, moves: map[*bash.Program]bool{}}
	if err := bash.Walk(command, cfg.Vars, p); err != nil {
		p.note(err.Error())
	}
	if len(p.judged()) == 0 {
		p.note("it runs no program")
	}
	return p
}

func (p *plainness) note(why string) {
	if p.odd == "" {
		p.odd = why
	}
}

// judged are the programs that rules must allow: all but a cd within the project.
func (p *plainness) judged() []*bash.Program {
	var out []*bash.Program
	for _, q := range p.programs {
		if !p.moves[q] {
			out = append(out, q)
		}
	}
	return out
}

// Open implements bash.Visitor.
func (p *plainness) Open() { p.dirs = append(p.dirs, p.dirs[len(p.dirs)-1]) }

// Close implements bash.Visitor.
func (p *plainness) Close() { p.dirs = p.dirs[:len(p.dirs)-1] }

// Program implements bash.Visitor.
func (p *plainness) Program(q *bash.Program) {
	p.programs = append(p.programs, q)
	switch {
	case q.Wraps || len(q.Via) > 0:
		p.note(fmt.Sprintf("%s runs another program", append(q.Via, q.Name())[0]))
		return
	case q.Input != "":
		p.note("it has a here-document")
	case q.Name() == "cd":
		p.moves[q] = p.cd(q)
		return
	}
	for _, w := range q.Words {
		if w.Opaque {
			p.note("only running it tells all of its words")
		}
	}
}

// cd reports whether a cd stays in the project. Then it needs no rule: what runs there was
// allowed for the whole of it.
func (p *plainness) cd(q *bash.Program) bool {
	if len(q.Words) != 2 || q.Words[1].Opaque || q.Words[1].Pattern != "" || q.Words[1].Text == "-" || q.Words[1].Text == "" {
		return false
	}
	abs, real, err := fs.Resolve(p.dirs[len(p.dirs)-1], q.Words[1].Text)
	if err != nil || !p.cfg.inside(real) {
		p.note("it leaves the project's folder")
		return false
	}
	p.dirs[len(p.dirs)-1] = abs
	return true
}

// Redirect implements bash.Visitor.
func (p *plainness) Redirect(r bash.Redirect) {
	if r.Op == ">&" && r.Reads() || r.Target.Text == "/dev/null" && !r.Target.Opaque {
		return
	}
	p.note("it has a redirection")
}

// Assign implements bash.Visitor.
func (p *plainness) Assign(string) { p.note("it sets a variable") }

// Mention implements bash.Visitor.
func (p *plainness) Mention(string) { p.note("it is more than programs and their words") }

// Unknown implements bash.Visitor.
func (p *plainness) Unknown(what string) { p.note("its text does not tell all that it runs: " + what) }
