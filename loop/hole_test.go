package loop_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
	"dshsh/session"
)

// TestRepairStandsInForAnyRecord takes one record after the other out of a log: what
// stands in for it must not make the rest unreadable.
func TestRepairStandsInForAnyRecord(t *testing.T) {
	w := newWorld(t, modeltest.New(modeltest.Tool("c1", "echo", `{"text":"a"}`), modeltest.Text("x"), modeltest.Text("y")), withTools(echo{})).create()
	w.prompt("go")
	w.prompt("more")
	recs := w.records()
	for i := range recs {
		holed := append([]session.Record{}, recs...)
		holed[i] = session.Record{Type: session.LostRecord, Seq: recs[i].Seq, Time: recs[i].Time, Data: json.RawMessage("{}"), Ignorable: true}
		v := loop.NewValidator()
		for _, r := range holed {
			if err := v.Check(r); err != nil {
				t.Fatalf("without record %d (%s): record %d (%s): %v", i, recs[i].Type, r.Seq, r.Type, err)
			}
			v.Commit(r)
		}
		if i < len(recs)-1 && !v.(*loop.Validator).Closed() {
			t.Errorf("without record %d (%s) the log is open", i, describe(recs[i]))
		}
		// What is opened after a repair can be gone on with.
		log, _, err := session.MemoryFrom(session.Header{ID: fmt.Sprint("h", i)}, holed, session.Options{Validator: loop.NewValidator})
		if err != nil {
			t.Fatalf("without record %d (%s): %v", i, recs[i].Type, err)
		}
		_ = log.Close()
	}
}
