// Package reload keeps a host's scripts as the files in the script folders are: it loads
// them at the start, watches the folders, and brings into force what is saved.
//
// What changed is compiled off the host thread and run in new VMs beside the live ones;
// only when all of it has loaded does it become the newest generation, in which scripts
// that did not change keep their VM. A failure leaves the generation whole. What an
// activity holds is not the manager's matter: it only activates, and a turn keeps the
// generation that it began with.
//
// A script that fails at its first load after the start has nothing older to fall back
// on: a stand-in takes its place in the generation (runtime.Host.StandIn), and whoever
// owns the tools denies them while Generation.Failed of the generation that the agent
// holds is not empty. It goes when the script is mended, removed or switched off.
//
// A script is known by its identity, layer and file name: "project/guard.js".
package reload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"dshsh/runtime"
)

// Errors that Manager's methods return, wrapped.
var (
	ErrNotStarted = errors.New("scripts are not started")
	ErrClosed     = errors.New("scripts are closed")
	ErrUnknown    = errors.New("no such script")
	ErrAmbiguous  = errors.New("more than one script has that name")
	ErrNotHeld    = errors.New("nothing of it is held")
	ErrNotShown   = errors.New("has changed since it was shown")
	ErrNoOlder    = errors.New("nothing that was saved since the start is left to undo")
)

// Folder is a place where scripts lie. Immutable.
type Folder struct {
	Layer runtime.Layer
	// Dir is the folder. It need not exist yet. In an FS it is the folder within, "." for
	// the top.
	Dir string
	// FS holds bundled scripts. It is read once and not watched, and its scripts cannot
	// require.
	FS fs.FS
	// Only restricts it to these file names; nil = all that count.
	Only []string
}

func (f Folder) has(name string) bool { return f.Only == nil || slices.Contains(f.Only, name) }

// Config configures New. Immutable. The callbacks are called one at a time; those that
// are called off the thread are called from the manager's goroutine, which reloads
// nothing until they return, and may call no method of the Manager but Status.
type Config struct {
	// Host is where the scripts run. From Start on, only the manager activates
	// generations on it.
	Host *runtime.Host
	// Folders are at most one per layer.
	Folders []Folder
	// Files are scripts named by hand, of the layer command line.
	Files []string
	// Off are the identities of scripts that are switched off from the start.
	Off []string

	// Gate decides about changes of all scripts that are files, before they are compiled:
	// one verdict per candidate, Hold for those that it leaves out. At Start it
	// may ask a person; later it should answer at once, and Hold is how to ask. nil takes
	// everything. Off the thread; ctx ends at Close and with the call that caused it.
	Gate func(ctx context.Context, cs []Candidate) []Verdict
	// Ask decides about a script that has loaded, before it comes into force: old is the
	// instance that it replaces, or nil. Where the new one needs more than was granted,
	// Hold puts it off until Take, while old stays. nil takes everything. On the thread,
	// and may not wait.
	Ask func(old, new *runtime.Instance) Verdict
	// Activated is told of every new generation, in the same hold of the thread, before
	// anything else runs. It may not wait.
	Activated func(old, new *runtime.Generation)
	// Notify is told of every attempt that has something to tell, those made by hand
	// included, in order. Off the thread.
	Notify func(Report)

	// Now is the clock of Candidate.Since; nil = time.Now. What is waited for goes by the
	// real one.
	Now func() time.Time
	// Settle is how long files must be quiet before they are looked at (40 ms), SettleMax
	// how long noise can put that off (300 ms).
	Settle, SettleMax time.Duration
	// Linger is how long a file must have been missing or empty before that is believed
	// (1 s): a save may look like it half way.
	Linger time.Duration
	// Poll is how often the files are looked at though nothing was reported (2 s),
	// PollAlone where watching does not work (1 s).
	Poll, PollAlone time.Duration

	// open makes the system's watcher; tests have it fail.
	open func() (*fsnotify.Watcher, error)
}

