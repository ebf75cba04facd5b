package loop_test

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"dshsh/loop"
	"dshsh/runtime"
)

// hand is ctx.storm: the storm as its scripts see it.
type hand struct{ s *storm }

func (*hand) Class() *runtime.Class { return handClass }

func handFunc(name string, fn func(s *storm, c *runtime.Call) (runtime.Value, error)) *runtime.Member {
	return &runtime.Member{Name: name, Fn: func(c *runtime.Call) (runtime.Value, error) { return fn(c.Self.(*hand).s, c) }}
}

// handText is a member that takes texts and gives nothing.
func handText(name string, n int, fn func(s *storm, c *runtime.Call, args []string)) *runtime.Member {
	return handFunc(name, func(s *storm, c *runtime.Call) (runtime.Value, error) {
		args := make([]string, n)
		pairs := make([]any, 0, 2*n)
		for i := range args {
			pairs = append(pairs, "text", &args[i])
		}
		if err := c.Unpack(pairs...); err != nil {
			return nil, err
		}
		fn(s, c, args)
		return nil, nil
	})
}

var handClass = &runtime.Class{Name: "storm", Members: []*runtime.Member{
	handFunc("dice", func(s *storm, c *runtime.Call) (runtime.Value, error) {
		var n int
		err := c.Unpack("n", &n)
		return int64(s.dice(n)), err
	}),
	handFunc("serial", func(s *storm, c *runtime.Call) (runtime.Value, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.serial++
		return int64(s.serial), c.Unpack()
	}),
	handFunc("raging", func(s *storm, c *runtime.Call) (runtime.Value, error) { return s.rage.Load(), c.Unpack() }),
	handFunc("restless", func(s *storm, c *runtime.Call) (runtime.Value, error) {
		var id string
		err := c.Unpack("id", &id)
		return strings.HasPrefix(id, "r"), err
	}),
	handFunc("expected", func(s *storm, c *runtime.Call) (runtime.Value, error) {
		var msg string
		err := c.Unpack("message", &msg)
		return expected(msg), err
	}),
	handFunc("mark", func(s *storm, c *runtime.Call) (runtime.Value, error) {
		var id string
		var turn int
		err := c.Unpack("id", &id, "turn", &turn)
		s.mark(c.Instance, id, turn)
		return nil, err
	}),
	handFunc("tally", func(s *storm, c *runtime.Call) (runtime.Value, error) {
		var name string
		var n int
		err := c.Unpack("name", &name, "n", &n)
		s.effect(c.Instance, n)
		return nil, err
	}),
	handFunc("plan", func(s *storm, c *runtime.Call) (runtime.Value, error) {
		var id string
		if err := c.Unpack("id", &id); err != nil {
			return nil, err
		}
		return runtime.ValueOf(s.plan(id)), nil
	}),
	{Name: "later", Waits: true, Fn: func(c *runtime.Call) (runtime.Value, error) {
		s := c.Self.(*hand).s
		var v runtime.Value
		if err := c.Unpack("value", &v); err != nil {
			return nil, err
		}
		d := time.Duration(s.dice(3000)) * time.Microsecond
		return v, c.Instance.Host().Thread.Sleep(d, c.Instance.Context())
	}},
	handText("heard", 3, func(s *storm, c *runtime.Call, a []string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.callLocked(a[0], a[1]).heard[c.Instance.File+" "+a[2]] = true
	}),
	handText("ran", 3, func(s *storm, c *runtime.Call, a []string) { s.ran(a[0], a[1], json.RawMessage(a[2])) }),
	handText("once", 1, func(s *storm, c *runtime.Call, a []string) { s.once(c.Instance, a[0]) }),
	handText("live", 1, func(s *storm, c *runtime.Call, a []string) { s.alive(c.Instance, a[0]) }),
	handText("fault", 1, func(s *storm, c *runtime.Call, a []string) { s.fault("%s: %s", c.Instance.ID, a[0]) }),
}}

// Failures that the storm asks for, or that come of what it does. Any other is a fault
// of the shell or of the storm's scripts.
var expectedFailures = []string{
	"threw [", "refused <", "no step <", "aborting <", "unheard <", "not this one", "failed [", `"perhaps"`, "needs messages", "settled",
	"deadline exceeded", "computed for", "lost with another hook", "script unloaded", "stack overflow", "failed to load", "a stand-in",
	"cancelled by", "is disposed", "wait for ever", "already pending", "the turn is over", "the listener has already answered",
	"quarantined", "times in a row", "rewrites arguments that have already been judged", "internal error in tool",
	"coroutine that another hook", "coroutine that is running", "a model of the storm", "reached its limit", "no provider",
	"could not be loaded", "nobody is there to answer", "already has active work", "context canceled", "the regular expression took longer",
}

func expected(msg string) bool {
	for _, e := range expectedFailures {
		if strings.Contains(msg, e) {
			return true
		}
	}
	return false
}

// Failed implements loop.Notices.
func (s *storm) Failed(f runtime.Failure) {
	var p *runtime.PanicError
	switch {
	case errors.As(f.Err, &p):
		s.fault("panic: %v\n%s", p.Value, p.Stack)
	case !expected(f.Err.Error()):
		s.fault("contained failure: %s %v", f.What, f.Err)
	}
	s.count("contained failures", 1)
}

// Quarantined implements loop.Notices.
func (s *storm) Quarantined(in *runtime.Instance, err error) {
	if !expected(err.Error()) {
		s.fault("quarantined: %v", err)
	}
	s.count("quarantines", 1)
}

// Capped implements loop.Notices.
func (s *storm) Capped(_ loop.Agent, line string) {
	line, _, _ = strings.Cut(line, "scripts have")
	s.count("capped: "+line, 1)
}

// Broken implements loop.Notices.
func (s *storm) Broken(a loop.Agent, err error) { s.fault("the log of %s is broken: %v", a.ID(), err) }

// Logged implements loop.Notices.
func (s *storm) Logged(in *runtime.Instance, level, text string) {
	if strings.Contains(text, "without next(): wrap.") || strings.HasPrefix(text, "allow has no effect") {
		return // planned
	}
	s.fault("%s prints %s %s", in.ID, level, text)
}
