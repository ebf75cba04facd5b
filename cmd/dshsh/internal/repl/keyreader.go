package repl

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/muesli/cancelreader"
)

// How long an unfinished sequence is waited for: a lone escape is a key that a person
// pressed, the rest comes in one piece save over a slow line.
const (
	escapeWait   = 50 * time.Millisecond
	sequenceWait = 500 * time.Millisecond
)

// marker is the byte that stands for one key in what readline reads. The keys themselves
// travel beside it, in a queue: readline's own decoding knows neither pastes nor most
// sequences, and takes a terminal's answers for text.
const marker = 'k'

// keyReader is readline's standard input. It reads the terminal in a goroutine of its own,
// so that reading can be paused while a child has the terminal, and closing needs no key
// press.
//
// Read is called by readline's terminal goroutine alone, next by its operation goroutine;
// the rest may be called from any goroutine.
type keyReader struct {
	in     *os.File
	chunks chan []byte   // from the reading goroutine
	closed chan struct{} // closed by Close
	failed chan struct{} // closed, by fail, when the terminal is gone
	fail   func()

	dec  decoder // Read only
	owed int     // Read only: keys in queue whose marker has not been returned

	mu      sync.Mutex // guards what follows
	queue   []key      // keys that next has not taken
	lastKey time.Time  // when something was last read
	reader  cancelreader.CancelReader
	stopped chan struct{} // closed when the goroutine that uses reader has ended
	isDone  bool          // Close was called
}

func newKeyReader(in *os.File) *keyReader {
	k := &keyReader{
		in:     in,
		chunks: make(chan []byte),
		closed: make(chan struct{}),
		failed: make(chan struct{}),
	}
	k.fail = sync.OnceFunc(func() { close(k.failed) })
	return k
}

// start begins reading the terminal, or goes on after pause.
func (k *keyReader) start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isDone || k.reader != nil {
		return nil
	}
	r, err := cancelreader.NewReader(k.in)
	if err != nil {
		return err
	}
	k.reader, k.stopped = r, make(chan struct{})
	go k.pump(r, k.stopped)
	return nil
}

// pause stops reading, so that somebody else can. It returns when no read is under way.
func (k *keyReader) pause() {
	k.mu.Lock()
	r, stopped := k.reader, k.stopped
	k.reader = nil
	k.mu.Unlock()
	if r == nil {
		return
	}
	r.Cancel()
	<-stopped
	r.Close()
}

// pump reads until it is cancelled or the terminal is gone.
func (k *keyReader) pump(r cancelreader.CancelReader, stopped chan struct{}) {
	defer close(stopped)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			k.mu.Lock()
			k.lastKey = time.Now()
			k.mu.Unlock()
			select {
			case k.chunks <- append([]byte(nil), buf[:n]...):
			case <-k.closed:
				return
			}
		}
		switch {
		case err == nil && n > 0:
		case errors.Is(err, cancelreader.ErrCanceled):
			return
		case err != nil && again(err):
		default: // a terminal that gives nothing is gone, as is one that fails
			k.fail()
			return
		}
	}
}

// typing reports whether keys wait to be handled or came within the last d.
func (k *keyReader) typing(d time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.queue) > 0 || time.Since(k.lastKey) < d
}

// gone reports whether the terminal is gone, or Close was called.
func (k *keyReader) gone() bool {
	select {
	case <-k.failed:
		return true
	case <-k.closed:
		return true
	default:
		return false
	}
}

// Read returns one marker for each key that has come.
func (k *keyReader) Read(p []byte) (int, error) {
	for k.owed == 0 {
		var wait <-chan time.Time
		if some, escape := k.dec.pending(); some {
			d := sequenceWait
			if escape {
				d = escapeWait
			}
			wait = time.After(d)
		}
		var keys []key
		select {
		case <-k.closed:
			return 0, io.EOF
		case <-k.failed:
			return 0, io.EOF
		case b := <-k.chunks:
			keys = k.dec.feed(b)
		case <-wait:
			keys = k.dec.timeout()
		}
		k.mu.Lock()
		k.queue = append(k.queue, keys...)
		k.mu.Unlock()
		k.owed = len(keys)
	}
	n := min(k.owed, len(p))
	for i := range n {
		p[i] = marker
	}
	k.owed -= n
	return n, nil
}

// next takes the key that a marker stands for.
func (k *keyReader) next() (key, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) == 0 {
		return key{}, false
	}
	next := k.queue[0]
	k.queue[0] = key{}
	k.queue = k.queue[1:]
	return next, true
}

// Close ends reading; Read returns io.EOF at once.
func (k *keyReader) Close() error {
	k.mu.Lock()
	done := k.isDone
	k.isDone = true
	k.mu.Unlock()
	if !done {
		close(k.closed)
		k.pause()
	}
	return nil
}
