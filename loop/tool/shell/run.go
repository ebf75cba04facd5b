package shell

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"dshsh/loop/tool"
)

// ran is how a command ended.
type ran struct {
	exitCode   int
	signal     string // what ended the shell, when it was a signal
	timedOut   bool
	aborted    bool
	took       time.Duration
	background []Process // left by a shell that exited by itself
	survivors  []Process // that could not be ended
	dir        string    // where the shell ended, if it said so
}

// unkillable is how long a shell that was sent KILL is waited for. One that does not go
// is stuck in the kernel or belongs to another user.
const unkillable = 5 * time.Second

// run starts the command and returns when its shell has exited or everything it started
// has been ended. The error is that it could not be started.
func (b *Bash) run(ctx context.Context, command, dir string, limit time.Duration, out *tool.Output) (ran, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return ran{}, err
	}
	id := randomID()
	call := b.marker + "=" + id
	env := append(b.env[:len(b.env):len(b.env)], call, "PWD="+dir)
	ends := b.dirFile(id)
	if ends != "" {
		command = rememberDir + command
		env = append(env, dirVariable+"="+ends)
	}
	cmd := exec.Command(b.cfg.Shell, "-c", "--", command)
	cmd.Dir, cmd.Env = dir, env
	// One file for both keeps the order of what is printed. A *os.File also means that
	// Wait waits for the shell alone, not for what holds the pipe.
	cmd.Stdout, cmd.Stderr = w, w
	prepare(cmd)
	began := time.Now()
	if err := b.start(cmd); err != nil {
		r.Close()
		w.Close()
		return ran{}, err
	}
	w.Close()

	copied := make(chan bool, 1) // true: the pipe is at its end
	go func() { copied <- copyAll(out, r) }()
	exited := make(chan struct{})
	go func() {
		cmd.Wait() // the outcome is read from ProcessState
		close(exited)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()

	var res ran
	select {
	case <-exited:
	case <-timer.C:
		res.timedOut = true
	case <-ctx.Done():
		// Which of the two it was matters to the model: a limit is a reason to ask for less.
		res.timedOut = errors.Is(context.Cause(ctx), context.DeadlineExceeded)
		res.aborted = !res.timedOut
	}
	killed := res.timedOut || res.aborted
	if killed {
		res.survivors = end(cmd.Process.Pid, call, b.cfg.Grace)
		select {
		case <-exited:
		case <-time.After(unkillable):
		}
	}
	res.took = time.Since(began)
	if ends != "" {
		res.dir = takeDir(ends)
	}
	atEnd := finishReading(r, copied, out)
	select {
	case <-exited:
		res.exitCode, res.signal = status(cmd.ProcessState)
	default:
		res.exitCode = -1
	}
	switch {
	case killed:
		r.Close() // what survived and prints is ended by it
	case atEnd:
		r.Close()
		if groupAlive(cmd.Process.Pid) {
			res.background = find(cmd.Process.Pid, call)
		}
	default:
		res.background = find(cmd.Process.Pid, call)
		b.drain(r)
	}
	if len(res.background) > 0 {
		b.mu.Lock()
		b.groups = append(b.groups, cmd.Process.Pid)
		b.mu.Unlock()
	}
	return res, nil
}

// start starts a command unless the tool is closed.
func (b *Bash) start(cmd *exec.Cmd) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errors.New("the shell of this session has been closed")
	}
	b.used = true
	return cmd.Start()
}

// drain goes on reading what background processes print, and drops it: they would be
// ended by a closed pipe and held up by a full one.
func (b *Bash) drain(r *os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		r.Close()
		return
	}
	b.drains[r] = struct{}{}
	b.wg.Add(1)
	go func() {
		defer b.wg.Done()
		io.Copy(io.Discard, r)
		r.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.drains, r)
	}()
}

// copyAll copies until the end of the pipe, which gives true, or until reading is
// stopped.
func copyAll(out io.Writer, r io.Reader) bool {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// end ends the processes that find finds: TERM, up to grace to tidy up, then KILL until
// none is left. It returns those that did not go. That none is left has to be seen twice:
// one that is just starting another program is not found.
func end(root int, marker string, grace time.Duration) []Process {
	left := find(root, marker)
	if len(left) == 0 && root == 0 {
		return nil
	}
	terminate(root, left)
	pause, gone := 5*time.Millisecond, 0
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); {
		time.Sleep(pause)
		pause = min(2*pause, 40*time.Millisecond)
		if left = find(root, marker); len(left) > 0 {
			gone = 0
		} else if gone++; gone == 2 {
			return nil
		}
	}
	// Each round may find what was started while the one before was at work.
	pause = 2 * time.Millisecond
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
		kill(root, left)
		time.Sleep(pause)
		pause = min(2*pause, 40*time.Millisecond)
		if left = find(root, marker); len(left) == 0 {
			return nil
		}
	}
	return left
}

// shorten makes a command line fit to be shown in a list.
func shorten(s string) string {
	const limit = 60
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "\uFFFD")
	s = strings.Replace(s, rememberDir, "", 1) // is ours, not the command's
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "..."
	}
	return s
}
