package lua

import (
	"math"
	"strings"
	"time"

	glua "github.com/yuin/gopher-lua"

	"dshsh/runtime"
)

func (vm *machine) openMath() {
	glua.OpenMath(vm.base)
	vm.base.SetTop(0)
	t := vm.base.G.Global.RawGetString("math").(*glua.LTable)
	t.RawSetString("huge", glua.LNumber(math.Inf(1)))
	t.RawSetString("random", vm.base.NewFunction(vm.mathRandom))
	t.RawSetString("randomseed", vm.base.NewFunction(func(L *glua.LState) int {
		vm.random = runtime.NewRandom(vm.in.ID, math.Float64bits(float64(L.CheckNumber(1))))
		return 0
	}))
}

// mathRandom draws from the host's source, or from the one that math.randomseed has made.
func (vm *machine) mathRandom(L *glua.LState) int {
	draw := vm.in.Random
	if vm.random != nil {
		draw = vm.random
	}
	from, to := 1, 0
	switch L.GetTop() {
	case 0:
		L.Push(glua.LNumber(draw()))
		return 1
	case 1:
		to = vm.must(L, 1)
	default:
		from, to = vm.must(L, 1), vm.must(L, 2)
	}
	if from > to {
		L.ArgError(L.GetTop(), "interval is empty")
	}
	L.Push(glua.LNumber(float64(from) + math.Floor(draw()*(float64(to-from)+1))))
	return 1
}

// openOS gives what is left of os: the host's time.
func (vm *machine) openOS() {
	vm.lib("os", map[string]glua.LGFunction{
		"clock": func(L *glua.LState) int {
			L.Push(glua.LNumber(vm.host.Now().Sub(vm.started).Seconds()))
			return 1
		},
		"date":     vm.osDate,
		"difftime": func(L *glua.LState) int { L.Push(L.CheckNumber(1) - L.CheckNumber(2)); return 1 },
		"time":     vm.osTime,
	})
}

func (vm *machine) osTime(L *glua.LState) int {
	now := vm.host.Now()
	if L.Get(1) == glua.LNil {
		L.Push(glua.LNumber(now.Unix()))
		return 1
	}
	t := L.CheckTable(1)
	field := func(name string, def int) int {
		switch v := t.RawGetString(name).(type) {
		case glua.LNumber:
			return int(v)
		case glua.LString:
			if f, ok := parseNumber(string(v), 10); ok {
				return int(f)
			}
		}
		if def < 0 {
			vm.raisef(L, "os.time: field '%s' is missing", name)
		}
		return def
	}
	d := time.Date(field("year", -1), time.Month(field("month", -1)), field("day", -1), field("hour", 12), field("min", 0), field("sec", 0), 0, now.Location())
	L.Push(glua.LNumber(d.Unix()))
	return 1
}

func (vm *machine) osDate(L *glua.LState) int {
	t := vm.host.Now()
	format := "%c"
	if L.Get(1) != glua.LNil {
		format = vm.str(L, 1)
	}
	if L.Get(2) != glua.LNil {
		sec := vm.must(L, 2)
		t = time.Unix(int64(sec), 0).In(t.Location())
	}
	if strings.HasPrefix(format, "!") {
		format, t = format[1:], t.UTC()
	}
	if strings.HasPrefix(format, "*t") {
		r := L.CreateTable(0, 9)
		for _, f := range []struct {
			name string
			n    int
		}{
			{"year", t.Year()}, {"month", int(t.Month())}, {"day", t.Day()}, {"hour", t.Hour()}, {"min", t.Minute()},
			{"sec", t.Second()}, {"wday", int(t.Weekday()) + 1}, {"yday", t.YearDay()},
		} {
			r.RawSetString(f.name, glua.LNumber(f.n))
		}
		r.RawSetString("isdst", glua.LBool(t.IsDST()))
		L.Push(r)
		return 1
	}
	return pushString(L, strftime(t, format))
}

var dateForms = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'D': "01/02/06",
	'F': "2006-01-02", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'S': "05", 'T': "15:04:05",
	'x': "01/02/06", 'X': "15:04:05", 'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST",
}

func strftime(t time.Time, format string) string {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		switch c := format[i]; {
		case c == 'w':
			out.WriteByte('0' + byte(t.Weekday()))
		case dateForms[c] != "":
			out.WriteString(t.Format(dateForms[c]))
		case c == '%':
			out.WriteByte('%')
		default:
			out.WriteByte('%')
			out.WriteByte(c)
		}
	}
	return out.String()
}
