package js

import (
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	"github.com/dop251/goja"
)

// matchTimeout is how long one match may take. goja compiles with regexp2, which goes
// back and forth, what RE2 cannot express; what RE2 can takes linear time.
const matchTimeout = 200 * time.Millisecond

func init() {
	regexp2.DefaultMatchTimeout = matchTimeout // only goja uses it in this program
}

// guardRegexp bounds what a pattern that is made of a text may look like.
func (v *vm) guardRegexp() {
	ctor, proto := v.prototype("RegExp")
	pattern := func(c *goja.FunctionCall) string {
		if len(c.Arguments) == 0 {
			return ""
		}
		if !isObject(c.Arguments[0]) {
			if n := textArg(c, 0); n > maxPattern {
				return fmt.Sprintf("a pattern of %.0f characters is longer than %d", n, maxPattern)
			}
		}
		if s, ok := c.Arguments[0].(goja.String); ok && nesting(s.String(), false) > maxNesting {
			return fmt.Sprintf("the pattern nests more than %d deep", maxNesting)
		}
		return ""
	}
	v.guardConstructor("RegExp", ctor, pattern)
	v.guard(proto, "compile", pattern)
	_, str := v.prototype("String")
	for _, name := range []string{"match", "matchAll", "search"} {
		v.guard(str, name, func(c *goja.FunctionCall) string {
			thisText(c)
			if msg := scanned(c.This); msg != "" {
				return msg
			}
			return pattern(c)
		})
	}
}

// guardMatches bounds what patterns look at, and makes a match that ran out of time an
// error: regexp2 reports it as "no match", and a guard that finds no match allows. goja
// uses regexp2 not only where a pattern needs it, but for any pattern that is applied
// further on in a text, or over and over to one that is not ASCII.
func (v *vm) guardMatches() {
	_, proto := v.prototype("RegExp")
	v.timed(proto, "test")
	for sym, name := range map[*goja.Symbol]string{
		goja.SymMatch: "match", goja.SymSearch: "search", goja.SymReplace: "replace", goja.SymSplit: "split",
	} {
		v.timedSymbol(proto, sym, name)
	}
}

// guardExec does the same for exec, and with that for whatever asks it: matchAll.
func (v *vm) guardExec() {
	_, proto := v.prototype("RegExp")
	v.timed(proto, "exec")
}

// timed makes a method of RegExp.prototype throw when it took as long as a match may and
// found nothing.
func (v *vm) timed(proto *goja.Object, name string) {
	if orig, ok := goja.AssertFunction(proto.Get(name)); ok {
		v.hide(proto, name, v.native(name, v.timedCall(name, orig)))
	}
}

func (v *vm) timedSymbol(proto *goja.Object, sym *goja.Symbol, name string) {
	if orig, ok := goja.AssertFunction(proto.GetSymbol(sym)); ok {
		f := v.native("[Symbol."+name+"]", v.timedCall(name, orig))
		_ = proto.DefineDataPropertySymbol(sym, f, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
	}
}

func (v *vm) timedCall(name string, orig goja.Callable) func(goja.FunctionCall) goja.Value {
	return func(c goja.FunctionCall) goja.Value {
		v.poll()
		textArg(&c, 0)
		if msg := scanned(c.Argument(0)); msg != "" {
			panic(v.rangeError(name + ": " + msg))
		}
		v.slowMatches(c)
		start := time.Now()
		ret := v.forward(orig, c)
		if time.Since(start) >= matchTimeout && !found(name, ret, c.Argument(0)) {
			panic(v.rangeError(fmt.Sprintf("the regular expression took longer than %v", matchTimeout)))
		}
		return ret
	}
}

// backtracks finds what RE2 cannot express.
var backtracks = regexp.MustCompile(`\(\?<?[=!]|\\[1-9k]`)

// maxFast is how long a text that is not ASCII may be for goja's fast way, where each match
// takes time in proportion to it.
const maxFast = 1 << 14

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// slowMatches gives up goja's fast way, for good, where it could be busy for long: the
// matches are then found one by one, by our exec, and an interrupt reaches the time
// between them.
func (v *vm) slowMatches(c goja.FunctionCall) {
	rx, ok := c.This.(*goja.Object)
	text, isText := c.Argument(0).(goja.String)
	if v.guards.exec || !ok || !isText || rx.ClassName() != "RegExp" || text.Length() < 64 {
		return
	}
	if backtracks.MatchString(rx.Get("source").String()) || text.Length() > maxFast && !isASCII(text.String()) {
		v.guards.exec = true
		v.guardExec()
	}
}

// found tells whether a match came out: a slow call that found something has not run out
// of time. Where replace has changed nothing, and split has cut nothing, none did.
func found(name string, ret, text goja.Value) bool {
	switch name {
	case "test":
		return ret.ToBoolean()
	case "search":
		return ret.ToInteger() >= 0
	case "replace":
		return !ret.StrictEquals(text)
	case "split":
		o, ok := ret.(*goja.Object)
		return ok && plainLength(o) > 1
	}
	return !goja.IsNull(ret) // match, exec
}
