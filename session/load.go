package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Problem is one thing that is wrong with a log, at one line. It is immutable.
type Problem struct {
	Line    int    `json:"line"`   // from 1; the header is line 1
	Offset  int64  `json:"offset"` // of the line's first byte in the file, -1 where it does not matter
	Seq     int64  `json:"seq"`    // of the record on that line, -1 where there is none
	Message string `json:"message"`
}

// Torn describes what stands behind the last whole record of a log: what a write left that did not finish. It is
// immutable.
type Torn struct {
	Line    int    `json:"line"`   // on which it begins
	Offset  int64  `json:"offset"` // of its first byte
	Bytes   int64  `json:"bytes"`
	SavedAs string `json:"savedAs,omitempty"` // the file that Open put it into; empty from Read and Check
}

// Report is what reading a log found out. It is immutable once it was returned.
type Report struct {
	ID       string    `json:"id"`
	Path     string    `json:"path"`
	Bytes    int64     `json:"bytes"`
	Lines    int       `json:"lines"`   // whole ones, header included
	Records  int       `json:"records"` // that could be read
	Whole    int       `json:"whole"`   // how many of them, from the first on, have the right number and follow each other
	Torn     *Torn     `json:"torn,omitempty"`
	Problems []Problem `json:"problems,omitempty"`
	More     int       `json:"more,omitempty"` // problems beyond those listed
	Warnings []string  `json:"warnings,omitempty"`
	Closers  int       `json:"closers,omitempty"` // Open: records appended to close what a crash left open. Check: what Open would append
	EndSeed  bool      `json:"endSeed,omitempty"` // Open: whether it appended session/end-seed
}

// maxProblems bounds Report.Problems: a file with a million bad lines is described well enough by the first.
const maxProblems = 1000

// Damaged reports whether Open would refuse the log. A torn tail is no damage.
func (r *Report) Damaged() bool { return len(r.Problems) > 0 }

// Err returns a *DamageError for a damaged log, else nil.
func (r *Report) Err() error {
	if !r.Damaged() {
		return nil
	}
	return &DamageError{ID: r.ID, Path: r.Path, Problems: r.Problems}
}

func (r *Report) problem(p Problem) {
	if len(r.Problems) >= maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, p)
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// loaded is a file taken apart. It is used by the goroutine that loaded it.
type loaded struct {
	header    Header
	hasHeader bool
	records   []Record // all that could be read, in the file's order
	lines     []int32  // the line of each record; nil while record i is on line i+2, as in every undamaged log
	bad       []Problem
	report    *Report
	buf       []byte // the file
	tornBytes []byte // the end of it that is torn
}

// lineOf returns on which line record i stands.
func (l *loaded) lineOf(i int) int {
	if l.lines == nil {
		return i + 2
	}
	return int(l.lines[i])
}

// offsetOf returns where a line begins. It counts from the file's beginning, so it is for the one line that is named.
func (l *loaded) offsetOf(line int) int64 {
	pos := 0
	for range line - 1 {
		n := bytes.IndexByte(l.buf[pos:], '\n')
		if n < 0 {
			return -1
		}
		pos += n + 1
	}
	return int64(pos)
}

// readAll returns the file's bytes in one buffer.
func readAll(f File) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > math.MaxInt {
		return nil, errors.New("it is too large for this machine")
	}
	buf := make([]byte, size)
	n, err := io.ReadFull(io.NewSectionReader(f, 0, size), buf)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	return buf[:n], nil // shorter when somebody cut it meanwhile
}

// load takes a file's bytes apart. It looks at each byte a bounded number of times. The records share buf. It never
// fails: what is wrong is in the report. parse is parseRecord, or parseQuick for who needs the numbers only.
func load(id, path string, buf []byte, parse func([]byte, interner) (Record, error)) *loaded {
	l := &loaded{report: &Report{ID: id, Path: path, Bytes: int64(len(buf))}, buf: buf}
	rep := l.report
	pos, line := l.loadHeader(buf)

	var (
		in      = interner{}
		next    int64      // the seq that must come
		missing [][2]int64 // ranges of seqs that were skipped so far
		pending []Problem  // lines that are not whole, with no whole one behind them so far
		more    int        // of those, beyond what a report can hold
	)
	// No line of a record is shorter, so a file of nothing but newlines does not ask for all memory. Some room is left,
	// or the first append would copy everything.
	n := min(bytes.Count(buf[pos:], []byte{'\n'}), len(buf)/len(`{"type":"a","seq":0,"time":0,"data":0}`))
	l.records = make([]Record, 0, n+n/16+64)
	for pos < len(buf) {
		n := bytes.IndexByte(buf[pos:], '\n')
		if n < 0 {
			break
		}
		text := buf[pos : pos+n]
		at := Problem{Line: line, Offset: int64(pos), Seq: -1}
		line++
		pos += n + 1
		if len(pending) == maxProblems && !isJSON(text) { // there may be millions of these: no words about each
			more++
			continue
		}
		rec, err := parse(text, in)
		if err != nil {
			at.Message = err.Error()
			l.remember()
			pending = append(pending, at)
			if !errors.Is(err, errNotWhole) {
				pending, more = l.flush(pending, more)
			}
			continue
		}
		pending, more = l.flush(pending, more)
		at.Seq = rec.Seq
		if rec.Seq != next {
			l.remember()
			if len(rep.Problems) < maxProblems {
				at.Message, missing = misplaced(rec.Seq, next, missing)
			}
			rep.problem(at)
		}
		if err := checkEnvelope(&rec); err != nil {
			l.remember()
			at.Message = err.Error()
			l.badLine(at)
			if rec.Seq >= next { // its number is used up even so
				next = rec.Seq + 1
			}
			continue
		}
		if rec.Seq >= next {
			next = rec.Seq + 1
		}
		l.records = append(l.records, rec)
		if l.lines != nil {
			l.lines = append(l.lines, int32(at.Line))
		}
		if len(rep.Problems) == 0 {
			rep.Whole = len(l.records)
		}
	}
	rep.Lines = line - 1
	if len(pending) > 0 {
		rep.Lines = pending[0].Line - 1
		line, pos = pending[0].Line, int(pending[0].Offset)
	}
	if pos < len(buf) {
		rep.Torn = &Torn{Line: line, Offset: int64(pos), Bytes: int64(len(buf) - pos)}
		l.tornBytes = buf[pos:]
	}
	rep.Records = len(l.records)
	return l
}

