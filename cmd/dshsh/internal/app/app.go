// Package app is the program: flags, subcommands, wiring and exit codes. Everything that
// it takes from the system is in an [Env], so that the program is a value that tests can
// run.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"dshsh/loop"
)

// Exit codes of the program.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitBlocked  = 3
	exitCap      = 4 // max-tokens, or the cap on steps
	exitScript   = 5
	exitAborted  = 130
	exitSigpipe  = 141
	outStdin     = "-"
	scriptsPlace = ".dshsh/scripts"
)

// Env is what the program takes from the system. Set before use.
type Env struct {
	Args           []string // without the program's name
	Environ        []string
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Dir            string
	Now            func() time.Time
	// TTY says that Stdin and Stdout are a terminal; Piped that Stdin is a pipe; Typed that
	// it is a terminal or nothing, so that there is nothing to read to an end.
	TTY, Piped, Typed bool
	// Signals brings INT and TERM while a command other than the prompt runs.
	Signals func(sigs ...os.Signal) (ch <-chan os.Signal, stop func())
}

// OS is the real environment.
func OS() Env {
	dir, err := os.Getwd()
	if err != nil {
		dir = "."
	}
	e := Env{
		Args: os.Args[1:], Environ: os.Environ(), Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Dir: dir, Now: time.Now,
		TTY: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
		Signals: func(sigs ...os.Signal) (<-chan os.Signal, func()) {
			ch := make(chan os.Signal, 4)
			signal.Notify(ch, sigs...)
			return ch, func() { signal.Stop(ch) }
		},
	}
	if fi, err := os.Stdin.Stat(); err == nil {
		e.Piped = fi.Mode()&os.ModeNamedPipe != 0
		e.Typed = fi.Mode()&os.ModeCharDevice != 0
	}
	return e
}

// exitCode is an error that decides the program's exit code. err may be nil when
// everything has been said.
type exitCode struct {
	code int
	err  error
}

func (e *exitCode) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitCode) Unwrap() error { return e.err }

func usage(err error) error { return &exitCode{exitUsage, err} }

// Main runs the program and returns its exit code.
func Main(e Env) int {
	root := newRoot(&e)
	root.SetArgs(e.Args)
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return exitOK
	}
	code := exitError
	var ec *exitCode
	if errors.As(err, &ec) {
		code = ec.code
		if ec.err == nil {
			return code
		}
	}
	fmt.Fprintf(e.Stderr, "dshsh: %v\n", err)
	return code
}

// newRoot builds the tree of commands.
func newRoot(e *Env) *cobra.Command {
	f := &flags{}
	root := &cobra.Command{
		Use:   "dshsh",
		Short: "An agent shell that you script while it runs",
		Long: "dshsh opens a prompt on an agent. Policies are JavaScript, TypeScript or Lua files in " + scriptsPlace + ":\n" +
			"they see and change what the agent does, and a save takes effect at the next turn.",
		Args:          noArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionLine(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return runPrompt(cmd.Context(), e, f) },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(fmt.Errorf("%s; `%s --help` lists the flags", notNumber.ReplaceAllString(err.Error(), "want a whole number"), c.CommandPath()))
	})
	f.add(root, false)
	root.Flags().StringVarP(&f.file, "file", "f", "", "take the prompt's lines from this file, one after the other, and end")
	run := &cobra.Command{
		Use:   "run [flags] PROMPT...",
		Short: "Ask once: the reply on standard output, everything else on standard error",
		Long: "run sends one prompt and ends when the agent is idle. `-` as a prompt, or a pipe, adds standard input.\n\n" +
			"Exit codes: 0 completed, 1 error, 2 usage, 3 a script rejected the prompt, 4 cut by a limit, 5 a script's error,\n" +
			"130 cancelled. A denied tool call changes no code: the model is told, and goes on.",
		RunE: func(cmd *cobra.Command, args []string) error { return runOnce(cmd.Context(), e, f, args) },
	}
	f.add(run, true)
	root.AddCommand(run, newSessionCommand(e), newScriptsCommand(e, f), newConfigCommand(e), newDoctorCommand(e, f), &cobra.Command{
		Use: "version", Short: "Say which version this is", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(e.Stdout, versionLine())
			return err
		},
	})
	return root
}

