//go:build !linux

package session

// Forget does nothing: the system offers no way.
func (f *osFile) Forget(offset, length int64) {}

// processStopped is not known here.
func processStopped(pid int) bool { return false }
