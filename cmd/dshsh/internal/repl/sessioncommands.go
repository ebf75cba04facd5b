package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/session"
)

func (l *Loop) cmdNew(context.Context, string) {
	defer l.opens()()
	a, err := l.shell.New()
	if err != nil {
		l.Say(render.Visible(err.Error()))
		return
	}
	l.swap(a)
	l.Say("new session " + a.ID())
}

// maxListed is how many sessions and turns a list shows.
const maxListed = 20

func (l *Loop) cmdResume(_ context.Context, id string) {
	if id == "" {
		l.listSessions()
		return
	}
	// A number is a place in the list, unless a session is called so.
	if n, err := strconv.Atoi(id); err == nil && n >= 1 && n <= len(l.listed) && n <= maxListed {
		id = l.listed[n-1]
	}
	defer l.opens()()
	a, rep, err := l.shell.Resume(id)
	if err != nil {
		l.Say(render.Visible(err.Error()))
		return
	}
	l.Say("session " + a.ID())
	if rep != nil && rep.Closers > 0 {
		l.Say("its last turn was interrupted and has been closed")
	}
	l.swap(a)
}

func (l *Loop) cmdSessions(context.Context, string) { l.listSessions() }

// listSessions shows the stored sessions of this folder, numbered for /resume.
func (l *Loop) listSessions() {
	infos, err := l.shell.Sessions()
	if err != nil {
		l.Say(render.Visible(err.Error()))
		return
	}
	if len(infos) == 0 {
		l.Say("no stored sessions of this folder")
		return
	}
	l.listed = nil
	cols, _ := l.ed.Size()
	for i, in := range infos {
		l.listed = append(l.listed, in.ID)
		if i >= maxListed {
			continue
		}
		line := fmt.Sprintf("%2d  %s  %s", i+1, time.UnixMilli(in.Updated).Format("2006-01-02 15:04"), in.ID)
		switch {
		case in.ID == l.Agent().ID():
			line += "  (this one)"
		case in.Holder != nil:
			line += "  (open in " + in.Holder.String() + ")"
		}
		if in.Warning != "" {
			line += "  ! " + in.Warning
		} else if title := l.shell.Title(in.ID); title != "" {
			line += "  " + title
		}
		l.ed.Print(render.Clip(render.Visible(line), cols))
	}
	if n := len(infos) - maxListed; n > 0 {
		l.Say(fmt.Sprintf("... %d more: dshsh session list", n))
	}
	l.Say("/resume N or /resume ID goes on with one")
}

// cmdFork goes on in a copy of the session, up to a record or to its end.
func (l *Loop) cmdFork(_ context.Context, at string) {
	defer l.opens()()
	boundary := session.Last
	if at != "" {
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil || n < 0 {
			l.Say("/fork [SEQ]: the number of the last record that the copy keeps, as in the log; /rewind N goes back by turns")
			return
		}
		boundary = n
	}
	old := l.Agent()
	a, err := l.branch(func(h *loop.Host) (loop.Agent, error) {
		return h.Fork(old.ID(), boundary, loop.CreateOptions{Options: old.Options()})
	})
	if err != nil {
		l.Say(render.Visible(branchError("/fork", err)))
		return
	}
	l.swap(a)
	l.Say("forked: this is session " + a.ID() + "; " + old.ID() + " stays as it is")
}

// cmdRewind goes back to before a turn, in a copy of the session: its prompt is put into
// the line.
func (l *Loop) cmdRewind(ctx context.Context, arg string) {
	defer l.opens()()
	old := l.Agent()
	var turns []loop.TurnSpan
	_ = l.shell.Host().Do(ctx, func() { turns = loop.Turns(old.Session().Records()) })
	if len(turns) == 0 {
		l.Say("there is no turn to go back to")
		return
	}
	if arg == "" {
		l.listTurns(turns)
		return
	}
	n, err := strconv.Atoi(arg)
	var at *loop.TurnSpan
	keep := 0
	for i := range turns {
		if turns[i].Turn == n {
			at = &turns[i]
			break
		}
		keep = turns[i].Turn
	}
	if err != nil || at == nil {
		l.Say(fmt.Sprintf("/rewind N: a turn from %d to %d; /rewind lists them", turns[0].Turn, turns[len(turns)-1].Turn))
		return
	}
	a, err := l.branch(func(h *loop.Host) (loop.Agent, error) {
		return h.Rewind(old.ID(), keep, loop.CreateOptions{Options: old.Options()})
	})
	if err != nil {
		l.Say(render.Visible(branchError("/rewind", err)))
		return
	}
	l.swap(a)
	l.Say(fmt.Sprintf("back before turn %d: this is session %s, %s stays as it is; files are not changed back", n, a.ID(), old.ID()))
	if at.Prompt != "" {
		l.ed.Prefill(at.Prompt)
	}
}

func (l *Loop) listTurns(turns []loop.TurnSpan) {
	if n := len(turns) - maxListed; n > 0 {
		l.Say(fmt.Sprintf("... %d earlier turns", n))
		turns = turns[n:]
	}
	cols, _ := l.ed.Size()
	for _, t := range turns {
		text := strings.Join(strings.Fields(t.Prompt), " ")
		if text == "" {
			text = "(not begun by a prompt)"
		}
		if t.End < 0 {
			text += " (runs)"
		} else if t.Reason.Kind != loop.EndCompleted {
			text += " (" + t.Reason.Kind + ")"
		}
		l.ed.Print(render.Clip(render.Visible(fmt.Sprintf("%3d  %s", t.Turn, text)), cols))
	}
	l.Say("/rewind N goes back to before turn N, in a copy of the session")
}

// branch makes an agent on the host thread.
func (l *Loop) branch(make func(h *loop.Host) (loop.Agent, error)) (a loop.Agent, err error) {
	h := l.shell.Host()
	if derr := h.Do(context.Background(), func() { a, err = make(h) }); derr != nil {
		err = derr
	}
	return a, err
}

func branchError(command string, err error) string {
	if errors.Is(err, session.OpenTurn) {
		return command + ": a turn runs there; cancel it with Ctrl-C or wait for its end"
	}
	return command + ": " + err.Error()
}

// cmdExport writes the session as Markdown.
func (l *Loop) cmdExport(ctx context.Context, file string) {
	a := l.Agent()
	if file == "" {
		file = a.ID() + ".md"
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(l.shell.Dir(), file)
	}
	var text string
	_ = l.shell.Host().Do(ctx, func() { text = render.Markdown(a.Session().Header(), a.Session().Records()) })
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		l.Say(render.Visible("/export: " + err.Error()))
		return
	}
	l.Say(render.Visible("written: " + file))
}
