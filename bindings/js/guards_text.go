package js

import (
	"fmt"
	"strings"

	"github.com/dop251/goja"
)

// guardStrings bounds what the methods of texts make. A method that coerces its arguments
// gets them coerced: asked a second time, an object could give another answer.
func (v *vm) guardStrings() {
	_, proto := v.prototype("String")
	v.replaceOriginal, _ = goja.AssertFunction(proto.Get("replace"))
	v.guard(proto, "repeat", func(c *goja.FunctionCall) string {
		n := thisText(c) * v.numberArg(c, 0)
		return tooLong(n)
	})
	pad := func(c *goja.FunctionCall) string {
		thisText(c)
		n := v.numberArg(c, 0)
		textArg(c, 1)
		return tooLong(n)
	}
	v.guard(proto, "padStart", pad)
	v.guard(proto, "padEnd", pad)
	v.guard(proto, "concat", func(c *goja.FunctionCall) string {
		n := thisText(c)
		for i := range c.Arguments {
			n += textArg(c, i)
			if n > maxText {
				break
			}
		}
		return tooLong(n)
	})
	v.guard(proto, "split", func(c *goja.FunctionCall) string {
		if isObject(c.Argument(0)) {
			return scanned(c.This)
		}
		if n := thisText(c); n > maxItems && len(c.Arguments) > 0 && !goja.IsUndefined(c.Arguments[0]) {
			return tooMany(count(c.This, c.Arguments[0]) + 1)
		}
		return ""
	})
	v.guard(proto, "replace", v.replaces)
	v.guard(proto, "replaceAll", v.replaces)
	v.guardSymbol(proto, goja.SymIterator, "[Symbol.iterator]", func(c *goja.FunctionCall) string {
		return tooMany(thisText(c))
	})
}

// guardTexts is for methods that few scripts name: those that take long for long texts.
func (v *vm) guardTexts() {
	ctor, proto := v.prototype("String")
	for _, name := range []string{"normalize", "localeCompare"} {
		v.guard(proto, name, func(c *goja.FunctionCall) string {
			n := thisText(c)
			if name == "localeCompare" {
				n += textArg(c, 0)
			}
			return tooMany(n)
		})
	}
	for _, name := range []string{"toUpperCase", "toLowerCase", "toLocaleUpperCase", "toLocaleLowerCase"} {
		v.guard(proto, name, func(c *goja.FunctionCall) string { return tooLong(thisText(c) * 2) })
	}
	v.guard(ctor, "raw", func(c *goja.FunctionCall) string {
		o, ok := c.Argument(0).(*goja.Object)
		if !ok {
			return ""
		}
		raw, n := v.fixLength(o.Get("raw"))
		if n > maxArgs {
			return tooMany(n)
		}
		fixed := v.rt.NewObject()
		_ = fixed.Set("raw", raw)
		c.Arguments[0] = fixed
		return ""
	})
	g := v.rt.GlobalObject()
	for _, name := range []string{"encodeURIComponent", "encodeURI", "decodeURIComponent", "decodeURI", "escape", "unescape"} {
		v.guard(g, name, func(c *goja.FunctionCall) string { return tooLong(textArg(c, 0) * 4) })
	}
}

func isObject(x goja.Value) bool { _, ok := x.(*goja.Object); return ok }

// thisText makes a text of what a method is called on, and gives its length; what has none
// is left to the method to refuse.
func thisText(c *goja.FunctionCall) float64 {
	if c.This == nil || goja.IsUndefined(c.This) || goja.IsNull(c.This) {
		return 0
	}
	if _, symbol := c.This.(*goja.Symbol); symbol {
		return 0
	}
	if _, ok := c.This.(goja.String); !ok {
		c.This = c.This.ToString()
	}
	return textLength(c.This)
}

// textArg makes a text of an argument, and gives its length.
func textArg(c *goja.FunctionCall, i int) float64 {
	if i >= len(c.Arguments) || goja.IsUndefined(c.Arguments[i]) {
		return 0
	}
	if _, symbol := c.Arguments[i].(*goja.Symbol); symbol {
		return 0
	}
	if _, ok := c.Arguments[i].(goja.String); !ok {
		c.Arguments[i] = c.Arguments[i].ToString()
	}
	return textLength(c.Arguments[i])
}

// numberArg makes a number of an argument, and gives it; 0 for none. It throws what the
// method would.
func (v *vm) numberArg(c *goja.FunctionCall, i int) float64 {
	if i >= len(c.Arguments) {
		return 0
	}
	c.Arguments[i] = c.Arguments[i].ToNumber()
	if f := c.Arguments[i].ToFloat(); f == f {
		return f
	}
	return 0
}

func textLength(x goja.Value) float64 {
	if s, ok := x.(goja.String); ok {
		return float64(s.Length())
	}
	return 0
}

func tooLong(n float64) string {
	if !(n > maxText) { // nor what is no number
		return ""
	}
	return fmt.Sprintf("the result would have %.0f characters, more than %d", n, maxText)
}

// scanned refuses a text that is too long for a pattern to look at: that takes time and
// memory for each character, and no interrupt reaches it.
func scanned(x goja.Value) string {
	if n := textLength(x); n > maxScan {
		return fmt.Sprintf("a text of %.0f characters is more than a pattern may look at, which is %d", n, maxScan)
	}
	return ""
}

// count counts how often a text holds another.
func count(x, part goja.Value) float64 {
	if n := textLength(part); n == 0 {
		return textLength(x)
	}
	return float64(strings.Count(x.String(), part.String()))
}

