package loop

import (
	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// maxContent bounds the text of a result. The built-in tools stay below it by themselves; it is for
// those of scripts and embedders, of which one that prints a file would fill the window.
const maxContent = 64 << 10

// exceeds says whether a result has more text than that.
func exceeds(content []model.Block) bool {
	total := 0
	for _, b := range content {
		if b.Type == model.BlockText {
			total += len(b.Text)
		}
	}
	return total > maxContent
}

// boundContent cuts the texts of a result that exceeds it: head and tail stay, the whole
// is saved beside the log. Off the thread.
func boundContent(content []model.Block, x *tool.Exec) []model.Block {
	texts := 0
	for _, b := range content {
		if b.Type == model.BlockText {
			texts++
		}
	}
	out := append([]model.Block(nil), content...)
	limit := maxContent / texts
	for i, b := range out {
		if b.Type == model.BlockText && len(b.Text) > limit {
			o := x.Output(tool.Limits{Bytes: limit, LineBytes: limit / 4})
			_, _ = o.Write([]byte(b.Text)) // never fails
			out[i].Text = o.Finish().Text
		}
	}
	return out
}
