//go:build unix

package reload

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// oddities make something in a script's place that is no file that can be read.
var oddities = []struct {
	name, says string
	make       func(r *rig, path string)
}{
	{"dangling link", "no such file", func(r *rig, path string) { r.ok(os.Symlink("nowhere.js", path)) }},
	{"link in a circle", "too many", func(r *rig, path string) { r.ok(os.Symlink(filepath.Base(path), path)) }},
	{"pipe", "not a regular file", func(r *rig, path string) { r.ok(syscall.Mkfifo(path, 0o644)) }},
	{"link to a pipe", "not a regular file", func(r *rig, path string) {
		r.ok(syscall.Mkfifo(filepath.Join(r.top, "pipe"), 0o644))
		r.ok(os.Symlink(filepath.Join(r.top, "pipe"), path))
	}},
	{"socket", "not a regular file", func(r *rig, path string) {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		r.ok(err)
		r.t.Cleanup(func() { _ = syscall.Close(fd) })
		r.t.Chdir(filepath.Dir(path)) // the name of a socket may not be long
		r.ok(syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Base(path)}))
	}},
	{"link to a device", "not a regular file", func(r *rig, path string) { r.ok(os.Symlink("/dev/zero", path)) }},
	{"too large", "larger than 8 MiB", func(r *rig, path string) {
		r.write(path, "say x")
		r.ok(os.Truncate(path, maxFile+1))
	}},
	{"without permission", "permission denied", func(r *rig, path string) {
		if os.Getuid() == 0 {
			r.t.Skip("root reads everything")
		}
		r.write(path, "say x")
		r.ok(os.Chmod(path, 0))
	}},
}

// What is named like a script and cannot be read is a script that failed, never one that
// is not there: at the start nothing runs past it.
func TestUnreadableAtTheStartDenies(t *testing.T) {
	for _, o := range oddities {
		t.Run(o.name, func(t *testing.T) {
			r := newRig(t)
			r.write("a.js", "say a")
			o.make(r, r.path("guard.js"))
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			r.m = New(r.c)
			rep, err := r.m.Start(ctx)
			r.ok(err)
			if len(rep.Failures) != 1 || !rep.Failures[0].Denies || !strings.Contains(rep.Failures[0].String(), o.says) {
				t.Fatalf("failures %v, want one that denies and says %q", rep.Failures, o.says)
			}
			r.state("project/guard.js", StateDenies)
			r.says("a")
			r.ok(r.host.Do(ctx, func() {
				if n := len(r.host.Current().Failed()); n != 1 {
					t.Errorf("%d stand-ins, want 1", n)
				}
			}))
			r.replace("guard.js", "say guard")
			r.says("a guard")
		})
	}
}

// Later the version before stays in force, and a new one that cannot be read is told of.
func TestUnreadableLaterKeepsTheOldVersion(t *testing.T) {
	for _, o := range oddities {
		t.Run(o.name, func(t *testing.T) {
			r := newRig(t)
			r.write("guard.js", "say guard")
			r.start()
			tmp := r.path("other.tmp")
			o.make(r, tmp)
			r.ok(os.Rename(tmp, r.path("guard.js")))
			rep := r.saw("it is told", func(rep Report) bool { return len(rep.Failures) > 0 })
			f := rep.Failures[0]
			if f.ID != "project/guard.js" || !f.Stays || o.name != "link in a circle" && !strings.Contains(f.String(), o.says) {
				t.Errorf("failure %v", f)
			}
			r.state("project/guard.js", StateFailed)
			r.says("guard")
			r.write("b.js", "say b") // others are not held back
			r.says("b guard")
			r.replace("guard.js", "say new")
			r.says("b new")
		})
	}
}

// A link whose target is missing for a moment, as in the middle of a checkout, is not
// believed at once.
func TestALinkThatDanglesForAMoment(t *testing.T) {
	r := newRig(t)
	target := filepath.Join(r.top, "target.js")
	r.write(target, "say one")
	r.link(target, "a.js")
	r.start()
	r.ok(os.Remove(target))
	time.Sleep(60 * time.Millisecond) // longer than the settling, shorter than the doubt
	r.write(target, "say two")
	r.says("two")
	r.saw("the change", func(rep Report) bool { return len(rep.Changed) == 1 })
	if reps := r.told(); len(reps) != 2 {
		t.Errorf("reports %v, want the start and the change", reps)
	}
}
