package shell

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"dshsh/loop/model"
	"dshsh/loop/tool"
)

// Name is what the model calls the tool by.
const Name = "bash"

// Config says how commands run. A zero field is its default.
type Config struct {
	Dir     string   // absolute; where commands start. Required
	Environ []string // KEY=VALUE: what commands inherit, before scrubbing
	Scrub   []string // names of further variables to take away; * and ? as in file names

	Shell      string        // the shell to run; default bash, else sh, from the PATH of Environ
	Timeout    time.Duration // for calls that ask for none; default 2 minutes
	MaxTimeout time.Duration // the most a call may ask for; default 1 hour
	Grace      time.Duration // between TERM and KILL; default 500 ms
	Limits     tool.Limits   // of the output

	// Lingering is called when commands have left processes that run on, and what it gives
	// when the last of these has gone, or at Close. From a goroutine of its own; nil = nobody
	// wants to know.
	Lingering func() (gone func())
}

// Bash is the tool. Make it with [New]. Its methods may be called from any goroutine.
type Bash struct {
	cfg    Config // immutable
	env    []string
	marker string // name of the variable that marks what this tool started

	mu     sync.Mutex            // guards what follows
	dirs   map[string]string     // where an agent's next command starts, unless in the working folder
	temp   string                // folder for the files of cwd.go; "" until it is needed
	used   bool                  // a command was started
	closed bool                  // Close was called
	groups []int                 // process groups of calls that left something running
	drains map[*os.File]struct{} // pipes that background processes still hold

	looking, lookAgain bool // for processes that run on

	ending chan struct{}  // closed with the tool
	wg     sync.WaitGroup // the goroutines that empty pipes and look for processes
}

var (
	_ tool.Tool        = (*Bash)(nil)
	_ tool.CommandUser = (*Bash)(nil)
)

// New returns the tool bash. It starts nothing and cannot fail: where there is no shell,
// each call says so.
func New(cfg Config) *Bash {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 2 * time.Minute
	}
	if cfg.MaxTimeout <= 0 {
		cfg.MaxTimeout = time.Hour
	}
	cfg.MaxTimeout = max(cfg.MaxTimeout, cfg.Timeout)
	if cfg.Grace <= 0 {
		cfg.Grace = 500 * time.Millisecond
	}
	b := &Bash{cfg: cfg, marker: "DSHSH_SHELL_" + randomID(), drains: map[*os.File]struct{}{}, ending: make(chan struct{}), dirs: map[string]string{}}
	b.env = childEnv(cfg.Environ, cfg.Scrub, cfg.Dir)
	if b.cfg.Shell == "" {
		b.cfg.Shell = findShell(cfg.Environ)
	}
	return b
}

// Environ is what commands inherit: the environment without keys, and settings that keep
// programs from waiting for a person. The caller may change it.
func (b *Bash) Environ() []string { return slices.Clone(b.env) }

