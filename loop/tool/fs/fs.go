// Package fs is the built-in tools that read, find and change files: read, write, edit, ls,
// glob and grep.
//
// A path may be relative to the working folder or absolute. ".." is taken off the text of the
// path first, then links are followed ([Resolve]); what is judged by a policy and
// what is opened is the same file. The tools confine nothing by themselves: that is the
// policies' part, with [Config].Check as the last look at the moment of opening. What is
// searched is the folder that a path leads to: links in it are shown and not followed.
//
// A change never leaves half a file: the new content is written beside the old one and
// takes its name. The file's mode, owner, links (symbolic and hard), line endings and byte
// order mark are kept; extended attributes are not. What was changed by somebody else since
// the agent read it is not overwritten.
package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"dshsh/loop/tool"
)

// Names and codes of the failures of these tools.
const (
	NameFile = "FileError"

	CodeNotFound  = "FILE_NOT_FOUND"  // there is no such file
	CodeNotFile   = "NOT_A_FILE"      // a folder, a device, a pipe
	CodeNotFolder = "NOT_A_FOLDER"    // a file, where a folder is wanted
	CodeChanged   = "FILE_CHANGED"    // somebody else changed it since it was read
	CodeNoMatch   = "NO_MATCH"        // the old text is not in it
	CodeAmbiguous = "AMBIGUOUS_MATCH" // the old text is in it several times
	CodeEncoding  = "FILE_ENCODING"   // the change would damage text that is not UTF-8
	CodeTooLarge  = "FILE_TOO_LARGE"  // more than Config.MaxBytes
)

// Config says where the tools work. A zero field is its default.
type Config struct {
	Dir string // absolute; what relative paths are relative to. Required

	// Check, when not nil, is asked with the resolved path right before a file is opened
	// or changed. An error refuses. It is called on the goroutine of the call.
	Check func(real string, write bool) error

	// Ripgrep is the path of rg, which grep then asks for the files that have matches; ""
	// is to search without it. The results are the same.
	Ripgrep string

	Limits   tool.Limits // of what is shown
	MaxBytes int64       // the largest file that write and edit change; default 64 MiB
}

// Files is the tools and what they remember: the content that each agent has last seen
// of each file. One value may serve all agents of a working folder. Its methods may be
// called from any goroutine.
type Files struct {
	cfg Config // immutable

	mu   sync.Mutex // guards seen
	seen map[seenKey]string

	commit sync.Mutex // held from the last look at a file to its replacement
}

type seenKey struct{ agent, real string }

// New returns the tools for a folder.
func New(cfg Config) *Files {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 64 << 20
	}
	return &Files{cfg: cfg, seen: map[seenKey]string{}}
}

// Tools returns read, write, edit, ls, glob and grep.
func (f *Files) Tools() []tool.Tool {
	return []tool.Tool{f.Read(), f.Write(), f.Edit(), f.Ls(), f.Glob(), f.Grep()}
}

// Forget drops what is remembered of an agent that is no more.
func (f *Files) Forget(agentID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range f.seen {
		if k.agent == agentID {
			delete(f.seen, k)
		}
	}
}

// observe remembers what an agent has seen of a file, and tells the loop.
func (f *Files) observe(x *tool.Exec, real, hash string) {
	f.mu.Lock()
	f.seen[seenKey{x.AgentID, real}] = hash
	f.mu.Unlock()
	if x.FileObserved != nil {
		x.FileObserved(tool.FileSeen{Path: real, Hash: hash})
	}
}

// lastSeen is the content that an agent saw last, or "".
func (f *Files) lastSeen(x *tool.Exec, real string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[seenKey{x.AgentID, real}]
}

// locate resolves a path and asks Check. Where earlier outputs of the session were saved
// is read without.
func (f *Files) locate(x *tool.Exec, path string, write bool) (abs, real string, err error) {
	abs, real, err = Resolve(f.cfg.Dir, path)
	if err != nil {
		return "", "", err
	}
	if f.cfg.Check != nil && (write || !savedOutput(x.SavedDirs, real)) {
		if err := f.cfg.Check(real, write); err != nil {
			return "", "", err
		}
	}
	return abs, real, nil
}

// savedOutput reports whether a resolved path is in one of the folders.
func savedOutput(dirs []string, real string) bool {
	for _, dir := range dirs {
		if _, resolved, err := Resolve(dir, "."); err == nil && strings.HasPrefix(real, withSeparator(resolved)) {
			return true
		}
	}
	return false
}

