package reload

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dshsh/runtime"
)

// gate is a Config.Gate whose answer the test sets.
type gate struct {
	mu    sync.Mutex
	say   Verdict
	asked []Candidate
}

func (g *gate) answer(v Verdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.say, g.asked = v, nil
}

func (g *gate) ask(_ context.Context, cs []Candidate) []Verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, cs...)
	var out []Verdict
	for range cs {
		out = append(out, g.say)
	}
	return out
}

func (g *gate) last() Candidate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.asked) == 0 {
		return Candidate{}
	}
	return g.asked[len(g.asked)-1]
}

func newGated(t *testing.T) (*rig, *gate) {
	r, g := newRig(t), &gate{say: Take}
	r.c.Gate = g.ask
	return r, g
}

func TestUntrustedFolder(t *testing.T) {
	r, g := newGated(t)
	g.answer(Hold)
	r.c.Gate = func(ctx context.Context, cs []Candidate) []Verdict {
		out := g.ask(ctx, cs)
		for i, c := range cs {
			if c.Layer == runtime.LayerUser {
				out[i] = Take
			}
		}
		return out
	}
	user := filepath.Join(r.top, "user")
	r.mkdir(user)
	r.c.Folders = append(r.c.Folders, Folder{Layer: runtime.LayerUser, Dir: user})
	r.write(filepath.Join(user, "u.js"), "say u")
	r.write("a.js", "say a")
	r.write("b.js", "fail x")
	rep := r.start()
	if len(rep.Held) != 2 || r.e.parsed.Load() != 1 {
		t.Fatalf("held %v, and %d scripts were compiled, want 1", rep.Held, r.e.parsed.Load())
	}
	c := rep.Held[0]
	if c.ID != "project/a.js" || c.Kind != Added || !c.Since.IsZero() || len(c.Files) != 1 || string(c.Files[0].New) != "say a" || c.Hash == "" {
		t.Errorf("candidate %+v", c)
	}
	r.says("u")
	_, err := r.m.Reload(t.Context())
	r.ok(err)
	r.says("u") // by hand it stays held
	r.state("project/a.js", StateHeld)

	rep, err = r.m.Take(t.Context(), "a.js", "project/b.js")
	r.ok(err)
	r.says("u a")
	// It was there at the start, and has never loaded: it denies.
	if len(rep.Failures) != 1 || !rep.Failures[0].Denies || len(r.current().Failed()) != 1 {
		t.Errorf("report %v", rep)
	}
	_, err = r.m.Take(t.Context(), "a.js")
	wantErr(t, err, ErrNotHeld, "project/a.js")
}

func TestHeldSave(t *testing.T) {
	r, g := newGated(t)
	r.write("_lib.js", "say lib")
	r.write("a.js", "say a", "need _lib.js")
	r.write("b.js", "say b")
	r.start()
	began := time.Now()
	g.answer(Hold)
	r.write("a.js", "say evil", "need _lib.js")
	r.state("project/a.js", StateHeld)
	r.says("a lib b")
	c := g.last()
	if c.Kind != Changed || len(c.Files) != 1 || string(c.Files[0].Old) != "say a\nneed _lib.js" || c.OldHash == "" || c.OldHash == c.Hash {
		t.Errorf("candidate %+v", c)
	}
	if c.Since.After(time.Now()) || c.Since.Before(began.Add(-time.Second)) {
		t.Errorf("since %v, the save was at %v", c.Since, began)
	}

	// Another script is not held back; the held one is not asked about again.
	g.answer(Take)
	r.write("b.js", "say b2")
	r.says("a lib b2")
	if c := g.last(); c.ID != "project/b.js" {
		t.Errorf("asked about %v", c.ID)
	}

	// More of the same script, while it is held.
	g.answer(Hold)
	r.write("_lib.js", "say evil2")
	r.until("it is asked about again", func() bool { return g.last().ID == "project/a.js" })
	if c := g.last(); len(c.Files) != 2 {
		t.Errorf("%d files differ, want 2: %+v", len(c.Files), c.Files)
	}
	r.says("a lib b2")

	// Taken back: nothing is held any longer.
	r.write("_lib.js", "say lib")
	r.idle()
	r.write("a.js", "say a", "need _lib.js")
	r.state("project/a.js", StateInForce)
	r.says("a lib b2")
}

