// Package modules is what scripts can reach of the world outside, each call behind what
// the user has granted the script: files (dshsh/fs), programs (dshsh/exec) and web servers
// (dshsh/http). Scripts get them by require.
//
// Every call is checked by [runtime.Instance.Permit] on what it really leads to: a path
// with its links followed, a program likewise, the host of every redirect, and the address
// that is dialled. The work itself is done off the host thread, and ends with the hook
// that waits for it and with the script.
//
// The package stops scripts from doing more than they were granted. It does not protect
// from a program that was granted: that runs with the user's rights.
package modules

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"dshsh/runtime"
)

// Config configures New. Immutable once given.
type Config struct {
	// Dir is the project's folder: relative paths and patterns start there. Absolute, without links.
	Dir string
	// Check refuses places whatever was granted: the configuration, and for writing the
	// script folders. path is absolute. nil refuses none. Any goroutine.
	Check func(path string, write bool) error
	// Environ is the environment of programs, KEY=VALUE, without secrets.
	Environ []string
	// Running is called when a program starts, and what it returns when it has ended: it
	// may change files meanwhile. nil = nobody wants to know. Any goroutine.
	Running func() (ended func())
}

// host is the modules of one host. Immutable; its functions are called on the thread.
type host struct{ Config }

// New returns the modules, for runtime.HostConfig.Modules.
func New(c Config) []runtime.Module {
	h := &host{c}
	return []runtime.Module{
		{Name: "dshsh/exec", Object: &object{h.execClass()}},
		{Name: "dshsh/fs", Object: &object{h.fsClass()}},
		{Name: "dshsh/http", Object: &object{h.httpClass()}},
	}
}

// object is a module as scripts hold it. Immutable.
type object struct{ class *runtime.Class }

// Class implements runtime.Object.
func (o *object) Class() *runtime.Class { return o.class }

// bound is one call's context: it ends with the hook that waits for the call, with the
// script, and after limit.
func bound(c *runtime.Call, limit time.Duration) (context.Context, func()) {
	in := c.Instance
	ctx, cancel := context.WithCancelCause(in.Host().Thread.CurrentHook().Context())
	off := context.AfterFunc(in.Context(), func() { cancel(context.Cause(in.Context())) })
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w after %v", errTimeout, limit))
	return ctx, func() {
		stop()
		off()
		cancel(nil)
	}
}

var errTimeout = errors.New("timed out")

// away runs fn off the thread. A call whose context has ended does nothing, and comes to
// its cause.
func away(c *runtime.Call, ctx context.Context, fn func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var err error
	if aerr := c.Instance.Host().Thread.Away(func() { err = fn() }); aerr != nil {
		return aerr
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// named puts the call's name before an error.
func named(c *runtime.Call, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c.Name, err)
}

// limit reads a time limit in milliseconds; 0 is def.
func limit(ms float64, def, most time.Duration) (time.Duration, error) {
	switch {
	case ms == 0:
		return def, nil
	case !(ms > 0):
		return 0, errors.New("timeoutMs must be above 0")
	case ms > float64(most/time.Millisecond):
		return 0, fmt.Errorf("timeoutMs is at most %d", most/time.Millisecond)
	}
	return time.Duration(ms * float64(time.Millisecond)), nil
}

// within says whether path is dir or below it. Both are clean.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
