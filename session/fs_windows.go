package session

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// osFile is a file of the operating system. Locks are mandatory on Windows, so the lock is on a byte far behind any
// log's end: it keeps other writers out and readers not.
type osFile struct {
	*os.File
	handle windows.Handle
}

var _ File = (*osFile)(nil)

const lockOffsetHigh = 1 << 30

func openOSFile(name string, flag int, perm fs.FileMode) (File, error) {
	// With O_APPEND Windows would refuse Truncate; Write seeks instead.
	f, err := os.OpenFile(name, flag&^os.O_APPEND, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, handle: windows.Handle(f.Fd())}, nil
}

func (f *osFile) Write(b []byte) (int, error) {
	if _, err := f.File.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *osFile) TryLock() error {
	err := windows.LockFileEx(f.handle, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0,
		&windows.Overlapped{OffsetHigh: lockOffsetHigh})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return ErrLocked
	}
	return fmt.Errorf("lock %s: %w", f.Name(), err)
}

func (f *osFile) Unlock() error {
	return windows.UnlockFileEx(f.handle, 0, 1, 0, &windows.Overlapped{OffsetHigh: lockOffsetHigh})
}

// syncDir does nothing: Windows has no such thing.
func syncDir(name string) error { return nil }

// processLives reports whether a process of this machine exists.
func processLives(pid int) bool {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	_ = windows.CloseHandle(h)
	return true
}
