package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"dshsh/loop/model"
	"dshsh/runtime"
)

// CompactionPlugin is the plugin that a summary of the conversation names as its source.
const CompactionPlugin = "compaction"

// Reasons of a compaction.
const (
	CompactThreshold = "threshold" // the window is nearly full
	CompactOverflow  = "overflow"  // the provider found the request too long
	CompactCommand   = "command"   // somebody asked for it
)

// maxShrinks is how often room is made for one model call because the provider asks.
const maxShrinks = 3

var (
	errNothing = errors.New("there is nothing to summarise yet")
	errVetoed  = errors.New("a script does not allow it (compaction/before)")
)

func (c Compaction) outcome() string {
	switch {
	case c.Kind != "":
		return c.Kind
	case c.Summary != "":
		return "summary"
	case len(c.Pin) > 0:
		return "pin"
	}
	return "summarise"
}

// decodeCompaction reads a script's answer. A pin that is none of the records is an error:
// the script would believe that it has kept something.
func decodeCompaction(p CompactionPayload, _ *runtime.Listener, v runtime.Value) (Compaction, error) {
	var c Compaction
	if err := runtime.Decode(v, &c); err != nil {
		return c, err
	}
	for i, seq := range c.Pin {
		if !slices.Contains(p.Seqs, seq) {
			return c, fmt.Errorf("pin[%d]: %d is none of the records that are replaced (seqs)", i, seq)
		}
	}
	return c, nil
}

// compaction is one replacement of a part of the surface by a summary. Used on the host
// thread.
type compaction struct {
	a            *agent
	act          *activity
	id, reason   string
	instructions string
	cfg          model.Config
	window       int // tokens that a request and its reply may have; 0: not known
	turn         *int
}

// Compact implements Agent.
func (a *agent) Compact(instructions string) error {
	return a.RunMaintenance(func(context.Context) error {
		cfg := a.header.seed(a.opts)
		if cfg.Provider == "" || cfg.Model == "" {
			return errNothing
		}
		window := a.gauge.window(cfg, a.h.info(cfg).ContextWindow)
		keep := min(a.gauge.tokens(a.history.tokens), window) / 8
		c := &compaction{a: a, act: a.act, reason: CompactCommand, instructions: instructions, cfg: cfg, window: window}
		err := c.run(keep)
		if errors.Is(err, errNothing) {
			err = c.run(0) // a short conversation: all of it
		}
		return err
	})
}

// makeRoom summarises before a request that would leave no room for its reply. Where that
// does not work the request is sent as it is: it may fit, and the provider says if not.
func (a *agent) makeRoom(act *activity, req *model.Request, asm Assembly) error {
	window := a.gauge.window(req.Config, a.h.info(req.Config).ContextWindow)
	tokens := a.gauge.tokens(a.load())
	if limit := threshold(window, req.MaxTokens); window == 0 || tokens <= max(limit, a.gauge.eased+a.gauge.eased/8) {
		if tokens <= limit {
			a.gauge.eased = 0
		}
		return nil
	}
	err := a.compactInTurn(act, req, asm, CompactThreshold, window, (window-a.gauge.tokens(a.header.tokens))/4)
	a.gauge.eased = a.gauge.tokens(a.load())
	if err := act.check(); err != nil {
		return err
	}
	var broken *appendError
	if errors.As(err, &broken) {
		return err
	}
	return nil
}

// shrink makes room because the provider found the request too long. Its error is the
// turn's.
func (a *agent) shrink(act *activity, req *model.Request, asm Assembly, f *model.Failure) error {
	tokens := a.gauge.tokens(a.load())
	a.gauge.overflowed(req.Config, a.load())
	window := a.gauge.window(req.Config, a.h.info(req.Config).ContextWindow)
	keep := []int{a.gauge.tokens(a.history.tokens) / 4, a.gauge.tokens(a.history.tokens) / 10, 0}
	err := errors.New("it is still too long")
	if act.shrunk < maxShrinks {
		act.shrunk++
		err = a.compactInTurn(act, req, asm, CompactOverflow, window, keep[act.shrunk-1])
		if errors.Is(err, errNothing) && keep[act.shrunk-1] > 0 {
			act.shrunk = maxShrinks
			err = a.compactInTurn(act, req, asm, CompactOverflow, window, 0)
		}
	}
	if err == nil {
		return nil
	}
	if err := act.check(); err != nil {
		return err
	}
	out := *f
	out.Message = fmt.Sprintf("the conversation, about %d tokens, is too long for %s/%s and could not be shortened: %v. "+
		"Nothing is lost: /compact tries again, /model takes a model with a larger window, /rewind goes back, /new begins anew", tokens, req.Provider, req.Model, err)
	return out.WithCause(errors.Join(f, err))
}

