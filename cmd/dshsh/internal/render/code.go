package render

import (
	"encoding/json"
	"strings"

	"dshsh/loop/model"
	"dshsh/session"
)

// subCall is a call that a program made, in both of its records.
type subCall struct {
	SubCallID string          `json:"subCallId"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	IsError   bool            `json:"isError"`
	Content   []model.Block   `json:"content"`
}

func (c subCall) summary() string {
	return strings.TrimSpace(oneLine(c.Name) + " " + argumentLine(string(c.Arguments)))
}

// codeStart shows a call of a program as a line under the program's own.
func (r *Renderer) codeStart(rec session.Record, out *lines) {
	var d subCall
	if !read(rec, &d) {
		return
	}
	r.flushStream(out)
	r.begin(sectionTool, out)
	r.last = d.SubCallID
	out.add("  " + r.cyan(">") + " " + Clip(d.summary(), r.room(4)))
}

// codeDispatch shows a call of a program that failed; the results of the others are the
// program's to show.
func (r *Renderer) codeDispatch(rec session.Record, out *lines) {
	var d subCall
	if !read(rec, &d) {
		return
	}
	by := r.denied[d.SubCallID]
	delete(r.denied, d.SubCallID)
	if !d.IsError {
		return
	}
	r.flushStream(out)
	r.begin(sectionTool, out)
	text, _, _ := strings.Cut(textOf(d.Content), "\n")
	if by != "" {
		text += " (" + by + ")"
	}
	if r.last != d.SubCallID {
		text = d.summary() + ": " + text
	}
	prefix := "    ! "
	for row := range rows(oneLine(text), r.room(6)) {
		out.add(prefix + r.red(row))
		prefix = "      "
	}
	r.last = ""
}
