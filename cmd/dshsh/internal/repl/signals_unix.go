//go:build unix

package repl

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watched are the signals that an Editor with a terminal takes: the size changed, the
// program was continued, and those that end it, before which the terminal must be put
// back.
var watched = []os.Signal{
	syscall.SIGWINCH, syscall.SIGCONT,
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
}

func isResize(s os.Signal) bool   { return s == syscall.SIGWINCH }
func isContinue(s os.Signal) bool { return s == syscall.SIGCONT }

// stopSelf stops the program's process group as Ctrl-Z does outside raw mode, and returns
// when it has been continued, or at once where nobody could continue it.
func stopSelf() {
	cont := make(chan os.Signal, 1)
	signal.Notify(cont, syscall.SIGCONT)
	defer signal.Stop(cont)
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return
	}
	select {
	case <-cont:
	case <-time.After(300 * time.Millisecond): // the group is an orphan: it was not stopped
	}
}

// dieBy ends the program by a signal that nobody acted on.
func dieBy(s os.Signal) {
	signal.Reset(s)
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(os.Getpid(), n)
	}
	time.Sleep(time.Second) // the signal comes in a moment
	os.Exit(1)
}

// waitWritable waits until f takes more output. Standard output can be non-blocking when
// a program that shares it made it so.
func waitWritable(f *os.File) {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLOUT}}
	_, _ = unix.Poll(fds, 1000)
}

// again reports whether a write failed only because the output was full.
func again(err error) bool { return errors.Is(err, syscall.EAGAIN) }