func TestTakeAndDrop(t *testing.T) {
	r, g := newGated(t)
	r.write("a.js", "say a")
	r.write("b.js", "say b")
	r.start()
	g.answer(Hold)
	r.write("a.js", "say a2")
	r.write("b.js", "say b2")
	r.state("project/b.js", StateHeld)
	r.state("project/a.js", StateHeld)
	_, err := r.m.On(t.Context(), "a.js")
	wantErr(t, err, nil, "take it or drop it")
	_, err = r.m.Take(t.Context(), "a.js")
	r.ok(err)
	r.says("a2 b")
	r.ok(r.m.Drop(t.Context(), "b.js"))
	r.state("project/b.js", StateRefused)
	r.idle()
	r.says("a2 b")
	wantErr(t, r.m.Drop(t.Context(), "b.js"), ErrNotHeld)

	// By hand the gate is asked again, and told of it; other content is no dropped change.
	if c := g.last(); c.Dropped {
		t.Error("a change is called dropped before it was")
	}
	_, err = r.m.Reload(t.Context())
	r.ok(err)
	if c := g.last(); c.ID != "project/b.js" || !c.Dropped {
		t.Errorf("asked about %+v", c)
	}
	r.state("project/b.js", StateHeld)
	r.ok(r.m.Drop(t.Context(), "b.js"))
	g.answer(Take)
	r.write("b.js", "say b3")
	r.says("a2 b3")
	if c := g.last(); c.Dropped {
		t.Error("other content is called dropped")
	}
}

// TestTakeWhatWasShown: an answer is about what was shown. What is held in its place by
// the time that it comes is not taken, nor is what was shown beside it.
func TestTakeWhatWasShown(t *testing.T) {
	r, g := newGated(t)
	r.write("a.js", "say a")
	r.write("b.js", "say b")
	r.start()
	g.answer(Hold)
	r.write("a.js", "say a2")
	r.write("b.js", "say b2")
	r.state("project/a.js", StateHeld)
	r.state("project/b.js", StateHeld)
	shown := r.heldNow()
	r.write("a.js", "say evil")
	r.until("a.js is held with other content", func() bool { return r.heldNow()[0].Hash != shown[0].Hash })
	_, err := r.m.TakeShown(t.Context(), shown...)
	wantErr(t, err, ErrNotShown, "project/a.js")
	r.idle()
	r.says("a b")
	_, err = r.m.TakeShown(t.Context(), r.heldNow()...)
	r.ok(err)
	r.says("evil b2")
}

func (r *rig) heldNow() (out []Candidate) {
	for _, s := range r.m.Status(r.t.Context()) {
		if s.Held != nil {
			out = append(out, *s.Held)
		}
	}
	return out
}

// TestEveryFileIsGated: also scripts of the user and of the command line.
func TestEveryFileIsGated(t *testing.T) {
	r, g := newGated(t)
	user, file := filepath.Join(r.top, "user"), filepath.Join(r.top, "c.js")
	r.c.Folders = append(r.c.Folders, Folder{Layer: runtime.LayerUser, Dir: user})
	r.c.Files = []string{file}
	r.mkdir(user)
	r.write(filepath.Join(user, "u.js"), "say u")
	r.write(file, "say c")
	r.start()
	r.says("u c")
	g.answer(Hold)
	r.write(filepath.Join(user, "u.js"), "say evil")
	r.write(file, "say evil")
	r.state("user/u.js", StateHeld)
	r.state("cli/c.js", StateHeld)
	r.says("u c")
}

func TestTakeWhatHasChangedSince(t *testing.T) {
	r, g := newGated(t)
	r.c.Settle, r.c.SettleMax, r.c.Poll = time.Hour, time.Hour, time.Hour
	r.write("a.js", "say a")
	r.start()
	g.answer(Hold)
	r.write("a.js", "say shown")
	_, err := r.m.Reload(t.Context())
	r.ok(err)
	r.write("a.js", "say evil")
	_, err = r.m.Take(t.Context(), "a.js")
	wantErr(t, err, nil, "project/a.js has changed since it was shown")
	r.says("a")
	if c := g.last(); string(c.Files[0].New) != "say evil" {
		t.Errorf("asked about %q", c.Files[0].New)
	}
	_, err = r.m.Take(t.Context(), "a.js")
	r.ok(err)
	r.says("evil")
}

func TestRemovalIsGatedToo(t *testing.T) {
	r, g := newGated(t)
	r.write("guard.js", "say guard")
	r.start()
	g.answer(Hold)
	r.ok(os.Remove(r.path("guard.js")))
	r.state("project/guard.js", StateHeld)
	if c := g.last(); c.Kind != Removed || c.Hash != "" || len(c.Files) != 1 || c.Files[0].New != nil {
		t.Errorf("candidate %+v", c)
	}
	r.says("guard")
	r.write("other.js", "say other")
	r.state("project/other.js", StateHeld)
	r.says("guard")
	_, err := r.m.Take(t.Context(), "guard.js")
	r.ok(err)
	r.says("")
	r.ok(os.Remove(r.path("other.js")))
	r.until("nothing is held", func() bool { return len(r.m.Status(t.Context())) == 0 })
}

