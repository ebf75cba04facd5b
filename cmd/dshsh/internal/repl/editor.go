package repl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/chzyer/readline"
	"golang.org/x/term"

	"dshsh/cmd/dshsh/internal/render"
)

// Kind says what an Event is.
type Kind int

const (
	// Line is a line, or several, that the user entered; Text is what they mean, with
	// pastes in full. Lines of only white space are not delivered.
	Line Kind = iota + 1
	// Interrupt is Ctrl-C; Text is what was on the line, which is empty now (see
	// Editor.PutBack).
	Interrupt
	// EOF is Ctrl-D on an empty line, after which more may come, or the end of an input
	// that is no terminal, which is the last event.
	EOF
	// Hangup says that the terminal is gone. It is the last event.
	Hangup
	// Signal is one that asks the program to end (HUP, QUIT, TERM); Event.Signal has it.
	// The program calls Close and ends; if it has not within EditorConfig.Grace, the
	// Editor restores the terminal and lets the signal end it.
	Signal
)

// Event is something the user, or the system, did. It is a value.
type Event struct {
	Kind   Kind
	Text   string
	Signal os.Signal

	line []rune // of an Interrupt: what PutBack puts back
}

// Errors that Ask returns, possibly wrapped.
var (
	// ErrInterrupted: the user answered with Ctrl-C or Ctrl-D.
	ErrInterrupted = errors.New("interrupted")
	// ErrNoPerson: there is no terminal, so nobody can be asked.
	ErrNoPerson = errors.New("nobody to ask: standard input and output are not a terminal")
	// ErrClosed: the Editor is closed.
	ErrClosed = errors.New("the prompt is closed")
)

// Candidate is one completion. It is a value.
type Candidate struct {
	From  int    // byte offset in the line: what is there up to the cursor is replaced
	Text  string // what is put there
	Label string // how it is listed; "" means Text
}

// EditorConfig says what an Editor works on. Set before use; the Editor keeps it.
type EditorConfig struct {
	// In is where lines come from: for a terminal its *os.File. The Editor does not close
	// it.
	In io.Reader
	// Out takes everything that is shown. The Editor does not close it.
	Out io.Writer
	// TTY says that In and Out are a terminal that can move its cursor (TERM is not
	// dumb). Without it lines of any length are read as they are and output is plain.
	TTY bool
	// Prompt is the first prompt; see SetPrompt.
	Prompt string
	// HistoryFile keeps what was entered, shared by all shells that name it; "" keeps it
	// in memory.
	HistoryFile string
	// Complete, if not nil, returns the completions for line at the byte offset pos. It
	// runs on a goroutine of its own and may take its time; what it returns is dropped
	// when the line has changed meanwhile.
	Complete func(line string, pos int) []Candidate
	// Getenv is os.Getenv if nil.
	Getenv func(string) string
	// Bell lets the terminal ring: for a question, for a key that can do nothing, and for
	// Ring.
	Bell bool
	// QueueBytes bounds the output that waits to be written; 0 means 4 MiB for a
	// terminal, 256 MiB otherwise.
	QueueBytes int
	// Grace is how long the program has to end after a Signal event; 0 means 5 s.
	Grace time.Duration
	// LastResort, if not nil, is called when that time is over, before the signal ends the
	// program: what it started is to be ended. On a goroutine of its own.
	LastResort func()
}

// Editor is the prompt: it reads lines, shows output above the line being typed, and asks
// questions. It is live from NewEditor to Close, whatever else the program does.
//
// Its methods may be called from any goroutine, the host thread included: only Ask,
// Flush, Lend and Close wait for anything. All that is written to the terminal is written
// by one goroutine of the Editor.
type Editor struct {
	// Set before use.
	cfg    EditorConfig
	person bool       // somebody types: a terminal, if a dumb one
	color  bool       // for what the Editor itself adds
	reflow bool       // see reflows
	tty    *tty       // nil without TTY
	keys   *keyReader // nil without TTY
	rl     *readline.Instance
	events chan Event
	closed chan struct{} // closed when Close begins
	wake   chan struct{} // there is something to write
	post   chan struct{} // there are events to deliver
	taken  chan struct{} // an event was taken; without TTY only
	asking chan struct{} // a token: one question at a time
	lends  chan struct{} // a token: the terminal is lent to one at a time
	tasks  sync.WaitGroup
	sigs   chan os.Signal // nil without TTY
	wrote  chan struct{}  // closed when the writer has ended
	read   chan struct{}  // closed when the reader has ended
	broken chan struct{}  // closed when the output cannot be written to

	closing  sync.Once
	closeErr error // set in closing

	// The writing goroutine only.
	pen    pen
	failed bool // the output cannot be written to

	mu      sync.Mutex // guards what follows; nothing that waits is called while it is held
	base    input      // the line at the prompt
	cur     *input     // what keys go to: &base, or the line of a question
	hist    history
	pastes  pastes
	kill    []rune // what was cut last
	comp    *completion
	compRun int // counts completions that were started, to tell late ones
	search  *search
	status  string
	hint    string // a word about the last key, shown until the next
	out     queue
	evq     []Event
	cols    int
	rows    int
	dirty   bool            // the edited line must be drawn
	resized bool            // the terminal's size has changed since it was drawn
	fresh   bool            // somebody else may have left the cursor anywhere
	bell    bool            // ring
	lent    chan struct{}   // not nil while the terminal is lent; closed when it is free for that
	parked  bool            // it is free: nothing is written
	waiters []chan struct{} // of Flush
	done    bool            // Close was called
}

