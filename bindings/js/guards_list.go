package js

import (
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/dop251/goja"
)

var listType = reflect.TypeFor[[]any]()

func tooMany(n float64) string {
	if n <= maxItems {
		return ""
	}
	return fmt.Sprintf("a length of %.0f is more than %d", n, maxItems)
}

// plainLength is the length of a true list, which nobody computes; 0 for what is none.
func plainLength(o *goja.Object) float64 {
	switch o.ExportType() {
	case listType, viewArrayType:
		return o.Get("length").ToFloat()
	}
	return 0
}

// fixLength gives what passes for a list with a length that does not change: that of a
// list itself, or through a proxy of what merely has a length, which may be computed, and
// could come out otherwise when a built-in asks for it again.
func (v *vm) fixLength(x goja.Value) (goja.Value, float64) {
	o, ok := x.(*goja.Object)
	if !ok {
		return x, textLength(x)
	}
	switch o.ExportType() {
	case listType, viewArrayType:
		return x, o.Get("length").ToFloat()
	}
	n := 0.0
	if l := o.Get("length"); l != nil {
		if n = math.Trunc(l.ToNumber().ToFloat()); n != n || n < 0 {
			n = 0
		}
	}
	length := v.rt.ToValue(n)
	p := v.rt.NewProxy(o, &goja.ProxyTrapConfig{Get: func(o *goja.Object, key string, _ goja.Value) goja.Value {
		if key == "length" {
			return length
		}
		if m := o.Get(key); m != nil {
			return m
		}
		return goja.Undefined()
	}})
	return v.rt.ToValue(p), n
}

// guardList bounds a method of lists, on whatever it is called. Where it gives back what it
// was called on, that is the object itself.
func (v *vm) guardList(holder *goja.Object, name string, more func(c *goja.FunctionCall, n float64) string) {
	orig, callable := goja.AssertFunction(holder.Get(name))
	if !callable {
		return
	}
	v.hide(holder, name, v.native(name, func(c goja.FunctionCall) goja.Value {
		v.poll()
		self, n := v.fixLength(c.This)
		msg := tooMany(n)
		if msg == "" && more != nil {
			msg = more(&c, n)
		}
		if msg != "" {
			panic(v.rangeError(name + ": " + msg))
		}
		this := c.This
		c.This = self
		ret := v.forward(orig, c)
		if ret == self {
			return this
		}
		return ret
	}))
}

// itemsOf bounds the list that is the argument at i.
func (v *vm) itemsOf(i int) check {
	return func(c *goja.FunctionCall) string {
		if i >= len(c.Arguments) {
			return ""
		}
		o, ok := c.Arguments[i].(*goja.Object)
		if !ok {
			return tooMany(textLength(c.Arguments[i]))
		}
		if o.GetSymbol(goja.SymIterator) != nil && plainLength(o) == 0 {
			return "" // gives its items one by one, from a list or from script code
		}
		var n float64
		c.Arguments[i], n = v.fixLength(o)
		return tooMany(n)
	}
}

