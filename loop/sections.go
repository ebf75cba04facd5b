package loop

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"dshsh/loop/model"
	"dshsh/runtime"
)

// piece is what a script adds to the prompt: the Spec of an offerSection or an
// offerContext. Immutable.
type piece struct {
	name    string // "project/style.js/tone"
	order   int
	literal bool
	text    string
	fn      runtime.Func // instead of text: called at every assembly
}

const pieceOptions = "{ order?: number; literal?: boolean; text: string | ((about: { agent: Agent }) => string | Promise<string>) }"

// promptMembers are ctx.section and ctx.context.
func (h *Host) promptMembers() []*runtime.Member {
	return []*runtime.Member{
		{Name: "section", Load: true, Doc: "Adds a section to the system prompt; a function is asked at every step, and what it throws fails the turn. {{name}} stands for a variable unless the section is literal.",
			Signature: "(name: string, section: " + pieceOptions + "): () => void",
			Fn:        func(c *runtime.Call) (runtime.Value, error) { return h.ctxPiece(c, offerSection) }},
		{Name: "context", Load: true, Doc: "Adds a piece of runtime context, which the model is told when it has changed.",
			Signature: "(name: string, context: " + pieceOptions + "): () => void",
			Fn:        func(c *runtime.Call) (runtime.Value, error) { return h.ctxPiece(c, offerContext) }},
	}
}

// ctxPiece registers a piece. A text that is there is checked now: a prompt with a hole in
// it would fail every turn. What a listener adds to the variables a function may use.
func (h *Host) ctxPiece(c *runtime.Call, kind string) (runtime.Value, error) {
	var name string
	var def struct {
		Order   int  `json:"order,omitempty"`
		Literal bool `json:"literal,omitempty"`
		Text    any  `json:"text"`
	}
	if err := c.Unpack("name", &name, "definition", &def); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fmt.Errorf("%s: the name is empty", c.Name)
	}
	if len(name) > maxName {
		return nil, fmt.Errorf("%s: a name of %d bytes is too long, at most %d", c.Name, len(name), maxName)
	}
	p := &piece{name: c.Instance.ID + "/" + name, order: def.Order, literal: def.Literal}
	switch t := def.Text.(type) {
	case nil:
		return nil, fmt.Errorf(`%s: missing field "text"`, c.Name)
	case string:
		p.text = t
		if kind == offerSection && !p.literal {
			vars := maps.Clone(h.cfg.Variables)
			if vars == nil {
				vars = map[string]string{}
			}
			vars["model"], vars["provider"] = "", ""
			if _, err := expand(t, vars); err != nil {
				return nil, fmt.Errorf("%s: the section %q %w; a variable that a listener adds can be used in a text that is a function", c.Name, name, err)
			}
		}
	case runtime.Func:
		p.fn = t
	default:
		return nil, fmt.Errorf("%s: for parameter definition: text: got %s, want string or function", c.Name, runtime.TypeName(t))
	}
	x := c.Self.(*runtime.Ctx)
	return remover(c.Instance.Register(kind, name, p, x.Scope(), c.Where)), nil
}

// pieces are the texts of one kind that scripts add for the agent, the lower order first,
// else by script and registration. Of one name in one script the agent's own stands in
// for the general one, and the newest for older ones. What a function gives is asked for
// here; it waits.
func (a *agent) pieces(act *activity, kind string) ([]PromptSection, error) {
	var found []*runtime.Registration
	for _, r := range act.gen.Offers(kind, a) {
		i := slices.IndexFunc(found, func(o *runtime.Registration) bool { return o.Instance == r.Instance && o.Name == r.Name })
		switch {
		case i < 0:
			found = append(found, r)
		case r.Scope != nil || found[i].Scope == nil:
			found[i] = r
		}
	}
	slices.SortStableFunc(found, func(x, y *runtime.Registration) int {
		return cmp.Compare(x.Spec.(*piece).order, y.Spec.(*piece).order)
	})
	var out []PromptSection
	for _, r := range found {
		p := r.Spec.(*piece)
		text := p.text
		if p.fn != nil {
			var err error
			if text, err = a.askPiece(act, r, p.fn); err != nil {
				return nil, err
			}
		}
		if text = model.Scrub(text); text != "" {
			out = append(out, PromptSection{Name: p.name, Text: text, Order: p.order, Literal: p.literal})
		}
	}
	return out, nil
}

// askPiece calls a script's function for a text. What goes wrong there fails the turn.
func (a *agent) askPiece(act *activity, r *runtime.Registration, fn runtime.Func) (string, error) {
	v, err := r.Ask(a.h.NewHook(act.ctx, a), fn, map[string]any{"agent": a})
	switch v := v.(type) {
	case nil:
		return "", err
	case string:
		return v, err
	}
	return "", r.Wrap(errors.New("got " + runtime.TypeName(v) + ", want string"))
}
