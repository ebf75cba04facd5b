package loop

import (
	"fmt"

	"dshsh/loop/model"
	"dshsh/session"
)

// Fork makes a new session that begins with a copy of another's records 0 to boundary
// (session.Last: all of them), and its agent. The source is a live agent's session or a
// stored one; what is pending there stays there. o.Header.ID is the child's id, "" for a
// new one; the folder is the source's unless o.Header.Cwd names another.
//
// It fails, and makes nothing, with session.Exists (looked at first), NotFound (NotLive
// where nothing is stored), InvalidBoundary, and OpenTurn for a boundary inside a turn.
func (h *Host) Fork(source string, boundary int64, o CreateOptions) (Agent, error) {
	return h.fork(source, o, func([]session.Record) (int64, error) { return boundary, nil })
}

// Rewind is a fork at the end of an earlier turn: the last one that the child keeps, 0
// for none.
func (h *Host) Rewind(source string, turn int, o CreateOptions) (Agent, error) {
	return h.fork(source, o, func(records []session.Record) (int64, error) { return boundaryOf(records, turn) })
}

func (h *Host) fork(source string, o CreateOptions, at func([]session.Record) (int64, error)) (Agent, error) {
	id := o.Header.ID
	if h.cfg.Store == nil && id == "" {
		id = session.NewID(h.cfg.Now())
	}
	live, _ := h.Agent(source)
	return h.start(id, o, SourceStartup, func() (*session.Log, error) {
		hd, records, damage, err := h.recordsOf(source, live)
		if err != nil {
			return nil, err
		}
		boundary, err := at(records)
		if err != nil {
			return nil, fmt.Errorf("session %s: %w", source, err)
		}
		if boundary == session.Last && damage != nil {
			return nil, damage
		}
		if o.Header.Cwd != "" {
			hd.Cwd = o.Header.Cwd
		}
		if h.cfg.Store != nil {
			return h.cfg.Store.Fork(hd, records, boundary, id)
		}
		return session.MemoryFork(hd, records, boundary, id, h.memory())
	})
}

// recordsOf reads a session, live or stored: of a damaged one what stands before the
// damage.
func (h *Host) recordsOf(id string, live Agent) (hd session.Header, records []session.Record, damage, err error) {
	if live != nil {
		return live.Session().Header(), live.Session().Records(), nil, nil
	}
	if h.cfg.Store == nil {
		return hd, nil, nil, fmt.Errorf("session %s: %w, and sessions are not stored", id, session.NotLive)
	}
	hd, records, rep, err := h.cfg.Store.Read(id)
	if err != nil {
		return hd, nil, nil, err
	}
	return hd, records[:rep.Whole], rep.Err(), nil
}

// TurnSpan is one turn of a log, as a person chooses one to go back to. Plain data.
type TurnSpan struct {
	Turn   int
	Start  int64     // seq of its turn/start
	End    int64     // seq of its turn/end; -1 while it is open
	Prompt string    // the text of the first message of a person that it took in
	Reason EndReason // how it ended
}

// Turns lists the turns of a log, oldest first.
func Turns(records []session.Record) []TurnSpan {
	var out []TurnSpan
	for _, rec := range records {
		if rec.Type == RecTurnStart {
			var t TurnStart
			if decodeData(rec, &t) {
				out = append(out, TurnSpan{Turn: t.Turn, Start: rec.Seq, End: -1})
			}
			continue
		}
		if len(out) == 0 || out[len(out)-1].End >= 0 {
			continue
		}
		last := &out[len(out)-1]
		switch rec.Type {
		case RecTurnEnd:
			var t TurnEnd
			if decodeData(rec, &t) {
				last.End, last.Reason = rec.Seq, t.Reason
			}
		case RecUserMessage:
			var m model.Message
			if last.Prompt == "" && decodeData(rec, &m) && m.Source.Kind == model.SourceUser {
				last.Prompt = m.Words()
			}
		}
	}
	return out
}

// boundaryOf is where a log ends behind a turn.
func boundaryOf(records []session.Record, turn int) (int64, error) {
	turns := Turns(records)
	switch {
	case turn == 0 && len(turns) > 0:
		return turns[0].Start - 1, nil
	case turn == 0:
		return session.Last, nil
	}
	for _, t := range turns {
		switch {
		case t.Turn != turn:
		case t.End < 0:
			return 0, fmt.Errorf("%w: turn %d has not ended", session.OpenTurn, turn)
		default:
			return t.End, nil
		}
	}
	return 0, fmt.Errorf("%w: there is no turn %d; it has %d", session.InvalidBoundary, turn, len(turns))
}
