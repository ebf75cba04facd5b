//go:build unix && !linux

package shell

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// findsMarker says that find can look for the marker.
const findsMarker = false

// find returns the live processes that belong to a call, parents before children: those
// in the process group of root (0 for none) and all descendants of these. The marker
// cannot be looked for here.
func find(root int, marker string) []Process {
	if root == 0 {
		return nil
	}
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,command=").Output()
	if err != nil {
		return nil
	}
	type proc struct {
		pid, ppid, pgid int
		zombie          bool
		command         string
	}
	var all []proc
	for line := range bytes.Lines(out) {
		f := strings.Fields(string(line))
		if len(f) < 4 {
			continue
		}
		pid, err1 := strconv.Atoi(f[0])
		ppid, err2 := strconv.Atoi(f[1])
		pgid, err3 := strconv.Atoi(f[2])
		if err1 != nil || err2 != nil || err3 != nil || pid == os.Getpid() {
			continue
		}
		all = append(all, proc{pid, ppid, pgid, strings.HasPrefix(f[3], "Z"), strings.Join(f[4:], " ")})
	}
	var found []Process
	in := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if in[p.pid] || !in[p.ppid] && p.pid != root && p.pgid != root {
				continue
			}
			in[p.pid], grown = true, true
			if !p.zombie {
				found = append(found, Process{PID: p.pid, Command: shorten(p.command)})
			}
		}
	}
	return found
}
