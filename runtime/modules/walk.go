package modules

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many links that lead nowhere one path may lead through.
const maxLinks = 40

// absolute makes a path absolute against the project's folder, and clean.
func (h *host) absolute(path string) (string, error) {
	switch {
	case path == "":
		return "", errors.New("the path is empty")
	case strings.ContainsRune(path, 0):
		return "", errors.New("the path holds a zero byte")
	case !filepath.IsAbs(path):
		path = filepath.Join(h.Dir, path)
	}
	return filepath.Clean(path), nil
}

// resolve follows every link of an absolute path, also of a file that is not there: a
// link that leads nowhere counts as what it leads to. What cannot be followed stays as
// it is; opening it fails in the same way.
func resolve(path string) string {
	real, err := follow(path, 0)
	if err != nil {
		return path
	}
	return real
}

func follow(path string, links int) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) || filepath.Dir(path) == path {
		return real, err
	}
	if links > maxLinks {
		return "", errors.New("too many links")
	}
	parent, err := follow(filepath.Dir(path), links+1)
	if err != nil {
		return "", err
	}
	full := filepath.Join(parent, filepath.Base(path))
	target, err := os.Readlink(full)
	if err != nil {
		return full, nil
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(parent, target)
	}
	return follow(filepath.Clean(target), links+1)
}

// errMoved is what a path comes to that is no longer what was judged.
var errMoved = errors.New("it was changed while it was being opened")

// openFolder opens a folder name by name. No link is followed, also none that is put
// there meanwhile: dir has been judged as what it is. missing makes what is not there.
func (h *host) openFolder(dir string, missing bool) (*os.Root, error) {
	base := filepath.VolumeName(dir) + string(filepath.Separator)
	if within(h.Dir, dir) {
		base = h.Dir
	}
	rel, err := filepath.Rel(base, dir)
	if err != nil {
		return nil, err
	}
	r, err := os.OpenRoot(base)
	if err != nil || rel == "." {
		return r, err
	}
	for _, name := range strings.Split(filepath.ToSlash(rel), "/") {
		sub, err := step(r, name, missing)
		r.Close()
		if err != nil {
			return nil, err
		}
		r = sub
	}
	return r, nil
}

// step opens a folder in another one. What was there without a link and what was opened
// must be one.
func step(r *os.Root, name string, missing bool) (*os.Root, error) {
	was, err := r.Lstat(name)
	if missing && errors.Is(err, fs.ErrNotExist) {
		if err = r.Mkdir(name, 0o777); err == nil || errors.Is(err, fs.ErrExist) { // less the umask
			was, err = r.Lstat(name)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case was.Mode()&fs.ModeSymlink != 0:
		return nil, errMoved
	case !was.IsDir():
		return nil, fmt.Errorf("%s is not a folder", name)
	}
	sub, err := r.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	is, err := sub.Stat(".")
	if err == nil && !os.SameFile(was, is) {
		err = errMoved
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// openFile opens a plain file in a folder, likewise. With flags that write it must be
// there already.
func openFile(r *os.Root, name string, flags int) (*os.File, fs.FileInfo, error) {
	was, err := r.Lstat(name)
	switch {
	case err != nil:
		return nil, nil, err
	case was.IsDir():
		return nil, nil, errors.New("it is a folder")
	case was.Mode()&fs.ModeSymlink != 0:
		return nil, nil, errMoved
	case !was.Mode().IsRegular():
		return nil, nil, errors.New("it is not a plain file")
	}
	f, err := r.OpenFile(name, flags|nonBlocking, 0)
	if err != nil {
		return nil, nil, err
	}
	is, err := f.Stat()
	if err == nil && !os.SameFile(was, is) {
		err = errMoved
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, is, nil
}

// replace writes a file whole: beside it first, then under its name. A link that somebody
// puts there meanwhile is replaced, not followed.
func replace(r *os.Root, name string, data []byte) (err error) {
	mode := fs.FileMode(0o666) // less the umask
	was, err := r.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case was.IsDir():
		return errors.New("it is a folder")
	case was.Mode()&fs.ModeSymlink != 0:
		return errMoved
	case !was.Mode().IsRegular():
		return errors.New("it is not a plain file")
	}
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	temp := ".dshsh-" + hex.EncodeToString(id[:]) + ".tmp"
	f, err := r.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = r.Remove(temp)
		}
	}()
	if was != nil {
		err = f.Chmod(was.Mode().Perm())
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return r.Rename(temp, name)
}
