package sessiontest

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"dshsh/session"
)

// Op names one kind of call of the file system.
type Op string

// The calls that Faults sees. Those of Writes change something on disk.
const (
	Create   Op = "create" // OpenFile with os.O_CREATE
	Open     Op = "open"   // OpenFile without it
	Write    Op = "write"
	Sync     Op = "sync"
	Truncate Op = "truncate"
	Link     Op = "link"
	Rename   Op = "rename"
	Remove   Op = "remove"
	Mkdir    Op = "mkdir"
	SyncDir  Op = "syncdir"
	Read     Op = "read"
	ReadDir  Op = "readdir"
	Stat     Op = "stat"
	Size     Op = "size"
	Lock     Op = "lock"
)

// Writes reports whether the call changes something on disk.
func (op Op) Writes() bool {
	switch op {
	case Create, Write, Sync, Truncate, Link, Rename, Remove, Mkdir, SyncDir:
		return true
	}
	return false
}

// Call is one call of the file system, before it is made.
type Call struct {
	Op   Op
	Path string // of the file; for Link and Rename the new name
	N    int    // of Write: how many bytes
}

// Fault is what happens in the place of a call, or before it.
type Fault struct {
	Err  error  // what the call returns
	Keep int    // of Write: how many of the bytes reach the file all the same
	Lose bool   // of Sync: what was written since the last good sync turns into zero bytes, as on a failing disk
	Then func() // runs before the call; with Err nil the call is then made
}

// Full is the error of a full disk.
var Full error = syscall.ENOSPC

// Broken is the error of a failing disk.
var Broken error = syscall.EIO

// Faults is a file system that asks before each call whether it may succeed. A sync that may is not made: no test
// outlives the power. Any goroutine may use it.
type Faults struct {
	session.FS

	mu     sync.Mutex // guards all below
	decide func(Call) *Fault
	calls  []Call
	files  map[*faultyFile]bool // that are open
}

// NewFaults returns the operating system's file system, which fails where decide says so. decide nil: nowhere.
func NewFaults(decide func(Call) *Fault) *Faults {
	return &Faults{FS: session.OS(), decide: decide}
}

// Set replaces decide. It may be nil.
func (f *Faults) Set(decide func(Call) *Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide = decide
}

// FailNext lets the next call of a kind fail, once.
func (f *Faults) FailNext(op Op, fault Fault) {
	done := false
	f.Set(func(c Call) *Fault {
		if c.Op != op || done {
			return nil
		}
		done = true
		return &fault
	})
}

// Calls returns the calls so far.
func (f *Faults) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

func (f *Faults) ask(c Call) (*Fault, error) {
	f.mu.Lock()
	f.calls = append(f.calls, c)
	decide := f.decide
	var fault *Fault
	if decide != nil {
		fault = decide(c)
	}
	f.mu.Unlock()
	if fault == nil {
		return nil, nil
	}
	if fault.Then != nil {
		fault.Then()
	}
	if fault.Err == nil {
		return fault, nil
	}
	return fault, &fs.PathError{Op: string(c.Op), Path: c.Path, Err: fault.Err}
}

// OpenFile opens a file whose calls are asked about too.
func (f *Faults) OpenFile(name string, flag int, perm fs.FileMode) (session.File, error) {
	op := Open
	if flag&os.O_CREATE != 0 {
		op = Create
	}
	if _, err := f.ask(Call{Op: op, Path: name}); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	ff := &faultyFile{File: file, fs: f, name: name, synced: size}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		f.files = map[*faultyFile]bool{}
	}
	f.files[ff] = true
	return ff, nil
}

// Kill closes every open file beneath its user, which is what the death of a process does to files and locks. Whoever
// still uses one gets errors.
func (f *Faults) Kill() {
	f.mu.Lock()
	files := f.files
	f.files = nil
	f.mu.Unlock()
	for ff := range files {
		_ = ff.File.Close()
	}
}

// Stat asks, then calls.
func (f *Faults) Stat(name string) (fs.FileInfo, error) {
	if _, err := f.ask(Call{Op: Stat, Path: name}); err != nil {
		return nil, err
	}
	return f.FS.Stat(name)
}

