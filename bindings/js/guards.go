package js

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dop251/goja"
)

// What one native call may ask for. An interrupt reaches script code only, so a built-in
// that is asked for terabytes ends the process and one that is asked to loop four billion
// times holds the host thread; these calls are refused before they begin. The originals
// are held by Go closures alone: a script can replace a guard, but not get behind it.
//
// Syntax cannot be guarded so. What grows step by step, such as a text that is doubled over
// and over, is stopped by the watchdog of the heap; arithmetic on big integers is rewritten
// before it is compiled (bigint.go), what would keep the parser busy is refused (complex.go).
const (
	maxText    = 1 << 26 // UTF-16 units of a text that one call makes
	maxItems   = 1 << 21 // items that a native loop may go over or make
	maxScan    = 1 << 20 // characters that a pattern may look at
	maxSort    = 1 << 20 // items that are sorted
	maxJSON    = 1 << 23 // characters that JSON.parse reads
	maxBytes   = 1 << 25 // of an ArrayBuffer
	maxArgs    = 1 << 17 // of apply
	maxBits    = 1 << 20 // of a BigInt
	maxDigits  = 1 << 18 // of a text that a BigInt is made of
	maxNesting = 2000    // of JSON, patterns and source
	maxDepth   = 1000    // of what is written out by code of ours or of goja's that recurses
	maxSource  = 1 << 20 // bytes of one script file; the parser recurses, and a Go stack that overflows ends the process
	maxPattern = 1 << 14 // characters of a pattern
)

// guardSet says which groups of guards a source needs. Together they cost several times
// what the rest of a virtual machine does, and most policies have no way to what they
// guard: a group is left out when the source names nothing of it and cannot reach it
// without a name either, through the global object or a computed key.
type guardSet struct{ strings, json, matches, arrays, texts, functions, typed, reflect, regexp, exec, statics bool }

var (
	// computedKey finds x[...] and {[...]: }, and some that are neither. With a word in
	// front that no value ends with, it is a list.
	computedKey = regexp.MustCompile("([\\w$]+|[)\\]\"'`}])\\s*(?:\\?\\.)?\\s*\\[|\\{\\s*\\[|,\\s*\\[[^\\]]*\\]\\s*:")
	beforeList  = []string{"const", "let", "var", "of", "in", "return", "case", "await", "yield", "typeof", "void", "else", "do", "throw"}

	globalRoutes  = []string{"globalThis", "this", `\u`}
	stringWords   = []string{"repeat", "pad", "concat", "split", "replace", "...", "Set", `\u`}
	jsonWords     = append([]string{"JSON"}, globalRoutes...)
	matchWords    = []string{"test", "match", "replace", "split", "search", "exec", "RegExp", `\u`}
	arrayWords    = []string{"Array", "length", "flat", "assign", "defineProp", "fromEntries", "Reflect", "constructor", `\u`}
	functionWords = []string{"apply", "constructor", "Reflect", "PrototypeOf", "__proto__", "getOwnProp", `\u`}
	textWords     = append([]string{"normalize", "locale", "Case", "raw", "code", "escape"}, globalRoutes...)
	execWords     = []string{"Reflect", "PrototypeOf", "getOwnProp", `\u`}
	typedWords    = append([]string{"8Array", "16Array", "32Array", "64Array", "8ClampedArray", "ArrayBuffer", "DataView"}, globalRoutes...)
	reflectWords  = append([]string{"Reflect", "BigInt"}, globalRoutes...)
	regexpWords   = append([]string{"RegExp", "constructor", "match", "search", "compile"}, globalRoutes...)
)

// execCall is kept from where nobody calls it, since goja has fast ways only while exec is
// its own.
var execCall = regexp.MustCompile(`\.\s*exec\b|\bmatchAll\b`)

func guardsFor(code string) guardSet {
	has := func(words []string) bool {
		for _, w := range words {
			if strings.Contains(code, w) {
				return true
			}
		}
		return false
	}
	computed := false
	for _, m := range computedKey.FindAllStringSubmatch(code, -1) {
		computed = computed || !slices.Contains(beforeList, m[1])
	}
	return guardSet{
		strings: computed || has(stringWords), json: has(jsonWords), matches: computed || has(matchWords),
		arrays: computed || has(arrayWords), texts: computed || has(textWords), functions: computed || has(functionWords),
		typed: has(typedWords), reflect: has(reflectWords), regexp: computed || has(regexpWords), statics: strings.Contains(code, "groupBy") || strings.Contains(code, "withResolvers"), exec: has(execWords) || execCall.MatchString(code),
	}
}

// check refuses a call by returning a message; "" lets it through. It may change what the
// call is made on and with.
type check func(c *goja.FunctionCall) string

// guard puts check before a method. A method that does not exist is passed over.
func (v *vm) guard(holder *goja.Object, name string, ok check) {
	if f := v.guarded(name, holder.Get(name), ok); f != nil {
		v.hide(holder, name, f)
	}
}

