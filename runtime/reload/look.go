package reload

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"dshsh/runtime"
)

// found is a script file that is there now. Immutable.
type found struct {
	id, file string
	layer    runtime.Layer
	path     string // as its user knows it; "" in a bundle
	root     string // its folder, links resolved; "" in a bundle
	text     *file
}

// view is what one look found. Used by the manager's goroutine.
type view struct {
	scripts map[string]*found // by identity
	files   map[string]*file  // what was read, by path
	listing map[string]string // what else lies in a folder, by folder

	needs   map[string]bool // paths of modules that have been followed
	points  []point         // what to watch: entries that paths depend on,
	folders []string        // folders of scripts, links resolved,
	lacking map[string]bool // folders in which a failed script may lack a module
	roots   map[string]string
	ways    map[runtime.Layer][]string // the points on the way to a layer's folder or files

	odd []string // files that look like scripts and are none

	broken []error                // folders that could not be read:
	keep   map[runtime.Layer]bool // what these layers had stays
}

// read reads a file once per look.
func (v *view) read(path string) *file {
	f := v.files[path]
	if f == nil {
		f = readFile(path)
		v.files[path] = f
	}
	return f
}

// look reads the script folders and everything that scripts depend on, and watches it. A
// folder that is watched from now on is read again: a change may have come in between.
func (m *Manager) look() *view {
	for n := 0; ; n++ {
		v := m.scan()
		if !m.watch.sync(v) || n == 5 {
			return v
		}
	}
}

func (m *Manager) scan() *view {
	v := &view{
		scripts: map[string]*found{}, files: map[string]*file{}, listing: map[string]string{},
		lacking: map[string]bool{}, roots: map[string]string{}, keep: map[runtime.Layer]bool{},
		ways: map[runtime.Layer][]string{}, needs: map[string]bool{},
	}
	for _, f := range m.c.Folders {
		if f.FS != nil {
			m.scanBundle(v, f)
		} else {
			m.scanFolder(v, f)
		}
	}
	for _, path := range m.files {
		m.scanFile(v, path)
	}
	for _, s := range m.scripts {
		m.scanNeeds(v, s)
	}
	return v
}

// scanBundle lists a bundle, whose files never change and are read once.
func (m *Manager) scanBundle(v *view, folder Folder) {
	list, ok := m.bundles[folder.Layer]
	if !ok {
		dir := path.Clean(filepath.ToSlash(folder.Dir))
		entries, err := fs.ReadDir(folder.FS, dir)
		if err != nil {
			v.broken = append(v.broken, fmt.Errorf("%s scripts: %w", folder.Layer, err))
		}
		for _, e := range entries {
			name := e.Name()
			if e.IsDir() || !m.counts(name) || !folder.has(name) {
				continue
			}
			code, err := fs.ReadFile(folder.FS, path.Join(dir, name))
			list = append(list, &found{id: identity(folder.Layer, name), file: name, layer: folder.Layer, text: newFile(code, err)})
		}
		m.bundles[folder.Layer] = list
	}
	for _, f := range list {
		v.scripts[f.id] = f
	}
}

func (m *Manager) scanFolder(v *view, folder Folder) {
	real, points, err := trace(folder.Dir, 2)
	v.way(folder.Layer, points)
	var entries []os.DirEntry
	if err == nil {
		v.folders = append(v.folders, real)
		entries, err = os.ReadDir(real)
	}
	if err != nil {
		// A folder that is not there has no scripts; one that cannot be read keeps them.
		if !isMissing(err) {
			v.broken = append(v.broken, fmt.Errorf("script folder: %w", err))
			v.keep[folder.Layer] = true
		}
		return
	}
	for _, e := range entries {
		name := e.Name()
		if !m.counts(name) || !folder.has(name) {
			if folder.Only == nil && !e.IsDir() && m.looksLike(name) {
				v.odd = append(v.odd, filepath.Join(folder.Dir, name))
			}
			continue
		}
		path := filepath.Join(real, name)
		if e.Type()&os.ModeSymlink != 0 {
			_, points, _ := trace(path, 1)
			v.points = append(v.points, points...)
		}
		// A link that dangles, a pipe or a device is a script that cannot be read: a guard
		// that is named here must not be passed over. A folder holds modules.
		if fi, err := os.Stat(path); err == nil && fi.IsDir() {
			continue
		}
		v.add(&found{id: identity(folder.Layer, name), file: name, layer: folder.Layer, path: filepath.Join(folder.Dir, name), root: real, text: v.read(path)})
	}
}

