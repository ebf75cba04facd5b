package runtime

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestMemoryWatchdog: an entry under which the heap grows by more than it may is
// interrupted, long before its time is up, and Cause says why.
func TestMemoryWatchdog(t *testing.T) {
	var heap atomic.Uint64
	heap.Store(100 << 20)
	old := heapBytes
	heapBytes = heap.Load
	defer func() { heapBytes = old }()

	th := NewThread(ThreadOptions{})
	defer th.Close()
	_ = th.Do(context.Background(), func() {
		hit := make(chan struct{}, 100)
		m := &Meter{Who: "a", Budget: time.Hour, Interrupt: func() { hit <- struct{}{} }}
		e := &Entry{Meter: m}
		th.Enter(e)
		grown := time.After(3 * maxTick)
		for grown != nil {
			select {
			case <-hit:
				t.Fatal("interrupted though nothing grew")
			case <-grown:
				grown = nil
			}
		}
		heap.Store(500 << 20)
		<-hit
		if !th.Exit(e, nil) || !errors.Is(th.Cause(m), ErrMemory) {
			t.Errorf("cause: %v", th.Cause(m))
		}
	})
}
