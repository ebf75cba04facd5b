package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dshsh/runtime"
	"dshsh/runtime/reload"
)

// written notes what the person wrote into script files with /edit, by their path. The
// sh's mu guards it.
type written map[string][sha256.Size]byte

// ScriptFile implements repl.Shell.
func (p *prompt) ScriptFile(ctx context.Context, name string) (string, error) {
	var known []string
	for _, s := range p.manager.Status(ctx) {
		if s.ID == name || s.File == name {
			if s.Path == "" {
				return "", fmt.Errorf("%s is bundled: it cannot be changed", s.ID)
			}
			return s.Path, nil
		}
		known = append(known, s.File)
	}
	if near := runtime.Nearest(name, known); near != "" {
		return "", fmt.Errorf("there is no script %s (did you mean %s?)", name, near)
	}
	if filepath.Base(name) != name || !slices.Contains([]string{".js", ".ts", ".lua"}, filepath.Ext(name)) || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("there is no script %s; a new one is called NAME.js, NAME.ts or NAME.lua", name)
	}
	return filepath.Join(p.projectScripts(), name), nil
}

// WriteScript implements repl.Shell.
func (p *prompt) WriteScript(_ context.Context, path string, content []byte) error {
	sum := sha256.Sum256(content)
	p.mu.Lock()
	if p.wrote == nil {
		p.wrote = written{}
	}
	for _, at := range []string{path, realPath(path)} {
		p.wrote[at] = sum
	}
	p.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// byPerson says whether all of a change is what the person wrote with /edit.
func (s *sh) byPerson(c reload.Candidate) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range c.Files {
		sum, ok := s.wrote[f.Path]
		if !ok || f.New == nil || sha256.Sum256(f.New) != sum {
			return false
		}
	}
	return len(c.Files) > 0
}
