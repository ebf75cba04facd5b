package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"

	"dshsh/loop/model"
	"dshsh/runtime"
	"dshsh/session"
)

// Kinds of offers that scripts register with ctx and the loop looks up.
const (
	offerTool    = "tool"
	offerSection = "section" // Spec is a *piece, as of the next
	offerContext = "context"
	OfferCommand = "command" // Spec is a *Command
)

// assemble builds the prompt: the host's sections and contexts and the tools' schemas, as
// system-prompt/assemble leaves them.
func (a *agent) assemble(act *activity) (Assembly, error) {
	asm := Assembly{
		Sections: append([]PromptSection{}, a.h.cfg.Sections...), Contexts: []model.Section{},
		Tools: a.toolSpecs(act.gen), Variables: map[string]string{},
	}
	for _, c := range a.h.cfg.Contexts {
		if text := c.Text(a); text != "" {
			asm.Contexts = append(asm.Contexts, model.Section{Name: c.Name, Text: text})
		}
	}
	for k, v := range a.h.cfg.Variables {
		asm.Variables[k] = v
	}
	sections, err := a.pieces(act, offerSection)
	if err != nil {
		return asm, err
	}
	asm.Sections = append(asm.Sections, sections...)
	contexts, err := a.pieces(act, offerContext)
	if err != nil {
		return asm, err
	}
	for _, c := range contexts {
		asm.Contexts = append(asm.Contexts, model.Section{Name: c.Name, Text: c.Text})
	}
	asm, err = AssemblePrompt.Run(a.h.Host, a.awaiting(act), AssemblePayload{Agent: a, Assembly: asm, Signal: act.signal},
		func(p AssemblePayload) (Assembly, error) { return p.Assembly, nil })
	if err != nil {
		return asm, err
	}
	if asm.Tools, err = orderTools(asm.Tools, a.h.cfg.ToolOrder); err == nil {
		a.assembled = &asm
	}
	return asm, err
}

// restOfTools stands, in a configured order, for the tools that it does not name.
const restOfTools = "*"

// orderTools lists the tools by name, or as configured. A name in the order that is no
// tool is an error: a typo would silently move nothing.
func orderTools(tools []model.ToolSpec, order []string) ([]model.ToolSpec, error) {
	tools = slices.Clone(tools)
	sort.SliceStable(tools, func(i, j int) bool { return tools[i].Name < tools[j].Name })
	if len(order) == 0 {
		return tools, nil
	}
	rank, rest := map[string]int{}, len(order)
	for i, name := range order {
		if name == restOfTools {
			rest = i
			continue
		}
		if !slices.ContainsFunc(tools, func(t model.ToolSpec) bool { return t.Name == name }) {
			return nil, fmt.Errorf("the order of tools names %q, which is no tool", name)
		}
		rank[name] = i
	}
	at := func(name string) int {
		if r, ok := rank[name]; ok {
			return r
		}
		return rest
	}
	sort.SliceStable(tools, func(i, j int) bool { return at(tools[i].Name) < at(tools[j].Name) })
	return tools, nil
}

// PromptPlugin is the plugin that runtime context messages name as their source.
const PromptPlugin = "system-prompt"

const (
	contextPreamble = "Runtime context, as of now:"
	contextNone     = "Runtime context: none."
)

// contextMessage is the message that tells the model of changed runtime context, or nil.
func (a *agent) contextMessage(contexts []model.Section) *model.Message {
	m := model.Message{Role: model.RoleUser, Source: model.Source{Kind: model.SourcePlugin, Plugin: PromptPlugin}}
	text := contextNone
	if len(contexts) > 0 {
		parts := []string{contextPreamble}
		for _, c := range contexts {
			parts = append(parts, c.Text)
		}
		text = strings.Join(parts, "\n\n")
		m.Source.Form, m.Source.Sections = "snapshot", contexts
	}
	known, ok := a.history.contextText()
	if ok && known == text || !ok && len(contexts) == 0 {
		return nil
	}
	m.ID, m.Content = a.newID("m"), []model.Block{model.Text(text)}
	return &m
}

var reference = regexp.MustCompile(`\{\{([^{}]*)\}\}`)

