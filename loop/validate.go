package loop

import (
	"encoding/json"
	"fmt"
	"strings"

	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/session"
)

// Validator is the relation between the loop's records: what may follow what, and what a
// crash left open. It implements session.Validator; one is used for one log.
type Validator struct {
	next       int64 // seq of the record that would follow
	turn, step int   // open ones; 0 = none
	lastTurn   int
	lastStep   int              // in the open turn
	asked      []model.Block    // tool calls of the open step's message, in order
	started    map[string]int64 // call id -> seq of its tool/call, in the open step
	answered   map[string]bool  // call ids with a result, in the open step
	hole       bool             // a record is gone here (session.LostRecord): anything may have happened
}

// NewValidator returns the validator of an empty log. It fits session.Options.
func NewValidator() session.Validator {
	return &Validator{started: map[string]int64{}, answered: map[string]bool{}}
}

// marks are the members that relate a record to its turn and step.
type marks struct {
	Turn   int    `json:"turn"`
	Step   int    `json:"step"`
	CallID string `json:"callId"`
}

// readMarks reads turn and step from the beginning of the text that the loop itself
// writes, and decodes anything else.
func readMarks(data []byte, want bool) (m marks, err error) {
	if !want {
		if turn, rest, ok := readInt(data, `{"turn":`); ok {
			if step, _, ok := readInt(rest, `,"step":`); ok {
				return marks{Turn: turn, Step: step}, nil
			}
		}
	}
	err = json.Unmarshal(data, &m)
	return m, err
}

func readInt(b []byte, prefix string) (n int, rest []byte, ok bool) {
	if len(b) <= len(prefix) || string(b[:len(prefix)]) != prefix {
		return 0, b, false
	}
	b = b[len(prefix):]
	i := 0
	for i < len(b) && i < 9 && b[i] >= '0' && b[i] <= '9' {
		n = n*10 + int(b[i]-'0')
		i++
	}
	return n, b[i:], i > 0
}

// Check says whether rec may follow what was committed. It changes nothing.
func (v *Validator) Check(rec session.Record) error {
	if (rec.SurfaceOp != nil) != surface(rec.Type) {
		if rec.SurfaceOp == nil {
			return fmt.Errorf("%s needs a surfaceOp", rec.Type)
		}
		return fmt.Errorf("%s takes no surfaceOp", rec.Type)
	}
	if v.hole {
		return v.checkAfterHole(rec)
	}
	switch rec.Type {
	case RecTurnStart:
		var t TurnStart
		if err := json.Unmarshal(rec.Data, &t); err != nil {
			return err
		}
		if v.turn != 0 {
			return fmt.Errorf("turn %d starts while turn %d is open", t.Turn, v.turn)
		}
		if t.Turn != v.lastTurn+1 {
			return fmt.Errorf("turn %d follows turn %d", t.Turn, v.lastTurn)
		}
	case RecTurnEnd:
		var t TurnEnd
		if err := json.Unmarshal(rec.Data, &t); err != nil {
			return err
		}
		if t.Turn != v.turn || v.turn == 0 {
			return fmt.Errorf("turn %d ends, but turn %d is open", t.Turn, v.turn)
		}
		if v.step != 0 {
			return fmt.Errorf("turn %d ends while its step %d is open", t.Turn, v.step)
		}
		if t.Reason.Kind == "" {
			return fmt.Errorf("turn/end without a reason")
		}
	case RecStepStart:
		m, err := readMarks(rec.Data, false)
		if err != nil {
			return err
		}
		if m.Turn != v.turn || v.turn == 0 {
			return fmt.Errorf("a step of turn %d starts, but turn %d is open", m.Turn, v.turn)
		}
		if v.step != 0 || m.Step != v.lastStep+1 {
			return fmt.Errorf("step %d starts after step %d (open: %d)", m.Step, v.lastStep, v.step)
		}
	case RecStepEnd, RecChunk, RecAssistant, RecToolCall:
		m, err := readMarks(rec.Data, false)
		if err != nil {
			return err
		}
		return v.inStep(rec.Type, m)
	case RecToolResult:
		return v.checkResult(rec)
	case RecRequestHeader, RecRequestContext, RecTodos:
		if v.turn == 0 {
			return fmt.Errorf("%s outside a turn", rec.Type)
		}
	case RecUserMessage:
		var m model.Message
		if err := json.Unmarshal(rec.Data, &m); err != nil {
			return err
		}
		return m.Validate()
	default:
		return v.checkOther(rec)
	}
	return nil
}

