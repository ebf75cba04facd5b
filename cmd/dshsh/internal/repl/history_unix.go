//go:build unix

package repl

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long another shell may hold the history's lock. One that was stopped
// while it held it must not stop this one: then the entry is written without.
const lockWait = 300 * time.Millisecond

// openLocked opens the history file for appending, creates it for its owner alone, and
// takes the lock that closing releases.
func openLocked(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockWait); ; time.Sleep(2 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || err != unix.EINTR && err != unix.EWOULDBLOCK || time.Now().After(until) {
			break // also where the file system has no locks
		}
	}
	// It may come from a program that was less careful.
	if st, err := f.Stat(); err == nil && st.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}
