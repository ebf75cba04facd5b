package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

const (
	dirMode  = 0o700
	fileMode = 0o600

	logSuffix    = ".jsonl"
	filesSuffix  = ".files"
	holderSuffix = ".lock"
	tornSuffix   = ".torn"
	newDir       = ".new" // below the store: files that are not whole yet
)

// Store is a folder of sessions. It holds no state, so any number of processes and goroutines may use the same
// folder at once; the logs that it opens have rules of their own.
type Store struct {
	dir string // immutable, as the rest
	opt Options
	fs  FS
}

// OpenStore returns the store in a folder. The folder is made (0700) when the first session is. It fails when there
// is something else of that name.
func OpenStore(dir string, opt Options) (*Store, error) {
	abs, err := filepath.Abs(dir) // the log's path must stay true when the process changes its folder
	if err != nil {
		return nil, fmt.Errorf("sessions folder %s: %w", dir, err)
	}
	opt = opt.withDefaults()
	info, err := opt.FS.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("sessions folder: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("sessions folder %s is a file: move it away or set DSHSH_HOME", abs)
	}
	return &Store{dir: abs, opt: opt, fs: opt.FS}, nil
}

// Dir returns the store's folder as an absolute path.
func (s *Store) Dir() string { return s.dir }

func (s *Store) logPath(id string) string   { return filepath.Join(s.dir, id+logSuffix) }
func (s *Store) filesPath(id string) string { return filepath.Join(s.dir, id+filesSuffix) }

