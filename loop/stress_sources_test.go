package loop_test

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"weak"

	"dshsh/bindings/js"
	"dshsh/bindings/lua"
	"dshsh/loop"
	"dshsh/runtime"
	"dshsh/session"
)

//go:embed testdata/stress
var stressScripts embed.FS

// stormFile is one script, compiled once for all its instances.
type stormFile struct {
	file string
	code string
	prog runtime.Program
}

var stormNames = []string{"guard.js", "guard.lua", "keep.js", "keep.lua", "turns.js", "turns.lua", "watch.js", "watch.lua", "wrap.js", "wrap.lua"}

func (s *storm) readScripts() (out []*stormFile) {
	read := func(name string) string {
		b, err := stressScripts.ReadFile("testdata/stress/" + name)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(b)
	}
	for _, file := range stormNames {
		code := fmt.Sprintf("const ME = '%s';\n", file)
		if path.Ext(file) == ".lua" {
			code = fmt.Sprintf("local ME = '%s'\n", file)
		}
		code += read("kit"+path.Ext(file)) + read(file)
		f := &stormFile{file: file, code: code}
		var err error
		if f.prog, err = compile(file, code); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

func compile(file, code string) (runtime.Program, error) {
	for _, e := range []runtime.Engine{js.Engine(), lua.Engine()} {
		if slices.Contains(e.Extensions(), path.Ext(file)) {
			return e.Compile(runtime.Source{ID: "project/" + file, File: file, Code: []byte(code)})
		}
	}
	return nil, errors.ErrUnsupported
}

func (s *storm) load(file string, prog runtime.Program) (*runtime.Instance, error) {
	return s.h.Load(runtime.ScriptFile{ID: "project/" + file, File: file, Hash: file, Layer: runtime.LayerProject, Program: prog})
}

// reload replaces n scripts by new instances of them and shares the rest, as a save
// does. With a stand-in one more script is there that could not be loaded. It is false
// where a script has used up its time while it was loaded. On the thread.
func (s *storm) reload(n int, standIn bool) bool {
	old := map[string]*runtime.Instance{}
	for _, in := range s.h.Current().Instances {
		old[in.File] = in
	}
	fresh := map[string]*runtime.Instance{}
	for range n {
		f := s.files[s.dice(len(s.files))]
		if n == len(s.files) {
			f = s.files[len(fresh)]
		}
		if fresh[f.file] != nil {
			continue
		}
		in, err := s.load(f.file, f.prog)
		if err != nil {
			if !expected(err.Error()) {
				s.fault("%s does not load: %v", f.file, err)
			}
			for _, in := range fresh {
				s.h.Discard(in)
			}
			return false
		}
		fresh[f.file] = in
	}
	var ins []*runtime.Instance
	for _, f := range s.files {
		if in := fresh[f.file]; in != nil {
			ins = append(ins, in)
		} else {
			ins = append(ins, old[f.file])
		}
	}
	if standIn {
		ins = append(ins, s.h.StandIn(runtime.ScriptFile{ID: "project/zero.js", File: "zero.js", Layer: runtime.LayerProject}, errors.New("a stand-in")))
	}
	info := &genInfo{instances: map[weakInstance]bool{}, standIn: standIn}
	for _, in := range ins {
		info.instances[weak.Make(in)] = true
	}
	s.mu.Lock()
	// What runs in Activate may begin a turn of the new generation.
	s.gens[s.h.Current().N+1] = info
	s.mu.Unlock()
	g := s.h.Activate(ins)
	s.h.Greet()
	s.mu.Lock()
	if s.gens[g.N] != info {
		s.faultLocked("generation %d is not the next one", g.N)
	}
	s.counts["reloads"]++
	s.counts["scripts replaced"] += len(fresh)
	s.mu.Unlock()
	return true
}

// Scripts that do not load, each in another way.
var badScripts = []struct{ file, code string }{
	{"bad.js", "ctx.on('agent/status', () => {"},
	{"bad.js", "throw new Error('failed to load')"},
	{"bad.js", "ctx.on('agent/statu', () => {})"},
	{"bad.js", "ctx.agents.list()"},
	{"bad.js", "ctx.spawn(() => ctx.storm.fault('spawned by what did not load')); ctx.after(0, () => ctx.storm.fault('a timer of what did not load')); throw new Error('failed to load')"},
	{"bad.js", "for (;;);"},
	{"bad.lua", "ctx.on('agent/status', function() "},
	{"bad.lua", "error('failed to load')"},
	{"bad.lua", "ctx.on('agent/status', 1)"},
	{"bad.lua", "ctx.sleep(1)"},
	{"bad.lua", "ctx.spawn(function() ctx.storm.fault('spawned by what did not load') end) ctx.effect(function() ctx.storm.fault('an effect') end) error('failed to load')"},
	{"bad.lua", "while true do end"},
}

func (s *storm) reloadBadly() {
	i := s.dice(len(badScripts))
	if strings.Contains(badScripts[i].code, "for (;;)") || strings.Contains(badScripts[i].code, "while true") {
		if s.dice(10) > 0 {
			return // holds the thread for as long as it may
		}
	}
	prog, err := compile(badScripts[i].file, badScripts[i].code)
	if err != nil {
		return
	}
	s.do(func() {
		if in, err := s.load(badScripts[i].file, prog); err == nil {
			s.fault("loaded: %s", badScripts[i].code)
			s.h.Discard(in)
		}
	})
	s.count("reloads that fail", 1)
}

// newAgent makes one. Two of a round are restless. Any goroutine.
func (s *storm) newAgent() {
	for {
		s.mu.Lock()
		s.nextID++
		kind := "a"
		if s.nextID%4 == 0 {
			kind = "r"
		}
		id := fmt.Sprintf("%s%d", kind, s.nextID)
		s.mu.Unlock()
		var err error
		s.do(func() {
			var a loop.Agent
			a, err = s.h.Create(loop.CreateOptions{Options: loop.Options{Provider: "storm", Model: "m"}, Header: session.Header{ID: id},
				Setup: func(a loop.Agent) error { s.born(a); return nil }})
			if err == nil && a.ID() != id {
				s.fault("asked for agent %s, got %s", id, a.ID())
			}
		})
		if err == nil {
			s.count("agents", 1)
			return
		}
		if !expected(err.Error()) {
			s.fault("creating %s: %v", id, err)
			return
		}
		s.count("creations vetoed", 1)
	}
}

// retire disposes an agent and checks what it leaves.
func (s *storm) retire(a loop.Agent) {
	var turn, step []string
	s.waitFor("the disposal of "+a.ID(), func() {
		s.do(func() {
			// While it ends nothing else may be taken for its inbox.
			for _, m := range a.Inbox().NextTurn() {
				turn = append(turn, m.ID)
			}
			for _, m := range a.Inbox().NextStep() {
				step = append(step, m.ID)
			}
			s.checkInbox(a, turn, step)
			if err := a.Dispose(); err != nil {
				s.fault("disposing %s: %v", a.ID(), err)
			}
		})
	})
	s.checkLog(a)
}

// pick is some live agent. On the thread.
func (s *storm) pick() loop.Agent {
	all := s.h.Agents()
	if len(all) == 0 {
		return nil
	}
	return all[s.dice(len(all))]
}

// start begins the sources.
func (s *storm) start() {
	every := func(most time.Duration, fn func()) {
		s.sources.Add(1)
		go func() {
			defer s.sources.Done()
			for {
				select {
				case <-s.calm:
					return
				case <-time.After(time.Duration(s.dice(int(most/time.Microsecond))) * time.Microsecond):
					fn()
				}
			}
		}()
	}
	every(6*time.Millisecond, s.prompt)
	every(6*time.Millisecond, s.prompt)
	every(30*time.Millisecond, s.edit)
	every(20*time.Millisecond, s.cancel)
	every(10*time.Millisecond, func() { s.do(func() { s.reload(1+s.dice(3), s.dice(15) == 0) }) })
	every(40*time.Millisecond, s.reloadBadly)
	every(80*time.Millisecond, s.replaceAgent)
	every(20*time.Millisecond, s.awaitIdle)
	every(30*time.Millisecond, s.maintain)
	every(15*time.Millisecond, s.command)
	every(10*time.Millisecond, s.probe)
	every(60*time.Millisecond, s.lift)
}

// lift switches a script off by hand now and then, and on again.
func (s *storm) lift() {
	s.do(func() {
		for _, in := range s.h.Current().Instances {
			switch {
			case in.Quarantined() != nil && s.dice(2) == 0:
				s.h.Lift(in)
				s.count("quarantines lifted", 1)
			case in.Quarantined() == nil && s.dice(60) == 0:
				s.h.Quarantine(in, errors.New("by hand: a model of the storm"))
			}
		}
	})
}

func (s *storm) prompt() {
	s.do(func() {
		a := s.pick()
		if a == nil {
			return
		}
		if a.Status() == loop.StatusRunning && len(a.Inbox().NextTurn()) > 5 {
			return
		}
		m := loop.UserMessage("prompt " + s.nonce(a.ID()))
		var err error
		switch s.dice(6) {
		case 0:
			err = a.Inject(m)
		case 1:
			err = a.Steer(m)
		default:
			err = a.Followup(m)
		}
		if err != nil && !errors.Is(err, loop.ErrDisposed) {
			s.fault("sending to %s: %v", a.ID(), err)
		}
	})
	s.count("prompts", 1)
}

func (s *storm) edit() {
	s.do(func() {
		a := s.pick()
		if a == nil {
			return
		}
		b, m := a.Inbox(), loop.UserMessage("edited "+s.nonce(a.ID()))
		var err error
		switch s.dice(5) {
		case 0:
			err = b.Prepend(loop.NextTurn, m)
		case 1:
			_, err = b.Splice(loop.NextStep, -1, 1, m)
		case 2:
			if ms := b.NextTurn(); len(ms) > 0 {
				_, err = b.Replace(ms[s.dice(len(ms))].ID, m)
			}
		case 3:
			if ms := b.NextStep(); len(ms) > 0 {
				_, err = b.Remove(ms[0].ID)
			}
		case 4:
			err = b.Clear()
		}
		if err != nil {
			s.fault("editing the inbox of %s: %v", a.ID(), err)
		}
	})
}

// cancel comes from outside, about once in five turns.
func (s *storm) cancel() {
	s.mu.Lock()
	if s.counts["cancels from outside"] > s.counts["turns begun"]/5 {
		s.mu.Unlock()
		return
	}
	var all []loop.Agent
	for _, a := range s.agents {
		all = append(all, a)
	}
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	a := all[s.dice(len(all))]
	a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{KeepInbox: s.dice(3) == 0})
	s.count("cancels from outside", 1)
}

func (s *storm) replaceAgent() {
	var a loop.Agent
	s.do(func() {
		all := s.h.Agents()
		for _, x := range all {
			if len(x.Session().Records()) > 2500 {
				a = x
			}
		}
		if a == nil && len(all) > 0 && s.dice(8) == 0 {
			a = all[s.dice(len(all))]
		}
	})
	if a == nil {
		return
	}
	s.retire(a)
	s.newAgent()
}

// awaitIdle: what whenIdle says is so.
func (s *storm) awaitIdle() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	s.do(func() {
		a := s.pick()
		if a == nil {
			return
		}
		switch err := a.WhenIdle(ctx); {
		case err == nil && a.Status() != loop.StatusIdle:
			s.fault("whenIdle: %s is %s", a.ID(), a.Status())
		case err != nil && ctx.Err() == nil:
			s.fault("whenIdle: %v", err)
		case err == nil:
			s.count("waits for idle", 1)
		}
	})
}

