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
	e.lent, e.parked = nil, false
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

// job is what the writing goroutine takes at once. It is immutable.
type job struct {
	block   string          // whole lines
	line    *frame          // nil for none
	work    bool            // there is something to write
	free    chan struct{}   // the terminal is lent, or asked for: nothing else may be written
	waiters []chan struct{} // told when it is written
}

// next takes what is to be written now.
func (e *Editor) next() job {
	e.mu.Lock()
	defer e.mu.Unlock()
	// What was printed before the terminal was asked for is written first.
	if e.lent != nil && !e.done && (e.parked || e.out.empty()) {
		e.parked = true
		return job{free: e.lent}
	}
	j := job{block: e.out.take(batch)}
	if e.tty != nil && !e.done {
		j.line = e.frame()
	}
	if e.out.empty() {
		j.waiters, e.waiters = e.waiters, nil
	}
	j.work = j.block != "" || j.line != nil && e.dirty
	e.dirty, e.resized, e.fresh, e.bell = false, false, false, false
	return j
}

// writeSome writes a batch of lines and the edited line, and reports whether there was
// anything to write.
func (e *Editor) writeSome() (more bool) {
	defer func() {
		if v := recover(); v != nil { // a line that cannot be drawn is better lost than drawn again
			e.mu.Lock()
			e.base.buf, e.cur, e.comp, e.search, e.status = buffer{}, &e.base, nil, nil, ""
			e.mu.Unlock()
			e.Print(render.Visible(fmt.Sprintf("internal error of the prompt in drawing: %v", v)))
			more = false
		}
	}()
	j := e.next()
	if j.free != nil {
		select {
		case <-j.free:
		default:
			e.write(e.pen.erase() + modesOff)
			close(j.free)
		}
		return false
	}
	switch {
	case !j.work:
	case e.tty == nil:
		e.write(j.block)
	default:
		e.write(e.pen.draw(j.block, j.line))
	}
	for _, c := range j.waiters {
		close(c)
	}
	return j.work
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
			close(e.broken)
		}
	}
}
