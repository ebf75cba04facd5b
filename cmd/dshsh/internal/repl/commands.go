package repl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/runtime"
)

// command is a built-in slash command.
type command struct {
	name, args, help string
	run              func(l *Loop, ctx context.Context, args string)
}

var commands []command

func init() {
	commands = []command{
		{"help", "", "what can be typed here", (*Loop).cmdHelp},
		{"new", "", "begin a new session", (*Loop).cmdNew},
		{"sessions", "", "list the stored sessions of this folder", (*Loop).cmdSessions},
		{"resume", "[N | ID]", "go on with a stored session, or list them", (*Loop).cmdResume},
		{"fork", "[SEQ]", "go on in a copy of the session, up to a record or to its end", (*Loop).cmdFork},
		{"rewind", "[N]", "go back to before turn N in a copy, or list the turns", (*Loop).cmdRewind},
		{"export", "[FILE]", "write the session as Markdown", (*Loop).cmdExport},
		{"show", "[N]", "show tool call N whole, by default the last", (*Loop).cmdShow},
		{"tools", "", "list the agent's tools", (*Loop).cmdTools},
		{"state", "[SCRIPT]", "show what scripts keep in this session", (*Loop).cmdState},
		{"edit", "[SCRIPT]", "write a prompt, or change a script, in $EDITOR", (*Loop).cmdEdit},
		{"agent", "[list | new | switch | end NAME]", "keep several agents in this shell", (*Loop).cmdAgent},
		{"scripts", "[on|off NAME, trust, rollback]", "list the scripts, or switch them", (*Loop).cmdScripts},
		{"reload", "", "look at the scripts now", (*Loop).cmdReload},
		{"rules", "[rm N]", "what runs without a question, or never: the rules", (*Loop).cmdRules},
		{"queue", "[rm N | mv N TO | edit N | clear]", "show or change what waits for the agent", (*Loop).cmdQueue},
		{"inject", "TEXT", "add to the next step without waking the agent", (*Loop).cmdInject},
		{"cancel", "", "cancel the turn, keep the queue", (*Loop).cmdCancel},
		{"compact", "[INSTRUCTIONS]", "have the model summarise the conversation, to make room", (*Loop).cmdCompact},
		{"context", "", "show what fills the model's context window", (*Loop).cmdContext},
		{"model", "[MODEL | PROVIDER/MODEL]", "show or switch the model", (*Loop).cmdModel},
		{"quit", "", "leave", func(l *Loop, _ context.Context, _ string) { l.Quit() }},
	}
}

// CommandNames are those of the built-in slash commands, which no script may take.
func CommandNames() []string {
	names := make([]string, 0, len(commands))
	for _, c := range commands {
		names = append(names, c.name)
	}
	return names
}

// command runs a slash command: a built-in one, or a script's.
func (l *Loop) command(ctx context.Context, text string) {
	name, args, _ := strings.Cut(strings.TrimPrefix(text, "/"), " ")
	args = strings.TrimSpace(args)
	for _, c := range commands {
		if c.name == name {
			c.run(l, ctx, args)
			return
		}
	}
	names := CommandNames()
	h, a := l.shell.Host(), l.Agent()
	found := false
	_ = h.Do(ctx, func() {
		g := h.Current()
		for _, r := range g.Offers(loop.OfferCommand, a) {
			names = append(names, r.Name)
		}
		if r := g.Find(loop.OfferCommand, name, a); r != nil {
			found = true
			l.runScriptCommand(g, r.Spec.(*loop.Command), args)
		}
	})
	if !found {
		hint := "/help lists the commands"
		if near := runtime.Nearest(name, names); near != "" {
			hint = "did you mean /" + near + "?"
		}
		l.Say(fmt.Sprintf("there is no /%s: %s", render.Visible(name), hint))
	}
}

// runScriptCommand begins a script's command, which holds the generation that it began
// with. On the thread.
func (l *Loop) runScriptCommand(g *runtime.Generation, c *loop.Command, args string) {
	g.Hold()
	l.jobs.Add(1)
	l.shell.Host().Thread.Go(context.Background(), func() {
		defer l.jobs.Done()
		defer g.Release()
		out, err := c.Run(l.Agent(), args)
		switch {
		case errors.Is(err, errCancelled):
			l.Say(render.Visible("/" + c.Name + ": cancelled"))
		case err != nil:
			l.Say(render.Visible(fmt.Sprintf("/%s: %v", c.Name, err)))
		case out != "":
			l.Say(render.Visible(strings.TrimRight(out, "\n")))
		}
	})
}

func (l *Loop) cmdHelp(ctx context.Context, _ string) {
	l.Say("Type to ask; while the agent works, Enter steers it and `>> text` queues a prompt. `@file` adds a file. " +
		"!command runs a command and adds its output to the context, !!command only runs it. " +
		"Ctrl-C cancels the turn, again drops the queue; at an empty idle prompt it leaves.")
	rows := make([][2]string, 0, len(commands))
	for _, c := range commands {
		rows = append(rows, [2]string{"/" + strings.TrimSpace(c.name+" "+c.args), c.help})
	}
	h := l.shell.Host()
	_ = h.Do(ctx, func() {
		g := h.Current()
		for _, r := range g.Offers(loop.OfferCommand, l.Agent()) {
			if g.Find(loop.OfferCommand, r.Name, l.Agent()) != r {
				continue // another one of that name is in force
			}
			c := r.Spec.(*loop.Command)
			rows = append(rows, [2]string{"/" + render.Visible(c.Name), render.Visible(c.Description + " (" + r.Instance.File + ")")})
		}
	})
	cols, _ := l.ed.Size()
	l.ed.Print(twoColumns(rows, cols))
}

