// Package policy decides whether a tool call may run: the default policy ([Default]),
// which scripts may be stricter or, with a grant, milder than; the guards ([Guards]), which
// run last and which nothing overrides; and the answers that a person gave for the rest
// of a session or for good ([Rules]).
//
// Decisions are pure functions of a configuration and a call. The only thing they ask of
// the system is where links lead.
//
// # What a guard of commands is worth
//
// Paths given to read, write and edit are judged as what they lead to. A shell command can
// be judged by its text alone: the guard follows quotes, variables that the command
// itself sets, cd, redirections, subshells, substitutions, bash -c, eval and the usual wrappers (env,
// sudo, timeout, xargs, ...), and it refuses what plainly changes a protected place.
// Where it is named and not plainly harmless, it asks. A program can still compute the name
// of a file (python, base64, a variable from outside, a script file, git checkout), and the text does not
// show it. The guard stops accidents and plain attempts, it is no sandbox; the
// second line of defence is that changed scripts of a project are not taken while a tool
// runs.
package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"dshsh/loop/tool"
	"dshsh/loop/tool/fs"
)

// Kinds of a Decision.
const (
	Allow = "allow"
	Deny  = "deny"
	Ask   = "ask"
)

// Decision is what is to become of a call. Reason is for the person who is asked, and for
// the model when it is a denial. Plain data.
type Decision struct {
	Kind   string `json:"kind"` // allow, deny or ask
	Reason string `json:"reason,omitempty"`
}

// Call is a call to judge. Plain data.
type Call struct {
	Tool       tool.Tool // nil when there is no tool of that name
	Name       string
	Args       json.RawMessage // a valid JSON value
	AgentID    string          // the agent that calls
	ScriptTool bool            // the tool belongs to a script
	SavedDirs  []string        // where earlier outputs of the session are kept: reading there is as in the project's folder
}

// Config is what is judged by. It is immutable; one value serves any number of goroutines.
type Config struct {
	// Dir is the working folder, where relative paths start. Absolute.
	Dir string

	// Root is the project's folder: what is in it is inside. Dir is it or below it. Absolute;
	// "" is Dir.
	Root string

	// Protected are the files and folders that no tool may change: script folders,
	// configuration, state. Absolute; they need not exist. A script that is a link to
	// a file elsewhere is protected as a name; to protect what it leads to, list that too.
	Protected []string

	// Confine makes the guards refuse files outside of Root, for reading too. Commands
	// cannot be confined by their text.
	Confine bool

	// Vars are the variables whose values are known when a command is read, HOME above
	// all.
	Vars map[string]string
}

// Default is the default policy: the innermost answer, when no script has another.
// Reading inside the project's folder is allowed; reading elsewhere, changing and running
// are asked for.
//
//   - A tool that does not exist is allowed: what it gets is the error that says so.
//   - A tool of a script is allowed: it can reach only what the script was granted.
func Default(cfg Config, call Call) Decision {
	switch {
	case call.Tool == nil:
		return Decision{Allow, "there is no such tool, so nothing runs"}
	case call.ScriptTool:
		return Decision{Allow, "a tool of a script reaches only what the script was granted"}
	}
	if c, ok := call.Tool.(tool.CommandUser); ok {
		if command, _ := c.Command(call.Args, call.AgentID); command != "" {
			return Decision{Ask, fmt.Sprintf("%s wants to run: %s", call.Name, shorten(command))}
		}
		return Decision{Ask, fmt.Sprintf("%s wants to run something that cannot be read from its arguments", call.Name)}
	}
	var reads, writes []string
	if p, ok := call.Tool.(tool.PathUser); ok {
		for _, use := range p.Paths(call.Args) {
			shown, in := cfg.show(use.Path)
			switch {
			case use.Write:
				writes = append(writes, shown)
			case !in && !saved(call.SavedDirs, use.Path):
				reads = append(reads, shown)
			}
		}
	}
	r, ok := call.Tool.(tool.Reader)
	switch {
	case len(writes) > 0:
		return Decision{Ask, fmt.Sprintf("%s wants to change %s", call.Name, strings.Join(writes, ", "))}
	case len(reads) > 0:
		return Decision{Ask, fmt.Sprintf("%s wants to read %s", call.Name, strings.Join(reads, ", "))}
	case ok && r.ReadOnly(call.Args):
		return Decision{Allow, "it only reads, and inside the project's folder or what was saved of earlier outputs"}
	}
	return Decision{Ask, fmt.Sprintf("%s may change things", call.Name)}
}

