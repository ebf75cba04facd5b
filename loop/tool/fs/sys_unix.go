//go:build unix

package fs

import (
	iofs "io/fs"
	"os"
	"syscall"
)

// openWithoutWaiting is the flag for it: opening a named pipe waits for somebody who
// writes to it.
const openWithoutWaiting = syscall.O_NONBLOCK

// hardLinks is how many names a file has.
func hardLinks(info iofs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Nlink)
	}
	return 1
}

// keepOwner gives a file the owner and group that info has.
func keepOwner(path string, info iofs.FileInfo) error {
	want, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	made, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if got, ok := made.Sys().(*syscall.Stat_t); ok && got.Uid == want.Uid && got.Gid == want.Gid {
		return nil
	}
	return os.Lchown(path, int(want.Uid), int(want.Gid))
}
