package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// UI is the person, as far as scripts may speak to them: the program that has a prompt
// implements it.
type UI interface {
	// Ask puts a question and waits for the answer. It is called off the thread,
	// once the question before, in the order of the scripts' calls, has ended. It ends with ctx, with
	// its cause; where nobody can answer it is ErrNobody, at once.
	Ask(ctx context.Context, q Question) (Answer, error)
	// Notify shows a line. It is called on the thread and does not wait.
	Notify(in *Instance, text string)
}

// Kinds of a Question.
const (
	AskConfirm = "confirm"
	AskSelect  = "select"
	AskInput   = "input"
)

// Question is what a script asks. Plain data.
type Question struct {
	Kind   string    // confirm, select or input
	Script *Instance // who asks: its ID, File and Layer
	Owner  any       // on whose behalf, such as an agent that waits for the answer; nil = nobody
	Text   string
	Items  []string // of a select: what may be chosen, as it is shown
}

// Answer is a person's: Yes of a confirm, Item, counted from 0, of a select, Text of an
// input.
type Answer struct {
	Yes  bool
	Item int
	Text string
}

// ErrNobody is what a question fails with where no person can answer.
var ErrNobody = errors.New("nobody is there to answer")

// maxItems is how many items a select may have.
const maxItems = 500

// ui is ctx.ui. It has no state: who asks is the call's instance.
type ui struct{}

var theUI = &ui{}

// Class implements Object.
func (*ui) Class() *Class { return uiClass }

var uiClass = &Class{Name: "ui", Doc: "The person at the prompt. Without one, questions fail at once. Waiting for an answer counts against no limit. Who returns while a question is open has failed: await it.", Members: []*Member{
	{Name: "confirm", Waits: true, Doc: "Asks for yes or no.", Signature: "(text: string): Promise<boolean>", Fn: func(c *Call) (Value, error) {
		a, err := c.ask(AskConfirm, nil)
		return a.Yes, err
	}},
	{Name: "select", Waits: true, Doc: "Has one of the items chosen, which is returned.", Signature: "<T>(text: string, items: T[]): Promise<T>", Fn: uiSelect},
	{Name: "input", Waits: true, Doc: "Asks for a line of text.", Signature: "(text: string): Promise<string>", Fn: func(c *Call) (Value, error) {
		a, err := c.ask(AskInput, nil)
		return a.Text, err
	}},
	{Name: "notify", Doc: "Shows a line, with the script's name.", Signature: "(text: string): void", Fn: func(c *Call) (Value, error) {
		var text string
		if err := c.Unpack("text", &text); err != nil {
			return nil, err
		}
		if u := c.Instance.host.ui; u != nil {
			if text, ok := c.Instance.printable(text); ok {
				u.Notify(c.Instance, text)
			}
		}
		return nil, nil
	}},
}}

func uiSelect(c *Call) (Value, error) {
	var items []any
	var text string
	if err := c.Unpack("text", &text, "items", &items); err != nil {
		return nil, err
	}
	switch {
	case len(items) == 0:
		return nil, fmt.Errorf("%s: there is nothing to choose from", c.Name)
	case len(items) > maxItems:
		return nil, fmt.Errorf("%s: %d items are more than the %d that a person may be shown", c.Name, len(items), maxItems)
	}
	shown := make([]string, len(items))
	for i, item := range items {
		shown[i] = Display(item)
	}
	c.Args = c.Args[:1]
	a, err := c.ask(AskSelect, shown)
	if err != nil {
		return nil, err
	}
	if a.Item < 0 || a.Item >= len(items) {
		return nil, fmt.Errorf("%s: there is no item %d", c.Name, a.Item)
	}
	return items[a.Item], nil
}

// ask puts a question with the call's one argument as the text. It ends with the hook
// that asks, whose clock stands still meanwhile, and with the script.
func (c *Call) ask(kind string, items []string) (Answer, error) {
	q := Question{Kind: kind, Script: c.Instance, Items: items}
	if err := c.Unpack("text", &q.Text); err != nil {
		return Answer{}, err
	}
	h := c.Instance.host
	if h.ui == nil {
		return Answer{}, fmt.Errorf("%s: %w", c.Name, ErrNobody)
	}
	if err := c.Instance.mayAsk(c.Name); err != nil {
		return Answer{}, err
	}
	c.Instance.asking++
	defer func() { c.Instance.asking-- }()
	hook := h.Thread.CurrentHook()
	q.Owner = hook.Owner()
	defer hook.asks(c)()
	ctx, cancel := context.WithCancelCause(hook.Context())
	defer cancel(nil)
	gone := c.Instance.ctx
	defer context.AfterFunc(gone, func() { cancel(context.Cause(gone)) })()
	hook.Pause()
	defer hook.Unpause()
	turn, done := h.asked.join()
	defer done()
	var a Answer
	var err error
	if werr := h.Thread.Away(func() {
		select {
		case <-turn:
			a, err = h.ui.Ask(ctx, q)
		case <-ctx.Done():
		}
	}); werr != nil {
		err = werr
	} else if ctx.Err() != nil {
		err = context.Cause(ctx) // whatever was answered comes too late
	}
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", c.Name, err)
	}
	return a, nil
}

// askLine is where questions wait, in the order in which scripts put them. Used on the
// thread.
type askLine []chan struct{}

// join takes a place: turn is closed when it is the first. done leaves it.
func (l *askLine) join() (turn <-chan struct{}, done func()) {
	mine := make(chan struct{})
	if *l = append(*l, mine); len(*l) == 1 {
		close(mine)
	}
	return mine, func() {
		at := slices.Index(*l, mine)
		if *l = slices.Delete(*l, at, at+1); at == 0 && len(*l) > 0 {
			close((*l)[0])
		}
	}
}
