package reload

import "time"

// window is one burst of changes that is being waited out. Guarded by its owner.
type window struct {
	first, last time.Time // zero: nothing is waited for
}

// note takes another change into the window.
func (w *window) note(now time.Time) {
	if w.first.IsZero() {
		w.first = now
	}
	w.last = now
}

// due is when to look: quiet after the last change, but never later than most after the
// first, so that constant noise cannot starve a save. Zero when nothing is waited for.
func (w window) due(quiet, most time.Duration) time.Time {
	if w.first.IsZero() {
		return time.Time{}
	}
	return earliest(w.last.Add(quiet), w.first.Add(most))
}

// earliest is the first of the times that are not zero.
func earliest(times ...time.Time) time.Time {
	var out time.Time
	for _, t := range times {
		if !t.IsZero() && (out.IsZero() || t.Before(out)) {
			out = t
		}
	}
	return out
}

// doubt is a script that has gone missing or empty where it was not: what a save by
// truncating and writing, a rename or a checkout looks like half way. It is believed
// only when it has stayed so.
type doubt struct {
	since time.Time
	sign  string // what there is instead; another sign is another state, and starts anew
}

// doubts are kept by identity. Used by the manager's goroutine.
type doubts map[string]doubt

// believe takes a sighting of a doubtful state and says since when it has stayed so. at
// is the last change that was reported for its files, zero if none was.
func (d doubts) believe(id, sign string, at, now time.Time) (since time.Time) {
	had, ok := d[id]
	if !ok || had.sign != sign {
		had = doubt{since: now, sign: sign}
	}
	if at.After(had.since) {
		had.since = at
	}
	d[id] = had
	return had.since
}
