//go:build unix

package trust

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A fingerprint of a folder that is reached by links is that of what lies there, and of
// where the links in it lead.
func TestFingerprintThroughLinks(t *testing.T) {
	top := t.TempDir()
	real, link := filepath.Join(top, "real"), filepath.Join(top, "link")
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"one", "two"} {
		step(os.MkdirAll(filepath.Join(real, f), 0o755))
		step(os.WriteFile(filepath.Join(real, f, "m.js"), []byte(f), 0o644))
	}
	step(os.Symlink("real", link))
	step(os.Symlink("one", filepath.Join(real, "lib")))
	seen := map[string]bool{}
	for _, c := range []struct {
		what   string
		change func() error
	}{
		{"nothing", func() error { return nil }},
		{"a script", func() error { return os.WriteFile(filepath.Join(real, "guard.js"), []byte("x"), 0o644) }},
		{"where a link goes to", func() error {
			_ = os.Remove(filepath.Join(real, "lib"))
			return os.Symlink("two", filepath.Join(real, "lib"))
		}},
	} {
		step(c.change())
		a, err := Fingerprint(real)
		step(err)
		b, err := Fingerprint(link)
		step(err)
		if a != b || seen[b] {
			t.Errorf("after %s has changed: %s, through a link %s, seen before: %v", c.what, a, b, seen[b])
		}
		seen[b] = true
	}
}

// A fingerprint tells everything in the folder apart and opens nothing that could block
// or never end.
func TestFingerprintOfWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "guard.js")
	seen := map[string]string{}
	for name, make := range map[string]func() error{
		"nothing":          func() error { return nil },
		"pipe":             func() error { return syscall.Mkfifo(path, 0o644) },
		"dangling link":    func() error { return os.Symlink("nowhere", path) },
		"link to a device": func() error { return os.Symlink("/dev/zero", path) },
		"file":             func() error { return os.WriteFile(path, []byte("x"), 0o644) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		sum, err := Fingerprint(dir)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if other, ok := seen[sum]; ok {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[sum] = name
		_ = os.Remove(path) // nothing there the first time
	}
}
