package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many links one path may lead through.
const maxLinks = 255

// Resolve says which file a path names. abs is the path made absolute against dir and
// cleaned, links not followed. real is the same with all links followed, also of a
// file that is not there: the folders that exist are resolved, and a link that
// leads nowhere is replaced by where it leads to, since that is what a write would make. dir must be
// absolute.
//
// abs is set also when there is an error: a loop of links, a file used as a folder, or a
// folder that may not be searched.
func Resolve(dir, path string) (abs, real string, err error) {
	return resolve(dir, path, func(string) {})
}

// Places returns all the places that a path leads through: each link that is followed, with
// the folders before it resolved, and the file itself as Resolve gives it, which comes
// last. Who protects a folder protects it from paths that only lead through it, too.
func Places(dir, path string) ([]string, error) {
	var places []string
	_, real, err := resolve(dir, path, func(link string) { places = append(places, link) })
	if err != nil {
		return nil, err
	}
	return append(places, real), nil
}

func resolve(dir, path string, follows func(link string)) (abs, real string, err error) {
	abs = absolute(dir, path)
	switch {
	case path == "":
		return abs, "", errors.New("the path is empty")
	case strings.ContainsRune(path, 0):
		return abs, "", fmt.Errorf("the path %q holds a zero byte", path)
	case !filepath.IsAbs(abs):
		return abs, "", fmt.Errorf("the path %q cannot be resolved: the folder %q is not absolute", path, dir)
	}
	real, rest := root(abs)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..": // of a link's target; abs has none
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		st, err := os.Lstat(next)
		if err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return abs, "", fmt.Errorf("resolving %s: %w", abs, err)
		}
		if err != nil || st.Mode()&iofs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > maxLinks {
			return abs, "", fmt.Errorf("resolving %s: too many links, or a loop of them", abs)
		}
		follows(next)
		target, err := os.Readlink(next)
		if err != nil {
			return abs, "", fmt.Errorf("resolving %s: %w", abs, err)
		}
		if filepath.IsAbs(target) {
			var names []string
			real, names = root(target)
			rest = append(names, rest...)
		} else {
			rest = append(split(target), rest...)
		}
	}
	return abs, real, nil
}

func absolute(dir, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path)
}

// root splits an absolute path into its root and the names below it.
func root(abs string) (string, []string) {
	volume := filepath.VolumeName(abs)
	return volume + string(filepath.Separator), split(abs[len(volume):])
}

func split(path string) []string {
	return strings.Split(filepath.ToSlash(path), "/")
}
