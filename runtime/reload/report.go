package reload

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"dshsh/runtime"
)

// Kind is what happened to a script's files.
type Kind string

// The kinds.
const (
	Added   Kind = "added"
	Changed Kind = "changed"
	Removed Kind = "removed"
)

// Trigger is what an attempt was made for.
type Trigger string

// The triggers.
const (
	TriggerStart    Trigger = "start"
	TriggerSave     Trigger = "save"     // the files changed
	TriggerReload   Trigger = "reload"   // Reload
	TriggerRollback Trigger = "rollback" // Rollback
	TriggerOff      Trigger = "off"      // Off
	TriggerOn       Trigger = "on"       // On
	TriggerTake     Trigger = "take"     // Take
	TriggerWatch    Trigger = "watch"    // no attempt: watching began to work or ceased to
)

// Verdict is an answer of Config.Gate and Config.Ask.
type Verdict int

// The verdicts.
const (
	Hold   Verdict = iota // keep it in the list of what waits for Take or Drop
	Take                  // go on
	Refuse                // do not take this content, and do not ask again about it
)

// Candidate is a change of a script that somebody is to decide about. Immutable.
type Candidate struct {
	ID    string // "project/guard.js"
	File  string // "guard.js"
	Path  string // as its user knows it
	Layer runtime.Layer
	Kind  Kind
	// Hash names the new content, with the modules that the version before required; ""
	// when the script is removed. OldHash is that of the version in force; "" without one.
	Hash, OldHash string
	// Files are those that differ from what is in force.
	Files []FileChange
	// Since is the earliest moment at which the change can have come; zero for what was
	// there at the start, or has not changed since it was last decided about.
	Since time.Time
	// Dropped: this very change was held by Gate and given up by Drop.
	Dropped bool
	// Err: Gate has held it, and it does not compile. It has not been run.
	Err error
	// Asked: it was Ask, not Gate, that put it off.
	Asked bool
}

// FileChange is one file of a change. Immutable.
type FileChange struct {
	Path     string
	Old, New []byte // nil = there is none
}

// Failure is a script that could not be loaded. Immutable.
type Failure struct {
	ID, File string
	Err      error
	Pos      runtime.Position // as far as known
	Source   string           // the line at Pos, or ""
	// Stays says that an older version stays in force.
	Stays bool
	// Denies says that a stand-in is in force, which denies tool calls.
	Denies bool
}

func newFailure(c *change) Failure {
	f := Failure{ID: c.s.id, File: c.s.file, Err: c.err}
	f.Denies = c.s.live.standIn()
	f.Stays = c.s.live != nil && !f.Denies
	var se *runtime.ScriptError
	if !errors.As(c.err, &se) {
		return f
	}
	f.Pos, f.Source = se.Pos, se.Source
	if strings.TrimSpace(f.Source) == "" && se.Pos.Line > 0 && c.snap != nil {
		f.Pos.Line, f.Source = c.snap.line(se.Pos.File, se.Pos.Line)
	}
	return f
}

// line is a line of one of the files, found by the name that errors give it. Where it is
// empty, as behind the end, it is the one before that is not.
func (s *snapshot) line(name string, n int) (int, string) {
	for _, rel := range s.names() {
		if path.Base(rel) != path.Base(name) {
			continue
		}
		lines := strings.Split(string(s.get(rel).code), "\n")
		for at := min(n, len(lines)); at > 0; at-- {
			if text := strings.TrimSpace(lines[at-1]); text != "" {
				return at, text
			}
		}
	}
	return n, ""
}

// String is the failure with its place, which version is in force, and the source line
// on a line of its own.
func (f Failure) String() string {
	text := f.Err.Error()
	if !strings.Contains(text, f.File) {
		text = f.File + ": " + text
	}
	switch {
	case f.Stays:
		text += " (the version before stays in force)"
	case f.Denies:
		text += " (tool calls are denied until it is mended or switched off)"
	default:
		text += " (not loaded: nothing does its work now; at the next start tool calls are denied until it is mended or switched off)"
	}
	if f.Source != "" {
		text += "\n    " + f.Source
	}
	return text
}

