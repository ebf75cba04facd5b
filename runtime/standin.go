package runtime

import "context"

// StandIn makes an instance in the place of a script that has never loaded: it has no VM
// and registers nothing, and Failed says why. It is part of a generation like any other,
// so that an activity which began with it keeps it to its end. What it means is decided
// by the owner of the events: while the generation that an agent holds contains one, its
// tool calls are denied. One that no generation takes is given to Discard.
func (h *Host) StandIn(f ScriptFile, reason error) *Instance {
	in := h.newInstance(f)
	in.failed = reason
	in.state = stateLoaded
	return in
}

// Failed is why the script could not be loaded, if this is a stand-in, else nil.
func (in *Instance) Failed() error { return in.failed }

// SetFailed gives a stand-in a newer reason, after another attempt to load the script.
func (in *Instance) SetFailed(reason error) { in.failed = reason }

// Failed lists the stand-ins, in the order of the scripts; empty when every script of
// the generation runs.
func (g *Generation) Failed() []*Instance {
	var out []*Instance
	for _, in := range g.Instances {
		if in.failed != nil {
			out = append(out, in)
		}
	}
	return out
}

// newInstance is an instance that is loading.
func (h *Host) newInstance(f ScriptFile) *Instance {
	in := &Instance{ID: f.ID, Layer: f.Layer, File: f.File, Path: f.Path, Hash: f.Hash, host: h, program: f.Program,
		timers: map[*pendingTimer]struct{}{}, ctxs: map[any]*Ctx{},
		lines: flood{allowance: Allowance{Burst: lineBurst, Rate: lineRate}}, failures: flood{allowance: Allowance{Burst: failureBurst, Rate: failureRate}}}
	in.ctx, in.cancel = context.WithCancelCause(context.Background())
	in.bg, in.cancelBg = context.WithCancelCause(context.Background())
	h.instances[in] = struct{}{}
	return in
}
