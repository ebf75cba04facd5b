package loop_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"weak"

	"dshsh/loop"
	"dshsh/runtime"
)

// plan is what a call's arguments ask the scripts to do with it. It travels with the
// call: whoever acts on it needs no memory of its own, and whoever checks knows what had
// to happen.
type plan struct {
	N      string            `json:"n"`           // the nonce: "[agent:number]"
	P      map[string]string `json:"p,omitempty"` // tools/pre-execute, by script
	A      map[string]string `json:"a,omitempty"` // approval/request
	X      map[string]string `json:"x,omitempty"` // tools/execute
	Q      map[string]string `json:"q,omitempty"` // tools/post-execute
	Person string            `json:"person,omitempty"`
	Body   string            `json:"body,omitempty"`
	Safe   bool              `json:"safe,omitempty"`
	W      string            `json:"w,omitempty"` // who rewrote the arguments
}

var guards = []string{"guard.js", "guard.lua"}

// forbidden says why the call may not run, whatever fails on the way.
func (p *plan) forbidden() string {
	asked := false
	for _, g := range guards {
		switch act := p.P[g]; act {
		case "deny", "throw", "bad", "hang":
			return g + " does " + act
		case "ask":
			asked = true
		}
	}
	if !asked {
		return ""
	}
	for _, g := range guards {
		if act := p.A[g]; act == "deny" || act == "throw" {
			return g + " answers " + act
		}
	}
	if p.Person == "no" || p.Person == "nobody" {
		return "the person says " + p.Person
	}
	return ""
}

func (p *plan) rewriters() (by []string) {
	for _, g := range guards {
		if strings.HasPrefix(p.P[g], "rewrite") {
			by = append(by, g+" "+p.N)
		}
	}
	return by
}

func (s *storm) plan(agent string) plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := plan{N: s.nonceLocked(agent), Safe: s.diceLocked(2) == 0}
	guards := guards // that have something to say
	pick := func(m *map[string]string, of []string, acts ...string) {
		for _, f := range of {
			if i := s.diceLocked(2 * len(acts)); i < len(acts) && acts[i] != "" {
				if *m == nil {
					*m = map[string]string{}
				}
				(*m)[f] = acts[i]
			}
		}
	}
	one := func(acts ...string) string { return acts[s.diceLocked(len(acts))] }
	if s.diceLocked(5) > 1 {
		guards = nil
	}
	pick(&p.P, guards, "none", "none", "allow", "allow", "deny", "ask", "ask", "rewrite", "rewrite-next", "throw", "bad", "catch", "loose", "", "")
	pick(&p.A, guards, "deny", "throw", "allow", "none", "", "")
	wraps := []string{"wrap.js", "wrap.lua"}
	pick(&p.X, wraps, "none", "short", "throw", "wrap", "wrap")
	pick(&p.Q, wraps, "none", "replace", "replace", "block", "context", "throw")
	if s.diceLocked(400) == 0 {
		p.P = map[string]string{stormNames[s.diceLocked(2)]: "hang"}
	}
	p.Person = one("yes", "yes", "yes", "no", "nobody", "late")
	p.Body = one("", "", "", "fail", "slow", "slow", "defer", "conclude", "secret", "panic", "send", "cancel", "idle")
	return p
}

// ledger is what is known of the round. Guarded by storm.mu. Instances are kept by weak
// pointers, so that looking at them does not keep them alive.
type ledger struct {
	serial  int
	nextID  int
	agents  map[string]loop.Agent
	live    map[string]*liveAgent
	calls   map[string]*seenCall    // by agent and call id
	turns   map[string]int          // agent -> generation of its open turn
	gens    map[int]*genInfo        // by number
	pins    map[string]weakInstance // by agent, turn and script
	onces   map[onceKey]bool
	effects map[weakInstance]map[int]int // by instance and epoch: effects that are not undone
	bodies  map[string]map[string]bool   // agent -> native bodies that run -> exclusive
	waited  map[string]time.Duration     // the longest waits for the thread
}

type onceKey struct {
	in    weakInstance
	epoch int
	key   string
}

type weakInstance = weak.Pointer[runtime.Instance]

type genInfo struct {
	instances map[weakInstance]bool
	standIn   bool
}

type seenCall struct {
	heard map[string]bool // "guard.js all", "guard.js scoped", ...
	ran   int
}

// liveAgent counts live events.
type liveAgent struct {
	inbox    map[string]int // message -> inserted minus taken out
	status   string
	started  map[int]int
	ended    map[int]int
	aborting map[int]int
	errors   map[int]int
	requests [][32]byte // sums of those that were made
}

func newLedger() ledger {
	return ledger{
		agents: map[string]loop.Agent{}, live: map[string]*liveAgent{}, calls: map[string]*seenCall{}, turns: map[string]int{}, gens: map[int]*genInfo{},
		pins: map[string]weakInstance{}, onces: map[onceKey]bool{}, effects: map[weakInstance]map[int]int{},
		bodies: map[string]map[string]bool{}, waited: map[string]time.Duration{},
	}
}

