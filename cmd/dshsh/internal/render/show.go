package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/session"
)

// CountCalls is how many tool calls the model made in these records.
func CountCalls(records []session.Record) (n int) {
	for _, rec := range records {
		if rec.Type == loop.RecToolCall {
			n++
		}
	}
	return n
}

// ShowCall lays out the n-th tool call of a session, from 1 on, with everything that the
// log has of it, in lines of at most cols cells; 0 is no limit. Pure.
func ShowCall(records []session.Record, n, cols int) string {
	var b strings.Builder
	id := ""
	say := func(title, text string) {
		fmt.Fprintln(&b, title)
		text = expandTabs(Visible(strings.TrimRight(text, "\r\n\t ")))
		for line := range strings.SplitSeq(text, "\n") {
			for row := range rows(expandTabs(line), max(cols-2, 0)) {
				b.WriteString("  " + row + "\n")
			}
		}
	}
	for _, rec := range records {
		switch rec.Type {
		case loop.RecToolCall:
			var d loop.ToolCallRecord
			if n--; n != 0 || !read(rec, &d) {
				continue
			}
			id = d.CallID
			say(fmt.Sprintf("%s  (call %s, turn %d, record %d)", oneLine(d.Name), oneLine(id), d.Turn, rec.Seq), arguments(d.Arguments))
		case loop.RecToolRewritten:
			var d struct {
				CallID    string `json:"callId"`
				Arguments any    `json:"arguments"`
			}
			if id != "" && read(rec, &d) && d.CallID == id {
				raw, _ := json.Marshal(d.Arguments)
				if s, ok := d.Arguments.(string); ok {
					raw = []byte(s)
				}
				say("rewritten by a script to", arguments(string(raw)))
			}
		case loop.RecToolResult:
			var d loop.ToolResultRecord
			if id == "" || !read(rec, &d) || len(d.Message.Content) == 0 || d.Message.Content[0].ToolCallID != id {
				continue
			}
			title := "result"
			if d.Message.Content[0].IsError {
				title = "error"
			}
			text := textOf(d.Message.Content[0].Content)
			if text == "" {
				text = model.PlainText(d.Message.Content)
			}
			say(title, text)
			return b.String()
		}
	}
	b.WriteString("it has no result yet\n")
	return b.String()
}

// arguments are those of a call as a person reads them: text as it is, the rest as JSON.
func arguments(raw string) string {
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &args) != nil {
		return raw
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, []byte(raw), "", "  ") != nil {
		return raw
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(args)) {
		var s string
		if json.Unmarshal(args[key], &s) != nil {
			s = string(args[key])
		}
		if strings.Contains(s, "\n") {
			s = "\n" + s
		}
		fmt.Fprintf(&b, "%s: %s\n", key, s)
	}
	return b.String()
}
