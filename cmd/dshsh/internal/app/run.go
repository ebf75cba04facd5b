package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"dshsh/cmd/dshsh/internal/config"
	"dshsh/cmd/dshsh/internal/render"
	"dshsh/loop"
	"dshsh/loop/model"
	"dshsh/loop/policy"
	"dshsh/runtime"
	"dshsh/session"
)

// oneShot collects what `dshsh run` shows. Its methods run on the host thread, except
// say.
type oneShot struct {
	e       *Env
	typed   string // what of the prompt the person wrote
	json    bool
	render  *render.Renderer
	box     *outbox
	reason  loop.EndReason
	scripts bool // the turn's error is a script's

	cancelled bool // by a signal; run's goroutine
}

// say shows a line beside the reply.
func (o *oneShot) say(line string) { o.box.put(true, []byte(line+"\n")) }

// record handles one record of the run.
func (o *oneShot) record(rec session.Record) error {
	if rec.Type == loop.RecTurnEnd {
		var d loop.TurnEnd
		if err := json.Unmarshal(rec.Data, &d); err == nil {
			o.reason = d.Reason
		}
	}
	if o.json {
		line, err := rec.MarshalJSON()
		if err != nil {
			return err
		}
		o.box.put(false, append(line, '\n'))
		return nil
	}
	switch rec.Type {
	case loop.RecChunk:
		return nil
	case loop.RecAssistant:
		return o.reply(rec)
	}
	if text := o.render.Record(rec); text != "" {
		o.box.put(true, []byte(text))
	}
	return nil
}

// reply puts the text of a message on standard output, unless tools follow: then it is
// on the way to the reply.
func (o *oneShot) reply(rec session.Record) error {
	var d loop.AssistantMessage
	if err := json.Unmarshal(rec.Data, &d); err != nil {
		return err
	}
	text := model.PlainText(d.Message.Content)
	for _, b := range d.Message.Content {
		if b.Type == model.BlockToolCall {
			if text != "" {
				o.say(render.Visible(text))
			}
			return nil
		}
	}
	if text == "" {
		return nil
	}
	if o.e.TTY {
		text = render.Visible(text)
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	o.box.put(false, []byte(text))
	return nil
}

// runOnce is `dshsh run`.
func runOnce(ctx context.Context, e *Env, f *flags, args []string) error {
	prompt, err := promptText(e, args)
	if err != nil {
		return err
	}
	// From here to the very end: a signal that comes while what the run started is being
	// ended must not keep that from being done.
	sigs, stopSignals := e.Signals(interrupts...)
	defer stopSignals()
	_, stopPipe := e.Signals(syscall.SIGPIPE) // so that a reader who leaves is an error, not the end
	defer stopPipe()
	o := &oneShot{e: e, typed: typedPart(args, prompt), json: f.json, box: newOutbox(e.Stdout, e.Stderr), render: render.New(render.Options{Color: false})}
	err = o.ask(ctx, f, prompt, sigs)
	switch werr := o.box.close(sigs, o.cancelled); {
	case errors.Is(werr, syscall.EPIPE):
		return &exitCode{exitSigpipe, nil}
	case errors.Is(werr, errUnread):
		return &exitCode{exitAborted, nil}
	case werr != nil:
		return fmt.Errorf("writing the reply: %w", werr)
	}
	return err
}

// ask runs the prompt in a shell of its own.
func (o *oneShot) ask(ctx context.Context, f *flags, prompt string, sigs <-chan os.Signal) (err error) {
	s, err := newShell(o.e, f, o.say, nil)
	if err != nil {
		return err
	}
	defer func() {
		if !o.end(s, sigs) {
			err = &exitCode{exitAborted, errors.New("cancelled before all that ran had ended")}
		}
	}()
	rep, err := s.start(ctx)
	if err != nil {
		return err
	}
	if len(rep.Failures) > 0 {
		for _, fail := range rep.Failures {
			fail.Denies = false // nothing is asked, so nothing is denied
			o.say(render.Visible(fail.String()))
		}
		return &exitCode{exitScript, errors.New("a script did not load, so nothing was asked; --safe runs without scripts")}
	}
	for _, line := range append(rep.Notices, s.misplaced()) {
		if line != "" {
			o.say(render.Visible(line))
		}
	}
	for _, w := range s.wanting(ctx) {
		o.say(s.wantLine(w))
	}
	if len(rep.Held) > 0 {
		o.say(untrustedLine(s, rep))
		if s.cfg.Approve == string(policy.ModeAll) {
			return &exitCode{exitScript, errors.New("--approve all without the scripts that may guard this folder: nothing was asked; pass --trust, or --safe to go without them")}
		}
	}
	if s.cfg.NoKey && f.provider == "" {
		o.say("no model is configured: the offline provider answers; set " + config.Keys + ", or pass --base-url")
	}
	return o.run(ctx, s, prompt, sigs)
}

// end ends the shell. After a signal, also one that comes meanwhile, all that is left has
// insistAfter; false says that it was not enough: then nothing is running any more that
// the shell started, and the log is whole.
func (o *oneShot) end(s *sh, sigs <-chan os.Signal) bool {
	var late <-chan time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.stop()
	}()
	for {
		if o.cancelled && late == nil {
			late = time.After(insistAfter)
		}
		select {
		case <-done:
			return true
		case <-sigs:
			o.cancelled = true
		case <-late:
			s.abandon()
			return false
		}
	}
}

