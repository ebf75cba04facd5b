package reload

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// R039 as it happens: the test runs itself in a user namespace that may have no inotify
// instance at all, so that nobody else's are used up.
func TestR039_OutOfInstances(t *testing.T) {
	const child = "RELOAD_TEST_WITHOUT_INOTIFY"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestR039_OutOfInstances$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || strings.Contains(string(out), "--- SKIP") {
			t.Skipf("no user namespaces here (%v): TestR039_PollsWhereWatchingFails stands in for it", err)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("0"), 0); err != nil {
		t.Skip(err)
	}
	r := newRig(t)
	r.c.PollAlone = time.Hour
	r.write("a.js", "say a")
	rep := r.start()
	if line := strings.Join(rep.Notices, "\n"); !strings.Contains(line, "max_user_instances") {
		t.Errorf("notice %q", line)
	}
	r.says("a")
	r.write("a.js", "say b")
	_, err := r.m.Reload(t.Context())
	r.ok(err)
	r.says("b")
}
