package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kinds of a Need.
const (
	NeedRead    = "read"
	NeedWrite   = "write"
	NeedExec    = "exec"
	NeedHTTP    = "http"
	NeedApprove = "approve"
)

var needKinds = []string{NeedRead, NeedWrite, NeedExec, NeedHTTP, NeedApprove}

// ErrNotGranted is what a call fails with that wants more than the user has granted its
// script. errors.Is finds it; to scripts its code is NOT_GRANTED.
var ErrNotGranted error = notGranted{}

type notGranted struct{}

func (notGranted) Error() string     { return "not granted" }
func (notGranted) ErrorCode() string { return "NOT_GRANTED" }

// Need is one thing that a script has declared with ctx.need. Immutable. Its String is what
// a person is asked about, and by what a grant is remembered.
type Need struct {
	Kind string // one of the Need constants
	// Text is the pattern as declared; of exec with the file that the program's links
	// lead to, if there are any: a grant is for that one.
	Text string

	segments []string // read, write: names, "**" for any number of them; the first is "" for an absolute one
	program  string   // exec: as declared
	real     string   // exec: where it led to when it was declared
	words    []string // exec: of each argument; host: the parts of the name
	port     string   // http: "" = the scheme's own
}

func (n Need) String() string { return n.Kind + " " + n.Text }

// Grants is what the user has granted to scripts: the app's, who asks. Its methods are
// called on the thread and may not wait. The answers must come from memory: no file that
// changes may loosen a running session.
type Grants interface {
	// Granted is nil when the script has been granted the need, else it says how that can
	// still be. Bundled scripts hold what they declare, and are not asked about.
	Granted(in *Instance, n Need) error
}

// GrantObserver is an Observer that is told of every use of what needs a grant, and of
// every denial.
type GrantObserver interface {
	Used(in *Instance, u Use)
}

// Use is one use of a need, or an attempt at one. Shape of a record: JSON tags.
type Use struct {
	Kind    string `json:"kind"`
	Target  string `json:"target"` // the path, command line, host or tool, at most 500 bytes of it
	Allowed bool   `json:"allowed"`
}

// maxTarget is how much of a target a Use keeps.
const maxTarget = 500

// needShape is what ctx.need takes.
type needShape struct {
	Read    Globs `json:"read,omitempty"`
	Write   Globs `json:"write,omitempty"`
	Exec    Globs `json:"exec,omitempty"`
	HTTP    Globs `json:"http,omitempty"`
	Approve Globs `json:"approve,omitempty"`
}

// maxNeeds is how many a script may declare: a person is asked about them.
const maxNeeds = 100

var needMember = &Member{
	Name: "need", Load: true,
	Doc: "Declares what the script needs of the world outside, at its top level. The user grants it once; until then, and for all " +
		"that is not declared, the calls of dshsh/fs, dshsh/exec and dshsh/http throw \"not granted\".",
	Signature: "(needs: { read?: string[], write?: string[], exec?: string[], http?: string[], approve?: string[] }): void",
	Fn:        ctxNeed,
}

func ctxNeed(c *Call) (Value, error) {
	in := c.Instance
	if in.state != stateLoading {
		return nil, errors.New("ctx.need: only while the script loads: declare needs at its top level")
	}
	var s needShape
	if err := c.Unpack("needs", &s); err != nil {
		return nil, err
	}
	for i, list := range []Globs{s.Read, s.Write, s.Exec, s.HTTP, s.Approve} {
		for _, pattern := range list {
			n, err := ParseNeed(needKinds[i], pattern)
			if err != nil {
				return nil, fmt.Errorf("ctx.need: %w", err)
			}
			if !slices.ContainsFunc(in.needs, func(o Need) bool { return o.String() == n.String() }) {
				in.needs = append(in.needs, n)
			}
		}
	}
	if len(in.needs) > maxNeeds {
		return nil, fmt.Errorf("ctx.need: %d needs are more than anybody can judge: declare at most %d", len(in.needs), maxNeeds)
	}
	return nil, nil
}

// Needs are what the script has declared, in the order of its declarations.
func (in *Instance) Needs() []Need { return slices.Clone(in.needs) }

