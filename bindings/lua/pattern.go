package lua

import (
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// The matcher of Lua 5.1's patterns. gopher-lua's own cannot be interrupted and recurses
// once per byte of the text; this one recurses once per item of the pattern, counts its
// steps, and looks from time to time whether the script has been told to stop.
const (
	maxCaptures     = 32
	maxPatternDepth = 200
	maxPatternSteps = 50_000_000 // under a second; and so many more for each byte of the text:
	stepsPerByte    = 16         // what is linear is never refused
	pollSteps       = 1 << 16    // between two looks at the kill channel

	openCapture     = -1 // a capture that has not ended
	positionCapture = -2
)

// matcher is one search. Used by one call.
type matcher struct {
	vm       *machine
	L        *glua.LState
	src, pat string
	level    int
	start    [maxCaptures]int
	size     [maxCaptures]int
	depth    int
	steps    int
	polled   int
}

func (vm *machine) newMatcher(L *glua.LState, src, pat string) *matcher {
	return &matcher{vm: vm, L: L, src: src, pat: pat}
}

func (m *matcher) step(n int) {
	if m.steps += n; m.steps-m.polled >= pollSteps {
		m.polled = m.steps
		if m.vm.killed() {
			m.vm.raise(m.L, m.vm.ctx.Err())
		}
		if m.steps > maxPatternSteps+stepsPerByte*len(m.src) {
			m.fail("the pattern takes too many steps on this text; use text.find, or a simpler pattern")
		}
	}
}

func (m *matcher) fail(msg string) { m.vm.raisef(m.L, "%s", msg) }

// try matches the pattern from p at s, anew, and gives the end or -1.
func (m *matcher) try(s, p int) int {
	m.level = 0
	return m.match(s, p)
}

// scan finds the first match at or after s; anchored, only at s.
func (m *matcher) scan(s, p int, anchored bool) (start, end int) {
	first, literal := m.literalStart(p)
	lead, leadEnd := m.lead(p)
	for ; s <= len(m.src); s++ {
		switch {
		case anchored:
		case literal:
			i := strings.IndexByte(m.src[s:], first)
			if i < 0 {
				return -1, -1
			}
			s += i
		case leadEnd > 0:
			for s < len(m.src) && !m.single(s, lead, leadEnd) {
				s++
				m.step(1)
			}
		}
		if e := m.try(s, p); e >= 0 {
			return s, e
		}
		m.step(1)
		if anchored {
			break
		}
	}
	return -1, -1
}

// lead finds the item, from p to end, that the first byte of every match is of; end is 0
// when there is none. It is what lets a search pass over most of a text without a try.
func (m *matcher) lead(p int) (at, end int) {
	for p+1 < len(m.pat) && m.pat[p] == '(' && m.pat[p+1] != ')' {
		p++
	}
	if p >= len(m.pat) || strings.IndexByte("()$", m.pat[p]) >= 0 {
		return 0, 0
	}
	if m.pat[p] == '%' && p+1 < len(m.pat) && (m.pat[p+1] == 'b' || m.pat[p+1] == 'f' || isDigit(m.pat[p+1])) {
		return 0, 0
	}
	end = m.classEnd(p)
	if end < len(m.pat) && strings.IndexByte("*?-", m.pat[end]) >= 0 {
		return 0, 0
	}
	return p, end
}

// literalStart says whether every match begins with one certain byte.
func (m *matcher) literalStart(p int) (byte, bool) {
	if p >= len(m.pat) || strings.IndexByte("^$*+?.([%-)", m.pat[p]) >= 0 {
		return 0, false
	}
	if p+1 < len(m.pat) && strings.IndexByte("*?-", m.pat[p+1]) >= 0 {
		return 0, false
	}
	return m.pat[p], true
}

func (m *matcher) match(s, p int) int {
	if m.depth++; m.depth > maxPatternDepth {
		m.fail("the pattern is too complex")
	}
	e := m.walk(s, p)
	m.depth--
	return e
}

// walk matches item after item; what may have to be tried again recurses through match.
func (m *matcher) walk(s, p int) int {
	for p < len(m.pat) {
		m.step(1)
		switch m.pat[p] {
		case '(':
			if p+1 < len(m.pat) && m.pat[p+1] == ')' {
				return m.openAt(s, p+2, positionCapture)
			}
			return m.openAt(s, p+1, openCapture)
		case ')':
			return m.closeAt(s, p+1)
		case '$':
			if p+1 == len(m.pat) {
				if s == len(m.src) {
					return s
				}
				return -1
			}
		case '%':
			if p+1 < len(m.pat) {
				switch c := m.pat[p+1]; {
				case c == 'b':
					if s = m.balance(s, p+2); s < 0 {
						return -1
					}
					p += 4
					continue
				case c == 'f':
					p += 2
					if p >= len(m.pat) || m.pat[p] != '[' {
						m.fail("missing '[' after '%f' in pattern")
					}
					end := m.classEnd(p)
					var before, at byte
					if s > 0 {
						before = m.src[s-1]
					}
					if s < len(m.src) {
						at = m.src[s]
					}
					if m.inSet(before, p, end-1) || !m.inSet(at, p, end-1) {
						return -1
					}
					p = end
					continue
				case isDigit(c):
					if s = m.back(s, c); s < 0 {
						return -1
					}
					p += 2
					continue
				}
			}
		}
		end := m.classEnd(p)
		var q byte
		if end < len(m.pat) {
			q = m.pat[end]
		}
		switch q {
		case '?':
			if m.single(s, p, end) {
				if e := m.match(s+1, end+1); e >= 0 {
					return e
				}
			}
			p = end + 1
		case '*':
			return m.most(s, p, end, 0)
		case '+':
			return m.most(s, p, end, 1)
		case '-':
			return m.least(s, p, end)
		default:
			if !m.single(s, p, end) {
				return -1
			}
			s, p = s+1, end
		}
	}
	return s
}

// most repeats an item as often as it goes, at least min times, then gives back.
func (m *matcher) most(s, p, end, min int) int {
	i := 0
	for m.single(s+i, p, end) {
		i++
		m.step(1)
	}
	if end+1 == len(m.pat) { // nothing follows that could fail
		if i < min {
			return -1
		}
		return s + i
	}
	next, literal := m.literalStart(end + 1)
	for ; i >= min; i-- {
		if !literal || s+i < len(m.src) && m.src[s+i] == next {
			if e := m.match(s+i, end+1); e >= 0 {
				return e
			}
		}
		m.step(1)
	}
	return -1
}

// least repeats an item as seldom as it goes.
func (m *matcher) least(s, p, end int) int {
	at := end + 1
	if at < len(m.pat) && m.pat[at] == ')' { // look behind the end of a capture
		at++
	}
	next, literal := m.literalStart(at)
	for {
		if !literal || s < len(m.src) && m.src[s] == next {
			if e := m.match(s, end+1); e >= 0 {
				return e
			}
		}
		if !m.single(s, p, end) {
			return -1
		}
		s++
		m.step(1)
	}
}

func (m *matcher) openAt(s, p, what int) int {
	if m.level >= maxCaptures {
		m.fail("too many captures")
	}
	m.start[m.level], m.size[m.level] = s, what
	m.level++
	e := m.match(s, p)
	if e < 0 {
		m.level--
	}
	return e
}

func (m *matcher) closeAt(s, p int) int {
	i := m.level - 1
	for ; i >= 0 && m.size[i] != openCapture; i-- {
	}
	if i < 0 {
		m.fail("invalid pattern capture")
	}
	m.size[i] = s - m.start[i]
	e := m.match(s, p)
	if e < 0 {
		m.size[i] = openCapture
	}
	return e
}

// back matches what a capture has matched before.
func (m *matcher) back(s int, digit byte) int {
	i := int(digit) - '1'
	if i < 0 || i >= m.level || m.size[i] == openCapture {
		m.fail("invalid capture index")
	}
	n := max(m.size[i], 0)
	m.step(1 + n>>4)
	if strings.HasPrefix(m.src[s:], m.src[m.start[i]:m.start[i]+n]) {
		return s + n
	}
	return -1
}

// balance matches %bxy, whose two bytes are at p.
func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.pat) {
		m.fail("unbalanced pattern: '%b' needs two characters")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return -1
	}
	open, shut := m.pat[p], m.pat[p+1]
	depth := 1
	for i := s + 1; i < len(m.src); i++ {
		m.step(1)
		switch c := m.src[i]; {
		case c == shut:
			if depth--; depth == 0 {
				return i + 1
			}
		case c == open:
			depth++
		}
	}
	return -1
}

