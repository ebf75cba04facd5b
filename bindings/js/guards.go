package js

import (
	"fmt"
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
// and over, is stopped by the watchdog of the heap; 1n << (1n << 40n) is stopped by no one.
const (
	maxText    = 1 << 26 // UTF-16 units of a text made by repeat, padStart, padEnd, join
	maxItems   = 1 << 22 // items that a native loop may go over or make
	maxBytes   = 1 << 26 // of an ArrayBuffer
	maxArgs    = 1 << 17 // of apply
	maxBits    = 1 << 20 // of BigInt.asIntN
	maxNesting = 2000    // of JSON, patterns and source
	maxSource  = 1 << 20 // bytes of one script file; the parser recurses, and a Go stack that overflows ends the process
)

// guardSet says which groups of guards a source needs. Together they cost several times
// what the rest of a virtual machine does, and most policies have no way to what they
// guard: a group is left out when the source names nothing of it and cannot reach it
// without a name either, through the global object or a computed key.
type guardSet struct{ arrays, functions, typed, reflect, regexp bool }

var (
	// computedKey finds x[...] and {[...]: }, and some that are neither. With a word in
	// front that no value ends with, it is a list.
	computedKey = regexp.MustCompile("([\\w$]+|[)\\]\"'`}])\\s*(?:\\?\\.)?\\s*\\[|\\{\\s*\\[|,\\s*\\[[^\\]]*\\]\\s*:")
	beforeList  = []string{"const", "let", "var", "of", "in", "return", "case", "await", "yield", "typeof", "void", "else", "do", "throw"}

	globalRoutes  = []string{"globalThis", "this", `\u`}
	arrayWords    = []string{"Array", "length", "flat", "assign", "defineProp", "fromEntries", "Reflect", "constructor", `\u`}
	functionWords = []string{"constructor", "Reflect", "PrototypeOf", "__proto__", "getOwnProp", `\u`}
	typedWords    = append([]string{"8Array", "16Array", "32Array", "64Array", "8ClampedArray", "ArrayBuffer", "DataView"}, globalRoutes...)
	reflectWords  = append([]string{"Reflect", "BigInt"}, globalRoutes...)
	regexpWords   = append([]string{"RegExp", "(?", `\1`, `\2`, `\3`, `\4`, `\5`, `\6`, `\7`, `\8`, `\9`, `\k`, `\p`, `\P`, "constructor", "match", "search", "compile"}, globalRoutes...)
)

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
		arrays: computed || has(arrayWords), functions: computed || has(functionWords),
		typed: has(typedWords), reflect: has(reflectWords), regexp: computed || has(regexpWords),
	}
}

// check refuses a call by returning a message; "" lets it through. It may change args.
type check func(this goja.Value, args []goja.Value) string