// twoColumns lays rows out: what is too long for its column stands on a line of its own.
func twoColumns(rows [][2]string, cols int) string {
	left := 0
	for _, r := range rows {
		left = max(left, min(render.Width(r[0]), 34))
	}
	if cols > 0 {
		left = min(left, cols/2)
	}
	var b strings.Builder
	for _, r := range rows {
		pad := left - render.Width(r[0])
		if pad < 0 {
			b.WriteString(render.Wrap("  "+r[0], cols) + "\n")
			r[0], pad = "", left
		}
		indent, room := left+4, 0
		if cols > 0 {
			room = max(cols-indent, 8)
		}
		for i, row := range strings.Split(render.Wrap(r[1], room), "\n") {
			if i == 0 {
				b.WriteString("  " + r[0] + strings.Repeat(" ", pad+2) + row + "\n")
			} else {
				b.WriteString(strings.Repeat(" ", indent) + row + "\n")
			}
		}
	}
	return b.String()
}

func (l *Loop) cmdScripts(ctx context.Context, args string) {
	m := l.shell.Scripts()
	verb, name, _ := strings.Cut(args, " ")
	name = strings.TrimSpace(name)
	var err error
	switch {
	case verb == "":
		l.listScripts(ctx)
		return
	case (verb == "on" || verb == "off") && name == "":
		l.Say("/scripts " + verb + " NAME")
		return
	case verb == "on":
		_, err = m.On(ctx, name)
	case verb == "off":
		_, err = m.Off(ctx, name)
	case verb == "trust":
		err = l.shell.Trust(ctx)
	case verb == "rollback":
		_, err = m.Rollback(ctx)
	default:
		hint := ""
		if near := runtime.Nearest(verb, []string{"off", "on", "trust", "rollback"}); near != "" {
			hint = " (did you mean " + near + "?)"
		}
		l.Say(render.Visible("there is no /scripts "+verb+hint) + "; /scripts, /scripts on NAME, /scripts off NAME, /scripts trust, /scripts rollback")
		return
	}
	if err != nil {
		l.Say(render.Visible(err.Error()))
	}
}

func (l *Loop) listScripts(ctx context.Context) {
	list := l.shell.Scripts().Status(ctx)
	if len(list) == 0 {
		l.Say("no scripts; put *.js, *.ts or *.lua files into .dshsh/scripts")
		return
	}
	for _, s := range list {
		version := ""
		line := fmt.Sprintf("%-24s %s", render.Visible(s.ID), s.State)
		if s.Hash != "" {
			version = fmt.Sprintf("\n    version %.8s, %s, in force since %s (scripts %d)", s.Hash, s.Offers, s.Since.Format("15:04:05"), s.Generation)
		}
		if needs := l.shell.Needs(ctx, s.ID); needs != "" {
			line += "\n    needs " + needs
		}
		if s.Err != nil {
			line += "\n    " + strings.ReplaceAll(render.Visible(s.Err.Error()), "\n", "\n    ")
		}
		l.Say(line + version)
	}
}

func (l *Loop) cmdRules(_ context.Context, args string) {
	verb, arg, _ := strings.Cut(args, " ")
	switch {
	case args == "":
		lines := l.shell.Rules()
		if len(lines) == 0 {
			l.Say("no rules; a question about a call offers some")
		}
		for i, line := range lines {
			l.Say(render.Visible(fmt.Sprintf("%3d  %s", i+1, line)))
		}
	case verb == "rm":
		n, err := strconv.Atoi(strings.TrimSpace(arg))
		if err != nil {
			l.Say("/rules rm N, with a number that /rules shows")
			return
		}
		was, err := l.shell.RemoveRule(n)
		if err != nil {
			l.Say(render.Visible(err.Error()))
			return
		}
		l.Say(render.Visible("removed: " + was))
	default:
		l.Say("/rules lists them, /rules rm N removes one")
	}
}

func (l *Loop) cmdReload(ctx context.Context, _ string) {
	r, err := l.shell.Scripts().Reload(ctx)
	switch {
	case err != nil:
		l.Say(render.Visible(err.Error()))
	case r.Empty():
		l.Say("scripts: nothing has changed")
	}
}

func (l *Loop) cmdInject(ctx context.Context, text string) {
	if text == "" {
		l.Say("/inject TEXT")
		return
	}
	_ = l.shell.Host().Do(ctx, func() {
		switch err := l.Agent().Inject(loop.UserMessage(text)); {
		case err != nil:
			l.Say(render.Visible(err.Error()))
		case l.Agent().Status() == loop.StatusRunning:
			l.Say("added to the next step")
		default:
			l.Say("goes with your next message")
		}
	})
}

func (l *Loop) cmdCancel(context.Context, string) {
	a := l.Agent()
	running, _, holder := l.state(a)
	if !running {
		l.Say("nothing runs")
		return
	}
	a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{KeepInbox: true})
	l.Say("cancelling" + holder)
}

func (l *Loop) cmdModel(ctx context.Context, route string) {
	a := l.Agent()
	if route != "" {
		if err := l.shell.SetRoute(a, route); err != nil {
			l.Say(render.Visible(err.Error()))
			return
		}
	}
	_ = l.shell.Host().Do(ctx, func() {
		line := "model: " + l.shell.Route(a)
		if w := l.shell.Window(a); w != "" {
			line += ", " + w
		}
		l.Say(render.Visible(line))
		l.status()
	})
	if route != "" {
		return
	}
	cols, _ := l.ed.Size()
	l.ed.Print(render.Visible(twoColumns(l.shell.Models(), cols)))
	l.Say("/model MODEL or /model PROVIDER/MODEL switches, from the next request on")
}
