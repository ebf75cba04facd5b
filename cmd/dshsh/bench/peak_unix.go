//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peakOf is the most that an ended process held resident, in MiB; 0 = not known.
func peakOf(p *os.ProcessState) float64 {
	u, ok := p.SysUsage().(*syscall.Rusage)
	switch {
	case !ok:
		return 0
	case runtime.GOOS == "darwin":
		return float64(u.Maxrss) / (1 << 20) // bytes there, KiB elsewhere
	}
	return float64(u.Maxrss) / 1024
}
