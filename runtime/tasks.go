package runtime

import "sync"

// tasks counts the goroutines of a thread and lets Close wait for the last of them.
// Unlike with a sync.WaitGroup more may begin while somebody waits: late posts come
// from goroutines that know nothing of the closing.
type tasks struct {
	mu      sync.Mutex // guards all below
	changed sync.Cond  // on mu: a count has reached 0
	n       int        // goroutines that run a chain
	drains  int        // goroutines that run posted functions on a free thread
	closing bool       // no new chains from outside
	over    bool       // and no more drains
}

// begin counts a goroutine that will enter the thread, unless it has been closed.
func (w *tasks) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return false
	}
	w.n++
	return true
}

// force counts a goroutine of a chain that is on the thread: it cannot be refused.
func (w *tasks) force() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

func (w *tasks) end() { w.less(&w.n) }

// beginDrain counts a goroutine that runs posts. While chains are ending they may need
// what is posted; without chains nobody does.
func (w *tasks) beginDrain() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false
	}
	w.drains++
	return true
}

func (w *tasks) endDrain() { w.less(&w.drains) }

func (w *tasks) less(n *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *n--; *n == 0 {
		w.changed.Broadcast()
	}
}

// close refuses new goroutines and waits for those that run.
func (w *tasks) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	for w.n > 0 || w.drains > 0 {
		if w.n == 0 {
			w.over = true
		}
		w.changed.Wait()
	}
	w.over = true
}
