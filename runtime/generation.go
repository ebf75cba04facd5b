package runtime

// Generation is the ordered set of script instances that are in force together. Its set
// is immutable; what it caches is used on the thread. Instances that did not change are
// shared by the next generation.
type Generation struct {
	N         int
	Instances []*Instance // by layer, then file name

	host    *Host
	refs    int
	gone    bool
	version int
	cache   map[*Event][]*Listener
}

func (h *Host) newGeneration(ins []*Instance) *Generation {
	g := &Generation{N: h.count, Instances: ins, host: h}
	h.count++
	h.generations[g] = struct{}{}
	for _, in := range ins {
		in.hold()
	}
	return g
}

// Current is the newest generation.
func (h *Host) Current() *Generation { return h.current }

// Activate makes a new generation of ins the newest one and returns it. Activities that
// hold an older one keep it. Timers, commands and spawned functions of scripts that it
// does not contain end now; effects of new ones begin. An instance that has left the
// newest generation does not come back: its program is loaded again.
func (h *Host) Activate(ins []*Instance) *Generation {
	old := h.current
	g := h.newGeneration(ins)
	g.refs++
	h.current = g
	for _, in := range ins {
		in.activate()
	}
	for _, in := range old.Instances {
		if !g.Contains(in) {
			in.retire()
		}
	}
	h.changed()
	old.Release()
	return g
}

// Contains says whether in is part of the generation.
func (g *Generation) Contains(in *Instance) bool {
	for _, x := range g.Instances {
		if x == in {
			return true
		}
	}
	return false
}

// Hold keeps the generation's scripts alive until Release. An activity (a turn, a
// command, a tool) holds the one that it began with.
func (g *Generation) Hold() *Generation {
	g.refs++
	return g
}

// Release undoes one Hold. The last one disposes what no other generation shares.
func (g *Generation) Release() {
	if g.refs--; g.refs > 0 || g.gone {
		return
	}
	g.gone = true
	delete(g.host.generations, g)
	for _, in := range g.Instances {
		in.release()
	}
}

// Offers lists what the scripts have registered under kind for owner (and for all), in
// the order of the scripts.
func (g *Generation) Offers(kind string, owner any) []*Registration {
	var out []*Registration
	for _, in := range g.Instances {
		if in.quarantine != nil {
			continue
		}
		for _, r := range in.regs {
			if r.Kind == kind && (r.Scope == nil || r.Scope == owner) {
				out = append(out, r)
			}
		}
	}
	return out
}

// Find is the last offer of kind with that name, or nil.
func (g *Generation) Find(kind, name string, owner any) *Registration {
	all := g.Offers(kind, owner)
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Name == name {
			return all[i]
		}
	}
	return nil
}

// DropScope removes every registration for one owner, of scripts and of Go, when the
// owner ends.
func (h *Host) DropScope(scope any) {
	if scope == nil {
		return
	}
	for in := range h.instances {
		in.dropScope(scope)
	}
	for e, ls := range h.golisteners {
		keep := ls[:0:0]
		for _, l := range ls {
			if l.Scope != scope {
				keep = append(keep, l)
			}
		}
		h.golisteners[e] = keep
	}
	h.changed()
}

// listeners is the one order of an event's listeners: Go first, then the scripts by
// layer (in each, the prepended ones first), file and registration.
func (g *Generation) listeners(e *Event) []*Listener {
	if g.cache == nil || g.version != g.host.version {
		g.cache, g.version = map[*Event][]*Listener{}, g.host.version
	}
	ls, ok := g.cache[e]
	if ok {
		return ls
	}
	ls = append(ls, g.host.golisteners[e]...)
	for i := 0; i < len(g.Instances); {
		layer := g.Instances[i].Layer
		j := i
		var first, rest []*Listener
		for ; j < len(g.Instances) && g.Instances[j].Layer == layer; j++ {
			for _, l := range g.Instances[j].listeners {
				switch {
				case l.Event != e:
				case l.prepend:
					first = append([]*Listener{l}, first...)
				default:
					rest = append(rest, l)
				}
			}
		}
		ls = append(append(ls, first...), rest...)
		i = j
	}
	g.cache[e] = ls
	return ls
}