// renderSystem joins the sections and puts the variables in. A reference to none is an
// error: a prompt with a hole in it is not sent.
func renderSystem(asm Assembly, cfg model.Config) (string, error) {
	sections := slices.Clone(asm.Sections)
	slices.SortStableFunc(sections, func(x, y PromptSection) int { return x.Order - y.Order })
	vars := maps.Clone(asm.Variables)
	if vars == nil {
		vars = map[string]string{}
	}
	vars["model"], vars["provider"] = cfg.Model, cfg.Provider
	var parts []string
	for _, s := range sections {
		text := s.Text
		if !s.Literal {
			var err error
			if text, err = expand(text, vars); err != nil {
				return "", fmt.Errorf("the prompt section %q %w", s.Name, err)
			}
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n\n"), nil
}

// expand puts variables in. Its error goes on from the name of what holds the text.
func expand(text string, vars map[string]string) (string, error) {
	const literal = "{{ as it is takes literal: true"
	var bad error
	out := reference.ReplaceAllStringFunc(text, func(ref string) string {
		name := strings.TrimSpace(ref[2 : len(ref)-2])
		v, ok := vars[name]
		if !ok && bad == nil {
			names := slices.Sorted(maps.Keys(vars))
			hint := ""
			if near := runtime.Nearest(name, names); near != "" {
				hint = fmt.Sprintf(" (did you mean %q?)", near)
			}
			bad = fmt.Errorf("refers to an unknown variable %q%s; there are: %s; %s", name, hint, strings.Join(names, ", "), literal)
		}
		return v
	})
	if bad == nil && strings.Contains(reference.ReplaceAllString(text, ""), "{{") {
		bad = errors.New("has a malformed reference: want {{name}}; " + literal)
	}
	return out, bad
}

// headerState is the last header and context that the log holds. Used on the host
// thread.
type headerState struct {
	last    *Header
	context *RequestContext
	tokens  int     // of last's system prompt and tools, an estimate
	own     bool    // this instance has logged one: the next is a change, not initial or resume
	first   *Header // the last one before a fallback's, while those are the last; nil = last is the agent's own model's
	routed  bool    // the last header's config is the seed; false: the agent's options decide the route
}

func (s *headerState) fold(rec session.Record) {
	switch rec.Type {
	case RecRequestHeader:
		var r RequestHeader
		if decodeData(rec, &r) {
			s.last, s.tokens = &r.Header, model.EstimateText(r.Header.System)
			for _, t := range r.Header.Tools {
				s.tokens += model.EstimateTool(t)
			}
		}
	case RecRequestContext:
		var r RequestContext
		if decodeData(rec, &r) {
			s.context = &r
		}
	}
}

// seed is the config that agent/request starts from: the options' route at first, the
// last logged config afterwards, without what the provider's defaults had supplied.
func (s *headerState) seed(o Options) model.Config {
	last := s.last
	if s.first != nil {
		last = s.first
	}
	if last != nil && s.routed {
		return stripDefaults(last)
	}
	cfg := model.Config{Provider: o.Provider, Model: o.Model, MaxTokens: o.MaxTokens}
	if l := last; l != nil && l.Config.Provider == o.Provider && l.Config.Model == o.Model {
		cfg.ReasoningEffort = stripDefaults(l).ReasoningEffort
	}
	return cfg
}

func stripDefaults(h *Header) model.Config {
	cfg := h.Config
	if d := h.AdapterDefaults; d != nil {
		if d.ReasoningEffort {
			cfg.ReasoningEffort = ""
		}
		if d.MaxTokens {
			cfg.MaxTokens = 0
		}
	}
	return cfg
}

func (h *Host) info(cfg model.Config) model.Info {
	if p := h.providers[cfg.Provider]; p != nil {
		return p.Info(cfg.Model)
	}
	return model.Info{}
}

// applyDefaults fills in what the provider supplies by default, and marks it.
func applyDefaults(cfg model.Config, info model.Info) (model.Config, *AdapterDefaults) {
	var d AdapterDefaults
	if cfg.ReasoningEffort == "" && info.ReasoningEffort != "" {
		cfg.ReasoningEffort, d.ReasoningEffort = info.ReasoningEffort, true
	}
	if cfg.MaxTokens == 0 && info.MaxTokens != 0 {
		cfg.MaxTokens, d.MaxTokens = info.MaxTokens, true
	}
	if d == (AdapterDefaults{}) {
		return cfg, nil
	}
	return cfg, &d
}

// logHeader records the header, and the context beside it, where they differ from what
// the log says last.
func (a *agent) logHeader(h Header, info model.Info) error {
	s := &a.header
	reason := ""
	switch {
	case s.last == nil:
		reason = "initial"
	case !s.own:
		reason = "resume"
	case !sameJSON(*s.last, h):
		reason = "change"
	}
	if reason != "" {
		if _, err := a.append(RecRequestHeader, RequestHeader{Header: h, Reason: reason}); err != nil {
			return err
		}
		s.own = true
	}
	c := RequestContext{Provider: h.Config.Provider, Model: h.Config.Model, ContextWindow: info.ContextWindow}
	if s.context != nil && *s.context == c {
		return nil
	}
	_, err := a.append(RecRequestContext, c)
	return err
}

// sameJSON compares headers as the log would write them: a list that came through a
// script equals the one that went in.
func sameJSON(a, b Header) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}
