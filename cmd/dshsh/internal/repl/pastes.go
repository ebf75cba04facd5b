package repl

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of what a paste puts into the line as it is; a larger one is kept aside and
// stands there as a placeholder, so that a person still sees what they type.
const (
	inlineLines = 10
	inlineRunes = 500
)

// Placeholders are runes of the last private-use plane, which no font assigns; the same
// runes from outside become placeholders themselves, so that they cannot be mistaken.
const (
	pasteMarkMin = 0x100000
	pasteMarkMax = 0x10fffd
)

func isPasteMark(r rune) bool { return r >= pasteMarkMin && r <= pasteMarkMax }

// paste is text kept aside. It is a value.
type paste struct {
	text, label string
}

// pastes holds what the placeholders in an Editor's lines stand for, for as long as the
// Editor lives: a line taken back by Ctrl-C or from history may still hold them.
// Editor.mu guards it.
type pastes struct {
	all   []paste // that of the mark pasteMarkMin+i
	shown int     // how many have a number
}

// mark keeps text aside and returns its placeholder.
func (p *pastes) mark(text, label string) rune {
	if len(p.all) > pasteMarkMax-pasteMarkMin {
		p.all = p.all[:0] // 65,000 pastes later
	}
	p.all = append(p.all, paste{text, label})
	return rune(pasteMarkMin + len(p.all) - 1)
}

// large reports whether text is better shown as a placeholder.
func large(text string) bool {
	return len(text) > inlineRunes && utf8.RuneCountInString(text) > inlineRunes ||
		strings.Count(text, "\n") >= inlineLines
}

// runes returns what to put into a line for text from outside: itself, or a placeholder.
func (p *pastes) runes(text string) []rune {
	if large(text) {
		p.shown++
		size := fmt.Sprintf("%d chars", utf8.RuneCountInString(text))
		if n := strings.Count(strings.TrimSuffix(text, "\n"), "\n"); n > 0 {
			size = fmt.Sprintf("%d lines", n+1)
		}
		return []rune{p.mark(text, fmt.Sprintf("[paste #%d, %s]", p.shown, size))}
	}
	rs := []rune(text)
	for i, r := range rs {
		if isPasteMark(r) {
			rs[i] = p.mark(string(r), string(r))
		}
	}
	return rs
}

// expand returns line with each placeholder replaced by what it stands for.
func (p *pastes) expand(line []rune) string {
	var b strings.Builder
	for _, r := range line {
		if i := int(r - pasteMarkMin); isPasteMark(r) && i < len(p.all) {
			b.WriteString(p.all[i].text)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// label returns how a placeholder is displayed.
func (p *pastes) label(mark rune) string {
	if i := int(mark - pasteMarkMin); i >= 0 && i < len(p.all) {
		return p.all[i].label
	}
	return string(utf8.RuneError)
}

// cleanPaste returns pasted bytes as text: UTF-8, with \n as the line end (terminals send
// \r for it).
func cleanPaste(b []byte) string {
	s := strings.ToValidUTF8(string(b), string(utf8.RuneError))
	if strings.IndexByte(s, '\r') >= 0 {
		s = strings.ReplaceAll(s, "\r\n", "\n")
		s = strings.ReplaceAll(s, "\r", "\n")
	}
	return s
}
