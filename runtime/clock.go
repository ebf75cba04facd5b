package runtime

import (
	"runtime/metrics"
	"sync"
	"time"
)

// Meter counts the exclusive time that one VM entry spends on the thread. Only the
// innermost entry of the owner's chain runs, so the script that computes is the one
// that is charged, stopped and blamed. Its exported fields are set before it is entered;
// the others are guarded by clock.mu.
type Meter struct {
	Who       string        // whom to blame: the script's identity
	Budget    time.Duration // 0 = unlimited
	Interrupt func()        // stops the VM; called under clock.mu, so it must not block or call back

	in    *Instance // told when the entry was interrupted; nil = nobody
	used  time.Duration
	fired bool
	cause error  // why it fired
	base  uint64 // bytes on the heap when the watchdog first saw it run; 0 = not yet
	told  bool   // OnStuck has been called
}

const (
	// A watchdog tick is short so that a text which is doubled over and over is seen
	// before it has eaten the machine.
	maxTick = 20 * time.Millisecond
	// maxGrowth of the heap while one entry runs is the script's doing. Where the heap is
	// larger than that to begin with, it may double: so much garbage is usual.
	maxGrowth = 256 << 20
)

// heapBytes is the size of all objects on the heap, dead ones that have not been swept
// included. Tests set it.
var heapBytes = func() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// clock switches the running meter and interrupts the one that overruns. The interrupt
// is sent under the same mutex that switches meters: an entry that has ended can not be
// hit by it.
type clock struct {
	mu    sync.Mutex // guards all below and every Meter's used, fired, told
	cur   *Meter
	since time.Time
	timer *time.Timer // one watchdog, armed only while something runs
	armed bool
	ended bool

	onStuck    func(who string)
	stuckAfter time.Duration
}

// switchTo charges the meter that ran and lets m run; nil stops the clock.
func (k *clock) switchTo(m *Meter) {
	k.mu.Lock()
	k.switchLocked(m)
	k.mu.Unlock()
}

func (k *clock) switchLocked(m *Meter) {
	if k.cur == m {
		return
	}
	now := time.Now()
	if k.cur != nil {
		k.cur.used += now.Sub(k.since)
	}
	k.cur, k.since = m, now
	if m != nil && m.Budget > 0 && !k.armed && !k.ended {
		k.arm(min(m.Budget/8, maxTick))
	}
}

// end stops m for good and reports whether it was interrupted. clear, run under the
// same mutex, takes back an interrupt that has not been noticed.
func (k *clock) end(m, next *Meter, clear func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.switchLocked(next)
	if clear != nil {
		clear()
	}
	return m.fired
}

func (k *clock) arm(d time.Duration) {
	k.armed = true
	if k.timer == nil {
		k.timer = time.AfterFunc(d, k.tick)
		return
	}
	k.timer.Reset(d)
}

// tick looks at the running meter and at the heap. An overrun is noticed at the budget
// plus at most an eighth of it. When nothing runs the watchdog sleeps until the next switch.
func (k *clock) tick() {
	k.mu.Lock()
	k.armed = false
	m := k.cur
	if m == nil || m.Budget <= 0 || k.ended {
		k.mu.Unlock()
		return
	}
	used := m.used + time.Since(k.since)
	heap := heapBytes()
	if m.base == 0 {
		m.base = max(heap, 1)
	}
	switch {
	case m.fired:
	case used >= m.Budget:
		m.fired, m.cause = true, ErrDeadline
	case heap > m.base+max(maxGrowth, m.base):
		m.fired, m.cause = true, ErrMemory
	}
	if m.fired {
		// Once more on every tick: a native call in between may have eaten the flag.
		m.Interrupt()
	}
	var stuck func(string)
	if used >= m.Budget+k.stuckAfter && !m.told {
		m.told = true
		stuck = k.onStuck
	}
	k.arm(min(m.Budget/8, maxTick))
	k.mu.Unlock()
	if stuck != nil {
		stuck(m.Who)
	}
}

func (k *clock) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	if k.timer != nil {
		k.timer.Stop()
	}
}

// Entry is one stay inside a VM, from Enter to Exit. Its fields are set by the binding
// before Enter and not changed in between. Used on the thread.
type Entry struct {
	// VM identifies the virtual machine. Nested entries of one VM in one chain share
	// the outermost one's meter.
	VM VM
	// NoWait forbids leaving the thread while this entry is open: set for JavaScript,
	// whose one stack must unwind in order.
	NoWait bool
	// Save is called before the thread is left, top of the stack first, and Restore
	// after it is owned again, bottom first: for state of the VM that belongs to the
	// running goroutine.
	Save, Restore func()
	// Meter is charged. It may be nil where a surrounding entry of the VM has one.
	Meter *Meter

	outer *Meter // what ran before
	owns  bool
}

// Enter begins a stay in a VM on the current chain.
func (t *Thread) Enter(e *Entry) {
	t.Assert()
	c := t.cur
	e.outer = c.meter
	e.owns = true
	for i := len(c.frames) - 1; i >= 0; i-- {
		if f := c.frames[i]; f.VM == e.VM && f.Meter != nil {
			e.Meter, e.owns = f.Meter, false
			break
		}
	}
	c.frames = append(c.frames, e)
	if e.NoWait {
		c.noWait++
	}
	if e.Meter != nil {
		c.meter = e.Meter
		t.clock.switchTo(e.Meter)
	}
}

// Exit ends the innermost stay, which must be e. It reports whether the entry's meter
// has interrupted the VM. clear is run under the watchdog's mutex after the meter has
// stopped, and only where e is the entry that began the meter: what it clears can not
// be set again by a late interrupt.
func (t *Thread) Exit(e *Entry, clear func()) (interrupted bool) {
	c := t.cur
	c.frames = c.frames[:len(c.frames)-1]
	if e.NoWait {
		c.noWait--
	}
	if e.Meter == nil {
		return false
	}
	c.meter = e.outer
	if !e.owns {
		t.clock.mu.Lock()
		defer t.clock.mu.Unlock()
		t.clock.switchLocked(c.meter)
		return e.Meter.fired
	}
	interrupted = t.clock.end(e.Meter, e.outer, clear)
	if interrupted && e.Meter.in != nil {
		e.Meter.in.overran(t.Cause(e.Meter))
	}
	return interrupted
}

// Cause is why the meter has interrupted its VM: ErrDeadline, ErrMemory, or nil if it has
// not.
func (t *Thread) Cause(m *Meter) error {
	if m == nil {
		return nil
	}
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return m.cause
}
