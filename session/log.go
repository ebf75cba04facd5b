package session

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Validator is a fold over one log that knows what records mean. The log calls it under its own rules: never
// concurrently, Check and Commit for every record in order. It must not call the log.
//
// A validator may also be a [Boundary]. It must take [EndSeed], which the package writes itself.
type Validator interface {
	// Check says why the record may not follow. It does not change the fold. The record's envelope is valid
	// and its seq is next.
	Check(Record) error
	// Commit takes into account that the record is in the log. Check has let it pass.
	Commit(Record)
	// Closers returns the records that close what a crash left open, in order. Open appends them (B204-B210).
	Closers() []Entry
}

// Boundary is what a Validator may be besides: Fork then copies only up to a place where it says yes.
type Boundary interface {
	// Closed reports whether a log may end behind the last committed record, with nothing left open.
	Closed() bool
}

// Options are what a store and its logs need from outside. The zero value will do. They are read, never written.
type Options struct {
	Now       func() time.Time // the clock; nil: time.Now. Called wherever Append, Open, Create and Fork are
	Validator func() Validator // returns a fresh fold for each log; nil: any record may follow any other
	NoSync    bool             // no fsync at all, for benchmarks and tests
	FS        FS               // nil: the operating system's
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FS == nil {
		o.FS = OS()
	}
	return o
}

func (o Options) validator() Validator {
	if o.Validator == nil {
		return nil
	}
	return o.Validator()
}

// Log is one open session: its records in memory and, unless it came from Memory, the file that they are appended
// to. Append belongs to the host thread; everything else may be called by any goroutine.
type Log struct {
	// Set before use, then immutable.
	store     *Store // nil in memory
	opt       Options
	header    Header
	path      string
	firstLive int
	file      File // nil in memory

	// write is held by the append in progress and by Close. Append only tries it: to wait for another append
	// would be to wait for oneself.
	write     sync.Mutex
	validator Validator // nil: none
	failed    int       // what the last write tried to add when it failed, else 0: the file may be longer than size

	closed atomic.Bool           // written under write
	lost   atomic.Pointer[error] // once set, no more records

	recMu   sync.Mutex // guards the two below; held for an instant only
	records []Record   // append-only: the elements of a snapshot never change
	size    int64      // of the file with just these records

	sync syncState
}

// Header returns the log's header.
func (l *Log) Header() Header { return l.header }

// ID returns the session's id.
func (l *Log) ID() string { return l.header.ID }

// Path returns the log's file, "" in memory.
func (l *Log) Path() string { return l.path }

// FirstLive returns how many records the log was opened or forked with (closers included); what has a lower seq was
// never news in this process. If session/end-seed was appended behind them, this is its seq. It is 0 in a log that
// was created.
func (l *Log) FirstLive() int { return l.firstLive }

// Len returns the number of records, which is the seq of the next one.
func (l *Log) Len() int {
	l.recMu.Lock()
	defer l.recMu.Unlock()
	return len(l.records)
}

// Records returns the records so far. It costs the same for any number of them; the slice never changes and must
// not be written to.
func (l *Log) Records() []Record {
	l.recMu.Lock()
	defer l.recMu.Unlock()
	return l.records[:len(l.records):len(l.records)]
}

// extent returns the log's size in bytes and in records, as of one moment.
func (l *Log) extent() (bytes int64, records int) {
	l.recMu.Lock()
	defer l.recMu.Unlock()
	return l.size, len(l.records)
}

// FilesDir returns the folder for what belongs to the session and not into a line. It makes it (0700) if need be;
// where that fails, using it will say why. In memory it is "".
func (l *Log) FilesDir() string {
	if l.store == nil {
		return ""
	}
	dir := l.store.filesPath(l.ID())
	_ = l.opt.FS.MkdirAll(dir, dirMode) // see above
	return dir
}

// Append writes one record and returns it as it is in the log, with its seq and the time now. When it returns, the
// system has the whole line: it survives the death of the process, and after Sync that of the machine.
//
// An entry is refused with InvalidRecord for its shape and with Refused by the validator; then nothing happened. After
// WriteFailed nothing was committed either, and the next Append first removes what was left of the record. Changed
// and Lost mean that the log takes no more records: the records in memory can be forked into a new file.
//
// Only the host thread calls it. An append during an append of the same log fails with Busy.
func (l *Log) Append(e Entry) (Record, error) {
	if l.closed.Load() {
		return Record{}, l.closedError()
	}
	if !l.write.TryLock() {
		return Record{}, fmt.Errorf("session %s: %s: %w: append when it has returned", l.ID(), e.Type, Busy)
	}
	defer l.write.Unlock()
	if l.closed.Load() {
		return Record{}, l.closedError()
	}
	return l.append(e, l.opt.Now().UnixMilli())
}

