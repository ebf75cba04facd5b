package loop

import (
	"bytes"
	"encoding/json"
	"fmt"

	"dshsh/runtime"
	"dshsh/session"
)

// append writes a record, folds it into the agent's state and tells session/event. A
// throw of a listener is contained; see appendMark for the records where it is not.
func (a *agent) append(typ string, data any, sources ...int64) (session.Record, error) {
	rec, thrown, err := a.write(typ, data, sources, nil, nil)
	if thrown != nil {
		a.h.Report(runtime.Failure{Target: a.target(), Event: SessionEvent.Event, Instance: instanceOf(thrown), Err: thrown})
	}
	return rec, err
}

// appendExcept is append for a record that cause must not hear of.
func (a *agent) appendExcept(typ string, data any, cause *runtime.Listener) (session.Record, error) {
	rec, thrown, err := a.write(typ, data, nil, nil, cause)
	if thrown != nil && cause == nil {
		a.h.cfg.Notices.Failed(runtime.Failure{Target: a.target(), Event: SessionEvent.Event, Instance: instanceOf(thrown), Err: thrown})
	}
	return rec, err
}

// appendMark writes turn/start, step/start or step/end: a session/event listener's throw
// comes back as thrown, with the record committed and everybody told.
func (a *agent) appendMark(typ string, data any) (thrown, err error) {
	_, thrown, err = a.write(typ, data, nil, nil, nil)
	return thrown, err
}

func instanceOf(err error) *runtime.Instance { return nil }

// write is every append. It runs as one host operation: what listeners send meanwhile is
// carried out after everybody has been told.
func (a *agent) write(typ string, data any, sources []int64, op *session.SurfaceOp, except *runtime.Listener) (rec session.Record, thrown, err error) {
	if a.h.publishing > 0 {
		return rec, nil, fmt.Errorf("%s: nothing can be appended inside a session/event listener", typ)
	}
	raw, err := marshal(data)
	if err != nil {
		return rec, nil, fmt.Errorf("%s: %w", typ, err)
	}
	e := session.Entry{Type: typ, Data: raw, SurfaceOp: op, SourceEventSeqs: sources, Ignorable: ignorable(typ)}
	if op == nil && surface(typ) {
		e.SurfaceOp = &session.SurfaceOp{}
	}
	a.h.op(func() {
		if rec, err = a.log.Append(e); err != nil {
			err = fmt.Errorf("%s: %w", typ, err)
			return
		}
		a.fold(rec)
		thrown = a.publish(rec, except)
	})
	return rec, thrown, err
}

// publish tells session/event of a committed record. While it does, nothing can append.
func (a *agent) publish(rec session.Record, except *runtime.Listener) error {
	t := a.target()
	t.Except = except
	if !SessionEvent.Heard(a.h.Host, t) {
		return nil
	}
	a.h.publishing++
	defer func() { a.h.publishing-- }()
	return SessionEvent.FireErr(a.h.Host, t, RecordPayload{Session: a.session, Event: eventOf(rec), Agent: a})
}

func eventOf(rec session.Record) Event {
	e := Event{Type: rec.Type, Seq: rec.Seq, Time: rec.Time, Data: rec.Data, Ignorable: rec.Ignorable, SourceEventSeqs: rec.SourceEventSeqs}
	if rec.SurfaceOp != nil {
		e.SurfaceOp, _ = rec.SurfaceOp.MarshalJSON()
	}
	return e
}

func ignorable(typ string) bool {
	switch typ {
	case RecHookDecision, RecHookError, RecQuarantined, RecGeneration, RecGrant:
		return true
	}
	return false
}

// marshal writes a record's data without HTML escaping.
func marshal(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// capInput keeps a decision's input below its cap: larger arguments are kept as the
// beginning of their text.
func capInput(b []byte) json.RawMessage {
	if len(b) <= maxDecisionInput {
		return b
	}
	raw, _ := json.Marshal(string(bytes.ToValidUTF8(b[:maxDecisionInput], nil)) + "...")
	return raw
}
