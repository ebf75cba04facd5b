package lua

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync/atomic"

	glua "github.com/yuin/gopher-lua"
)

// maxPieces is how many members a list that one call makes may have: Lua's arrays end
// there.
const maxPieces = 1<<20 - 1

// regexpEntry is a compiled expression or why it is none. Immutable.
type regexpEntry struct {
	*regexp.Regexp
	size int // of its program: what one byte of text may cost
	err  error
}

func compileRegexp(src string) *regexpEntry {
	e := &regexpEntry{}
	if e.Regexp, e.err = regexp.Compile(src); e.err == nil {
		if re, err := syntax.Parse(src, syntax.Perl); err == nil {
			if prog, err := syntax.Compile(re.Simplify()); err == nil {
				e.size = len(prog.Inst)
			}
		}
	}
	return e
}

const (
	// shortSearch is how much a search may cost, in bytes times the expression's size, that
	// runs where nothing can stop it: well below a second.
	shortSearch = 1 << 22
	// maxStray is how many searches of stopped scripts may still be running.
	maxStray = 4
)

// stray counts the searches that go on though their script has been stopped: they end by
// themselves, since they are linear in the text, but that may take minutes.
var stray atomic.Int32

// search runs fn, one call of e on s. A long one runs on a goroutine of its own, so that
// the script's clock can stop the wait for it.
func search[T any](vm *machine, L *glua.LState, e *regexpEntry, s string, fn func() T) T {
	if len(s)*e.size <= shortSearch {
		return fn()
	}
	if stray.Load() >= maxStray {
		vm.raisef(L, "text: %d searches of scripts that were stopped are still running", maxStray)
	}
	var found T
	done := make(chan struct{})
	go func() {
		defer close(done)
		found = fn()
	}()
	select {
	case <-done:
	case <-vm.kill:
		stray.Add(1)
		go func() { <-done; stray.Add(-1) }()
		vm.raise(L, vm.ctx.Err())
	}
	return found
}

const maxRegexps = 128

// openText gives text: helpers backed by Go, much faster than Lua's patterns on large
// text. Expressions are RE2: linear in the text, without back references.
func (vm *machine) openText() {
	vm.lib("text", map[string]glua.LGFunction{
		"split":    vm.textSplit,
		"lines":    vm.textLines,
		"trim":     func(L *glua.LState) int { return pushString(L, strings.TrimSpace(vm.str(L, 1))) },
		"contains": func(L *glua.LState) int { L.Push(glua.LBool(strings.Contains(vm.str(L, 1), vm.str(L, 2)))); return 1 },
		"startswith": func(L *glua.LState) int {
			L.Push(glua.LBool(strings.HasPrefix(vm.str(L, 1), vm.str(L, 2))))
			return 1
		},
		"endswith": func(L *glua.LState) int {
			L.Push(glua.LBool(strings.HasSuffix(vm.str(L, 1), vm.str(L, 2))))
			return 1
		},
		"find":    func(L *glua.LState) int { return vm.textFind(L, true) },
		"match":   func(L *glua.LState) int { return vm.textFind(L, false) },
		"findall": vm.textFindAll,
		"replace": vm.textReplace,
		"utf8":    func(L *glua.LState) int { return pushString(L, strings.ToValidUTF8(vm.str(L, 1), "\ufffd")) },
	})
}

func (vm *machine) pushList(L *glua.LState, what string, parts []string) int {
	if len(parts) > maxPieces {
		vm.raisef(L, "text.%s: more than %d pieces", what, maxPieces)
	}
	t := L.CreateTable(len(parts), 0)
	t.Metatable = vm.arrayMT
	for _, p := range parts {
		t.Append(glua.LString(p))
	}
	L.Push(t)
	return 1
}

// textSplit is text.split(s, sep): the pieces between the separators, which are plain
// text; an empty separator is refused.
func (vm *machine) textSplit(L *glua.LState) int {
	s, sep := vm.str(L, 1), vm.str(L, 2)
	if sep == "" {
		L.ArgError(2, "the separator is empty")
	}
	return vm.pushList(L, "split", strings.SplitN(s, sep, maxPieces+1))
}

// textLines is text.lines(s): the lines without their ends.
func (vm *machine) textLines(L *glua.LState) int {
	s := strings.TrimSuffix(vm.str(L, 1), "\n")
	if s == "" {
		return vm.pushList(L, "lines", nil)
	}
	lines := strings.SplitN(s, "\n", maxPieces+1)
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return vm.pushList(L, "lines", lines)
}

