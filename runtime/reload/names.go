package reload

import (
	"fmt"
	"path"
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
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	switch {
	case ext == ".lua" && strings.HasSuffix(stem, "_test"),
		ext != ".lua" && strings.HasSuffix(stem, ".test"),
		strings.HasSuffix(ext, "ts") && strings.HasSuffix(stem, ".d"):
		return false
	}
	_, err := m.c.Host.EngineFor(name)
	return err == nil
}

// hintName says what script may have been meant: one that is called so but for its
// ending, else the nearest, else which there are.
func hintName(name string, names []string) string {
	near := ""
	for _, n := range names {
		if near == "" && strings.TrimSuffix(n, path.Ext(n)) == name {
			near = n
		}
	}
	if near == "" {
		near = runtime.Nearest(name, names)
	}
	switch {
	case near != "":
		return fmt.Sprintf(" (did you mean %s?)", near)
	case len(names) == 0:
		return " (there are none)"
	}
	return " (`/scripts` lists them)"
}

// looksLike says whether a file that is no script was probably meant to be one, by its
// ending: written otherwise, or of a kind that no engine takes.
func (m *Manager) looksLike(name string) bool {
	if leftover(name) || name[0] == '_' {
		return false
	}
	if lower := strings.ToLower(name); lower != name {
		return m.counts(strings.TrimSuffix(name, path.Ext(name)) + strings.ToLower(path.Ext(name)))
	}
	switch path.Ext(name) {
	case ".cjs", ".cts", ".mts", ".jsx", ".tsx", ".luau", ".ts", ".mjs":
		_, err := m.c.Host.EngineFor(name)
		return err != nil && !strings.Contains(name, ".d.")
	}
	return false
}

// hint is a line about files that are passed over though they look like scripts, "" if
// there is nothing new to say.
func (m *Manager) hint(files []string) string {
	var fresh []string
	for _, f := range files {
		if !m.hinted[f] {
			m.hinted[f] = true
			fresh = append(fresh, path.Base(f))
		}
	}
	if len(fresh) == 0 {
		return ""
	}
	return fmt.Sprintf("not taken for scripts: %s (they end in %s)", strings.Join(fresh, ", "), strings.Join(m.c.Host.Extensions(), " "))
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
		return nil, fmt.Errorf("%w: %s%s", ErrUnknown, name, hintName(name, names))
	}
	ids := make([]string, len(hits))
	for i, s := range hits {
		ids[i] = s.id
	}
	return nil, fmt.Errorf("%w: %s is any of %s", ErrAmbiguous, name, strings.Join(ids, ", "))
}