// classEnd is the end of the single-character item at p.
func (m *matcher) classEnd(p int) int {
	c := m.pat[p]
	p++
	switch c {
	case '%':
		if p >= len(m.pat) {
			m.fail("malformed pattern (ends with '%')")
		}
		return p + 1
	case '[':
		if p < len(m.pat) && m.pat[p] == '^' {
			p++
		}
		for first := true; first || p < len(m.pat) && m.pat[p] != ']'; first = false {
			if p >= len(m.pat) {
				break
			}
			if m.pat[p] == '%' {
				p++
			}
			p++
		}
		if p >= len(m.pat) {
			m.fail("malformed pattern (missing ']')")
		}
		return p + 1
	}
	return p
}

// single says whether the byte at s matches the item from p to end.
func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.src) {
		return false
	}
	c := m.src[s]
	switch m.pat[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pat[p+1])
	case '[':
		return m.inSet(c, p, end-1)
	}
	return m.pat[p] == c
}

// inSet reads the set whose [ is at p and whose ] is at end.
func (m *matcher) inSet(c byte, p, end int) bool {
	if n := end - p; n > 16 {
		m.step(n >> 2)
	}
	yes := true
	p++
	if m.pat[p] == '^' {
		yes = false
		p++
	}
	for ; p < end; p++ {
		switch {
		case m.pat[p] == '%':
			p++
			if inClass(c, m.pat[p]) {
				return yes
			}
		case p+2 < end && m.pat[p+1] == '-':
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return yes
			}
			p += 2
		case m.pat[p] == c:
			return yes
		}
	}
	return !yes
}