// notNumber is what strconv says in the error of a flag; nobody typed a strconv.
var notNumber = regexp.MustCompile(`strconv\.\w+: parsing .*: (invalid syntax|value out of range)`)

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		msg := fmt.Sprintf("unknown command %q", args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			msg += fmt.Sprintf(" (did you mean %q?)", near[0])
		}
		if cmd.HasParent() {
			return usage(fmt.Errorf("%s; `%s --help` lists them", msg, cmd.CommandPath()))
		}
		return usage(fmt.Errorf("%s; to ask something once: dshsh run %q", msg, args[0]))
	}
	return usage(fmt.Errorf("%s takes no arguments, got %q", cmd.CommandPath(), args[0]))
}

// flags are those that the prompt and run share.
type flags struct {
	provider, model, baseURL string
	scripts                  []string
	policies                 []string
	fallback                 []string
	safe, trust              bool
	only                     bool // the scripts that are named, and none of the folders
	cwd                      string
	cont                     bool
	resume, fork             string
	approve                  string
	maxSteps, maxForced      int
	maxRetries               int
	given                    map[string]any // by key of the configuration
	json                     bool
	file                     string // of prompt lines
}

func (f *flags) add(c *cobra.Command, run bool) {
	fs := c.Flags()
	fs.StringVar(&f.provider, "provider", "", "model service: openai, deepseek, anthropic or offline")
	fs.StringVar(&f.model, "model", "", "model of that service")
	fs.StringSliceVar(&f.fallback, "fallback", nil, "models to go on with when the first fails: MODEL or PROVIDER/MODEL, with commas between")
	fs.StringVar(&f.baseURL, "base-url", "", "address of the service, such as http://localhost:11434/v1")
	fs.StringArrayVar(&f.scripts, "script", nil, "load this script too (repeatable)")
	fs.StringArrayVar(&f.policies, "policy", nil, "switch a bundled policy on (repeatable)")
	fs.BoolVar(&f.safe, "safe", false, "run no scripts; the default policy stays")
	fs.BoolVar(&f.trust, "trust", false, "trust this folder's scripts without asking")
	fs.StringVar(&f.cwd, "cwd", "", "work in this folder")
	fs.BoolVarP(&f.cont, "continue", "c", false, "go on with the newest session of this folder")
	fs.StringVarP(&f.resume, "resume", "r", "", "go on with the session of this id")
	fs.StringVar(&f.fork, "fork", "", "begin with a copy of a session: ID[@SEQ]")
	fs.StringVar(&f.approve, "approve", "ask", "what becomes of calls that need approval: ask, never or all")
	fs.IntVar(&f.maxSteps, "max-steps", 0, "end a turn after so many steps")
	fs.IntVar(&f.maxForced, "max-continuations", 0, "how often scripts may continue a turn (25)")
	fs.IntVar(&f.maxRetries, "max-retries", loop.DefaultRetry.MaxRetries, "how often a failed model call is tried again")
	c.PreRunE = func(*cobra.Command, []string) error {
		f.given = map[string]any{}
		for name, value := range map[string]any{"provider": f.provider, "model": f.model, "fallback": f.fallback, "approve": f.approve,
			"max-steps": f.maxSteps, "max-continuations": f.maxForced, "max-retries": f.maxRetries} {
			if fs.Changed(name) {
				f.given[name] = value
			}
		}
		for _, name := range []string{"resume", "fork"} {
			if given := fs.Lookup(name); given.Changed && given.Value.String() == "" {
				return usage(fmt.Errorf("--%s needs the id of a session: `dshsh session list` shows them", name))
			}
		}
		return nil
	}
	if run {
		fs.BoolVar(&f.json, "json", false, "print the records of this run as they are logged, and nothing else")
	}
}

// workDir is the folder to work in, absolute and with links resolved, so that a session
// is found again whatever way leads here.
func (f *flags) workDir(e *Env) (string, error) {
	dir := e.Dir
	if f.cwd != "" {
		dir = f.cwd
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(e.Dir, dir)
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		var fi os.FileInfo
		if fi, err = os.Stat(real); err == nil && fi.IsDir() {
			return real, nil
		}
	}
	if f.cwd != "" && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return "", usage(fmt.Errorf("--cwd: there is no folder %s", dir))
	}
	return "", fmt.Errorf("the working folder: %w", err)
}

// interrupts are the signals that cancel what runs.
var interrupts = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
