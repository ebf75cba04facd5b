package reload

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"dshsh/runtime"
)

func TestR003_R027_BrokenAtStart(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.write("b.js", "", "syntax =>")
	r.write("c.lua", "say c")
	rep := r.start()
	if got, want := rep.String(), "2 scripts in force: a.js and c.lua  2 listeners  b.js:2: unexpected =>"; !strings.HasPrefix(got, want) {
		t.Errorf("report %q, want %q...", got, want)
	}
	r.says("a c")
	denied := func(g *runtime.Generation) (out string) {
		r.ok(r.host.Do(t.Context(), func() {
			for _, in := range g.Failed() {
				out += in.ID + ": " + in.Failed().Error()
			}
		}))
		return out
	}
	first := r.current()
	if got := denied(first); got != "project/b.js: b.js:2: unexpected =>" {
		t.Errorf("stand-in for %q", got)
	}
	if s := r.status("project/b.js"); s.State != StateDenies || s.Err == nil {
		t.Errorf("status %+v", s)
	}
	f := rep.Failures[0]
	if !f.Denies || f.Source != "syntax =>" || f.Pos.Line != 2 {
		t.Errorf("failure %+v", f)
	}

	held := r.hold() // a turn that began denied stays so
	r.write("b.js", "syntax ;")
	r.until("the reason is the newer one", func() bool { return denied(r.current()) == "project/b.js: b.js:1: unexpected ;" })
	r.write("b.js", "say b")
	r.says("a b c")
	if got := denied(r.current()); got != "" {
		t.Errorf("still denied for %q", got)
	}
	if got := denied(held); got == "" {
		t.Error("the turn that holds the older generation is no longer denied")
	}
	r.release(held)
}

func TestBrokenAtStartSwitchedOff(t *testing.T) {
	r := newRig(t)
	r.write("b.js", "fail x")
	r.start()
	if n := len(r.current().Failed()); n != 1 {
		t.Fatalf("%d stand-ins, want 1", n)
	}
	if _, err := r.m.On(t.Context(), "b.js"); err == nil || r.status("project/b.js").State != StateDenies {
		t.Errorf("on: %v", err)
	}
	if _, err := r.m.Off(t.Context(), "b.js"); err != nil {
		t.Fatal(err)
	}
	if n := len(r.current().Failed()); n != 0 {
		t.Errorf("%d stand-ins, want none", n)
	}
	_, err := r.m.On(t.Context(), "b.js")
	wantErr(t, err, nil, "b.js:1: x")
	if s := r.status("project/b.js"); s.State != StateOff || len(r.current().Failed()) != 0 {
		t.Errorf("status %+v", s)
	}
	r.write("b.js", "say b")
	r.idle()
	if _, err := r.m.On(t.Context(), "b.js"); err != nil {
		t.Fatal(err)
	}
	r.says("b")
}

func TestBrokenAtStartRemoved(t *testing.T) {
	r := newRig(t)
	r.write("b.js", "fail x")
	r.start()
	r.ok(os.Remove(r.path("b.js")))
	r.until("no stand-in", func() bool { return len(r.current().Failed()) == 0 })
}

func TestR044_FailureKeepsTheGenerationWhole(t *testing.T) {
	for _, bad := range []string{"syntax x", "fail x"} {
		t.Run(bad, func(t *testing.T) {
			r := newRig(t)
			r.write("guard.js", "say guard")
			r.write("b.js", "say b")
			r.start()
			n := r.current().N

			// Saved together: neither comes into force, and what was removed stays.
			r.together(func() {
				r.write("guard.js", bad)
				r.write("b.js", "say b2")
			})
			r.state("project/b.js", StateWaiting)
			rep := r.saw("the failure", func(rep Report) bool { return len(rep.Failures) == 1 })
			if !rep.Failures[0].Stays || !strings.Contains(rep.String(), "guard.js:1: ") || !strings.Contains(rep.String(), "the version before stays in force") {
				t.Errorf("report %q", rep)
			}
			r.says("b guard")
			if got := r.current().N; got != n {
				t.Errorf("generation %d, want still %d", got, n)
			}

			// A later save of another one is not held back.
			r.write("c.js", "say c")
			r.says("b c guard")
			if s := r.status("project/guard.js"); s.State != StateFailed || s.Hash == "" || s.Err == nil {
				t.Errorf("status %+v", s)
			}

			// Mended: what waited comes with it.
			r.write("guard.js", "say guard2")
			r.says("b2 c guard2")
			r.state("project/b.js", StateInForce)
		})
	}
}

