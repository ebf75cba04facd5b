package modules

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"dshsh/runtime"
)

const (
	maxFile    = 10 << 20 // bytes of a file that is read or written
	maxEntries = 10_000   // of a folder that is listed
	fsTime     = time.Minute
)

// fileInfo is what fs.stat gives.
type fileInfo struct {
	Kind    string `json:"kind" enum:"file|folder|other"`
	Size    int64  `json:"size"`    // bytes
	MtimeMs int64  `json:"mtimeMs"` // milliseconds since 1970
}

// entry is one item of fs.list.
type entry struct {
	Name string `json:"name"`
	Kind string `json:"kind" enum:"file|folder|link|other"`
}

func (h *host) fsClass() *runtime.Class {
	return &runtime.Class{Name: "fs", Doc: "Files, behind the grants read and write. Paths are relative to the working folder or absolute; " +
		"what counts is where their links lead. A file has at most 10 MiB.", Members: []*runtime.Member{
		{Name: "read", Waits: true, Doc: "The text of a file, which must be UTF-8.", Signature: "(path: string): Promise<string>", Fn: h.fsRead},
		{Name: "write", Waits: true, Doc: "Makes text the whole content of a file, at once; folders that are missing are made.",
			Signature: "(path: string, text: string): Promise<void>", Fn: h.fsWrite},
		{Name: "append", Waits: true, Doc: "Adds text to the end of a file, which is made if it is missing.",
			Signature: "(path: string, text: string): Promise<void>", Fn: h.fsAppend},
		{Name: "list", Waits: true, Doc: "What is in a folder, by name. Links are not followed.",
			Signature: "(path: string): Promise<{ name: string, kind: 'file' | 'folder' | 'link' | 'other' }[]>", Fn: h.fsList},
		{Name: "exists", Waits: true, Doc: "Whether there is something of that name.", Signature: "(path: string): Promise<boolean>", Fn: h.fsExists},
		{Name: "stat", Waits: true, Doc: "Kind, size and time of the last change of a file.",
			Signature: "(path: string): Promise<{ kind: 'file' | 'folder' | 'other', size: number, mtimeMs: number }>", Fn: h.fsStat},
	}}
}

// at takes a call to the place that its path really means, and runs fn there, off the
// thread, if the script may use it.
func (h *host) at(c *runtime.Call, path string, write bool, fn func(real string) error) error {
	ctx, done := bound(c, fsTime)
	defer done()
	abs, err := h.absolute(path)
	if err != nil {
		return named(c, err)
	}
	real := ""
	if err := away(c, ctx, func() error { real = resolve(abs); return nil }); err != nil {
		return named(c, err)
	}
	kind := runtime.NeedRead
	if write {
		kind = runtime.NeedWrite
	}
	if err := c.Instance.Permit(kind, h.shown(real), func(n runtime.Need) bool { return n.MatchPath(h.Dir, real) }); err != nil {
		return named(c, err)
	}
	refused := false
	err = away(c, ctx, func() error {
		if err := h.refuse(abs, real, write); err != nil {
			refused = true
			return err
		}
		return fn(real)
	})
	if refused {
		c.Instance.NoteUse(kind, h.shown(real), false)
	}
	return named(c, bare(path, err))
}

// refuse keeps what no grant opens.
func (h *host) refuse(abs, real string, write bool) error {
	for _, dir := range systemFolders {
		if within(dir, real) {
			return fmt.Errorf("%w: nothing in %s is a file that scripts may use", runtime.ErrNotGranted, dir)
		}
	}
	if h.Check == nil {
		return nil
	}
	for _, p := range []string{abs, real} {
		if err := h.Check(p, write); err != nil {
			return fmt.Errorf("%w to any script: %w", runtime.ErrNotGranted, err)
		}
	}
	return nil
}

// shown is a path as people write it: below the project's folder from there.
func (h *host) shown(path string) string {
	if rel, err := filepath.Rel(h.Dir, path); err == nil && within(h.Dir, path) {
		return filepath.ToSlash(rel)
	}
	return path
}

// bare words an error about the path that the script knows, not the steps to it.
func bare(path string, err error) error {
	var pe *iofs.PathError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, iofs.ErrNotExist):
		return &fileError{fmt.Sprintf("there is no %s", path), "ENOENT", err}
	case errors.As(err, &pe):
		return fmt.Errorf("%s: %w", path, pe.Err)
	case errors.Is(err, runtime.ErrNotGranted):
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// fileError is a failure with a code that scripts can tell. Immutable.
type fileError struct {
	msg, code string
	err       error
}

func (e *fileError) Error() string     { return e.msg }
func (e *fileError) Unwrap() error     { return e.err }
func (e *fileError) ErrorCode() string { return e.code }

