// Package scripts holds the bundled policies: ready-made scripts in both languages that
// `--policy NAME` switches on. It has no logic but the list.
package scripts

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// FS holds the bundled policies at its top.
//
//go:embed *.js *.lua
var FS embed.FS

// Names lists the policies that there are.
func Names() []string {
	entries, err := fs.ReadDir(FS, ".")
	if err != nil {
		return nil // cannot be: the folder is embedded
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	return names
}

// Find gives the files of the named policies.
func Find(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		file := ""
		for _, ext := range []string{".js", ".lua"} {
			if _, err := fs.Stat(FS, name+ext); err == nil {
				file = name + ext
			}
		}
		if file == "" {
			return nil, fmt.Errorf("no bundled policy %q (there are %s)", name, strings.Join(Names(), ", "))
		}
		files = append(files, file)
	}
	return files, nil
}
