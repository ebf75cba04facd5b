// Package trust decides whether a project's scripts may run, and remembers the answers.
// It is the only reader of the state folder.
//
// A folder is trusted with its content: when the scripts at the next start are others
// than those that were taken last, the question is asked again. What is decided is read
// at the start and lives in memory, so that no file changed later loosens a running
// shell.
package trust

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
)

// Store remembers which folders are trusted and what was granted. What it answers is what
// was there when it was opened, with what was decided through it since; other shells
// change the files beside it. Its methods may be called from any goroutine.
type Store struct {
	path   string // of the trusted folders
	grants string // of the grants

	mu      sync.Mutex // guards what follows
	folders folders
	granted granted
}

// folders is folder -> fingerprint of its scripts when they were last taken, or a
// revokedMark.
type folders map[string]string

// Open reads what is remembered in the state folder. A file that cannot be read trusts
// and grants nothing.
func Open(state string) (*Store, error) {
	s := &Store{path: filepath.Join(state, "trust.json"), grants: filepath.Join(state, "grants.json")}
	var err1, err2 error
	if s.folders, err1 = load[folders](s.path); err1 != nil {
		err1 = fmt.Errorf("what folders are trusted cannot be read, so none is: %s: %w", s.path, err1)
	}
	if s.granted, err2 = load[granted](s.grants); err2 != nil {
		err2 = fmt.Errorf("what scripts were granted cannot be read, so nothing is: %s: %w", s.grants, err2)
	}
	return s, errors.Join(err1, err2)
}

// load reads a file of the store. The map is never nil.
func load[M ~map[string]V, V any](path string) (M, error) {
	m := M{}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil || m == nil {
		return M{}, err
	}
	return m, nil
}

// Trusted says whether the folder is trusted with exactly this content.
func (s *Store) Trusted(folder, fingerprint string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, ok := s.folders[folder]
	return ok && got == fingerprint
}

// Known says whether the folder was trusted with some content.
func (s *Store) Known(folder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, ok := s.folders[folder]
	return ok && !strings.HasPrefix(got, revokedMark)
}

// Remember trusts the folder with this content from the next start on.
func (s *Store) Remember(folder, fingerprint string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folders[folder] == fingerprint {
		return nil
	}
	s.folders[folder] = fingerprint
	return update(s.path, func(m folders) { m[folder] = fingerprint })
}

// Renew is Remember for a folder whose content has changed under trust: one that another
// shell has taken the trust from meanwhile stays untrusted.
func (s *Store) Renew(folder, fingerprint string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folders[folder] == fingerprint {
		return nil
	}
	return update(s.path, func(m folders) {
		if !s.folders.revoked(m, folder) {
			m[folder], s.folders[folder] = fingerprint, fingerprint
		}
	})
}

// Revoked says that the trust in the folder was taken back since the store was opened, or
// since this was asked last, by what is on the disk now. What cannot be read trusts
// nothing.
func (s *Store) Revoked(folder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, err := load[folders](s.path)
	if err != nil {
		now = folders{}
	}
	if !s.folders.revoked(now, folder) {
		return false
	}
	delete(s.folders, folder)
	if mark, ok := now[folder]; ok {
		s.folders[folder] = mark
	}
	return true
}

// revoked says whether now has lost the trust in the folder, seen from m.
func (m folders) revoked(now folders, folder string) bool {
	old, had := m[folder]
	got, has := now[folder]
	if !has {
		return had && !strings.HasPrefix(old, revokedMark)
	}
	return got != old && strings.HasPrefix(got, revokedMark)
}

// revokedMark begins what stands in the place of a fingerprint for a folder whose trust
// was taken back. What follows tells one time from another: shells that run notice it.
const revokedMark = "revoked "

// Forget no longer trusts the folder.
func (s *Store) Forget(folder string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders[folder] = revokedMark + rand.Text()
	return update(s.path, func(m folders) { m[folder] = s.folders[folder] })
}

// update changes a file of the store, and nothing in it that another shell has decided
// meanwhile. It is replaced whole.
func update[M ~map[string]V, V any](path string, change func(M)) error {
	m, err := load[M](path)
	if err != nil {
		return fmt.Errorf("%s cannot be read, so nothing is written to it: %w", path, err)
	}
	change(m)
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := replace(path, append(raw, '\n')); err != nil {
		return fmt.Errorf("remembering what was decided: %w", err)
	}
	return nil
}

func replace(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".trust-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// Fingerprint names the content of a script folder, every file below it and where its
// links lead, and of the config.toml beside it. The folder may be a link itself; it may be
// missing if there is such a file.
func Fingerprint(dir string) (string, error) {
	h := sha256.New()
	config := filepath.Join(filepath.Dir(dir), "config.toml")
	if _, err := os.Lstat(config); err == nil {
		fmt.Fprintf(h, "configuration %x\n", content(config))
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
	}
	var files []string
	// A walk does not follow a link that it begins at.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("reading the project's scripts: %w", err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("reading the project's scripts: %w", err)
	}
	sort.Strings(files)
	for _, f := range files {
		rel, err := filepath.Rel(dir, f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %x\n", rel, content(f))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// content names what a file holds. What is no file that ends, a dangling link or a pipe,
// counts as what it is: it is never opened. A link counts with where it leads, since what
// lies there may be in the folder already, under another name.
func content(path string) []byte {
	h := sha256.New()
	if to, err := os.Readlink(path); err == nil {
		fmt.Fprintf(h, "%q\n", to)
	}
	fi, err := os.Stat(path)
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: %v", path, fi.Mode().Type())
	}
	if err == nil {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			_, err = io.Copy(h, f)
			_ = f.Close() // it was only read
		}
	}
	if err != nil {
		fmt.Fprint(h, err)
	}
	return h.Sum(nil)
}
