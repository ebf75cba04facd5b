package repl

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/loop/model"
)

const queueUsage = "/queue shows what waits; /queue rm N, /queue mv N TO, /queue edit N [TEXT], /queue clear change it; `>> text` queues a prompt"

// waiting is one message that waits for the agent. A value.
type waiting struct {
	target string
	at     int // its place there
	m      model.Message
}

// waits lists what waits, in the order in which it is taken: the next step's first. On
// the thread.
func waits(a loop.Agent) (out []waiting) {
	for i, m := range a.Inbox().NextStep() {
		out = append(out, waiting{loop.NextStep, i, m})
	}
	for i, m := range a.Inbox().NextTurn() {
		out = append(out, waiting{loop.NextTurn, i, m})
	}
	return out
}

// cmdQueue shows and changes what waits for the agent. The numbers are those that /queue
// shows; what has been taken meanwhile is told, never hit by mistake for something else
// that moved up: a change names the message.
func (l *Loop) cmdQueue(ctx context.Context, args string) {
	a := l.Agent()
	verb, rest, _ := strings.Cut(args, " ")
	number, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	rest = strings.TrimSpace(rest)
	say := ""
	_ = l.shell.Host().Do(ctx, func() {
		if verb == "" || verb == "clear" {
			say = l.queueAll(a, verb == "clear")
			return
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			say = queueUsage
			return
		}
		w, err := l.numbered(a, n)
		if err == nil {
			say, err = l.queueOne(a, verb, w, rest)
		}
		if err != nil {
			say = "/queue " + verb + ": " + err.Error()
		}
	})
	if say != "" {
		l.Say(render.Visible(say))
	}
}

// queueAll lists what waits, or drops it: then the records say what was dropped. On the
// thread.
func (l *Loop) queueAll(a loop.Agent, clear bool) string {
	list := waits(a)
	if len(list) == 0 {
		return "nothing waits"
	}
	if clear {
		if err := a.Inbox().Clear(); err != nil {
			return err.Error()
		}
		return ""
	}
	l.queued = nil
	var lines []string
	for i, w := range list {
		l.queued = append(l.queued, w.m.ID)
		where := ""
		if w.target == loop.NextStep {
			where = "next step: "
		}
		lines = append(lines, fmt.Sprintf("%d: %s%s", i+1, where, firstWords(w.m)))
	}
	return strings.Join(lines, "\n")
}

// numbered is the message with the number that /queue showed, or would show if it has not
// been asked. On the thread.
func (l *Loop) numbered(a loop.Agent, n int) (waiting, error) {
	list := waits(a)
	ids := l.queued
	if ids == nil {
		for _, w := range list {
			ids = append(ids, w.m.ID)
		}
	}
	if n < 1 || n > len(ids) {
		return waiting{}, fmt.Errorf("there is no message %d; /queue shows what waits", n)
	}
	for _, w := range list {
		if w.m.ID == ids[n-1] {
			return w, nil
		}
	}
	return waiting{}, fmt.Errorf("message %d is gone: the agent has taken it, or it was dropped", n)
}

// queueOne changes one message. On the thread.
func (l *Loop) queueOne(a loop.Agent, verb string, w waiting, rest string) (say string, err error) {
	in := a.Inbox()
	switch verb {
	case "rm":
		_, err = in.Remove(w.m.ID)
		return "", err // the record says it
	case "edit":
		if rest == "" {
			number := 0
			for i, o := range waits(a) {
				if o.m.ID == w.m.ID {
					number = i + 1
				}
			}
			l.queued = nil
			l.ed.Prefill(fmt.Sprintf("/queue edit %d %s", number, w.m.Words()))
			return "", nil
		}
		m := w.m
		m.Content = []model.Block{{Type: model.BlockText, Text: rest}}
		ok, err := in.Replace(w.m.ID, m)
		if err == nil && !ok {
			err = fmt.Errorf("it is gone: the agent has taken it")
		}
		return "", err
	case "mv":
		to, err := strconv.Atoi(rest)
		if err != nil {
			return queueUsage, nil
		}
		list := waits(a)
		if to < 1 || to > len(list) || list[to-1].target != w.target {
			return "", fmt.Errorf("there is no place %d for it: steering stays in front of prompts", to)
		}
		at := list[to-1].at
		var moved []model.Message // those between the two places, in their new order
		for _, o := range list {
			if o.target == w.target && o.at != w.at && o.at >= min(at, w.at) && o.at <= max(at, w.at) {
				moved = append(moved, o.m)
			}
		}
		if at < w.at {
			moved = slices.Insert(moved, 0, w.m)
		} else {
			moved = append(moved, w.m)
		}
		if _, err := in.Splice(w.target, min(at, w.at), len(moved), moved...); err != nil {
			return "", err
		}
		l.queued = nil
		return l.queueAll(a, false), nil
	}
	return queueUsage, nil
}

func firstWords(m model.Message) string {
	text := render.Beginning(m.Words(), 70)
	if m.Source.Plugin != "" {
		text += " (" + m.Source.Plugin + ")"
	}
	return text
}
