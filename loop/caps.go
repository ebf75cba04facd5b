package loop

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"dshsh/loop/model"
)

// room refuses what would never end: more messages of scripts than may wait, and more
// edits than one change of the inbox may bring about in its listeners.
func (a *agent) room(who string, script bool) error {
	if a.telling && a.told > a.h.budget() {
		a.h.warn(who, fmt.Sprintf("stopped: %s answers each change of the inbox with another one; `/scripts off NAME` ends it", who))
		return errors.New("refused: one change of the inbox has caused too many others")
	}
	if !script {
		return nil
	}
	n := a.putOff
	for _, m := range a.inbox.waiting() {
		if m.Source.Kind == model.SourcePlugin {
			n++
		}
	}
	if most := a.h.cfg.Caps.Pending; n >= most {
		a.h.warn(who, fmt.Sprintf("refused: %d messages from scripts wait already, so %s may send no more; `/scripts off NAME` ends it", most, who))
		return fmt.Errorf("refused: %d messages from scripts wait already", most)
	}
	return nil
}

func sender(m model.Message, a *agent) string {
	if m.Source.Plugin != "" {
		return m.Source.Plugin
	}
	return a.id
}

// scriptsOnly applies the cap on turns that nothing but scripts begin. A message from a
// person or from Go resets the count.
func (a *agent) scriptsOnly() bool {
	if !fromScripts(a.inbox.waiting()) {
		return false
	}
	if a.scripted++; a.scripted <= a.h.cfg.Caps.ScriptTurns {
		return false
	}
	a.h.cfg.Notices.Capped(a, fmt.Sprintf("stopped: %s begun %d turns in a row without you; type anything to go on, or `/scripts off NAME` to end it",
		a.scriptsHave(), a.h.cfg.Caps.ScriptTurns))
	return true
}

// scriptsHave names the scripts whose messages wait, as the beginning of a sentence.
func (a *agent) scriptsHave() string {
	var names []string
	for _, m := range a.inbox.waiting() {
		if name := m.Source.Plugin; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return "scripts have"
	case 1:
		return names[0] + " has"
	}
	return strings.Join(names, ", ") + " have"
}

// mayContinue says whether the turn goes on although the model has answered: for what
// waits for the next step, if that is not from scripts alone for too many times in a row.
// Turns that scripts begin go on counting, so that the two caps do not multiply.
func (a *agent) mayContinue() bool {
	if len(a.inbox.step) == 0 {
		return false
	}
	if !fromScripts(messagesOf(a.inbox.step)) {
		a.forced = 0
		return true
	}
	most := a.h.cfg.Caps.Continuations
	if a.forced++; a.forced == most+1 {
		a.h.cfg.Notices.Capped(a, fmt.Sprintf("stopped: %s continued this turn %d times; `/scripts off NAME` ends it", a.scriptsHave(), most))
	}
	return a.forced <= most
}

// fromScripts says whether nothing of it is from a person or from Go.
func fromScripts(ms []model.Message) bool {
	return !slices.ContainsFunc(ms, func(m model.Message) bool { return m.Source.Kind != model.SourcePlugin })
}

// budget is how many operations one of them may cause in listeners. Where that was not
// enough once it is a hundredth, until a person sends something: every record of the
// turn would use all of it up again.
func (h *Host) budget() int {
	if len(h.warned) > 0 {
		return max(1, h.cfg.Caps.Deferred/100)
	}
	return h.cfg.Caps.Deferred
}

// warn shows a line about whoever caused too much, once until a person sends something.
func (h *Host) warn(who, line string) {
	if !h.warned[who] {
		h.warned[who] = true
		h.cfg.Notices.Capped(nil, line)
	}
}
