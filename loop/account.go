package loop

import "dshsh/session"

// Accounting says how the work that a log took in came out, which turns alone do not
// tell: a turn that claimed its input and was refused looks like an empty one.
type Accounting struct {
	// End is the newest turn/end that accounts for work: its turn had a step, or it
	// claimed input and ended otherwise than completed. Nil if there is none.
	End *TurnEnd
	// DroppedUnrun: after it, queued work was cancelled that no turn had taken up.
	DroppedUnrun bool
}

// Account folds a log, or the part of it since some moment.
func Account(records []session.Record) Accounting {
	var (
		acc                    Accounting
		open, claimed, stepped bool
	)
	for _, rec := range records {
		switch rec.Type {
		case RecTurnStart:
			open, claimed, stepped = true, false, false
		case RecStepStart:
			stepped = true
		case RecInboxSpliced:
			var s Spliced
			if !decodeData(rec, &s) || s.RemovedCount == 0 {
				continue
			}
			switch {
			case s.Outcome == "":
				claimed = claimed || open
			case len(s.Inserted) == 0:
				acc.DroppedUnrun = true
			}
		case RecTurnEnd:
			var t TurnEnd
			if decodeData(rec, &t) && (stepped || claimed && t.Reason.Kind != EndCompleted) {
				acc = Accounting{End: &t}
			}
			open, claimed, stepped = false, false, false
		}
	}
	return acc
}
