package reload

import (
	"fmt"
	"slices"
	"strings"

	"dshsh/runtime"
)

// leftover tells the files that editors leave beside a script for a moment or for good:
// swap files, locks, backups. Nothing about them is ever reported.
func leftover(name string) bool {
	return name == "" || name[0] == '.' || name[0] == '#' || strings.HasSuffix(name, "~")
}

// counts says whether a file of that name, directly in a script folder, is a script.
func (m *Manager) counts(name string) bool {
	if leftover(name) || name[0] == '_' {
		return false
	}
	for _, end := range []string{".d.ts", ".test.js", ".test.ts", "_test.lua"} {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	_, err := m.c.Host.EngineFor(name)
	return err == nil
}

// identity is how records, commands and people name a script.
func identity(layer runtime.Layer, file string) string { return layer.String() + "/" + file }

// resolve finds the script that name means: an identity, or a file name that only one
// layer has.
func (m *Manager) resolve(name string) (*script, error) {
	if s := m.scripts[name]; s != nil {
		return s, nil
	}
	var hits []*script
	var names []string
	for _, s := range m.ordered() {
		names = append(names, s.id)
		if !slices.Contains(names, s.file) {
			names = append(names, s.file)
		}
		if s.file == name {
			hits = append(hits, s)
		}
	}
	switch len(hits) {
	case 1:
		return hits[0], nil
	case 0:
		hint := ""
		if n := runtime.Nearest(name, names); n != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", n)
		}
		return nil, fmt.Errorf("%w: %s%s", ErrUnknown, name, hint)
	}
	ids := make([]string, len(hits))
	for i, s := range hits {
		ids[i] = s.id
	}
	return nil, fmt.Errorf("%w: %s is any of %s", ErrAmbiguous, name, strings.Join(ids, ", "))
}
