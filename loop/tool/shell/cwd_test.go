//go:build unix

package shell

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dshsh/loop/tool"
)

// real is the folder as the system knows it.
func real(t *testing.T, dir string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func TestFolderHoldsForTheNextCommand(t *testing.T) {
	b := newBash(t)
	b.cfg.Dir = real(t, b.cfg.Dir)
	sub := filepath.Join(b.cfg.Dir, "sub dir")
	if o := run(t, b, "mkdir -p 'sub dir/x' && cd 'sub dir'"); !strings.HasSuffix(o.text, "[the next command starts in "+sub+"]") || o.Cwd != sub {
		t.Errorf("%q %q", o.text, o.Cwd)
	}
	if o := run(t, b, `pwd; echo "$PWD"`); o.text != sub+"\n"+sub || o.Cwd != sub {
		t.Errorf("%q %q", o.text, o.Cwd)
	}
	if _, dir := b.Command(json.RawMessage(`{"command":"ls"}`), ""); dir != sub {
		t.Errorf("a policy is told of %q", dir)
	}
	if _, dir := b.Command(json.RawMessage(`{"command":"ls"}`), "other"); dir != b.cfg.Dir {
		t.Errorf("another agent starts in %q", dir)
	}
	// Also when the command fails, exits, or only a subshell goes elsewhere.
	if o := run(t, b, "cd x; exit 7"); o.ExitCode != 7 || o.Cwd != filepath.Join(sub, "x") {
		t.Errorf("%q %q", o.text, o.Cwd)
	}
	if o := run(t, b, "(cd /); cd nowhere; pwd"); !strings.HasSuffix(o.text, "\n"+filepath.Join(sub, "x")) {
		t.Errorf("%q", o.text)
	}
	if o := run(t, b, "set -eux; cd ..; false"); o.ExitCode != 1 || strings.Contains(o.text, "pwd -P") || o.Cwd != sub {
		t.Errorf("%q %q", o.text, o.Cwd)
	}
	if o := run(t, b, "cd .."); o.text != "[no output]\n[exit status 0]\n[the next command starts in "+b.cfg.Dir+"]" || o.Cwd != "" {
		t.Errorf("%q %q", o.text, o.Cwd)
	}
	b.SetDir("a", sub)
	if b.Dir("a") != sub || b.Dir("b") != b.cfg.Dir {
		t.Errorf("%q %q", b.Dir("a"), b.Dir("b"))
	}
	b.Forget("a")
	b.SetDir("a", "/")
	b.SetDir("a", filepath.Join(sub, "gone"))
	if b.Dir("a") != b.cfg.Dir {
		t.Errorf("%q", b.Dir("a"))
	}
}

func TestFolderOutsideDoesNotHold(t *testing.T) {
	b := newBash(t)
	b.cfg.Dir = real(t, b.cfg.Dir)
	if err := os.Symlink("/", filepath.Join(b.cfg.Dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"cd /", "cd out"} {
		if o := run(t, b, command); !strings.Contains(o.text, "outside of the working folder; the next one starts in "+b.cfg.Dir+" again") || o.Cwd != "" {
			t.Errorf("%s: %q", command, o.text)
		}
	}
	if o := run(t, b, "pwd"); o.text != b.cfg.Dir {
		t.Errorf("%q", o.text)
	}
}

func TestFolderThatIsGone(t *testing.T) {
	b := newBash(t)
	b.cfg.Dir = real(t, b.cfg.Dir)
	run(t, b, "mkdir d && cd d")
	if err := os.Remove(filepath.Join(b.cfg.Dir, "d")); err != nil {
		t.Fatal(err)
	}
	if o := run(t, b, "pwd"); !strings.HasPrefix(o.text, b.cfg.Dir+"\n[") || !strings.Contains(o.text, "is gone, so the command started in") || o.Cwd != "" {
		t.Errorf("%q", o.text)
	}
}

func TestFolderOfWhatDoesNotSay(t *testing.T) {
	b := newBash(t)
	b.cfg.Dir = real(t, b.cfg.Dir)
	run(t, b, "mkdir d e && cd d")
	for _, command := range []string{"cd ../e; exec true", "cd ../e; trap 'true' EXIT", "cd ../e; kill -KILL $$", "unset " + dirVariable + "; cd ../e", "for ("} {
		if o := run(t, b, command); o.Cwd != filepath.Join(b.cfg.Dir, "d") {
			t.Errorf("%s: %q", command, o.Cwd)
		}
	}
	o := call(t, t.Context(), b, Args{TimeoutMs: 200, Command: "cd ../e; trap '' TERM; sleep 60; sleep 60"})
	if o.err != nil || !o.TimedOut {
		t.Errorf("%v %q", o.err, o.text)
	}
}

func TestTheLinesOfErrorsAreTheCommands(t *testing.T) {
	b := newBash(t)
	if o := run(t, b, "true\nnowhere-to-be-found"); !strings.Contains(o.text, "line 2: nowhere-to-be-found") {
		t.Errorf("%q", o.text)
	}
	if o := run(t, b, "# a comment first\necho a"); o.text != "a" {
		t.Errorf("%q", o.text)
	}
	if o := run(t, b, "(sleep 5; sleep 5) & echo a"); strings.Contains(o.text, dirVariable) || !strings.Contains(o.text, "(sleep 5; sleep 5)") {
		t.Errorf("%q", o.text)
	}
}

func TestCloseLeavesNoFiles(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	b := newBash(t)
	run(t, b, "true")
	call(t, t.Context(), b, Args{TimeoutMs: 50, Command: "sleep 10"})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}

func TestFoldersAreNotRememberedWithoutATemporaryFolder(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
	b := newBash(t)
	b.cfg.Dir = real(t, b.cfg.Dir)
	if o := run(t, b, "mkdir d; cd d; pwd"); o.text != filepath.Join(b.cfg.Dir, "d") || o.Cwd != "" {
		t.Errorf("%q", o.text)
	}
}

// A password, a host key and an answer are asked for in vain, and at once.
func TestR091_PasswordsAndHostKeys(t *testing.T) {
	b := newBash(t)
	for _, command := range []string{
		"command -v sudo >/dev/null && [ \"$(id -u)\" != 0 ] && sudo -k true || false",
		"ssh -p 1 -o ConnectTimeout=1 localhost true",
		"su nobody -c true </dev/tty",
	} {
		if o := run(t, b, command); o.ExitCode == 0 || o.took > 5*time.Second {
			t.Errorf("%s: %v %q", command, o.took, o.text)
		}
	}
}

func TestR129_KeysAreNotInTheEnvironmentOfBackgroundProcesses(t *testing.T) {
	b := newBash(t, func(c *Config) { c.Environ = append(c.Environ, "OPENAI_API_KEY=sk-1234567890") })
	if o := run(t, b, "(setsid env >e; echo done >d) & wait; cat e"); strings.Contains(o.text, "sk-1234567890") {
		t.Errorf("%q", o.text)
	}
}

func TestExecuteAfterCloseIsRefused(t *testing.T) {
	b := newBash(t)
	b.Close()
	_, err := b.Execute(t.Context(), json.RawMessage(`{"command":"true"}`), &tool.Exec{})
	var e *tool.Error
	if err == nil || errors.As(err, &e) {
		t.Errorf("%v", err)
	}
	if b.temp != "" {
		t.Error("a folder was made")
	}
}