// FilesDirs are the folders beside a session's log and, of a fork, beside the logs that it comes from, nearest first:
// its records name files there. They need not exist.
func (s *Store) FilesDirs(h Header) []string {
	dirs := []string{s.filesPath(h.ID)}
	for id := h.ParentSession; id != "" && CheckID(id) == nil; id = s.look(id).Header.ParentSession {
		dir := s.filesPath(id)
		if slices.Contains(dirs, dir) {
			break
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

func (s *Store) holderPath(id string) string { return filepath.Join(s.dir, id+holderSuffix) }

// Create makes a new session and opens it. It fills in the header's version, and its ID (NewID) and CreatedAt where
// they are zero. A taken id fails with Exists. The log has no records and its file is on disk.
func (s *Store) Create(h Header) (*Log, error) {
	return s.create(h, nil, s.opt.validator(), false)
}

// create makes a session that begins with records, which v (nil: nobody) has committed, and adds session/end-seed
// if seeded. The file appears under its name when all of this is in it.
func (s *Store) create(h Header, records []Record, v Validator, seeded bool) (*Log, error) {
	fresh := h.ID == ""
	h = fillHeader(h, s.opt)
	if err := CheckID(h.ID); err != nil {
		return nil, err
	}
	log := &Log{store: s, opt: s.opt, header: h, validator: v, firstLive: len(records)}
	if seeded {
		var err error
		if log.records, err = log.withEndSeed(records); err != nil {
			return nil, err
		}
	}
	for {
		text, err := json.Marshal(log.header)
		if err != nil {
			return nil, fmt.Errorf("session %s: header: %w", log.ID(), err)
		}
		log.path = s.logPath(log.ID())
		log.file, log.size, err = s.writeNew(log.ID(), log.path, append(text, '\n'), log.records)
		if fresh && errors.Is(err, Exists) { // the same four random letters in the same millisecond
			log.header.ID = NewID(s.opt.Now())
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("session %s: %w", log.ID(), err)
		}
		log.sync.durable = place{bytes: log.size, records: len(log.records)}
		return log, nil
	}
}

// withEndSeed returns the records with session/end-seed behind them, unless they end with one (B197).
func (l *Log) withEndSeed(records []Record) ([]Record, error) {
	if endsSeeded(records) {
		return records[:len(records):len(records)], nil
	}
	rec := Record{Type: EndSeed, Seq: int64(len(records)), Time: l.opt.Now().UnixMilli(), Data: json.RawMessage("{}")}
	if l.validator != nil {
		if err := l.validator.Check(rec); err != nil {
			return nil, fmt.Errorf("session %s: record %d (%s): %w: %w", l.ID(), rec.Seq, rec.Type, Refused, err)
		}
		l.validator.Commit(rec)
	}
	return append(records[:len(records):len(records)], rec), nil
}

func endsSeeded(records []Record) bool {
	return len(records) > 0 && records[len(records)-1].Type == EndSeed
}

const writeChunk = 1 << 20

// writeNew puts a header line and records into a new file, which gets its name only when it is whole and on disk,
// and is locked before others can see it.
func (s *Store) writeNew(id, path string, header []byte, records []Record) (_ File, size int64, err error) {
	if _, err := s.fs.Stat(path); err == nil {
		return nil, 0, fmt.Errorf("%w: %s: choose another id", Exists, path)
	}
	tmpDir := filepath.Join(s.dir, newDir)
	if err := s.fs.MkdirAll(tmpDir, dirMode); err != nil {
		return nil, 0, fmt.Errorf("it cannot be created: %w: make the folder writable or set DSHSH_HOME", err)
	}
	s.sweep(tmpDir)
	tmp := filepath.Join(tmpDir, NewID(s.opt.Now())+"-"+id)
	f, err := s.fs.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, fileMode)
	if err != nil {
		return nil, 0, fmt.Errorf("it cannot be created: %w: make the folder writable or set DSHSH_HOME", err)
	}
	named := false
	defer func() {
		if err != nil {
			_ = s.fs.Remove(tmp) // what is left is swept later
			if named {
				_ = s.fs.Remove(path)
				_ = s.unlock(f, id)
			}
			_ = f.Close()
		}
	}()
	// Taken without the description, which belongs to whoever has the name.
	if err := f.TryLock(); err != nil {
		return nil, 0, fmt.Errorf("it cannot be locked: %w", err)
	}
	if size, err = writeLines(f, header, records); err != nil {
		return nil, 0, fmt.Errorf("it cannot be created: %s: %w: make room and try again", tmp, err)
	}
	if !s.opt.NoSync {
		if err := f.Sync(); err != nil {
			return nil, 0, fmt.Errorf("it cannot be created: sync %s: %w", tmp, err)
		}
	}
	if err := s.name(tmp, path); err != nil {
		return nil, 0, err
	}
	named = true
	writeHolder(s.fs, s.holderPath(id), s.opt.Now())
	if !s.opt.NoSync {
		if err := s.fs.SyncDir(s.dir); err != nil {
			return nil, 0, fmt.Errorf("it cannot be created: sync %s: %w", s.dir, err)
		}
	}
	return f, size, nil
}

// writeLines writes a header line and records in large pieces, and returns how many bytes there were.
func writeLines(f File, header []byte, records []Record) (size int64, err error) {
	buf := bytes.Clone(header)
	for i := range records {
		data, err := oneLine(records[i].Data)
		if err != nil {
			return 0, fmt.Errorf("record %d: %w", records[i].Seq, err)
		}
		buf, _, _ = appendRecord(buf, &records[i], data)
		buf = append(buf, '\n')
		if len(buf) >= writeChunk {
			n, err := f.Write(buf)
			if size += int64(n); err != nil {
				return size, err
			}
			buf = buf[:0]
		}
	}
	n, err := f.Write(buf)
	return size + int64(n), err
}

// name gives a finished file its name and fails when the name is taken. A hard link does both in one step; where
// there are none, an empty file reserves the name and is then replaced.
func (s *Store) name(tmp, path string) error {
	err := s.fs.Link(tmp, path)
	if err == nil {
		_ = s.fs.Remove(tmp) // a leftover name harms nobody and is swept later
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		var reserved File
		if reserved, err = s.fs.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode); err == nil {
			if err = errors.Join(reserved.Close(), s.fs.Rename(tmp, path)); err != nil {
				_ = s.fs.Remove(path)
			}
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: %s: choose another id", Exists, path)
	case err != nil:
		return fmt.Errorf("it cannot be created: %w", err)
	}
	return nil
}

// sweep removes what processes that died left unfinished: files that nobody holds the lock of.
func (s *Store) sweep(tmpDir string) {
	entries, err := s.fs.ReadDir(tmpDir)
	if err != nil {
		return // tidying up is never a reason to fail
	}
	for _, e := range entries {
		name := filepath.Join(tmpDir, e.Name())
		info, err := e.Info()
		// A file is locked an instant after it was made.
		if err != nil || !info.Mode().IsRegular() || s.opt.Now().Sub(info.ModTime()) < time.Minute {
			continue
		}
		f, err := s.fs.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if f.TryLock() == nil {
			_ = s.fs.Remove(name)
		}
		_ = f.Close()
	}
}

// openFile opens a log's file. Other things than plain files are refused before they can block.
func (s *Store) openFile(id string, flag int) (File, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	path := s.logPath(id)
	info, err := s.fs.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("session %s: %w in %s: `dshsh session list` shows what there is", id, NotFound, s.dir)
	case err != nil:
		return nil, fmt.Errorf("session %s: %w", id, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("session %s: %s is not a plain file: move it away", id, path)
	}
	f, err := s.fs.OpenFile(path, flag, 0)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", id, err)
	}
	return f, nil
}

// Read returns a session as it is in the file, for those who only look. It takes no lock and changes nothing. The
// records are all that could be read, in the file's order; of a damaged log only the first Report.Whole are sure to
// have their seq as index. It fails when the file cannot be read at all, not for damage: ask Report.Err.
func (s *Store) Read(id string) (Header, []Record, *Report, error) {
	f, err := s.openFile(id, os.O_RDONLY)
	if err != nil {
		return Header{}, nil, nil, err
	}
	defer f.Close()
	buf, err := readAll(f)
	if err != nil {
		return Header{}, nil, nil, fmt.Errorf("session %s: %w", id, err)
	}
	l := load(id, s.logPath(id), buf, parseRecord)
	l.judge(s.opt.validator())
	if !l.hasHeader {
		l.header = s.guessHeader(id, l)
	}
	return l.header, l.records, l.report, nil
}

// judge runs a validator over what was loaded and notes what it would close.
func (l *loaded) judge(v Validator) {
	l.fold(v)
	if v != nil && !l.report.Damaged() {
		l.report.Closers = len(v.Closers())
	}
}

// guessHeader makes up for a header that is gone.
func (s *Store) guessHeader(id string, l *loaded) Header {
	h := Header{Version: Version, ID: id}
	if len(l.records) > 0 {
		h.CreatedAt = l.records[0].Time
	} else if info, err := s.fs.Stat(s.logPath(id)); err == nil {
		h.CreatedAt = info.ModTime().UnixMilli()
	}
	return h
}

// Open opens a session for appending. It takes the lock (a *LockedError says who has it), cuts a torn tail off after
// saving it beside the log, refuses a damaged log (*DamageError), appends the validator's closers with the time of
// the last record that was there, and then session/end-seed unless the log ends with one. All of that is on disk
// when it returns. The report says what was done; it is nil only with an error that is no *DamageError.
func (s *Store) Open(id string) (_ *Log, _ *Report, err error) {
	f, err := s.openFile(id, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil, nil, err
	}
	if err := s.lock(f, id); err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = s.unlock(f, id)
			_ = f.Close()
		}
	}()
	buf, err := readAll(f)
	if err != nil {
		return nil, nil, fmt.Errorf("session %s: %w", id, err)
	}
	l := load(id, s.logPath(id), buf, parseRecord)
	v := s.opt.validator()
	l.fold(v)
	if err := l.report.Err(); err != nil {
		if l.hasHeader && l.header.Version != Version {
			err = fmt.Errorf("%w: %w: use a newer dshsh", Newer, err)
		}
		return nil, l.report, err
	}
	size := int64(len(buf))
	if l.report.Torn != nil {
		if err := s.cutTail(id, f, l); err != nil {
			return nil, nil, err
		}
		size = l.report.Torn.Offset
	}
	log := &Log{
		store: s, opt: s.opt, header: l.header, path: s.logPath(id), validator: v,
		file: f, records: l.records, size: size,
	}
	log.sync.durable = place{bytes: size, records: len(l.records)}
	if err := log.settle(l.report); err != nil {
		_ = log.trim() // leave nothing half done, if it can be helped
		return nil, nil, err
	}
	return log, l.report, nil
}

