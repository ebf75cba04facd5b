package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mended is what a repair did. It is immutable.
type Mended struct {
	Report  *Report   `json:"report"`            // what was wrong with the original
	ID      string    `json:"id,omitempty"`      // of the mended copy; empty when nothing was wrong and none was written
	Path    string    `json:"path,omitempty"`    // of the mended copy
	Records int       `json:"records"`           // in the copy
	Lost    int       `json:"lost"`              // of those, how many stand in for a record that is gone (type session/lost)
	Changes []Problem `json:"changes,omitempty"` // what was done, by line of the original
}

// maxFill bounds how many records that are gone are stood in for. A number that would need more is itself damaged.
const maxFill = 1 << 16

// Repair writes a mended copy of a damaged session and leaves the original as it is. output is a file that does not
// exist; "" is a new session ID.repaired in the store. Nothing is written when nothing is wrong.
//
// The copy has every record that can be read and may follow, under its own number. Records that are out of order are
// put in order; repeated ones are left out after the first. A record that is gone, that cannot be read or that the
// validator refuses gets a stand-in of type session/lost, ignorable, so that the other numbers stay true. Where the
// validator would accept a record if it were ignorable (an unknown type), it is kept so. A torn tail is left out. What a
// crash left open is closed when the copy is opened.
func (s *Store) Repair(id, output string) (*Mended, error) {
	f, err := s.openFile(id, os.O_RDONLY) // for its errors, which say more about a session
	if err != nil {
		return nil, err
	}
	_ = f.Close()
	if output == "" {
		for n := 1; ; n++ {
			name := id + ".repaired"
			if n > 1 {
				name = fmt.Sprintf("%s-%d", name, n)
			}
			output = s.logPath(name)
			if _, err := s.fs.Stat(output); err != nil {
				break
			}
		}
	}
	return RepairFile(s.logPath(id), output, s.opt)
}

// RepairFile does what Repair does with a file that is in no store.
func RepairFile(path, output string, opt Options) (*Mended, error) {
	opt = opt.withDefaults()
	l, err := loadFile(path, opt)
	if err != nil {
		return nil, err
	}
	if l.hasHeader && l.header.Version != Version {
		return nil, fmt.Errorf("%s: %w: its version is %d: use a newer dshsh", path, Newer, l.header.Version)
	}
	l.judge(opt.validator())
	m := &Mended{Report: l.report}
	if !l.report.Damaged() && l.report.Torn == nil {
		m.Records = len(l.records)
		return m, nil
	}
	if !l.hasHeader {
		l.header = Header{Version: Version}
		if len(l.records) > 0 {
			l.header.CreatedAt = l.records[0].Time
		} else if info, err := opt.FS.Stat(path); err == nil {
			l.header.CreatedAt = info.ModTime().UnixMilli()
		}
		m.change(1, -1, "the header was made anew")
	}
	m.ID = strings.TrimSuffix(filepath.Base(output), logSuffix)
	l.header.ID = m.ID
	records, err := m.mend(l, opt.validator())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, p := range l.bad {
		m.change(p.Line, p.Seq, "left out: "+p.Message)
	}
	if t := l.report.Torn; t != nil {
		m.change(t.Line, -1, fmt.Sprintf("left out: %d bytes of a write that did not finish", t.Bytes))
	}
	slices.SortStableFunc(m.Changes, func(a, b Problem) int { return a.Line - b.Line })
	m.Path, m.Records = output, len(records)
	if err := writeCopy(output, l.header, records, opt); err != nil {
		return nil, fmt.Errorf("the mended copy of %s: %w", path, err)
	}
	return m, nil
}

func (m *Mended) change(line int, seq int64, message string) {
	if len(m.Changes) < maxProblems {
		m.Changes = append(m.Changes, Problem{Line: line, Offset: -1, Seq: seq, Message: message})
	}
}

// mend returns the records of the copy.
func (m *Mended) mend(l *loaded, v Validator) ([]Record, error) {
	var (
		out    []Record
		filled int
		at     = l.header.CreatedAt // the time of the record before
	)
	for _, i := range m.order(l) {
		rec := l.records[i]
		line := l.lineOf(i)
		gap := rec.Seq - int64(len(out))
		if gap > int64(maxFill-filled) {
			m.change(line, rec.Seq, fmt.Sprintf("left out: its seq would need %d lost records before it", gap))
			continue
		}
		for range gap {
			lost, err := m.standIn(v, int64(len(out)), at, 0, "", "the record is gone")
			if err != nil {
				return nil, err
			}
			out = append(out, lost)
			filled++
		}
		switch {
		case gap == 1:
			m.change(line, rec.Seq-1, fmt.Sprintf("put before it: %s for record %d, which is gone", LostRecord, rec.Seq-1))
		case gap > 1:
			m.change(line, rec.Seq-gap, fmt.Sprintf("put before it: %s for the records %d to %d, which are gone", LostRecord, rec.Seq-gap, rec.Seq-1))
		}
		kept, err := m.keep(v, rec, line)
		if err != nil {
			return nil, err
		}
		out = append(out, kept)
		at = rec.Time
	}
	return out, nil
}

