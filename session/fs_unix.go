//go:build unix && !solaris && !aix

package session

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// osFile is a file of the operating system. Its lock is flock(2)'s: it belongs to this opening of the file, so a
// second one in the same process is kept out as well.
type osFile struct {
	*os.File
	fd int
}

var _ File = (*osFile)(nil)

func openOSFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, fd: int(f.Fd())}, nil
}

func (f *osFile) Size() (int64, error) {
	var st unix.Stat_t // not os.File.Stat: this runs before each append and must not allocate
	if err := ignoringEINTR(func() error { return unix.Fstat(f.fd, &st) }); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if st.Nlink == 0 {
		return 0, &fs.PathError{Op: "stat", Path: f.Name(), Err: fs.ErrNotExist}
	}
	return st.Size, nil
}

func (f *osFile) TryLock() error {
	err := ignoringEINTR(func() error { return unix.Flock(f.fd, unix.LOCK_EX|unix.LOCK_NB) })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return ErrLocked
	}
	return fmt.Errorf("lock %s: %w", f.Name(), err)
}

// Unlock gives the lock up at once, even where a child process that is being started still has the descriptor.
func (f *osFile) Unlock() error {
	return ignoringEINTR(func() error { return unix.Flock(f.fd, unix.LOCK_UN) })
}

func ignoringEINTR(fn func() error) error {
	for {
		if err := fn(); err != unix.EINTR {
			return err
		}
	}
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // a file system that has no such thing
	}
	return errors.Join(err, d.Close())
}

// processLives reports whether a process of this machine exists.
func processLives(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}
