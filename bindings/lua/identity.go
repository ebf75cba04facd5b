package lua

import (
	"fmt"
	"weak"

	glua "github.com/yuin/gopher-lua"
)

// identities number the tables, functions and coroutines whose text a script has asked
// for, in the order in which it did: an address would make each run another. It keeps none
// of them alive. Used on the host thread.
type identities struct {
	numbers map[any]int // by weak.Pointer
	last    int
	sweep   int // size at which the dead are swept out
}

// text is a value's text without regard to __tostring.
func (vm *machine) text(v glua.LValue) string {
	switch x := v.(type) {
	case *glua.LTable:
		return vm.ids.text("table", weak.Make(x))
	case *glua.LFunction:
		return vm.ids.text("function", weak.Make(x))
	case *glua.LState:
		return vm.ids.text("thread", weak.Make(x))
	case *glua.LUserData:
		return vm.ids.text("userdata", weak.Make(x))
	}
	return v.String()
}

func (ids *identities) text(kind string, p any) string {
	n, ok := ids.numbers[p]
	if !ok {
		if ids.numbers == nil {
			ids.numbers, ids.sweep = map[any]int{}, minSweep
		}
		if len(ids.numbers) >= ids.sweep {
			for p := range ids.numbers {
				if dead(p) {
					delete(ids.numbers, p)
				}
			}
			ids.sweep = max(minSweep, 2*len(ids.numbers))
		}
		ids.last++
		n = ids.last
		ids.numbers[p] = n
	}
	return fmt.Sprintf("%s: 0x%08x", kind, n)
}

func dead(p any) bool {
	switch p := p.(type) {
	case weak.Pointer[glua.LTable]:
		return p.Value() == nil
	case weak.Pointer[glua.LFunction]:
		return p.Value() == nil
	case weak.Pointer[glua.LState]:
		return p.Value() == nil
	case weak.Pointer[glua.LUserData]:
		return p.Value() == nil
	}
	return true
}

// each calls fn with the members of t: first the list, then the others in the order in
// which they were first set, as pairs gives them. LTable.ForEach has Go's random one.
func each(t *glua.LTable, fn func(k, v glua.LValue)) {
	for k, v := t.Next(glua.LNil); k != glua.LNil; k, v = t.Next(k) {
		fn(k, v)
	}
}