func (m *Manager) scanFile(v *view, path string) {
	_, points, _ := trace(path, 1)
	v.way(runtime.LayerCommandLine, points)
	if _, err := os.Lstat(path); err != nil && isMissing(err) {
		return
	}
	root, points, err := trace(filepath.Dir(path), 1)
	v.way(runtime.LayerCommandLine, points)
	if err != nil {
		return
	}
	name := filepath.Base(path)
	v.add(&found{id: identity(runtime.LayerCommandLine, name), file: name, layer: runtime.LayerCommandLine, path: path, root: root, text: v.read(filepath.Join(root, name))})
}

// way notes what leads to the scripts of a layer.
func (v *view) way(layer runtime.Layer, points []point) {
	v.points = append(v.points, points...)
	for _, p := range points {
		v.ways[layer] = append(v.ways[layer], p.path())
	}
}

func (v *view) add(f *found) {
	v.scripts[f.id] = f
	v.roots[f.id] = f.root
}

// scanNeeds watches what a script has required, and for one that failed the folder in
// which it may lack something.
func (m *Manager) scanNeeds(v *view, s *script) {
	root := v.roots[s.id]
	if root == "" {
		root = s.root
	}
	if root == "" {
		return
	}
	for _, snap := range s.snapshots() {
		for _, rel := range snap.names() {
			if rel == snap.main {
				continue
			}
			path := filepath.Join(root, strings.TrimSuffix(rel, linkMark))
			if !v.needs[path] {
				v.needs[path] = true
				_, points, _ := trace(path, 1)
				v.points = append(v.points, points...)
			}
		}
	}
	if s.failure != nil {
		v.lacking[root] = true
		m.listing(v, root)
	}
}

// listing describes what lies in a folder, read once per look: of scripts the names, so
// that saving one is no reason to try another again, of the rest also when they changed.
// A script named by hand may lie in a folder with anything in it, so there is a bound.
func (m *Manager) listing(v *view, dir string) string {
	if l, ok := v.listing[dir]; ok || dir == "" {
		return l
	}
	entries, _ := os.ReadDir(dir)
	var b strings.Builder
	for _, e := range entries[:min(len(entries), 2000)] {
		name := e.Name()
		if leftover(name) {
			continue
		}
		b.WriteString(name)
		if fi, err := e.Info(); err == nil && !m.counts(name) {
			fmt.Fprintf(&b, " %v %d %d", fi.Mode(), fi.Size(), fi.ModTime().UnixNano())
		}
		b.WriteByte('\n')
	}
	v.listing[dir] = b.String()
	return v.listing[dir]
}

// links lists the links in a folder that are no scripts.
func (m *Manager) links(dir string) []string {
	if dir == "" {
		return nil
	}
	entries, _ := os.ReadDir(dir)
	var out []string
	for _, e := range entries {
		if e.Type()&os.ModeSymlink != 0 && !m.counts(e.Name()) && !leftover(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out
}

// doubtful says what has gone missing or empty about a script, "" if nothing has, and the
// paths that this depends on. f is nil when its own file is gone.
func (m *Manager) doubtful(s *script, f *found, v *view) (sign string, paths []string) {
	doubt := func(path string, is *file) {
		paths = append(paths, path)
		sign += path
		if fi, err := os.Stat(path); err == nil && is.blank() {
			sign += fi.ModTime().Format(" 15:04:05.000000000")
		}
		sign += "\n"
	}
	if f == nil {
		if s.last != nil {
			doubt(filepath.Join(s.root, s.file), newFile(nil, fs.ErrNotExist))
		}
		return sign, append(paths, v.ways[s.layer]...)
	}
	if f.text.blank() || f.text.missing() {
		doubt(filepath.Join(f.root, s.file), f.text)
	}
	if s.last == nil {
		return sign, paths
	}
	for _, rel := range s.last.names() {
		is := current(f.root, rel, v.read)
		if rel == s.last.main || is.same(s.last.get(rel)) {
			continue
		}
		if is.missing() || is.blank() {
			doubt(filepath.Join(f.root, rel), is)
		}
	}
	return sign, paths
}
