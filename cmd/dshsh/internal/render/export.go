package render

import (
	"fmt"
	"strings"
	"time"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/session"
)

// Markdown writes a session as a document: what was said, what tools were called with and
// what they gave. Pure.
func Markdown(h session.Header, records []session.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Session %s\n\n", h.ID)
	if h.Cwd != "" {
		fmt.Fprintf(&b, "Folder: `%s`  \n", h.Cwd)
	}
	fmt.Fprintf(&b, "Begun: %s\n", time.UnixMilli(h.CreatedAt).UTC().Format("2006-01-02 15:04 UTC"))
	for _, rec := range records {
		switch rec.Type {
		case loop.RecUserMessage:
			var m model.Message
			if read(rec, &m) {
				exportUser(&b, m)
			}
		case loop.RecAssistant:
			var d loop.AssistantMessage
			if read(rec, &d) {
				exportAssistant(&b, d)
			}
		case loop.RecToolResult:
			var d loop.ToolResultRecord
			if read(rec, &d) {
				what := "Result"
				if d.Message.Content[0].IsError {
					what = "Error"
				}
				fmt.Fprintf(&b, "\n%s:\n\n%s", what, fenced("", model.PlainText(d.Message.Content)))
			}
		case loop.RecTurnEnd:
			var d loop.TurnEnd
			if read(rec, &d) && d.Reason.Kind != loop.EndCompleted {
				fmt.Fprintf(&b, "\n*The turn ended: %s%s*\n", d.Reason.Kind, endDetail(d.Reason))
			}
		}
	}
	return b.String()
}

func endDetail(r loop.EndReason) string {
	switch {
	case r.Error != nil:
		return ", " + r.Error.Message
	case r.Reason != nil:
		return " by " + r.Reason.Kind
	}
	return ""
}

func exportUser(b *strings.Builder, m model.Message) {
	who := "You"
	if m.Source.Kind == model.SourcePlugin {
		who = "Context from " + m.Source.Plugin
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n", who, model.PlainText(m.Content))
}

func exportAssistant(b *strings.Builder, d loop.AssistantMessage) {
	fmt.Fprintf(b, "\n## %s\n", d.Message.Source.Model)
	for _, block := range d.Message.Content {
		switch block.Type {
		case model.BlockText:
			fmt.Fprintf(b, "\n%s\n", block.Text)
		case model.BlockReasoning:
			if block.Text == "" {
				continue // thinking that the service keeps to itself
			}
			fmt.Fprintf(b, "\n<details><summary>Reasoning</summary>\n\n%s\n\n</details>\n", block.Text)
		case model.BlockToolCall:
			fmt.Fprintf(b, "\nCalls `%s`:\n\n%s", block.Name, fenced("json", block.Arguments))
		}
	}
	if d.Interrupted {
		b.WriteString("\n*The reply was cut off here.*\n")
	}
}

// fenced puts text into a code block whose fence the text does not hold.
func fenced(lang, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + lang + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}