func TestRefused(t *testing.T) {
	r, g := newGated(t)
	r.write("a.js", "say a")
	r.start()
	g.answer(Refuse)
	r.write("a.js", "say no")
	r.state("project/a.js", StateRefused)
	rep := r.saw("it is told", func(rep Report) bool { return len(rep.Refused) == 1 })
	if got := rep.String(); got != "scripts 1  a.js not taken" {
		t.Errorf("report %q", got)
	}
	g.answer(Take)
	r.write("b.js", "say b")
	r.says("a b") // not asked again until it changes, or by hand
	_, err := r.m.Reload(t.Context())
	r.ok(err)
	r.says("no b")
}

// A gate that answers too little holds the rest.
func TestShortGate(t *testing.T) {
	r := newRig(t)
	r.c.Gate = func(context.Context, []Candidate) []Verdict { return []Verdict{Take} }
	r.write("a.js", "say a")
	r.write("b.js", "say b")
	r.start()
	r.says("a")
	r.state("project/b.js", StateHeld)
}

// What the gate saw is what is run: a module that changes behind its back does not
// come in.
func TestGateSeesWhatIsRun(t *testing.T) {
	r := newRig(t)
	r.c.Poll = time.Hour
	r.write("_lib.js", "say lib")
	r.write("a.js", "say a", "need _lib.js")
	r.start()
	first := true
	var shown []Candidate
	r.m.c.Gate = func(_ context.Context, cs []Candidate) []Verdict {
		if !first {
			shown = cs
			return nil
		}
		first = false
		r.write("_lib.js", "say evil")
		return []Verdict{Take}
	}
	r.write("a.js", "say a2", "need _lib.js")
	r.says("a2 lib")
	r.state("project/a.js", StateHeld)
	r.says("a2 lib")
	if len(shown) != 1 || len(shown[0].Files) != 1 || string(shown[0].Files[0].New) != "say evil" {
		t.Errorf("shown %+v", shown)
	}
}

func TestAsk(t *testing.T) {
	r := newRig(t)
	verdict := Take
	var olds []*runtime.Instance
	r.c.Ask = func(old, new *runtime.Instance) Verdict {
		r.host.Thread.Assert()
		olds = append(olds, old)
		return verdict
	}
	r.write("a.js", "say a")
	r.start()
	r.says("a")
	r.ok(r.host.Do(t.Context(), func() { verdict = Hold }))
	r.write("a.js", "say more")
	r.state("project/a.js", StateHeld)
	r.says("a")
	s := r.status("project/a.js")
	if s.Held == nil || !s.Held.Asked || s.Hash == s.Held.Hash {
		t.Errorf("status %+v", s)
	}
	_, err := r.m.Take(t.Context(), "a.js")
	r.ok(err)
	r.says("more")
	if len(olds) != 2 || olds[0] != nil || olds[1] == nil || olds[1].ID != "project/a.js" {
		t.Errorf("asked with %v", olds)
	}
}

// Who has answered the gate has not answered Ask: a change that was held by the one is
// held by the other when it is taken, and comes in when it is taken from there.
func TestAskAfterTheGate(t *testing.T) {
	r := newRig(t)
	gate, ask := Take, Take // by the manager, which is waited for in between
	r.c.Gate = func(_ context.Context, cs []Candidate) []Verdict { return slices.Repeat([]Verdict{gate}, len(cs)) }
	r.c.Ask = func(_, _ *runtime.Instance) Verdict { return ask }
	r.write("a.js", "say a")
	r.start()
	r.says("a")
	r.ok(r.host.Do(t.Context(), func() { gate, ask = Hold, Hold }))
	r.write("a.js", "say more")
	r.state("project/a.js", StateHeld)
	if s := r.status("project/a.js"); s.Held == nil || s.Held.Asked {
		t.Errorf("held by the gate: %+v", s.Held)
	}
	rep, err := r.m.Take(t.Context(), "a.js")
	r.ok(err)
	if len(rep.Held) != 1 || !rep.Held[0].Asked {
		t.Errorf("taken from the gate: %+v", rep.Held)
	}
	r.says("a")
	_, err = r.m.Take(t.Context(), "a.js")
	r.ok(err)
	r.says("more")
}

func TestActivatedIsToldOnTheThread(t *testing.T) {
	r := newRig(t)
	var steps []string
	r.c.Activated = func(old, new *runtime.Generation) {
		r.host.Thread.Assert()
		if r.host.Current() != new {
			t.Error("it is not the newest one")
		}
		for _, in := range new.Instances {
			steps = append(steps, in.Hash[:4])
		}
		steps = append(steps, "|")
	}
	r.write("a.js", "say a")
	r.start()
	r.write("a.js", "say b")
	r.says("b")
	r.ok(r.host.Do(t.Context(), func() {
		if got := strings.Join(steps, " "); len(steps) != 4 || steps[0] == steps[2] {
			t.Errorf("told %q", got)
		}
	}))
}

