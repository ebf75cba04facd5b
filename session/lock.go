package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Holder describes the process that has a session open. It is what that process said about itself: the lock does
// not depend on it. It is immutable.
type Holder struct {
	PID   int    `json:"pid"`
	Host  string `json:"host"`
	Since int64  `json:"since"` // milliseconds since 1970
}

// String returns who holds the session, for people.
func (h *Holder) String() string {
	since := time.UnixMilli(h.Since).Format("2006-01-02 15:04:05")
	if h.here() && h.PID == os.Getpid() {
		return "this process, since " + since
	}
	if h.here() && processStopped(h.PID) {
		return fmt.Sprintf("process %d on %s, which is stopped (`kill -CONT %d` lets it go on), since %s", h.PID, h.Host, h.PID, since)
	}
	return fmt.Sprintf("process %d on %s since %s", h.PID, h.Host, since)
}

func (h *Holder) here() bool {
	host, err := os.Hostname()
	return err == nil && host == h.Host
}

// alive reports whether the description can be true: that of a process which died without tidying up is not.
func (h *Holder) alive() bool { return !h.here() || processLives(h.PID) }

const maxHolderFile = 4096

// readHolder returns who says that he holds the session, or nil.
func readHolder(fsys FS, path string) *Holder {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxHolderFile))
	if err != nil {
		return nil
	}
	var h Holder
	if json.Unmarshal(b, &h) != nil || h.PID <= 0 || !h.alive() {
		return nil
	}
	return &h
}

// writeHolder leaves word of who has the lock. That it cannot (a full disk) is no reason not to go on.
func writeHolder(fsys FS, path string, now time.Time) {
	f, err := fsys.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return
	}
	host, _ := os.Hostname()
	b, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Since: now.UnixMilli()})
	if err == nil {
		_, err = f.Write(append(b, '\n'))
	}
	if errors.Join(err, f.Close()) != nil {
		_ = fsys.Remove(path) // better none than half of one
	}
}

// lock takes the lock on an open log, or says who has it.
func (s *Store) lock(f File, id string) error {
	err := f.TryLock()
	switch {
	case err == nil:
		writeHolder(s.fs, s.holderPath(id), s.opt.Now())
		return nil
	case errors.Is(err, ErrLocked):
		return &LockedError{ID: id, Path: s.logPath(id), Holder: readHolder(s.fs, s.holderPath(id))}
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("session %s: this system or file system has no locks, so two programs could write to it at once: "+
			"keep sessions on another one: %w", id, err)
	}
	return fmt.Errorf("session %s: %w", id, err)
}

// unlock gives the lock up. The description goes first, while nobody else can have written one; a leftover does no
// harm, since the lock is free or its process dead.
func (s *Store) unlock(f File, id string) error {
	_ = s.fs.Remove(s.holderPath(id))
	return f.Unlock()
}
