package app

import (
	"os"
	"path/filepath"
)

// projectRoot is the project's folder, which policies, rules and grants count from: the
// nearest one, from the working folder up, that has a .dshsh; else the nearest that has a
// .git; else the working folder. Above the home folder nothing is a project, and the home
// folder is one only as the working folder.
func (s *sh) projectRoot() string {
	for _, mark := range []string{filepath.Dir(filepath.FromSlash(scriptsPlace)), ".git"} {
		if dir := s.above(mark); dir != "" {
			return dir
		}
	}
	return s.dir
}

// above is the nearest folder, from the working folder up, that has a file of this name; ""
// when none has.
func (s *sh) above(name string) string {
	home := s.e.Getenv("HOME")
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	for dir := s.dir; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil && (dir == s.dir || dir != home) {
			return dir
		}
		if dir == home || dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// projectScripts is the project's script folder.
func (s *sh) projectScripts() string { return filepath.Join(s.root, filepath.FromSlash(scriptsPlace)) }
