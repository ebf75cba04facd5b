package lua

import (
	"math"
	"sort"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

func (vm *machine) openTable() {
	vm.lib("table", map[string]glua.LGFunction{
		"concat": vm.tabConcat,
		"getn":   func(L *glua.LState) int { L.Push(glua.LNumber(L.CheckTable(1).Len())); return 1 },
		"insert": vm.tabInsert,
		"maxn":   vm.tabMaxn,
		"pack": func(L *glua.LState) int {
			n := L.GetTop()
			t := L.CreateTable(n, 1)
			for i := 1; i <= n; i++ {
				t.RawSetInt(i, L.Get(i))
			}
			t.RawSetString("n", glua.LNumber(n))
			L.Push(t)
			return 1
		},
		"remove": vm.tabRemove,
		"sort":   vm.tabSort,
		"unpack": vm.unpack,
	})
}

// list is a list argument: a table, or a list of the host's.
func (vm *machine) list(L *glua.LState, n int) (length int, at func(int) glua.LValue) {
	if w := viewOf(L.Get(n)); w != nil && w.v.IsList() {
		return w.v.Len(), func(i int) glua.LValue { return w.item(vm, i) }
	}
	t := L.CheckTable(n)
	return t.Len(), t.RawGetInt
}

func (vm *machine) tabConcat(L *glua.LState) int {
	n, at := vm.list(L, 1)
	sep := ""
	if L.Get(2) != glua.LNil {
		sep = vm.str(L, 2)
	}
	i, j := vm.integer(L, 3, 1), vm.integer(L, 4, n)
	var out strings.Builder
	for k := i; k <= j; k++ {
		v := at(k)
		if !glua.LVCanConvToString(v) {
			vm.raisef(L, "table.concat: invalid value (%s) at index %d", v.Type(), k)
		}
		out.WriteString(v.String())
		if k < j {
			out.WriteString(sep)
		}
		if out.Len() > maxString {
			vm.raisef(L, "table.concat: the result would be larger than %d MiB", maxString>>20)
		}
	}
	return pushString(L, out.String())
}

func (vm *machine) tabInsert(L *glua.LState) int {
	t := L.CheckTable(1)
	switch L.GetTop() {
	case 2:
		t.Append(L.Get(2))
	case 3:
		pos := vm.must(L, 2)
		if n := t.Len(); pos < 1 || pos > n+1 {
			vm.raisef(L, "table.insert: position %d is outside of 1 to %d", pos, n+1)
		}
		t.Insert(pos, L.Get(3))
	default:
		vm.raisef(L, "table.insert: wrong number of arguments")
	}
	return 0
}

func (vm *machine) tabRemove(L *glua.LState) int {
	t := L.CheckTable(1)
	n := t.Len()
	pos := vm.integer(L, 2, n)
	if n == 0 || pos < 1 || pos > n {
		L.Push(glua.LNil)
		return 1
	}
	L.Push(t.Remove(pos))
	return 1
}

func (vm *machine) tabMaxn(L *glua.LState) int {
	most := 0.0
	L.CheckTable(1).ForEach(func(k, _ glua.LValue) {
		if n, ok := k.(glua.LNumber); ok {
			most = math.Max(most, float64(n))
		}
	})
	L.Push(glua.LNumber(most))
	return 1
}

// unpack returns a list's members from one index to another.
func (vm *machine) unpack(L *glua.LState) int {
	n, at := vm.list(L, 1)
	i, j := vm.integer(L, 2, 1), vm.integer(L, 3, n)
	if i > j {
		return 0
	}
	if j-i >= maxResults {
		vm.raisef(L, "unpack: more than %d values", maxResults)
	}
	vm.grown(j - i)
	for k := i; k <= j; k++ {
		L.Push(at(k))
	}
	return j - i + 1
}

// tabSort sorts a copy and writes it back, so that a comparison that waits, or changes
// the table, does no harm.
func (vm *machine) tabSort(L *glua.LState) int {
	t := L.CheckTable(1)
	s := &sorter{vm: vm, L: L}
	if L.Get(2) != glua.LNil {
		s.less = L.CheckFunction(2)
	}
	for i, n := 1, t.Len(); i <= n; i++ {
		s.items = append(s.items, t.RawGetInt(i))
	}
	sort.Sort(s)
	for i, v := range s.items {
		t.RawSetInt(i+1, v)
	}
	return 0
}

// sorter compares as Lua does, and looks whether the script has been told to stop. Used
// by one call.
type sorter struct {
	vm    *machine
	L     *glua.LState
	less  *glua.LFunction
	items []glua.LValue
	count int
}

func (s *sorter) Len() int      { return len(s.items) }
func (s *sorter) Swap(i, j int) { s.items[i], s.items[j] = s.items[j], s.items[i] }

func (s *sorter) Less(i, j int) bool {
	if s.less != nil {
		s.L.Push(s.less)
		s.L.Push(s.items[i])
		s.L.Push(s.items[j])
		s.vm.call(s.L, 2, 1)
		v := s.L.Get(-1)
		s.L.Pop(1)
		return glua.LVAsBool(v)
	}
	if s.count++; s.count%4096 == 0 && s.vm.killed() {
		s.vm.raise(s.L, s.vm.ctx.Err())
	}
	return s.L.LessThan(s.items[i], s.items[j])
}

// tonumber reads a number: decimal with point and exponent, hexadecimal, or of a base.
func (vm *machine) tonumber(L *glua.LState) int {
	L.CheckAny(1)
	base := vm.integer(L, 2, 10)
	if base < 2 || base > 36 {
		L.ArgError(2, "base out of range")
	}
	var out glua.LValue = glua.LNil
	switch v := L.Get(1).(type) {
	case glua.LNumber:
		out = v
	case glua.LString:
		s := strings.Trim(string(v), " \t\n\r\f\v")
		if n, ok := parseNumber(s, base); ok {
			out = glua.LNumber(n)
		}
	case *glua.LUserData:
		if n, ok := intOf(v); ok {
			f, _ := strconv.ParseFloat(string(n), 64)
			out = glua.LNumber(f)
		}
	}
	L.Push(out)
	return 1
}

func parseNumber(s string, base int) (float64, bool) {
	if base != 10 {
		if base == 16 {
			s = strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
		}
		n, err := strconv.ParseInt(s, base, 64)
		return float64(n), err == nil
	}
	if neg := strings.HasPrefix(s, "-0x") || strings.HasPrefix(s, "-0X"); neg || strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		n, err := strconv.ParseUint(strings.TrimPrefix(s, "-")[2:], 16, 64)
		if neg {
			return -float64(n), err == nil
		}
		return float64(n), err == nil
	}
	if s == "" || strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false // inf, nan, underscores and Go's other forms
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}