// settle appends what an opened log needs before it goes on: closers and the end of the seed (B211, B197). It is one
// write, which is there as a whole or can be taken back: half of the closers might not be what closes the rest.
func (l *Log) settle(rep *Report) error {
	l.write.Lock()
	defer l.write.Unlock()
	var (
		batch []Record
		text  []byte
		next  = int64(len(l.records))
	)
	add := func(e Entry, at int64) error {
		rec, line, err := l.prepare(e, next+int64(len(batch)), at)
		if err != nil {
			return err
		}
		if l.validator != nil { // early, as each is judged by those before it: if the write fails, the fold is thrown away
			l.validator.Commit(rec)
		}
		batch, text = append(batch, rec), append(text, line...)
		return nil
	}
	if l.validator != nil {
		at := l.header.CreatedAt
		if next > 0 {
			at = l.records[next-1].Time
		}
		for _, e := range l.validator.Closers() {
			if err := add(e, at); err != nil {
				return fmt.Errorf("closing what was left open: %w", err)
			}
		}
	}
	rep.Closers = len(batch)
	l.firstLive = int(next) + len(batch)
	if rep.EndSeed = len(batch) > 0 || !endsSeeded(l.records); rep.EndSeed {
		if err := add(Entry{Type: EndSeed, Data: json.RawMessage("{}")}, l.opt.Now().UnixMilli()); err != nil {
			return err
		}
	}
	if len(batch) == 0 {
		return nil
	}
	if err := l.put(text); err != nil {
		return fmt.Errorf("session %s: closing what was left open: %w", l.ID(), err)
	}
	l.publish(int64(len(text)), batch...)
	return l.Sync()
}

