package session

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// FS is the file system as the package uses it, so that tests can let any operation fail. Nil in Options means the
// operating system's. Its methods may be called by several goroutines at once.
type FS interface {
	// OpenFile opens a file as os.OpenFile does. With os.O_APPEND each Write goes to the file's end.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Stat(name string) (fs.FileInfo, error)
	MkdirAll(name string, perm fs.FileMode) error
	ReadDir(name string) ([]fs.DirEntry, error)
	Link(oldname, newname string) error
	Rename(oldname, newname string) error
	Remove(name string) error
	// SyncDir makes the directory's entries durable.
	SyncDir(name string) error
}

// File is an open file. Write and Truncate are called by one goroutine at a time; the others may be called beside
// them.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Size returns the file's length. It fails with fs.ErrNotExist when the file no longer has a name.
	Size() (int64, error)
	Truncate(size int64) error
	Sync() error
	// Forget asks the system to drop its cached copy of a range, so that a later read comes from the disk. It may
	// do nothing.
	Forget(offset, length int64)
	// TryLock takes the one lock on the file, without waiting. It fails with ErrLocked when another has it. The
	// lock ends with Unlock, with Close, or with the process.
	TryLock() error
	Unlock() error
}

// ErrLocked is what a File's TryLock returns when the lock is taken.
var ErrLocked = errors.New("the file is locked")

// OS returns the operating system's file system.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return openOSFile(name, flag, perm)
}
func (osFS) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) Link(oldname, newname string) error           { return os.Link(oldname, newname) }
func (osFS) Rename(oldname, newname string) error         { return os.Rename(oldname, newname) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) SyncDir(name string) error                    { return syncDir(name) }

var _ FS = osFS{}
