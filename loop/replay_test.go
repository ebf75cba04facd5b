package loop_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/session"
)

// inboxModel is the two lists as the records of a log say, from seq seed on.
type inboxModel struct{ turn, step []model.Message }

func newInboxModel(recs []session.Record, seed int) *inboxModel {
	m := &inboxModel{}
	for _, r := range recs[seed:] {
		var s loop.Spliced
		if r.Type != loop.RecInboxSpliced || json.Unmarshal(r.Data, &s) != nil {
			continue
		}
		l := &m.turn
		if s.Target == loop.NextStep {
			l = &m.step
		}
		*l = slices.Replace(slices.Clone(*l), s.Start, s.Start+s.RemovedCount, s.Inserted...)
	}
	return m
}

// opensCut opens the beginning of a log as after a crash: it must be mended, and leave a
// conversation that a model takes.
func opensCut(recs []session.Record) error {
	log, _, err := session.MemoryFrom(session.Header{}, recs[:len(recs):len(recs)], session.Options{Validator: loop.NewValidator})
	if err != nil {
		return err
	}
	v := loop.NewValidator()
	for _, r := range log.Records() {
		if err := v.Check(r); err != nil {
			return fmt.Errorf("cut at %d: record %d: %w", len(recs), r.Seq, err)
		}
		v.Commit(r)
	}
	if !v.(session.Boundary).Closed() {
		return fmt.Errorf("cut at %d: a turn is open", len(recs))
	}
	data, err := json.Marshal(withID("next", "next"))
	if err != nil {
		return err
	}
	next := append(log.Records(), session.Record{Type: loop.RecUserMessage, Seq: int64(log.Len()), Data: data, SurfaceOp: &session.SurfaceOp{}})
	if err := validRequest(&model.Request{Messages: loop.DeriveMessages(next)}); err != nil {
		return fmt.Errorf("cut at %d: %w", len(recs), err)
	}
	return nil
}
