package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// syncState lets callers of Sync share rounds: a round is one fsync, and everybody whose bytes were written before
// it began has its result.
type syncState struct {
	mu      sync.Mutex // never held during an fsync
	round   *syncRound // the running one, nil if none
	durable place      // how far the file is known to be on disk
	closed  bool
}

// place is the end of a record, counted both ways.
type place struct {
	bytes   int64
	records int
}

type syncRound struct {
	covers place // what was in the file when it began
	done   chan struct{}
	err    error // set before done is closed
}

// Sync makes everything that was appended before the call durable. Any goroutine may call it, several at once share
// one fsync, and no append waits for it. It may block for as long as the disk takes: the host thread calls it away
// from the thread.
//
// After SyncFailed the records are in the file (they were read back and compared) and the log goes on: a later Sync
// may succeed. After Lost they are not, and appends are refused with the same error.
func (l *Log) Sync() error {
	if l.file == nil || l.opt.NoSync {
		return nil
	}
	want, _ := l.extent()
	s := &l.sync
	for {
		s.mu.Lock()
		if lost := l.lost.Load(); lost != nil {
			s.mu.Unlock()
			return *lost
		}
		if s.durable.bytes >= want || s.closed {
			s.mu.Unlock()
			return nil
		}
		if r := s.round; r != nil {
			s.mu.Unlock()
			<-r.done
			if r.covers.bytes >= want {
				return r.err
			}
			continue
		}
		r := &syncRound{done: make(chan struct{})}
		r.covers.bytes, r.covers.records = l.extent()
		s.round = r
		s.mu.Unlock()
		l.runRound(r)
		return r.err
	}
}

// runRound does one fsync and tells those who wait.
func (l *Log) runRound(r *syncRound) {
	s := &l.sync
	err := l.file.Sync()
	if err != nil {
		err = l.afterFailedSync(r.covers, err)
	}
	s.mu.Lock()
	if err == nil {
		s.durable = r.covers // rounds follow each other, so it only grows
	}
	r.err = err
	s.round = nil
	s.mu.Unlock()
	close(r.done)
}

// afterFailedSync finds out whether the bytes since the last good sync are still there. A kernel that could not
// write pages may consider them written from then on, so a later fsync proves nothing about them; reading them
// back past the cache does.
func (l *Log) afterFailedSync(to place, cause error) error {
	l.sync.mu.Lock()
	from := l.sync.durable
	l.sync.mu.Unlock()
	same, err := l.compare(from, to)
	if err == nil && same {
		return fmt.Errorf("session %s: %w: %s: %w: it holds all records, but they may not survive a power failure: "+
			"mend the disk, or `/fork` to another one", l.ID(), SyncFailed, l.path, bare(cause))
	}
	lost := fmt.Errorf("session %s: %w: %s: %w", l.ID(), Lost, l.path, errors.Join(bare(cause), err))
	lost = fmt.Errorf("%w: nothing more is written to it; `/fork` writes the session to a new file", lost)
	l.lost.Store(&lost)
	return lost
}

const compareChunk = 1 << 20

// compare reports whether the file still holds what was written between two places.
func (l *Log) compare(from, to place) (bool, error) {
	l.file.Forget(from.bytes, to.bytes-from.bytes)
	var (
		want, got []byte
		pos       = from.bytes
		records   = l.Records()[from.records:to.records]
	)
	for i := range records {
		want, _, _ = appendRecord(want, &records[i], records[i].Data) // the same bytes as Append wrote
		want = append(want, '\n')
		if len(want) < compareChunk && i < len(records)-1 {
			continue
		}
		got = slices.Grow(got[:0], len(want))[:len(want)]
		if n, err := l.file.ReadAt(got, pos); n < len(want) && !errors.Is(err, io.EOF) {
			return false, err
		} else if !bytes.Equal(got[:n], want) {
			return false, nil
		}
		pos += int64(len(want))
		want = want[:0]
	}
	return pos == to.bytes, nil
}

// Close syncs the log and gives up its lock. Appends after it fail with Closed; records can still be read. It may be
// called by any goroutine and again; it waits for an append and a sync in progress. The lock is given up even where
// it returns an error, which is that of the sync.
func (l *Log) Close() error {
	l.write.Lock()
	defer l.write.Unlock()
	if l.closed.Swap(true) || l.file == nil {
		return nil
	}
	var errs []error
	if l.failed > 0 { // leave no torn tail behind, if it can be helped
		if err := l.trim(); err != nil && l.lost.Load() == nil {
			errs = append(errs, fmt.Errorf("session %s: %w", l.ID(), err))
		}
	}
	errs = append(errs, l.Sync())
	l.sync.mu.Lock()
	l.sync.closed = true // no new rounds: Sync returns at once from now on
	round := l.sync.round
	l.sync.mu.Unlock()
	if round != nil {
		<-round.done
	}
	errs = append(errs, l.store.unlock(l.file, l.ID()), l.file.Close())
	return errors.Join(errs...)
}

// Discard closes a log and removes its file and, if it is empty, its folder, as if the session had never been made: for
// one whose creation is taken back. Appends after it fail with Closed. In memory it is Close.
func (l *Log) Discard() error {
	if l.file == nil {
		return l.Close()
	}
	l.write.Lock()
	l.failed = 0 // nothing to cut back
	l.write.Unlock()
	// The name goes while the lock is held, so that nobody opens what is about to go.
	err := l.opt.FS.Remove(l.path)
	_ = l.opt.FS.Remove(l.store.filesPath(l.ID())) // is rarely there, and stays if something is in it
	l.sync.mu.Lock()
	l.sync.closed = true // nothing left to sync
	l.sync.mu.Unlock()
	return errors.Join(err, l.Close())
}