// checkAfterHole accepts what may follow if the record that is gone was the right one:
// until the next turn begins or ends, only numbers that go back are wrong.
func (v *Validator) checkAfterHole(rec session.Record) error {
	switch rec.Type {
	case RecTurnStart, RecTurnEnd, RecStepStart, RecStepEnd, RecChunk, RecAssistant, RecToolCall, RecToolResult:
		m, err := readMarks(rec.Data, false)
		if err != nil {
			return err
		}
		if m.Turn < v.lastTurn || m.Turn == v.lastTurn && (rec.Type == RecTurnStart && v.turn == 0 || m.Step != 0 && m.Step < v.lastStep) {
			return fmt.Errorf("%s goes back to turn %d step %d after turn %d step %d", rec.Type, m.Turn, m.Step, v.lastTurn, v.lastStep)
		}
		return nil
	}
	return v.checkOther(rec)
}

// catchUp takes over, after a hole, the turn and step that a record names.
func (v *Validator) catchUp(rec session.Record) {
	m, err := readMarks(rec.Data, false)
	if err != nil || m.Turn == 0 {
		return
	}
	if m.Turn != v.turn {
		v.step, v.lastStep, v.asked = 0, 0, nil
	}
	switch rec.Type {
	case RecTurnStart, RecTurnEnd:
		v.hole, v.step = false, 0
	case RecStepStart:
		v.turn, v.lastTurn, v.step = m.Turn, m.Turn, 0
	case RecStepEnd, RecChunk, RecAssistant, RecToolCall, RecToolResult:
		v.turn, v.lastTurn, v.step, v.lastStep = m.Turn, m.Turn, m.Step, m.Step
	}
}

// relational are the record types whose order Check knows.
var relational = map[string]bool{
	RecTurnStart: true, RecTurnEnd: true, RecStepStart: true, RecStepEnd: true, RecChunk: true, RecAssistant: true, RecToolCall: true,
	RecToolResult: true, RecRequestHeader: true, RecRequestContext: true, RecUserMessage: true,
}

// Known record types that stand in no relation to others.
var free = map[string]bool{
	RecInboxSpliced: true, RecEndSeed: true, RecToolRewritten: true, RecApprovalAsked: true, RecApprovalDecided: true,
	RecHookDecision: true, RecHookError: true, RecQuarantined: true, RecGeneration: true, RecGrant: true,
	RecRetry: true, RecRetryStarted: true, RecFallback: true, RecScriptState: true, RecCodeStart: true, RecCodeDispatch: true,
	"session/title": true, RecCompactionStart: true, RecCompactionSummary: true, RecCompactionEnd: true, RecCompactionPrune: true,
}

func (v *Validator) checkOther(rec session.Record) error {
	switch rec.Type {
	case RecUserMessage, RecRequestHeader, RecRequestContext, RecTodos:
		return nil // only after a hole do they come here
	case RecScriptState:
		return checkState(rec)
	}
	if free[rec.Type] || rec.Ignorable {
		return nil
	}
	return fmt.Errorf("unknown record type %q, which is not marked ignorable: a newer dshsh wrote this session", rec.Type)
}

func (v *Validator) inStep(typ string, m marks) error {
	if v.step == 0 || m.Turn != v.turn || m.Step != v.step {
		return fmt.Errorf("%s names turn %d step %d, but open is turn %d step %d", typ, m.Turn, m.Step, v.turn, v.step)
	}
	return nil
}

