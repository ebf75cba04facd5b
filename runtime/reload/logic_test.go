package reload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"dshsh/runtime"
)

func TestWindow(t *testing.T) {
	const quiet, most = 40 * time.Millisecond, 300 * time.Millisecond
	at := func(ms int) time.Time { return time.Unix(100, int64(ms)*1e6) }
	for name, c := range map[string]struct {
		notes []int
		due   int
	}{
		"one":            {[]int{0}, 40},
		"two":            {[]int{0, 30}, 70},
		"constant noise": {[]int{0, 30, 60, 90, 120, 150, 180, 210, 240, 270, 299}, 300},
	} {
		var w window
		for _, ms := range c.notes {
			w.note(at(ms))
		}
		if got := w.due(quiet, most); !got.Equal(at(c.due)) {
			t.Errorf("%s: due at %v, want %v", name, got, at(c.due))
		}
	}
	if due := (window{}).due(quiet, most); !due.IsZero() {
		t.Errorf("nothing is due at %v", due)
	}
}

func TestDoubts(t *testing.T) {
	d := doubts{}
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	never := time.Time{}
	for i, c := range []struct {
		sign    string
		event   time.Time
		now     int
		believe int
	}{
		{"gone", never, 10, 10},
		{"gone", never, 11, 10},
		{"blank", never, 12, 12},    // another state
		{"blank", at(13), 13, 13},   // it was touched meanwhile
		{"blank", at(12), 14, 13},   // an older event
		{"blank t2", never, 15, 15}, // written again, empty
	} {
		if got := d.believe("x", c.sign, c.event, at(c.now)); !got.Equal(at(c.believe)) {
			t.Errorf("%d: since %d, want %d", i, got.Unix(), c.believe)
		}
	}
}

func TestTrace(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(p string) string { return filepath.Join(top, p) }
	for _, err := range []error{
		os.MkdirAll(in("v1/scripts"), 0o755),
		os.Symlink("v1", in("current")),
		os.Symlink(in("current"), in("abs")),
		os.Symlink("../abs/../current", in("v1/up")),
		os.Symlink("loop", in("loop")),
		os.WriteFile(in("file"), nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path, real string
		points     []string
		err        error
	}{
		{"v1/scripts", "v1/scripts", []string{"v1", "v1/scripts"}, nil},
		{"current/scripts", "v1/scripts", []string{"current", "v1", "v1/scripts"}, nil},
		{"abs/scripts", "v1/scripts", []string{"abs", "current", "v1", "v1/scripts"}, nil},
		{"v1/up/scripts", "v1/scripts", []string{"v1/up", "abs", "current", "v1", "v1/scripts"}, nil},
		{"v1/none/x", "v1/none/x", []string{"v1/none", "v1"}, fs.ErrNotExist},
		{"file/x", "file/x", []string{"file", "file/x"}, errors.ErrUnsupported},
	} {
		real, points, err := trace(in(c.path), 2)
		var got []string
		seen := map[string]bool{}
		for _, p := range points {
			rel, _ := filepath.Rel(top, p.path())
			if !seen[rel] {
				got = append(got, rel)
			}
			seen[rel] = true
		}
		if real != in(c.real) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %s, %v", c.path, real, err)
		}
		for _, want := range c.points {
			if !seen[want] {
				t.Errorf("%s: points %v lack %s", c.path, got, want)
			}
		}
		if c.err != nil && !isMissing(err) {
			t.Errorf("%s: %v does not count as missing", c.path, err)
		}
	}
	if _, _, err := trace(in("loop/x"), 1); err == nil || isMissing(err) {
		t.Errorf("a loop of links: %v", err)
	}
}

