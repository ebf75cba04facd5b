package repl

import (
	"io"

	"github.com/chzyer/readline"
)

// How readline is used. Of the library we keep the loop that reads keys and the buffer
// that a line is submitted from. What it gets wrong is taken out of its hands in this one
// file:
//
//   - Its decoding of keys: it reads markers (see keyReader).
//   - Its drawing (it moves by runes rather than by cells, wraps by its own idea of the
//     width and takes time quadratic in the line): it is told that there is no terminal,
//     and the writing goroutine draws the line (see pen).
//   - Its raw mode, which lasts only as long as a call of Readline.
//   - Its editing (by runes, so that half of an emoji stays): each marker becomes the one
//     key that it does nothing for, and its Listener then tells it the edited line.
//   - Its history file, whose entries are lines.
func (e *Editor) newReadline() (*readline.Instance, error) {
	nothing := func() error { return nil }
	return readline.NewEx(&readline.Config{
		Stdin:                  e.keys,
		Stdout:                 io.Discard,
		Stderr:                 io.Discard,
		FuncIsTerminal:         func() bool { return false },
		FuncMakeRaw:            nothing,
		FuncExitRaw:            nothing,
		FuncGetWidth:           func() int { return 80 },
		FuncOnWidthChanged:     func(func()) {},
		FuncFilterInputRune:    e.filter,
		Listener:               listener{e},
		Painter:                painter{},
		DisableAutoSaveHistory: true,
		UniqueEditLine:         true,
	})
}

// painter shows nothing. It is immutable.
type painter struct{}

func (painter) Paint([]rune, int) []rune { return nil }

// listener gives readline the line as the Editor has it. It is immutable.
type listener struct{ e *Editor }

// OnChange is called by readline after each key, on its operation goroutine, and once when
// Readline begins.
func (l listener) OnChange(_ []rune, _ int, key rune) ([]rune, int, bool) {
	if key == 0 {
		return nil, 0, false
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	b := &l.e.cur.buf
	return append([]rune(nil), b.text...), b.pos, true
}

// filter is called by readline for each rune it has read, on its operation goroutine. It
// returns what readline is to do: CharBell for nothing.
func (e *Editor) filter(r rune) (do rune, process bool) {
	if r == 0 { // the end of input; what was half typed must not be submitted
		e.rl.Operation.SetBuffer("")
		return 0, true
	}
	do = readline.CharBell
	defer e.redraw()
	defer e.contain("a key")
	if k, ok := e.keys.next(); ok {
		var line []rune
		if do, line = e.handle(k); do == readline.CharEnter || do == readline.CharInterrupt {
			e.rl.Operation.SetBuffer(string(line))
		} else if do == readline.CharDelete {
			e.rl.Operation.SetBuffer("")
		}
	}
	return do, true
}

// readLines calls Readline for as long as the Editor lives and turns what it returns into
// events.
func (e *Editor) readLines() {
	defer close(e.read)
	for {
		line, err := e.rl.Readline()
		switch err {
		case nil:
			e.submitted([]rune(line))
		case readline.ErrInterrupt:
			e.mu.Lock()
			ev := Event{Kind: Interrupt, Text: e.pastes.expand([]rune(line)), line: []rune(line)}
			e.mu.Unlock()
			e.push(ev)
		default:
			if e.keys.gone() {
				e.push(Event{Kind: Hangup})
				return
			}
			e.push(Event{Kind: EOF})
		}
	}
}

// submitted delivers a line and remembers it.
func (e *Editor) submitted(line []rune) {
	defer e.contain("a line")
	e.mu.Lock()
	text := unquote(e.pastes.expand(line))
	isNew := e.hist.remember(text)
	e.base.browse.at = len(e.hist.entries)
	e.mu.Unlock()
	e.push(Event{Kind: Line, Text: text})
	if isNew {
		if err := e.hist.save(text); err != nil {
			e.complain(err)
		}
	}
}
