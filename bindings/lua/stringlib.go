package lua

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"
)

// maxString is the longest string that one call may make.
const maxString = 64 << 20

// maxResults is how many values one call may return; beyond it Lua's registry ends.
const maxResults = 1 << 17

func (vm *machine) openString() {
	vm.stringLib = vm.lib("string", map[string]glua.LGFunction{
		"byte":   vm.strByte,
		"char":   vm.strChar,
		"find":   func(L *glua.LState) int { return vm.strFind(L, true) },
		"format": vm.strFormat,
		"gfind":  vm.strGmatch,
		"gmatch": vm.strGmatch,
		"gsub":   vm.strGsub,
		"len":    func(L *glua.LState) int { L.Push(glua.LNumber(len(vm.str(L, 1)))); return 1 },
		"lower":  func(L *glua.LState) int { return pushString(L, letters(vm.str(L, 1), strings.ToLower, 'A', 'Z')) },
		"match":  func(L *glua.LState) int { return vm.strFind(L, false) },
		"rep":    vm.strRep,
		"reverse": func(L *glua.LState) int {
			b := []byte(vm.str(L, 1))
			for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
				b[i], b[j] = b[j], b[i]
			}
			return pushString(L, string(b))
		},
		"sub":   vm.strSub,
		"upper": func(L *glua.LState) int { return pushString(L, letters(vm.str(L, 1), strings.ToUpper, 'a', 'z')) },
	})
	mt := vm.base.CreateTable(0, 1)
	mt.RawSetString("__index", vm.stringLib)
	vm.base.SetMetatable(glua.LString(""), mt)
}

func pushString(L *glua.LState, s string) int {
	L.Push(glua.LString(s))
	return 1
}

// letters changes case: of every letter where the text is UTF-8, of ASCII where it is not.
func letters(s string, change func(string) string, from, to byte) string {
	if utf8.ValidString(s) {
		return change(s)
	}
	b := []byte(s)
	for i, c := range b {
		if c >= from && c <= to {
			b[i] = c ^ 0x20
		}
	}
	return string(b)
}

// str is a string argument; numbers and errors count as their text.
func (vm *machine) str(L *glua.LState, n int) string {
	switch v := L.Get(n).(type) {
	case glua.LString:
		return string(v)
	case glua.LNumber:
		return v.String()
	case *glua.LUserData:
		switch v.Value.(type) {
		case *thrown:
			return errorText(v)
		}
	}
	L.TypeError(n, glua.LTString)
	return ""
}

// integer is a whole-number argument, cut to what an int holds; missing, it is def.
func (vm *machine) integer(L *glua.LState, n, def int) int {
	if L.Get(n) == glua.LNil {
		return def
	}
	f := math.Trunc(float64(L.CheckNumber(n)))
	switch {
	case math.IsNaN(f):
		return 0
	case f > math.MaxInt32*1024:
		return math.MaxInt32 * 1024
	case f < -math.MaxInt32*1024:
		return -math.MaxInt32 * 1024
	}
	return int(f)
}

// must is integer for an argument that may not be missing.
func (vm *machine) must(L *glua.LState, n int) int {
	L.CheckNumber(n)
	return vm.integer(L, n, 0)
}

// span turns Lua's start and end, which may count from the back, into slice bounds.
func span(n, i, j int) (from, to int) {
	if i < 0 {
		i = max(n+i+1, 1)
	} else if i == 0 {
		i = 1
	}
	if j < 0 {
		j = n + j + 1
	}
	j = min(j, n)
	if i > j {
		return 0, 0
	}
	return i - 1, j
}

func (vm *machine) strByte(L *glua.LState) int {
	s := vm.str(L, 1)
	i := vm.integer(L, 2, 1)
	from, to := span(len(s), i, vm.integer(L, 3, i))
	if to-from > maxResults {
		vm.raisef(L, "string.byte: more than %d values", maxResults)
	}
	vm.grown(to - from)
	for _, c := range []byte(s[from:to]) {
		L.Push(glua.LNumber(c))
	}
	return to - from
}

// grown notes that a stack has become large, so that it is not kept for later calls.
func (vm *machine) grown(n int) {
	if n > 10000 {
		vm.cur.fat = true
	}
}

