//go:build unix

package shell

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"dshsh/loop/tool"
)

var shellSuffixes = []string{""}

func executable(st fs.FileInfo) bool { return st.Mode()&0o111 != 0 }

// prepare puts the command into a session of its own: a process group to signal, and no
// terminal to open.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// status says how a process ended.
func status(st *os.ProcessState) (exitCode int, signal string) {
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -1, ws.Signal().String()
	}
	return st.ExitCode(), ""
}

func groupAlive(pgid int) bool { return syscall.Kill(-pgid, 0) == nil }

func terminate(root int, ps []Process) {
	signal(root, ps, syscall.SIGTERM)
	signal(root, ps, syscall.SIGCONT) // a stopped process takes TERM only when it goes on
}

func kill(root int, ps []Process) { signal(root, ps, syscall.SIGKILL) }

// signal signals the group of root and then each process, which are in the order of
// descent: a parent that saw its child die first could go on with its next command.
func signal(root int, ps []Process, sig syscall.Signal) {
	if root > 0 {
		syscall.Kill(-root, sig) // ESRCH: they are gone; what survives is found again
	}
	for _, p := range ps {
		syscall.Kill(p.PID, sig)
	}
}

// finishReading is called when the shell has exited. It takes what is in the pipe, which
// is all that the shell printed, and does not wait for what background processes
// may print later. It reports whether the pipe is at its end. copied is told by copyAll.
func finishReading(r *os.File, copied <-chan bool, out *tool.Output) (atEnd bool) {
	if r.SetReadDeadline(time.Unix(1, 0)) != nil {
		return finishSlowly(r, copied)
	}
	if <-copied {
		return true
	}
	r.SetReadDeadline(time.Time{})
	conn, err := r.SyscallConn()
	if err != nil {
		return false
	}
	buf := make([]byte, 32<<10)
	// More than a pipe holds is printed by something that goes on printing.
	for taken := 0; taken < 1<<20; {
		var n int
		var readErr error
		err := conn.Read(func(fd uintptr) bool {
			for {
				n, readErr = syscall.Read(int(fd), buf)
				if readErr != syscall.EINTR {
					return true
				}
			}
		})
		if err != nil || readErr != nil {
			return false // EAGAIN: there is nothing now
		}
		if n == 0 {
			return true
		}
		out.Write(buf[:n])
		taken += n
	}
	return false
}

var _ io.Writer = (*tool.Output)(nil)
