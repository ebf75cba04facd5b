package bash

import (
	"strconv"
	"strings"
)

// unescapeQuoted undoes the escapes of double quotes and here-documents.
func unescapeQuoted(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unescape undoes the escapes of $'...'.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'x', 'u', 'U', '0', '1', '2', '3', '4', '5', '6', '7':
			base, most, from := 16, 2, i+1
			switch c {
			case 'u':
				most = 4
			case 'U':
				most = 8
			case 'x':
			default:
				base, most, from = 8, 3, i
			}
			to := from
			for to < len(s) && to-from < most && isDigit(s[to], base) {
				to++
			}
			n, err := strconv.ParseUint(s[from:to], base, 32)
			switch {
			case err != nil:
				b.WriteByte(c)
			case base == 8 || most == 2:
				b.WriteByte(byte(n))
				i = to - 1
			default:
				b.WriteRune(rune(n))
				i = to - 1
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isDigit(c byte, base int) bool {
	_, err := strconv.ParseUint(string(c), base, 8)
	return err == nil
}