func TestReportLines(t *testing.T) {
	failed := Failure{ID: "project/guard.js", File: "guard.js", Stays: true, Source: "let x =",
		Err: &runtime.ScriptError{Script: "project/guard.js", Pos: runtime.Position{File: "guard.js", Line: 3}, Message: "unexpected end"}}
	for _, c := range []struct {
		r    Report
		want string
	}{
		{Report{Old: 7, New: 8, Changed: []string{"project/guard.js"}, Offers: Counts{"listener": 1}, Duration: 6 * time.Millisecond},
			"scripts 7 -> 8  guard.js changed  +1 listener  6 ms"},
		{Report{Old: 7, New: 8, Added: []string{"user/a.js", "project/a.js"}, Removed: []string{"project/b.js"}, Offers: Counts{"listener": -2}},
			"scripts 7 -> 8  user/a.js and project/a.js added, b.js removed  -2 listeners  1 ms"},
		{Report{Old: 1, New: 2, Changed: []string{"p/a.js", "p/b.js", "p/c.js", "p/d.js", "p/e.js"}, Duration: 1500 * time.Microsecond},
			"scripts 1 -> 2  a.js, b.js, c.js and 2 more changed  2 ms"},
		{Report{Old: 7, New: 7, Failures: []Failure{failed}, Waiting: []string{"project/b.js"}},
			"scripts 7  guard.js:3: unexpected end (the version before stays in force)  b.js waiting for it"},
		{Report{Old: 7, New: 7, Held: []Candidate{{ID: "project/a.js", Kind: Removed}}}, "scripts 7  a.js removed: held"},
		{Report{Old: 7, New: 7, Mended: []string{"project/a.js"}}, "scripts 7  a.js as before"},
		{Report{Old: 7, New: 7}, "scripts 7  nothing changed"},
		{Report{Old: 7, New: 8, Changed: []string{"project/a.js"}, Offers: Counts{"command": 2, "tool": -1, "listener": 1}},
			"scripts 7 -> 8  a.js changed  +1 listener  +2 commands  -1 tool  1 ms"},
		{Report{Old: 7, New: 8, Changed: []string{"p/a.ts", "p/b.ts", "p/c.ts"}, Modules: map[string][]string{"p/a.ts": {"_lib.ts"}, "p/c.ts": {"_lib.ts"}}},
			"scripts 7 -> 8  _lib.ts changed (a.ts and c.ts), b.ts changed  1 ms"},
		{Report{Trigger: TriggerStart, Old: 0, New: 1, Scripts: 5, Added: []string{"p/a.js", "p/b.js", "p/c.js", "p/d.js", "p/e.js"}, Offers: Counts{"listener": 6}},
			"5 scripts in force: a.js, b.js, c.js and 2 more  6 listeners  1 ms"},
	} {
		if got := c.r.String(); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
	if got, want := failed.String(), "guard.js:3: unexpected end (the version before stays in force)\n    let x ="; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Failure{File: "a.js", Err: errors.New("no")}).String(); got != "a.js: no (not loaded: nothing does its work now; at the next start tool calls are denied until it is mended or switched off)" {
		t.Errorf("got %q", got)
	}
}

// An error behind the end of a file shows the last line that has something.
func TestSourceLineBehindTheEnd(t *testing.T) {
	s := newSnapshot("", "a.js", newFile([]byte("one\n  ctx.on(\n\n"), nil))
	for n, want := range map[int]string{1: "1 one", 2: "2 ctx.on(", 4: "2 ctx.on(", 9: "2 ctx.on("} {
		line, text := s.line("a.js", n)
		if got := fmt.Sprint(line, " ", text); got != want {
			t.Errorf("line %d: %s, want %s", n, got, want)
		}
	}
}