// inFolder opens the folder that a path is in.
func (h *host) inFolder(real string, missing bool, fn func(r *os.Root, name string) error) error {
	if filepath.Dir(real) == real {
		return errors.New("it is a folder")
	}
	r, err := h.openFolder(filepath.Dir(real), missing)
	if err != nil {
		return err
	}
	defer r.Close()
	return fn(r, filepath.Base(real))
}

func (h *host) fsRead(c *runtime.Call) (runtime.Value, error) {
	var path string
	if err := c.Unpack("path", &path); err != nil {
		return nil, err
	}
	var data []byte
	err := h.at(c, path, false, func(real string) error {
		return h.inFolder(real, false, func(r *os.Root, name string) error {
			f, fi, err := openFile(r, name, os.O_RDONLY)
			if err != nil {
				return err
			}
			defer f.Close()
			if fi.Size() > maxFile {
				return fmt.Errorf("it has %d bytes, at most %d are read", fi.Size(), maxFile)
			}
			data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
			switch {
			case err != nil:
			case len(data) > maxFile:
				err = fmt.Errorf("it has more than %d bytes", maxFile)
			case !utf8.Valid(data):
				err = errors.New("it is not UTF-8 text")
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return string(data), nil
}

func (h *host) fsWrite(c *runtime.Call) (runtime.Value, error) {
	path, text, err := pathAndText(c)
	if err != nil {
		return nil, err
	}
	return nil, h.at(c, path, true, func(real string) error {
		return h.inFolder(real, true, func(r *os.Root, name string) error { return replace(r, name, []byte(text)) })
	})
}

func pathAndText(c *runtime.Call) (path, text string, err error) {
	if err = c.Unpack("path", &path, "text", &text); err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: %d bytes of text, at most %d are written", c.Name, len(text), maxFile)
	}
	return path, text, err
}

func (h *host) fsAppend(c *runtime.Call) (runtime.Value, error) {
	path, text, err := pathAndText(c)
	if err != nil {
		return nil, err
	}
	return nil, h.at(c, path, true, func(real string) error {
		return h.inFolder(real, true, func(r *os.Root, name string) error {
			f, fi, err := openFile(r, name, os.O_WRONLY|os.O_APPEND)
			if errors.Is(err, iofs.ErrNotExist) {
				return replace(r, name, []byte(text))
			}
			if err != nil {
				return err
			}
			switch {
			case names(fi) > 1:
				// Under its other name it may be anything; write gives this one a file of its own.
				err = errors.New("it has another name too (a hard link), so nothing is added to it")
			case fi.Size()+int64(len(text)) > maxFile:
				err = fmt.Errorf("it would have more than %d bytes", maxFile)
			default:
				_, err = f.WriteString(text)
			}
			return errors.Join(err, f.Close())
		})
	})
}

func (h *host) fsList(c *runtime.Call) (runtime.Value, error) {
	var path string
	if err := c.Unpack("path", &path); err != nil {
		return nil, err
	}
	list := []entry{}
	err := h.at(c, path, false, func(real string) error {
		r, err := h.openFolder(real, false)
		if err != nil {
			return err
		}
		defer r.Close()
		f, err := r.Open(".")
		if err != nil {
			return err
		}
		defer f.Close()
		found, err := f.ReadDir(maxEntries + 1)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(found) > maxEntries {
			return fmt.Errorf("it has more than %d entries", maxEntries)
		}
		for _, e := range found {
			list = append(list, entry{e.Name(), kindOf(e.Type())})
		}
		slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return runtime.ValueOf(list), nil
}

func kindOf(m iofs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "folder"
	case m&iofs.ModeSymlink != 0:
		return "link"
	}
	return "other"
}

func (h *host) stat(c *runtime.Call) (fi iofs.FileInfo, err error) {
	var path string
	if err := c.Unpack("path", &path); err != nil {
		return nil, err
	}
	err = h.at(c, path, false, func(real string) error {
		if filepath.Dir(real) == real {
			fi, err = os.Lstat(real)
			return err
		}
		return h.inFolder(real, false, func(r *os.Root, name string) error {
			fi, err = r.Lstat(name)
			return err
		})
	})
	return fi, err
}

func (h *host) fsExists(c *runtime.Call) (runtime.Value, error) {
	_, err := h.stat(c)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (h *host) fsStat(c *runtime.Call) (runtime.Value, error) {
	fi, err := h.stat(c)
	if err != nil {
		return nil, err
	}
	return runtime.ValueOf(fileInfo{Kind: kindOf(fi.Mode()), Size: fi.Size(), MtimeMs: fi.ModTime().UnixMilli()}), nil
}
