package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Setting is what holds for a key. Immutable.
type Setting struct {
	Key    Key
	Value  any    // string, int, bool or []string; nil when nothing is set
	Origin string // "built in", a file with the line, "$VARIABLE" or "--flag"
	layer  int
}

// String is the value as a file would have it; of a secret only that there is one.
func (s Setting) String() string {
	switch v := s.Value.(type) {
	case nil:
		return ""
	case string:
		if s.Key.Secret {
			return "(set)"
		}
		return quoteTOML(v)
	case []string:
		var list []string
		for _, x := range v {
			list = append(list, quoteTOML(x))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	return fmt.Sprint(s.Value)
}

// layers, the weakest first.
const (
	layerUser = iota + 1
	layerProject
	layerEnvironment
	layerFlags
)

// settings is what holds, by key.
type settings map[string]Setting

func (s settings) text(name string) string { v, _ := s[name].Value.(string); return v }
func (s settings) number(name string) int  { v, _ := s[name].Value.(int); return v }
func (s settings) yes(name string) bool    { v, _ := s[name].Value.(bool); return v }

// set puts a value over that of weaker layers.
func (s settings) set(k Key, v any, origin string, layer int) {
	if list, ok := v.([]string); ok && k.Adds {
		if old, ok := s[k.Name].Value.([]string); ok {
			v, origin = slices.Concat(old, list), s[k.Name].Origin+", "+origin
		}
	}
	s[k.Name] = Setting{k, v, origin, layer}
}

// gather reads the layers. project is the project's file, "" for none.
func gather(user, project string, getenv func(string) string, flags map[string]any) (settings, error) {
	s := settings{}
	for _, k := range keys {
		s[k.Name] = Setting{Key: k, Origin: "built in"}
	}
	if err := s.readFile(user, layerUser); err != nil {
		return nil, err
	}
	if project != "" {
		if err := s.readFile(project, layerProject); err != nil {
			return nil, err
		}
	}
	for _, k := range keys {
		if k.Env != "" {
			if v := getenv(k.Env); v != "" {
				s.set(k, v, "$"+k.Env, layerEnvironment)
			}
		}
	}
	for _, k := range keys {
		if v, ok := flags[k.Name]; ok {
			s.set(k, v, "--"+k.Flag, layerFlags)
		}
	}
	return s, nil
}

// readFile reads one file; one that is not there sets nothing.
func (s settings) readFile(path string, layer int) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	entries, err := readTOML(path, data)
	if err != nil {
		return err
	}
	var known, tables []string
	for _, k := range keys {
		known = append(known, k.Name)
		if table, _, ok := strings.Cut(k.Name, "."); ok && !slices.Contains(tables, table) {
			tables = append(tables, table)
		}
	}
	for _, e := range entries {
		if e.key == "" {
			if !slices.Contains(tables, e.table) {
				return fmt.Errorf("%s:%d: unknown table [%s]%s", path, e.line, e.table, meant(e.table, tables))
			}
			continue
		}
		name := strings.TrimPrefix(e.table+"."+e.key, ".")
		i := slices.Index(known, name)
		if i < 0 {
			return fmt.Errorf("%s:%d: unknown key %q%s", path, e.line, name, meant(name, known))
		}
		k := keys[i]
		if layer == layerProject && !k.Project {
			return fmt.Errorf("%s:%d: a project may not set %s; it belongs into your own config.toml", path, e.line, name)
		}
		v, err := k.check(e.value)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, e.line, err)
		}
		if layer == layerProject && name == "confine" && v == false {
			return fmt.Errorf("%s:%d: a project can set confine to true only", path, e.line)
		}
		s.set(k, v, fmt.Sprintf("%s:%d", path, e.line), layer)
	}
	return nil
}

// Settings is what holds for each key, in the order of the reference.
func (c *Config) Settings() []Setting {
	var out []Setting
	for _, k := range keys {
		out = append(out, c.settings[k.Name])
	}
	return out
}