func TestPanicsOfCallbacks(t *testing.T) {
	for _, which := range []string{"gate", "ask", "activated", "load", "compile"} {
		t.Run(which, func(t *testing.T) {
			r := newRig(t)
			r.c.Poll = 50 * time.Millisecond
			r.write("a.js", "say a")
			r.write("b.js", "say b")
			r.start()
			var mu sync.Mutex
			armed := true
			boom := func(at string) {
				mu.Lock()
				defer mu.Unlock()
				if at == which && armed {
					panic("boom " + at)
				}
			}
			r.ok(r.m.enter(t.Context(), func(ctx context.Context) error {
				r.m.c.Gate = func(_ context.Context, cs []Candidate) []Verdict { boom("gate"); return []Verdict{Take} }
				r.m.c.Ask = func(_, _ *runtime.Instance) Verdict { boom("ask"); return Take }
				r.m.c.Activated = func(_, _ *runtime.Generation) { boom("activated") }
				return nil
			}))
			r.ok(r.host.Do(t.Context(), func() {
				r.e.pause = func() { boom("load") }
				r.e.parse = func() { boom("compile") }
			}))
			r.write("a.js", "say a2")
			r.saw("it is told", func(rep Report) bool { return strings.Contains(rep.String(), "boom "+which) })
			mu.Lock()
			armed = false
			mu.Unlock()
			r.replace("a.js", "say a3")
			r.says("a3 b")
		})
	}
}

func TestCloseWhileTheGateAsks(t *testing.T) {
	r := newRig(t)
	in := make(chan struct{})
	r.c.Gate = func(ctx context.Context, _ []Candidate) []Verdict {
		close(in)
		<-ctx.Done()
		return nil
	}
	r.write("a.js", "say a")
	r.m = New(r.c)
	done := make(chan error)
	go func() { _, err := r.m.Start(context.Background()); done <- err }()
	<-in
	r.m.Close()
	wantErr(t, <-done, ErrClosed)
}

// What a script was when it was switched off needs no answer when it is switched on.
func TestOnAsksOnlyAboutWhatIsNew(t *testing.T) {
	r, g := newGated(t)
	r.write("a.js", "say a")
	r.start()
	g.answer(Hold)
	for range 2 {
		_, err := r.m.Off(t.Context(), "a.js")
		r.ok(err)
		r.says("")
		_, err = r.m.On(t.Context(), "a.js")
		r.ok(err)
		r.says("a")
	}
	_, err := r.m.Off(t.Context(), "a.js")
	r.ok(err)
	r.write("a.js", "say b")
	_, err = r.m.On(t.Context(), "a.js")
	wantErr(t, err, nil, "project/a.js is held")
	r.says("")
	_, err = r.m.Take(t.Context(), "a.js")
	r.ok(err)
	r.says("b")
}

// The clock that Since goes by need not be the real one.
func TestSinceGoesByTheGivenClock(t *testing.T) {
	r, g := newGated(t)
	long := time.Now().Add(-1000 * time.Hour)
	r.c.Now = func() time.Time { return long }
	r.write("a.js", "say a")
	r.start()
	r.write("a.js", "say b")
	r.says("b")
	if d := long.Sub(g.last().Since); d < 0 || d > time.Minute {
		t.Errorf("since %v before its now", d)
	}
}

// A removal is believed late, but the gate is told when it came.
func TestSinceOfARemoval(t *testing.T) {
	r, g := newGated(t)
	r.c.Linger = 400 * time.Millisecond
	r.write("a.js", "say a")
	r.start()
	g.answer(Hold)
	before := time.Now()
	r.ok(os.Remove(r.path("a.js")))
	after := time.Now()
	r.state("project/a.js", StateHeld)
	if c := g.last(); c.Since.Before(before) || c.Since.After(after.Add(200*time.Millisecond)) {
		t.Errorf("since %v after the removal", c.Since.Sub(before))
	}
}

// A change that is held says whether it compiles, without being run.
func TestHeldSaveThatDoesNotCompile(t *testing.T) {
	r, g := newGated(t)
	r.write("a.js", "say a")
	r.start()
	g.answer(Hold)
	held := func() *Candidate { return r.m.Status(t.Context())[0].Held }
	r.write("a.js", "syntax oops")
	r.state("project/a.js", StateHeld)
	if c := held(); c.Err == nil || !strings.Contains(c.Err.Error(), "unexpected oops") {
		t.Errorf("held with %v", c.Err)
	}
	made := r.e.made.Load()
	r.write("a.js", "say two")
	r.until("held anew", func() bool { c := held(); return c != nil && c.Err == nil })
	if r.e.made.Load() != made {
		t.Error("a held change was run")
	}
	r.says("a")
}
