package fs

import (
	"cmp"
	"context"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"dshsh/loop/tool"
)

// walker goes through the files below a folder, in the order of their names. It follows no
// links, so that it stays in the folder even if somebody makes links there meanwhile.
// One goroutine uses it.
type walker struct {
	root    *os.Root
	real    string // of root
	ignored bool   // also what .gitignore leaves out
	visit   func(rel string, d iofs.DirEntry) error
	unread  int // folders that could not be read
}

// errEnough ends a walk early, without a failure.
var errEnough = errors.New("enough")

// walk calls visit with each file and folder below real, a folder before what is in it. rel is
// relative to real. What visit returns ends the walk, errEnough without an error. The number is
// how many folders could not be read.
func walk(ctx context.Context, real string, ignored bool, visit func(rel string, d iofs.DirEntry) error) (unread int, err error) {
	root, err := os.OpenRoot(real)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	w := &walker{root: root, real: real, ignored: ignored, visit: visit}
	var ig *ignores
	if !ignored {
		ig = ignoresAbove(real)
	}
	err = w.folder(ctx, ".", ig)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return w.unread, err
}

func (w *walker) folder(ctx context.Context, rel string, ig *ignores) error {
	entries, err := w.read(rel)
	if err != nil {
		if rel == "." {
			return err
		}
		w.unread++ // and go on with the rest
	}
	if !w.ignored {
		for _, d := range entries {
			if d.Name() != ignoreFile || !d.Type().IsRegular() {
				continue
			}
			file, err := w.root.OpenFile(filepath.Join(rel, ignoreFile), os.O_RDONLY|openWithoutWaiting, 0)
			if err == nil {
				ig = ig.below(filepath.Join(w.real, rel), readIgnore(file))
			}
		}
	}
	for _, d := range entries {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		path := filepath.Join(rel, d.Name())
		if d.Name() == gitFolder || ig.matches(filepath.Join(w.real, path), d.IsDir()) {
			continue
		}
		if err := w.visit(path, d); err != nil {
			return err
		}
		if d.IsDir() {
			if err := w.folder(ctx, path, ig); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walker) read(rel string) ([]iofs.DirEntry, error) {
	dir, err := w.root.Open(rel)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	slices.SortFunc(entries, func(a, b iofs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}

// globFilter is a pattern for paths below a folder. A pattern without a slash is one for
// names, at any depth. The zero value lets everything through. Immutable.
type globFilter struct{ pattern string }

func newGlobFilter(name, argument, pattern string) (globFilter, error) {
	if pattern == "" {
		return globFilter{}, nil
	}
	p := filepath.ToSlash(strings.TrimPrefix(pattern, "./"))
	switch {
	case strings.HasPrefix(p, "/") || filepath.IsAbs(pattern):
		return globFilter{}, tool.InvalidArgs("%s: argument %q: is absolute; give the folder as path, and a pattern for what is below it", name, argument)
	case slices.Contains(strings.Split(p, "/"), ".."):
		return globFilter{}, tool.InvalidArgs("%s: argument %q: leads up with \"..\"; give the folder as path instead", name, argument)
	}
	if !strings.Contains(p, "/") {
		p = "**/" + p
	}
	if !doublestar.ValidatePattern(p) {
		return globFilter{}, tool.InvalidArgs("%s: argument %q: %q is no pattern: a bracket, a brace or a backslash is left open", name, argument, pattern)
	}
	return globFilter{p}, nil
}

func (g globFilter) matches(rel string) bool {
	return g.pattern == "" || doublestar.MatchUnvalidated(g.pattern, filepath.ToSlash(rel))
}

// relative is how a result names a file: relative to the working folder if it is in it.
func (f *Files) relative(abs string) string {
	if rel, ok := strings.CutPrefix(abs, withSeparator(f.cfg.Dir)); ok {
		return rel
	}
	return abs
}

// shownName quotes a name with control characters or odd bytes, so that each has one line.
func shownName(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}

// folderOf resolves the folder that a tool is to look in; "" is the working folder.
func (f *Files) folderOf(x *tool.Exec, path string) (abs, real string, st iofs.FileInfo, err error) {
	if path == "" {
		path = "."
	}
	abs, real, err = f.locate(x, path, false)
	if err != nil {
		return "", "", nil, err
	}
	if st, err = os.Stat(real); err != nil {
		return "", "", nil, openError(abs, real, err)
	}
	return abs, real, st, nil
}

// ended says what became of a search whose context may have ended: a limit leaves what
// was found so far, a cancel does not.
func ended(ctx context.Context, err error) (late bool, _ error) {
	switch {
	case ctx.Err() == nil:
		return false, err
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return true, nil
	}
	return false, tool.Aborted()
}
