package lua

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

// openJSON gives json: encode, decode, null, array, object, int. Lists and objects that
// it decodes carry a marker, so that an empty one stays what it was.
func (vm *machine) openJSON() {
	t := vm.lib("json", map[string]glua.LGFunction{
		"encode": func(L *glua.LState) int {
			v, err := vm.toValue(L.CheckAny(1))
			var b []byte
			if err == nil {
				b, err = runtime.AppendJSON(nil, v, "value")
			}
			if err != nil {
				vm.raisef(L, "json.encode: %v", err)
			}
			return pushString(L, string(b))
		},
		"decode": vm.jsonDecode,
		"array":  func(L *glua.LState) int { return vm.mark(L, vm.arrayMT) },
		"object": func(L *glua.LState) int { return vm.mark(L, vm.mapMT) },
		"int":    vm.jsonInt,
	})
	vm.nullMT = vm.metatable("null", map[string]glua.LGFunction{
		"__tostring": func(L *glua.LState) int { return pushString(L, "null") },
		"__index": func(L *glua.LState) int {
			vm.raisef(L, "attempt to index json.null with %s", keyName(L.Get(2)))
			return 0
		},
	})
	vm.null = &glua.LUserData{Env: vm.base.Env, Metatable: vm.nullMT}
	t.RawSetString("null", vm.null)
	vm.openInts()
}

// mark sets the metatable that tells an array from an object, on the given table or on a
// new one.
func (vm *machine) mark(L *glua.LState, mt *glua.LTable) int {
	var t *glua.LTable
	if L.Get(1) == glua.LNil {
		t = L.CreateTable(0, 0)
	} else {
		t = L.CheckTable(1)
	}
	if t.Metatable != glua.LNil && t.Metatable != glua.LValue(vm.arrayMT) && t.Metatable != glua.LValue(vm.mapMT) {
		vm.raisef(L, "the table has a metatable of its own")
	}
	t.Metatable = mt
	L.Push(t)
	return 1
}

// jsonInt makes a whole number of any length from its digits. What Lua's numbers hold
// exactly becomes a number.
func (vm *machine) jsonInt(L *glua.LState) int {
	s := vm.str(L, 1)
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > 1000 || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
		vm.raisef(L, "json.int: '%s' is not a whole number", short(strings.ToValidUTF8(s, "?")))
	}
	L.Push(vm.newInt(runtime.Number(s)))
	return 1
}

// newInt is the Lua value of a number literal: a number if that is exact.
func (vm *machine) newInt(n runtime.Number) glua.LValue {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil && i <= 1<<53 && i >= -1<<53 {
		return glua.LNumber(i)
	}
	return &glua.LUserData{Value: n, Env: vm.base.Env, Metatable: vm.intMT}
}

func intOf(v glua.LValue) (runtime.Number, bool) {
	if u, ok := v.(*glua.LUserData); ok {
		n, ok := u.Value.(runtime.Number)
		return n, ok
	}
	return "", false
}

// openInts lets exact integers be printed, compared with each other, and computed with,
// which rounds.
func (vm *machine) openInts() {
	num := func(L *glua.LState, i int) float64 {
		if n, ok := intOf(L.Get(i)); ok {
			f, _ := strconv.ParseFloat(string(n), 64)
			return f
		}
		return float64(L.CheckNumber(i))
	}
	arith := func(op func(a, b float64) float64) glua.LGFunction {
		return func(L *glua.LState) int { L.Push(glua.LNumber(op(num(L, 1), num(L, 2)))); return 1 }
	}
	text := func(v glua.LValue) string {
		if n, ok := intOf(v); ok {
			return string(n)
		}
		return v.String()
	}
	compare := func(op func(a, b float64) bool) glua.LGFunction {
		return func(L *glua.LState) int { L.Push(glua.LBool(op(num(L, 1), num(L, 2)))); return 1 }
	}
	vm.intMT = vm.metatable("int", map[string]glua.LGFunction{
		"__tostring": func(L *glua.LState) int { return pushString(L, text(L.Get(1))) },
		"__concat":   func(L *glua.LState) int { return pushString(L, text(L.Get(1))+text(L.Get(2))) },
		"__eq":       func(L *glua.LState) int { L.Push(glua.LBool(text(L.Get(1)) == text(L.Get(2)))); return 1 },
		"__lt":       compare(func(a, b float64) bool { return a < b }),
		"__le":       compare(func(a, b float64) bool { return a <= b }),
		"__add":      arith(func(a, b float64) float64 { return a + b }),
		"__sub":      arith(func(a, b float64) float64 { return a - b }),
		"__mul":      arith(func(a, b float64) float64 { return a * b }),
		"__div":      arith(func(a, b float64) float64 { return a / b }),
		"__unm":      func(L *glua.LState) int { L.Push(glua.LNumber(-num(L, 1))); return 1 },
	})
}

func (vm *machine) jsonDecode(L *glua.LState) int {
	L.Push(vm.decodeJSON(L, vm.str(L, 1), "json.decode"))
	return 1
}