// saved reports whether a path leads to a place inside one of the folders.
func saved(dirs []string, path string) bool {
	for _, dir := range dirs {
		_, real, err := fs.Resolve(dir, path)
		_, folder, ferr := fs.Resolve(dir, ".")
		if err == nil && ferr == nil && real != folder && within(folder, real) {
			return true
		}
	}
	return false
}

// show words a path for people, and reports whether it leads to a place inside the
// project's folder.
func (cfg Config) show(path string) (string, bool) {
	abs, real, err := fs.Resolve(cfg.Dir, path)
	if err != nil {
		return fmt.Sprintf("%s, which cannot be followed (%v)", path, err), false
	}
	shown := abs
	if rel, err := filepath.Rel(cfg.Dir, abs); err == nil && within(cfg.root(), abs) {
		shown = rel
	}
	if cfg.inside(real) {
		return shown, true
	}
	if within(cfg.root(), abs) {
		return fmt.Sprintf("%s, which leads outside of the project's folder, to %s", shown, real), false
	}
	return fmt.Sprintf("%s, which is outside of the project's folder", shown), false
}

// root is the folder that counts as inside.
func (cfg Config) root() string { return cmp.Or(cfg.Root, cfg.Dir) }

// rel is a place, links followed, from the project's folder; false when it is outside.
func (cfg Config) rel(real string) (string, bool) {
	_, root, err := fs.Resolve(cfg.root(), ".")
	if err != nil {
		root = cfg.root()
	}
	rel, err := filepath.Rel(root, real)
	return rel, err == nil && within(root, real)
}

// inside reports whether a place, links followed, is in the project's folder.
func (cfg Config) inside(real string) bool {
	_, ok := cfg.rel(real)
	return ok
}

// within reports whether path is folder or in it. Both are absolute and clean. Where file
// names do not tell capitals apart, neither does it.
func within(folder, path string) bool {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		folder, path = strings.ToLower(folder), strings.ToLower(path)
	}
	if path == folder {
		return true
	}
	if !strings.HasSuffix(folder, string(filepath.Separator)) {
		folder += string(filepath.Separator)
	}
	return strings.HasPrefix(path, folder)
}

// shorten makes a command fit to be asked about.
func shorten(s string) string {
	const limit = 400
	s = strings.TrimSpace(s)
	if r := []rune(s); len(r) > limit {
		return fmt.Sprintf("%s ... (%d characters in all)", string(r[:limit]), len(r))
	}
	return s
}

// Mode is what --approve says becomes of a call that is to be asked for.
type Mode string

// The modes.
const (
	ModeAsk   Mode = "ask"   // a person is asked
	ModeNever Mode = "never" // it is denied
	ModeAll   Mode = "all"   // it is allowed; what is denied stays denied
)

// ParseMode reads the value of --approve. "" is ask.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return ModeAsk, nil
	case ModeAsk, ModeNever, ModeAll:
		return m, nil
	}
	if near := tool.Nearest(s, []string{string(ModeAsk), string(ModeNever), string(ModeAll)}); near != "" {
		return "", fmt.Errorf("approve: %q is no mode (did you mean %q?)", s, near)
	}
	return "", fmt.Errorf("approve: %q is no mode; there are ask, never and all", s)
}

// Settle applies a mode to a decision. Only an ask can change; with ModeAsk it stays.
func (m Mode) Settle(d Decision) Decision {
	if d.Kind != Ask {
		return d
	}
	switch m {
	case ModeAll:
		return Decision{Allow, d.Reason}
	case ModeNever:
		return Decision{Deny, d.Reason + " (nobody is asked: approve is never)"}
	}
	return d
}
