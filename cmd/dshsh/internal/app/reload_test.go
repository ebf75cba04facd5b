package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dshsh/bindings/js"
	"dshsh/bindings/lua"
	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
	"dshsh/runtime/reload"
)

// rig is a loop with both engines, whose scripts come from a folder that is watched.
type rig struct {
	t     testing.TB
	h     *loop.Host
	m     *reload.Manager
	a     loop.Agent
	model *modeltest.Provider
	dir   string

	mu    sync.Mutex // guards what follows
	force chan int   // generations that came into force
	said  []string
}

// notices keeps what scripts print.
type notices struct {
	loop.NoNotices
	r *rig
}

func (n notices) Logged(_ *runtime.Instance, _, text string) {
	n.r.mu.Lock()
	defer n.r.mu.Unlock()
	n.r.said = append(n.r.said, text)
}

func newRig(t testing.TB, files map[string]string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), force: make(chan int, 10000), model: modeltest.New().Otherwise(modeltest.Text("ok"))}
	for name, text := range files {
		r.save(name, text)
	}
	var err error
	r.h, err = loop.New(loop.Config{
		Engines: []runtime.Engine{js.Engine(), lua.Engine()}, Providers: []model.Provider{r.model}, Notices: notices{r: r},
		Limits: runtime.Limits{Sync: 200},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.m = reload.New(reload.Config{Host: r.h.Host, Folders: []reload.Folder{{Layer: runtime.LayerProject, Dir: r.dir}}, Linger: 100 * time.Millisecond,
		Activated: func(_, g *runtime.Generation) { r.h.Greet(); r.force <- g.N }})
	t.Cleanup(func() { r.m.Close(); r.h.Stop() })
	if rep, err := r.m.Start(context.Background()); err != nil || len(rep.Failures) > 0 {
		t.Fatal(err, rep)
	}
	for len(r.force) > 0 {
		<-r.force
	}
	r.do(func() {
		r.a, err = r.h.Create(loop.CreateOptions{Options: loop.Options{Provider: r.model.Name(), Model: "m"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// save writes beside and renames, as editors do.
func (r *rig) save(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path+".tmp~", []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp~", path); err != nil {
		r.t.Fatal(err)
	}
}

// inForce waits for the next generation.
func (r *rig) inForce() {
	r.t.Helper()
	select {
	case <-r.force:
	case <-time.After(20 * time.Second):
		r.t.Fatal("no new generation in 20 s")
	}
}

func (r *rig) do(fn func()) {
	r.t.Helper()
	if err := r.h.Do(context.Background(), fn); err != nil {
		r.t.Fatal(err)
	}
}

// prompt sends a prompt and waits until the agent is idle.
func (r *rig) prompt(text string) {
	r.t.Helper()
	var err error
	r.do(func() { err = r.a.Followup(loop.UserMessage(text)) })
	if err != nil {
		r.t.Fatal(err)
	}
	r.do(func() { err = r.a.WhenIdle(context.Background()) })
	if err != nil {
		r.t.Fatal(err)
	}
}

// take gives what scripts have printed since the last take.
func (r *rig) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := strings.Join(r.said, "\n")
	r.said = nil
	return out
}
