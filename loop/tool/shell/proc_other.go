//go:build !unix

package shell

import (
	"io/fs"
	"os"
	"os/exec"
	"strconv"

	"dshsh/loop/tool"
)

// Here a call is ended by ending the tree of processes below its shell, at once: there
// is no TERM, and what the tree has lost is not found.

// findsMarker says that find can look for the marker.
const findsMarker = false

var shellSuffixes = []string{".exe"}

func executable(fs.FileInfo) bool { return true }

func prepare(*exec.Cmd) {}

func status(st *os.ProcessState) (exitCode int, signal string) { return st.ExitCode(), "" }

func groupAlive(int) bool { return false }

func find(int, string) []Process { return nil }

func terminate(root int, _ []Process) {
	if root > 0 {
		exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(root)).Run() // an error: it is gone
	}
}

func kill(root int, ps []Process) { terminate(root, ps) }

func finishReading(r *os.File, copied <-chan bool, _ *tool.Output) (atEnd bool) {
	return finishSlowly(r, copied)
}
