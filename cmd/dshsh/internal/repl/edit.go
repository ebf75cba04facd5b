package repl

import (
	"slices"
	"strings"

	"github.com/chzyer/readline"
)

// handle does what a key asks for. It returns what readline is to do, and for a line that
// readline is to submit or give up, that line. It runs on readline's operation goroutine.
func (e *Editor) handle(k key) (do rune, line []rune) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hint = ""
	if k.kind != keyTab && k.kind != keyBackTab {
		e.comp = nil
	}
	e.compRun++ // what a completion that still runs returns is too late
	if e.search != nil && e.searchKey(k) {
		return readline.CharBell, nil
	}
	in := e.cur
	b := &in.buf
	switch k.kind {
	case keyText, keyPaste:
		b.insert(e.pastes.runes(k.text))
	case keyNewline:
		b.insert([]rune{'\n'})
	case keyEnter:
		return e.enter(in)
	case keyInterrupt:
		if in.ask != nil {
			e.answer(in.ask, "", ErrInterrupted)
			break
		}
		line = b.text
		if len(line) > 0 {
			e.out.add(e.echoed(in, "^C"))
		}
		e.reset(in)
		return readline.CharInterrupt, line
	case keyEOF:
		switch {
		case len(b.text) > 0:
			e.cutTo(b, b.right(b.pos), false)
		case in.ask != nil:
			e.answer(in.ask, "", ErrInterrupted)
		default:
			return readline.CharDelete, nil
		}
	case keyLeft:
		b.pos = b.left(b.pos)
	case keyRight:
		b.pos = b.right(b.pos)
	case keyHome:
		b.pos = b.lineStart(b.pos)
	case keyEnd:
		b.pos = b.lineEnd(b.pos)
	case keyWordLeft:
		b.pos = b.wordLeft(b.pos)
	case keyWordRight:
		b.pos = b.wordRight(b.pos)
	case keyUp:
		e.vertical(in, -1)
	case keyDown:
		e.vertical(in, 1)
	case keyBackspace:
		e.cutTo(b, b.left(b.pos), false)
	case keyDelete:
		e.cutTo(b, b.right(b.pos), false)
	case keyKillEnd:
		end := b.lineEnd(b.pos)
		if end == b.pos { // at the end of a line: the line end itself
			end = min(end+1, len(b.text))
		}
		e.cutTo(b, end, true)
	case keyKillStart:
		e.cutTo(b, b.lineStart(b.pos), true)
	case keyKillWordLeft:
		e.cutTo(b, b.wordLeft(b.pos), true)
	case keyKillWordRight:
		e.cutTo(b, b.wordRight(b.pos), true)
	case keyYank:
		b.insert(e.kill)
	case keyTranspose:
		b.transpose()
	case keyTab:
		e.complete(1)
	case keyBackTab:
		e.complete(-1)
	case keySearch:
		if in.ask == nil {
			e.search = &search{at: len(e.hist.entries), saved: slices.Clone(b.text), savedPos: b.pos}
		}
	case keyClear:
		e.out.add(clearScreen)
	case keySuspend:
		go e.suspend()
	case keyCompose:
		e.composeLine()
	}
	return readline.CharBell, nil
}

// cutTo removes what is between the cursor and to, keeping it for a yank if kept. Editor.mu
// is held.
func (e *Editor) cutTo(b *buffer, to int, kept bool) {
	if to == b.pos {
		e.ring()
		return
	}
	gone := b.cut(min(b.pos, to), max(b.pos, to))
	if kept {
		e.kill = gone
	}
}

// enter ends the line, or adds one to it. Editor.mu is held.
func (e *Editor) enter(in *input) (do rune, line []rune) {
	b := &in.buf
	if in.ask != nil {
		text := strings.TrimSpace(e.pastes.expand(b.text))
		if want := in.ask.wants(text); want != "" {
			e.ring()
			e.hint = "that is no answer to the question above: type " + want + "; Ctrl-C to give none"
			b.set(nil)
			return readline.CharBell, nil
		}
		e.answer(in.ask, text, nil)
		return readline.CharBell, nil
	}
	block, backslash := unfinished(string(b.text))
	switch {
	case block:
		b.pos = len(b.text)
		b.insert([]rune{'\n'})
		return readline.CharBell, nil
	case backslash:
		b.set(append(b.text[:len(b.text)-1], '\n'))
		return readline.CharBell, nil
	case strings.TrimSpace(string(b.text)) == "":
		b.set(nil)
		return readline.CharBell, nil
	}
	line = b.text
	e.out.add(e.echoed(in, ""))
	e.reset(in)
	return readline.CharEnter, line
}

// echoed is how the input stays on the screen. Editor.mu is held.
func (e *Editor) echoed(in *input, mark string) string {
	s := echo(in.prompt, in.buf.text, e.pastes.label)
	return s[:len(s)-1] + mark + "\n"
}

// reset empties the input. Editor.mu is held.
func (e *Editor) reset(in *input) {
	in.buf = buffer{}
	in.browse = browse{at: len(e.hist.entries)}
}

// vertical moves the cursor one row up or down, or from the first or last row to another
// entry of the history. Editor.mu is held.
func (e *Editor) vertical(in *input, delta int) {
	l := layout{width: max(e.cols, 1), label: e.pastes.label}
	if pos, ok := l.vertical(in.prompt, in.buf.text, in.buf.pos, delta); ok {
		in.buf.pos = pos
		return
	}
	if in.ask != nil {
		return
	}
	if text, ok := in.browse.step(&e.hist, &in.buf, delta); !ok {
		e.ring()
	} else if text != nil {
		in.buf.set(slices.Clone(text))
	} else {
		in.buf.set(e.recall(in.browse.at))
	}
}

// recall returns the entry at i of the history as a line. Editor.mu is held.
func (e *Editor) recall(i int) []rune {
	if i >= len(e.hist.entries) {
		return nil
	}
	return e.pastes.runes(e.hist.entries[i])
}

// suspend stops the program as Ctrl-Z does.
func (e *Editor) suspend() {
	defer e.contain("Ctrl-Z")
	err := e.Lend(func() error { stopSelf(); return nil })
	if err != nil && err != ErrClosed {
		e.complain(err)
	}
}