func (vm *machine) strChar(L *glua.LState) int {
	b := make([]byte, L.GetTop())
	for i := range b {
		c := vm.must(L, i+1)
		if c < 0 || c > 255 {
			L.ArgError(i+1, "value out of range")
		}
		b[i] = byte(c)
	}
	return pushString(L, string(b))
}

func (vm *machine) strSub(L *glua.LState) int {
	s := vm.str(L, 1)
	from, to := span(len(s), vm.integer(L, 2, 1), vm.integer(L, 3, -1))
	return pushString(L, s[from:to])
}

func (vm *machine) strRep(L *glua.LState) int {
	s, n := vm.str(L, 1), vm.must(L, 2)
	sep := ""
	if L.Get(3) != glua.LNil {
		sep = vm.str(L, 3)
	}
	if n <= 0 || len(s)+len(sep) == 0 {
		return pushString(L, "")
	}
	if n > maxString/(len(s)+len(sep)) {
		vm.raisef(L, "string.rep: the result would be larger than %d MiB", maxString>>20)
	}
	if sep == "" {
		return pushString(L, strings.Repeat(s, n))
	}
	return pushString(L, strings.Repeat(s+sep, n-1)+s)
}

// strFind is find and match.
func (vm *machine) strFind(L *glua.LState, find bool) int {
	s, pat := vm.str(L, 1), vm.str(L, 2)
	init := vm.integer(L, 3, 1)
	if init < 0 {
		init = max(len(s)+init+1, 1)
	} else if init == 0 {
		init = 1
	}
	if init > len(s)+1 {
		L.Push(glua.LNil)
		return 1
	}
	at := init - 1
	if find && (L.ToBool(4) || !strings.ContainsAny(pat, "^$*+?.([%-")) {
		i := strings.Index(s[at:], pat)
		if i < 0 {
			L.Push(glua.LNil)
			return 1
		}
		L.Push(glua.LNumber(at + i + 1))
		L.Push(glua.LNumber(at + i + len(pat)))
		return 2
	}
	m := vm.newMatcher(L, s, pat)
	p := 0
	anchored := strings.HasPrefix(pat, "^")
	if anchored {
		p = 1
	}
	start, end := m.scan(at, p, anchored)
	if start < 0 {
		L.Push(glua.LNil)
		return 1
	}
	if !find {
		return m.pushCaptures(start, end, true)
	}
	L.Push(glua.LNumber(start + 1))
	L.Push(glua.LNumber(end))
	return 2 + m.pushCaptures(start, end, false)
}

func (vm *machine) strGmatch(L *glua.LState) int {
	s, pat := vm.str(L, 1), vm.str(L, 2)
	at := 0
	L.Push(L.NewFunction(func(L *glua.LState) int {
		if at > len(s) {
			return 0
		}
		m := vm.newMatcher(L, s, pat)
		start, end := m.scan(at, 0, false)
		if start < 0 {
			at = len(s) + 1
			return 0
		}
		if at = end; end == start {
			at++
		}
		return m.pushCaptures(start, end, true)
	}))
	return 1
}

func (vm *machine) strGsub(L *glua.LState) int {
	s, pat := vm.str(L, 1), vm.str(L, 2)
	repl := L.Get(3)
	switch repl.Type() {
	case glua.LTString, glua.LTNumber, glua.LTTable, glua.LTFunction:
	default:
		L.ArgError(3, "string, function or table expected, got "+repl.Type().String())
	}
	most := vm.integer(L, 4, len(s)+1)
	m := vm.newMatcher(L, s, pat)
	p := 0
	anchored := strings.HasPrefix(pat, "^")
	if anchored {
		p = 1
	}
	var out strings.Builder
	n, at := 0, 0
	for n < most {
		start, end := m.scan(at, p, anchored)
		if start < 0 {
			break
		}
		out.WriteString(s[at:start])
		n++
		vm.replaceOne(m, &out, repl, start, end)
		if out.Len() > maxString {
			vm.raisef(L, "string.gsub: the result would be larger than %d MiB", maxString>>20)
		}
		at = end
		if end == start {
			if at >= len(s) {
				at++
				break
			}
			out.WriteByte(s[at])
			at++
		}
		if anchored {
			break
		}
	}
	if at < len(s) {
		out.WriteString(s[at:])
	}
	L.SetTop(0)
	L.Push(glua.LString(out.String()))
	L.Push(glua.LNumber(n))
	return 2
}

