package render

import (
	"fmt"
	"path"
	"strings"
	"time"

	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/session"
)

func (r *Renderer) turnStart(_ session.Record, out *lines) {
	r.flushStream(out)
	r.inTurn, r.step = true, stepView{}
	r.section, r.last = sectionNone, ""
}

// turnEnd says how a turn ended unless it simply did, and sets it off from what follows.
func (r *Renderer) turnEnd(rec session.Record, out *lines) {
	var d struct {
		Reason struct {
			Kind   string `json:"kind"`
			Reason struct {
				Kind   string `json:"kind"`
				Reason string `json:"reason"`
			} `json:"reason"`
			Error model.Failure `json:"error"`
		} `json:"reason"`
	}
	ok := read(rec, &d)
	r.flushStream(out)
	if ok {
		switch why := d.Reason.Reason; d.Reason.Kind {
		case "max-tokens":
			r.note(out, (*Renderer).yellow, "[cut by limit: the reply reached the most that the model may write]")
		case "blocked":
			r.note(out, (*Renderer).yellow, "[blocked: the input was refused and did not reach the model]")
		case "interrupted":
			r.note(out, (*Renderer).yellow, "[interrupted: the program ended during this turn]")
		case "error":
			text := failureLine(d.Reason.Error)
			if r.blame != "" {
				text = r.blame
			}
			r.note(out, (*Renderer).red, "error: "+text)
		case "aborted":
			if r.blame != "" { // a script that was told of it
				r.note(out, (*Renderer).red, r.blame)
			}
			text := "[cancelled]"
			switch why.Kind {
			case "hook":
				text = "[cancelled by a script: " + why.Reason + "]"
			case "parent":
				text = "[cancelled by the agent that started this one]"
			case "disposed":
				text = "[cancelled: the session was closed]"
			}
			r.note(out, (*Renderer).yellow, text)
		}
	}
	if r.section != sectionNone {
		out.add("")
	}
	r.inTurn, r.step, r.blame = false, stepView{}, ""
	r.section, r.last = sectionNone, ""
	clear(r.calls)
	clear(r.denied)
}

func failureLine(f model.Failure) string {
	msg := f.Message
	if msg == "" {
		msg = "the turn failed without a message"
	}
	switch {
	case f.Status != 0 && f.Code != "":
		return fmt.Sprintf("%s (%s, HTTP %d)", msg, f.Code, f.Status)
	case f.Code != "" && f.Code != model.CodeUnknown:
		return fmt.Sprintf("%s (%s)", msg, f.Code)
	}
	return msg
}

// promptPlugin is the source of the loop's own context messages: loop.PromptPlugin, which
// is not worth a dependency on the loop.
const promptPlugin = "system-prompt"

// userMessage shows what entered the conversation: the user's own words on replay only,
// what a script said always, context that the program adds never.
func (r *Renderer) userMessage(rec session.Record, out *lines) {
	var m model.Message
	if rec.SurfaceOp != nil && rec.SurfaceOp.Replace || !read(rec, &m) {
		return
	}
	switch m.Source.Kind {
	case model.SourcePlugin:
		text := m.Source.Summary
		if text == "" {
			text = textOf(m.Content)
		}
		if m.Source.Plugin == promptPlugin || len(m.Source.Sections) > 0 || text == "" {
			return
		}
		r.flushStream(out)
		r.begin(sectionNote, out)
		line := "[" + oneLine(path.Base(m.Source.Plugin)) + "] " + oneLine(text)
		out.add(r.dim(Clip(line, r.room(0))))
	case model.SourceUser, "":
		if !r.opts.Replay {
			return
		}
		r.flushStream(out)
		r.begin(sectionNote, out)
		prefix := "> "
		text := m.Words()
		for _, what := range m.Attachments() {
			text += "\n[+ " + what + "]"
		}
		for line := range strings.Lines(Visible(text)) {
			line = expandTabs(strings.TrimSuffix(line, "\n"))
			for row := range rows(line, r.room(2)) {
				out.add(r.bold(prefix + row))
				prefix = "  "
			}
		}
	}
}

