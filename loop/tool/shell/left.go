package shell

import "time"

// lookEvery is how often it is looked whether what commands have left behind still runs,
// and lookTwice how soon once more when nothing was found: a process that is just starting
// another program has no environment to know it by, and one that has just been forked by a
// parent that ended is on no list.
const (
	lookEvery = time.Second
	lookTwice = 250 * time.Millisecond
)

// watchLeft has Config.Lingering told, beside everything else, when commands have left
// processes that run on, and when these have gone. Not every one of them is seen at the end
// of its call: one with a process group and an output of its own is found only by a look at
// all processes, which takes its time.
func (b *Bash) watchLeft() {
	if b.cfg.Lingering == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lookAgain = true; b.looking || b.closed {
		return
	}
	b.looking = true
	b.wg.Go(b.look)
}

func (b *Bash) look() {
	var gone func()
	for b.more() {
		for misses := 0; misses < 2; {
			wait := lookEvery
			if b.anyLeft() {
				misses = 0
				if gone == nil {
					gone = b.cfg.Lingering()
				}
			} else if misses++; misses == 2 {
				break
			} else {
				wait = lookTwice
			}
			select {
			case <-time.After(wait):
			case <-b.ending:
			}
		}
	}
	if gone != nil {
		gone()
	}
}

// more says whether to look, or that the goroutine is over.
func (b *Bash) more() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looking = b.lookAgain && !b.closed
	b.lookAgain = false
	return b.looking
}

// anyLeft says whether anything that commands have started runs. When the tool is closed
// that is no longer its business.
func (b *Bash) anyLeft() bool {
	b.mu.Lock()
	closed, groups := b.closed, b.groups
	b.mu.Unlock()
	if closed {
		return false
	}
	if findsMarker {
		return len(find(0, b.marker+"=")) > 0
	}
	for _, g := range groups {
		if groupAlive(g) {
			return true
		}
	}
	return false
}
