package loop

import (
	"context"
	"errors"

	"dshsh/loop/tool"
	"dshsh/runtime"
)

// FileChangePayload is the payload of fs/write-intent and fs/edit-intent: a file is about
// to change, nothing is written yet.
type FileChangePayload struct {
	Path string   `json:"path"`           // absolute, links followed
	Hash string   `json:"hash,omitempty"` // SHA-256 of what is there now, in hex; none when there is no file
	Diff string   `json:"diff"`           // unified; may be cut at its end
	Call ToolCall `json:"call"`
}

// ToolName implements runtime.ToolPayload.
func (p FileChangePayload) ToolName() string { return p.Call.Name }

// ToolArgument implements runtime.ToolPayload.
func (p FileChangePayload) ToolArgument(name string) (string, bool) { return p.Call.ToolArgument(name) }

func (p FileChangePayload) decisionInput() []byte { return p.Call.Arguments }

// FileDecision is the result of fs/write-intent and fs/edit-intent.
type FileDecision struct {
	Kind   string `json:"kind" enum:"allow|deny"`
	Reason string `json:"reason,omitempty"`
}

// FileSeenPayload is the payload of fs/observed: a tool has seen or made the whole content
// of a file.
type FileSeenPayload struct {
	Path string   `json:"path"` // absolute, links followed
	Hash string   `json:"hash"` // SHA-256 of the content, in hex
	Call ToolCall `json:"call"`
}

// ToolName implements runtime.ToolPayload.
func (p FileSeenPayload) ToolName() string { return p.Call.Name }

// ToolArgument implements runtime.ToolPayload.
func (p FileSeenPayload) ToolArgument(name string) (string, bool) { return p.Call.ToolArgument(name) }

var fileRules = runtime.Rules[FileChangePayload, FileDecision]{
	Outcome: func(d FileDecision) string { return d.Kind },
	Merge:   mergeFileDecisions,
	Quarantine: func(script string) (FileDecision, error) {
		return FileDecision{Kind: Deny, Reason: quarantined(script)}, nil
	},
}

// mergeFileDecisions: a denial of any layer stands. An allow is no objection, and the inner
// layers are asked all the same.
func mergeFileDecisions(m runtime.Merging[FileChangePayload, FileDecision]) (FileDecision, error) {
	if m.Err != nil || m.Answered && m.Own.Kind == Deny {
		return m.Own, m.Err
	}
	return m.Inner()
}

var (
	WriteIntent = runtime.NewWaterfall[FileChangePayload, FileDecision]("fs/write-intent",
		"The tool write is about to make or replace a file: allow or deny. A denial of any layer stands; a throw denies.",
		runtime.Sample{
			JS:  "ctx.on('fs/write-intent', ({ path }) => { if (path.endsWith('.lock')) return { kind: 'deny', reason: 'lock files are made by programs' }; });",
			Lua: "ctx.on('fs/write-intent', function(e) if e.path:match('%.lock$') then return { kind = 'deny', reason = 'lock files are made by programs' } end end)",
		}, fileRules)
	EditIntent = runtime.NewWaterfall[FileChangePayload, FileDecision]("fs/edit-intent",
		"The tool edit is about to change a part of a file: allow or deny. A denial of any layer stands; a throw denies.",
		runtime.Sample{
			JS:  "ctx.on('fs/edit-intent', ({ diff }) => { if (/^\\+.*TODO/m.test(diff)) return { kind: 'deny', reason: 'no new TODOs' }; });",
			Lua: "ctx.on('fs/edit-intent', function(e) if e.diff:find('\\n%+[^\\n]*TODO') then return { kind = 'deny', reason = 'no new TODOs' } end end)",
		}, fileRules)
	FileObserved = runtime.NewEmit[FileSeenPayload]("fs/observed",
		"A tool has seen or made the whole content of a file.", emitSample("fs/observed", "e.path"))
)

// watchFiles has a call's body put what it does to files to scripts. The body runs off the
// thread; each of these comes back to it.
func (a *agent) watchFiles(act *activity, call ToolCall, x *tool.Exec) {
	x.FileIntent = func(ctx context.Context, c tool.FileChange) error {
		event := WriteIntent
		if c.Kind == tool.ChangeEdit {
			event = EditIntent
		}
		var d FileDecision
		var err error
		if derr := a.h.Do(ctx, func() {
			d, err = event.Run(a.h.Host, a.callAwaiting(act, call), FileChangePayload{Path: c.Path, Hash: c.Hash, Diff: c.Diff, Call: call},
				func(FileChangePayload) (FileDecision, error) { return FileDecision{Kind: Allow}, nil })
		}); derr != nil {
			err = derr
		}
		switch {
		case ctx.Err() != nil:
			return tool.Aborted()
		case err != nil:
			return errors.New(deniedBy(err))
		case d.Kind == Deny:
			return errors.New(orDefault(d.Reason, "denied"))
		}
		return nil
	}
	x.FileObserved = func(s tool.FileSeen) {
		// The change is made: it is told of also when the turn is over by now. Where the
		// thread is closed nobody is left to be told.
		_ = a.h.Do(context.Background(), func() {
			FileObserved.Fire(a.h.Host, a.callTarget(call), FileSeenPayload{Path: s.Path, Hash: s.Hash, Call: call})
		})
	}
}
