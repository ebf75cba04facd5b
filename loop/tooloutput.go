package loop

import (
	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// maxContent bounds the text of a result. The built-in tools stay below it by themselves; it is for
// those of scripts and embedders, of which one that prints a file would fill the window.
const maxContent = 64 << 10

// boundContent cuts the texts of a result that is too long: head and tail stay, the whole
// is saved beside the log.
func boundContent(content []model.Block, x *tool.Exec) []model.Block {
	total, texts := 0, 0
	for _, b := range content {
		if b.Type == model.BlockText {
			total += len(b.Text)
			texts++
		}
	}
	if total <= maxContent {
		return content
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
