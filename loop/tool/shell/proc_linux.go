package shell

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// findsMarker says that find can look for the marker.
const findsMarker = true

// stat is what is needed of /proc/PID/stat.
type stat struct {
	pid, ppid, pgrp, session int
	zombie                   bool
}

// find returns the live processes that belong to a call, parents before children: those
// in the process group or session of root (0 for none), those with the marker ("NAME=",
// or with a value) in their environment, and all their descendants.
func find(root int, marker string) []Process {
	all := processes()
	delete(all, os.Getpid())
	in := map[int]bool{}
	for _, p := range all {
		if root > 0 && (p.pid == root || p.pgrp == root || p.session == root) || marked(p.pid, marker) {
			in[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !in[p.pid] && in[p.ppid] {
				in[p.pid], grown = true, true
			}
		}
	}

	var found []Process
	var add func(p stat)
	done := map[int]bool{}
	add = func(p stat) {
		if done[p.pid] {
			return
		}
		done[p.pid] = true
		if parent, ok := all[p.ppid]; ok && in[parent.pid] {
			add(parent)
		}
		if !p.zombie {
			found = append(found, Process{PID: p.pid, Command: commandLine(p.pid)})
		}
	}
	for _, p := range all {
		if in[p.pid] {
			add(p)
		}
	}
	return found
}

func processes() map[int]stat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // as many as could be read
	all := make(map[int]stat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		data, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it is gone
		}
		if p, ok := parseStat(pid, data); ok {
			all[pid] = p
		}
	}
	return all
}

// parseStat reads "PID (NAME) STATE PPID PGRP SESSION ..."; the name may hold anything,
// brackets too.
func parseStat(pid int, data []byte) (stat, bool) {
	i := bytes.LastIndexByte(data, ')')
	if i < 0 {
		return stat{}, false
	}
	f := strings.Fields(string(data[i+1:]))
	if len(f) < 4 {
		return stat{}, false
	}
	p := stat{pid: pid, zombie: f[0] == "Z" || f[0] == "X"}
	var err error
	for i, to := range []*int{&p.ppid, &p.pgrp, &p.session} {
		if *to, err = strconv.Atoi(f[i+1]); err != nil {
			return stat{}, false
		}
	}
	return p, true
}

// marked reports whether the environment that a process was started with has the marker.
// Of a process of another user it cannot tell.
func marked(pid int, marker string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	return bytes.HasPrefix(env, []byte(marker)) || bytes.Contains(env, []byte("\x00"+marker))
}

// commandLine is for people: what a process was started as, shortened.
func commandLine(pid int) string {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return shorten(strings.TrimRight(string(bytes.ReplaceAll(data, []byte{0}, []byte{' '})), " "))
}
