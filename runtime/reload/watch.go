package reload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watch turns what the file system reports into one question: is it time to look again?
// It reads events on a goroutine of its own, so that none is late or lost while scripts
// are being loaded. Its other methods are called by the manager's goroutine.
type watch struct {
	w      *fsnotify.Watcher      // nil: polling
	why    error                  // why there is no watching, or none of some folders
	dirs   map[string]os.FileInfo // watched, with what they were then
	counts func(name string) bool
	wg     sync.WaitGroup
	poke   chan struct{} // capacity 1: there is something to wait out

	mu     sync.Mutex // guards what follows
	wanted wanted
	burst  window
	seen   map[string]window // changes by path, since the last take
}

// wanted is what the filter lets through. Immutable.
type wanted struct {
	exact   map[string]bool // paths
	scripts map[string]bool // folders in which every file that counts is wanted
	any     map[string]bool // folders in which everything is wanted that is no leftover
}

func newWatch(open func() (*fsnotify.Watcher, error), counts func(string) bool) *watch {
	x := &watch{counts: counts, dirs: map[string]os.FileInfo{}, poke: make(chan struct{}, 1), seen: map[string]window{}}
	x.start(open)
	return x
}

// start opens the system's watcher, or notes why there is none.
func (x *watch) start(open func() (*fsnotify.Watcher, error)) {
	w, err := open()
	if err != nil {
		x.why = explain(err)
		return
	}
	x.w, x.why = w, nil
	x.wg.Add(1)
	go x.pump(w)
}

// explain adds what the bare errors of inotify leave out.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w: this user's inotify instances are used up; raise fs.inotify.max_user_instances or end a program that watches files", err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: the limit is on inotify watches, not on the disk; raise fs.inotify.max_user_watches", err)
	}
	return err
}

func (x *watch) close() {
	if x.w != nil {
		_ = x.w.Close() // nothing is lost with it
	}
	x.wg.Wait()
}

// pump reads events until the watcher is closed.
func (x *watch) pump(w *fsnotify.Watcher) {
	defer x.wg.Done()
	for {
		select {
		case ev, ok := <-w.Events:
			if !ok {
				return
			}
			if ev.Op&^fsnotify.Chmod != 0 {
				x.event(ev.Name)
			}
		case _, ok := <-w.Errors:
			if !ok {
				return
			}
			// Whatever was lost (a full queue, as a rule), a look finds it.
			x.note("")
		}
	}
}

func (x *watch) event(path string) {
	dir, name := filepath.Dir(path), filepath.Base(path)
	x.mu.Lock()
	is := x.wanted
	x.mu.Unlock()
	if is.exact[path] || is.scripts[path] || is.scripts[dir] && x.counts(name) || is.any[dir] && !leftover(name) {
		x.note(path)
	}
}

// note takes a change into the burst; path "" stands for a change of nobody knows what.
// Any goroutine.
func (x *watch) note(path string) {
	now := time.Now()
	x.mu.Lock()
	x.burst.note(now)
	if path != "" {
		w := x.seen[path]
		w.note(now)
		x.seen[path] = w
	}
	x.mu.Unlock()
	select {
	case x.poke <- struct{}{}:
	default:
	}
}

// pending is the burst that is being waited out.
func (x *watch) pending() window {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.burst
}

// take ends the burst and gives the changes by path since the last take.
func (x *watch) take() map[string]window {
	x.mu.Lock()
	defer x.mu.Unlock()
	seen := x.seen
	x.seen, x.burst = map[string]window{}, window{}
	return seen
}

// sync watches what v depends on and nothing else, and says whether a folder is watched
// that was not: what happened in it before is still to be looked at.
func (x *watch) sync(v *view) (added bool) {
	is := wanted{exact: map[string]bool{}, scripts: map[string]bool{}, any: map[string]bool{}}
	dirs := map[string]bool{}
	for _, p := range v.points {
		is.exact[p.path()] = true
		dirs[p.dir] = true
	}
	for _, dir := range v.folders {
		is.scripts[dir] = true
		dirs[dir] = true
	}
	for dir := range v.lacking {
		is.any[dir] = true
		dirs[dir] = true
	}
	x.mu.Lock()
	x.wanted = is
	x.mu.Unlock()
	if x.w == nil {
		return false
	}
	alive := map[string]bool{}
	for _, dir := range x.w.WatchList() {
		alive[dir] = true
	}
	for dir := range x.dirs {
		if !dirs[dir] {
			x.drop(dir)
		}
	}
	x.why = nil
	for dir := range dirs {
		fi, err := os.Stat(dir)
		if err != nil || !fi.IsDir() {
			x.drop(dir)
			continue
		}
		// A folder that was moved away and replaced keeps its watch, on the old one.
		if had := x.dirs[dir]; had != nil && alive[dir] && os.SameFile(had, fi) {
			continue
		}
		x.drop(dir)
		if err := x.w.Add(dir); err != nil {
			if !isMissing(err) {
				x.why = explain(fmt.Errorf("%s: %w", dir, err))
			}
			continue
		}
		x.dirs[dir] = fi
		added = true
	}
	return added
}

func (x *watch) drop(dir string) {
	if x.dirs[dir] != nil {
		delete(x.dirs, dir)
		_ = x.w.Remove(dir) // it may have gone with the folder
	}
}
