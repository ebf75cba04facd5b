package repl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/runtime"
)

// seat is an agent that the prompt shows: one that the person talks to, or has talked to,
// or that a script has made. Used on the host thread.
type seat struct {
	name  string // what /agent calls it
	agent loop.Agent
	out   *render.Renderer
	shown bool      // its story so far is on the screen
	since time.Time // when it last began to work
}

// seats are the agents that live, in the order in which they came. Used on the thread.
type seats []*seat

func (s seats) of(a loop.Agent) *seat {
	for _, x := range s {
		if x.agent == a {
			return x
		}
	}
	return nil
}

func (s seats) named(name string) *seat {
	for _, x := range s {
		if x.name == name {
			return x
		}
	}
	return nil
}

// seat gives an agent its place, under a name or the next free one. On the thread.
func (l *Loop) seat(a loop.Agent, name string) *seat {
	if s := l.seats.of(a); s != nil {
		return s
	}
	for n := 1; name == ""; n++ {
		if free := fmt.Sprintf("a%d", n); l.seats.named(free) == nil {
			name = free
		}
	}
	o := l.look
	if a != l.Agent() {
		o.Agent = name
	}
	s := &seat{name: name, agent: a, out: render.New(o)}
	l.seats = append(l.seats, s)
	return s
}

// audience is whose output a record of a belongs to: nil for an agent that is being opened,
// whose story is told when it is at the prompt, or that has left it. On the thread.
func (l *Loop) audience(a loop.Agent) *seat {
	s := l.seats.of(a)
	if s == nil && a != nil && l.opening.Load() == 0 && !l.left[a] {
		s = l.seat(a, "")
		s.shown = true
	}
	return s
}

// opens says that an agent is being made for the prompt, until done.
func (l *Loop) opens() (done func()) {
	l.opening.Add(1)
	return func() { l.opening.Add(-1) }
}

// unseat forgets an agent that is gone. On the thread.
func (l *Loop) unseat(p loop.AgentPayload) error {
	delete(l.left, p.Agent)
	if s := l.seats.of(p.Agent); s != nil {
		if text := s.out.Flush(); text != "" {
			l.ed.Print(text)
		}
		l.seats = slices.DeleteFunc(l.seats, func(x *seat) bool { return x == s })
		l.status()
	}
	return nil
}

// swap makes next the prompt's agent, in the place of the one before, which it ends.
func (l *Loop) swap(next loop.Agent) {
	old, name := l.Agent(), ""
	h := l.shell.Host()
	_ = h.Do(context.Background(), func() {
		if s := l.seats.of(old); s != nil && old != next {
			name = s.name
			l.seats = slices.DeleteFunc(l.seats, func(x *seat) bool { return x == s })
			l.left[old] = true
		}
	})
	l.use(next, name)
	if old != nil && old != next {
		h.Thread.Go(context.Background(), func() {
			if err := old.Dispose(); err != nil {
				l.Say(render.Visible(err.Error()))
			}
		})
	}
}

const agentUsage = "/agent list; /agent new [NAME]; /agent switch NAME; /agent end NAME"

// cmdAgent keeps several agents in one shell: the prompt talks to one of them, what the
// others do is shown with their names.
func (l *Loop) cmdAgent(ctx context.Context, args string) {
	verb, name, _ := strings.Cut(args, " ")
	name = strings.TrimSpace(name)
	switch verb {
	case "", "list":
		l.listAgents(ctx)
	case "new":
		l.newAgent(ctx, name)
	case "switch", "end":
		l.otherAgent(ctx, verb, name)
	default:
		l.Say(render.Visible(fmt.Sprintf("there is no /agent %s; ", verb)) + agentUsage)
	}
}

func (l *Loop) listAgents(ctx context.Context) {
	var rows [][2]string
	_ = l.shell.Host().Do(ctx, func() {
		for _, s := range l.seats {
			text := s.agent.Status() + "  session " + s.agent.ID() + "  " + l.shell.Route(s.agent)
			if s.agent == l.Agent() {
				text += "  (at the prompt)"
			}
			rows = append(rows, [2]string{s.name, render.Visible(text)})
		}
	})
	cols, _ := l.ed.Size()
	l.ed.Print(twoColumns(rows, cols))
}

func (l *Loop) newAgent(ctx context.Context, name string) {
	taken := false
	_ = l.shell.Host().Do(ctx, func() { taken = name != "" && l.seats.named(name) != nil })
	if taken || strings.ContainsAny(name, " \t") {
		l.Say(render.Visible("/agent new: " + name + " is taken, or no name: a word, as in /agent new review"))
		return
	}
	defer l.opens()()
	a, err := l.shell.New()
	if err != nil {
		l.Say(render.Visible(err.Error()))
		return
	}
	l.use(a, name)
	_ = l.shell.Host().Do(ctx, func() { name = l.seats.of(a).name })
	l.Say(render.Visible("agent " + name + ", session " + a.ID()))
}

// otherAgent switches to an agent, or ends one that is not at the prompt.
func (l *Loop) otherAgent(ctx context.Context, verb, name string) {
	var found loop.Agent
	var names []string
	_ = l.shell.Host().Do(ctx, func() {
		for _, s := range l.seats {
			names = append(names, s.name)
			if s.name == name || s.agent.ID() == name {
				found = s.agent
			}
		}
	})
	switch {
	case found == nil:
		hint := agentUsage
		if near := runtime.Nearest(name, names); near != "" {
			hint = "did you mean " + near + "?"
		}
		l.Say(render.Visible(fmt.Sprintf("/agent %s: there is no agent %q; %s", verb, name, hint)))
	case found == l.Agent() && verb == "end":
		l.Say("it is at the prompt: /agent switch to another one first, or /new")
	case found == l.Agent():
		l.Say("it is at the prompt")
	case verb == "end":
		l.shell.Host().Thread.Go(context.Background(), func() {
			if err := found.Dispose(); err != nil {
				l.Say(render.Visible(err.Error()))
			}
		})
		l.Say(render.Visible(name + " has ended; its session is kept"))
	default:
		l.use(found, "")
		l.Say(render.Visible("now with " + name))
	}
}

// completeAgents completes what follows /agent.
func (l *Loop) completeAgents(arg string) []string {
	verb, _, ok := strings.Cut(arg, " ")
	if !ok {
		return []string{"end ", "list", "new ", "switch "}
	}
	var words []string
	if verb == "switch" || verb == "end" {
		_ = l.shell.Host().Do(context.Background(), func() {
			for _, s := range l.seats {
				if s.agent != l.Agent() {
					words = append(words, verb+" "+s.name)
				}
			}
		})
	}
	return words
}
