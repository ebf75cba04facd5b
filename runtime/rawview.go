package runtime

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// rawText is the JSON text behind a view. One level is split on first look; members stay
// text until they are read.
type rawText struct {
	text    json.RawMessage // without space around it
	valid   bool            // known to be: part of a text that is
	split   bool
	members []rawMember // of an object sorted by key
}

type rawMember struct {
	key  string
	text json.RawMessage
	v    Value
	read bool
}

func (m *rawMember) value() Value {
	if !m.read {
		m.v, m.read = rawValueIn(m.text, true), true
	}
	return m.v
}

// rawValue reads one JSON text: scalars at once, the rest when it is looked into.
func rawValue(raw json.RawMessage) Value { return rawValueIn(bytes.TrimSpace(raw), false) }

func rawValueIn(text json.RawMessage, valid bool) Value {
	if len(text) == 0 {
		return nil
	}
	switch text[0] {
	case '{', '[':
		b := &struct {
			View
			rawText
		}{View{list: text[0] == '['}, rawText{text: text, valid: valid}}
		b.View.raw = &b.rawText
		return &b.View
	case '"':
		s, _ := rawString(text)
		return s
	case 't':
		return true
	case 'f':
		return false
	case 'n':
		return nil
	}
	return numberValue(string(text))
}

// rawString reads a string literal; what is none is nothing.
func rawString(text []byte) (Value, bool) {
	if last := len(text) - 1; last > 0 && text[last] == '"' {
		if inner := text[1:last]; bytes.IndexByte(inner, '\\') < 0 && bytes.IndexByte(inner, '"') < 0 && utf8.Valid(inner) {
			return string(inner), true
		}
	}
	var s string
	if json.Unmarshal(text, &s) != nil {
		return nil, false
	}
	return s, true
}

// parts splits the text, once. Text that is no JSON has no members.
func (r *rawText) parts() []rawMember {
	if r.split {
		return r.members
	}
	r.split = true
	if !r.valid && !json.Valid(r.text) {
		return nil
	}
	object := r.text[0] == '{'
	for i := skipSpace(r.text, 1); r.text[i] != '}' && r.text[i] != ']'; {
		var m rawMember
		if object {
			end := skipString(r.text, i)
			key, _ := rawString(r.text[i:end])
			m.key, _ = key.(string)
			i = skipSpace(r.text, skipSpace(r.text, end)+1) // past the colon
		}
		end := skipValue(r.text, i)
		m.text = r.text[i:end:end]
		r.members = append(r.members, m)
		if i = skipSpace(r.text, end); r.text[i] == ',' {
			i = skipSpace(r.text, i+1)
		}
	}
	if object {
		r.sort()
	}
	return r.members
}

// sort orders an object's members by key; of several with one key the last one counts.
func (r *rawText) sort() {
	slices.SortStableFunc(r.members, func(a, b rawMember) int { return cmp.Compare(a.key, b.key) })
	keep := r.members[:0]
	for i, m := range r.members {
		if i+1 == len(r.members) || r.members[i+1].key != m.key {
			keep = append(keep, m)
		}
	}
	clear(r.members[len(keep):])
	r.members = keep
}

// find is the member of an object, or nil.
func (r *rawText) find(key string) *rawMember {
	ms := r.parts()
	i, ok := slices.BinarySearchFunc(ms, key, func(m rawMember, key string) int { return cmp.Compare(m.key, key) })
	if !ok {
		return nil
	}
	return &ms[i]
}

// The skippers go over valid JSON: from i to the next thing.

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; ; {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) {
		switch b[i] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return i
		}
		i++
	}
	return i
}