// replaceOne writes what takes the place of one match.
func (vm *machine) replaceOne(m *matcher, out *strings.Builder, repl glua.LValue, start, end int) {
	L := m.L
	var v glua.LValue
	switch r := repl.(type) {
	case glua.LString, glua.LNumber:
		m.expand(out, r.String(), start, end)
		return
	case *glua.LTable:
		v = L.GetTable(r, m.capture(0, start, end))
	default:
		L.Push(repl)
		n := m.pushCaptures(start, end, true)
		vm.call(L, n, 1)
		v = L.Get(-1)
		L.Pop(1)
	}
	switch {
	case glua.LVIsFalse(v):
		out.WriteString(m.src[start:end])
	case glua.LVCanConvToString(v):
		out.WriteString(v.String())
	default:
		vm.raisef(L, "invalid replacement value (a %s)", v.Type())
	}
}

// expand writes a replacement string, in which %0 to %9 stand for the captures.
func (m *matcher) expand(out *strings.Builder, r string, start, end int) {
	m.step(1 + len(r)>>6)
	if strings.IndexByte(r, '%') < 0 {
		out.WriteString(r)
		return
	}
	for i := 0; i < len(r); i++ {
		c := r[i]
		if c != '%' || i+1 == len(r) {
			out.WriteByte(c)
			continue
		}
		i++
		switch c = r[i]; {
		case c == '0':
			out.WriteString(m.src[start:end])
		case isDigit(c):
			out.WriteString(m.capture(int(c-'1'), start, end).String())
		default:
			out.WriteByte(c)
		}
	}
}

// strFormat is string.format with the directives of Lua 5.1.
func (vm *machine) strFormat(L *glua.LState) int {
	f := vm.str(L, 1)
	var out strings.Builder
	arg := 1
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			out.WriteByte(f[i])
			continue
		}
		if i++; i < len(f) && f[i] == '%' {
			out.WriteByte('%')
			continue
		}
		start := i
		for i < len(f) && strings.IndexByte("-+ #0123456789.", f[i]) >= 0 {
			i++
		}
		if i >= len(f) || i-start > 8 || tooWide(f[start:i]) {
			vm.raisef(L, "string.format: invalid directive '%%%s'", f[start:min(i+1, len(f))])
		}
		arg++
		if arg > L.GetTop() {
			vm.raisef(L, "bad argument #%d to format (no value)", arg)
		}
		vm.directive(L, &out, f[start:i], f[i], arg)
		if out.Len() > maxString {
			vm.raisef(L, "string.format: the result would be larger than %d MiB", maxString>>20)
		}
	}
	return pushString(L, out.String())
}

// tooWide says whether a width or precision has more than two digits, as in Lua.
func tooWide(flags string) bool {
	run := 0
	for _, c := range strings.TrimLeft(flags, "-+ #0") {
		if run++; c == '.' {
			run = 0
		}
		if run > 2 {
			return true
		}
	}
	return false
}

func (vm *machine) directive(L *glua.LState, out *strings.Builder, flags string, verb byte, arg int) {
	format := "%" + flags
	switch verb {
	case 'd', 'i', 'u':
		f := float64(L.CheckNumber(arg))
		if math.Abs(f) >= 1<<63 || math.IsNaN(f) {
			fmt.Fprintf(out, strings.ReplaceAll(format, ".", "")+".0f", f)
			return
		}
		fmt.Fprintf(out, format+"d", int64(f))
	case 'c':
		out.WriteByte(byte(vm.must(L, arg)))
	case 'x', 'X', 'o':
		f := float64(L.CheckNumber(arg))
		if f < 0 {
			fmt.Fprintf(out, format+string(verb), uint64(int64(f)))
			return
		}
		fmt.Fprintf(out, format+string(verb), uint64(f))
	case 'e', 'E', 'f', 'g', 'G':
		fmt.Fprintf(out, format+string(verb), float64(L.CheckNumber(arg)))
	case 'q':
		quote(out, vm.str(L, arg))
	case 's':
		fmt.Fprintf(out, format+"s", vm.tostring(L, L.Get(arg)))
	default:
		vm.raisef(L, "string.format: invalid directive '%%%s%c'", flags, verb)
	}
}

// quote writes a string so that Lua reads it back.
func quote(out *strings.Builder, s string) {
	out.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '\n':
			out.WriteByte('\\')
			out.WriteByte(c)
		case '\r':
			out.WriteString("\\r")
		case 0:
			out.WriteString("\\000")
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
}