// compactInTurn is a compaction ahead of a request, which then has the shorter
// conversation. Runtime context that went with the messages is told again.
func (a *agent) compactInTurn(act *activity, req *model.Request, asm Assembly, reason string, window, keep int) error {
	turn := act.turn
	c := &compaction{a: a, act: act, reason: reason, cfg: req.Config, window: window, turn: &turn}
	if err := c.run(max(keep, 0)); err != nil {
		return err
	}
	if m := a.contextMessage(asm.Contexts); m != nil {
		if _, err := a.append(RecUserMessage, *m); err != nil {
			return err
		}
	}
	req.Messages = a.history.derive()
	return nil
}

// appendError is a log that could not be written.
type appendError struct{ error }

func (e *appendError) Unwrap() error { return e.error }

// run replaces all but about keep tokens of the newest messages.
func (c *compaction) run(keep int) error {
	a := c.a
	part := a.history.oldest(a.gauge.raw(keep))
	if len(part) == 0 {
		return errNothing
	}
	p := CompactionPayload{Agent: a, Reason: c.reason, Range: hull(part), Seqs: seqsOf(part), Tokens: a.gauge.tokens(tokensOf(part)),
		Instructions: c.instructions, Turn: c.act.turn, Signal: c.act.signal}
	d, err := CompactionBefore.Run(a.h.Host, a.awaiting(c.act), p, func(CompactionPayload) (Compaction, error) { return Compaction{}, nil })
	if err != nil {
		return err
	}
	if err := c.act.check(); err != nil {
		return err
	}
	if d.Kind == "veto" {
		return errVetoed
	}
	segments := a.history.without(part, d.Pin)
	if len(segments) == 0 {
		return errNothing
	}
	c.id = a.newID("compaction-")
	if _, err := a.append(RecCompactionStart, CompactionStart{CompactionID: c.id, Turn: c.turn}); err != nil {
		return &appendError{err}
	}
	sum, err := c.summary(segments, model.Scrub(d.Summary))
	if err == nil {
		err = c.act.check()
	}
	if err == nil {
		err = c.commit(segments, sum)
	}
	end := CompactionEnd{CompactionID: c.id, Turn: c.turn}
	if err != nil {
		end.Error = failureOf(err)
		if c.act.aborted() {
			end.Error = &model.Failure{Message: "cancelled", Code: model.CodeAborted}
		}
	}
	if _, aerr := a.append(RecCompactionEnd, end); aerr != nil {
		return &appendError{errors.Join(err, aerr)}
	}
	if err == nil {
		CompactionAfter.Fire(a.h.Host, a.target(), CompactedPayload{Agent: a, Reason: c.reason, Range: p.Range, Tokens: p.Tokens, Summary: sum.Summary, Turn: c.act.turn})
	}
	return err
}

