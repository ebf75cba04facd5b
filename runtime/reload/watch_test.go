package reload

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"dshsh/runtime"
)

// watchOnly has the manager rely on what is reported: the poll does not help it.
func (r *rig) watchOnly() { r.c.Poll = time.Hour }

func TestR037_LinkedFolder(t *testing.T) {
	r := newRig(t)
	r.watchOnly()
	for _, v := range []string{"v1", "v2", "v3"} {
		r.mkdir(filepath.Join(r.top, v, "scripts"))
		r.write(filepath.Join(r.top, v, "scripts", "a.js"), "say "+v, "need _lib.js")
		r.write(filepath.Join(r.top, v, "scripts", "_lib.js"), "say lib"+v)
	}
	current := filepath.Join(r.top, "current")
	r.link("v1", current)
	r.c.Folders[0].Dir = filepath.Join(current, "scripts")
	r.start()
	r.says("v1 libv1")
	r.link("v2", current)
	r.says("v2 libv2")
	r.link(filepath.Join(r.top, "v3"), current)
	r.says("v3 libv3")
	r.write(filepath.Join(r.top, "v3/scripts/a.js"), "say new")
	r.says("new")
	r.write(filepath.Join(r.top, "v2/scripts/a.js"), "say old")
	r.idle()
	r.says("new")
	if got, want := r.status("project/a.js").Path, filepath.Join(current, "scripts", "a.js"); got != want {
		t.Errorf("path %s, want %s", got, want)
	}
}

// The folder of a mounted configuration: links to a link to a folder, which is swapped.
func TestLinksLikeConfigMap(t *testing.T) {
	r := newRig(t)
	r.watchOnly()
	r.mkdir(r.path("..1"))
	r.mkdir(r.path("..2"))
	r.write("..1/a.js", "say one")
	r.write("..2/a.js", "say two")
	r.link("..1", "..data")
	r.link("..data/a.js", "a.js")
	r.start()
	r.says("one")
	r.link("..2", "..data")
	r.ok(os.RemoveAll(r.path("..1")))
	r.says("two")
}

func TestLinkedFile(t *testing.T) {
	r := newRig(t)
	r.watchOnly()
	target := filepath.Join(r.top, "else", "where.js")
	r.mkdir(filepath.Dir(target))
	r.write(target, "say one")
	r.link(target, "a.js")
	r.start()
	r.says("one")
	r.write(target, "say two")
	r.says("two")
	r.replace(target, "say three")
	r.says("three")
	r.write(filepath.Join(r.top, "other.js"), "say other")
	r.link("../other.js", "a.js")
	r.says("other")
	r.ok(os.Remove(r.path("a.js")))
	r.says("")
	r.link(filepath.Join(r.top, "late.js"), "b.js")
	r.idle()
	r.write(filepath.Join(r.top, "late.js"), "say late")
	r.says("late")
}

func TestFolderSwapped(t *testing.T) {
	r := newRig(t)
	r.watchOnly()
	r.write("a.js", "say one")
	r.write("gone.js", "say gone")
	r.start()
	r.says("one gone")
	for _, word := range []string{"two", "three"} {
		next := filepath.Join(r.top, "next")
		r.mkdir(next)
		r.write(filepath.Join(next, "a.js"), "say "+word)
		r.ok(os.Rename(r.dir, filepath.Join(r.top, "old"+word)))
		r.ok(os.Rename(next, r.dir))
		r.says(word)
	}
	r.write("a.js", "say four")
	r.says("four")
	r.ok(os.RemoveAll(r.dir))
	r.says("")
	r.mkdir(r.dir)
	r.write("a.js", "say five")
	r.says("five")
}

// The folder above is swapped: the folder itself is moved without an event of its own.
func TestParentSwapped(t *testing.T) {
	r := newRig(t)
	r.watchOnly()
	for _, v := range []string{"one", "two"} {
		r.mkdir(filepath.Join(r.top, v, "scripts"))
		r.write(filepath.Join(r.top, v, "scripts", "a.js"), "say "+v)
	}
	r.ok(os.Rename(filepath.Join(r.top, "one"), filepath.Join(r.top, ".dshsh")))
	r.c.Folders[0].Dir = filepath.Join(r.top, ".dshsh", "scripts")
	r.start()
	r.says("one")
	r.ok(os.Rename(filepath.Join(r.top, ".dshsh"), filepath.Join(r.top, "old")))
	r.ok(os.Rename(filepath.Join(r.top, "two"), filepath.Join(r.top, ".dshsh")))
	r.says("two")
	r.write(filepath.Join(r.top, ".dshsh/scripts/a.js"), "say three")
	r.says("three")
}

