package repl

import (
	"slices"
	"unicode"

	"dshsh/cmd/dshsh/internal/render"
)

// buffer is a line being edited: possibly several lines of text, and the cursor. The
// cursor only ever stands between grapheme clusters, so that no key leaves half a
// character behind; placeholders of pastes are single runes (see pastes). Its owner
// guards it: an Editor's buffers by Editor.mu.
type buffer struct {
	text []rune
	pos  int
}

func (b *buffer) set(text []rune) { b.text, b.pos = text, len(text) }

// insert puts text at the cursor.
func (b *buffer) insert(text []rune) {
	b.text = slices.Insert(b.text, b.pos, text...)
	b.pos += len(text)
}

// left returns the start of the cluster before i.
func (b *buffer) left(i int) int {
	if i <= 0 {
		return 0
	}
	// Clusters are told from the left. Before a printable ASCII character there is
	// always a boundary, so it is enough to begin at one.
	start := i - 1
	for start > 0 && (b.text[start] < ' ' || b.text[start] > '~') {
		start--
	}
	at := start
	for at < i {
		n := b.clusterLen(at)
		if at+n >= i {
			return at
		}
		at += n
	}
	return i - 1
}

// right returns the end of the cluster that begins at i.
func (b *buffer) right(i int) int {
	if i >= len(b.text) {
		return len(b.text)
	}
	return i + b.clusterLen(i)
}

// clusterLen returns how many runes the cluster at i has.
func (b *buffer) clusterLen(i int) int {
	if isPasteMark(b.text[i]) {
		return 1
	}
	// A cluster is short; only hostile text has long ones, which then are cut.
	end := min(i+64, len(b.text))
	for j := i; j < end; j++ {
		if isPasteMark(b.text[j]) {
			end = j
		}
	}
	c, _ := render.Cluster(string(b.text[i:end]))
	return max(len([]rune(c)), 1)
}

// cut removes the runes from from to to and returns them.
func (b *buffer) cut(from, to int) []rune {
	gone := slices.Clone(b.text[from:to])
	b.text = slices.Delete(b.text, from, to)
	b.pos = from
	return gone
}

// lineStart returns the start of the line of text that i is in, lineEnd its end.
func (b *buffer) lineStart(i int) int {
	for i > 0 && b.text[i-1] != '\n' {
		i--
	}
	return i
}

func (b *buffer) lineEnd(i int) int {
	for i < len(b.text) && b.text[i] != '\n' {
		i++
	}
	return i
}

// wordLeft returns where the word before i begins, wordRight where the one after i ends.
// A word is a run of letters and digits of one kind: Chinese beside English is two.
func (b *buffer) wordLeft(i int) int {
	for i > 0 && wordKind(b.text[i-1]) == notWord {
		i = b.left(i)
	}
	if i > 0 {
		for kind := wordKind(b.text[i-1]); i > 0 && wordKind(b.text[i-1]) == kind; {
			i = b.left(i)
		}
	}
	return i
}

func (b *buffer) wordRight(i int) int {
	for i < len(b.text) && wordKind(b.text[i]) == notWord {
		i = b.right(i)
	}
	if i < len(b.text) {
		for kind := wordKind(b.text[i]); i < len(b.text) && wordKind(b.text[i]) == kind; {
			i = b.right(i)
		}
	}
	return i
}

type wordClass int

const (
	notWord wordClass = iota
	alphabetic
	ideographic
)

func wordKind(r rune) wordClass {
	switch {
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
		return ideographic
	case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
		return alphabetic
	}
	return notWord
}

// transpose swaps the clusters before and after the cursor, at the end the last two, and
// steps over them.
func (b *buffer) transpose() {
	mid := b.pos
	if mid == len(b.text) {
		mid = b.left(mid)
	}
	start, end := b.left(mid), b.right(mid)
	if start == mid || mid == end {
		return
	}
	swapped := slices.Concat(b.text[mid:end], b.text[start:mid])
	copy(b.text[start:], swapped)
	b.pos = end
}
