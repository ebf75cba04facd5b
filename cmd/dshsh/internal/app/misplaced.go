package app

import (
	"fmt"
	"os"
	"path/filepath"

	"dshsh/cmd/dshsh/internal/render"
)

// misplaced is a line about scripts that lie where nobody looks for them, beside the
// project's script folder, or "".
func (s *sh) misplaced() string {
	if s.f.safe {
		return ""
	}
	top := filepath.Dir(s.projectScripts())
	for _, dir := range []string{"", "script", "Scripts", "hooks", "policies"} {
		entries, err := os.ReadDir(filepath.Join(top, dir))
		if fi, ferr := os.Stat(filepath.Join(top, dir)); err != nil || ferr != nil || s.isScripts(fi) {
			continue
		}
		for _, e := range entries {
			if _, err := s.host.EngineFor(e.Name()); err == nil && !e.IsDir() {
				return render.Visible(fmt.Sprintf("%s is not run: scripts lie in %s", filepath.Join(filepath.Base(top), dir, e.Name()), scriptsPlace))
			}
		}
	}
	return ""
}

// isScripts tells the script folder from one that differs in case alone, which on some
// systems is the same.
func (s *sh) isScripts(fi os.FileInfo) bool {
	own, err := os.Stat(s.projectScripts())
	return err == nil && os.SameFile(own, fi)
}