// endRound forgets what belongs to agents that are gone.
func (s *storm) endRound() {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.ledger
	s.ledger = newLedger()
	s.serial, s.nextID, s.effects, s.waited = old.serial, old.nextID, old.effects, old.waited
	newest := -1
	for n := range old.gens {
		newest = max(newest, n)
	}
	s.gens[newest] = old.gens[newest]
}

func (s *storm) nonceLocked(agent string) string {
	s.serial++
	return fmt.Sprintf("[%s:%d]", agent, s.serial)
}

func (s *storm) nonce(agent string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nonceLocked(agent)
}

var nonceRx = regexp.MustCompile(`\[[\w.-]+:\d+\]`)

// foreign is a nonce in text that is not n. Why a script is in quarantine is about the
// call that brought it there.
func foreign(text, n string) string {
	if strings.Contains(text, "quarantined") {
		return ""
	}
	for _, t := range nonceRx.FindAllString(text, -1) {
		if t != n {
			return t
		}
	}
	return ""
}

// strange is a nonce in text that is not the agent's.
func strange(text, agent string) string {
	if strings.Contains(text, "quarantined") {
		return ""
	}
	for _, t := range nonceRx.FindAllString(text, -1) {
		if !strings.HasPrefix(t, "["+agent+":") {
			return t
		}
	}
	return ""
}

func (s *storm) callLocked(agent, callID string) *seenCall {
	k := agent + " " + callID
	c := s.calls[k]
	if c == nil {
		c = &seenCall{heard: map[string]bool{}}
		s.calls[k] = c
	}
	return c
}

// ran is told by every tool body: nothing may run that a guard has not heard of, or that
// anybody has refused.
func (s *storm) ran(agent, callID string, raw json.RawMessage) plan {
	var p plan
	err := json.Unmarshal(raw, &p)
	s.mu.Lock()
	defer s.mu.Unlock()
	bad := func(format string, args ...any) {
		s.faultLocked("the body of %s (%s %s) runs: %s", p.N, agent, callID, fmt.Sprintf(format, args...))
	}
	c := s.callLocked(agent, callID)
	c.ran++
	switch {
	case err != nil:
		bad("%v", err)
	case strange(p.N, agent) != "":
		bad("for another agent")
	case c.ran > 1:
		bad("again")
	}
	if why := p.forbidden(); why != "" {
		bad("although %s", why)
	}
	if by := p.rewriters(); len(by) > 0 && !slices.Contains(by, p.W) || len(by) == 0 && p.W != "" {
		bad("rewritten by %q, want one of %q", p.W, by)
	}
	for _, g := range guards {
		for _, how := range []string{"all", "scoped"} {
			if !c.heard[g+" "+how] {
				bad("%s (%s) has not heard of it", g, how)
			}
		}
	}
	if g := s.gens[s.turns[agent]]; g == nil || g.standIn {
		bad("in generation %d, where a script is missing", s.turns[agent])
	}
	s.counts["bodies"]++
	return p
}

// mark is told by awaited listeners: a turn has one generation, to its end.
func (s *storm) mark(in *runtime.Instance, agent string, turn int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts["awaited calls of scripts"]++
	w := weak.Make(in)
	k := fmt.Sprintf("%s %d %s", agent, turn, in.ID)
	if was, ok := s.pins[k]; ok && was != w {
		s.faultLocked("turn %d of %s meets two instances of %s", turn, agent, in.ID)
	}
	s.pins[k] = w
	if g := s.gens[s.turns[agent]]; g == nil || !g.instances[w] {
		s.faultLocked("turn %d of %s meets %s, which is not of its generation %d", turn, agent, in.ID, s.turns[agent])
	}
}

// alive is told by what a script does on its own account.
func (s *storm) alive(in *runtime.Instance, what string) {
	if !s.h.Current().Contains(in) {
		s.fault("a %s of %s runs after it was replaced", what, in.ID)
	}
	s.count("timers and spawned calls of scripts", 1)
}

func (s *storm) once(in *runtime.Instance, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := onceKey{weak.Make(in), in.Epoch(), key}
	if s.onces[k] {
		s.faultLocked("%s is told twice: %s", in.ID, key)
	}
	s.onces[k] = true
}

func (s *storm) effect(in *runtime.Instance, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := weak.Make(in)
	if s.effects[w] == nil {
		s.effects[w] = map[int]int{}
	}
	s.effects[w][in.Epoch()] += n
	if got := s.effects[w][in.Epoch()]; got < 0 || got > 1 {
		s.faultLocked("%s has %d effects, want 0 or 1", in.ID, got)
	}
	if s.effects[w][in.Epoch()] == 0 {
		delete(s.effects[w], in.Epoch())
	}
}
