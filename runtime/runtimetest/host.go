// Package runtimetest has what tests of the runtime, and of what is built on it, need
// instead of a real language: a toy engine whose scripts are Go functions, in VMs that
// behave like JavaScript's or like Lua's, a catalogue of five events, and a host that
// fails the test if anything is left over.
package runtimetest

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"dshsh/runtime"
)

// Host is a host with a toy engine, watched by the test.
type Host struct {
	*runtime.Host
	Toy   *Toy
	Trace *Trace
	Seen  *Seen

	t       testing.TB
	defined int
}

// NewHost returns a host in debug mode. At the end of the test its thread must be free,
// every script disposed once nothing holds it, and every failure taken from Seen.
func NewHost(t testing.TB, edit ...func(*runtime.HostConfig)) *Host {
	h := &Host{Toy: Engine(), Trace: &Trace{t: t}, Seen: &Seen{}, t: t}
	c := runtime.HostConfig{
		Events: Catalogue(), Engines: []runtime.Engine{h.Toy}, Observer: h.Seen,
		Thread: runtime.ThreadOptions{Debug: true, OnPanic: func(p *runtime.PanicError) {
			h.Seen.panics = append(h.Seen.panics, p)
		}},
	}
	for _, f := range edit {
		f(&c)
	}
	h.Host = runtime.NewHost(c)
	t.Cleanup(h.end)
	return h
}

// Run runs fn on the thread.
func (h *Host) Run(fn func()) {
	h.t.Helper()
	if err := h.Do(context.Background(), fn); err != nil {
		h.t.Fatalf("on the thread: %v", err)
	}
}

// Load runs a script's top level and returns the instance, which Use or Discard takes.
// id is "layer/name.toy". On the thread.
func (h *Host) Load(id string, kind Kind, top func(*Call) error) (*runtime.Instance, error) {
	h.defined++
	name := fmt.Sprintf("toy%d", h.defined)
	h.Toy.Define(name, top)
	file := path.Base(id)
	p, err := h.Toy.Compile(runtime.Source{ID: id, File: file, Code: []byte(string(kind) + " " + name)})
	if err != nil {
		return nil, err
	}
	layer := map[string]runtime.Layer{
		"bundled": runtime.LayerBundled, "user": runtime.LayerUser, "project": runtime.LayerProject, "cli": runtime.LayerCommandLine,
	}[path.Dir(id)]
	return h.Host.Load(runtime.ScriptFile{ID: id, File: file, Hash: name, Layer: layer, Program: p})
}

// Script is Load of a script that loads.
func (h *Host) Script(id string, kind Kind, top func(*Call)) *runtime.Instance {
	h.t.Helper()
	in, err := h.Load(id, kind, func(c *Call) error { top(c); return nil })
	if err != nil {
		h.t.Fatalf("%s: %v", id, err)
	}
	return in
}

// Use makes a generation of the scripts, which are in order. On the thread.
func (h *Host) Use(ins ...*runtime.Instance) *runtime.Generation { return h.Activate(ins) }

// end checks that nothing is left over.
func (h *Host) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.Do(ctx, func() { h.Activate(nil) }); err != nil {
		h.t.Errorf("the thread was not given up: %v", err)
		return // Close would wait for ever
	}
	for deadline := time.Now().Add(10 * time.Second); len(h.Toy.Open()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Errorf("something still holds %s", strings.Join(h.Toy.Open(), ", "))
			break
		}
	}
	h.Close()
	if open := h.Toy.Open(); len(open) > 0 {
		h.t.Errorf("not disposed: %s", strings.Join(open, ", "))
	}
	for _, f := range h.Seen.Take() {
		if !h.Seen.Tolerant {
			h.t.Errorf("unexpected failure: %s", f)
		}
	}
	for _, p := range h.Seen.panics {
		h.t.Errorf("unexpected panic: %v\n%s", p, p.Stack)
	}
}

// Seen is what the host told its observer. Used on the thread; after Close by the test.
type Seen struct {
	Failures    []runtime.Failure
	Decisions   []runtime.Decision
	Quarantines []string
	Rebuilds    []string
	Lines       []string

	// Tolerant has failures that nobody took pass at the end of the test.
	Tolerant bool
	// OnRebuilt is called when a script was rebuilt.
	OnRebuilt func(*runtime.Instance)

	panics []*runtime.PanicError
}

var _ runtime.Observer = (*Seen)(nil)

// Failed implements runtime.Observer.
func (s *Seen) Failed(f runtime.Failure) { s.Failures = append(s.Failures, f) }

// Decided implements runtime.Observer.
func (s *Seen) Decided(d runtime.Decision) { s.Decisions = append(s.Decisions, d) }

// Quarantined implements runtime.Observer.
func (s *Seen) Quarantined(in *runtime.Instance, reason error) {
	s.Quarantines = append(s.Quarantines, in.ID+": "+reason.Error())
}

// Rebuilt implements runtime.Observer.
func (s *Seen) Rebuilt(in *runtime.Instance) {
	s.Rebuilds = append(s.Rebuilds, in.ID)
	if s.OnRebuilt != nil {
		s.OnRebuilt(in)
	}
}

// Logged implements runtime.Observer.
func (s *Seen) Logged(in *runtime.Instance, level, text string) {
	s.Lines = append(s.Lines, in.File+" "+level+" "+text)
}

// Take returns the failures so far, as texts, and forgets them.
func (s *Seen) Take() []string {
	var out []string
	for _, f := range s.Failures {
		text := f.Err.Error()
		if f.What != "" {
			text = f.What + ": " + text
		}
		out = append(out, text)
	}
	s.Failures = nil
	return out
}

// TakePanics returns the recovered panics so far and forgets them.
func (s *Seen) TakePanics() []*runtime.PanicError {
	p := s.panics
	s.panics = nil
	return p
}

// Trace records what happened, in order. Any goroutine.
type Trace struct {
	t   testing.TB
	mu  sync.Mutex // guards all
	all []string
}

// Add records one step.
func (tr *Trace) Add(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.all = append(tr.all, fmt.Sprintf(format, args...))
}

// Take returns the steps so far, separated by spaces, and forgets them.
func (tr *Trace) Take() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	got := strings.Join(tr.all, " ")
	tr.all = nil
	return got
}

// Want fails the test unless exactly these steps have happened, and forgets them.
func (tr *Trace) Want(want string) {
	tr.t.Helper()
	if got := tr.Take(); got != want {
		tr.t.Errorf("happened: %s\n    want: %s", got, want)
	}
}