// inbox tells what waits while a turn runs; a message that is claimed at once says
// nothing.
func (r *Renderer) inbox(rec session.Record, out *lines) {
	var d struct {
		Target       string          `json:"target"`
		RemovedCount int             `json:"removedCount"`
		Inserted     []model.Message `json:"inserted"`
		Outcome      string          `json:"outcome"`
	}
	if !read(rec, &d) {
		return
	}
	count := &r.queued
	if d.Target == "next-step" {
		count = &r.steered
	}
	*count = max(*count+len(d.Inserted)-d.RemovedCount, 0)
	switch {
	case d.Outcome == "canceled" && d.RemovedCount > 0 && len(d.Inserted) == 0:
		r.note(out, (*Renderer).yellow, fmt.Sprintf("[%s taken back from the queue]", plural(d.RemovedCount, "message")))
	case !r.inTurn || r.opts.Replay:
	case d.RemovedCount > 0 && len(d.Inserted) > 0:
		r.note(out, (*Renderer).dim, fmt.Sprintf("[queue changed: %d waiting]", *count))
	case len(d.Inserted) > 0 && d.Target == "next-step":
		r.note(out, (*Renderer).dim, "[noted for the next step]")
	case len(d.Inserted) > 0:
		r.note(out, (*Renderer).dim, fmt.Sprintf("[queued: %d waiting]", *count))
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (r *Renderer) hookError(rec session.Record, out *lines) {
	var d struct {
		Event, Script, Message string
		Line                   int
	}
	if !read(rec, &d) {
		return
	}
	place := path.Base(d.Script)
	if d.Script == "" {
		place = "script"
	}
	if d.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, d.Line)
	}
	if d.Event != "" {
		place += ": " + d.Event
	}
	r.note(out, (*Renderer).red, place+": "+d.Message)
}

func (r *Renderer) quarantined(rec session.Record, out *lines) {
	var d struct{ Script, Reason string }
	if !read(rec, &d) {
		return
	}
	r.note(out, (*Renderer).red, fmt.Sprintf(
		"%s is quarantined: mend and save it, or `/scripts on %[1]s`, or `/scripts off %[1]s` (%s)", d.Script, d.Reason))
}

func (r *Renderer) retry(rec session.Record, out *lines) {
	var d struct {
		Retry      int           `json:"retry"`
		MaxRetries int           `json:"maxRetries"`
		DelayMs    int64         `json:"delayMs"`
		Failure    model.Failure `json:"failure"`
	}
	if !read(rec, &d) {
		return
	}
	count := fmt.Sprint(d.Retry)
	if d.MaxRetries > 0 {
		count += fmt.Sprintf(" of %d", d.MaxRetries)
	}
	wait := (time.Duration(d.DelayMs) * time.Millisecond).Round(100 * time.Millisecond)
	r.note(out, (*Renderer).yellow, fmt.Sprintf("[retry %s in %s: %s]", count, wait, failureLine(d.Failure)))
	r.step = stepView{}
}

func (r *Renderer) fallback(rec session.Record, out *lines) {
	var d loop.Fallback
	if !read(rec, &d) || d.Failure == nil {
		return
	}
	r.note(out, (*Renderer).yellow, fmt.Sprintf("[%s/%s goes on for %s/%s: %s]", d.To.Provider, d.To.Model, d.From.Provider, d.From.Model, failureLine(*d.Failure)))
	r.step = stepView{}
}

func (r *Renderer) compactionStart(_ session.Record, out *lines) {
	r.compacted = ""
	r.note(out, (*Renderer).dim, "[shortening the context ...]")
}

func (r *Renderer) compactionSummary(rec session.Record, _ *lines) {
	var d loop.CompactionSummary
	if read(rec, &d) {
		r.compacted = fmt.Sprintf(": a summary stands for %d messages, about %d tokens", len(d.ShadowedSeqs), d.ShadowedTokenCount)
	}
}

func (r *Renderer) compactionEnd(rec session.Record, out *lines) {
	var d struct {
		Error *model.Failure `json:"error"`
	}
	if read(rec, &d) && d.Error != nil {
		r.note(out, (*Renderer).red, "the context could not be shortened: "+failureLine(*d.Error))
		return
	}
	r.note(out, (*Renderer).dim, "[the context was shortened"+r.compacted+"]")
}

func (r *Renderer) lost(rec session.Record, out *lines) {
	var d struct{ Reason string }
	if !read(rec, &d) {
		return
	}
	r.note(out, (*Renderer).yellow, "[a record of the log is lost: "+d.Reason+"]")
}
