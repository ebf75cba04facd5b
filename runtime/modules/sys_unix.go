//go:build unix

package modules

import (
	"io/fs"
	"os/exec"
	"syscall"
)

// nonBlocking keeps the opening of a pipe that has taken a file's place from waiting.
const nonBlocking = syscall.O_NONBLOCK

// systemFolders hold no files but views of the system, and of this process.
var systemFolders = []string{"/proc", "/sys", "/dev"}

// names is how many names a file has.
func names(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// ownGroup puts a program into a session of its own: a process group to signal, and no
// terminal to open.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// killGroup ends a program and what it has started, unless that has left its group.
func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// exitCode is that of shells: 128 and the signal's number for one that a signal ended.
func exitCode(cmd *exec.Cmd) int {
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return cmd.ProcessState.ExitCode()
}
