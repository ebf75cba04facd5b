package runtime

import (
	"fmt"
	"reflect"
	"strings"
)

// Call is one call from a script to Go. Valid during the call, on the thread.
type Call struct {
	Instance *Instance // whose VM calls
	Name     string    // how messages call the function: "agent.followup"
	Self     Object    // of a method
	Args     []Value
	// Where is the script's line that calls, when the binding knows it.
	Where Position
}

// Position is a place in a script's source. Line and Col count from 1; 0 = unknown.
type Position struct {
	File string `json:"file,omitempty"` // the file's name in its script folder: "guard.js"
	Line int    `json:"line,omitempty"`
	Col  int    `json:"col,omitempty"`
}

// Unpack decodes the arguments into dst in order: name1, &dst1, name2, &dst2, ... A name
// that ends in "?" is optional, and stays untouched when the argument is missing or
// nil. It is the one place that words argument errors, so both languages fail alike:
//
//	agent.followup: for parameter content: got number, want string
func (c *Call) Unpack(pairs ...any) error {
	n := len(pairs) / 2
	if len(c.Args) > n {
		return fmt.Errorf("%s: got %d arguments, want at most %d", c.Name, len(c.Args), n)
	}
	for i := range n {
		name := pairs[2*i].(string)
		optional := strings.HasSuffix(name, "?")
		name = strings.TrimSuffix(name, "?")
		var arg Value
		if i < len(c.Args) {
			arg = c.Args[i]
		}
		if arg == nil {
			if optional {
				continue
			}
			if i >= len(c.Args) {
				return fmt.Errorf("%s: missing parameter %s", c.Name, name)
			}
		}
		if err := decode(arg, reflect.ValueOf(pairs[2*i+1]).Elem()); err != nil {
			return fmt.Errorf("%s: for parameter %s: %w", c.Name, name, err)
		}
	}
	return nil
}
