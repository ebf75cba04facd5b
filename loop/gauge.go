package loop

import (
	"context"

	"dshsh/loop/model"
	"dshsh/session"
)

// gauge says how full the model's context window is. It is a fold over the log, so that
// asking costs the same however long the session is, and gives the same after a resume.
// Token counts are estimates ([model.EstimateText]) times what the provider's last count
// showed them to be off by. Used on the host thread.
type gauge struct {
	off     float64 // counted / estimated of the last reply that told; 0: none has
	counted *model.Usage
	refused int    // the smallest estimate, uncorrected, that the provider found too long; 0: none
	route   string // what refused stands for
	eased   int    // tokens at the last attempt to make room: the next one waits for more
}

// Bounds of the correction. A provider that counts otherwise than everybody, or not at
// all, must not take the estimate along.
const (
	leastOff   = 0.5
	mostOff    = 4.0
	tellingRaw = 200 // an estimate below it says too little
)

// fold takes the provider's count of the request that a reply answers; raw is what that
// request was estimated at.
func (g *gauge) fold(rec session.Record, raw int) {
	var r AssistantMessage
	if rec.Type != RecAssistant || raw < tellingRaw || !decodeData(rec, &r) || r.Usage == nil || r.Usage.InputTokens <= 0 {
		return
	}
	g.counted = r.Usage
	if int(r.Usage.InputTokens) < raw/4 {
		return // it leaves out what came from its cache, or does not count at all
	}
	g.off = min(max(float64(r.Usage.InputTokens)/float64(raw), leastOff), mostOff)
}

// tokens corrects an estimate.
func (g *gauge) tokens(raw int) int {
	if g.off == 0 {
		return raw
	}
	return int(float64(raw) * g.off)
}

// raw is the estimate that tokens makes n of.
func (g *gauge) raw(n int) int {
	if g.off == 0 {
		return n
	}
	return int(float64(n) / g.off)
}

// overflowed notes that a request was too long for the model.
func (g *gauge) overflowed(cfg model.Config, raw int) {
	if r := cfg.Provider + "/" + cfg.Model; g.route != r || raw < g.refused {
		g.route, g.refused = r, raw
	}
}

// window is how many tokens a request and its reply may have: what is known of the model,
// or what it has refused where that is less. 0 is not known.
func (g *gauge) window(cfg model.Config, known int) int {
	if g.refused == 0 || g.route != cfg.Provider+"/"+cfg.Model {
		return known
	}
	if n := g.tokens(g.refused); known == 0 || n < known {
		return n
	}
	return known
}

// threshold is from how many tokens on room is made before a request: what the window
// holds, less what the reply may need and a margin for the estimate. 0 is never.
func threshold(window, maxTokens int) int {
	reply := window / 8
	if maxTokens > 0 {
		reply = min(max(maxTokens, window/16), window/4)
	}
	return window - reply - window/20
}

// load is what the next request is estimated at, uncorrected.
func (a *agent) load() int { return a.header.tokens + a.history.tokens }

// ContextFill is about how many tokens the next request has, and how many the model can
// take; 0 where that is not known. It costs nothing.
func (a *agent) ContextFill() (tokens, window int) {
	cfg := a.header.seed(a.opts)
	return a.gauge.tokens(a.load()), a.gauge.window(cfg, a.h.info(cfg).ContextWindow)
}

// Kinds of a ContextPart.
const (
	PartSection = "section" // of the system prompt
	PartTool    = "tool"    // its description
	PartContext = "context" // a piece of the runtime context that the model was last told
	PartMessage = "message" // all messages of a kind
)

// ContextPart is one line of what a request is made of. Name is a section's, a tool's or a
// context's own name, or the kind of messages.
type ContextPart struct {
	Kind, Name string
	Count      int // messages; else 1
	Tokens     int // about
}

// ContextUse is what the next request is made of. Plain data.
type ContextUse struct {
	Provider, Model string
	Parts           []ContextPart
	Tokens          int          // of all parts, about
	Window          int          // what the model can take; 0: not known
	Threshold       int          // from how many tokens on the conversation is summarised; 0: never
	Counted         *model.Usage // what the provider counted last; nil: nothing
}

// ContextUse lists what the next request is made of, as of the last one. Before the first
// one the prompt is put together for it, which waits for scripts; else it reads what is
// there.
func (a *agent) ContextUse() (ContextUse, error) {
	if a.assembled == nil && a.act == nil {
		if err := a.RunMaintenance(func(context.Context) error {
			_, err := a.assemble(a.act)
			return err
		}); err != nil {
			return ContextUse{}, err
		}
	}
	cfg := a.header.seed(a.opts)
	info := a.h.info(cfg)
	use := ContextUse{Provider: cfg.Provider, Model: cfg.Model, Counted: a.gauge.counted, Window: a.gauge.window(cfg, info.ContextWindow)}
	if use.Window > 0 {
		filled, _ := applyDefaults(cfg, info)
		use.Threshold = threshold(use.Window, filled.MaxTokens)
	}
	at := map[string]int{}
	add := func(kind, name string, raw int) {
		n := a.gauge.tokens(raw)
		use.Tokens += n
		if i, ok := at[kind+" "+name]; ok {
			use.Parts[i].Count++
			use.Parts[i].Tokens += n
			return
		}
		at[kind+" "+name] = len(use.Parts)
		use.Parts = append(use.Parts, ContextPart{Kind: kind, Name: name, Count: 1, Tokens: n})
	}
	if asm := a.assembled; asm != nil {
		for _, s := range asm.Sections {
			add(PartSection, s.Name, model.EstimateText(s.Text))
		}
		for _, t := range asm.Tools {
			add(PartTool, t.Name, model.EstimateTool(t))
		}
	}
	for i := range a.history.nodes {
		n := &a.history.nodes[i]
		if !n.has {
			continue
		}
		if a.history.context != nil && n.msg.ID == a.history.context.ID {
			for _, s := range n.msg.Source.Sections {
				add(PartContext, s.Name, model.EstimateText(s.Text))
			}
			continue
		}
		add(PartMessage, messageKind(n.msg), n.tokens)
	}
	return use, nil
}

// messageKind is what /context counts a message as.
func messageKind(m model.Message) string {
	switch s := m.Source; {
	case s.Kind == model.SourceTool:
		return "results of tools"
	case s.Kind == model.SourceModel:
		return "replies"
	case s.Kind == model.SourceUser:
		return "your messages"
	case s.Plugin == PromptPlugin:
		return "earlier runtime context"
	case s.Plugin == CompactionPlugin:
		return "summaries"
	default:
		return "from " + s.Plugin
	}
}