// replaces guards replace and replaceAll.
func (v *vm) replaces(c *goja.FunctionCall) string {
	if len(c.Arguments) == 0 || c.This == nil || goja.IsUndefined(c.This) || goja.IsNull(c.This) {
		return ""
	}
	n := thisText(c)
	pattern, byText := c.Arguments[0], len(c.Arguments) < 2
	if !byText {
		_, callable := goja.AssertFunction(c.Arguments[1])
		if byText = !callable; byText {
			textArg(c, 1)
		}
	}
	if o, ok := pattern.(*goja.Object); ok {
		if msg := scanned(c.This); msg != "" || !byText || o.ClassName() != "RegExp" {
			return msg
		}
		return v.replacesPattern(c, o, n)
	}
	textArg(c, 0)
	if !byText {
		return ""
	}
	with := replacement(c.Argument(1))
	if n+n*(with.length+with.around*n)+with.parts*n <= maxText {
		return ""
	}
	return tooLong(n + count(c.This, c.Arguments[0])*(with.length+with.around*n) + with.parts*n)
}

// replacesPattern bounds what replacing by a text can come to. Where it may be too much,
// the matches are counted first.
func (v *vm) replacesPattern(c *goja.FunctionCall, pattern *goja.Object, n float64) string {
	with := replacement(c.Argument(1))
	matches, parts := n+1, with.parts*n // matches do not overlap
	if with.parts > 0 && strings.Contains(pattern.Get("source").String(), "(?") {
		parts *= n // but what they look ahead to may
	}
	if !strings.Contains(pattern.Get("flags").String(), "g") {
		matches = 1
	}
	if n+matches*(with.length+with.around*n)+parts <= maxText || matches == 1 && with.parts+with.around < 4 {
		return ""
	}
	if matches > 1 {
		matches, parts = 0, 0
		_, err := v.replaceOriginal(c.This, pattern, v.rt.ToValue(func(m goja.FunctionCall) goja.Value {
			longest := 0.0
			for _, a := range m.Arguments[:len(m.Arguments)-1] { // the last is the text
				longest = max(longest, textLength(a))
			}
			matches++
			parts += with.parts * longest
			return v.rt.ToValue("")
		}))
		if err != nil {
			panic(err)
		}
	}
	return tooLong(n + matches*(with.length+with.around*n) + parts)
}

// template is a replacement: how long it is, and how often it asks for what stands before
// or behind the match, or for a part of the match.
type template struct{ length, around, parts float64 }

func replacement(x goja.Value) template {
	if x == nil || goja.IsUndefined(x) {
		return template{length: 9}
	}
	t := template{length: textLength(x)}
	if s := x.String(); strings.Contains(s, "$") {
		t.around = float64(strings.Count(s, "$`") + strings.Count(s, "$'"))
		t.parts = float64(strings.Count(s, "$")) - t.around
	}
	return t
}

// guardJSON bounds depth and size. JSON.stringify is followed by a replacer, which sees
// each member once, as goja does.
func (v *vm) guardJSON() {
	json := v.rt.Get("JSON").(*goja.Object)
	stringify, _ := goja.AssertFunction(json.Get("stringify"))
	v.hide(json, "stringify", v.native("stringify", func(c goja.FunctionCall) goja.Value {
		if !isObject(c.Argument(0)) {
			return v.forward(stringify, c)
		}
		args := []goja.Value{c.Argument(0), nil, c.Argument(2)}
		user, isFunction := goja.AssertFunction(c.Argument(1))
		args[1] = v.follower(user, isFunction)
		if list, ok := c.Argument(1).(*goja.Object); ok && !isFunction {
			v.forward(stringify, goja.FunctionCall{This: c.This, Arguments: args})
			fixed, n := v.fixLength(list)
			if n > maxArgs {
				panic(v.rangeError("stringify: " + tooMany(n)))
			}
			args[1] = fixed
		}
		return v.forward(stringify, goja.FunctionCall{This: c.This, Arguments: args})
	}))
	v.guard(json, "parse", func(c *goja.FunctionCall) string {
		if len(c.Arguments) == 0 {
			return ""
		}
		c.Arguments[0] = c.Arguments[0].ToString()
		if n := textLength(c.Arguments[0]); n > maxJSON {
			return fmt.Sprintf("a text of %.0f characters is more than %d", n, maxJSON)
		}
		if nesting(c.Arguments[0].String(), true) > maxNesting {
			return fmt.Sprintf("nested more than %d deep", maxNesting)
		}
		return ""
	})
}

// follower is a replacer that lets everything through but what is too deep or too much.
func (v *vm) follower(user goja.Callable, has bool) goja.Value {
	var open []*goja.Object // objects that are being written, outermost first
	members, size := 0, 0.0
	return v.native("replacer", func(c goja.FunctionCall) goja.Value {
		val := c.Argument(1)
		if has {
			val = v.forward(user, c)
		}
		holder, _ := c.This.(*goja.Object)
		for len(open) > 0 && open[len(open)-1] != holder {
			open = open[:len(open)-1]
		}
		members++
		size += 8 + textLength(c.Argument(0)) + textLength(val)
		if o, ok := val.(*goja.Object); ok {
			if open = append(open, o); len(open) > maxDepth {
				panic(v.rangeError(fmt.Sprintf("stringify: nested more than %d deep", maxDepth)))
			}
			// goja makes room for a list before it looks at what is in it.
			if n := plainLength(o); n > maxItems {
				panic(v.rangeError("stringify: " + tooMany(n)))
			}
		}
		if members > maxItems {
			panic(v.rangeError(fmt.Sprintf("stringify: more than %d members", maxItems)))
		}
		if size > maxText {
			panic(v.rangeError("stringify: " + tooLong(size)))
		}
		return val
	})
}
