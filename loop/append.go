package loop

import (
	"bytes"
	"encoding/json"
	"fmt"

	"dshsh/loop/model"
	"dshsh/runtime"
	"dshsh/session"
)

// append writes a record, folds it into the agent's state and tells session/event. A
// throw of a listener is contained and recorded; see appendMark for the records where it is not.
func (a *agent) append(typ string, data any, sources ...int64) (session.Record, error) {
	return a.appendExcept(typ, data, nil, sources...)
}

// appendExcept is append for a record that cause must not hear of.
func (a *agent) appendExcept(typ string, data any, cause *runtime.Listener, sources ...int64) (session.Record, error) {
	return a.write(typ, data, session.SurfaceOp{}, sources, cause, func(t runtime.Target, p RecordPayload) { SessionEvent.Fire(a.h.Host, t, p) })
}

// appendMark writes turn/start, step/start or step/end: a session/event listener's throw
// comes back as thrown, with the record committed and everybody told.
func (a *agent) appendMark(typ string, data any) (thrown, err error) {
	_, err = a.write(typ, data, session.SurfaceOp{}, nil, nil, func(t runtime.Target, p RecordPayload) { thrown = SessionEvent.FireErr(a.h.Host, t, p) })
	return thrown, err
}

// replace writes a message in the place of a range of the surface.
func (a *agent) replace(m model.Message, r SeqRange, sources ...int64) error {
	_, err := a.write(RecUserMessage, m, session.SurfaceOp{Replace: true, Start: r.Start, End: r.End}, sources, nil,
		func(t runtime.Target, p RecordPayload) { SessionEvent.Fire(a.h.Host, t, p) })
	return err
}

// write is every append; op counts for surface records. It runs as one host operation: what listeners send meanwhile is
// carried out after everybody but except has been told.
func (a *agent) write(typ string, data any, op session.SurfaceOp, sources []int64, except *runtime.Listener, tell func(runtime.Target, RecordPayload)) (rec session.Record, err error) {
	if a.h.publishing > 0 {
		return rec, fmt.Errorf("%s: nothing can be appended inside a session/event listener", typ)
	}
	raw, err := marshal(data)
	if err != nil {
		return rec, fmt.Errorf("%s: %w", typ, err)
	}
	e := session.Entry{Type: typ, Data: raw, SourceEventSeqs: sources, Ignorable: ignorable(typ)}
	if surface(typ) {
		e.SurfaceOp = &op
	}
	a.h.op(func() {
		if rec, err = a.log.Append(e); err != nil {
			err = fmt.Errorf("%s: %w", typ, err)
			return
		}
		a.fold(rec)
		// While it is told, nothing can append.
		t := a.target()
		t.Except = except
		if !SessionEvent.Heard(a.h.Host, t) {
			return
		}
		a.h.publishing++
		defer func() { a.h.publishing-- }()
		tell(t, RecordPayload{Session: a.session, Event: eventOf(rec), Agent: a})
	})
	return rec, err
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