// commit puts the summary in the place of the first segment, and a pointer to it in that
// of the others. As one operation: nothing comes between the records that belong together.
func (c *compaction) commit(segments [][]node, sum *CompactionSummary) (err error) {
	a := c.a
	a.h.op(func() {
		for i, seg := range segments {
			r, seqs, tokens := hull(seg), seqsOf(seg), a.gauge.tokens(tokensOf(seg))
			text := "[More of the earlier messages stood here. The summary above covers them.]"
			m := model.Message{ID: a.newID("m"), Role: model.RoleUser, Source: model.Source{Kind: model.SourcePlugin, Plugin: CompactionPlugin, Form: "recall"}}
			typ, data := RecCompactionPrune, any(CompactionPrune{ShadowedRange: r, ShadowedSeqs: seqs, ShadowedTokenCount: tokens})
			if i == 0 {
				sum.ShadowedRange, sum.ShadowedSeqs, sum.ShadowedTokenCount = r, seqs, tokens
				typ, data = RecCompactionSummary, sum
				text = summaryPreamble + sum.Summary
				m.Source.Sections = []model.Section{{Name: sectionSummary, Text: sum.Summary}}
				if last := lastWords(segments); last != "" {
					text += "\n\n" + lastPreamble + last
					m.Source.Sections = append(m.Source.Sections, model.Section{Name: sectionLast, Text: last})
				}
			}
			m.Content = []model.Block{model.Text(text)}
			rec, aerr := a.append(typ, data)
			if aerr == nil {
				aerr = a.replace(m, r, rec.Seq)
			}
			if aerr != nil {
				err = &appendError{aerr}
				return
			}
		}
	})
	return err
}

// oldest are the nodes to be replaced so that about keep tokens (uncorrected) of the
// newest stay: from the beginning on, never between a call and its result, and so that
// no other node has a number between theirs. Nil where there is nothing but a summary.
func (h *history) oldest(keep int) []node {
	end, tokens := len(h.nodes), 0
	for end > 0 && tokens+h.nodes[end-1].tokens <= keep {
		end--
		tokens += h.nodes[end].tokens
	}
	cut := end
	for cut > 0 && cut < len(h.nodes) && !h.boundary(cut) {
		cut--
		tokens += h.nodes[cut].tokens
	}
	if tokens > 2*keep { // what belongs together is too much to stay
		for cut = end; cut < len(h.nodes) && !h.boundary(cut); {
			cut++
		}
	}
	part := h.exact(0, cut)
	if !slices.ContainsFunc(part, func(n node) bool { return n.has && !isSummary(n) }) {
		return nil
	}
	return part
}

// boundary says whether the history may be cut before node i: no result there belongs to
// a call before it.
func (h *history) boundary(i int) bool {
	return h.nodes[i].msg.Source.Kind != model.SourceTool
}

// exact is nodes[from:to] without those at its beginning that keep the range of their
// numbers from being theirs alone: an older summary has a higher number than messages
// behind it.
func (h *history) exact(from, to int) []node {
	for ; from < to; from++ {
		r, inside := hull(h.nodes[from:to]), 0
		for i := range h.nodes {
			if s := h.nodes[i].seq; s >= r.Start && s <= r.End {
				inside++
			}
		}
		if inside == to-from {
			return h.nodes[from:to:to]
		}
	}
	return nil
}

// without is part in the segments that the pinned records leave of it. A call stays
// together with its results.
func (h *history) without(part []node, pin []int64) [][]node {
	first := slices.IndexFunc(h.nodes, func(n node) bool { return n.seq == part[0].seq })
	var out [][]node
	add := func(from, to int) {
		if seg := h.exact(from, to); len(seg) > 0 {
			out = append(out, seg)
		}
	}
	from := first
	for i := first; i < first+len(part); {
		group := i + 1
		for group < first+len(part) && !h.boundary(group) {
			group++
		}
		if slices.ContainsFunc(h.nodes[i:group], func(n node) bool { return slices.Contains(pin, n.seq) }) {
			add(from, i)
			from = group
		}
		i = group
	}
	add(from, first+len(part))
	return out
}

func hull(nodes []node) SeqRange {
	r := SeqRange{Start: nodes[0].seq, End: nodes[0].seq}
	for _, n := range nodes {
		r.Start, r.End = min(r.Start, n.seq), max(r.End, n.seq)
	}
	return r
}

func seqsOf(nodes []node) []int64 {
	out := make([]int64, len(nodes))
	for i, n := range nodes {
		out[i] = n.seq
	}
	return out
}

func tokensOf(nodes []node) (n int) {
	for i := range nodes {
		n += nodes[i].tokens
	}
	return n
}

func isSummary(n node) bool {
	return n.msg.Source.Kind == model.SourcePlugin && n.msg.Source.Plugin == CompactionPlugin
}
