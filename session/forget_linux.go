package session

import "golang.org/x/sys/unix"

// Forget drops clean pages only, which are just those that a failed fsync leaves wrongly believed to be on disk.
func (f *osFile) Forget(offset, length int64) {
	_ = unix.Fadvise(f.fd, offset, length, unix.FADV_DONTNEED) // advice: there is nothing to do about a refusal
}