// input is a prompt and the line typed at it. Editor.mu guards it.
type input struct {
	prompt string
	buf    buffer
	browse browse
	ask    *question // nil for the prompt
}

// NewEditor makes a prompt and starts it: the terminal is in raw mode when it returns.
// It fails if the terminal cannot be set up; a history file that cannot be read is
// reported on the screen only.
func NewEditor(cfg EditorConfig) (*Editor, error) {
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.Grace == 0 {
		cfg.Grace = 5 * time.Second
	}
	if cfg.QueueBytes == 0 {
		cfg.QueueBytes = queuePlain
		if cfg.TTY {
			cfg.QueueBytes = queueTerminal
		}
	}
	e := &Editor{
		cfg:    cfg,
		color:  render.ColorFromEnv(cfg.TTY, cfg.Getenv),
		reflow: reflows(cfg.Getenv),
		events: make(chan Event),
		closed: make(chan struct{}),
		wake:   make(chan struct{}, 1),
		post:   make(chan struct{}, 1),
		taken:  make(chan struct{}, 1),
		asking: make(chan struct{}, 1),
		lends:  make(chan struct{}, 1),
		wrote:  make(chan struct{}),
		read:   make(chan struct{}),
		broken: make(chan struct{}),
		out:    queue{max: cfg.QueueBytes},
		base:   input{prompt: cfg.Prompt},
		cols:   80, rows: 24,
		dirty: true,
	}
	e.cur = &e.base
	in, _ := cfg.In.(*os.File)
	if cfg.TTY {
		if in == nil {
			return nil, fmt.Errorf("repl: EditorConfig.In is a %T, but a terminal must be an *os.File", cfg.In)
		}
		if err := e.startTTY(in); err != nil {
			return nil, fmt.Errorf("repl: %w", err)
		}
	} else {
		out, _ := cfg.Out.(*os.File)
		e.person = isTerminal(in) && isTerminal(out)
		go e.readPlain()
	}
	if e.person {
		e.watchSignals()
	}
	go e.writeAll()
	e.tasks.Add(1)
	go e.deliver()
	e.kick()
	return e, nil
}

func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

// startTTY takes the terminal and starts readline on it.
func (e *Editor) startTTY(in *os.File) error {
	t, err := newTTY(in, e.cfg.Out)
	if err != nil {
		return err
	}
	e.tty, e.person, e.fresh = t, true, true
	e.cols, e.rows = t.size()
	e.hist.path = e.cfg.HistoryFile
	if err := e.hist.load(); err != nil {
		e.out.add(render.Visible(err.Error()) + "\n")
	}
	e.base.browse.at = len(e.hist.entries)
	e.keys = newKeyReader(in)
	if err := t.enter(); err != nil {
		return err
	}
	if err := e.keys.start(); err != nil {
		return errors.Join(fmt.Errorf("read the terminal: %w", err), t.leave())
	}
	if e.rl, err = e.newReadline(); err != nil {
		e.keys.Close()
		return errors.Join(err, t.leave())
	}
	go e.readLines()
	return nil
}

// watchSignals starts the goroutine that takes the signals of a program with a terminal.
func (e *Editor) watchSignals() {
	e.sigs = make(chan os.Signal, 16)
	signal.Notify(e.sigs, watched...)
	e.tasks.Add(1)
	go func() {
		defer e.tasks.Done()
		defer e.contain("a signal")
		for {
			select {
			case s := <-e.sigs:
				e.signal(s)
			case <-e.closed:
				return
			}
		}
	}()
}

func (e *Editor) signal(s os.Signal) {
	switch {
	case isResize(s):
		if e.tty != nil {
			cols, rows := e.tty.size()
			e.mu.Lock()
			e.cols, e.rows, e.resized = cols, rows, true
			e.mu.Unlock()
			e.redraw()
		}
	case isContinue(s):
		e.mu.Lock()
		lent := e.lent != nil
		e.mu.Unlock()
		if e.tty == nil || lent {
			return
		}
		// The shell may have set the mode, and other programs have written.
		err := e.tty.enter()
		e.mu.Lock()
		e.fresh = true
		e.mu.Unlock()
		if err != nil {
			e.Print(render.Visible(err.Error()))
		}
		e.redraw()
	case s == os.Interrupt:
		e.mu.Lock()
		q := e.cur.ask
		if q != nil {
			e.answer(q, "", ErrInterrupted)
		}
		e.mu.Unlock()
		if q != nil {
			e.redraw()
		} else {
			e.push(Event{Kind: Interrupt})
		}
	default:
		e.push(Event{Kind: Signal, Signal: s})
		time.AfterFunc(e.cfg.Grace, func() {
			select {
			case <-e.closed:
			default:
				e.Restore()
				if e.cfg.LastResort != nil {
					e.cfg.LastResort()
				}
				dieBy(s)
			}
		})
	}
}

