package js

import (
	"fmt"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/dop251/goja"
)

// matchTimeout is how long one match may take. goja compiles with regexp2, which goes
// back and forth, what RE2 cannot express; what RE2 can takes linear time.
const matchTimeout = 200 * time.Millisecond

func init() {
	regexp2.DefaultMatchTimeout = matchTimeout // only goja uses it in this program
}

// guardRegexp bounds what a pattern may look like, and makes a match that ran out of time
// an error: regexp2 reports it as "no match", and a guard that finds no match allows.
func (v *vm) guardRegexp() {
	ctor, proto := v.prototype("RegExp")
	pattern := func(args []goja.Value) string {
		if len(args) == 0 {
			return ""
		}
		if s, ok := args[0].(goja.String); ok && nesting(s.String(), false) > maxNesting {
			return fmt.Sprintf("the pattern nests more than %d deep", maxNesting)
		}
		return ""
	}
	v.guardConstructor("RegExp", ctor, pattern)
	asMethod := func(_ goja.Value, args []goja.Value) string { return pattern(args) }
	v.guard(proto, "compile", asMethod)
	_, str := v.prototype("String")
	for _, name := range []string{"match", "matchAll", "search"} {
		v.guard(str, name, asMethod)
	}
	v.timed(proto, "test")
	for sym, name := range map[*goja.Symbol]string{
		goja.SymMatch: "match", goja.SymSearch: "search", goja.SymReplace: "replace", goja.SymSplit: "split",
	} {
		v.timedSymbol(proto, sym, name)
	}
}

// timed makes a method of RegExp.prototype throw when it took as long as a match may. It
// leaves exec alone: goja has fast ways only while that is the original, and a loop over
// exec is script code, which the clock sees.
func (v *vm) timed(proto *goja.Object, name string) {
	orig, ok := goja.AssertFunction(proto.Get(name))
	if !ok {
		return
	}
	v.hide(proto, name, v.native(name, v.timedCall(orig)))
}

func (v *vm) timedSymbol(proto *goja.Object, sym *goja.Symbol, name string) {
	orig, ok := goja.AssertFunction(proto.GetSymbol(sym))
	if !ok {
		return
	}
	_ = proto.DefineDataPropertySymbol(sym, v.native("[Symbol."+name+"]", v.timedCall(orig)), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
}

func (v *vm) timedCall(orig goja.Callable) func(goja.FunctionCall) goja.Value {
	return func(c goja.FunctionCall) goja.Value {
		start := time.Now()
		ret := v.forward(orig, c)
		if time.Since(start) >= matchTimeout && !found(ret, c) {
			panic(v.rangeError(fmt.Sprintf("the regular expression took longer than %v", matchTimeout)))
		}
		return ret
	}
}

// found tells whether a match came out; a slow one that found something is none that ran
// out of time. What replace gives is taken for no match when nothing was replaced.
func found(ret goja.Value, c goja.FunctionCall) bool {
	if ret == nil || goja.IsNull(ret) || goja.IsUndefined(ret) {
		return false
	}
	if o, ok := ret.(*goja.Object); ok {
		return lengthOf(o) > 1 // split gives the whole text when nothing matches
	}
	if s, ok := ret.(goja.String); ok {
		return !s.StrictEquals(c.Argument(0))
	}
	if b, ok := ret.Export().(bool); ok {
		return b
	}
	return ret.ToInteger() >= 0
}
