package loop_test

import (
	"encoding/json"
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