func (c Config) withDefaults() Config {
	or := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	or(&c.Settle, 40*time.Millisecond)
	or(&c.SettleMax, 300*time.Millisecond)
	or(&c.Linger, time.Second)
	or(&c.Poll, 2*time.Second)
	or(&c.PollAlone, time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.open == nil {
		c.open = fsnotify.NewWatcher
	}
	return c
}

// Manager keeps the scripts of one host. Its methods are called from any goroutine, off
// the host thread. One goroutine of its own owns its state and enters the thread by
// Host.Do.
type Manager struct {
	c     Config
	files []string // Config.Files, absolute

	ops    chan func()
	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine is gone

	startMu sync.Mutex  // serialises Start and Close; guards running
	running bool        // the goroutine was started
	started atomic.Bool // the first load is done

	mu        sync.Mutex // guards published
	published []Script

	// What follows is used by the manager's goroutine.
	scripts  map[string]*script
	off      map[string]bool // identities, also of files that are not there
	bundles  map[runtime.Layer][]*found
	units    map[string][]*unit // compiled scripts by identity, newest last
	history  []undo             // what changes by saving replaced, newest last
	doubts   doubts
	watch    *watch
	lingers  time.Time // when a doubt is to be looked at again; zero = none
	polls    time.Time // when to look without being told to
	reopens  time.Time // when to try again to watch, if that does not work
	lastLook time.Time // when the last look began that left nothing open
	said     string    // the last notice about watching
	gen      int       // the number of the newest generation

	brokenSaid []string        // the last notices about folders
	hinted     map[string]bool // files that look like scripts and are none, told of once
}

// New returns a manager that has not started.
func New(c Config) *Manager {
	m := &Manager{
		c: c.withDefaults(), ops: make(chan func()), done: make(chan struct{}),
		scripts: map[string]*script{}, off: map[string]bool{}, units: map[string][]*unit{}, doubts: doubts{}, hinted: map[string]bool{}, bundles: map[runtime.Layer][]*found{},
	}
	m.c.Folders = slices.Clone(c.Folders) // their paths are made absolute
	m.ctx, m.cancel = context.WithCancel(context.Background())
	for _, id := range c.Off {
		m.off[id] = true
	}
	return m
}

// Start loads the scripts and begins to watch. Scripts that fail are in the report, and
// do not make it fail; a file of Config.Files that is missing or that no engine takes
// does, and so do two scripts of one identity. ctx bounds the first load alone. A manager
// starts once.
func (m *Manager) Start(ctx context.Context) (Report, error) {
	m.startMu.Lock()
	defer m.startMu.Unlock()
	if m.running || m.ctx.Err() != nil {
		return Report{}, errors.New("starting scripts: they were started before")
	}
	if err := m.prepare(); err != nil {
		return Report{}, fmt.Errorf("starting scripts: %w", err)
	}
	m.running = true
	m.watch = newWatch(m.c.open, m.counts)
	go m.run()
	var r Report
	err := m.enter(ctx, func(ctx context.Context) (err error) {
		r, err = m.attempt(ctx, &attempt{trigger: TriggerStart, byHand: true})
		return err
	})
	if err != nil {
		m.stop()
		return r, fmt.Errorf("starting scripts: %w", err)
	}
	m.started.Store(true)
	return r, nil
}

// prepare checks what can be known without loading anything.
func (m *Manager) prepare() error {
	layers := map[runtime.Layer]bool{}
	for i, f := range m.c.Folders {
		if layers[f.Layer] {
			return fmt.Errorf("two script folders for the layer %s: give it one", f.Layer)
		}
		layers[f.Layer] = true
		if f.FS == nil {
			dir, err := filepath.Abs(f.Dir)
			if err != nil {
				return fmt.Errorf("script folder %s: %w", f.Dir, err)
			}
			m.c.Folders[i].Dir = dir
		}
	}
	if layers[runtime.LayerCommandLine] && len(m.c.Files) > 0 {
		return fmt.Errorf("both a folder and files for the layer %s: give it one", runtime.LayerCommandLine)
	}
	names := map[string]string{}
	for _, file := range m.c.Files {
		path, err := filepath.Abs(file)
		if err != nil {
			return fmt.Errorf("script %s: %w", file, err)
		}
		fi, err := os.Stat(path)
		if err == nil && !fi.Mode().IsRegular() {
			err = errors.New("it is not a file")
		}
		if err == nil {
			_, err = m.c.Host.EngineFor(path)
		}
		if err != nil {
			return fmt.Errorf("script %s: %w", file, err)
		}
		name := filepath.Base(path)
		if other, ok := names[name]; ok && other != path {
			return fmt.Errorf("scripts %s and %s would both be %s: rename one", other, path, identity(runtime.LayerCommandLine, name))
		} else if !ok {
			names[name] = path
			m.files = append(m.files, path)
		}
	}
	return nil
}

// Close ends the watching and waits for what is being loaded. The scripts stay in force;
// runtime.Host.Close disposes them.
func (m *Manager) Close() {
	m.cancel() // also what Start is doing
	m.startMu.Lock()
	defer m.startMu.Unlock()
	if m.running {
		m.stop()
	}
}

// stop ends the goroutines.
func (m *Manager) stop() {
	m.cancel()
	<-m.done
	m.watch.close()
}

// run is the manager's goroutine.
func (m *Manager) run() {
	defer close(m.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := earliest(m.watch.pending().due(m.c.Settle, m.c.SettleMax), m.lingers, m.polls)
		if next.IsZero() {
			timer.Reset(time.Hour)
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-m.ctx.Done():
			return
		case op := <-m.ops:
			op()
		case <-m.watch.poke:
		case <-timer.C:
			if err := m.safely(m.wake); err != nil {
				m.trouble(err)
			}
		}
	}
}

// wake does what is due.
func (m *Manager) wake() {
	now := time.Now()
	past := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	switch {
	case past(m.watch.pending().due(m.c.Settle, m.c.SettleMax)), past(m.lingers):
		if _, err := m.attempt(m.ctx, &attempt{trigger: TriggerSave}); err != nil {
			m.trouble(err)
		}
	case past(m.polls):
		m.poll()
	}
}

// poll looks without being told to, because watching may miss something or not work at
// all. What it finds is waited out like what is reported.
func (m *Manager) poll() {
	defer m.schedulePoll()
	now := time.Now()
	if m.watch.w == nil && now.After(m.reopens) {
		m.watch.start(m.c.open)
		m.reopens = now.Add(30 * time.Second)
	}
	v := m.look()
	if line := m.watchNotice(); line != "" {
		m.notify(Report{Trigger: TriggerWatch, Old: m.gen, New: m.gen, Notices: []string{line}})
	}
	if m.differs(v, now) {
		m.watch.note("")
	} else {
		m.lastLook = now
	}
}

func (m *Manager) schedulePoll() {
	every := m.c.Poll
	if m.watch.why != nil {
		every = m.c.PollAlone
	}
	m.polls = time.Now().Add(every)
}

// watchNotice is a line when watching has begun to work or ceased to, else "".
func (m *Manager) watchNotice() string {
	line := ""
	if m.watch.why != nil {
		line = fmt.Sprintf("saves are not reported (%v): looking every %v, /reload looks at once", m.watch.why, m.c.PollAlone)
	}
	if line == m.said {
		return ""
	}
	m.said = line
	if line == "" {
		line = "saves are reported again"
	}
	return line
}

// do runs fn on the manager's goroutine. ctx reaches fn, which must end with it.
func (m *Manager) do(ctx context.Context, fn func(ctx context.Context) error) error {
	if !m.started.Load() {
		return ErrNotStarted
	}
	return m.enter(ctx, fn)
}

func (m *Manager) enter(ctx context.Context, fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.ctx, func() { cancel(ErrClosed) })()
	var err error
	done := make(chan struct{})
	op := func() {
		defer close(done)
		if perr := m.safely(func() { err = fn(ctx) }); perr != nil {
			err = perr
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case m.ops <- op:
		<-done
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.done:
		return ErrClosed
	}
}

// safely runs fn and turns a panic of it, or of a callback, into an error.
func (m *Manager) safely(fn func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &runtime.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	fn()
	return nil
}

// trouble tells of what kept an attempt from being made. The end of the manager or of the
// thread is none.
func (m *Manager) trouble(err error) {
	if m.ctx.Err() == nil && !errors.Is(err, runtime.ErrThreadClosed) {
		m.notify(Report{Trigger: TriggerSave, Old: m.gen, New: m.gen, Notices: []string{fmt.Sprintf("loading scripts: %v", err)}})
	}
}

func (m *Manager) notify(r Report) {
	if m.c.Notify == nil || r.Empty() {
		return
	}
	if err := m.safely(func() { m.c.Notify(r) }); err != nil {
		m.c.Host.Thread.Post(func() { m.c.Host.Report(runtime.Failure{What: "report of a reload", Err: err}) })
	}
}
