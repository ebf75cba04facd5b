package loop

import (
	"errors"
	"fmt"
	"slices"

	"dshsh/loop/model"
	"dshsh/session"
)

// Reconstruct builds, from the log alone, every request that was sent: for each attempt
// the prefix of the log before its first chunk, as messages and header. What it gives
// equals what the providers got, but for SessionID. An attempt that never got as far as a
// chunk leaves no trace, and is not in the list; nor are requests for a summary.
func Reconstruct(records []session.Record) ([]*model.Request, error) {
	var (
		hist history
		head headerState
		out  []*model.Request
		open bool // within the chunks of an attempt
	)
	for _, rec := range records {
		if rec.Type == RecChunk {
			if !open {
				if head.last == nil {
					return nil, fmt.Errorf("record %d: a reply without a request/header before it", rec.Seq)
				}
				h := head.last
				out = append(out, &model.Request{Config: h.Config, System: h.System, Tools: h.Tools, Messages: hist.derive()})
			}
			var c ChunkRecord
			open = !(decodeData(rec, &c) && c.Chunk.Type == model.ChunkFinish)
			continue
		}
		if rec.Type == RecStepEnd {
			open = false
		}
		head.fold(rec)
		if rec.SurfaceOp != nil {
			hist.fold(rec)
		}
	}
	return out, nil
}

// Verify checks that a log holds what the model saw and said: its records follow each
// other, every request can be rebuilt, every reply is what its chunks amount to, unless a
// listener replaced it, and what stands for messages says for which. It returns what does not hold, by record.
func Verify(records []session.Record) (problems []error) {
	bad := func(rec session.Record, format string, args ...any) {
		problems = append(problems, fmt.Errorf("record %d (%s): %w", rec.Seq, rec.Type, fmt.Errorf(format, args...)))
	}
	v := NewValidator()
	replaced := map[[2]int]bool{} // turn, step: agent/step-result changed the message
	for _, rec := range records {
		var d HookDecision
		if rec.Type == RecHookDecision && decodeData(rec, &d) && d.Event == StepResultEvent.Name {
			replaced[[2]int{d.Turn, d.Step}] = true
		}
	}
	var hist history
	for i, rec := range records {
		if err := v.Check(rec); err != nil {
			bad(rec, "%w", err)
			continue
		}
		v.Commit(rec)
		if rec.SurfaceOp != nil {
			if rec.SurfaceOp.Replace {
				if err := hist.checkReplacement(records[:i], rec); err != nil {
					bad(rec, "%w", err)
				}
			}
			hist.fold(rec)
		}
		var m AssistantMessage
		if rec.Type != RecAssistant || !decodeData(rec, &m) || replaced[[2]int{m.Turn, m.Step}] {
			continue
		}
		asm := model.NewAssembler()
		for _, seq := range rec.SourceEventSeqs {
			var c ChunkRecord
			if seq >= rec.Seq || records[seq].Type != RecChunk || !decodeData(records[seq], &c) {
				bad(rec, "its source %d is no chunk before it", seq)
				continue
			}
			asm.Add(c.Chunk)
		}
		want := asm.Blocks()
		if m.Interrupted {
			want = asm.Interrupted()
		}
		if !sameBlocks(want, m.Message.Content) {
			bad(rec, "the message is not what its %d chunks amount to", len(rec.SourceEventSeqs))
		}
	}
	if _, err := Reconstruct(records); err != nil {
		problems = append(problems, err)
	}
	return problems
}

// checkReplacement says whether a record that replaces a part of the surface is announced
// by the one before it, and takes no call without its result.
func (h *history) checkReplacement(before []session.Record, rec session.Record) error {
	var said CompactionPrune // what both records have
	n := len(before)
	if n == 0 || before[n-1].Type != RecCompactionSummary && before[n-1].Type != RecCompactionPrune || !decodeData(before[n-1], &said) {
		return errors.New("it replaces a part of the surface without compaction/summary or compaction/prune right before it")
	}
	op := rec.SurfaceOp
	if said.ShadowedRange != (SeqRange{op.Start, op.End}) {
		return fmt.Errorf("it replaces %d to %d, but record %d says %d to %d", op.Start, op.End, before[n-1].Seq, said.ShadowedRange.Start, said.ShadowedRange.End)
	}
	var seqs []int64
	calls := map[string]bool{} // of the messages that stay
	for _, node := range h.nodes {
		if node.seq >= op.Start && node.seq <= op.End {
			seqs = append(seqs, node.seq)
			continue
		}
		for _, b := range node.msg.ToolCalls() {
			calls[b.ID] = true
		}
		if id := node.msg.Source.CallID; node.msg.Source.Kind == model.SourceTool && !calls[id] {
			return fmt.Errorf("it takes the call %q away and leaves its result", id)
		}
	}
	if !slices.Equal(seqs, said.ShadowedSeqs) {
		return fmt.Errorf("it replaces the records %v, but record %d says %v", seqs, before[n-1].Seq, said.ShadowedSeqs)
	}
	return nil
}

func sameBlocks(a, b []model.Block) bool {
	x, err1 := marshal(append([]model.Block{}, a...))
	y, err2 := marshal(append([]model.Block{}, b...))
	return err1 == nil && err2 == nil && string(x) == string(y)
}