func TestFolderMissingAtStart(t *testing.T) {
	r := newRig(t)
	r.watchOnly()
	dir := filepath.Join(r.top, "p", ".dshsh", "scripts")
	r.c.Folders[0].Dir = dir
	r.start()
	r.says("")
	for _, d := range []string{"p", "p/.dshsh", "p/.dshsh/scripts"} {
		r.mkdir(filepath.Join(r.top, d))
		if d != "p/.dshsh/scripts" {
			r.idle()
		}
	}
	r.write(filepath.Join(dir, "a.js"), "say a")
	r.says("a")
	r.ok(os.RemoveAll(filepath.Join(r.top, "p")))
	r.says("")
	r.mkdir(dir) // all at once
	r.write(filepath.Join(dir, "a.js"), "say b")
	r.says("b")
}

func TestGitCheckout(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here: TestFolderSwapped stands in for it")
	}
	r := newRig(t)
	r.watchOnly()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", r.top, "-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q", "-b", "one")
	for i := range 5 {
		r.write(fmt.Sprintf("f%d.js", i), "say one")
	}
	git("add", ".")
	git("commit", "-q", "-m", "one")
	git("checkout", "-q", "-b", "two")
	for i := range 3 {
		r.write(fmt.Sprintf("f%d.js", i), "say two")
	}
	git("rm", "-q", "scripts/f4.js")
	r.write("g.js", "say g")
	git("add", ".")
	git("commit", "-q", "-m", "two")
	git("checkout", "-q", "--orphan", "none")
	git("rm", "-q", "-r", "-f", ".")
	git("commit", "-q", "--allow-empty", "-m", "none")
	git("checkout", "-q", "one")
	r.start()
	r.says("one one one one one")
	git("checkout", "-q", "two")
	r.says("two two two one g")
	git("checkout", "-q", "none") // takes the folder away
	r.says("")
	git("checkout", "-q", "one")
	r.says("one one one one one")
}

func TestNoiseStarvesNothing(t *testing.T) {
	r := newRig(t)
	r.watchOnly()
	r.write("a.js", "say a")
	r.write("loud.js", "say loud")
	r.start()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				_ = os.WriteFile(r.path("noise.txt"), []byte("x"), 0o644)
				_ = os.WriteFile(r.path("loud.js.tmp123"), []byte("say loud\n# "), 0o644)
				_ = os.WriteFile(r.path("new.js"), fmt.Appendf(nil, "say new%d", i), 0o644)
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	began := time.Now()
	r.write("a.js", "say b")
	r.until("the save is in force", func() bool { return strings.HasPrefix(r.said(nil), "b loud") })
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("in force after %v", d)
	}
}

func TestR040_TruncatedSaveKeepsTheGuard(t *testing.T) {
	for name, empty := range map[string]func(r *rig){
		"empty":   func(r *rig) { r.write("guard.js") },
		"missing": func(r *rig) { r.ok(os.Remove(r.path("guard.js"))) },
		"module":  func(r *rig) { r.write("_lib.js") },
		"folder": func(r *rig) {
			r.ok(os.Rename(r.dir, r.dir+".away"))
			r.mkdir(r.dir + ".away")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.c.Linger = 0 // as users have it
			r.write("_lib.js", "say lib")
			r.write("guard.js", "say deny", "need _lib.js")
			r.start()
			for range 25 {
				empty(r)
				for end := time.Now().Add(45 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
					if got := r.said(nil); got != "deny lib" {
						t.Fatalf("scripts say %q", got)
					}
				}
				if name == "folder" {
					r.ok(os.Rename(r.dir+".away", r.dir))
				}
				r.write("_lib.js", "say lib")
				r.write("guard.js", "say deny", "need _lib.js")
			}
			r.idle()
			if n := len(r.told()); n != 1 {
				t.Errorf("%d reports, want that of the start alone: %v", n, r.told())
			}
		})
	}
}

func TestEmptiedScriptIsBelievedInTime(t *testing.T) {
	r := newRig(t)
	r.watchOnly()
	r.c.Linger = 0 // as users have it
	r.write("a.js", "say a")
	r.start()
	began := time.Now()
	r.write("a.js")
	r.says("")
	if d := time.Since(began); d < r.m.c.Linger {
		t.Errorf("believed after %v", d)
	}
	if n := len(r.m.Status(t.Context())); n != 1 {
		t.Errorf("%d scripts are listed, want 1: an empty script is one", n)
	}
}

