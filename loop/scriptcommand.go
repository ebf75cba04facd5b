package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"dshsh/runtime"
)

// maxName is how long the name of what a script offers may be, in bytes.
const maxName = 100

// Command is a slash command of a script: the Spec of an OfferCommand.
type Command struct {
	Name        string
	Description string
	run         runtime.Func
	complete    runtime.Func // nil = it completes nothing
	offer       *runtime.Registration
}

// Run calls the command. It waits; what it returns is to be printed.
func (c *Command) Run(a Agent, args string) (string, error) {
	extra := map[string]any{}
	if a != nil {
		extra["agent"] = a
	}
	v, err := c.offer.Ask(runtime.NewHook(c.offer.Instance.Context(), nil, 0), c.run, args, extra)
	if err != nil || v == nil {
		return "", err
	}
	return runtime.Display(v), nil
}

// Completes says that the command completes its arguments.
func (c *Command) Completes() bool { return c.complete != nil }

// Complete gives what the arguments, of which prefix has been typed, may be. It waits,
// until ctx ends at the latest.
func (c *Command) Complete(ctx context.Context, prefix string) ([]string, error) {
	if c.complete == nil {
		return nil, nil
	}
	v, err := c.offer.Ask(runtime.NewHook(ctx, nil, 0), c.complete, prefix)
	if err != nil || v == nil {
		return nil, err
	}
	var words []string
	err = runtime.Decode(v, &words)
	return words, c.offer.Wrap(err)
}

func (h *Host) ctxCommand(c *runtime.Call) (runtime.Value, error) {
	var name string
	var def struct {
		Description string       `json:"description"`
		Complete    runtime.Func `json:"complete,omitempty"`
		Run         runtime.Func `json:"run"`
	}
	if err := c.Unpack("name", &name, "definition", &def); err != nil {
		return nil, err
	}
	switch {
	case len(name) > maxName:
		return nil, fmt.Errorf("ctx.command: a name of %d bytes is too long, at most %d", len(name), maxName)
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '/' || !unicode.IsGraphic(r) || unicode.IsSpace(r) }):
		return nil, fmt.Errorf("ctx.command: bad name %q: want a word without a slash", name)
	case slices.Contains(h.cfg.Commands, name):
		return nil, fmt.Errorf("ctx.command: /%s is a built-in command; choose another name", name)
	case def.Run == nil:
		return nil, errors.New(`ctx.command: missing field "run"`)
	}
	x := c.Self.(*runtime.Ctx)
	cmd := &Command{Name: name, Description: def.Description, run: def.Run, complete: def.Complete}
	cmd.offer = c.Instance.Register(OfferCommand, name, cmd, x.Scope(), c.Where)
	return remover(cmd.offer), nil
}
