package repl

import "strings"

// search is a search backwards in the history (Ctrl-R). Editor.mu guards it.
type search struct {
	query    []rune
	at       int // entry that is shown; len(entries) for none
	failed   bool
	saved    []rune // the line before
	savedPos int
}

// searchKey handles a key during a search. It returns false for a key that ends the search
// and still has to be done. Editor.mu is held.
func (e *Editor) searchKey(k key) bool {
	s := e.search
	switch k.kind {
	case keyText:
		s.query = append(s.query, []rune(k.text)...)
		e.find(s.at)
	case keySearch:
		if len(s.query) > 0 {
			e.find(s.at - 1)
		}
	case keyBackspace:
		q := buffer{text: s.query}
		s.query = s.query[:q.left(len(s.query))]
		s.at = len(e.hist.entries)
		e.find(s.at)
	case keyEscape, keyInterrupt:
		e.base.buf.text, e.base.buf.pos = s.saved, s.savedPos
		e.search = nil
	default:
		e.search = nil
		return false
	}
	return true
}

// find shows the newest entry at or before from that holds the query. Editor.mu is held.
func (e *Editor) find(from int) {
	s := e.search
	query := string(s.query)
	s.failed = false
	if query == "" {
		return
	}
	for i := min(from, len(e.hist.entries)-1); i >= 0; i-- {
		entry := e.hist.entries[i]
		if at := strings.Index(entry, query); at >= 0 {
			s.at = i
			b := &e.base.buf
			b.set(e.recall(i))
			if len(b.text) == len([]rune(entry)) {
				b.pos = len([]rune(entry[:at]))
			}
			e.base.browse.at = i
			return
		}
	}
	s.failed = true
	e.ring()
}