// Granted are the needs of a kind that the script holds now.
func (in *Instance) Granted(kind string) []Need {
	var out []Need
	for _, n := range in.needs {
		if n.Kind == kind && in.granted(n) == nil {
			out = append(out, n)
		}
	}
	return out
}

// granted is nil when the script holds the need, else what there is to do about it.
func (in *Instance) granted(n Need) error {
	switch {
	case in.Layer == LayerBundled:
		return nil
	case in.host.grants == nil:
		return errors.New("this program grants nothing")
	}
	return in.host.grants.Granted(in, n)
}

// Permit is nil when the script holds a need of the kind that match takes; target says
// for people what it wants. The observer is told either way. Otherwise the error wraps
// ErrNotGranted and says the way out. Modules call it before they do anything, on the
// thread.
func (in *Instance) Permit(kind, target string, match func(Need) bool) error {
	var waiting error
	for _, n := range in.needs {
		if n.Kind != kind || !match(n) {
			continue
		}
		hint := in.granted(n)
		if hint == nil {
			in.NoteUse(kind, target, true)
			return nil
		}
		if waiting == nil {
			waiting = fmt.Errorf("%w: %s declares %q, which waits for the user: %w", ErrNotGranted, in.ID, n, hint)
		}
	}
	in.NoteUse(kind, target, false)
	if waiting != nil {
		return waiting
	}
	declared := "it declares no such need"
	var texts []string
	for _, n := range in.needs {
		if n.Kind == kind {
			texts = append(texts, n.Text)
		}
	}
	if len(texts) > 0 {
		declared = "it declares only " + strings.Join(texts, ", ")
	}
	return fmt.Errorf("%w: %s wants %s %s, and %s; add it to ctx.need({%s: [...]}) at its top level, and the user will be asked",
		ErrNotGranted, in.ID, kind, cut(target), declared, kind)
}

// NoteUse tells the observer of a use or a denial that Permit did not see.
func (in *Instance) NoteUse(kind, target string, allowed bool) {
	in.host.tell(func(o Observer) {
		if g, ok := o.(GrantObserver); ok {
			g.Used(in, Use{Kind: kind, Target: cut(target), Allowed: allowed})
		}
	})
}

func cut(target string) string {
	if len(target) > maxTarget {
		return strings.ToValidUTF8(target[:maxTarget], "") + "..."
	}
	return target
}

// sameNeeds says whether a rebuilt script has declared what it had before.
func sameNeeds(a, b []Need) bool {
	return slices.EqualFunc(a, b, func(a, b Need) bool { return a.String() == b.String() })
}

// Module is what require("dshsh/NAME") gives a script of any language. Immutable.
type Module struct {
	Name   string // "dshsh/fs"
	Object Object // the same for every script; Call.Instance tells who calls
}

// Modules lists what scripts can require besides their own files, for typings. Immutable;
// any goroutine.
func (h *Host) Modules() []Module { return h.modules }

// ModulePrefix begins the name of everything that require finds outside of the script's
// folder.
const ModulePrefix = "dshsh/"

// ModuleHint is " (did you mean ...?)" for what other runtimes call their modules for
// files, programs and servers, else "".
func ModuleHint(name string) string {
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "node:"), "/")
	switch name {
	case "fs", "fs-extra", "io", "lfs":
		return ` (did you mean "dshsh/fs"?)`
	case "exec", "child_process", "execa", "os":
		return ` (did you mean "dshsh/exec"?)`
	case "http", "https", "net", "axios", "node-fetch", "undici", "socket":
		return ` (did you mean "dshsh/http"?)`
	}
	return ""
}

// Module finds a module by its whole name.
func (h *Host) Module(name string) (Object, error) {
	var names []string
	for _, m := range h.modules {
		if m.Name == name {
			return m.Object, nil
		}
		names = append(names, m.Name)
	}
	hint := didYouMean(name, names)
	if hint == "" {
		hint = " (there are: " + orNothing(names) + ")"
	}
	return nil, fmt.Errorf("there is no module %q%s", name, hint)
}