func (v *Validator) checkResult(rec session.Record) error {
	var r ToolResultRecord
	if err := json.Unmarshal(rec.Data, &r); err != nil {
		return err
	}
	if err := v.inStep(rec.Type, marks{Turn: r.Turn, Step: r.Step}); err != nil {
		return err
	}
	id := r.Message.Source.CallID
	if len(r.Message.Content) != 1 || r.Message.Content[0].ToolCallID != id || id == "" {
		return fmt.Errorf("tool/result must hold one result block for its call")
	}
	if _, ok := v.started[id]; !ok && (r.Error == nil || r.Error.Code != tool.CodeNotStarted) {
		return fmt.Errorf("tool/result for call %q, which has not started in this step", id)
	}
	if v.answered[id] {
		return fmt.Errorf("a second tool/result for call %q", id)
	}
	return nil
}

// Commit folds a record that has been checked.
func (v *Validator) Commit(rec session.Record) {
	v.next = rec.Seq + 1
	if v.hole {
		v.catchUp(rec)
	}
	switch rec.Type {
	case session.LostRecord:
		v.hole = true
	case RecTurnStart:
		var t TurnStart
		if json.Unmarshal(rec.Data, &t) == nil {
			v.turn, v.lastTurn, v.lastStep = t.Turn, t.Turn, 0
		}
	case RecTurnEnd:
		v.turn = 0
	case RecStepStart:
		if m, err := readMarks(rec.Data, false); err == nil {
			v.step, v.lastStep = m.Step, m.Step
		}
	case RecStepEnd:
		v.step, v.asked = 0, nil
		clear(v.started)
		clear(v.answered)
	case RecAssistant:
		var r AssistantMessage
		if json.Unmarshal(rec.Data, &r) == nil {
			v.asked = nil
			for _, b := range r.Message.Content {
				if b.Type == model.BlockToolCall {
					v.asked = append(v.asked, b)
				}
			}
		}
	case RecToolCall:
		if m, err := readMarks(rec.Data, true); err == nil {
			v.started[m.CallID] = rec.Seq
		}
	case RecToolResult:
		var r ToolResultRecord
		if json.Unmarshal(rec.Data, &r) == nil {
			v.answered[r.Message.Source.CallID] = true
		}
	}
}

// Closed says whether a fork may be cut here: no turn is open.
func (v *Validator) Closed() bool { return v.turn == 0 }

// Closers are the records that close what a crash left open: a result for each call of
// the open step that has none, in the message's order, step/end and turn/end.
func (v *Validator) Closers() []session.Entry {
	if v.turn == 0 {
		return nil
	}
	var out []session.Entry
	add := func(typ string, data any, sources []int64) {
		raw, err := marshal(data)
		if err != nil {
			return // cannot be: the values are ours
		}
		e := session.Entry{Type: typ, Data: raw, SourceEventSeqs: sources}
		if surface(typ) {
			e.SurfaceOp = &session.SurfaceOp{}
		}
		out = append(out, e)
	}
	if v.step != 0 {
		for _, b := range v.asked {
			if v.answered[b.ID] {
				continue
			}
			failure := tool.NotStarted()
			var sources []int64
			if seq, ok := v.started[b.ID]; ok {
				failure, sources = tool.OutcomeUnknown(), []int64{seq}
			}
			res := errorResult(failure)
			id := fmt.Sprintf("repair-%s-%d", strings.Map(idRune, b.ID), v.next+int64(len(out)))
			add(RecToolResult, ToolResultRecord{Turn: v.turn, Step: v.step, Error: res.Error.Info, Message: resultMessage(id, b.ID, res)}, sources)
		}
		add(RecStepEnd, StepMark{Turn: v.turn, Step: v.step}, nil)
	}
	add(RecTurnEnd, TurnEnd{Turn: v.turn, Reason: EndReason{Kind: EndInterrupted}}, nil)
	return out
}

func idRune(r rune) rune {
	if r > ' ' && r < 127 {
		return r
	}
	return '-'
}
