package repl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"dshsh/cmd/dshsh/internal/render"
)

// A question waits until the person who types a line pauses, so that what they type next
// is not taken for the answer; but not forever.
const (
	typingPause = 400 * time.Millisecond
	typingLimit = 3 * time.Second
)

// question is one call of Ask. Its fields are set before use, but result and err, which
// are set before done is closed.
type question struct {
	text   string // the last line of it: the prompt
	check  func(string) string
	done   chan struct{}
	result string
	err    error
}

// wants is what may be answered, when answer is none, else "".
func (q *question) wants(answer string) string {
	if q.check == nil {
		return ""
	}
	return q.check(answer)
}

// Ask puts a question at the prompt and waits for the answer: a line without the white
// space around it. The last line of question is the prompt, the ones before are printed
// above; it is made visible (see render.Visible). check, if not nil, gives "" for an
// answer that is one, else what may be answered, such as "y or n"; then it is asked on.
// It must neither wait nor call the Editor.
// Questions are asked one after the other.
//
// What the user had half typed is kept and put back afterwards. The question appears when
// they pause, so that a word meant for that line does not answer it.
//
// The error is ErrInterrupted after Ctrl-C or Ctrl-D, ctx's cause when that ends first,
// ErrNoPerson without a terminal or when it is gone, ErrClosed after Close. Ask waits: on the host thread
// call it only through Away.
func (e *Editor) Ask(ctx context.Context, question string, check func(string) string) (string, error) {
	return e.put(ctx, asked{text: question, check: check})
}

// asked is what put asks.
type asked struct {
	above string // printed before the question; it may have colours (see render.Printable)
	text  string
	begin string // stands in the line already
	check func(string) string
}

// put is Ask with more to show.
func (e *Editor) put(ctx context.Context, what asked) (string, error) {
	if !e.person {
		return "", ErrNoPerson
	}
	select {
	case e.asking <- struct{}{}:
		defer func() { <-e.asking }()
	case <-ctx.Done():
		return "", fmt.Errorf("ask: %w", context.Cause(ctx))
	case <-e.closed:
		return "", ErrClosed
	}
	if err := e.awaitPause(ctx); err != nil {
		return "", err
	}
	q := e.begin(what)
	e.redraw()
	select {
	case <-q.done:
		return q.result, q.err
	case <-ctx.Done():
		e.withdraw(q)
		return "", fmt.Errorf("ask: %w", context.Cause(ctx))
	case <-e.closed:
		return "", ErrClosed
	case <-e.read: // nobody is there any more
		select {
		case <-q.done:
			return q.result, q.err
		case <-e.closed:
			return "", ErrClosed
		default:
			e.withdraw(q)
			return "", ErrNoPerson
		}
	}
}

// awaitPause returns when nobody is in the middle of typing a line.
func (e *Editor) awaitPause(ctx context.Context) error {
	if e.keys == nil {
		return nil
	}
	tick := time.NewTicker(typingPause / 8)
	defer tick.Stop()
	limit := time.NewTimer(typingLimit)
	defer limit.Stop()
	for {
		e.mu.Lock()
		half := len(e.base.buf.text) > 0
		e.mu.Unlock()
		if !half || !e.keys.typing(typingPause) {
			return nil
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("ask: %w", context.Cause(ctx))
		case <-e.closed:
			return ErrClosed
		}
	}
}

// answerRoom is how many cells a question leaves for its answer.
const answerRoom = 8

// begin shows a question.
func (e *Editor) begin(what asked) *question {
	text := strings.TrimRight(render.Visible(what.text), "\n")
	// A prompt that fills the row is not shown at all: what does not fit stands above.
	if cols, _ := e.Size(); e.tty != nil && cols > 0 {
		head, last := "", text
		if nl := strings.LastIndexByte(text, '\n'); nl >= 0 {
			head, last = text[:nl+1], text[nl+1:]
		}
		if render.Width(last)+answerRoom > cols {
			text = head + render.Wrap(last, max(cols-answerRoom, 1))
		}
	}
	q := &question{text: text, check: what.check, done: make(chan struct{})}
	e.mu.Lock()
	defer e.mu.Unlock()
	if what.above != "" {
		e.out.add(render.Printable(what.above))
	}
	if nl := strings.LastIndexByte(text, '\n'); nl >= 0 {
		e.out.add(text[:nl+1])
		q.text = text[nl+1:]
	}
	if e.tty == nil { // a dumb terminal: there is no line to put it on
		e.out.add(q.text + "\n")
	}
	if q.text != "" && !strings.HasSuffix(q.text, " ") {
		q.text += " "
	}
	e.search, e.comp = nil, nil
	e.ring()
	e.cur = &input{prompt: q.text, ask: q}
	e.cur.buf.set([]rune(what.begin))
	return q
}

// answer ends the question that is asked. Editor.mu is held.
func (e *Editor) answer(q *question, result string, err error) {
	if e.cur.ask != q {
		return
	}
	mark := ""
	if err != nil {
		mark = "^C"
	}
	if e.tty != nil {
		e.out.add(e.echoed(e.cur, mark))
	}
	q.result, q.err = result, err
	close(q.done)
	e.cur = &e.base
}

// withdraw takes an unanswered question from the screen.
func (e *Editor) withdraw(q *question) {
	e.mu.Lock()
	if e.cur.ask == q {
		if e.tty != nil {
			e.out.add(e.echoed(e.cur, " (withdrawn)"))
		}
		e.cur = &e.base
	}
	e.mu.Unlock()
	e.redraw()
}