// regexp compiles an expression argument, or takes it from the VM's cache.
func (vm *machine) regexp(L *glua.LState, n int) *regexpEntry {
	src := vm.str(L, n)
	e := vm.regexps[src]
	if e == nil {
		if len(src) > 1<<16 {
			L.ArgError(n, "the expression is too long")
		}
		e = compileRegexp(src)
		if len(vm.regexps) >= maxRegexps || vm.regexps == nil {
			vm.regexps = map[string]*regexpEntry{}
		}
		vm.regexps[src] = e
	}
	if e.err != nil {
		vm.raisef(L, "%v", e.err)
	}
	return e
}

// textFind is text.find(s, re, init?): start, end and captures as string.find gives them,
// or nil; and text.match: the captures, or the whole match if there are none.
func (vm *machine) textFind(L *glua.LState, find bool) int {
	s, rx := vm.str(L, 1), vm.regexp(L, 2)
	at := vm.integer(L, 3, 1) - 1
	if at < 0 {
		at = max(len(s)+at+1, 0)
	}
	if at > len(s) {
		L.Push(glua.LNil)
		return 1
	}
	loc := search(vm, L, rx, s[at:], func() []int { return rx.FindStringSubmatchIndex(s[at:]) })
	if loc == nil {
		L.Push(glua.LNil)
		return 1
	}
	n := 0
	if find {
		L.Push(glua.LNumber(at + loc[0] + 1))
		L.Push(glua.LNumber(at + loc[1]))
		n = 2
	}
	return n + pushGroups(L, s[at:], loc, !find)
}

// pushGroups pushes the groups of a match, nil for one that took no part, or the whole
// match if there are none and whole is set.
func pushGroups(L *glua.LState, s string, loc []int, whole bool) int {
	from := 2
	if len(loc) == 2 && whole {
		from = 0
	}
	for i := from; i < len(loc); i += 2 {
		if loc[i] < 0 {
			L.Push(glua.LNil)
		} else {
			L.Push(glua.LString(s[loc[i]:loc[i+1]]))
		}
	}
	return (len(loc) - from) / 2
}

// textFindAll is text.findall(s, re, n?): the matches, at most n.
func (vm *machine) textFindAll(L *glua.LState) int {
	s, rx := vm.str(L, 1), vm.regexp(L, 2)
	n := vm.integer(L, 3, maxPieces+1)
	return vm.pushList(L, "findall", search(vm, L, rx, s, func() []string { return rx.FindAllString(s, n) }))
}

// textReplace is text.replace(s, re, by): each match by a string, in which $1 and ${name}
// stand for groups, or by what a function of the match and its groups returns (nil or
// false keeps it).
func (vm *machine) textReplace(L *glua.LState) int {
	s, rx := vm.str(L, 1), vm.regexp(L, 2)
	fn, isFn := L.Get(3).(*glua.LFunction)
	by := ""
	if !isFn {
		by = vm.str(L, 3)
	}
	var out []byte
	at, count := 0, 0
	all := search(vm, L, rx, s, func() [][]int { return rx.FindAllStringSubmatchIndex(s, maxPieces+1) })
	if len(all) > maxPieces {
		vm.raisef(L, "text.replace: more than %d matches", maxPieces)
	}
	for _, loc := range all {
		out = append(out, s[at:loc[0]]...)
		at = loc[1]
		if count++; count%1024 == 0 && vm.killed() {
			vm.raise(L, vm.ctx.Err())
		}
		if !isFn {
			out = rx.ExpandString(out, by, s, loc)
		} else {
			out = append(out, vm.replacement(L, fn, s, loc)...)
		}
		if len(out) > maxString {
			vm.raisef(L, "text.replace: the result would be larger than %d MiB", maxString>>20)
		}
	}
	out = append(out, s[at:]...)
	L.Push(glua.LString(out))
	L.Push(glua.LNumber(count))
	return 2
}

func (vm *machine) replacement(L *glua.LState, fn *glua.LFunction, s string, loc []int) string {
	L.Push(fn)
	L.Push(glua.LString(s[loc[0]:loc[1]]))
	n := 1
	if len(loc) > 2 {
		n += pushGroups(L, s, loc, false)
	}
	vm.call(L, n, 1)
	v := L.Get(-1)
	L.Pop(1)
	switch {
	case glua.LVIsFalse(v):
		return s[loc[0]:loc[1]]
	case glua.LVCanConvToString(v):
		return v.String()
	}
	vm.raisef(L, "text.replace: invalid replacement value (a %s)", v.Type())
	return ""
}
