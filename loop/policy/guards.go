package policy

import (
	"fmt"
	"path/filepath"

	"dshsh/loop/tool"
	"dshsh/loop/tool/fs"
)

// Guards judges the final arguments of a call, after scripts and people have had their
// say. It reports false when it has no objection; else the decision, a denial or an ask,
// stands whatever was answered before. A denial is not lifted by --approve all.
func Guards(cfg Config, call Call) (Decision, bool) {
	if call.Tool == nil {
		return Decision{}, false
	}
	if p, ok := call.Tool.(tool.PathUser); ok {
		for _, use := range p.Paths(call.Args) {
			if !use.Write && saved(call.SavedDirs, use.Path) {
				continue
			}
			if err := cfg.CheckPath(use.Path, use.Write); err != nil {
				return Decision{Deny, err.Error()}, true
			}
		}
	}
	if c, ok := call.Tool.(tool.CommandUser); ok && len(cfg.Protected) > 0 {
		if command, dir := c.Command(call.Args, call.AgentID); command != "" {
			d := newJudge(cfg, dir).text(command)
			return d, d.Kind != ""
		}
	}
	return Decision{}, false
}

// CheckPath is what the guards say to the use of one file; nil is no objection. path may be
// relative to the working folder. It is also meant for tool/fs.Config.Check, which asks
// again at the moment of opening, when a link may lead elsewhere than it did.
func (cfg Config) CheckPath(path string, write bool) error {
	places, err := fs.Places(cfg.Dir, path)
	if err != nil {
		if write || cfg.Confine {
			return fmt.Errorf("%s cannot be followed to where it leads, so it is refused: %w", path, err)
		}
		return nil // the tool will say the same
	}
	if write {
		set := newProtected(cfg)
		for _, p := range append(places, filepath.Clean(path)) {
			if set.holds(p) {
				return fmt.Errorf("%s", protectedReason(path))
			}
		}
	}
	if cfg.Confine {
		if shown, in := cfg.show(path); !in {
			return fmt.Errorf("%s; only files inside of it may be used", shown)
		}
	}
	return nil
}

func protectedReason(name string) string {
	return fmt.Sprintf("%s is protected: tools do not change scripts, configuration or state of dshsh. Only the user can, in an editor", name)
}

// protected is the protected places, as configured and with links followed. Immutable.
type protected struct{ paths []string }

func newProtected(cfg Config) protected {
	var set protected
	for _, p := range cfg.Protected {
		abs, real, err := fs.Resolve(cfg.Dir, p)
		set.paths = append(set.paths, abs)
		if err == nil && real != abs {
			set.paths = append(set.paths, real)
		}
	}
	return set
}

// holds reports whether a place is protected, or in a protected folder.
func (s protected) holds(place string) bool {
	for _, p := range s.paths {
		if within(p, place) {
			return true
		}
	}
	return false
}

// isBelow reports whether something protected is below a folder.
func (s protected) isBelow(folder string) bool {
	for _, p := range s.paths {
		if within(folder, p) {
			return true
		}
	}
	return false
}
