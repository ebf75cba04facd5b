package session

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Info is what List says about one session. It is a value.
type Info struct {
	ID      string  `json:"id"`
	Path    string  `json:"path"`
	Header  Header  `json:"header"`            // where the file has none: what could be guessed
	Size    int64   `json:"size"`              // bytes
	Records int     `json:"records"`           // -1: not known without reading it all
	Updated int64   `json:"updated"`           // milliseconds since 1970: of the last record, else of the header, else of the file
	Holder  *Holder `json:"holder,omitempty"`  // who says that he has it open
	Warning string  `json:"warning,omitempty"` // the first thing that is wrong with it
	Scanned bool    `json:"scanned"`           // whether every line was looked at, or only the first and the last
}

// How much List reads. Beyond it, damage in the middle of a log shows when the log is opened or checked.
const (
	scanFileLimit  = 8 << 20
	scanTotalLimit = 32 << 20
	endLimit       = 1 << 20 // the longest first or last line that is read when only the ends are
)

// List returns every session of the store, newest first by its last record. It reads the ends of each file and, until
// it has read 32 MiB, all of those below 8 MiB, newest first, to find lines that are missing, double or
// damaged. A session that cannot be read is listed with a warning. It takes no locks and changes nothing.
func (s *Store) List() ([]Info, error) { return s.list(scanTotalLimit) }

func (s *Store) list(budget int64) ([]Info, error) {
	entries, err := s.fs.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sessions folder: %w", err)
	}
	var (
		infos []Info
		held  = map[string]bool{}
	)
	for _, e := range entries {
		name := e.Name()
		if id, ok := strings.CutSuffix(name, logSuffix); ok {
			infos = append(infos, s.look(id))
		} else if id, ok := strings.CutSuffix(name, holderSuffix); ok {
			held[id] = true
		}
	}
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(cmp.Compare(b.Updated, a.Updated), cmp.Compare(b.ID, a.ID))
	})
	var buf []byte
	for i := range infos {
		info := &infos[i]
		if held[info.ID] {
			info.Holder = readHolder(s.fs, s.holderPath(info.ID))
		}
		if info.Size > 0 && info.Size <= min(scanFileLimit, budget) {
			budget -= info.Size
			buf = s.scan(info, buf)
		}
	}
	return infos, nil
}

// Newest returns the session of a working folder ("": of any) with the newest record, leaving out those that other
// sessions began and those without a record. It fails with NotFound.
func (s *Store) Newest(cwd string) (Info, error) {
	infos, err := s.list(0)
	if err != nil {
		return Info{}, err
	}
	for _, info := range infos {
		if info.Header.Origin == "" && info.Records != 0 && (cwd == "" || info.Header.Cwd == cwd) {
			return info, nil
		}
	}
	if cwd == "" {
		return Info{}, fmt.Errorf("%w in %s", NotFound, s.dir)
	}
	return Info{}, fmt.Errorf("%w of folder %s in %s: `dshsh session list` shows those of other folders", NotFound, cwd, s.dir)
}

// Resolve returns the id that a person means: the whole id, or a beginning or an end of it that no other session has.
func (s *Store) Resolve(partial string) (string, error) {
	if err := CheckID(partial); err != nil {
		return "", err
	}
	if _, err := s.fs.Stat(s.logPath(partial)); err == nil {
		return partial, nil
	}
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("sessions folder: %w", err)
	}
	var found []string
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), logSuffix)
		if ok && (strings.HasPrefix(id, partial) || strings.HasSuffix(id, partial)) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("session %s: %w in %s: `dshsh session list` shows what there is", partial, NotFound, s.dir)
	}
	slices.Reverse(found) // newest first, as far as ids sort by time
	more := ""
	if len(found) > 5 {
		found, more = found[:5], ", ..."
	}
	return "", fmt.Errorf("session %s: %w: it could be %s%s: give more of the id", partial, NotFound, strings.Join(found, ", "), more)
}

// look describes a session by the ends of its file.
func (s *Store) look(id string) Info {
	info := Info{ID: id, Path: s.logPath(id), Records: -1}
	info.Header = Header{ID: id}
	st, err := s.fs.Stat(info.Path)
	if err != nil {
		info.Warning = err.Error()
		return info
	}
	info.Size, info.Updated = st.Size(), st.ModTime().UnixMilli()
	info.Header.CreatedAt = info.Updated
	f, err := s.openFile(id, os.O_RDONLY)
	if err != nil {
		info.Warning = err.Error()
		return info
	}
	defer f.Close()
	if err := info.readEnds(f); err != nil {
		info.Warning = err.Error()
	}
	return info
}

// readEnds fills in what the first and the last line say.
func (info *Info) readEnds(f File) error {
	first, err := readLine(f, info.Size)
	if err != nil {
		return err
	}
	if first == nil {
		info.Warning = "the header is missing or not whole"
		return nil
	}
	l := &loaded{report: &Report{ID: info.ID}}
	pos, _ := l.loadHeader(first)
	switch {
	case len(l.report.Problems) > 0:
		info.Warning = "line 1: " + l.report.Problems[0].Message
	case len(l.report.Warnings) > 0:
		info.Warning = l.report.Warnings[0]
	}
	if l.hasHeader {
		info.Header, info.Updated = l.header, l.header.CreatedAt
	}
	if int64(pos) == info.Size {
		info.Records = 0
		return nil
	}
	last, torn, err := readLastLine(f, info.Size)
	if err != nil {
		return err
	}
	rec, err := parseRecord(last, nil)
	switch {
	case int64(len(first)) == info.Size-torn:
		info.Records = 0
	case last == nil: // too long to be read for a list
	case err != nil:
		info.warn("the last line is damaged: " + err.Error())
	default:
		info.Records, info.Updated = int(rec.Seq)+1, rec.Time
	}
	if torn > 0 {
		info.warn(fmt.Sprintf("%d bytes of a write that did not finish stand at its end", torn))
	}
	return nil
}