func (v *vm) guardSymbol(holder *goja.Object, sym *goja.Symbol, name string, ok check) {
	if f := v.guarded(name, holder.GetSymbol(sym), ok); f != nil {
		_ = holder.DefineDataPropertySymbol(sym, f, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
	}
}

func (v *vm) guarded(name string, method goja.Value, ok check) goja.Value {
	orig, callable := goja.AssertFunction(method)
	if !callable {
		return nil
	}
	return v.native(name, func(c goja.FunctionCall) goja.Value {
		v.poll()
		if msg := ok(&c); msg != "" {
			panic(v.rangeError(name + ": " + msg))
		}
		return v.forward(orig, c)
	})
}

// poll lets an interrupt through that came while native code was at work: goja looks for
// one only between instructions, and native code that calls our guards over and over may
// run none.
func (v *vm) poll() {
	if !v.overdue.Load() {
		return
	}
	if _, err := v.rt.RunProgram(nothingProgram()); isFatal(err) {
		panic(err)
	}
}

func (v *vm) forward(orig goja.Callable, c goja.FunctionCall) goja.Value {
	ret, err := orig(c.This, c.Arguments...)
	if err != nil {
		panic(err)
	}
	return ret
}

func (v *vm) rangeError(msg string) goja.Value {
	e := v.rt.NewTypeError("%s", msg)
	_ = e.SetPrototype(e.Prototype().Prototype())
	v.hide(e, "name", v.rt.ToValue("RangeError"))
	return e
}

func (v *vm) prototype(name string) (ctor, proto *goja.Object) {
	ctor = v.rt.Get(name).(*goja.Object)
	return ctor, ctor.Get("prototype").(*goja.Object)
}

func (v *vm) installGuards(need guardSet) {
	v.guardJoin()
	v.banEval()
	v.installMore(need)
}

// installMore adds the groups that a source needs, once each: a required file may need
// more than the script did.
func (v *vm) installMore(need guardSet) {
	for _, g := range []struct {
		need    bool
		has     *bool
		install func()
	}{
		{need.strings, &v.guards.strings, v.guardStrings},
		{need.json, &v.guards.json, v.guardJSON},
		{need.matches, &v.guards.matches, v.guardMatches},
		{need.arrays, &v.guards.arrays, v.guardArrays},
		{need.texts, &v.guards.texts, v.guardTexts},
		{need.functions, &v.guards.functions, v.guardFunctions},
		{need.typed, &v.guards.typed, v.guardTyped},
		{need.reflect, &v.guards.reflect, v.guardReflect},
		{need.regexp, &v.guards.regexp, v.guardRegexp},
		{need.exec, &v.guards.exec, v.guardExec},
		{need.statics, &v.guards.statics, v.addStatics},
	} {
		if g.need && !*g.has {
			*g.has = true
			g.install()
		}
	}
}

// banEval removes the ways to make code of a text: goja's parser can be driven out of its
// stack, and a policy that hides code in texts is one that nobody can review.
func (v *vm) banEval() {
	const why = " is not available: code comes from the script's files only"
	g := v.rt.GlobalObject()
	v.hide(g, "eval", v.native("eval", func(goja.FunctionCall) goja.Value { panic(v.rt.NewTypeError("eval" + why)) }))
	_, proto := v.prototype("Function")
	f := v.rt.ToValue(func(goja.ConstructorCall) *goja.Object { panic(v.rt.NewTypeError("new Function" + why)) }).(*goja.Object)
	_ = f.Set("prototype", proto) // so that instanceof goes on to work
	v.hide(proto, "constructor", f)
	v.hide(g, "Function", f)
	v.noFunction = f
}

// guardFunctions bans the constructors of the other kinds of function, which have no name,
// and bounds apply.
func (v *vm) guardFunctions() {
	protos, err := v.rt.RunProgram(functionsProgram())
	if err != nil {
		panic(err)
	}
	for _, i := range []string{"0", "1"} {
		v.hide(protos.(*goja.Object).Get(i).(*goja.Object).Prototype(), "constructor", v.noFunction)
	}
	_, proto := v.prototype("Function")
	v.guardApply(proto, "apply", 1, func(c goja.FunctionCall, args []goja.Value) (goja.Value, error) {
		return v.callOf("apply", c.This, c.Argument(0), args)
	})
}

func (v *vm) guardReflect() {
	r := v.rt.Get("Reflect").(*goja.Object)
	v.guardApply(r, "apply", 2, func(c goja.FunctionCall, args []goja.Value) (goja.Value, error) {
		return v.callOf("apply", c.Argument(0), c.Argument(1), args)
	})
	v.guardApply(r, "construct", 1, func(c goja.FunctionCall, args []goja.Value) (goja.Value, error) {
		construct, ok := goja.AssertConstructor(c.Argument(0))
		if !ok {
			panic(v.rt.NewTypeError("construct: not a constructor"))
		}
		var target *goja.Object
		if len(c.Arguments) > 2 {
			target, _ = c.Arguments[2].(*goja.Object)
		}
		return construct(target, args...)
	})
	bits := func(c *goja.FunctionCall) string {
		if n := v.numberArg(c, 0); n > maxBits {
			return fmt.Sprintf("%.0f bits are more than %d", n, maxBits)
		}
		return ""
	}
	b := v.rt.Get("BigInt").(*goja.Object)
	v.guard(b, "asIntN", bits)
	v.guard(b, "asUintN", bits)
	v.guardBigInt(b)
}

var bufferType = reflect.TypeFor[goja.ArrayBuffer]()

// guardTyped guards each constructor of typed arrays and buffers.
func (v *vm) guardTyped() {
	for name, size := range map[string]float64{
		"ArrayBuffer": 1, "Int8Array": 1, "Uint8Array": 1, "Uint8ClampedArray": 1, "Int16Array": 2, "Uint16Array": 2,
		"Int32Array": 4, "Uint32Array": 4, "Float32Array": 4, "Float64Array": 8, "BigInt64Array": 8, "BigUint64Array": 8,
	} {
		ctor, ok := v.rt.Get(name).(*goja.Object)
		if !ok {
			continue
		}
		v.guardConstructor(name, ctor, func(c *goja.FunctionCall) string {
			if len(c.Arguments) == 0 {
				return ""
			}
			var n float64
			o, ok := c.Arguments[0].(*goja.Object)
			switch {
			case !ok || name == "ArrayBuffer":
				n = v.numberArg(c, 0)
			case o.ExportType() == bufferType:
			default:
				if msg := v.itemsOf(0)(c); msg != "" {
					return msg
				}
				if l := c.Arguments[0].(*goja.Object).Get("length"); l != nil && !isObject(l) {
					n = l.ToFloat()
				}
			}
			if n*size > maxBytes {
				return fmt.Sprintf("%.0f bytes are more than %d", n*size, maxBytes)
			}
			return ""
		})
		if name == "Int8Array" {
			v.guardTypedMethods(ctor.Prototype())
		}
	}
}

// guardTypedMethods bounds what all typed arrays have in common, by the number of items:
// sorting them takes longest, and as values they need sixteen times the room.
func (v *vm) guardTypedMethods(typed *goja.Object) {
	v.guard(typed, "from", v.itemsOf(0))
	proto, ok := typed.Get("prototype").(*goja.Object)
	if !ok {
		return
	}
	items := func(c *goja.FunctionCall) string {
		if o, ok := c.This.(*goja.Object); ok {
			if l := o.Get("length"); l != nil && !isObject(l) {
				return tooMany(l.ToFloat())
			}
		}
		return ""
	}
	for _, name := range []string{"sort", "toSorted", "join", "toLocaleString", "values", "keys", "entries"} {
		v.guard(proto, name, items)
	}
	v.guardSymbol(proto, goja.SymIterator, "values", items)
}

// guardConstructor replaces a global constructor by one that asks ok first. It has the
// original's prototype and statics, so that instanceof and constructor mean it. (A proxy
// would do, but goja knows no instanceof for one.)
func (v *vm) guardConstructor(name string, ctor *goja.Object, ok check) {
	construct, isCtor := goja.AssertConstructor(ctor)
	if !isCtor {
		return
	}
	var guarded *goja.Object
	guarded = v.rt.ToValue(func(c goja.ConstructorCall) *goja.Object {
		defer v.guardNative()
		fc := goja.FunctionCall{Arguments: c.Arguments}
		if msg := ok(&fc); msg != "" {
			panic(v.rangeError(name + ": " + msg))
		}
		target := c.NewTarget
		if target == guarded {
			target = nil
		}
		o, err := construct(target, fc.Arguments...)
		if err != nil {
			panic(err)
		}
		return o
	}).(*goja.Object)
	_ = guarded.DefineDataProperty("name", v.rt.ToValue(name), goja.FLAG_FALSE, goja.FLAG_TRUE, goja.FLAG_FALSE)
	_ = guarded.SetPrototype(ctor.Prototype())
	for _, key := range ctor.GetOwnPropertyNames() {
		if key != "length" && key != "name" && key != "prototype" {
			v.hide(guarded, key, ctor.Get(key))
		}
	}
	self := v.rt.ToValue(func(c goja.FunctionCall) goja.Value { return c.This })
	_ = guarded.DefineAccessorPropertySymbol(goja.SymSpecies, self, nil, goja.FLAG_TRUE, goja.FLAG_FALSE)
	if proto, ok := ctor.Get("prototype").(*goja.Object); ok {
		_ = guarded.Set("prototype", proto)
		v.hide(proto, "constructor", guarded)
	}
	v.hide(v.rt.GlobalObject(), name, guarded)
}