// A thousand reloads, the failing ones included, leave nothing behind.
func TestThousandReloads(t *testing.T) {
	r := newRig(t)
	r.c.Settle, r.c.SettleMax = time.Hour, time.Hour
	for i := range 5 {
		r.write(fmt.Sprintf("f%d.js", i), "say f", "need _lib.js")
	}
	r.write("_lib.js", "say lib")
	r.start()
	round := func(i int) {
		t.Helper()
		line := fmt.Sprintf("say %d", i)
		if i%7 == 0 {
			line = fmt.Sprintf("fail %d", i)
		}
		r.write(fmt.Sprintf("f%d.js", i%5), line)
		if i%11 == 0 {
			r.write("new.js", "say new", fmt.Sprintf("say %d", i))
		}
		if i%13 == 0 {
			_ = os.Remove(r.path("new.js"))
		}
		if _, err := r.m.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i%50 == 49 {
			if _, err := r.m.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	measure := func() (heap uint64, goroutines int) {
		goruntime.GC()
		var ms goruntime.MemStats
		goruntime.ReadMemStats(&ms)
		return ms.HeapAlloc, goruntime.NumGoroutine()
	}
	for i := range 200 {
		round(i)
	}
	heap, goroutines := measure()
	for i := 200; i < 1200; i++ {
		round(i)
		r.mu.Lock()
		r.reports = nil
		r.mu.Unlock()
	}
	heap2, goroutines2 := measure()
	if heap2 > heap+1<<20 || goroutines2 > goroutines {
		t.Errorf("heap %d -> %d, goroutines %d -> %d", heap, heap2, goroutines, goroutines2)
	}
	if n := r.e.vms.Load(); n > 6 {
		t.Errorf("%d VMs are open", n)
	}
}

// Everybody at once: saves, turns, and every method, under the race detector.
func TestEverybodyAtOnce(t *testing.T) {
	r, g := newGated(t)
	r.c.Settle, r.c.Poll = 2*time.Millisecond, 5*time.Millisecond
	for i := range 4 {
		r.write(fmt.Sprintf("f%d.js", i), "say f")
	}
	r.start()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	loop := func(fn func(i int)) {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				fn(i)
			}
		})
	}
	loop(func(i int) { // saves
		_ = os.WriteFile(r.path(fmt.Sprintf("f%d.js", i%4)), fmt.Appendf(nil, "say %d", i), 0o644)
		time.Sleep(time.Millisecond)
	})
	loop(func(i int) { // turns: a generation that is held stays what it is
		_ = r.host.Do(ctx, func() {
			gen := r.host.Current().Hold()
			r.host.Thread.Go(context.Background(), func() {
				defer gen.Release()
				for _, in := range gen.Instances {
					if in.Context().Err() != nil {
						t.Error("an instance that is held was disposed")
					}
				}
				if err := ask.Run(r.host, runtime.Target{Gen: gen}, struct{}{}); err != nil {
					t.Error(err)
				}
			})
		})
		time.Sleep(time.Millisecond)
	})
	loop(func(i int) {
		g.answer(Verdict(i % 3))
		_, _ = r.m.Reload(ctx)
		_, _ = r.m.Take(ctx, "f0.js")
		_ = r.m.Drop(ctx, "f1.js")
		time.Sleep(3 * time.Millisecond)
	})
	loop(func(i int) {
		_, _ = r.m.Off(ctx, "f2.js")
		_, _ = r.m.On(ctx, "f2.js")
		_, _ = r.m.Rollback(ctx)
		_ = r.m.Status(ctx)
		time.Sleep(5 * time.Millisecond)
	})
	wg.Wait()
	g.answer(Take)
	for i := range 4 {
		r.write(fmt.Sprintf("f%d.js", i), "say end")
	}
	_, _ = r.m.On(t.Context(), "f2.js")
	for i := range 4 {
		_, _ = r.m.Take(t.Context(), fmt.Sprintf("f%d.js", i))
	}
	_, err := r.m.Reload(t.Context())
	r.ok(err)
	r.says("end end end end")
}

func TestSnapshotHash(t *testing.T) {
	alone := newSnapshot("", "a.js", newFile([]byte("x"), nil))
	if alone.hash() != alone.text().hash {
		t.Error("a script that requires nothing has the hash of its file")
	}
	with := newSnapshot("", "a.js", newFile([]byte("x"), nil))
	with.files["lib.js"] = newFile([]byte("y"), nil)
	other := newSnapshot("/elsewhere", "a.js", newFile([]byte("x"), nil))
	other.files["lib.js"] = newFile([]byte("y"), nil)
	if with.hash() == alone.hash() || with.hash() != other.hash() {
		t.Error("the hash covers the modules, and not where they lie")
	}
	if reflect.DeepEqual(with.names(), []string{"lib.js"}) {
		t.Error("the script's own file belongs to it")
	}
}

// The figure that DESIGN section 10 asks for: from the end of a save to the generation
// that has it, with 20 scripts. The settle time is subtracted.
func BenchmarkSaveToInForce20(b *testing.B) {
	dir, e := b.TempDir(), &toy{}
	host := runtime.NewHost(runtime.HostConfig{Events: runtime.NewCatalogue(ask.Event), Engines: []runtime.Engine{e}})
	defer host.Close()
	save := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	save("_lib.js", "say lib")
	for i := range 20 {
		save(fmt.Sprintf("f%02d.js", i), "say x\nneed _lib.js")
	}
	came := make(chan struct{}, 1)
	m := New(Config{
		Host: host, Folders: []Folder{{Layer: runtime.LayerProject, Dir: dir}},
		Activated: func(_, _ *runtime.Generation) { came <- struct{}{} },
	})
	if _, err := m.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	<-came
	var total time.Duration
	for n := 0; b.Loop(); n++ {
		save("f07.js", fmt.Sprintf("say %d\nneed _lib.js", n))
		began := time.Now()
		<-came
		total += time.Since(began) - m.c.Settle
	}
	b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "ms-beyond-settle")
}

// What a look costs that finds nothing, as every poll does.
func BenchmarkPoll20(b *testing.B) {
	dir, e := b.TempDir(), &toy{}
	host := runtime.NewHost(runtime.HostConfig{Events: runtime.NewCatalogue(ask.Event), Engines: []runtime.Engine{e}})
	defer host.Close()
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%02d.js", i)), []byte("say x"), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	m := New(Config{Host: host, Folders: []Folder{{Layer: runtime.LayerProject, Dir: dir}}})
	if _, err := m.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for b.Loop() {
		if err := m.enter(b.Context(), func(context.Context) error { m.poll(); return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
