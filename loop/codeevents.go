package loop

import "dshsh/runtime"

// CodeLogPayload is the payload of tools/code-dispatch-log.
type CodeLogPayload struct {
	ToolCall
	IsError bool    `json:"isError"`
	Content Content `json:"content"`
}

// LoggedCopy is the result of tools/code-dispatch-log: the content that the log keeps.
type LoggedCopy struct {
	Content Content `json:"content"`
}

// CodeLog is the event of a nested call that settles.
var CodeLog = runtime.NewWaterfall[CodeLogPayload, LoggedCopy]("tools/code-dispatch-log",
	"A call that a program of run_code made has its result: {content} replaces the copy that the log keeps, and nothing else. A throw keeps the original.",
	runtime.Sample{
		JS:  "ctx.on('tools/code-dispatch-log', ({ name }) => { if (name === 'read') return { content: '[not logged]' }; });",
		Lua: "ctx.on('tools/code-dispatch-log', function(e) if e.name == 'read' then return { content = '[not logged]' } end end)",
	}, runtime.Rules[CodeLogPayload, LoggedCopy]{Outcome: func(LoggedCopy) string { return "replaced" }})