// decodeJSON reads one JSON text, or throws. what is how messages call the caller.
func (vm *machine) decodeJSON(L *glua.LState, s, what string) glua.LValue {
	if len(s) > runtime.MaxValueSize {
		vm.raisef(L, "%s: the text is larger than %d MiB", what, runtime.MaxValueSize>>20)
	}
	d := decoder{vm: vm, L: L, s: s, what: what}
	d.space()
	v := d.value(0)
	d.space()
	if d.at < len(s) {
		d.fail("text after the value")
	}
	return v
}

// decoder reads one JSON text. Used by one call; it raises what it finds wrong.
type decoder struct {
	vm   *machine
	L    *glua.LState
	s    string
	at   int
	what string // how messages call the caller
}

func (d *decoder) fail(format string, args ...any) {
	line := 1 + strings.Count(d.s[:min(d.at, len(d.s))], "\n")
	col := min(d.at, len(d.s)) - strings.LastIndexByte(d.s[:min(d.at, len(d.s))], '\n')
	d.vm.raisef(d.L, "%s: line %d column %d: %s", d.what, line, col, fmt.Sprintf(format, args...))
}

func (d *decoder) space() {
	for d.at < len(d.s) {
		switch d.s[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

func (d *decoder) value(depth int) glua.LValue {
	if depth > runtime.MaxValueDepth {
		d.fail("nested more than %d deep", runtime.MaxValueDepth)
	}
	if d.at >= len(d.s) {
		d.fail("the text ends where a value should be")
	}
	switch c := d.s[d.at]; {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.array(depth)
	case c == '"':
		return glua.LString(d.text())
	case c == '-' || isDigit(c):
		return d.number()
	}
	for word, v := range map[string]glua.LValue{"true": glua.LTrue, "false": glua.LFalse, "null": d.vm.null} {
		if strings.HasPrefix(d.s[d.at:], word) {
			d.at += len(word)
			return v
		}
	}
	d.fail("no value begins with %q", d.s[d.at])
	return glua.LNil
}

func (d *decoder) array(depth int) glua.LValue {
	t := d.L.CreateTable(0, 0)
	t.Metatable = d.vm.arrayMT
	for d.open(']', t.Len() == 0) {
		t.Append(d.value(depth + 1))
	}
	return t
}

func (d *decoder) object(depth int) glua.LValue {
	t := d.L.CreateTable(0, 0)
	t.Metatable = d.vm.mapMT
	for first := true; d.open('}', first); first = false {
		if d.s[d.at] != '"' {
			d.fail("a name in quotes should be here")
		}
		name := d.text()
		d.space()
		if d.at >= len(d.s) || d.s[d.at] != ':' {
			d.fail("a ':' should be here")
		}
		d.at++
		d.space()
		t.RawSetString(name, d.value(depth+1))
	}
	return t
}

// open steps to the next member of a list or object, past the bracket or the comma; false
// at the end. It also looks whether the script has been told to stop.
func (d *decoder) open(end byte, first bool) bool {
	if d.vm.killed() {
		d.vm.raise(d.L, d.vm.ctx.Err())
	}
	if first {
		d.at++
	}
	d.space()
	if d.at >= len(d.s) {
		d.fail("the text ends inside a list or an object")
	}
	if d.s[d.at] == end {
		d.at++
		return false
	}
	if !first {
		if d.s[d.at] != ',' {
			d.fail("a ',' or '%c' should be here", end)
		}
		d.at++
		d.space()
		if d.at >= len(d.s) {
			d.fail("the text ends inside a list or an object")
		}
	}
	return true
}

func (d *decoder) text() string {
	start := d.at + 1
	i := start
	plain := true
	for ; i < len(d.s) && d.s[i] != '"'; i++ {
		switch c := d.s[i]; {
		case c == '\\':
			plain = false
			i++
		case c < 0x20:
			d.at = i
			d.fail("a control character in a string must be escaped")
		}
	}
	if i >= len(d.s) {
		d.fail("the string does not end")
	}
	s := d.s[start:i]
	if !utf8.ValidString(s) {
		d.fail("invalid UTF-8 in a string (text.utf8 mends it)")
	}
	if !plain {
		if err := json.Unmarshal([]byte(d.s[d.at:i+1]), &s); err != nil {
			d.fail("invalid escape in a string")
		}
	}
	d.at = i + 1
	return s
}

func (d *decoder) number() glua.LValue {
	start := d.at
	for d.at < len(d.s) && strings.IndexByte("+-.0123456789eE", d.s[d.at]) >= 0 {
		d.at++
	}
	lit := d.s[start:d.at]
	if !json.Valid([]byte(lit)) {
		d.at = start
		d.fail("invalid number %q", short(lit))
	}
	if len(lit) <= 15 && strings.Trim(lit, "-0123456789") == "" {
		n, _ := strconv.ParseInt(lit, 10, 64)
		if n != 0 || lit[0] != '-' {
			return glua.LNumber(n)
		}
	}
	switch v := runtime.ValueOf(json.Number(lit)).(type) {
	case int64:
		return glua.LNumber(v)
	case float64:
		return glua.LNumber(v)
	case runtime.Number:
		return d.vm.newInt(v)
	}
	return glua.LNil
}