// guard puts check before a method. A method that does not exist is passed over.
func (v *vm) guard(holder *goja.Object, name string, ok check) {
	orig, callable := goja.AssertFunction(holder.Get(name))
	if !callable {
		return
	}
	v.hide(holder, name, v.native(name, func(c goja.FunctionCall) goja.Value {
		if msg := ok(c.This, c.Arguments); msg != "" {
			panic(v.rangeError(name + ": " + msg))
		}
		return v.forward(orig, c)
	}))
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

func textLength(x goja.Value) float64 {
	if s, ok := x.(goja.String); ok {
		return float64(s.Length())
	}
	if x == nil {
		return 0
	}
	return float64(len(x.String()))
}

// number reads an argument that a built-in takes as a length; what is no number is left
// to it.
func number(args []goja.Value, i int) float64 {
	if i >= len(args) {
		return 0
	}
	if o, ok := args[i].(*goja.Object); ok {
		return o.ToFloat()
	}
	if _, ok := args[i].(*goja.Symbol); ok {
		return 0
	}
	if f := args[i].ToFloat(); f == f {
		return f
	}
	return 0
}

func tooLong(n float64) string {
	return fmt.Sprintf("the result would have %.0f characters, more than %d", n, maxText)
}

// lengthOf is the length of an array or of what passes for one.
func lengthOf(x goja.Value) float64 {
	o, ok := x.(*goja.Object)
	if !ok {
		return 0
	}
	n := o.Get("length")
	if n == nil {
		return 0
	}
	if _, isObject := n.(*goja.Object); isObject {
		return 0
	}
	if f := n.ToFloat(); f == f {
		return f
	}
	return 0
}

func tooMany(n float64) string {
	return fmt.Sprintf("a length of %.0f is more than %d", n, maxItems)
}

func itemsOfThis(this goja.Value, _ []goja.Value) string {
	if n := lengthOf(this); n > maxItems {
		return tooMany(n)
	}
	return ""
}

func itemsOfArg(_ goja.Value, args []goja.Value) string {
	if len(args) == 0 {
		return ""
	}
	if s, ok := args[0].(goja.String); ok && s.Length() > maxItems {
		return tooMany(float64(s.Length()))
	}
	return itemsOfThis(args[0], nil)
}

func (v *vm) installGuards(need guardSet) {
	v.guardStrings()
	v.guardJSON()
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
		{need.arrays, &v.guards.arrays, v.guardArrays},
		{need.functions, &v.guards.functions, v.guardFunctions},
		{need.typed, &v.guards.typed, v.guardTyped},
		{need.reflect, &v.guards.reflect, v.guardReflect},
		{need.regexp, &v.guards.regexp, v.guardRegexp},
	} {
		if g.need && !*g.has {
			*g.has = true
			g.install()
		}
	}
}

func (v *vm) guardStrings() {
	_, proto := v.prototype("String")
	v.guard(proto, "repeat", func(this goja.Value, args []goja.Value) string {
		if n := textLength(this) * number(args, 0); n > maxText {
			return tooLong(n)
		}
		return ""
	})
	pad := func(_ goja.Value, args []goja.Value) string {
		if n := number(args, 0); n > maxText {
			return tooLong(n)
		}
		return ""
	}
	v.guard(proto, "split", func(this goja.Value, args []goja.Value) string {
		if n := textLength(this); n > maxItems && len(args) > 0 && textLength(args[0]) == 0 {
			return tooMany(n)
		}
		return ""
	})
	v.guard(proto, "padStart", pad)
	v.guard(proto, "padEnd", pad)
}

func (v *vm) guardArrays() {
	ctor, proto := v.prototype("Array")
	v.guard(ctor, "from", itemsOfArg)
	for _, name := range []string{
		"fill", "forEach", "map", "filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex", "reduce", "reduceRight",
		"indexOf", "lastIndexOf", "includes", "reverse", "sort", "slice", "splice", "copyWithin", "shift", "unshift", "flatMap",
		"toReversed", "toSorted", "toSpliced", "with", "keys", "entries", "values",
	} {
		v.guard(proto, name, itemsOfThis)
	}
	// What spreads and destructures a list asks here.
	_ = proto.DefineDataPropertySymbol(goja.SymIterator, proto.Get("values"), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE)
	v.guard(proto, "concat", func(this goja.Value, args []goja.Value) string {
		n := lengthOf(this)
		for _, a := range args {
			if o, ok := a.(*goja.Object); ok && o.ClassName() == "Array" {
				n += lengthOf(a)
			}
		}
		if n > maxItems {
			return tooMany(n)
		}
		return ""
	})
	v.guard(proto, "join", func(this goja.Value, args []goja.Value) string {
		n := lengthOf(this)
		if n > maxItems {
			return tooMany(n)
		}
		if len(args) > 0 && !goja.IsUndefined(args[0]) {
			if s, ok := args[0].(goja.String); ok && n*float64(s.Length()) > maxText {
				return tooLong(n * float64(s.Length()))
			}
		}
		return ""
	})
	// A list that contains itself has no flat form: goja would look for it until its
	// stack ends, and with it the process.
	v.guard(proto, "flat", func(this goja.Value, args []goja.Value) string {
		if number(args, 0) > 100 {
			args[0] = v.rt.ToValue(100)
		}
		return itemsOfThis(this, nil)
	})
}