func (v *vm) guardArrays() {
	ctor, proto := v.prototype("Array")
	v.guard(ctor, "from", v.itemsOf(0))
	for _, name := range []string{
		"fill", "forEach", "map", "filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex", "reduce", "reduceRight",
		"indexOf", "lastIndexOf", "includes", "reverse", "slice", "splice", "copyWithin", "shift", "unshift", "flatMap",
		"toReversed", "toSpliced", "with", "keys", "entries", "values",
	} {
		v.guardList(proto, name, nil)
	}
	for _, name := range []string{"sort", "toSorted"} {
		v.guardList(proto, name, func(_ *goja.FunctionCall, n float64) string {
			if n > maxSort {
				return fmt.Sprintf("a list of %.0f items is more than %d", n, maxSort)
			}
			return ""
		})
	}
	// What spreads and destructures a list asks here.
	_ = proto.DefineDataPropertySymbol(goja.SymIterator, proto.Get("values"), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
	v.guardList(proto, "concat", func(c *goja.FunctionCall, n float64) string {
		for i, a := range c.Arguments {
			if !isObject(a) {
				continue
			}
			fixed, m := v.fixLength(a)
			if spreads := a.(*goja.Object).GetSymbol(goja.SymIsConcatSpreadable); spreads != nil && spreads.ToBoolean() {
				c.Arguments[i] = fixed
			} else if fixed != a {
				continue // an item, not a list
			}
			n += m
		}
		return tooMany(n)
	})
	v.hide(proto, "flat", v.native("flat", v.flat))
}

// flat is Array.prototype.flat. goja's follows a list that contains itself until its stack
// ends, and with it the process.
func (v *vm) flat(c goja.FunctionCall) goja.Value {
	depth := 1.0
	if len(c.Arguments) > 0 && !goja.IsUndefined(c.Arguments[0]) {
		depth = v.numberArg(&c, 0)
	}
	var out []any
	var add func(x goja.Value, level int)
	add = func(x goja.Value, level int) {
		self, n := v.fixLength(x)
		o, ok := self.(*goja.Object)
		if msg := tooMany(n); msg != "" || !ok {
			panic(v.rangeError("flat: " + msg))
		}
		if level > maxDepth {
			panic(v.rangeError(fmt.Sprintf("flat: nested more than %d deep", maxDepth)))
		}
		for i := range int(n) {
			item := o.Get(strconv.Itoa(i))
			if item == nil {
				continue
			}
			if io, ok := item.(*goja.Object); ok && float64(level) <= depth && (io.ExportType() == listType || io.ExportType() == viewArrayType) {
				add(item, level+1)
				continue
			}
			if out = append(out, item); len(out) > maxItems {
				panic(v.rangeError("flat: " + tooMany(float64(len(out)))))
			}
			if i&1023 == 0 {
				v.poll()
			}
		}
		v.poll()
	}
	add(c.This, 1)
	return v.rt.NewArray(out...)
}

// guardJoin replaces what makes a text of a list. goja's makes one of any length, and of a
// list in a list in a list, until its stack ends.
func (v *vm) guardJoin() {
	_, proto := v.prototype("Array")
	v.hide(proto, "join", v.native("join", v.join))
	v.hide(proto, "toLocaleString", v.native("toLocaleString", func(c goja.FunctionCall) goja.Value {
		c.Arguments = nil
		return v.join(c)
	}))
}

// textOf is what a value is as a text; ToString alone leaves numbers and booleans as they are.
func (v *vm) textOf(x goja.Value) goja.String {
	x = x.ToString()
	if s, ok := x.(goja.String); ok {
		return s
	}
	return v.rt.ToValue(x.String()).(goja.String)
}

func (v *vm) join(c goja.FunctionCall) goja.Value {
	v.poll()
	self, n := v.fixLength(c.This)
	o, ok := self.(*goja.Object)
	if !ok {
		o = self.ToObject(v.rt)
	}
	if msg := tooMany(n); msg != "" {
		panic(v.rangeError("join: " + msg))
	}
	var sep goja.String
	if len(c.Arguments) > 0 && !goja.IsUndefined(c.Arguments[0]) {
		textArg(&c, 0)
		sep = v.textOf(c.Arguments[0])
	}
	if sep == nil {
		sep = v.rt.ToValue(",").(goja.String)
	}
	this, _ := c.This.(*goja.Object)
	for _, j := range v.joining {
		if j == this && this != nil {
			return v.rt.ToValue("") // a list in itself
		}
	}
	if len(v.joining) >= maxDepth {
		panic(v.rangeError(fmt.Sprintf("join: nested more than %d deep", maxDepth)))
	}
	v.joining = append(v.joining, this)
	defer func() { v.joining = v.joining[:len(v.joining)-1] }()
	var b goja.StringBuilder
	size := 0.0
	write := func(s goja.String) {
		if size += float64(s.Length()); size > maxText {
			panic(v.rangeError("join: " + tooLong(size)))
		}
		b.WriteString(s)
	}
	for i := range int(n) {
		if i > 0 {
			write(sep)
		}
		item := o.Get(strconv.Itoa(i))
		if item == nil || goja.IsUndefined(item) || goja.IsNull(item) {
			continue
		}
		write(v.textOf(item))
	}
	return b.String()
}

// guardApply replaces what calls a function with the items of a list as arguments.
func (v *vm) guardApply(holder *goja.Object, name string, items int, call func(c goja.FunctionCall, args []goja.Value) (goja.Value, error)) {
	v.hide(holder, name, v.native(name, func(c goja.FunctionCall) goja.Value {
		list := c.Argument(items)
		var args []goja.Value
		if !goja.IsUndefined(list) && !goja.IsNull(list) {
			self, n := v.fixLength(list)
			o, ok := self.(*goja.Object)
			if !ok {
				panic(v.rt.NewTypeError("%s: the arguments are no list", name))
			}
			if n > maxArgs {
				panic(v.rangeError(fmt.Sprintf("%s: %.0f arguments are more than %d", name, n, maxArgs)))
			}
			args = make([]goja.Value, int(n))
			for i := range args {
				if args[i] = o.Get(strconv.Itoa(i)); args[i] == nil {
					args[i] = goja.Undefined()
				}
			}
		}
		ret, err := call(c, args)
		if err != nil {
			panic(err)
		}
		return ret
	}))
}

// callOf calls what must be a function.
func (v *vm) callOf(name string, f, this goja.Value, args []goja.Value) (goja.Value, error) {
	call, ok := goja.AssertFunction(f)
	if !ok {
		panic(v.rt.NewTypeError("%s: not a function", name))
	}
	return call(this, args...)
}