func randomID() string {
	var id [8]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// Args are the arguments of a call.
type Args struct {
	Command     string `json:"command"`
	TimeoutMs   int64  `json:"timeoutMs,omitempty"`
	Description string `json:"description,omitempty"` // why, in the model's words; for people
}

// Spec describes the tool to the model.
func (b *Bash) Spec() model.ToolSpec {
	params := fmt.Sprintf(`{"type":"object","additionalProperties":false,"required":["command"],"properties":{`+
		`"command":{"type":"string","minLength":1,"description":"the command, as given to bash -c"},`+
		`"timeoutMs":{"type":"integer","minimum":1,"maximum":%d,"description":"limit in milliseconds; %d if not given"},`+
		`"description":{"type":"string","description":"what the command is for, in a few words"}}}`,
		b.cfg.MaxTimeout.Milliseconds(), b.cfg.Timeout.Milliseconds())
	return model.ToolSpec{
		Name: Name,
		Description: "Runs a command in bash and returns what it prints (standard output and error together) and its exit status. " +
			"The first call starts in the working folder; a cd that stays below it holds for the next call, variables do not. There is no terminal and no input, so nothing can ask for a password, " +
			"an editor or an answer: give options instead. A process started with & goes on when the call has ended. Long output is cut in the middle.",
		Parameters: json.RawMessage(params),
	}
}

// Command returns the command and the folder it starts in.
func (b *Bash) Command(args json.RawMessage, agentID string) (command, dir string) {
	var a Args
	if tool.DecodeArgs(Name, args, &a) != nil {
		return "", ""
	}
	return a.Command, b.Dir(agentID)
}

// Outcome is what a call's Value and Meta hold, as JSON. Output is in the Value only.
type Outcome struct {
	ExitCode   int       `json:"exitCode"` // -1 when a signal ended the shell
	Signal     string    `json:"signal,omitempty"`
	TimedOut   bool      `json:"timedOut,omitempty"`
	Output     *string   `json:"output,omitempty"` // as the model sees it
	Truncated  bool      `json:"truncated,omitempty"`
	Bytes      int64     `json:"bytes"`                // printed in all
	OutputPath string    `json:"outputPath,omitempty"` // file with the whole output, when truncated
	DurationMs int64     `json:"durationMs"`
	Background []Process `json:"background,omitempty"` // left running when the shell exited
	Cwd        string    `json:"cwd,omitempty"`        // where the agent's next command starts, unless in the working folder
}

// Process is a process that a call left running.
type Process struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

// Execute runs the command. A command that fails or times out is a result, not an error:
// the text says which. A cancelled one is the error ABORTED, with the output so far as
// content.
func (b *Bash) Execute(ctx context.Context, args json.RawMessage, x *tool.Exec) (tool.Result, error) {
	var a Args
	if err := tool.DecodeArgs(Name, args, &a); err != nil {
		return tool.Result{}, err
	}
	limit := b.cfg.Timeout
	if a.TimeoutMs != 0 {
		if a.TimeoutMs < 0 || a.TimeoutMs > b.cfg.MaxTimeout.Milliseconds() {
			return tool.Result{}, tool.InvalidArgs("bash: argument \"timeoutMs\": must be 1 to %d, but is %d", b.cfg.MaxTimeout.Milliseconds(), a.TimeoutMs)
		}
		limit = time.Duration(a.TimeoutMs) * time.Millisecond
	}
	if err := b.check(a.Command); err != nil {
		return tool.Result{}, err
	}
	if ctx.Err() != nil {
		return tool.Result{}, tool.AbortedBeforeDispatch()
	}
	out := x.Output(b.cfg.Limits)
	dir, gone := b.startDir(x.AgentID)
	r, err := b.run(ctx, a.Command, dir, limit, out)
	b.watchLeft()
	if err != nil {
		out.Finish()
		return tool.Result{}, fmt.Errorf("bash: starting %s: %w", b.cfg.Shell, err)
	}
	var notes []string
	for _, n := range []string{gone, b.follow(x.AgentID, dir, r.dir)} {
		if n != "" {
			notes = append(notes, n)
		}
	}
	r.dir = ""
	if now := b.Dir(x.AgentID); now != b.cfg.Dir {
		r.dir = now
	}
	return b.result(r, limit, out.Finish(), notes)
}

// maxCommand is what linux takes as one argument, less the closing zero.
const maxCommand = 128<<10 - 1 - len(rememberDir)

func (b *Bash) check(command string) error {
	switch {
	case strings.TrimSpace(command) == "":
		return tool.InvalidArgs("bash: argument \"command\": is empty")
	case strings.Contains(command, "\x00"):
		return tool.InvalidArgs("bash: argument \"command\": holds a zero byte, which no command can")
	case len(command) > maxCommand:
		return tool.InvalidArgs("bash: argument \"command\": is %d bytes, more than the %d that can be passed; write it to a file and run that", len(command), maxCommand)
	case b.cfg.Shell == "":
		return fmt.Errorf("bash: there is no bash and no sh in PATH; install one, or set the shell in the configuration")
	}
	return nil
}

const noTerminalHint = "Commands have no terminal and no input: one that waits for a password, an editor or an answer never gets it, " +
	"so use its options instead. For a longer command ask for a larger timeoutMs, or start it in the background."

func (b *Bash) result(r ran, limit time.Duration, out tool.Bounded, more []string) (tool.Result, error) {
	o := Outcome{
		ExitCode: r.exitCode, Signal: r.signal, TimedOut: r.timedOut, Truncated: out.Truncated, Bytes: out.Bytes,
		OutputPath: out.Path, DurationMs: r.took.Milliseconds(), Background: r.background, Cwd: r.dir,
	}
	var notes []string
	switch {
	case r.timedOut:
		notes = append(notes, fmt.Sprintf("timed out after %v; ended with all its processes. %s", limit, noTerminalHint))
	case r.aborted:
		notes = append(notes, fmt.Sprintf("aborted after %v; ended with all its processes", r.took.Round(time.Millisecond)))
	case r.signal != "":
		notes = append(notes, "ended by signal: "+r.signal)
	case r.exitCode != 0 || out.Bytes == 0:
		notes = append(notes, fmt.Sprintf("exit status %d", r.exitCode))
	}
	if len(r.survivors) > 0 {
		notes = append(notes, "could not be ended, and still running: "+list(r.survivors))
	}
	if len(r.background) > 0 {
		notes = append(notes, "still running in the background, until this session ends: "+list(r.background))
	}
	notes = append(notes, more...)
	var text strings.Builder
	text.WriteString(out.Text)
	if out.Bytes == 0 {
		text.WriteString("[no output]\n")
	} else if len(notes) > 0 && !strings.HasSuffix(out.Text, "\n") {
		text.WriteString("\n")
	}
	for _, n := range notes {
		text.WriteString("[" + n + "]\n")
	}

	res := tool.TextResult(strings.TrimSuffix(text.String(), "\n"))
	var err error
	if res.Meta, err = json.Marshal(o); err != nil {
		return tool.Result{}, fmt.Errorf("bash: encoding the outcome: %w", err)
	}
	o.Output = &out.Text
	if res.Value, err = json.Marshal(o); err != nil {
		return tool.Result{}, fmt.Errorf("bash: encoding the outcome: %w", err)
	}
	if r.aborted {
		return res, tool.Aborted()
	}
	return res, nil
}

func list(ps []Process) string {
	var s []string
	for i, p := range ps {
		if i == 5 {
			s = append(s, fmt.Sprintf("and %d more", len(ps)-i))
			break
		}
		s = append(s, fmt.Sprintf("%d (%s)", p.PID, p.Command))
	}
	return strings.Join(s, ", ")
}

// Close ends what the calls left running and refuses further calls. It may be
// called more than once. Processes that cannot be ended are named in the error.
func (b *Bash) Close() error {
	b.mu.Lock()
	used, groups := b.used && !b.closed, b.groups
	if !b.closed {
		close(b.ending)
	}
	temp := b.temp
	b.closed, b.groups, b.temp = true, nil, ""
	b.mu.Unlock()
	var left []Process
	switch {
	case used && findsMarker:
		left = end(0, b.marker+"=", b.cfg.Grace)
	case used:
		for _, g := range groups {
			if groupAlive(g) {
				left = append(left, end(g, b.marker+"=", b.cfg.Grace)...)
			}
		}
	}
	b.mu.Lock()
	for r := range b.drains {
		r.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
	if temp != "" {
		_ = os.RemoveAll(temp) // the system tidies it up else
	}
	if len(left) > 0 {
		return fmt.Errorf("bash: processes left by commands could not be ended: %s", list(left))
	}
	return nil
}

// findShell looks for a shell in the PATH of the environment that commands get.
func findShell(environ []string) string {
	for _, name := range []string{"bash", "sh"} {
		for _, dir := range filepath.SplitList(lookup(environ, "PATH")) {
			if !filepath.IsAbs(dir) {
				continue // the working folder's own programs are not a shell
			}
			for _, suffix := range shellSuffixes {
				path := filepath.Join(dir, name+suffix)
				if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && executable(st) {
					return path
				}
			}
		}
	}
	return ""
}
