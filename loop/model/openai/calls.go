package openai

import (
	"encoding/json"
	"strings"

	"dshsh/loop/model"
	"dshsh/loop/model/internal/wire"
)

// call is a tool call that is being put together from fragments.
type call struct {
	block     int  // its block's index
	index     *int // as the service numbers it; nil where it does not
	id, name  string
	arguments strings.Builder
}

// whole reports whether the arguments so far are a complete JSON value.
func (c *call) whole() bool { return json.Valid([]byte(c.arguments.String())) }

// fragment takes a piece of a tool call.
func (s *stream) fragment(f *fragment) {
	name, arguments := f.Function.Name, string(f.Function.Arguments)
	c := s.callOf(f)
	if c == nil {
		s.closeText()
		c = &call{block: s.blocks, index: f.Index, id: f.ID, name: name}
		s.blocks++
		s.Calls++
		s.calls = append(s.calls, c)
		s.Push(model.NewBlockStart(c.block, model.BlockToolCall))
		c.arguments.WriteString(arguments)
		s.Push(model.NewToolCallDelta(c.block, c.id, c.name, arguments))
		return
	}
	fresh := model.NewToolCallDelta(c.block, "", "", arguments)
	if c.id == "" && f.ID != "" {
		c.id, fresh.ID = f.ID, f.ID
	}
	switch {
	case name == "" || name == c.name: // some services repeat it
	case c.name == "":
		c.name, fresh.Name = name, name
	case c.arguments.Len() == 0:
		c.name += name // it comes in pieces, too
	}
	c.arguments.WriteString(arguments)
	if fresh.ID != "" || fresh.Name != "" || arguments != "" {
		s.Push(fresh)
	}
}

// callOf returns the call that a fragment belongs to, or nil if it begins a new one. As
// specified, the index decides. But some services leave it out, give every call the
// same, or send ids only at the start or at random, so a fragment that looks like a
// beginning is one:
//
//   - a new id, together with a name, or without a number;
//   - a name without an id, when it is another name than before or the arguments so far
//     are complete and more come.
//
// Whatever else cannot be placed belongs to the newest call. Where this errs it joins two
// calls, whose arguments then are not JSON and are refused; it never makes up a second
// call out of one.
func (s *stream) callOf(f *fragment) *call {
	if len(s.calls) == 0 {
		return nil
	}
	newest := s.calls[len(s.calls)-1]
	name := f.Function.Name
	c := newest
	if f.Index != nil {
		c = nil
		for i := len(s.calls) - 1; i >= 0 && c == nil; i-- {
			if at := s.calls[i].index; at != nil && *at == *f.Index {
				c = s.calls[i]
			}
		}
		if c == nil {
			if f.ID == "" && name == "" && newest.index == nil {
				return newest // numbered only from the second fragment on
			}
			return nil
		}
	} else if f.ID != "" {
		for _, other := range s.calls {
			if other.id == f.ID {
				c = other
			}
		}
	}
	begins := false
	switch {
	case f.ID != "" && f.ID == c.id:
	case name == "":
		begins = f.Index == nil && f.ID != "" && c.id != "" // unnumbered, and an id never seen
	case f.ID != "" && c.id != "":
		begins = true
	case c.name == "":
	case c.arguments.Len() == 0:
		begins = f.Index == nil && name != c.name // where numbered it is a piece of the name
	default:
		begins = name != c.name || f.Function.Arguments != "" && c.whole()
	}
	if begins {
		return nil
	}
	return c
}

// closeCalls ends the tool calls. Ids that are missing or given twice are replaced, since
// a result could not be matched to its call.
func (s *stream) closeCalls() {
	seen := make(map[string]bool, len(s.calls))
	for _, c := range s.calls {
		if c.id == "" || seen[c.id] {
			c.id = wire.NewID()
		}
		seen[c.id] = true
		s.Push(model.NewBlockEnd(c.block, model.ToolCall(c.id, c.name, model.ScrubJSON(c.arguments.String()))))
	}
}
