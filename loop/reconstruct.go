package loop

import (
	"fmt"

	"dshsh/loop/model"
	"dshsh/session"
)

// Reconstruct builds, from the log alone, every request that was sent: for each attempt
// the prefix of the log before its first chunk, as messages and header. What it gives
// equals what the providers got, but for SessionID. An attempt that never got as far as a
// chunk leaves no trace, and is not in the list.
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