func TestR039_PollsWhereWatchingFails(t *testing.T) {
	for name, cause := range map[string]error{"instances": syscall.EMFILE, "other": os.ErrPermission} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.c.PollAlone = 20 * time.Millisecond
			r.c.open = func() (*fsnotify.Watcher, error) { return nil, cause }
			r.write("a.js", "say a")
			rep := r.start()
			line := strings.Join(rep.Notices, "\n")
			if !strings.Contains(line, cause.Error()) || !strings.Contains(line, "/reload") || name == "instances" && !strings.Contains(line, "max_user_instances") {
				t.Errorf("notice %q", line)
			}
			r.says("a")
			r.write("a.js", "say b")
			r.says("b")
			r.ok(os.Remove(r.path("a.js")))
			r.says("")
			r.idle()
			n := 0
			for _, rep := range r.told() {
				n += len(rep.Notices)
			}
			if n != 1 {
				t.Errorf("said %d times, want once", n)
			}
		})
	}
}

func TestReloadByHandWhereWatchingFails(t *testing.T) {
	r := newRig(t)
	r.c.PollAlone = time.Hour
	r.c.open = func() (*fsnotify.Watcher, error) { return nil, syscall.EMFILE }
	r.start()
	r.write("a.js", "say a")
	_, err := r.m.Reload(t.Context())
	r.ok(err)
	r.says("a")
}

func TestWatchesAgainWhenItCan(t *testing.T) {
	r := newRig(t)
	var broken atomic.Bool
	broken.Store(true)
	r.c.open = func() (*fsnotify.Watcher, error) {
		if broken.Load() {
			return nil, syscall.EMFILE
		}
		return fsnotify.NewWatcher()
	}
	r.start()
	poll := func() {
		r.ok(r.m.enter(t.Context(), func(context.Context) error { r.m.reopens = time.Time{}; r.m.poll(); return nil }))
	}
	poll()
	broken.Store(false)
	poll()
	r.saw("it watches again", func(rep Report) bool {
		return rep.Trigger == TriggerWatch && strings.Contains(rep.String(), "reported again")
	})
}

// Where nothing is reported, as on some network file systems, the poll finds it.
func TestPollFindsWhatIsNotReported(t *testing.T) {
	r := newRig(t)
	r.c.Poll = 20 * time.Millisecond
	r.write("a.js", "say a")
	r.start()
	r.ok(r.m.enter(t.Context(), func(context.Context) error { return r.m.watch.w.Remove(r.dir) }))
	r.write("a.js", "say b")
	r.says("b")
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	r := newRig(t)
	r.c.Poll = 50 * time.Millisecond // a change of mode is not reported
	r.write("a.js", "say a")
	r.start()
	r.ok(os.Chmod(r.path("a.js"), 0))
	r.state("project/a.js", StateFailed)
	r.says("a")
	r.ok(os.Chmod(r.dir, 0))
	r.saw("it is told", func(rep Report) bool { return len(rep.Notices) > 0 })
	r.says("a")
	r.ok(os.Chmod(r.dir, 0o755))
	r.ok(os.Chmod(r.path("a.js"), 0o644))
	r.state("project/a.js", StateInForce)
}

// A folder that cannot be read keeps its scripts: here it is a loop of links.
func TestUnreadableFolder(t *testing.T) {
	t.Run("watched", func(t *testing.T) { testUnreadableFolder(t, newRig(t)) })
	t.Run("polled", func(t *testing.T) {
		r := newRig(t)
		r.c.PollAlone = 20 * time.Millisecond
		r.c.open = func() (*fsnotify.Watcher, error) { return nil, os.ErrPermission }
		testUnreadableFolder(t, r)
	})
}

func testUnreadableFolder(t *testing.T, r *rig) {
	r.write("a.js", "say a")
	user := filepath.Join(r.top, "user")
	r.mkdir(user)
	r.write(filepath.Join(user, "u.js"), "say u")
	r.c.Folders = append(r.c.Folders, Folder{Layer: runtime.LayerUser, Dir: user})
	r.start()
	r.ok(os.Rename(user, user+".old"))
	r.ok(os.Symlink("user", user))
	r.saw("it is told", func(rep Report) bool { return strings.Contains(rep.String(), "too many") })
	r.write("a.js", "say b")
	r.says("u b")
	r.ok(os.Remove(user))
	r.ok(os.Rename(user+".old", user))
	r.write(filepath.Join(user, "u.js"), "say v")
	r.says("v b")
}
