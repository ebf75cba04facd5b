package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"dshsh/loop/model"
	"dshsh/runtime"
	"dshsh/session"
)

// OpenStore returns the store of sessions in a folder, with the loop's rules for their
// records: session.OpenStore with NewValidator.
func OpenStore(dir string) (*session.Store, error) {
	return session.OpenStore(dir, session.Options{Validator: NewValidator})
}

// Script puts a script in force, beside those that are or in the place of the one of that
// name. The ending of file says the language. On the thread, which may not be left for
// it; the error names file and line, and then nothing has changed.
//
// It is for programs that bring their policies along. Those that watch folders use
// package runtime/reload.
func (h *Host) Script(file, code string) error {
	e, err := h.EngineFor(file)
	if err != nil {
		return err
	}
	id := runtime.LayerBundled.String() + "/" + file
	prog, err := e.Compile(runtime.Source{ID: id, File: file, Code: []byte(code)})
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(code))
	in, err := h.Load(runtime.ScriptFile{ID: id, File: file, Hash: hex.EncodeToString(sum[:]), Layer: runtime.LayerBundled, Program: prog})
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(slices.Clone(h.Current().Instances), func(old *runtime.Instance) bool { return old.ID == id })
	at := slices.IndexFunc(all, func(old *runtime.Instance) bool {
		return old.Layer > runtime.LayerBundled || old.Layer == runtime.LayerBundled && strings.Compare(old.File, file) > 0
	})
	if at < 0 {
		at = len(all)
	}
	g := h.Activate(slices.Insert(all, at, in))
	h.Greet()
	h.RecordGeneration(g)
	return nil
}

// Ask sends a prompt, waits until the agent is idle again and returns the text of the
// newest reply. The error says why there is no whole one: Err of how the turn ended. When
// ctx ends, so does the turn. It is called off the thread, by one caller at a time for
// each agent.
func (h *Host) Ask(ctx context.Context, a Agent, prompt string) (reply string, err error) {
	derr := h.Do(ctx, func() {
		from := len(a.Session().Records())
		if err = a.Followup(UserMessage(prompt)); err != nil {
			return
		}
		if err = a.WhenIdle(ctx); err != nil {
			a.Cancel(Cause{Kind: CauseParent}, CancelOptions{})
			_ = a.WhenIdle(context.Background())
			return
		}
		reply, err = outcomeOf(a.Session().Records()[from:])
	})
	if derr != nil {
		err = derr
	}
	return reply, err
}

// outcomeOf reads the newest reply and how the work of some records ended.
func outcomeOf(recs []session.Record) (reply string, err error) {
	for _, rec := range slices.Backward(recs) {
		if m, ok := messageOf(rec); ok && rec.Type == RecAssistant {
			reply = m.PlainText()
			break
		}
	}
	switch acc := Account(recs); {
	case acc.End != nil:
		return reply, acc.End.Reason.Err()
	case acc.DroppedUnrun:
		return reply, errors.New("the prompt was removed before its turn")
	}
	return reply, nil
}

// Errors of EndReason.Err.
var (
	ErrBlocked     = errors.New("a policy refused the turn")
	ErrMaxTokens   = errors.New("the reply was cut at the limit of tokens")
	ErrInterrupted = errors.New("the turn was interrupted by the end of the program")
)

// Err is nil for a turn that completed. Otherwise it is ErrBlocked, ErrMaxTokens,
// ErrInterrupted, the *Cause of an abort or the *model.Failure of an error.
func (r EndReason) Err() error {
	switch r.Kind {
	case EndCompleted:
		return nil
	case EndMaxTokens:
		return ErrMaxTokens
	case EndBlocked:
		return ErrBlocked
	case EndAborted:
		if r.Reason != nil {
			return r.Reason
		}
	case EndError:
		if r.Error != nil {
			return r.Error
		}
	case EndInterrupted:
		return ErrInterrupted
	}
	return errors.New("the turn ended: " + r.Kind)
}

// NewReply makes an answer for a Go listener of llm/stream. open is called off the thread;
// its context ends with the call.
func NewReply(open func(ctx context.Context) (model.Stream, error)) *Reply {
	return &Reply{open: open}
}
