package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"dshsh/runtime"
	"dshsh/session"
)

// MaxScriptState is how many bytes the keys and the JSON texts of one script's state in
// one session may have together.
const MaxScriptState = 1 << 20

// Each write is a record that stays in the log: so many bytes of them one script may write
// at once, in all sessions, and so many a second after that.
const (
	stateBurst = 16 << 20
	stateRate  = 64 << 10
	recordCost = 200 // of what is around a key and its value
)

// ScriptState is one write to agent.state: null removes a key.
type ScriptState struct {
	Script string                     `json:"script"` // "project/guard.js"
	Patch  map[string]json.RawMessage `json:"patch"`
}

// states is what scripts have kept in the session, by script and key: a fold of the
// script/state records, so that reading does not cost a walk over the log. Used on the
// host thread.
type states map[string]*kept

// kept is what one script keeps, and how many bytes that is.
type kept struct {
	m    map[string]json.RawMessage
	size int
}

func (s states) fold(rec session.Record) {
	var d ScriptState
	if !decodeData(rec, &d) {
		return
	}
	k := s.of(d.Script)
	for key, raw := range d.Patch {
		k.size -= cost(key, k.m[key])
		if isNull(raw) {
			delete(k.m, key)
			continue
		}
		k.m[key] = raw
		k.size += cost(key, raw)
	}
}

func (s states) of(script string) *kept {
	k := s[script]
	if k == nil {
		k = &kept{m: map[string]json.RawMessage{}}
		s[script] = k
	}
	return k
}

func cost(key string, raw json.RawMessage) int {
	if raw == nil {
		return 0
	}
	return len(key) + len(raw)
}