// Events returns the channel on which events arrive, in order. Keys are handled, and
// events kept, however late the receiver is; without a terminal the input is read only as
// fast as events are taken. It is closed by Close, and after an event that is the last.
func (e *Editor) Events() <-chan Event { return e.events }

// push queues an event for delivery.
func (e *Editor) push(ev Event) {
	e.mu.Lock()
	e.evq = append(e.evq, ev)
	e.mu.Unlock()
	select {
	case e.post <- struct{}{}:
	default:
	}
}

// deliver hands out the queued events.
func (e *Editor) deliver() {
	defer e.tasks.Done()
	defer close(e.events)
	for {
		select {
		case <-e.post:
		case <-e.closed:
			return
		}
		for {
			e.mu.Lock()
			if len(e.evq) == 0 {
				e.mu.Unlock()
				break
			}
			ev := e.evq[0]
			e.evq = slices.Delete(e.evq, 0, 1)
			e.mu.Unlock()
			select {
			case e.events <- ev:
			case <-e.closed:
				return
			}
			if ev.Kind == Hangup || ev.Kind == EOF && e.tty == nil {
				return
			}
			select {
			case e.taken <- struct{}{}:
			default:
			}
		}
	}
}

// SetPrompt changes the prompt: one line, which may hold colours.
func (e *Editor) SetPrompt(prompt string) {
	e.mu.Lock()
	e.base.prompt = render.Printable(prompt)
	e.mu.Unlock()
	e.redraw()
}

// SetStatus changes the line under the prompt; "" removes it. It may hold colours, and is
// cut to the terminal if it does not. Without a terminal there is none.
func (e *Editor) SetStatus(status string) {
	e.mu.Lock()
	e.status = render.Printable(status)
	e.mu.Unlock()
	e.redraw()
}

// Ring rings the terminal's bell if EditorConfig.Bell allows it.
func (e *Editor) Ring() {
	e.mu.Lock()
	e.ring()
	e.mu.Unlock()
	e.redraw()
}

// ring has the next drawing ring. Editor.mu is held.
func (e *Editor) ring() { e.bell = e.cfg.Bell }

// PutBack puts what an Interrupt took from the line back, in front of what has been typed
// since.
func (e *Editor) PutBack(ev Event) {
	e.mu.Lock()
	b := &e.base.buf
	b.text = slices.Concat(ev.line, b.text)
	b.pos += len(ev.line)
	e.mu.Unlock()
	e.redraw()
}

// Person reports whether somebody types: input and output are a terminal, if a dumb one.
func (e *Editor) Person() bool { return e.person }

// Broken is closed when the output cannot be written to any more, so that nobody sees what
// is shown.
func (e *Editor) Broken() <-chan struct{} { return e.broken }

// Size returns the terminal's columns and rows; without a terminal 0, 0.
func (e *Editor) Size() (cols, rows int) {
	if e.tty == nil {
		return 0, 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cols, e.rows
}

// Restore puts the terminal back as it was found, now, whatever state the program is in:
// before it ends without Close. It never waits for more than a moment.
func (e *Editor) Restore() {
	if e.tty != nil {
		e.tty.rescue(e.cfg.Out)
	}
}

// RestoreOnPanic is for `defer`, at the top of goroutines whose panic ends the program: it
// restores the terminal and lets the panic go on.
func (e *Editor) RestoreOnPanic() {
	if v := recover(); v != nil {
		e.Restore()
		panic(v)
	}
}

// contain is deferred where a fault of the Editor's own must not end the program: what
// was being done is dropped and the fault shown.
func (e *Editor) contain(what string) {
	if v := recover(); v != nil {
		e.Print(render.Visible(fmt.Sprintf("internal error of the prompt in %s: %v", what, v)))
	}
}

// Close ends the prompt: what waits to be written is written, the half-typed line is
// taken from the screen and the terminal is as it was found. It takes at most a second,
// also when a read is pending or the terminal takes no output; what the terminal has not
// taken by then is lost. Later calls return when the first has, with the same: an error if
// the terminal could not be restored.
func (e *Editor) Close() error {
	e.closing.Do(func() { e.closeErr = e.close() })
	return e.closeErr
}

func (e *Editor) close() error {
	e.mu.Lock()
	e.done = true
	e.mu.Unlock()
	close(e.closed)
	if e.sigs != nil {
		signal.Stop(e.sigs)
	}
	var err error
	if e.keys != nil {
		e.keys.Close()
	}
	soon(e.read, 300*time.Millisecond)
	if e.tty != nil {
		err = e.tty.leave()
	}
	if soon(e.wrote, 500*time.Millisecond) && e.rl != nil && soon(e.read, 0) {
		e.rl.Close()
	}
	e.tasks.Wait()
	return err
}

// soon waits for c to be closed, at most for d.
func soon(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(d):
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}