func (l *Log) closedError() error {
	return fmt.Errorf("session %s: %w: `--resume %s` opens it again", l.ID(), Closed, l.ID())
}

// append does what Append says, with l.write held.
func (l *Log) append(e Entry, at int64) (Record, error) {
	rec, line, err := l.prepare(e, int64(l.Len()), at)
	if err != nil {
		return Record{}, err
	}
	if err := l.put(line); err != nil {
		return Record{}, fmt.Errorf("session %s: record %d (%s): %w", l.ID(), rec.Seq, rec.Type, err)
	}
	l.publish(int64(len(line)), rec)
	if l.validator != nil {
		l.validator.Commit(rec)
	}
	return rec, nil
}

// publish puts records that are in the file into the log. It grows the slice faster than append would: records are
// copied when it grows, and a long session has very many.
func (l *Log) publish(bytes int64, records ...Record) {
	l.recMu.Lock()
	defer l.recMu.Unlock()
	if n := len(l.records); n+len(records) > cap(l.records) {
		l.records = slices.Grow(l.records, max(n, len(records), 64))
	}
	l.records = append(l.records, records...)
	l.size += bytes
}

// prepare makes a record and its line, newline included, and asks the validator.
func (l *Log) prepare(e Entry, seq, at int64) (Record, []byte, error) {
	rec := Record{
		Type: e.Type, Seq: seq, Time: at, Data: e.Data, Ignorable: e.Ignorable,
		SourceEventSeqs: slices.Clone(e.SourceEventSeqs), // keeps nil apart from empty
	}
	if e.SurfaceOp != nil {
		op := *e.SurfaceOp
		rec.SurfaceOp = &op
	}
	line, err := encode(&rec)
	if err != nil {
		return Record{}, nil, fmt.Errorf("session %s: record %d (%.80s): %w", l.ID(), seq, e.Type, err)
	}
	if l.validator != nil {
		if err := l.validator.Check(rec); err != nil {
			return Record{}, nil, fmt.Errorf("session %s: record %d (%s): %w: %w", l.ID(), seq, rec.Type, Refused, err)
		}
	}
	return rec, line, nil
}

// encode checks a record and returns its line, newline included. The record's data is then a copy of its own.
func encode(rec *Record) ([]byte, error) {
	if err := checkEnvelope(rec); err != nil {
		return nil, err
	}
	data, err := oneLine(rec.Data)
	if err != nil {
		return nil, err
	}
	room := 64 + len(rec.Type) + len(data) // close, since the line lives as long as the record; append grows the rest
	if rec.Ignorable {
		room += 20
	}
	if rec.SurfaceOp != nil {
		room += 64 + 8*len(rec.SourceEventSeqs)
	}
	line, start, end := appendRecord(make([]byte, 0, room), rec, data)
	line = append(line, '\n')
	if rec.Data = line[start:end:end]; cap(line) > 2*len(data)+128 {
		rec.Data = bytes.Clone(rec.Data) // not to keep the rest of the line for as long as the record
	}
	return line, nil
}

// put hands a line to the file. The caller holds l.write.
func (l *Log) put(line []byte) error {
	if lost := l.lost.Load(); lost != nil {
		return *lost
	}
	if l.file == nil {
		return nil
	}
	if err := l.trim(); err != nil {
		return err
	}
	n, err := l.file.Write(line)
	if err == nil && n < len(line) {
		err = errors.New("the system took only a part of it")
	}
	if err != nil {
		l.failed = len(line)
		return fmt.Errorf("%w to %s: %w: make room or mend the disk and try again; the log is whole without it", WriteFailed, l.path, bare(err))
	}
	return nil
}

// trim sees to it that the file ends with the last whole record, cutting off what a failed write left. The caller
// holds l.write.
func (l *Log) trim() error {
	want, _ := l.extent()
	have, err := l.file.Size()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s was removed: `/fork` writes the session to a new file", Changed, l.path)
	case err != nil:
		return fmt.Errorf("%w to %s: %w: try again", WriteFailed, l.path, bare(err))
	case have < want || have > want+int64(l.failed):
		return fmt.Errorf("%w: %s has %d bytes and must have %d: nothing more is written to it; "+
			"`/fork` writes the session to a new file", Changed, l.path, have, want)
	case have == want:
		l.failed = 0
		return nil
	}
	if err := l.file.Truncate(want); err != nil {
		return fmt.Errorf("%w to %s: the rest of an earlier record that failed could not be cut off: %w: try again, "+
			"or `/fork` writes the session to a new file", WriteFailed, l.path, bare(err))
	}
	l.failed = 0
	return nil
}

// bare takes the file's name off an error: a log may have been opened under the name that it had while it was made.
func bare(err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}
