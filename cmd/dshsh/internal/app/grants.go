package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/cmd/dshsh/internal/trust"
	"dshsh/runtime"
	"dshsh/runtime/modules"
	"dshsh/runtime/reload"
)

// grants is what scripts were granted: it implements runtime.Grants. The store is that
// of the start of this shell, with what was answered in it. Its methods may be called from
// any goroutine.
type grants struct {
	store  *trust.Store
	folder string // the project's

	mu   sync.Mutex                // guards grew
	grew map[string][]runtime.Need // by script: what the change that is held needs more
}

// Granted implements runtime.Grants.
func (g *grants) Granted(in *runtime.Instance, n runtime.Need) error {
	if g.store.Granted(g.folder, grantKey(in), n.String()) {
		return nil
	}
	return errors.New("answer the question at the prompt (`/scripts trust` brings it back), or run `dshsh scripts trust`")
}

// grantKey is by what a script's grants are remembered in a project. One of the command
// line may be any file.
func grantKey(in *runtime.Instance) string {
	if in.Layer == runtime.LayerCommandLine {
		return in.Layer.String() + ":" + in.Path
	}
	return in.ID
}

// wanting is a script with needs that nobody has granted. Immutable.
type wanting struct {
	id, file, key string
	needs         []runtime.Need
}

func (w wanting) String() string { return w.file + " needs " + needsText(w.needs) }

// needsText is a list of needs in a line.
func needsText(needs []runtime.Need) string {
	var out []string
	for _, n := range needs {
		out = append(out, n.String())
	}
	return strings.Join(out, "; ")
}

// ungranted are the needs of a script that it does not hold. On the thread.
func (g *grants) ungranted(in *runtime.Instance) wanting {
	w := wanting{id: in.ID, file: in.File, key: grantKey(in)}
	if in.Layer == runtime.LayerBundled {
		return w
	}
	for _, n := range in.Needs() {
		if g.Granted(in, n) != nil {
			w.needs = append(w.needs, n)
		}
	}
	return w
}

// wanting are the scripts in force with needs that nobody has granted.
func (s *sh) wanting(ctx context.Context) (out []wanting) {
	_ = s.host.Do(ctx, func() {
		for _, in := range s.host.Current().Instances {
			if w := s.grants.ungranted(in); len(w.needs) > 0 {
				out = append(out, w)
			}
		}
	})
	return out
}

// wantLine says that a script does without what it needs.
func (s *sh) wantLine(w wanting) string {
	how := "`dshsh scripts trust`"
	if path, ok := strings.CutPrefix(w.key, runtime.LayerCommandLine.String()+":"); ok {
		how = "`dshsh scripts trust --script " + filepath.Base(path) + "`"
	}
	return render.Visible(fmt.Sprintf("%s, which is not granted: its calls fail, the rest of it runs; %s asks", w, how))
}

// needsOf is what a script needs and whether it has it, for lists; "" when it needs nothing.
func (s *sh) needsOf(ctx context.Context, id string) string {
	var parts []string
	_ = s.host.Do(ctx, func() {
		for _, in := range s.host.Current().Instances {
			if in.ID != id {
				continue
			}
			missing := s.grants.ungranted(in).needs
			for _, n := range in.Needs() {
				text := n.String()
				for _, m := range missing {
					if m.String() == text {
						text += " (not granted)"
					}
				}
				parts = append(parts, text)
			}
		}
	})
	return render.Visible(strings.Join(parts, "; "))
}

// askGrown decides about a script that has loaded and is to replace another one: if it
// needs more than that declared and than was granted, it waits for the answer. On the
// thread.
func (s *sh) askGrown(old, in *runtime.Instance) reload.Verdict {
	if old == nil {
		return reload.Take // there is nothing to stay with: it runs, and its calls fail
	}
	had := map[string]bool{}
	for _, n := range old.Needs() {
		had[n.String()] = true
	}
	grew := false
	missing := s.grants.ungranted(in).needs
	for _, n := range missing {
		grew = grew || !had[n.String()]
	}
	if !grew {
		return reload.Take
	}
	s.grants.mu.Lock()
	defer s.grants.mu.Unlock()
	if s.grants.grew == nil {
		s.grants.grew = map[string][]runtime.Need{}
	}
	s.grants.grew[in.ID] = missing
	return reload.Hold
}

// heldNeeds is what a change that askGrown has held needs more.
func (s *sh) heldNeeds(c reload.Candidate) wanting {
	s.grants.mu.Lock()
	defer s.grants.mu.Unlock()
	w := wanting{id: c.ID, file: c.File, key: c.ID, needs: s.grants.grew[c.ID]}
	if c.Layer == runtime.LayerCommandLine {
		w.key = c.Layer.String() + ":" + c.Path
	}
	return w
}

// grant gives a script what it needs, now and at later starts.
func (s *sh) grant(w wanting) error {
	var texts []string
	for _, n := range w.needs {
		texts = append(texts, n.String())
	}
	return s.grants.store.Grant(s.grants.folder, w.key, texts)
}

// modules is what scripts can require. No grant opens the places that are protected from
// tools, nor, for reading, those with keys and other conversations.
func (s *sh) modules() []runtime.Module {
	secret := s.policy
	secret.Protected = []string{s.cfg.Paths.Config, s.cfg.Paths.State, s.cfg.Paths.Sessions}
	return modules.New(modules.Config{
		Dir: s.root,
		Check: func(path string, write bool) error {
			if write {
				return s.policy.CheckPath(path, true)
			}
			if secret.CheckPath(path, true) != nil {
				return fmt.Errorf("%s is the configuration, state or a session of dshsh, which scripts do not read", path)
			}
			return nil
		},
		Environ: s.bash.Environ(),
		Running: s.writers.run,
	})
}
