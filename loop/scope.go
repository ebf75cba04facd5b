package loop

import (
	"fmt"
	"slices"

	"dshsh/loop/model"
	"dshsh/loop/tool"
	"dshsh/runtime"
)

// restriction narrows the tools that an agent inherits. Used on the host thread.
type restriction struct{ allow, deny []string }

func (r *restriction) passes(name string) bool {
	return (r.allow == nil || slices.Contains(r.allow, name)) && !slices.Contains(r.deny, name)
}

// Restrict narrows the tools that the agent inherits from the host to those allowed (nil
// = all) and not denied; what it was given itself stays. Several restrictions intersect.
// lift ends this one. A name that is no inherited tool is an error.
func (a *agent) Restrict(allow, deny []string) (lift func(), err error) {
	for _, name := range slices.Concat(allow, deny) {
		if !slices.Contains(a.inherited(a.Generation()), name) {
			return nil, fmt.Errorf("cannot restrict %q: there is no such tool%s", name, near(name, a.inherited(a.Generation())))
		}
	}
	r := &restriction{slices.Clone(allow), slices.Clone(deny)}
	a.restrictions = append(slices.Clip(a.restrictions), r)
	return func() {
		a.restrictions = slices.DeleteFunc(slices.Clone(a.restrictions), func(x *restriction) bool { return x == r })
	}, nil
}

func near(name string, names []string) string {
	if n := tool.Nearest(name, names); n != "" {
		return fmt.Sprintf(" (did you mean %q?)", n)
	}
	return ""
}

// Generation is the scripts that the agent goes by at this moment. It implements
// runtime.Holder.
func (a *agent) Generation() *runtime.Generation {
	if a.act != nil {
		return a.act.gen
	}
	return a.h.Current()
}

// inherited names the tools that are there for every agent.
func (a *agent) inherited(gen *runtime.Generation) []string {
	var out []string
	for name := range a.h.tools {
		out = append(out, name)
	}
	for _, r := range gen.Offers(offerTool, nil) {
		out = append(out, r.Name)
	}
	return out
}

func (a *agent) permitted(name string) bool {
	for _, r := range a.restrictions {
		if !r.passes(name) {
			return false
		}
	}
	return true
}

// callee is the tool that a call names: one of the two kinds, or none.
type callee struct {
	native *nativeTool
	script *scriptTool
	known  []string // when there is none
}

func (c *callee) spec() model.ToolSpec {
	if c.native != nil {
		return c.native.Spec()
	}
	return c.script.spec
}

// visible is the agent's tools by name: its own in front of those it inherits, and built
// in ones in front of scripts'.
func (a *agent) visible(gen *runtime.Generation) map[string]*callee {
	out := map[string]*callee{}
	for _, r := range gen.Offers(offerTool, a) {
		if r.Scope == nil && a.permitted(r.Name) {
			out[r.Name] = &callee{script: r.Spec.(*scriptTool)}
		}
	}
	for name, t := range a.h.tools {
		if a.permitted(name) {
			out[name] = &callee{native: t}
		}
	}
	for _, r := range gen.Offers(offerTool, a) {
		if r.Scope == a {
			out[r.Name] = &callee{script: r.Spec.(*scriptTool)}
		}
	}
	for name, t := range a.tools {
		out[name] = &callee{native: t}
	}
	return out
}

// Tools implements Agent.
func (a *agent) Tools() []model.ToolSpec {
	gen := a.h.Current()
	if a.act != nil {
		gen = a.act.gen
	}
	return a.toolSpecs(gen)
}

// toolSpecs lists the tools that there are for the agent, in no order.
func (a *agent) toolSpecs(gen *runtime.Generation) []model.ToolSpec {
	tools := a.visible(gen)
	out := make([]model.ToolSpec, 0, len(tools))
	for _, c := range tools {
		out = append(out, c.spec())
	}
	return out
}

// findTool is the tool of that name, or one that fails with the names that there are.
func (a *agent) findTool(act *activity, name string) *callee {
	tools := a.visible(act.gen)
	if c := tools[name]; c != nil {
		return c
	}
	c := &callee{}
	for n := range tools {
		c.known = append(c.known, n)
	}
	return c
}