// cutTail saves a torn tail beside the log and cuts it off. What is cut is on disk elsewhere before it is cut.
func (s *Store) cutTail(id string, f File, l *loaded) error {
	t := l.report.Torn
	saved, err := s.saveAside(filepath.Join(s.dir, id+tornSuffix), l.tornBytes)
	if err != nil {
		return fmt.Errorf("session %s: the torn end of the log (%d bytes from line %d) could not be saved: %w: "+
			"make room and try again; `dshsh session show %s` works as it is", id, t.Bytes, t.Line, err, id)
	}
	err = f.Truncate(t.Offset)
	if err == nil && !s.opt.NoSync {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("session %s: the torn end of the log (%d bytes from line %d) could not be cut off: %w: "+
			"`dshsh session show %s` works as it is", id, t.Bytes, t.Line, err, id)
	}
	t.SavedAs = saved
	return nil
}

// saveAside writes bytes to a new file PATH, PATH.2, ... and returns its name. What is there already is not written
// again, so an open that fails and is repeated leaves one copy.
func (s *Store) saveAside(path string, b []byte) (string, error) {
	for n := 1; ; n++ {
		name := path
		if n > 1 {
			name = path + "." + strconv.Itoa(n)
		}
		f, err := s.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if errors.Is(err, fs.ErrExist) {
			if s.holds(name, b) {
				return name, nil
			}
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(b)
		if err == nil && !s.opt.NoSync {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err == nil && !s.opt.NoSync {
			err = s.fs.SyncDir(s.dir)
		}
		if err != nil {
			_ = s.fs.Remove(name)
			return "", err
		}
		return name, nil
	}
}

func (s *Store) holds(name string, want []byte) bool {
	f, err := s.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	got, err := readAll(f)
	return err == nil && bytes.Equal(got, want)
}
