package reload

import (
	"os"
	"strings"
	"testing"
	"time"
)

// What a rollback takes back is the last change made by saving: switching scripts off and
// on in between is neither undone nor does it count.
func TestRollbackTakesBackSavesAlone(t *testing.T) {
	r := newRig(t)
	r.write("guard.js", "say guard")
	r.write("a.js", "say one")
	r.start()
	first := r.m.Status(t.Context())[0].Hash
	r.write("a.js", "say two")
	r.says("two guard")
	off := func(name string) { _, err := r.m.Off(t.Context(), name); r.ok(err) }
	on := func(name string) { _, err := r.m.On(t.Context(), name); r.ok(err) }
	off("guard.js")
	on("guard.js")
	off("guard.js")
	rep, err := r.m.Rollback(t.Context())
	r.ok(err)
	if got := rep.String(); !strings.Contains(got, "a.js changed  rolled back, until the next save or /reload") ||
		!strings.Contains(got, "a.js is the version "+first[:8]+" of ") {
		t.Errorf("report %q", got)
	}
	r.says("one") // and the guard stays off
	r.state("project/guard.js", StateOff)
	on("guard.js")
	r.says("one guard")
	_, err = r.m.Rollback(t.Context())
	wantErr(t, err, ErrNoOlder)
}

// A script that was saved while it was off comes back with another version, which is a
// change by saving.
func TestRollbackOfWhatWasSavedWhileOff(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say one")
	r.start()
	_, err := r.m.Off(t.Context(), "a.js")
	r.ok(err)
	r.write("a.js", "say two")
	_, err = r.m.On(t.Context(), "a.js")
	r.ok(err)
	r.says("two")
	_, err = r.m.Rollback(t.Context())
	r.ok(err)
	r.says("one")
}

// What a rollback would concern is off: the change before that is taken back.
func TestRollbackPassesOverWhatIsOff(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a1")
	r.write("b.js", "say b1")
	r.start()
	r.write("a.js", "say a2")
	r.says("a2 b1")
	r.write("b.js", "say b2")
	r.says("a2 b2")
	_, err := r.m.Off(t.Context(), "b.js")
	r.ok(err)
	_, err = r.m.Rollback(t.Context())
	r.ok(err)
	r.says("a1")
	_, err = r.m.On(t.Context(), "b.js")
	r.ok(err)
	r.says("a1 b2")
}

// The list says since when and with which generation a version is in force, whatever
// came after it.
func TestStatusNamesTheVersionInForce(t *testing.T) {
	r := newRig(t)
	day := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	r.c.Now = func() time.Time { return day }
	r.write("a.js", "say a")
	r.write("b.js", "say b")
	r.start()
	old := r.status("project/a.js")
	if old.Generation != 1 || !old.Since.Equal(day) || len(old.Hash) != 64 {
		t.Errorf("%+v", old)
	}
	r.write("b.js", "say b2")
	r.says("a b2")
	r.write("a.js", "syntax x")
	r.state("project/a.js", StateFailed)
	if s := r.status("project/a.js"); s.Hash != old.Hash || s.Generation != 1 || !strings.Contains(s.Err.Error(), "a.js:1") {
		t.Errorf("%+v", s)
	}
	if s := r.status("project/b.js"); s.Generation != 2 {
		t.Errorf("%+v", s)
	}
	_, err := r.m.Rollback(t.Context())
	r.ok(err)
	if s := r.status("project/b.js"); s.State != StateRolledBack || s.Generation != 3 {
		t.Errorf("%+v", s)
	}
}

// Switching is always answered.
func TestSwitchingIsAnswered(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	r.start()
	said := func(what string, rep Report, err error) {
		t.Helper()
		r.ok(err)
		if !strings.Contains(rep.String(), what) {
			t.Errorf("report %q lacks %q", rep, what)
		}
		r.saw("it is told", func(x Report) bool { return x.String() == rep.String() })
	}
	rep, err := r.m.On(t.Context(), "a.js")
	said("project/a.js is in force already", rep, err)
	r.ok(r.host.Do(t.Context(), func() { r.host.Quarantine(r.host.Current().Instances[0], os.ErrInvalid) }))
	rep, err = r.m.On(t.Context(), "a.js")
	said("project/a.js is out of quarantine", rep, err)
	rep, err = r.m.Off(t.Context(), "a.js")
	said("a.js switched off", rep, err)
	rep, err = r.m.Off(t.Context(), "a.js")
	said("project/a.js is off already", rep, err)
	r.write("a.js", "say b")
	r.saw("a save of what is off", func(rep Report) bool { return strings.Contains(rep.String(), "a.js changed; it is off") })
	rep, err = r.m.On(t.Context(), "a.js")
	said("a.js switched on", rep, err)
}

// Switching off what denies because it did not load says whether anything else denies.
func TestOffOfStandIns(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "fail x")
	r.write("b.js", "fail y")
	r.start()
	for _, want := range []string{
		"scripts 1 -> 2  a.js switched off until dshsh ends: tool calls are still denied because of b.js  ",
		"scripts 2 -> 3  b.js switched off until dshsh ends: tool calls are no longer denied  ",
	} {
		rep, err := r.m.Off(t.Context(), strings.Fields(want)[4])
		r.ok(err)
		if !strings.HasPrefix(rep.String(), want) {
			t.Errorf("report %q, want %q", rep, want)
		}
	}
}

// A file that was meant to be a script and is none is told of once, at the start.
func TestFilesThatLookLikeScripts(t *testing.T) {
	r := newRig(t)
	r.write("a.js", "say a")
	for _, n := range []string{"Guard.JS", "b.cjs", "c.LUA", "d.d.ts", "e.test.js", "_f.JS", "notes.txt", ".g.JS"} {
		r.write(n, "say no")
	}
	r.mkdir(r.path("h.JS"))
	rep := r.start()
	if got, want := strings.Join(rep.Notices, "|"), "not taken for scripts: Guard.JS, b.cjs, c.LUA (they end in .js .lua .mjs .ts)"; got != want {
		t.Errorf("notices %q, want %q", got, want)
	}
	r.write("a.js", "say b")
	r.says("b")
	r.saw("the change", func(rep Report) bool { return len(rep.Changed) == 1 })
	if reps := r.told(); len(reps[len(reps)-1].Notices) > 0 {
		t.Errorf("told again: %v", reps)
	}
}