func TestFailureTakenBack(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.write("b.js", "say b")
	r.start()
	r.together(func() {
		r.write("a.js", "fail x")
		r.write("b.js", "say b2")
	})
	r.state("project/a.js", StateFailed)
	r.state("project/b.js", StateWaiting)
	made := r.e.made.Load()
	r.write("a.js", "say a")
	r.says("a b2")
	if n := r.e.made.Load(); n != made+1 {
		t.Errorf("%d VMs were made for it, want 1", n-made)
	}
	r.state("project/a.js", StateInForce)
	r.saw("it is mended", func(rep Report) bool { return len(rep.Mended) == 1 })
}

func TestWaitingComesWhenTheFailedIsOffOrGone(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"off":  func(r *rig) { _, err := r.m.Off(context.Background(), "a.js"); r.ok(err) },
		"gone": func(r *rig) { r.ok(os.Remove(r.path("a.js"))) },
		"hand": func(r *rig) {
			r.write("a.js", "say a2")
			_, err := r.m.Reload(context.Background())
			r.ok(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.write("b.js", "say b")
			r.start()
			r.together(func() {
				r.write("a.js", "fail x")
				r.write("b.js", "say b2")
			})
			r.state("project/a.js", StateAbsent)
			r.state("project/b.js", StateWaiting)
			r.says("b")
			end(r)
			if name == "hand" {
				r.says("a2 b2")
			} else {
				r.says("b2")
			}
		})
	}
}

// A guard that is renamed and broken in one commit is not lost.
func TestRenamedAndBroken(t *testing.T) {
	r := newRig(t)
	r.write("guard.js", "say guard")
	r.start()
	r.together(func() {
		r.ok(os.Rename(r.path("guard.js"), r.path("guard2.js")))
		r.write("guard2.js", "fail x")
	})
	r.state("project/guard2.js", StateAbsent)
	r.until("the removal is believed", func() bool {
		return len(r.m.Status(t.Context())) == 1 || r.status("project/guard.js").State == StateWaiting
	})
	r.write("guard2.js", "say two")
	r.says("two")
}

func TestR046_R049_TurnKeepsItsGeneration(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say one")
	r.write("b.js", "say b")
	r.start()
	turn := r.hold()
	r.write("a.js", "say two")
	r.says("two b")
	if got := r.said(turn); got != "one b" {
		t.Errorf("the turn hears %q", got)
	}
	r.ok(os.Remove(r.path("b.js")))
	r.says("two")
	if got := r.said(turn); got != "one b" {
		t.Errorf("the turn hears %q", got)
	}
	r.release(turn)
	r.until("the old VMs are closed", func() bool { return r.e.vms.Load() == 1 })
	r.write("a.js", "say one")
	r.says("one")
}

func TestReloadByHand(t *testing.T) {
	r := newRig(t)
	r.c.Settle, r.c.SettleMax, r.c.Poll = 1e15, 1e15, 1e15 // nothing but the hand
	r.write("a.js", "say a")
	r.start()
	r.write("b.js", "say b")
	rep, err := r.m.Reload(t.Context())
	r.ok(err)
	if rep.Trigger != TriggerReload || len(rep.Added) != 1 || r.said(nil) != "a b" {
		t.Errorf("report %v, scripts say %q", rep, r.said(nil))
	}
	r.ok(os.Remove(r.path("b.js")))
	r.write("a.js")
	rep, err = r.m.Reload(t.Context())
	r.ok(err)
	if r.said(nil) != "" || rep.Offers["listener"] != -2 {
		t.Errorf("what a person asked for is not believed: %v", rep)
	}
	rep, err = r.m.Reload(t.Context())
	r.ok(err)
	if !rep.Empty() || rep.String() != "scripts 3  nothing changed" {
		t.Errorf("report %q", rep)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("given up"))
	if _, err = r.m.Reload(ctx); err == nil {
		t.Error("a context that has ended is not obeyed")
	}
}

func TestReloadWaitsForTheThreadAsLongAsItsContext(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.start()
	r.write("a.js", "say b")
	in, out := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(out)
		_ = r.host.Do(context.Background(), func() { <-in })
	}()
	why := errors.New("given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { _, err := r.m.Reload(ctx); done <- err }()
	cancel(why)
	wantErr(t, <-done, why)
	close(in)
	<-out
	r.says("b") // nothing was lost
}

