package repl

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"dshsh/cmd/dshsh/internal/render"
)

// Print shows a block of whole lines above the line being edited; a last line without a
// newline gets one. Text that is not the program's own must have been through
// render.Visible; of control bytes only colours reach the terminal in any case.
//
// It may be called from any goroutine and never waits: the block goes to a bounded queue
// (EditorConfig.QueueBytes). When the terminal is so slow that the queue is full, the
// oldest lines in it are dropped, and in their place it says how many:
// "[12 lines dropped: terminal too slow]". After Close the block is written directly.
func (e *Editor) Print(block string) {
	if block == "" {
		return
	}
	block = render.Printable(block)
	if !strings.HasSuffix(block, "\n") {
		block += "\n"
	}
	e.mu.Lock()
	done := e.done
	if !done {
		e.out.add(block)
	}
	e.mu.Unlock()
	if done {
		soon(e.wrote, 500*time.Millisecond)
		_, _ = io.WriteString(e.cfg.Out, block)
		return
	}
	e.kick()
}

// complain shows an error of the Editor's own.
func (e *Editor) complain(err error) { e.Print(render.Visible(err.Error())) }

// Flush waits until all that was printed, and every change of the line, is written; at
// most two seconds, and not while the terminal is lent.
func (e *Editor) Flush() {
	c := make(chan struct{})
	e.mu.Lock()
	if e.done {
		e.mu.Unlock()
		return
	}
	e.waiters = append(e.waiters, c)
	e.mu.Unlock()
	e.kick()
	select {
	case <-c:
	case <-e.wrote:
	case <-time.After(2 * time.Second):
	}
}

// kick tells the writing goroutine that there is something to do.
func (e *Editor) kick() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// redraw has the edited line drawn again.
func (e *Editor) redraw() {
	e.mu.Lock()
	e.dirty = true
	e.mu.Unlock()
	e.kick()
}

// Lend gives the terminal to fn, as it was before the Editor, to run an editor or another
// program on it: keys are not read, what is printed waits. Afterwards the line is drawn
// again on a fresh row. It returns fn's error, or one of setting the terminal.
func (e *Editor) Lend(fn func() error) error {
	if e.tty == nil {
		return fn()
	}
	select {
	case e.lends <- struct{}{}:
		defer func() { <-e.lends }()
	case <-e.closed:
		return ErrClosed
	}
	e.keys.pause()
	free := make(chan struct{})
	e.mu.Lock()
	e.lent = free
	e.mu.Unlock()
	e.kick()
	select {
	case <-free:
	case <-e.closed:
		return ErrClosed
	}
	err := e.tty.leave()
	if err == nil {
		err = fn()
	}
	e.mu.Lock()
	defer e.redraw()
	defer e.mu.Unlock()
	e.lent = nil
	if e.done {
		return err
	}
	e.fresh, e.resized = true, true
	e.cols, e.rows = e.tty.size()
	if err2 := e.tty.enter(); err == nil {
		err = err2
	}
	if err2 := e.keys.start(); err == nil && err2 != nil {
		err = fmt.Errorf("read the terminal: %w", err2)
	}
	return err
}

// writeAll is the writing goroutine: the only one that writes to the terminal.
func (e *Editor) writeAll() {
	defer close(e.wrote)
	for {
		select {
		case <-e.wake:
			for e.writeSome() {
			}
		case <-e.closed:
			for e.writeSome() {
			}
			if e.tty != nil {
				e.write(e.pen.erase() + modesOff)
			}
			return
		}
	}
}

// writeSome writes a batch of lines and the edited line, and reports whether there was
// anything to write.
func (e *Editor) writeSome() (more bool) {
	defer func() {
		if v := recover(); v != nil {
			e.Print(render.Visible(fmt.Sprintf("internal error of the prompt in drawing: %v", v)))
		}
	}()
	e.mu.Lock()
	if free := e.lent; free != nil && !e.done {
		// The terminal is asked for, or lent already.
		e.mu.Unlock()
		select {
		case <-free:
		default:
			e.write(e.pen.erase() + modesOff)
			close(free)
		}
		return false
	}
	block := e.out.take(batch)
	var f *frame
	if e.tty != nil && !e.done {
		f = e.frame()
	}
	var waiters []chan struct{}
	if e.out.empty() {
		waiters, e.waiters = e.waiters, nil
	}
	work := block != "" || f != nil && e.dirty
	e.dirty, e.resized, e.clear, e.fresh, e.bell = false, false, false, false, false
	e.mu.Unlock()
	if work {
		if e.tty == nil {
			e.write(block)
		} else {
			e.write(e.pen.draw(block, f))
		}
	}
	for _, c := range waiters {
		close(c)
	}
	return work
}

// write writes s whole. An output that fails is not written to again.
func (e *Editor) write(s string) {
	for b := []byte(s); len(b) > 0 && !e.failed; {
		n, err := e.cfg.Out.Write(b)
		b = b[n:]
		if f, ok := e.cfg.Out.(*os.File); ok && err != nil && again(err) {
			waitWritable(f)
		} else if err != nil {
			e.failed = true
		}
	}
}
