package loop_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"sync"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/session"
)

type (
	execT  = tool.Exec
	fsMode = fs.FileMode
)

// decoded reads a record's data if it is of the type.
func decoded[T any](r session.Record, typ string) (T, bool) {
	var d T
	if r.Type != typ || json.Unmarshal(r.Data, &d) != nil {
		return d, false
	}
	return d, true
}

// results lists tool results as "callId CODE text".
func (w *world) results() []string {
	var out []string
	for _, r := range w.records() {
		if d, ok := decoded[loop.ToolResultRecord](r, loop.RecToolResult); ok {
			code := "-"
			if d.Error != nil {
				code = d.Error.Code
			} else if d.Message.Content[0].IsError {
				code = "error"
			}
			out = append(out, fmt.Sprintf("%s %s %s", d.Message.Source.CallID, code, model.PlainText(d.Message.Content)))
		}
	}
	return out
}

func sessionOS() session.FS { return session.OS() }

// withStore keeps sessions in a folder.
func withStore(t *testing.T, files session.FS) func(*loop.Config) {
	return func(c *loop.Config) {
		store, err := session.OpenStore(t.TempDir(), session.Options{FS: files, Validator: loop.NewValidator})
		if err != nil {
			t.Fatal(err)
		}
		c.Store = store
	}
}

// slowSync blocks the first sync of a session's file after a turn has begun.
type slowSync struct {
	session.FS
	once             sync.Once
	entered, release chan struct{}
}

func (s *slowSync) OpenFile(name string, flag int, perm fsMode) (session.File, error) {
	f, err := s.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &slowFile{File: f, s: s}, nil
}

type slowFile struct {
	session.File
	s       *slowSync
	written int
}

func (f *slowFile) Write(b []byte) (int, error) {
	f.written += len(b)
	return f.File.Write(b)
}

func (f *slowFile) Sync() error {
	if f.written > 1000 { // not the one at creation
		f.s.once.Do(func() { close(f.s.entered); <-f.s.release })
	}
	return f.File.Sync()
}

// reopen makes w's agent go on with the records of another world's.
func (w *world) reopen(from *world) {
	w.t.Helper()
	log, _, err := session.MemoryFrom(from.a.Session().Header(), from.records(), session.Options{Validator: loop.NewValidator})
	if err != nil {
		w.t.Fatal(err)
	}
	w.do(func() {
		if w.a, err = w.h.Adopt(log, loop.CreateOptions{Options: loop.Options{Provider: w.model.Name(), Model: "m"}}); err != nil {
			w.t.Error(err)
		}
	})
	if w.a == nil {
		w.t.FailNow()
	}
}