func TestNames(t *testing.T) {
	r := newRig(t)
	user := r.top + "/user"
	r.mkdir(user)
	r.c.Folders = append(r.c.Folders, Folder{Layer: runtime.LayerUser, Dir: user})
	r.write("guard.js", "say p")
	r.write(user+"/guard.js", "say u")
	r.write(user+"/audit.lua", "say a")
	r.start()
	r.says("a u p")
	_, err := r.m.Off(t.Context(), "guard.js")
	wantErr(t, err, ErrAmbiguous, "user/guard.js", "project/guard.js")
	_, err = r.m.Off(t.Context(), "adit.lua")
	wantErr(t, err, ErrUnknown, "did you mean audit.lua?")
	_, err = r.m.Off(t.Context(), "project/gard.js")
	wantErr(t, err, ErrUnknown, "did you mean project/guard.js?")
	for _, name := range []string{"audit.lua", "project/guard.js"} {
		if _, err := r.m.Off(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	r.says("u")
}

func TestOffStaysOff(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.write("b.js", "say b")
	r.c.Off = []string{"project/b.js"}
	r.start()
	r.says("a")
	rep, err := r.m.Off(t.Context(), "a.js")
	r.ok(err)
	if got := rep.String(); !strings.HasPrefix(got, "scripts 1 -> 2  a.js switched off until dshsh ends  -1 listener  ") {
		t.Errorf("report %q", got)
	}
	r.write("a.js", "say a2")
	r.write("c.js", "say c")
	r.says("c")
	r.replace("a.js", "say a3")
	_, err = r.m.Reload(t.Context())
	r.ok(err)
	r.says("c")
	r.state("project/a.js", StateOff)
	_, err = r.m.On(t.Context(), "a.js")
	r.ok(err)
	r.says("a3 c")
	_, err = r.m.On(t.Context(), "b.js")
	r.ok(err)
	r.says("a3 b c")
}

func TestOnLiftsQuarantine(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.start()
	r.ok(r.host.Do(t.Context(), func() {
		r.host.Quarantine(r.host.Current().Instances[0], errors.New("five failures"))
	}))
	if s := r.status("project/a.js"); s.State != StateQuarantined || !errors.Is(s.Err, runtime.ErrQuarantined) {
		t.Errorf("status %+v", s)
	}
	_, err := r.m.On(t.Context(), "a.js")
	r.ok(err)
	r.says("a")
	r.state("project/a.js", StateInForce)
}

func TestRollback(t *testing.T) {
	r := newRig(t)
	r.write("_lib.js", "say lib1")
	r.write("a.js", "say one", "need _lib.js")
	r.write("b.js", "say b")
	r.start()
	_, err := r.m.Rollback(t.Context())
	wantErr(t, err, ErrNoOlder)
	r.write("a.js", "say two", "need _lib.js")
	r.says("two lib1 b")
	r.write("_lib.js", "say lib2")
	r.says("two lib2 b")
	r.write("c.js", "say c")
	r.says("two lib2 b c")
	r.ok(os.Remove(r.path("b.js")))
	r.says("two lib2 c")

	for _, want := range []string{"two lib2 b c", "two lib2 b", "two lib1 b", "one lib1 b"} {
		parsed := r.e.parsed.Load()
		rep, err := r.m.Rollback(t.Context())
		r.ok(err)
		if got := r.said(nil); got != want || rep.New != rep.Old+1 {
			t.Fatalf("scripts say %q, want %q; report %v", got, want, rep)
		}
		if r.e.parsed.Load() != parsed {
			t.Error("a rollback compiled something")
		}
	}
	_, err = r.m.Rollback(t.Context())
	wantErr(t, err, ErrNoOlder)
	r.state("project/a.js", StateRolledBack)
	r.idle()
	r.says("one lib1 b") // the disk is newer, and is not taken until it is saved
	r.write("d.js", "say d")
	r.says("one lib1 b d")
	r.write("a.js", "say three")
	r.says("three b d")
	_, err = r.m.Reload(t.Context())
	r.ok(err)
	r.says("three c d")
}

func TestBundledUserProjectOrder(t *testing.T) {
	r := newRig(t)
	user := r.top + "/user"
	r.mkdir(user)
	bundle := os.DirFS(r.bundle(map[string]string{"z.lua": "say z", "y.js": "say y", "x.js": "say x", "_m.js": "syntax"}))
	r.c.Folders = []Folder{
		{Layer: runtime.LayerProject, Dir: r.dir},
		{Layer: runtime.LayerBundled, Dir: ".", FS: bundle, Only: []string{"z.lua", "y.js"}},
		{Layer: runtime.LayerUser, Dir: user},
	}
	r.write(user+"/b.js", "say ub")
	r.write(user+"/B.js", "say uB")
	r.write("a.js", "say pa")
	r.start()
	r.says("y z uB ub pa")
	_, err := r.m.Off(t.Context(), "bundled/y.js")
	r.ok(err)
	r.says("z uB ub pa")
	_, err = r.m.On(t.Context(), "bundled/y.js")
	r.ok(err)
	r.says("y z uB ub pa")
	if s := r.status("bundled/z.lua"); s.Path != "" || s.Hash == "" {
		t.Errorf("status %+v", s)
	}
}

func TestStartErrors(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.mkdir(r.path("dir.js"))
	r.mkdir(r.path("sub"))
	r.write("sub/a.js", "say a")
	r.write("a.txt", "")
	for name, c := range map[string]Config{
		"missing.js: ":            {Files: []string{r.path("missing.js")}},
		"not a file":              {Files: []string{r.path("dir.js")}},
		"no script engine":        {Files: []string{r.path("a.txt")}},
		"would both be cli/a.js":  {Files: []string{r.path("a.js"), r.path("sub/a.js")}},
		"two script folders":      {Folders: []Folder{{Layer: runtime.LayerUser, Dir: r.dir}, {Layer: runtime.LayerUser, Dir: r.dir}}},
		"both a folder and files": {Files: []string{r.path("a.js")}, Folders: []Folder{{Layer: runtime.LayerCommandLine, Dir: r.dir}}},
	} {
		c.Host = r.host
		m := New(c)
		_, err := m.Start(t.Context())
		wantErr(t, err, nil, "starting scripts: ", name)
		m.Close()
	}
	m := New(r.c)
	_, err := m.Reload(t.Context())
	wantErr(t, err, ErrNotStarted)
	_, err = m.Start(t.Context())
	r.ok(err)
	_, err = m.Start(t.Context())
	wantErr(t, err, nil, "started before")
	m.Close()
	m.Close()
	_, err = m.Reload(t.Context())
	wantErr(t, err, ErrClosed)
}

// current is the newest generation.
func (r *rig) current() (g *runtime.Generation) {
	r.t.Helper()
	r.ok(r.host.Do(context.Background(), func() { g = r.host.Current() }))
	return g
}

// hold is what a turn does when it begins, release when it ends.
func (r *rig) hold() (g *runtime.Generation) {
	r.t.Helper()
	r.ok(r.host.Do(context.Background(), func() { g = r.host.Current().Hold() }))
	return g
}

func (r *rig) release(g *runtime.Generation) {
	r.t.Helper()
	r.ok(r.host.Do(context.Background(), g.Release))
}

func (r *rig) bundle(files map[string]string) string {
	dir := r.top + "/bundle"
	r.mkdir(dir)
	for name, text := range files {
		r.write(dir+"/"+name, text)
	}
	return dir
}

func TestRollbackBringsNoDenialBack(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "fail x")
	r.write("b.js", "say b")
	r.start()
	r.write("a.js", "say a")
	r.says("a b")
	_, err := r.m.Rollback(t.Context())
	wantErr(t, err, ErrNoOlder)
	r.says("a b")
	if n := len(r.current().Failed()); n != 0 {
		t.Errorf("%d stand-ins, want none", n)
	}
}

func TestSaveLiftsQuarantine(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.start()
	r.ok(r.host.Do(t.Context(), func() {
		r.host.Quarantine(r.host.Current().Instances[0], errors.New("five failures"))
	}))
	r.write("a.js", "say b")
	r.says("b")
	r.state("project/a.js", StateInForce)
}

// A script that failed is tried again when something beside it changes, but ever more
// rarely.
func TestRetriesBecomeRarer(t *testing.T) {
	r := newRig(t)
	r.c.Settle = time.Millisecond
	r.write("a.js", "say a")
	r.start()
	r.write("b.js", "find _lib.js")
	r.state("project/b.js", StateAbsent)
	made := r.e.made.Load()
	end := time.Now().Add(700 * time.Millisecond)
	for n := 0; time.Now().Before(end); n++ {
		r.write("noise.txt", strings.Repeat("x", n))
		r.idle()
	}
	if n := r.e.made.Load() - made; n < 1 || n > 3 {
		t.Errorf("tried %d times in 700 ms, want 1 to 3", n)
	}
	n := 0
	for _, rep := range r.told() {
		n += len(rep.Failures)
	}
	if n != 1 {
		t.Errorf("the failure was told %d times, want once", n)
	}
	r.write("_lib.js", "say lib")
	r.says("a lib")
}
