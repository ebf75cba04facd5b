package modules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"dshsh/runtime"
)

const (
	maxOutput = 1 << 20 // bytes kept of each output
	maxInput  = 10 << 20
	execTime  = 30 * time.Second
	maxTime   = 10 * time.Minute
	// lastWords is how long what a program has started may keep its output open after it.
	lastWords = 250 * time.Millisecond
)

// command is the program and its arguments: a list, or a text that is split at spaces.
type command []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *command) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		if strings.ContainsAny(text, "\"'`\\;|&<>$()*?\n") {
			return errors.New("a text is split at spaces and there is no shell: give a list of words to pass such characters on")
		}
		*w = strings.Fields(text)
	} else if err := json.Unmarshal(b, (*[]string)(w)); err != nil {
		return errors.New("want a string or a list of strings")
	}
	if len(*w) == 0 {
		return errors.New("it is empty")
	}
	for _, s := range *w {
		if strings.ContainsRune(s, 0) {
			return errors.New("a word holds a zero byte")
		}
	}
	return nil
}

type execOptions struct {
	Stdin     string  `json:"stdin,omitempty"`
	Cwd       string  `json:"cwd,omitempty"`
	TimeoutMs float64 `json:"timeoutMs,omitempty"`
}

// execResult is what exec.run gives.
type execResult struct {
	Code      int    `json:"code"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated,omitempty"` // more than 1 MiB was printed; the beginning is kept
}

func (h *host) execClass() *runtime.Class {
	return &runtime.Class{Name: "exec", Doc: "Programs, behind the grant exec. There is no shell, and PATH is not searched.", Members: []*runtime.Member{
		{Name: "run", Waits: true, Doc: "Runs a program, named by its absolute path, and waits for its end. An exit code other than 0 is no " +
			"error. The environment is that of tools, without keys; what the program leaves running is ended. 30 s, unless timeoutMs says " +
			"otherwise (10 minutes at most).",
			Signature: "(command: string | string[], options?: { stdin?: string, cwd?: string, timeoutMs?: number }): " +
				"Promise<{ code: number, stdout: string, stderr: string, truncated?: boolean }>", Fn: h.execRun},
	}}
}

func (h *host) execRun(c *runtime.Call) (runtime.Value, error) {
	var argv command
	var o execOptions
	if err := c.Unpack("command", &argv, "options?", &o); err != nil {
		return nil, err
	}
	res, err := h.run(c, argv, o)
	if err != nil {
		return nil, named(c, err)
	}
	return runtime.ValueOf(*res), nil
}

func (h *host) run(c *runtime.Call, argv command, o execOptions) (*execResult, error) {
	program := argv[0]
	switch {
	case !filepath.IsAbs(program) || filepath.Clean(program) != program:
		return nil, fmt.Errorf("%q is no absolute path: PATH is not searched, name the program as in /usr/bin/git", program)
	case len(o.Stdin) > maxInput:
		return nil, fmt.Errorf("%d bytes of stdin, at most %d are passed on", len(o.Stdin), maxInput)
	}
	d, err := limit(o.TimeoutMs, execTime, maxTime)
	if err != nil {
		return nil, err
	}
	ctx, done := bound(c, d)
	defer done()
	real, dir := program, h.Dir
	if err := away(c, ctx, func() error {
		if r, err := filepath.EvalSymlinks(program); err == nil {
			real = r
		}
		if o.Cwd != "" {
			abs, err := h.absolute(o.Cwd)
			if err != nil {
				return fmt.Errorf("cwd: %w", err)
			}
			if dir = resolve(abs); !within(h.Dir, dir) {
				return fmt.Errorf("cwd: %s is outside of the project's folder", o.Cwd)
			}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	line := strings.Join(argv, " ")
	if real != program {
		line += " (" + real + ")"
	}
	if err := c.Instance.Permit(runtime.NeedExec, line, func(n runtime.Need) bool { return n.MatchExec(program, real, argv[1:]) }); err != nil {
		return nil, err
	}
	var res *execResult
	err = away(c, ctx, func() error { res, err = h.execute(ctx, real, argv, dir, o.Stdin); return err })
	if errors.Is(err, errTimeout) {
		err = fmt.Errorf("%s %w and was ended; timeoutMs gives it longer", filepath.Base(program), err)
	}
	return res, err
}

// execute runs the program to its end, off the thread. What it leaves behind in its group
// is ended with it.
func (h *host) execute(ctx context.Context, real string, argv []string, dir, stdin string) (*execResult, error) {
	cmd := exec.CommandContext(ctx, real, argv[1:]...)
	cmd.Args[0] = argv[0] // programs of many names go by it
	cmd.Dir, cmd.Env = dir, h.Environ
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be our own
	}
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	var out, errs head
	cmd.Stdout, cmd.Stderr = &out, &errs
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = lastWords
	if h.Running != nil {
		defer h.Running()()
	}
	if err := cmd.Start(); err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	err := cmd.Wait()
	_ = killGroup(cmd)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	return &execResult{Code: exitCode(cmd), Stdout: out.String(), Stderr: errs.String(), Truncated: out.cut || errs.cut}, nil
}

// head keeps the beginning of what is written to it. One goroutine writes.
type head struct {
	kept []byte
	cut  bool
}

func (w *head) Write(p []byte) (int, error) {
	n := min(len(p), maxOutput-len(w.kept))
	w.kept = append(w.kept, p[:n]...)
	w.cut = w.cut || n < len(p)
	return len(p), nil
}

func (w *head) String() string { return strings.ToValidUTF8(string(w.kept), "\uFFFD") }
