package repl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/muesli/cancelreader"
)

// readPlain reads lines of any length from an input that is no terminal, or a dumb one,
// and delivers them as they are taken.
func (e *Editor) readPlain() {
	defer close(e.read)
	defer e.contain("reading")
	in := e.cfg.In
	if f, ok := in.(*os.File); ok {
		// So that Close can end the read. Files that cannot be waited for never block.
		if r, err := cancelreader.NewReader(f); err == nil {
			defer r.Close()
			stop := make(chan struct{})
			defer func() { <-stop }()
			ended := make(chan struct{})
			defer close(ended)
			go func() {
				defer close(stop)
				select {
				case <-e.closed:
					r.Cancel()
				case <-ended:
				}
			}()
			in = r
		}
	}
	br := bufio.NewReaderSize(in, 64<<10)
	text, first := "", true
	for {
		line, err := br.ReadString('\n')
		if err != nil && err != io.EOF && !errors.Is(err, cancelreader.ErrCanceled) {
			e.complain(fmt.Errorf("read standard input: %w", err))
		}
		if err != nil && line == "" {
			break
		}
		line = strings.ToValidUTF8(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), "\ufffd")
		if first {
			text, first = line, false
		} else {
			text += "\n" + line
		}
		block, backslash := unfinished(text)
		if backslash {
			text = text[:len(text)-1]
		}
		if (block || backslash) && err == nil {
			continue
		}
		e.plainLine(text)
		first = true
		if err != nil {
			break
		}
	}
	if !first {
		e.plainLine(text) // the input ended within a block
	}
	e.push(Event{Kind: EOF})
}

// plainLine delivers one line, as an answer if a question is asked, and waits until it has
// been taken.
func (e *Editor) plainLine(text string) {
	text = unquote(text)
	e.mu.Lock()
	if q := e.cur.ask; q != nil {
		defer e.redraw()
		defer e.mu.Unlock()
		answer := strings.TrimSpace(text)
		if want := q.wants(answer); want == "" {
			e.answer(q, answer, nil)
		} else {
			e.out.add("that is no answer: type " + want + "; " + q.text + "\n")
		}
		return
	}
	e.mu.Unlock()
	if strings.TrimSpace(text) == "" {
		return
	}
	e.push(Event{Kind: Line, Text: text})
	select {
	case <-e.taken:
	case <-e.closed:
	}
}
