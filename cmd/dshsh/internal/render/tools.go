package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"dshsh/loop/model"
	"dshsh/session"
)

// callView is a tool call that was shown. It is a value.
type callView struct {
	summary string
	number  int // among the session's calls, from 1 on
}

// toolCall shows a call as one line.
func (r *Renderer) toolCall(rec session.Record, out *lines) {
	var d struct {
		CallID    string `json:"callId"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	if !read(rec, &d) {
		return
	}
	r.flushStream(out)
	r.begin(sectionTool, out)
	name, rest := oneLine(d.Name), argumentLine(d.Arguments)
	line := strings.TrimSpace(name + " " + rest)
	r.called++
	r.calls[d.CallID] = callView{summary: line, number: r.called}
	r.last = d.CallID
	line = Clip(line, r.room(2))
	if after, ok := strings.CutPrefix(line, name); ok {
		line = r.bold(name) + after
	}
	out.add(r.cyan("*") + " " + line)
}

// hookDecision notes which scripts have denied a call: the model is told the reason alone.
func (r *Renderer) hookDecision(rec session.Record, _ *lines) {
	var d struct {
		Event   string `json:"event"`
		CallID  string `json:"callId"`
		Decided string `json:"decided"`
		Layers  []struct {
			Script  string `json:"script"`
			Line    int    `json:"line"`
			Outcome string `json:"outcome"`
		} `json:"layers"`
	}
	if !read(rec, &d) || d.Decided != "deny" || d.Event != "tools/pre-execute" && d.Event != "approval/request" {
		return
	}
	var by []string
	for _, l := range d.Layers {
		if l.Outcome == "deny" && l.Script != "" {
			by = append(by, fmt.Sprintf("%s:%d", path.Base(l.Script), l.Line))
		}
	}
	r.denied[d.CallID] = strings.Join(by, ", ")
}

// argumentLine shows a call's arguments in one line: the value that says most if there
// is a known one, else the JSON as the model wrote it.
func argumentLine(raw string) string {
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &args) == nil {
		for _, key := range []string{"command", "pattern", "path", "query", "url", "code", "prompt"} {
			var s string
			if json.Unmarshal(args[key], &s) == nil && s != "" {
				if dir := ""; key == "pattern" && json.Unmarshal(args["path"], &dir) == nil && dir != "" {
					s += " in " + dir
				}
				return oneLine(s)
			}
		}
		if len(args) == 0 {
			return ""
		}
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(raw)) == nil {
		raw = compact.String()
	}
	return oneLine(raw)
}

// toolResult shows the first lines of a result under its call.
func (r *Renderer) toolResult(rec session.Record, out *lines) {
	var d struct {
		Message model.Message `json:"message"`
		CallID  string        `json:"callId"`
	}
	if !read(rec, &d) {
		return
	}
	r.flushStream(out)
	r.begin(sectionTool, out)
	for _, b := range d.Message.Content {
		if b.Type != model.BlockToolResult {
			continue
		}
		id := b.ToolCallID
		if id == "" {
			id = d.CallID
		}
		// Calls that run side by side are all shown before the first result: say whose.
		shown := r.opts.ResultLines > 0 || b.IsError
		call, ok := r.calls[id]
		if ok && r.last != id && shown {
			out.add("  " + r.dim(Clip("("+call.summary+")", r.room(2))))
		}
		text := textOf(b.Content)
		if by := r.denied[id]; by != "" && b.IsError {
			first, rest, more := strings.Cut(text, "\n")
			if text = first + " (" + by + ")"; more {
				text += "\n" + rest
			}
		}
		delete(r.calls, id)
		delete(r.denied, id)
		r.last = ""
		if shown {
			r.resultLines(text, b.IsError, call.number, out)
		}
	}
}

func (r *Renderer) resultLines(text string, isError bool, number int, out *lines) {
	limit := max(r.opts.ResultLines, 1)
	style, prefix := (*Renderer).dim, "  "
	if isError {
		style, prefix = (*Renderer).red, "  ! "
	}
	text = strings.TrimRight(text, "\r\n\t ")
	if text == "" {
		word := "(no output)"
		if isError {
			word = "(failed, without a message)"
		}
		out.add(prefix + style(r, Clip(word, r.room(len(prefix)))))
		return
	}
	total := strings.Count(text, "\n") + 1
	for shown := 0; text != ""; shown++ {
		// One line more than the limit is shown rather than the words that hide it.
		if shown == limit && total > limit+1 {
			more := fmt.Sprintf("... %d more lines", total-shown)
			if r.opts.Show && number > 0 {
				more += fmt.Sprintf(" (/show %d)", number)
			}
			out.add("  " + r.dim(Clip(more, r.room(2))))
			return
		}
		var line string
		line, text, _ = strings.Cut(text, "\n")
		// What is cut off need not be made visible: a line may be megabytes long.
		if n := r.room(len(prefix)) * 8; n > 0 && len(line) > n {
			line = strings.ToValidUTF8(line[:n], "") + " ..."
		}
		line = expandTabs(Visible(strings.TrimSuffix(line, "\r")))
		if !isError {
			out.add(prefix + style(r, Clip(line, r.room(len(prefix)))))
			continue
		}
		for row := range rows(line, r.room(len(prefix))) { // why something failed is read to its end
			out.add(prefix + style(r, row))
			prefix = "    "
		}
	}
}

// toolRewritten says that what ran is not what the model asked for.
func (r *Renderer) toolRewritten(rec session.Record, out *lines) {
	var d struct {
		CallID    string          `json:"callId"`
		Arguments json.RawMessage `json:"arguments"`
		By        json.RawMessage `json:"by"` // a name, or a list of them
	}
	if !read(rec, &d) {
		return
	}
	var by []string
	var one string
	if json.Unmarshal(d.By, &one) == nil {
		by = []string{one}
	} else if json.Unmarshal(d.By, &by) != nil {
		by = []string{"a script"}
	}
	args := string(d.Arguments)
	if json.Unmarshal(d.Arguments, &one) == nil {
		args = one
	}
	r.flushStream(out)
	keep := r.last
	r.begin(sectionTool, out)
	r.last = keep
	line := "rewritten by " + oneLine(strings.Join(by, ", ")) + ": " + argumentLine(args)
	out.add("  " + r.yellow(Clip(line, r.room(2))))
}

// todo shows the list as it now is.
func (r *Renderer) todo(rec session.Record, out *lines) {
	var d struct {
		Todos []struct {
			Content string `json:"content"`
			Status  string `json:"status"`
		} `json:"todos"`
	}
	if !read(rec, &d) {
		return
	}
	r.flushStream(out)
	r.begin(sectionTool, out)
	for _, t := range d.Todos {
		mark := "[ ]"
		switch t.Status {
		case "completed":
			mark = "[x]"
		case "in_progress":
			mark = "[>]"
		}
		out.add("  " + Clip(mark+" "+oneLine(t.Content), r.room(2)))
	}
}
