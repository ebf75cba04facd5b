//go:build unix

package trust

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

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
