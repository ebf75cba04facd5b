package trust

import (
	"os"
	"path/filepath"
	"testing"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTwoShells: each answers by what it knew at its start and what was decided through
// it, and neither undoes what the other has decided.
func TestTwoShells(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, dir).Grant("/p", "project/a.js", []string{"read x"}); err != nil {
		t.Fatal(err)
	}
	one, two := open(t, dir), open(t, dir)
	if _, err := one.Revoke("/p"); err != nil {
		t.Fatal(err)
	}
	if err := one.Remember("/p", "f1"); err != nil {
		t.Fatal(err)
	}
	if err := two.Grant("/p", "project/b.js", []string{"http h", "exec /bin/x"}); err != nil {
		t.Fatal(err)
	}
	if err := two.Remember("/q", "f2"); err != nil {
		t.Fatal(err)
	}
	if !two.Granted("/p", "project/a.js", "read x") || two.Trusted("/p", "f1") {
		t.Error("a running shell has taken over what another one decided")
	}
	now := open(t, dir)
	for what, c := range map[string]struct{ got, want bool }{
		"revoked":           {now.Granted("/p", "project/a.js", "read x"), false},
		"granted":           {now.Granted("/p", "project/b.js", "http h"), true},
		"of another script": {now.Granted("/p", "project/a.js", "http h"), false},
		"of another folder": {now.Granted("/q", "project/b.js", "http h"), false},
		"trusted by one":    {now.Trusted("/p", "f1"), true},
		"trusted by two":    {now.Trusted("/q", "f2"), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}

// TestRevokedElsewhere: what one shell revokes another does not bring back by renewing.
func TestRevokedElsewhere(t *testing.T) {
	dir := t.TempDir()
	one := open(t, dir)
	if err := one.Renew("/p", "f1"); err != nil { // trusted by its command line
		t.Fatal(err)
	}
	if one.Revoked("/p") || one.Revoked("/q") {
		t.Error("revoked by nobody")
	}
	two := open(t, dir)
	if err := two.Forget("/p"); err != nil {
		t.Fatal(err)
	}
	if err := one.Renew("/p", "f2"); err != nil {
		t.Fatal(err)
	}
	if now := open(t, dir); now.Known("/p") {
		t.Error("the trust is back")
	}
	if !one.Revoked("/p") || one.Known("/p") || one.Revoked("/p") {
		t.Error("the revoke is not noticed, or twice")
	}
	if err := one.Remember("/p", "f2"); err != nil {
		t.Fatal(err)
	}
	if now := open(t, dir); !now.Trusted("/p", "f2") || one.Revoked("/p") {
		t.Error("an answer does not trust it again")
	}
	// One that was trusted by its command line alone, before and after another revoke.
	for range 2 {
		three := open(t, dir)
		if three.Revoked("/r") {
			t.Error("an old revoke counts")
		}
		if err := two.Forget("/r"); err != nil {
			t.Fatal(err)
		}
		if err := three.Renew("/r", "f"); err != nil || open(t, dir).Known("/r") || !three.Revoked("/r") || three.Revoked("/r") {
			t.Error("the revoke of what was not remembered is not noticed, or twice", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "trust.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !one.Revoked("/p") {
		t.Error("a file that cannot be read trusts it")
	}
}

// TestBrokenFiles grant nothing, and are not written over.
func TestBrokenFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "grants.json")
	if err := os.WriteFile(path, []byte(`{"/p":{"a":["read x"`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir)
	if err == nil || s == nil || s.Granted("/p", "a", "read x") {
		t.Fatalf("a broken file: %v", err)
	}
	if err := s.Grant("/p", "a", []string{"read y"}); err == nil {
		t.Error("a broken file was written over")
	}
	if err := s.Remember("/p", "f"); err != nil {
		t.Error(err)
	}
}