// remember begins to note where each record stands: from now on it is not obvious any more.
func (l *loaded) remember() {
	if l.lines != nil {
		return
	}
	l.lines = make([]int32, len(l.records))
	for i := range l.records {
		l.lines[i] = int32(i + 2)
	}
}

// flush makes damage of lines that are not whole: a whole one was found behind them, so they are no torn tail.
func (l *loaded) flush(pending []Problem, more int) ([]Problem, int) {
	for _, p := range pending {
		l.badLine(p)
	}
	l.report.More += more
	return pending[:0], 0
}

// badLine reports a line that cannot be read and keeps it in mind for a repair.
func (l *loaded) badLine(p Problem) {
	l.report.problem(p)
	if len(l.bad) < maxProblems {
		l.bad = append(l.bad, p)
	}
}

// misplaced puts into words what a wrong number means, and keeps account of the numbers that are missing.
func misplaced(seq, next int64, missing [][2]int64) (string, [][2]int64) {
	switch {
	case seq == next+1:
		return fmt.Sprintf("seq %d where %d must stand: record %d is missing", seq, next, next), append(missing, [2]int64{next, seq})
	case seq > next:
		return fmt.Sprintf("seq %d where %d must stand: records %d to %d are missing", seq, next, next, seq-1),
			append(missing, [2]int64{next, seq})
	}
	if slices.ContainsFunc(missing, func(r [2]int64) bool { return r[0] <= seq && seq < r[1] }) {
		return fmt.Sprintf("seq %d where %d must stand: it is out of order", seq, next), missing
	}
	return fmt.Sprintf("seq %d where %d must stand: it is there twice", seq, next), missing
}

// loadHeader reads the first line, and returns where the records begin and on which line.
func (l *loaded) loadHeader(buf []byte) (pos, line int) {
	rep := l.report
	at := Problem{Line: 1, Seq: -1}
	n := bytes.IndexByte(buf, '\n')
	if n < 0 {
		at.Message = "the header is missing"
		if len(buf) > 0 {
			at.Message = "the header is not whole"
		}
		rep.problem(at)
		return 0, 1
	}
	h, err := parseHeader(buf[:n])
	switch {
	case err == nil && h.Version != Version:
		at.Message = fmt.Sprintf("the header's version is %d: this program reads version %d", h.Version, Version)
		rep.problem(at)
	case err == nil && h.ID != l.report.ID:
		rep.warn("the header calls the session %s: the file is a copy and goes by its own name", h.ID)
	case err != nil:
		if _, recErr := parseRecord(buf[:n], nil); recErr == nil {
			at.Message = "the header is missing"
			rep.problem(at)
			l.remember()
			return 0, 1
		}
		at.Message = "the header is damaged: " + err.Error()
		rep.problem(at)
		return n + 1, 2
	}
	l.header, l.hasHeader = h, true
	l.header.ID = l.report.ID
	return n + 1, 2
}

// fold runs a validator over the leading records that are in order, and reports the first that it refuses. What comes
// behind a hole or a refusal is not judged: the fold knows a history that did not happen.
func (l *loaded) fold(v Validator) {
	if v == nil {
		return
	}
	for i, rec := range l.records[:l.report.Whole] {
		if err := v.Check(rec); err != nil {
			line := l.lineOf(i)
			l.report.Whole = i
			l.report.problem(Problem{Line: line, Offset: l.offsetOf(line), Seq: rec.Seq, Message: fmt.Sprintf("%s: %s", rec.Type, err)})
			slices.SortStableFunc(l.report.Problems, func(a, b Problem) int { return a.Line - b.Line })
			return
		}
		v.Commit(rec)
	}
}