// paths is PathUser.Paths for these tools.
func (f *Files) paths(path string, write bool) []tool.PathUse {
	if path == "" {
		return nil
	}
	return []tool.PathUse{{Path: absolute(f.cfg.Dir, path), Write: write}}
}

func fileError(code, format string, a ...any) *tool.Error {
	return &tool.Error{Name: NameFile, Code: code, Message: fmt.Sprintf(format, a...)}
}

// open opens a regular file for reading. Anything else is refused: reading a pipe
// or a device may never end. The file is closed when ctx ends, which ends a read that hangs.
func open(ctx context.Context, abs, real string) (file *os.File, st iofs.FileInfo, stop func(), err error) {
	file, err = os.OpenFile(real, os.O_RDONLY|openWithoutWaiting, 0)
	if err != nil {
		return nil, nil, nil, openError(abs, real, err)
	}
	st, err = file.Stat()
	if err == nil {
		err = regular(abs, st)
	}
	if err != nil {
		file.Close()
		return nil, nil, nil, err
	}
	unhook := context.AfterFunc(ctx, func() { file.Close() })
	return file, st, func() { unhook(); file.Close() }, nil
}

func regular(abs string, st iofs.FileInfo) error {
	switch {
	case st.IsDir():
		return fileError(CodeNotFile, "%s is a folder", abs)
	case !st.Mode().IsRegular():
		return fileError(CodeNotFile, "%s is no ordinary file (%v)", abs, st.Mode().Type())
	}
	return nil
}

// openError words the failure to open a file; of one that is not there it names the
// nearest that is.
func openError(abs, real string, err error) error {
	if !errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("opening %s: %w", abs, err)
	}
	e := fileError(CodeNotFound, "there is no file %s", abs)
	e.Cause = err
	dir, err := os.Open(filepath.Dir(real))
	if err != nil {
		e.Message = fmt.Sprintf("there is no file %s (nor its folder)", abs)
		return e
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(2000) // a suggestion needs no more
	if near := tool.Nearest(filepath.Base(real), names); near != "" {
		e.Message += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return e
}

// content is a file as it was at one moment. The zero value is a file that is not there.
type content struct {
	there bool
	data  []byte
	hash  string // "" when it is not there
	info  iofs.FileInfo
}

// load reads the whole of a file that is to be changed. A missing one is no error.
func (f *Files) load(ctx context.Context, abs, real string) (content, error) {
	file, st, stop, err := open(ctx, abs, real)
	if errors.Is(err, iofs.ErrNotExist) {
		return content{}, nil
	}
	if err != nil {
		return content{}, err
	}
	defer stop()
	data, err := io.ReadAll(io.LimitReader(file, f.cfg.MaxBytes+1))
	if ctx.Err() != nil {
		return content{}, tool.Aborted()
	}
	if err != nil {
		return content{}, fmt.Errorf("reading %s: %w", abs, err)
	}
	if int64(len(data)) > f.cfg.MaxBytes {
		return content{}, fileError(CodeTooLarge, "%s is larger than %d bytes, too large to be changed here; use a command for it", abs, f.cfg.MaxBytes)
	}
	return content{there: true, data: data, hash: tool.Hash(data), info: st}, nil
}

// fresh refuses a change of a file that somebody else changed since the agent saw it.
func (f *Files) fresh(x *tool.Exec, abs, real string, now content) error {
	if seen := f.lastSeen(x, real); seen != "" && now.there && seen != now.hash {
		return changed(abs)
	}
	return nil
}

func changed(abs string) error {
	return fileError(CodeChanged, "%s has changed since it was read; nothing was written. Read it again and repeat the change on what is there now", abs)
}

// change carries out a change of a file from what was there to next: it asks for leave,
// looks once more, and replaces the file.
func (f *Files) change(ctx context.Context, x *tool.Exec, kind, abs, real string, was content, next []byte, diff string) error {
	if x.FileIntent != nil {
		err := x.FileIntent(ctx, tool.FileChange{Kind: kind, Path: real, Hash: was.hash, Diff: diff})
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return tool.Aborted()
	}
	f.commit.Lock()
	defer f.commit.Unlock()
	// Leave may have taken minutes. The path may lead elsewhere by now.
	_, again, err := f.locate(x, abs, true)
	if err != nil {
		return err
	}
	now, err := f.load(ctx, abs, again)
	if err != nil {
		return err
	}
	if again != real || now.hash != was.hash {
		return changed(abs)
	}
	if err := replace(real, now, next); err != nil {
		return fmt.Errorf("writing %s: %w", abs, err)
	}
	f.observe(x, real, tool.Hash(next))
	return nil
}
