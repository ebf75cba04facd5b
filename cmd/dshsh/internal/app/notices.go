package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/runtime"
)

var errNoFolder = fs.ErrNotExist

// Failed implements loop.Notices. What a script did wrong is in an agent's log and shown
// from there; the rest is shown here.
func (s *sh) Failed(f runtime.Failure) {
	if f.Instance != nil && len(s.host.Agents()) > 0 {
		return
	}
	s.say("error: " + render.Visible(f.Err.Error()))
	var p *runtime.PanicError
	if errors.As(f.Err, &p) && s.e.Getenv("DSHSH_DEBUG") != "" {
		s.say(string(p.Stack))
	}
}

// Quarantined implements loop.Notices; the record is shown.
func (s *sh) Quarantined(*runtime.Instance, error) {}

// Logged implements loop.Notices.
func (s *sh) Logged(in *runtime.Instance, level, text string) {
	label := "[" + in.File + "] "
	if level == "warn" || level == "error" {
		label += level + ": "
	}
	for line := range strings.Lines(render.Visible(text)) {
		s.say(label + strings.TrimRight(line, "\n"))
	}
	if text == "" {
		s.say(label)
	}
}

// Capped implements loop.Notices.
func (s *sh) Capped(_ loop.Agent, line string) { s.say(render.Visible(line)) }

// Broken implements loop.Notices.
func (s *sh) Broken(a loop.Agent, err error) {
	s.say(render.Visible(fmt.Sprintf("session %s: %v", a.ID(), err)))
}

// stuck is the last resort: native work that no interrupt reaches holds the thread. What
// can be saved without the thread is saved, and the program ends.
func (s *sh) stuck(who string) {
	s.rescue()
	fmt.Fprintf(s.e.Stderr, "\r\ndshsh: %s has been stuck for 5 s in work that cannot be interrupted; the session is saved, `dshsh --continue` goes on with it.\r\n", who)
	os.Exit(exitScript)
}

// versionLine says what was built.
func versionLine() string {
	v, rev := "(devel)", ""
	if bi, ok := debug.ReadBuildInfo(); ok {
		if bi.Main.Version != "" {
			v = bi.Main.Version
		}
		for _, kv := range bi.Settings {
			if kv.Key == "vcs.revision" {
				rev = " " + kv.Value[:min(12, len(kv.Value))]
			}
		}
		return "dshsh " + v + rev + " " + bi.GoVersion
	}
	return "dshsh " + v
}
