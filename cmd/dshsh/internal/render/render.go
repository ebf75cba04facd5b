package render

import (
	"encoding/json"
	"strings"

	"github.com/yuin/goldmark/parser"

	"dshsh/loop/model"
	"dshsh/session"
)

// DefaultResultLines is how many lines of a tool's result are shown when
// Options.ResultLines is 0.
const DefaultResultLines = 6

// Options says how a Renderer writes. It is a value.
type Options struct {
	// Width of the terminal in cells. Prose is wrapped and other lines are cut to it. 0
	// means that there is no terminal: nothing is wrapped or cut.
	Width int
	// Color allows colour sequences; see ColorFromEnv.
	Color bool
	// Agent, if not "", labels each line: for agents other than the one at the prompt.
	Agent string
	// Replay also shows what the user said. Live it is on the screen already, where it
	// was typed.
	Replay bool
	// ResultLines bounds how many lines of a tool's result are shown; 0 means
	// DefaultResultLines, negative none.
	ResultLines int
	// Show names /show, which opens a call, where something of one is left out.
	Show bool
}

// ColorFromEnv reports whether colours suit an output: it is a terminal, NO_COLOR is
// unset or empty, and TERM is not dumb. getenv is os.Getenv or a stand-in.
func ColorFromEnv(tty bool, getenv func(string) string) bool {
	return tty && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Renderer turns the records of one agent into lines. It keeps what a person has seen of
// the turn so far, so records are given to it in the order of the log, each once. One
// goroutine at a time uses it; live that is the holder of the host thread.
type Renderer struct {
	compacted string // what the open compaction has replaced
	opts      Options

	inTurn  bool
	section section // what the last printed line belongs to
	step    stepView
	calls   map[string]callView // tool calls whose result has not been shown, by callId
	denied  map[string]string   // who has denied a call, by its id
	called  int                 // tool calls so far
	last    string              // callId of the call line printed last, "" after anything else
	queued  int                 // length of the next-turn inbox
	steered int                 // length of the next-step inbox
	blame   string              // see Blame
	parser  parser.Parser       // of Markdown, nil until some is shown
}

// section is the kind of a run of lines. Runs of prose are set off by an empty line.
type section int

const (
	sectionNone section = iota
	sectionText
	sectionReasoning
	sectionTool
	sectionNote
)

// New returns a Renderer that has seen nothing. Any goroutine may call it.
func New(o Options) *Renderer {
	if o.ResultLines == 0 {
		o.ResultLines = DefaultResultLines
	}
	return &Renderer{opts: o, calls: map[string]callView{}, denied: map[string]string{}}
}

// SetWidth changes Options.Width, for lines to come.
func (r *Renderer) SetWidth(cells int) { r.opts.Width = cells }

// SetAgent changes Options.Agent: another agent is at the prompt now.
func (r *Renderer) SetAgent(label string) { r.opts.Agent = label }

// SetReplay changes Options.Replay: off when the last record of the log has been shown
// and what follows is live.
func (r *Renderer) SetReplay(on bool) { r.opts.Replay = on }

// SkipCalls says how many calls of the session come before the records to come, for their
// numbers.
func (r *Renderer) SkipCalls(n int) { r.called = n }

// Blame says what the turn's error is in full, with the script and the line that it comes
// from: its record has the bare message. It is told when the turn ends.
func (r *Renderer) Blame(line string) { r.blame = line }

// Record returns what rec adds to the screen: whole lines, each ended by a newline, ready
// for Editor.Print or standard output, or "" for a record that a person need not see. A
// record that it does not know, or whose data it cannot read, gives "". Streamed text is
// held back until its line is whole or as wide as the terminal.
func (r *Renderer) Record(rec session.Record) string {
	var out lines
	if f := handlers[rec.Type]; f != nil {
		f(r, rec, &out)
	}
	return r.finish(&out)
}

// Flush returns the unfinished line of streamed text, as whole lines, or "". It is for
// the moment before something else is put on the screen for good, such as the end of
// the program; the ends of blocks, messages and turns need no Flush.
func (r *Renderer) Flush() string {
	var out lines
	r.flushStream(&out)
	return r.finish(&out)
}

// finish labels the lines.
func (r *Renderer) finish(out *lines) string {
	s := out.b.String()
	if r.opts.Agent == "" || s == "" {
		return s
	}
	label := r.dim(r.label())
	empty := r.dim(strings.TrimSpace(r.label()))
	var b strings.Builder
	for line := range strings.Lines(s) {
		if line == "\n" {
			b.WriteString(empty)
		} else {
			b.WriteString(label)
		}
		b.WriteString(line)
	}
	return b.String()
}

// label is what stands before each line of an agent that has one.
func (r *Renderer) label() string {
	if r.opts.Agent == "" {
		return ""
	}
	return "[" + oneLine(r.opts.Agent) + "] "
}

// room returns how many cells a line may take beside a prefix of n cells, 0 for no
// limit. It is at least 8, so that a very narrow terminal wraps lines rather than losing
// them.
func (r *Renderer) room(n int) int {
	if r.opts.Width <= 0 {
		return 0
	}
	return max(r.opts.Width-Width(r.label())-n, 8)
}

// handlers says what is done with each record type; the rest a person need not see.
var handlers = map[string]func(*Renderer, session.Record, *lines){
	"agent/inbox/spliced": (*Renderer).inbox,
	"turn/start":          (*Renderer).turnStart,
	"turn/end":            (*Renderer).turnEnd,
	"user/message":        (*Renderer).userMessage,
	"assistant/chunk":     (*Renderer).chunk,
	"assistant/message":   (*Renderer).assistantMessage,
	"tool/call":           (*Renderer).toolCall,
	"tool/result":         (*Renderer).toolResult,
	"tool/rewritten":      (*Renderer).toolRewritten,

	"tool/code-dispatch-start": (*Renderer).codeStart,
	"tool/code-dispatch":       (*Renderer).codeDispatch,

	"todo/write":         (*Renderer).todo,
	"hook/decision":      (*Renderer).hookDecision,
	"hook/error":         (*Renderer).hookError,
	"script/quarantined": (*Renderer).quarantined,
	"llm/retry":          (*Renderer).retry,
	"llm/fallback":       (*Renderer).fallback,
	"compaction/start":   (*Renderer).compactionStart,
	"compaction/summary": (*Renderer).compactionSummary,
	"compaction/end":     (*Renderer).compactionEnd,
	"session/lost":       (*Renderer).lost,
}

// lines collects whole lines. One call of the Renderer uses it.
type lines struct{ b strings.Builder }

func (l *lines) add(line string) {
	l.b.WriteString(line)
	l.b.WriteByte('\n')
}

// begin starts or continues a run of lines: prose is set off from what was before it, and
// everything from prose.
func (r *Renderer) begin(s section, out *lines) {
	prose := s == sectionText || s == sectionReasoning ||
		r.section == sectionText || r.section == sectionReasoning
	if r.section != sectionNone && r.section != s && prose {
		out.add("")
	}
	r.section = s
	if s != sectionTool {
		r.last = ""
	}
}

// note adds one line that is about the work rather than part of it. It is never cut: in a
// narrow terminal it is wrapped.
func (r *Renderer) note(out *lines, style func(*Renderer, string) string, text string) {
	r.flushStream(out)
	r.begin(sectionNote, out)
	for row := range rows(oneLine(text), r.room(0)) {
		out.add(style(r, row))
	}
}

// oneLine returns text made visible, with its line ends shown as spaces.
func oneLine(text string) string {
	s := Visible(strings.TrimSpace(text))
	if strings.IndexByte(s, '\n') >= 0 {
		s = strings.Join(strings.Fields(s), " ")
	}
	return expandTabs(s)
}

// Beginning returns the first characters of text in a line, at most so many, as they are:
// they have not been made visible. Any goroutine may call it.
func Beginning(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return text
}

// read decodes a record's data, reporting whether it could. What cannot be read is not
// shown: the log has it, and `session check` says what is wrong.
func read(rec session.Record, to any) bool { return json.Unmarshal(rec.Data, to) == nil }

func (r *Renderer) paint(sgr, s string) string {
	if !r.opts.Color || s == "" {
		return s
	}
	return "\x1b[" + sgr + "m" + s + "\x1b[0m"
}

func (r *Renderer) dim(s string) string    { return r.paint("2", s) }
func (r *Renderer) bold(s string) string   { return r.paint("1", s) }
func (r *Renderer) red(s string) string    { return r.paint("31", s) }
func (r *Renderer) yellow(s string) string { return r.paint("33", s) }
func (r *Renderer) cyan(s string) string   { return r.paint("36", s) }

// textOf joins the text of blocks; an image is named.
func textOf(blocks []model.Block) string {
	var parts []string
	for _, b := range blocks {
		switch b.Type {
		case model.BlockText:
			parts = append(parts, b.Text)
		case model.BlockImage:
			parts = append(parts, "[image]")
		}
	}
	return strings.Join(parts, "\n")
}
