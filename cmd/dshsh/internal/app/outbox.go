package app

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// outbox writes to the program's two outputs, in order and in a goroutine of its own, so
// that the host thread never waits for a reader that is slow. Its methods may be called
// from any goroutine.
type outbox struct {
	out, err io.Writer
	broken   chan struct{} // closed when nobody reads any more
	done     chan struct{} // closed when the last of it is written
	wake     chan struct{}

	mu     sync.Mutex // guards what follows
	queue  []piece
	cause  error // what writing failed with
	closed bool
}

// piece is what was said to one of the outputs.
type piece struct {
	toErr bool
	text  []byte
}

func newOutbox(out, err io.Writer) *outbox {
	o := &outbox{out: out, err: err, broken: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go o.run()
	return o
}

// put queues text.
func (o *outbox) put(toErr bool, text []byte) {
	o.mu.Lock()
	if n := len(o.queue); n > 0 && o.queue[n-1].toErr == toErr {
		o.queue[n-1].text = append(o.queue[n-1].text, text...)
	} else {
		o.queue = append(o.queue, piece{toErr, append([]byte(nil), text...)})
	}
	o.mu.Unlock()
	o.nudge()
}

func (o *outbox) nudge() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) run() {
	defer close(o.done)
	for {
		o.mu.Lock()
		queue, closed := o.queue, o.closed
		o.queue = nil
		o.mu.Unlock()
		for _, p := range queue {
			o.write(p)
		}
		if len(queue) > 0 {
			continue
		}
		if closed {
			return
		}
		<-o.wake
	}
}

// write writes one piece. Standard error that fails is no reason to end, unless its reader
// has left.
func (o *outbox) write(p piece) {
	w := o.out
	if p.toErr {
		w = o.err
	}
	_, err := w.Write(p.text)
	if err == nil || p.toErr && !errors.Is(err, syscall.EPIPE) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		o.cause = err
		close(o.broken)
	}
}

// errUnread: a signal came before all was read.
var errUnread = errors.New("cancelled before all was written")

// patience is how long the reader of a run that was cancelled has to take the rest.
const patience = time.Second

// close waits until all is written, or for a signal, and returns what writing failed with.
// After a cancel it does not wait long.
func (o *outbox) close(sigs <-chan os.Signal, cancelled bool) error {
	var late <-chan time.Time
	if cancelled {
		late = time.After(patience)
	}
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.nudge()
	select {
	case <-o.done:
	case <-sigs:
		return errUnread
	case <-late:
		return errUnread
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cause
}
