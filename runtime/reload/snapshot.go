package reload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// maxFile bounds what is read as a script or a module, in bytes: a mistaken link must not
// fill the memory.
const maxFile = 8 << 20

// file is one file as it was read. Immutable.
type file struct {
	code []byte
	hash string // sha256 of code, hex; "" when err is set
	err  error  // why it could not be read
}

func newFile(code []byte, err error) *file {
	if err != nil {
		return &file{err: err}
	}
	sum := sha256.Sum256(code)
	return &file{code: code, hash: hex.EncodeToString(sum[:])}
}

// readFile reads a regular file, and nothing that could block: what is none is not
// opened, and what turns into a pipe meanwhile is opened without waiting for its writer.
func readFile(path string) *file {
	fi, err := os.Stat(path)
	if err == nil {
		err = readable(path, fi)
	}
	if err != nil {
		return newFile(nil, err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return newFile(nil, err)
	}
	defer f.Close()
	if fi, err = f.Stat(); err == nil {
		err = readable(path, fi)
	}
	if err != nil {
		return newFile(nil, err)
	}
	code, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(code) > maxFile {
		err = tooLarge(path)
	}
	return newFile(code, err)
}

func readable(path string, fi os.FileInfo) error {
	switch {
	case fi.IsDir():
		return fmt.Errorf("%s is a folder, not a file", path)
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case fi.Size() > maxFile:
		return tooLarge(path)
	}
	return nil
}

func tooLarge(path string) error {
	return fmt.Errorf("%s is larger than %d MiB", path, maxFile>>20)
}

// linkMark ends the name under which a snapshot keeps where a link leads, instead of a
// file. No file's name has it.
const linkMark = "\x00"

// current is what there is now under a name of a snapshot, with files read by read.
func current(root, rel string, read func(path string) *file) *file {
	if link, ok := strings.CutSuffix(rel, linkMark); ok {
		to, err := os.Readlink(filepath.Join(root, link))
		return newFile([]byte("leads to "+to), err)
	}
	return read(filepath.Join(root, rel))
}

func (f *file) missing() bool { return f.err != nil && isMissing(f.err) }

// isMissing tells that a path leads nowhere, from that it cannot be read just now. A
// link that dangles leads nowhere too.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// blank is a file with nothing in it, as a save by truncating and writing leaves it for
// a moment.
func (f *file) blank() bool { return f.err == nil && len(bytes.TrimSpace(f.code)) == 0 }

func (f *file) same(g *file) bool {
	if f.err == nil || g.err == nil {
		return f.err == nil && g.err == nil && f.hash == g.hash
	}
	return f.missing() == g.missing() && (f.missing() || f.err.Error() == g.err.Error())
}

// snapshot is the text of a script and of all that it has required. What was read once
// stays: a VM that is rebuilt later runs what was tried and approved then, not what
// happens to lie on the disk.
type snapshot struct {
	main string // the script's own name in root
	// origin is the folder as the program knows it (links resolved), fixed when it was
	// compiled; "" when it cannot require.
	origin string

	mu    sync.Mutex // guards what follows: a program may require late, on the thread
	root  string     // where origin's files are now: a link on the way may have been turned
	files map[string]*file
	// offered are files that the version before required, as they were when this one was
	// decided about: if it requires them too, it gets these.
	offered map[string]*file
	late    func() // called when something is required after the script has loaded
}

func newSnapshot(root, name string, f *file) *snapshot {
	return &snapshot{main: name, origin: root, root: root, files: map[string]*file{name: f}, offered: map[string]*file{}}
}

// text is the script's own file.
func (s *snapshot) text() *file { return s.get(s.main) }

func (s *snapshot) get(rel string) *file {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[rel]
}

func (s *snapshot) offer(rel string, f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered[rel] = f
}

// either is a file that is held or offered.
func (s *snapshot) either(rel string) *file {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[rel]; f != nil {
		return f
	}
	return s.offered[rel]
}

// all lists the files that are held or offered.
func (s *snapshot) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	both := maps.Clone(s.offered)
	maps.Copy(both, s.files)
	return slices.Sorted(maps.Keys(both))
}

// adopt makes the offered files part of it: what is decided about without being run must
// cover what it would probably require.
func (s *snapshot) adopt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.offered, s.files)
	s.files, s.offered = s.offered, map[string]*file{}
}

// close ends the offer, when the script has loaded: what it requires later is read then,
// and late is called, which may not block.
func (s *snapshot) close(late func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.offered)
	s.late = late
}

// names lists the files, the script's own among them, in order.
func (s *snapshot) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.files))
}

// moved notes where the files are now.
func (s *snapshot) moved(root string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root = root
}

// read is runtime.Source.Read.
func (s *snapshot) read(path string) ([]byte, error) {
	rel, err := filepath.Rel(s.origin, path)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("%s is outside the script's folder %s: copy it there to require it", path, s.origin)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[rel]
	if f == nil {
		f = s.readWithin(rel)
		s.files[rel] = f
		if s.late != nil {
			s.late()
		}
	}
	return f.code, f.err
}

// readWithin reads below root, and nothing that a link leads out of it. s.mu is held.
func (s *snapshot) readWithin(rel string) *file {
	path := filepath.Join(s.root, rel)
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return newFile(nil, err)
	}
	if in, err := filepath.Rel(s.root, real); err != nil || !filepath.IsLocal(in) {
		return newFile(nil, fmt.Errorf("%s leads out of the script's folder %s: copy it there to require it", path, s.root))
	}
	if f := s.offered[rel]; f != nil {
		return f
	}
	return readFile(real)
}

// noteLinks takes note of the links beside a script that requires something: its engine
// asks for resolved paths, and would not see that one was turned elsewhere.
func (s *snapshot) noteLinks(links []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) < 2 {
		return
	}
	for _, link := range links {
		if rel := link + linkMark; s.files[rel] == nil {
			s.files[rel] = current(s.root, rel, nil)
		}
	}
}

// matches says whether the files below root, as read gives them, are what the snapshot
// holds.
func (s *snapshot) matches(root string, read func(path string) *file) bool {
	return len(s.differing(root, read)) == 0
}

// differing lists the files that are not what the snapshot holds.
func (s *snapshot) differing(root string, read func(path string) *file) []string {
	var out []string
	for _, rel := range s.names() {
		if !s.get(rel).same(current(root, rel, read)) {
			out = append(out, rel)
		}
	}
	return out
}

// hash names the content: that of the script's own file if it requires nothing, else one
// over all of them.
func (s *snapshot) hash() string { return s.hashOf(s.names()) }

// hashAll is the hash with what is offered.
func (s *snapshot) hashAll() string { return s.hashOf(s.all()) }

func (s *snapshot) hashOf(names []string) string {
	if len(names) == 1 {
		return s.text().hash
	}
	var b strings.Builder
	for _, rel := range names {
		fmt.Fprintf(&b, "%s %s\n", s.either(rel).hash, filepath.ToSlash(strings.TrimSuffix(rel, linkMark)))
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}
