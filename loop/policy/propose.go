package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"dshsh/loop/tool"
	"dshsh/loop/tool/fs"
	"dshsh/runtime/bash"
)

// Offer is what a person may allow beyond one call. Plain data.
type Offer struct {
	Rules []Rule // which would allow the call; none = only this once
	Once  string // why there are none
}

// maxOffer is how many rules a question offers at a time.
const maxOffer = 3

// Offer proposes rules that would allow a call from now on, beside those that are in
// force. For a program with subcommands it is the subcommand with any arguments, for others
// the same words, for files the same file. There are none for what removes, what acts as
// another user, and what runs programs that its text does not show.
func (rs *Rules) Offer(cfg Config, call Call) Offer {
	if call.Tool == nil {
		return Offer{Once: "there is no such tool"}
	}
	s := newSubject(cfg, call)
	base := Rule{Decision: Allow, Tool: call.Name, Project: cfg.root()}
	var out Offer
	switch _, commands := call.Tool.(tool.CommandUser); {
	case commands && s.cmd == nil:
		return Offer{Once: "it cannot be read from its arguments"}
	case s.cmd != nil:
		if s.cmd.odd != "" {
			return Offer{Once: s.cmd.odd}
		}
		for _, p := range s.cmd.judged() {
			if slices.ContainsFunc(rs.list, func(r *rule) bool {
				return r.Decision == Allow && wild(r.Tool, call.Name) && (r.Project == "" || r.Project == base.Project) && r.allows(p)
			}) {
				continue
			}
			if why := onlyOnce(p); why != "" {
				return Offer{Once: why}
			}
			r := base
			r.Command = commandRule(p)
			out.add(r)
		}
	case len(s.paths) > 0:
		for _, use := range s.paths {
			_, real, err := fs.Resolve(cfg.Dir, use.Path)
			if err != nil {
				return Offer{Once: err.Error()}
			}
			r := base
			r.Path = pathRule(cfg, real)
			out.add(r)
		}
	default:
		out.add(base)
	}
	for _, r := range out.Rules {
		if err := r.Check(); err != nil {
			return Offer{Once: err.Error()}
		}
	}
	if len(out.Rules) > maxOffer {
		return Offer{Once: fmt.Sprintf("it would take %d rules", len(out.Rules))}
	}
	return out
}

func (o *Offer) add(r Rule) {
	if !slices.Contains(o.Rules, r) {
		o.Rules = append(o.Rules, r)
	}
}

// What is never allowed beyond one call.
var (
	risky = nameSet(`rm rmdir unlink shred srm trash dd mkfs sudo doas su runuser pkexec chown chgrp chmod chattr setfacl
		kill pkill killall reboot shutdown poweroff halt mount umount fdisk parted crontab at batch eval source . exec
		alias unalias enable shopt hash trap export declare typeset local readonly ssh`)
	// interpreters run what they are given: with these options a text, without arguments their input.
	interpreters = map[string][]string{
		"sh": {"-c"}, "bash": {"-c"}, "zsh": {"-c"}, "dash": {"-c"}, "ksh": {"-c"}, "fish": {"-c"},
		"python": {"-c"}, "python2": {"-c"}, "python3": {"-c"}, "pypy": {"-c"}, "pypy3": {"-c"},
		"node": {"-e", "-p", "--eval", "--print"}, "nodejs": {"-e", "-p", "--eval", "--print"}, "deno": {"eval"}, "bun": {"-e", "-p", "--eval", "--print"},
		"perl": {"-e", "-E"}, "ruby": {"-e"}, "php": {"-r"}, "lua": {"-e"}, "luajit": {"-e"}, "Rscript": {"-e"}, "osascript": {"-e"},
		"awk": nil, "gawk": nil, "mawk": nil, "sed": {"-e", "--expression"}, "psql": {"-c"}, "sqlite3": nil,
	}
	// subcommands are programs whose first word says what they do.
	subcommands = nameSet(`git go npm pnpm yarn bun cargo pip pip3 uv poetry gh kubectl helm terraform dotnet bundle rake gradle
		mvn mix rustup brew apt apt-get systemctl make just task`)
	// deeper are subcommands that run or set what the next word names.
	deeper = nameSet(`run exec x dlx tool config script start compose remote stash plugin`)
)

// onlyOnce is why a program is not to be allowed for good, or "".
func onlyOnce(p *bash.Program) string {
	name := p.Name()
	if risky[name] || strings.HasPrefix(name, "mkfs.") {
		return name + " is allowed one call at a time"
	}
	flags, ok := interpreters[name]
	if !ok {
		return ""
	}
	if len(p.Words) == 1 || p.Piped && len(p.Words) < 2 || flags == nil {
		return name + " runs what it is given"
	}
	for _, w := range p.Words[1:] {
		for _, f := range flags {
			// Short options may be joined: -pe, -c'...'.
			short := len(f) == 2 && len(w.Text) > 1 && w.Text[0] == '-' && w.Text[1] != '-' && strings.Contains(w.Text, f[1:])
			if w.Text == f || strings.HasPrefix(w.Text, f+"=") || short {
				return fmt.Sprintf("%s %s runs a text", name, f)
			}
		}
		if w.Text == "-" {
			return name + " runs what it is given"
		}
	}
	return ""
}

// commandRule is the words that a proposed rule keeps of a program.
func commandRule(p *bash.Program) string {
	keep := 0
	if subcommands[p.Words[0].Text] && len(p.Words) > 1 && isName(p.Words[1].Text) {
		keep = 2
		if deeper[p.Words[1].Text] {
			if keep = 0; len(p.Words) > 2 && !strings.HasPrefix(p.Words[2].Text, "-") {
				keep = 3
			}
		}
	}
	var out []string
	for i, w := range p.Words {
		if keep > 0 && i == keep {
			break
		}
		out = append(out, quote(w.Text))
	}
	if keep > 0 {
		out = append(out, "*")
	}
	return strings.Join(out, " ")
}

func isName(s string) bool {
	for i, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' && i > 0 || strings.ContainsRune("-_:", r) && i > 0) {
			return false
		}
	}
	return s != ""
}

// quote writes a word so that it is read as it is.
func quote(s string) string {
	q, err := syntax.Quote(s, syntax.LangBash)
	if err != nil {
		return s // it has what no shell word can have; Check refuses the rule
	}
	return q
}

// pathRule is a pattern for one file.
func pathRule(cfg Config, real string) string {
	path := real
	if rel, ok := cfg.rel(real); ok {
		path = rel
	}
	return globEscaper.Replace(filepath.ToSlash(path))
}

var globEscaper = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, `\`, `\\`)
