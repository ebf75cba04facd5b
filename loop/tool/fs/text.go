package fs

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

var (
	bomUTF8    = []byte("\xef\xbb\xbf")
	bomUTF16LE = []byte("\xff\xfe")
	bomUTF16BE = []byte("\xfe\xff")
)

// isUTF16 goes by the byte order mark.
func isUTF16(data []byte) bool {
	return bytes.HasPrefix(data, bomUTF16LE) || bytes.HasPrefix(data, bomUTF16BE)
}

// sniffBytes is how much of a file tells whether it is text.
const sniffBytes = 8000

// isBinary goes by the zero bytes that text does not have.
func isBinary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), sniffBytes)], 0) >= 0
}

// isCRLF reports whether all lines of a text end in CRLF, and there is one at least.
func isCRLF(data []byte) bool {
	n := bytes.Count(data, []byte("\n"))
	return n > 0 && n == bytes.Count(data, []byte("\r\n"))
}

func toLF(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

func toCRLF(s string) string { return strings.ReplaceAll(toLF(s), "\n", "\r\n") }

// reshape gives new whole content the byte order mark and the line endings of the old
// one. Content that has CRs of its own means what it says.
func reshape(old []byte, text string) []byte {
	if isCRLF(old) && !strings.Contains(text, "\r") {
		text = toCRLF(text)
	}
	if bytes.HasPrefix(old, bomUTF8) && !strings.HasPrefix(text, string(bomUTF8)) {
		text = string(bomUTF8) + text
	}
	return []byte(text)
}

// lfView is a text as the model sees it, with LF endings only, and where each byte of it is in
// the file.
type lfView struct {
	text []byte
	crs  []int // offsets in text before which a CR was left out, ascending
}

func newLFView(data []byte) lfView {
	v := lfView{text: make([]byte, 0, len(data))}
	for {
		i := bytes.Index(data, []byte("\r\n"))
		if i < 0 {
			v.text = append(v.text, data...)
			return v
		}
		v.text = append(v.text, data[:i]...)
		v.crs = append(v.crs, len(v.text))
		v.text = append(v.text, '\n')
		data = data[i+2:]
	}
}

// offset returns where in the file the byte at i of the view is. A CRLF counts as being
// where its CR is.
func (v lfView) offset(i int) int {
	lo, hi := 0, len(v.crs)
	for lo < hi { // how many CRs are left out before i
		if mid := (lo + hi) / 2; v.crs[mid] < i {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return i + lo
}

// endingAt is the line ending in use around the offset of a file: that of the line it is
// in, else of the line before.
func endingAt(data []byte, at int) string {
	if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
		if end := at + i; end > 0 && data[end-1] == '\r' {
			return "\r\n"
		}
		return "\n"
	}
	if i := bytes.LastIndexByte(data[:at], '\n'); i > 0 && data[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lineOf is the number, from 1, of the line that an offset is in.
func lineOf(data []byte, at int) int { return 1 + bytes.Count(data[:at], []byte("\n")) }

const replacement = string(utf8.RuneError)
