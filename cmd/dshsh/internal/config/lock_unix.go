//go:build unix

package config

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long another shell may hold the lock.
const lockWait = 2 * time.Second

// lock takes the lock of a file between shells; unlock lets it go.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockWait); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || err != unix.EINTR && err != unix.EWOULDBLOCK {
			return func() { f.Close() }, nil // also where the file system has no locks
		}
		if time.Now().After(until) {
			f.Close()
			return nil, fmt.Errorf("another dshsh holds %s", path)
		}
	}
}
