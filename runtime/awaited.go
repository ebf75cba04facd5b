package runtime

import "slices"

// awaited is a call of a script's listener that somebody waits for. Used on the thread.
type awaited struct {
	listener *Listener
	hook     *Hook
}

// awaits notes that a listener is waited for, settled that it is no more.
func (h *Host) awaits(hook *Hook, l *Listener) { h.awaited = append(h.awaited, awaited{l, hook}) }

func (h *Host) settled(hook *Hook) {
	for i := len(h.awaited) - 1; i >= 0; i-- {
		if h.awaited[i].hook == hook {
			h.awaited = slices.Delete(h.awaited, i, i+1)
			return
		}
	}
}

// AwaitedBy is the listener of a script that owner waits for at this moment, the one
// called last; nil when it waits for none. One that is inside next, or that waits for a
// person or another agent itself, holds nothing up. On the thread.
func (h *Host) AwaitedBy(owner any) *Listener {
	for _, a := range slices.Backward(h.awaited) {
		if a.hook.Owner() == owner && !a.hook.paused() {
			return a.listener
		}
	}
	return nil
}

// paused says that the listener's wall clock stands still.
func (h *Hook) paused() bool {
	h.wall.mu.Lock()
	defer h.wall.mu.Unlock()
	return h.wall.paused > 0
}