// Report is what an attempt came to. Immutable.
type Report struct {
	Trigger Trigger
	// Old and New are generation numbers; the same when nothing came into force.
	Old, New int
	// Added, Changed and Removed are identities, in the order of scripts.
	Added, Changed, Removed []string
	// Modules are the files that changed, by the identity of those of Changed whose own file
	// did not.
	Modules map[string][]string
	// Offers is how much more of each kind is registered at load than before.
	Offers Counts
	// Scripts is how many are in force now.
	Scripts int
	// Failures are the scripts of this attempt that could not be loaded, Waiting those
	// that were fine but were saved together with them.
	Failures []Failure
	Waiting  []string
	// Held are the changes that this attempt found and that wait for Take or Drop.
	Held []Candidate
	// Refused are the identities whose change is not taken.
	Refused []string
	// Mended are scripts whose failure, hold or refusal is over without a new version:
	// what is in force is what is on the disk.
	Mended []string
	// Notices are lines about the folders and the watching of them.
	Notices []string
	// Duration is the time from the first look at the files to coming into force.
	Duration time.Duration
}

// Empty says that there is nothing to tell.
func (r Report) Empty() bool {
	return r.Old == r.New && len(r.Failures)+len(r.Waiting)+len(r.Held)+len(r.Refused)+len(r.Mended)+len(r.Notices) == 0
}

// String is the report in one line:
//
//	scripts 7 -> 8  guard.js changed  +1 listener  6 ms
func (r Report) String() string {
	var parts []string
	part := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	var moved []string
	switch {
	case r.Trigger == TriggerStart && r.Scripts > 0: // what is there at the start is not news
		word := "scripts"
		if r.Scripts == 1 {
			word = "script"
		}
		part("%d %s in force: %s", r.Scripts, word, r.list(r.Added))
		r.Added = nil
	case r.Old != r.New:
		part("scripts %d -> %d", r.Old, r.New)
	default:
		part("scripts %d", r.New)
	}
	var own []string
	for _, id := range r.Changed {
		if len(r.Modules[id]) == 0 {
			own = append(own, id)
		}
	}
	moved = append(moved, r.byModules()...)
	for _, g := range []struct {
		what string
		ids  []string
	}{{r.verb("added"), r.Added}, {"changed", own}, {r.verb("removed"), r.Removed}} {
		if len(g.ids) > 0 {
			moved = append(moved, r.list(g.ids)+" "+g.what)
		}
	}
	if len(moved) > 0 {
		part("%s", strings.Join(moved, ", "))
	}
	if r.Trigger == TriggerRollback {
		part("rolled back, until the next save or /reload")
	}
	format := "%+d"
	if r.Trigger == TriggerStart {
		format = "%d"
	}
	parts = append(parts, r.Offers.parts(format)...)
	for _, f := range r.Failures {
		text, _, _ := strings.Cut(f.String(), "\n")
		part("%s", text)
	}
	if len(r.Waiting) > 0 {
		what := "it"
		if len(r.Failures) > 1 {
			what = "them"
		}
		part("%s waiting for %s", r.list(r.Waiting), what)
	}
	for _, c := range r.Held {
		part("%s %s: held", r.name(c.ID), c.Kind)
	}
	if len(r.Refused) > 0 {
		part("%s not taken", r.list(r.Refused))
	}
	if len(r.Mended) > 0 {
		part("%s as before", r.list(r.Mended))
	}
	parts = append(parts, r.Notices...)
	switch {
	case r.Empty():
		part("nothing changed")
	case r.Old != r.New:
		part("%d ms", max(1, (r.Duration+time.Millisecond/2).Milliseconds()))
	}
	return strings.Join(parts, "  ")
}

// byModules says which files changed for the sake of which scripts.
func (r Report) byModules() []string {
	var out []string
	scripts := map[string][]string{}
	for _, id := range r.Changed {
		if m := strings.Join(r.Modules[id], ", "); m != "" {
			scripts[m] = append(scripts[m], id)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(scripts)) {
		out = append(out, fmt.Sprintf("%s changed (%s)", m, r.list(scripts[m])))
	}
	return out
}

// verb is what became of scripts that have come or gone.
func (r Report) verb(what string) string {
	switch {
	case r.Trigger == TriggerOff && what == "removed":
		return "switched off until dshsh ends"
	case r.Trigger == TriggerOn && what == "added":
		return "switched on"
	}
	return what
}

// list names up to three scripts.
func (r Report) list(ids []string) string {
	var names []string
	for i, id := range ids {
		if i == 3 && len(ids) > 4 {
			names = append(names, fmt.Sprintf("%d more", len(ids)-i))
			break
		}
		names = append(names, r.name(id))
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return names[0]
}

// name is the file name, or the identity where two of the report share it.
func (r Report) name(id string) string {
	file := path.Base(id)
	for _, ids := range [][]string{r.Added, r.Changed, r.Removed, r.Waiting, r.Refused, r.Mended} {
		for _, other := range ids {
			if other != id && path.Base(other) == file {
				return id
			}
		}
	}
	return file
}