// inClass is %a and its like, in the C locale; a capital letter negates.
func inClass(c, class byte) bool {
	var in bool
	switch class | 0x20 {
	case 'a':
		in = isAlpha(c)
	case 'c':
		in = c < 0x20 || c == 0x7f
	case 'd':
		in = isDigit(c)
	case 'l':
		in = c >= 'a' && c <= 'z'
	case 'p':
		in = c > 0x20 && c < 0x7f && !isAlpha(c) && !isDigit(c)
	case 's':
		in = c == ' ' || c >= '\t' && c <= '\r'
	case 'u':
		in = c >= 'A' && c <= 'Z'
	case 'w':
		in = isAlpha(c) || isDigit(c)
	case 'x':
		in = isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
	case 'z':
		in = c == 0
	default:
		return c == class
	}
	if !isAlpha(class) {
		return c == class
	}
	return in != (class >= 'A' && class <= 'Z')
}

func isAlpha(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// capture is the i-th capture of a match from s to e; the 0th of a pattern without any is
// the whole match.
func (m *matcher) capture(i, s, e int) glua.LValue {
	if i >= m.level {
		if i != 0 {
			m.fail("invalid capture index")
		}
		return glua.LString(m.src[s:e])
	}
	switch n := m.size[i]; n {
	case openCapture:
		m.fail("unfinished capture")
		return glua.LNil
	case positionCapture:
		return glua.LNumber(m.start[i] + 1)
	default:
		return glua.LString(m.src[m.start[i] : m.start[i]+n])
	}
}

// pushCaptures pushes all captures, or the whole match if there are none and whole is set.
func (m *matcher) pushCaptures(s, e int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		m.L.Push(m.capture(i, s, e))
	}
	return n
}