// MkdirAll asks, then calls.
func (f *Faults) MkdirAll(name string, perm fs.FileMode) error {
	if _, err := f.ask(Call{Op: Mkdir, Path: name}); err != nil {
		return err
	}
	return f.FS.MkdirAll(name, perm)
}

// ReadDir asks, then calls.
func (f *Faults) ReadDir(name string) ([]fs.DirEntry, error) {
	if _, err := f.ask(Call{Op: ReadDir, Path: name}); err != nil {
		return nil, err
	}
	return f.FS.ReadDir(name)
}

// Link asks, then calls.
func (f *Faults) Link(oldname, newname string) error {
	if _, err := f.ask(Call{Op: Link, Path: newname}); err != nil {
		return err
	}
	return f.moved(oldname, newname, f.FS.Link(oldname, newname))
}

// Rename asks, then calls.
func (f *Faults) Rename(oldname, newname string) error {
	if _, err := f.ask(Call{Op: Rename, Path: newname}); err != nil {
		return err
	}
	return f.moved(oldname, newname, f.FS.Rename(oldname, newname))
}

// moved lets open files go by their new name.
func (f *Faults) moved(oldname, newname string, err error) error {
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for ff := range f.files {
		if ff.name == oldname {
			ff.name = newname
		}
	}
	return nil
}

// Remove asks, then calls.
func (f *Faults) Remove(name string) error {
	if _, err := f.ask(Call{Op: Remove, Path: name}); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// SyncDir asks.
func (f *Faults) SyncDir(name string) error {
	_, err := f.ask(Call{Op: SyncDir, Path: name})
	return err
}

// faultyFile is an open file. Its own fields are used by whoever may call Write and Sync.
type faultyFile struct {
	session.File
	fs   *Faults
	name string // guarded by fs.mu

	mu     sync.Mutex // guards synced
	synced int64      // bytes at the last good sync
}

func (f *faultyFile) path() string {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.name
}

var _ session.File = (*faultyFile)(nil)

func (f *faultyFile) Close() error {
	f.fs.mu.Lock()
	delete(f.fs.files, f)
	f.fs.mu.Unlock()
	return f.File.Close()
}

func (f *faultyFile) Write(b []byte) (int, error) {
	fault, err := f.fs.ask(Call{Op: Write, Path: f.path(), N: len(b)})
	if err == nil {
		return f.File.Write(b)
	}
	n, werr := f.File.Write(b[:min(fault.Keep, len(b))])
	return n, errors.Join(err, werr)
}

func (f *faultyFile) ReadAt(b []byte, off int64) (int, error) {
	if _, err := f.fs.ask(Call{Op: Read, Path: f.path(), N: len(b)}); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f *faultyFile) Size() (int64, error) {
	if _, err := f.fs.ask(Call{Op: Size, Path: f.path()}); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *faultyFile) Truncate(size int64) error {
	if _, err := f.fs.ask(Call{Op: Truncate, Path: f.path()}); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyFile) TryLock() error {
	if _, err := f.fs.ask(Call{Op: Lock, Path: f.path()}); err != nil {
		return errors.Unwrap(err) // as it is: callers tell a taken lock by its error
	}
	return f.File.TryLock()
}

func (f *faultyFile) Sync() error {
	fault, err := f.fs.ask(Call{Op: Sync, Path: f.path()})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		size, sizeErr := f.File.Size()
		f.synced = size
		return sizeErr
	}
	if fault.Lose {
		err = errors.Join(err, f.lose())
	}
	return err
}

// lose overwrites what was written since the last good sync.
func (f *faultyFile) lose() error {
	size, err := f.File.Size()
	if err != nil || size <= f.synced {
		return err
	}
	raw, err := os.OpenFile(f.path(), os.O_WRONLY, 0) // without O_APPEND, to write within the file
	if err != nil {
		return err
	}
	_, err = raw.WriteAt(make([]byte, size-f.synced), f.synced)
	return errors.Join(err, raw.Close())
}