func (o *oneShot) run(ctx context.Context, s *sh, prompt string, sigs <-chan os.Signal) error {
	var a loop.Agent
	if err := s.host.Do(ctx, func() {
		loop.AgentError.On(s.host.Host, func(p loop.ErrorPayload) error {
			var se *runtime.ScriptError
			if o.scripts = errors.As(p.Error, &se); o.scripts {
				o.render.Blame(se.Error())
			}
			return nil
		})
		loop.SessionEvent.On(s.host.Host, func(p loop.RecordPayload) error {
			return o.record(recordOf(p, s))
		})
	}); err != nil {
		return err
	}
	a, rep, err := s.session()
	if err != nil {
		return err
	}
	for _, line := range reportLines(rep) {
		o.say(line)
	}
	if s.cfg.Routed {
		_ = s.host.Do(ctx, func() { a.SetModel(s.cfg.Provider, s.cfg.Model) })
	}
	select {
	case <-sigs:
		return &exitCode{exitAborted, nil}
	default:
	}
	m := loop.UserMessage(prompt)
	blocks, notes := s.attach(ctx, a, o.typed)
	m.Content = append(m.Content, blocks...)
	for _, line := range notes {
		o.say(render.Visible(line))
	}
	idle := make(chan error, 1)
	if derr := s.host.Do(ctx, func() {
		s.host.SetCurrent(a)
		err = a.Followup(m) // when it returns, the turn is there to be cancelled
	}); derr != nil || err != nil {
		return errors.Join(derr, err)
	}
	s.host.Thread.Go(ctx, func() { idle <- a.WhenIdle(context.Background()) })
	broken := o.box.broken
	for {
		select {
		case <-sigs:
			if o.cancelled {
				// What goes on after a cancel is a script's doing: the agent is disposed, which no
				// script can outlive.
				return &exitCode{exitAborted, nil}
			}
			o.cancelled = true
			a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
		case <-broken:
			broken = nil
			a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
		case err := <-idle:
			if err != nil {
				return err
			}
			return o.result(loop.Account(a.Session().Records()).DroppedUnrun)
		}
	}
}

// result is the exit code that the turn's end means; dropped says that the prompt was
// taken out of the inbox before there was a turn.
func (o *oneShot) result(dropped bool) error {
	switch o.reason.Kind {
	case loop.EndCompleted:
		return nil
	case loop.EndBlocked:
		return &exitCode{exitBlocked, nil}
	case loop.EndMaxTokens:
		return &exitCode{exitCap, nil}
	case loop.EndAborted:
		return &exitCode{exitAborted, nil}
	case "":
		if dropped {
			o.say("[cancelled: a script dropped the prompt before its turn began]")
			return &exitCode{exitAborted, nil}
		}
	case loop.EndError:
		switch {
		case o.reason.Error != nil && o.reason.Error.Code == "CAP_STEPS":
			return &exitCode{exitCap, nil}
		case o.scripts:
			return &exitCode{exitScript, nil}
		}
	}
	return &exitCode{exitError, nil}
}

// recordOf is the record that an event shows. The log has it: the last of the snapshot.
func recordOf(p loop.RecordPayload, _ *sh) session.Record {
	return p.Session.Records()[p.Event.Seq]
}

// typedPart is what of a prompt may name files with @: the arguments, or, where there are
// none, what was piped in as the prompt. What is piped in beside one is material.
func typedPart(args []string, prompt string) string {
	words := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == outStdin })
	if text := strings.Join(words, " "); strings.TrimSpace(text) != "" {
		return text
	}
	return prompt
}

// promptText joins the arguments and what is piped in.
func promptText(e *Env, args []string) (string, error) {
	var words []string
	stdin := e.Piped
	for _, a := range args {
		if a == outStdin {
			stdin = true
			continue
		}
		words = append(words, a)
	}
	prompt := strings.Join(words, " ")
	// A file is read only when it is asked for, or when there is nothing else: a loop over
	// the lines of one must keep them.
	if stdin || prompt == "" && !e.Typed {
		b, err := io.ReadAll(e.Stdin)
		if err != nil {
			return "", fmt.Errorf("reading standard input: %w", err)
		}
		if text := strings.TrimRight(string(b), "\n"); text != "" {
			if prompt != "" {
				prompt += "\n\n"
			}
			prompt += text
		}
	}
	if strings.TrimSpace(prompt) == "" {
		return "", usage(errors.New("nothing to ask: dshsh run PROMPT, or pipe it in"))
	}
	return prompt, nil
}

// reportLines says what opening a session found.
func reportLines(rep *session.Report) []string {
	if rep == nil {
		return nil
	}
	var out []string
	if rep.Torn != nil {
		out = append(out, fmt.Sprintf("the session's last record was cut off by a crash: %d bytes were put aside in %s", rep.Torn.Bytes, filepath.Base(rep.Torn.SavedAs)))
	}
	if rep.Closers > 0 {
		out = append(out, "the last turn was interrupted by a crash and has been closed")
	}
	return append(out, rep.Warnings...)
}

// abandon leaves nothing running and nothing unwritten, without the thread: for when the
// program has not ended in order.
func (s *sh) abandon() {
	s.rescue()
	_ = s.bash.Close() // nobody is left to be told
}

// rescue makes durable what can be without the thread.
func (s *sh) rescue() {
	if err := s.host.SyncLogs(); err != nil {
		fmt.Fprintf(os.Stderr, "dshsh: %v\r\n", err)
	}
}
