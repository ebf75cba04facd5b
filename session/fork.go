package session

import (
	"fmt"
	"math"
)

// Last is the boundary that stands for a log's last record.
const Last int64 = math.MaxInt64

// Fork makes a new session that begins with copies of the records 0 to boundary, and opens it. Its header has the
// parent's cwd, the parent's id and the number of copies; session/end-seed follows the copies. childID "" means a new
// one. A fork takes no lock on the parent, which may be open here, elsewhere, or not at all.
//
// It fails with Exists before it looks at anything else, with InvalidBoundary when the parent has no such record
// (Last is always one; of an empty parent, -1 too), and with OpenTurn when the validator is a Boundary and
// says no there. Then no child exists. The records are those of one log, from its first.
func (s *Store) Fork(src Header, records []Record, boundary int64, childID string) (*Log, error) {
	if childID != "" {
		if err := CheckID(childID); err != nil {
			return nil, err
		}
		if _, err := s.fs.Stat(s.logPath(childID)); err == nil {
			return nil, fmt.Errorf("session %s: %w: %s: choose another id", childID, Exists, s.logPath(childID))
		}
	}
	v := s.opt.validator()
	records, err := seedOf(src, v, records, boundary)
	if err != nil {
		return nil, err
	}
	n := len(records)
	return s.create(Header{ID: childID, Cwd: src.Cwd, ParentSession: src.ID, SeedLength: &n}, records, v, true)
}

// MemoryFork is Fork without a file, of records that may come from one: what it returns is as a log from Memory. That
// the id is not taken is the caller's to see to.
func MemoryFork(src Header, records []Record, boundary int64, childID string, opt Options) (*Log, error) {
	opt = opt.withDefaults()
	v := opt.validator()
	records, err := seedOf(src, v, records, boundary)
	if err != nil {
		return nil, err
	}
	n := len(records)
	h := fillHeader(Header{ID: childID, Cwd: src.Cwd, ParentSession: src.ID, SeedLength: &n}, opt)
	l := &Log{opt: opt, header: h, validator: v, firstLive: n}
	if l.records, err = l.withEndSeed(records); err != nil {
		return nil, err
	}
	return l, nil
}

// seedOf returns the records up to a boundary, once v has committed them and all is closed there.
func seedOf(src Header, v Validator, records []Record, boundary int64) ([]Record, error) {
	last := int64(len(records)) - 1
	if boundary == Last {
		boundary = last
	}
	if boundary > last || boundary < min(last, 0) {
		return nil, fmt.Errorf("session %s: %w: %d: its records are 0 to %d", src.ID, InvalidBoundary, boundary, last)
	}
	records = records[: boundary+1 : boundary+1]
	return records, foldSeed(src.ID, v, records)
}

// foldSeed checks that records can be the beginning of a log, runs v over them and asks it whether all is closed.
func foldSeed(id string, v Validator, records []Record) error {
	closer, _ := v.(Boundary)
	closedAt := int64(-1)
	for i, rec := range records {
		if err := checkSeed(rec, i); err != nil {
			return fmt.Errorf("session %s: record %d (%.80s): %w", id, i, rec.Type, err)
		}
		if v == nil {
			continue
		}
		if err := v.Check(rec); err != nil {
			return fmt.Errorf("session %s: record %d (%s): %w: %w", id, i, rec.Type, Refused, err)
		}
		v.Commit(rec)
		if closer != nil && closer.Closed() {
			closedAt = rec.Seq
		}
	}
	if closer == nil || closer.Closed() {
		return nil
	}
	if closedAt < 0 {
		return fmt.Errorf("session %s: %w: record %d: nothing before it is closed", id, OpenTurn, len(records)-1)
	}
	return fmt.Errorf("session %s: %w: record %d: the last place before it where all is closed is %d", id, OpenTurn, len(records)-1, closedAt)
}

// checkSeed checks one record that is to begin a log: it may come from anywhere.
func checkSeed(rec Record, i int) error {
	if rec.Seq != int64(i) {
		return fmt.Errorf("%w: its seq is %d", InvalidRecord, rec.Seq)
	}
	if err := checkEnvelope(&rec); err != nil {
		return err
	}
	_, err := oneLine(rec.Data)
	return err
}

// ForkFrom reads a session of this store and forks it at boundary (Last: its last whole record). Of a damaged log
// what is before the damage can be forked.
func (s *Store) ForkFrom(id string, boundary int64, childID string) (*Log, error) {
	h, records, rep, err := s.Read(id)
	if err != nil {
		return nil, err
	}
	if boundary == Last && rep.Damaged() {
		return nil, rep.Err()
	}
	return s.Fork(h, records[:rep.Whole], boundary, childID)
}