func isNull(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

// DeriveState is what the scripts had kept at the end of records, by script and key, from
// scratch.
func DeriveState(records []session.Record) map[string]map[string]json.RawMessage {
	s := states{}
	for _, rec := range records {
		if rec.Type == RecScriptState {
			s.fold(rec)
		}
	}
	return s.copy()
}

// copy leaves out scripts that keep nothing.
func (s states) copy() map[string]map[string]json.RawMessage {
	out := map[string]map[string]json.RawMessage{}
	for script, k := range s {
		if len(k.m) > 0 {
			out[script] = maps.Clone(k.m)
		}
	}
	return out
}

// checkState says whether a script/state record is one.
func checkState(rec session.Record) error {
	var d ScriptState
	if err := json.Unmarshal(rec.Data, &d); err != nil {
		return err
	}
	if d.Script == "" {
		return errors.New("script/state does not say whose")
	}
	if d.Patch == nil {
		return errors.New("script/state without a patch")
	}
	return nil
}

// stateBag is agent.state of one script. Used on the host thread.
type stateBag struct {
	a      *agent
	script string
	// pending are writes from inside a session/event listener that are not in the log yet,
	// in their order. They are read as if they were.
	pending []*stateWrite
	views   map[string]stateView // of what was read, so that it stays one object
}

type stateWrite struct {
	key string
	raw json.RawMessage // nil removes
}

type stateView struct {
	raw json.RawMessage
	v   runtime.Value
}

var stateClass = &runtime.Class{Name: "agent.state", Doc: "What this script keeps in the agent's session, by key; frozen copies."}

// Class implements runtime.Object.
func (*stateBag) Class() *runtime.Class { return stateClass }

// stateOf is the state of a script. Each script has its own, which outlives the script's
// instances.
func (a *agent) stateOf(in *runtime.Instance) (runtime.Value, error) {
	if in.Loading() {
		return nil, fmt.Errorf("agent.state: %w", runtime.ErrLoading)
	}
	b := a.bags[in.ID]
	if b == nil {
		b = &stateBag{a: a, script: in.ID, views: map[string]stateView{}}
		a.bags[in.ID] = b
	}
	return b, nil
}

// read is a key's JSON text as the script sees it, or nil.
func (b *stateBag) read(key string) json.RawMessage {
	for _, w := range slices.Backward(b.pending) {
		if w.key == key {
			return w.raw
		}
	}
	return b.a.states.of(b.script).m[key]
}

// Keys implements runtime.Bag.
func (b *stateBag) Keys() []string {
	keys := map[string]bool{}
	for k := range b.a.states.of(b.script).m {
		keys[k] = true
	}
	for _, w := range b.pending {
		if keys[w.key] = true; w.raw == nil {
			delete(keys, w.key)
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// Get implements runtime.Bag.
func (b *stateBag) Get(key string) (runtime.Value, bool) {
	raw := b.read(key)
	if raw == nil {
		delete(b.views, key)
		return nil, false
	}
	if c, ok := b.views[key]; ok && &c.raw[0] == &raw[0] {
		return c.v, true
	}
	v := runtime.ValueOf(raw)
	b.views[key] = stateView{raw, v}
	return v, true
}

// Set implements runtime.Bag.
func (b *stateBag) Set(key string, v runtime.Value) error {
	raw, err := runtime.AppendJSON(nil, v, "agent.state."+key)
	if err != nil {
		return err
	}
	if isNull(raw) {
		return b.Delete(key)
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("agent.state: the key %q is no valid UTF-8", key)
	}
	if size := b.sizeWith(key, raw); size > MaxScriptState {
		return fmt.Errorf("agent.state.%s: it would have %d bytes with this; %s may keep %d in a session", key, size, b.script, MaxScriptState)
	}
	return b.write(key, raw)
}

// Delete implements runtime.Bag.
func (b *stateBag) Delete(key string) error {
	if b.read(key) == nil {
		return nil
	}
	return b.write(key, nil)
}

// sizeWith is how much the state has when key is raw.
func (b *stateBag) sizeWith(key string, raw json.RawMessage) int {
	k := b.a.states.of(b.script)
	size := k.size - cost(key, k.m[key]) + cost(key, raw)
	seen := map[string]bool{key: true}
	for _, w := range slices.Backward(b.pending) {
		if !seen[w.key] {
			seen[w.key] = true
			size += cost(w.key, w.raw) - cost(w.key, k.m[w.key])
		}
	}
	return size
}

// write records the change, later where nothing can be appended now. The listener that
// makes it does not hear of it.
func (b *stateBag) write(key string, raw json.RawMessage) error {
	a := b.a
	if !a.h.mayWrite(b.script, recordCost+cost(key, raw)) {
		return fmt.Errorf("agent.state.%s: %s has written more than %d MiB in a short time, and may go on with %d KiB a second: write less often, or less", key, b.script, stateBurst>>20, stateRate>>10)
	}
	by := a.h.Emitting()
	if a.h.publishing == 0 {
		return b.put(key, raw, by)
	}
	w := &stateWrite{key, raw}
	b.pending = append(b.pending, w)
	a.h.laterUnless(b.script, func() {
		b.drop(w)
		if err := b.put(key, raw, by); err != nil {
			a.h.cfg.Notices.Broken(a, fmt.Errorf("%s: %w", b.script, err))
		}
	}, func() { b.drop(w) })
	return nil
}

// mayWrite takes n bytes of what a script may write to agent.state.
func (h *Host) mayWrite(script string, n int) bool {
	w := h.written[script]
	if w == nil {
		w = &runtime.Allowance{Burst: stateBurst, Rate: stateRate}
		h.written[script] = w
	}
	return w.Take(float64(n))
}

func (b *stateBag) put(key string, raw json.RawMessage, by *runtime.Listener) error {
	a := b.a
	if a.gone {
		return fmt.Errorf("agent.state.%s: agent %s: %w", key, a.id, ErrDisposed)
	}
	if raw == nil {
		raw = json.RawMessage("null")
	}
	if _, err := a.appendExcept(RecScriptState, ScriptState{Script: b.script, Patch: map[string]json.RawMessage{key: raw}}, by); err != nil {
		return fmt.Errorf("agent.state.%s: %w", key, err)
	}
	return nil
}

func (b *stateBag) drop(w *stateWrite) {
	b.pending = slices.DeleteFunc(b.pending, func(x *stateWrite) bool { return x == w })
}
