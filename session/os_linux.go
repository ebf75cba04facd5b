package session

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Forget drops clean pages only, which are just those that a failed fsync leaves wrongly believed to be on disk.
func (f *osFile) Forget(offset, length int64) {
	_ = unix.Fadvise(f.fd, offset, length, unix.FADV_DONTNEED) // advice: there is nothing to do about a refusal
}

// processStopped reports whether a process of this machine is stopped, by Ctrl-Z or a debugger.
func processStopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state is behind the name, which is in parentheses and may hold some itself.
	i := bytes.LastIndexByte(b, ')')
	return i > 0 && len(b) > i+2 && (b[i+2] == 'T' || b[i+2] == 't')
}