// warn keeps the first warning.
func (info *Info) warn(text string) {
	if info.Warning == "" {
		info.Warning = text
	}
}

// scan looks at every line of a file, using buf for its bytes, and returns the buffer for the next.
func (s *Store) scan(info *Info, buf []byte) []byte {
	f, err := s.openFile(info.ID, os.O_RDONLY)
	if err != nil {
		return buf
	}
	defer f.Close()
	buf = slices.Grow(buf[:0], int(info.Size))[:info.Size]
	n, err := f.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return buf
	}
	l := load(info.ID, info.Path, buf[:n], parseQuick)
	info.Scanned = true
	if l.hasHeader || len(l.records) > 0 {
		info.Records = len(l.records)
	}
	if p := l.report.Problems; len(p) > 0 {
		info.Warning = fmt.Sprintf("line %d: %s", p[0].Line, p[0].Message)
	}
	return buf
}

// parseQuick reads a record's number and time and looks at nothing else of a line that has the usual form.
func parseQuick(line []byte, in interner) (Record, error) {
	if i := skipLiteral(line, 0, `{"type":"`); i > 0 {
		if n := bytes.IndexByte(line[i:], '"'); n > 0 {
			var r Record
			if j := skipLiteral(line, i+n, `","seq":`); j > 0 {
				if r.Seq, j = parseInt(line, j); j > 0 {
					if j = skipLiteral(line, j, `,"time":`); j > 0 {
						if r.Time, j = parseInt(line, j); j > 0 && line[len(line)-1] == '}' {
							r.Type = in.get(line[i : i+n])
							return r, nil
						}
					}
				}
			}
		}
	}
	return parseRecord(line, in)
}

// readLine returns the file's first line with its newline, nil if none ends within endLimit.
func readLine(f File, size int64) ([]byte, error) {
	for n := min(size, 4<<10); ; n = min(size, n*16) {
		buf := make([]byte, n)
		got, err := f.ReadAt(buf, 0)
		if err != nil && err != io.EOF {
			return nil, err
		}
		if i := bytes.IndexByte(buf[:got], '\n'); i >= 0 {
			return buf[:i+1], nil
		}
		if n == size || n >= endLimit {
			return nil, nil
		}
	}
}

// readLastLine returns the last whole line without its newline, nil if it is longer than endLimit, and how many bytes
// stand behind it.
func readLastLine(f File, size int64) (line []byte, torn int64, err error) {
	for n := min(size, 4<<10); ; n = min(size, n*16) {
		buf := make([]byte, n)
		got, err := f.ReadAt(buf, size-n)
		if err != nil && err != io.EOF {
			return nil, 0, err
		}
		buf = buf[:got]
		if end := bytes.LastIndexByte(buf, '\n'); end >= 0 {
			begin := bytes.LastIndexByte(buf[:end], '\n')
			if begin >= 0 || n == size {
				return buf[begin+1 : end], int64(len(buf) - end - 1), nil
			}
		}
		if n == size || n >= endLimit {
			return nil, 0, nil
		}
	}
}

// peekSize is how much Peek reads at each end.
const peekSize = 64 << 10

// Peek returns the records that are whole within the first and the last 64 KiB of a session, for a title or a preview
// without reading it all. No record is in both lists; a short session is all in head. Damaged lines are left out.
func (s *Store) Peek(id string) (head, tail []Record, err error) {
	f, err := s.openFile(id, os.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, nil, fmt.Errorf("session %s: %w", id, err)
	}
	first := make([]byte, min(size, 2*peekSize))
	n, err := f.ReadAt(first, 0)
	if err != nil && err != io.EOF {
		return nil, nil, fmt.Errorf("session %s: %w", id, err)
	}
	if first = first[:n]; size <= 2*peekSize {
		return wholeRecords(first), nil, nil
	}
	last := make([]byte, peekSize)
	n, err = f.ReadAt(last, size-peekSize)
	if err != nil && err != io.EOF {
		return nil, nil, fmt.Errorf("session %s: %w", id, err)
	}
	_, last, _ = bytes.Cut(last[:n], []byte{'\n'}) // it begins within a line, or so it must be taken
	return wholeRecords(first[:peekSize]), wholeRecords(last), nil
}

// wholeRecords parses the lines that end within b, and skips what is no record.
func wholeRecords(b []byte) []Record {
	var list []Record
	for {
		line, rest, ok := bytes.Cut(b, []byte{'\n'})
		if !ok {
			return list
		}
		if rec, err := parseRecord(line, nil); err == nil && checkEnvelope(&rec) == nil {
			list = append(list, rec)
		}
		b = rest
	}
}

// Check reads a whole session and reports everything that is wrong with it, line by line, and what Open would do. It
// takes no lock and changes nothing. It fails when the file cannot be read at all, not for damage.
func (s *Store) Check(id string) (*Report, error) {
	_, _, rep, err := s.Read(id)
	return rep, err
}

// CheckFile does what Check does with a file that is in no store.
func CheckFile(path string, opt Options) (*Report, error) {
	l, err := loadFile(path, opt.withDefaults())
	if err != nil {
		return nil, err
	}
	l.judge(opt.validator())
	return l.report, nil
}

// loadFile takes a file apart wherever it is. It goes by the file's name, as sessions in a store do.
func loadFile(path string, opt Options) (*loaded, error) {
	f, err := opt.FS.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf, err := readAll(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return load(strings.TrimSuffix(filepath.Base(path), logSuffix), path, buf, parseRecord), nil
}