func (s *storm) maintain() {
	s.do(func() {
		a := s.pick()
		if a == nil {
			return
		}
		busy := a.Status() == loop.StatusRunning
		err := a.RunMaintenance(func(ctx context.Context) error {
			if busy {
				s.fault("maintenance of %s beside a turn", a.ID())
			}
			s.count("maintenances", 1)
			return s.h.Thread.Sleep(time.Duration(s.dice(4000))*time.Microsecond, ctx)
		})
		if err != nil && !expected(err.Error()) && !strings.Contains(err.Error(), "already has active work") {
			s.fault("maintenance: %v", err)
		}
	})
}

// command runs a script's command, which holds the generation that it began with.
func (s *storm) command() {
	s.do(func() {
		g := s.h.Current().Hold()
		defer g.Release()
		a := s.pick()
		name := []string{"js", "lua", "whoami"}[s.dice(3)]
		var scope any
		if a != nil {
			scope = a
		}
		r := g.Find(loop.OfferCommand, name, scope)
		if r == nil {
			return
		}
		n := s.nonce("command")
		out, err := r.Spec.(*loop.Command).Run(a, n)
		switch {
		case err != nil && !expected(err.Error()):
			s.fault("command %s: %v", name, err)
		case err == nil && name == "whoami" && out != a.ID()+" true", err == nil && name != "whoami" && out != "said "+n:
			s.fault("command %s %s says %q", name, n, out)
		}
		s.count("commands", 1)
	})
}

// probe measures how long somebody from outside waits for the thread.
func (s *storm) probe() {
	start := time.Now()
	s.waitFor("the thread", func() { s.do(func() {}) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited["the thread"] = max(s.waited["the thread"], time.Since(start))
}
