package repl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Limits of the history file.
const (
	historyEntries  = 2000    // kept when it is rewritten
	historyEntryMax = 1 << 20 // bytes of one entry; larger ones are not kept
)

// history is the lines that were entered, oldest first, and the file that several shells
// share. The file has one entry a line, as a JSON string, so that an entry of several
// lines is one; lines that are no JSON string (from another program) are taken as they
// are. It is readable by its owner alone. Editor.mu guards the entries; add to the file is
// called by one goroutine at a time, without it.
type history struct {
	path    string // "" for none
	entries []string
}

// load reads the file. A file that is not there is empty.
func (h *history) load() error {
	if h.path == "" {
		return nil
	}
	f, err := os.Open(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	defer f.Close()
	h.entries, err = readHistory(f)
	if err != nil {
		return fmt.Errorf("read the history %s: %w", h.path, err)
	}
	return nil
}

// readHistory returns the last entries of a file, a half-written last line left out.
func readHistory(r io.Reader) ([]string, error) {
	var entries []string
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := br.ReadBytes('\n')
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
		line = line[:len(line)-1]
		var s string
		if json.Unmarshal(line, &s) != nil {
			s = string(line)
		}
		if s != "" && (len(entries) == 0 || entries[len(entries)-1] != s) {
			entries = append(entries, s)
		}
		if len(entries) > 2*historyEntries {
			entries = slices.Delete(entries, 0, len(entries)-historyEntries)
		}
	}
}

// remember adds an entry in memory and reports whether it is new: it is not empty and not
// what was entered last. Editor.mu is held.
func (h *history) remember(entry string) bool {
	if entry == "" || len(entry) > historyEntryMax ||
		len(h.entries) > 0 && h.entries[len(h.entries)-1] == entry {
		return false
	}
	h.entries = append(h.entries, entry)
	return true
}

// save appends one entry to the file under the lock that all shells take. Now and then it
// rewrites the file to keep it short.
func (h *history) save(entry string) error {
	if h.path == "" {
		return nil
	}
	line, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("write the history %s: %w", h.path, err)
	}
	f, err := openLocked(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(h.path), 0o700); err == nil {
			f, err = openLocked(h.path)
		}
	}
	if err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	defer f.Close() // which releases the lock
	if err := appendLine(f, line); err != nil {
		return fmt.Errorf("write the history %s: %w", h.path, err)
	}
	return nil
}

// appendLine adds a line to the locked file, cuts off what a killed shell left half
// written, and rewrites the file when it has grown to twice what it should hold.
func appendLine(f *os.File, line []byte) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = append([]byte("\n"), line...)
		}
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	// Entries are mostly far shorter than 512 bytes: below this size nothing is counted.
	if size < historyEntries*512 {
		return nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	entries, err := readHistory(f)
	if err != nil {
		return err
	}
	total := 0
	keep := len(entries)
	for keep > 0 && len(entries)-keep < historyEntries && total < historyEntries*256 {
		keep--
		total += len(entries[keep])
	}
	var buf []byte
	for _, e := range entries[min(keep, max(len(entries)-1, 0)):] {
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		buf = append(append(buf, b...), '\n')
	}
	// In place, since the lock is on this file: written over the start and cut, so that a
	// crash in between leaves lines, if old and new ones.
	if _, err := f.WriteAt(buf, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(buf)))
}

// browse is where in the history a line being edited is. Editor.mu guards it.
type browse struct {
	at     int            // index into history.entries; len(entries) is the new line
	edited map[int][]rune // lines that were changed or left, by index
}

// step moves delta entries from the line that b holds and returns the one there, or false
// at the end.
func (v *browse) step(h *history, b *buffer, delta int) ([]rune, bool) {
	to := v.at + delta
	if to < 0 || to > len(h.entries) {
		return nil, false
	}
	if v.edited == nil {
		v.edited = map[int][]rune{}
	}
	v.edited[v.at] = slices.Clone(b.text)
	v.at = to
	if text, ok := v.edited[to]; ok {
		return text, true
	}
	return nil, true // the caller turns entries[to] into runes
}
