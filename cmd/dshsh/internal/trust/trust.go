// Package trust decides whether a project's scripts may run, and remembers the answers.
// It is the only reader of the state folder.
//
// A folder is trusted with its content: when the scripts at the next start are others
// than those that were taken last, the question is asked again. What is decided is read
// at the start and lives in memory, so that no file changed later loosens a running
// shell.
package trust

import (
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
	"sync"
)

// Store remembers which folders are trusted. Its methods may be called from any
// goroutine.
type Store struct {
	path string

	mu      sync.Mutex        // guards folders
	folders map[string]string // folder -> fingerprint of its scripts when they were last taken
}

// Open reads what is remembered in the state folder. A file that cannot be read trusts
// nothing.
func Open(state string) (*Store, error) {
	s := &Store{path: filepath.Join(state, "trust.json"), folders: map[string]string{}}
	raw, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &s.folders)
	}
	if err != nil {
		s.folders = map[string]string{}
		return s, fmt.Errorf("what folders are trusted cannot be read, so none is: %s: %w", s.path, err)
	}
	return s, nil
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
	_, ok := s.folders[folder]
	return ok
}

// Remember trusts the folder with this content from the next start on.
func (s *Store) Remember(folder, fingerprint string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folders[folder] == fingerprint {
		return nil
	}
	s.folders[folder] = fingerprint
	return s.save()
}

// Forget no longer trusts the folder.
func (s *Store) Forget(folder string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.folders[folder]; !ok {
		return nil
	}
	delete(s.folders, folder)
	return s.save()
}

// save replaces the file whole; the caller holds mu.
func (s *Store) save() error {
	raw, err := json.MarshalIndent(s.folders, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("remembering the trusted folder: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".trust-*")
	if err != nil {
		return fmt.Errorf("remembering the trusted folder: %w", err)
	}
	_, err = tmp.Write(append(raw, '\n'))
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), s.path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("remembering the trusted folder: %w", err)
	}
	return nil
}

// Fingerprint names the content of a script folder: every file below it.
func Fingerprint(dir string) (string, error) {
	h := sha256.New()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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
// counts as what it is: it is never opened.
func content(path string) []byte {
	h := sha256.New()
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