func (v *vm) guardJSON() {
	json := v.rt.Get("JSON").(*goja.Object)
	v.guard(json, "stringify", itemsOfArg)
	v.guard(json, "parse", func(_ goja.Value, args []goja.Value) string {
		if len(args) == 0 {
			return ""
		}
		args[0] = args[0].ToString()
		if n := textLength(args[0]); n > maxText {
			return fmt.Sprintf("a text of %.0f characters is more than %d", n, maxText)
		}
		if nesting(args[0].String(), true) > maxNesting {
			return fmt.Sprintf("nested more than %d deep", maxNesting)
		}
		return ""
	})
}

// nesting counts how deep brackets nest in a text, not looking into quoted parts of it if
// quoted is set. It is exact for JSON and an upper bound elsewhere.
func nesting(s string, quoted bool) int {
	depth, most := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '[', '{', '(':
			if depth++; depth > most {
				most = depth
			}
		case ']', '}', ')':
			if depth > 0 {
				depth--
			}
		case '"':
			if !quoted {
				continue
			}
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		case '\\':
			i++
		}
	}
	return most
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
	v.guard(proto, "apply", func(_ goja.Value, args []goja.Value) string {
		if len(args) > 1 {
			return argumentsOf(args[1])
		}
		return ""
	})
}

// guardFunctions bans the constructors of the other kinds of function, which have no name.
func (v *vm) guardFunctions() {
	protos, err := v.rt.RunProgram(functionsProgram())
	if err != nil {
		panic(err)
	}
	for _, i := range []string{"0", "1"} {
		v.hide(protos.(*goja.Object).Get(i).(*goja.Object).Prototype(), "constructor", v.noFunction)
	}
}

func argumentsOf(x goja.Value) string {
	if n := lengthOf(x); n > maxArgs {
		return fmt.Sprintf("%.0f arguments are more than %d", n, maxArgs)
	}
	return ""
}

func (v *vm) guardReflect() {
	r := v.rt.Get("Reflect").(*goja.Object)
	v.guard(r, "apply", func(_ goja.Value, args []goja.Value) string {
		if len(args) > 2 {
			return argumentsOf(args[2])
		}
		return ""
	})
	v.guard(r, "construct", func(_ goja.Value, args []goja.Value) string {
		if len(args) > 1 {
			return argumentsOf(args[1])
		}
		return ""
	})
	bits := func(_ goja.Value, args []goja.Value) string {
		if n := number(args, 0); n > maxBits {
			return fmt.Sprintf("%.0f bits are more than %d", n, maxBits)
		}
		return ""
	}
	b := v.rt.Get("BigInt").(*goja.Object)
	v.guard(b, "asIntN", bits)
	v.guard(b, "asUintN", bits)
}

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
		v.guardConstructor(name, ctor, func(args []goja.Value) string {
			if len(args) == 0 {
				return ""
			}
			n := lengthOf(args[0])
			if _, isObject := args[0].(*goja.Object); !isObject {
				n = number(args, 0)
			}
			if n*size > maxBytes {
				return fmt.Sprintf("%.0f bytes are more than %d", n*size, maxBytes)
			}
			return ""
		})
		if name == "Int8Array" {
			typed := ctor.Prototype()
			v.guard(typed, "from", itemsOfArg)
		}
	}
}

// guardConstructor replaces a global constructor by one that asks ok first. It has the
// original's prototype and statics, so that instanceof and constructor mean it. (A proxy
// would do, but goja knows no instanceof for one.)
func (v *vm) guardConstructor(name string, ctor *goja.Object, ok func(args []goja.Value) string) {
	construct, isCtor := goja.AssertConstructor(ctor)
	if !isCtor {
		return
	}
	var guarded *goja.Object
	guarded = v.rt.ToValue(func(c goja.ConstructorCall) *goja.Object {
		defer v.guardNative()
		if msg := ok(c.Arguments); msg != "" {
			panic(v.rangeError(name + ": " + msg))
		}
		target := c.NewTarget
		if target == guarded {
			target = nil
		}
		o, err := construct(target, c.Arguments...)
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