// keep returns the record as it can stand in the copy.
func (m *Mended) keep(v Validator, rec Record, line int) (Record, error) {
	if v == nil {
		return rec, nil
	}
	refusal := v.Check(rec)
	if refusal == nil {
		v.Commit(rec)
		return rec, nil
	}
	if !rec.Ignorable {
		marked := rec
		marked.Ignorable = true
		if v.Check(marked) == nil {
			v.Commit(marked)
			m.change(line, rec.Seq, fmt.Sprintf("kept as ignorable: %s: %s", rec.Type, refusal))
			return marked, nil
		}
	}
	m.change(line, rec.Seq, fmt.Sprintf("replaced by %s: %s: %s", LostRecord, rec.Type, refusal))
	return m.standIn(v, rec.Seq, rec.Time, line, rec.Type, refusal.Error())
}

// standIn returns the record that takes the place of one that is gone.
func (m *Mended) standIn(v Validator, seq, at int64, line int, typ, reason string) (Record, error) {
	data, err := json.Marshal(struct {
		Line   int    `json:"line,omitempty"`
		Type   string `json:"type,omitempty"`
		Reason string `json:"reason"`
	}{line, typ, reason})
	if err != nil {
		return Record{}, err
	}
	rec := Record{Type: LostRecord, Seq: seq, Time: at, Data: data, Ignorable: true}
	if v != nil {
		if err := v.Check(rec); err != nil {
			return Record{}, fmt.Errorf("record %d cannot be replaced by %s: %w", seq, LostRecord, err)
		}
		v.Commit(rec)
	}
	m.Lost++
	return rec, nil
}

// order returns the indexes of the records to keep, by rising number. The longest run of records whose numbers rise in
// the file's own order is believed; others fill in numbers that it lacks (they were out of order), or are left out.
func (m *Mended) order(l *loaded) []int {
	spine := longestRising(l.records)
	if len(spine) == 0 {
		return nil
	}
	owner := make(map[int64]int, len(l.records)) // seq -> index
	for _, i := range spine {
		owner[l.records[i].Seq] = i
	}
	top := l.records[spine[len(spine)-1]].Seq
	keep := spine
	for i, rec := range l.records {
		other, taken := owner[rec.Seq]
		line := l.lineOf(i)
		switch {
		case taken && other == i:
		case taken && sameRecord(rec, l.records[other]):
			m.change(line, rec.Seq, fmt.Sprintf("left out: it repeats record %d", rec.Seq))
		case taken:
			first := l.lineOf(other)
			m.change(line, rec.Seq, fmt.Sprintf("left out: line %d is record %d too and says something else", first, rec.Seq))
		case rec.Seq > top:
			m.change(line, rec.Seq, fmt.Sprintf("left out: seq %d cannot stand there", rec.Seq))
		default:
			owner[rec.Seq] = i
			keep = append(keep, i)
			m.change(line, rec.Seq, "put in order")
		}
	}
	slices.SortFunc(keep, func(a, b int) int { return cmp.Compare(l.records[a].Seq, l.records[b].Seq) })
	return keep
}

func sameRecord(a, b Record) bool {
	x, errX := a.MarshalJSON()
	y, errY := b.MarshalJSON()
	return errX == nil && errY == nil && string(x) == string(y)
}

// longestRising returns the indexes of a longest strictly rising subsequence of the numbers, in n log n.
func longestRising(records []Record) []int {
	var (
		ends = make([]int, 0, len(records)) // ends[k]: the index with the lowest number that ends a run of k+1
		prev = make([]int, len(records))    // the index before it in that run
	)
	for i := range records {
		k, _ := slices.BinarySearchFunc(ends, records[i].Seq, func(j int, seq int64) int {
			if records[j].Seq < seq {
				return -1
			}
			return 1
		})
		prev[i] = -1
		if k > 0 {
			prev[i] = ends[k-1]
		}
		if k == len(ends) {
			ends = append(ends, i)
		} else if records[ends[k]].Seq != records[i].Seq { // of equal ones the first is kept
			ends[k] = i
		}
	}
	if len(ends) == 0 {
		return nil
	}
	run := make([]int, len(ends))
	for k, i := len(ends)-1, ends[len(ends)-1]; k >= 0; k, i = k-1, prev[i] {
		run[k] = i
	}
	return run
}

// writeCopy writes a log that nobody opens yet: whole, on disk, or not at all.
func writeCopy(output string, h Header, records []Record, opt Options) (err error) {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	dir := filepath.Dir(output)
	s := &Store{dir: dir, opt: opt, fs: opt.FS}
	if _, err := s.fs.Stat(output); err == nil {
		return fmt.Errorf("%w: %s: name another file", Exists, output)
	}
	tmp := filepath.Join(dir, "."+filepath.Base(output)+"."+NewID(opt.Now()))
	f, err := s.fs.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, fileMode)
	if err != nil {
		return err
	}
	_, err = writeLines(f, append(text, '\n'), records)
	if err == nil && !opt.NoSync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.name(tmp, output)
	}
	if err != nil {
		_ = s.fs.Remove(tmp)
		return err
	}
	if opt.NoSync {
		return nil
	}
	return s.fs.SyncDir(dir)
}
