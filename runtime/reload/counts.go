package reload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dshsh/runtime"
)

// Counts is how many of each kind scripts have registered: "listener", "tool", "command",
// "section", "context". Immutable, except while it is made.
type Counts map[string]int

func countsOf(in *runtime.Instance) Counts {
	c := Counts{}
	if n := len(in.Listeners()); n > 0 {
		c[kindListener] = n
	}
	for _, r := range in.Registrations() {
		c[r.Kind]++
	}
	return c
}

const kindListener = "listener"

// add adds n times what o has.
func (c Counts) add(o Counts, n int) {
	for kind, have := range o {
		if c[kind] += n * have; c[kind] == 0 {
			delete(c, kind)
		}
	}
}

// String is "2 listeners, 1 tool", "nothing registered" when there is none.
func (c Counts) String() string {
	if len(c) == 0 {
		return "nothing registered"
	}
	return strings.Join(c.parts("%d"), ", ")
}

// parts lists the kinds, listeners first, each with its number in that format.
func (c Counts) parts(format string) []string {
	kinds := slices.Sorted(maps.Keys(c))
	if i := slices.Index(kinds, kindListener); i > 0 {
		kinds = slices.Insert(slices.Delete(kinds, i, i+1), 0, kindListener)
	}
	var out []string
	for _, kind := range kinds {
		n := c[kind]
		if n != 1 && n != -1 {
			kind += "s"
		}
		out = append(out, fmt.Sprintf(format+" %s", n, kind))
	}
	return out
}
