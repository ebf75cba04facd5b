package js

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/dop251/goja"

	"dshsh/runtime"
)

//go:embed prelude.js
var preludeSource string

// Programs of ours, compiled when they are first needed: a process that runs no script
// pays nothing for them. Each gives a function, or a few. What they do they do by syntax,
// not by anything that a script could replace.
var (
	// preludeProgram makes the globals that are easier written in JavaScript.
	preludeProgram = lazily("prelude", preludeSource)
	// laterProgram calls a function in a microtask.
	laterProgram = lazily("later", "(async (f) => { await null; f(); })")
	// awaitProgram calls ok or bad when a promise has settled.
	awaitProgram = lazily("await", `(async (p, ok, bad) => {
  let x;
  try { x = await p; } catch (e) { bad(e); return; }
  ok(x);
})`)
	// functionsProgram gives a function of each kind that has a constructor of its own.
	// staticsProgram adds functions to constructors, where they are missing.
	staticsProgram = lazily("statics", `(() => {
  const add = (holder, name, value) => {
    if (!(name in holder)) Object.defineProperty(holder, name, { value, configurable: true, writable: true });
  };
  const groups = (items, key, put) => {
    let i = 0;
    for (const item of items) put(key(item, i++), item);
  };
  add(Promise, 'withResolvers', function withResolvers() {
    let resolve, reject;
    const promise = new this((ok, bad) => { resolve = ok; reject = bad; });
    return { promise, resolve, reject };
  });
  add(Object, 'groupBy', function groupBy(items, key) {
    const out = Object.create(null);
    groups(items, key, (k, item) => (out[k] ??= []).push(item));
    return out;
  });
  add(Map, 'groupBy', function groupBy(items, key) {
    const out = new Map();
    groups(items, key, (k, item) => (out.has(k) ? out.get(k).push(item) : out.set(k, [item])));
    return out;
  });
})`)
	// nothingProgram does nothing, which is enough to notice an interrupt.
	nothingProgram   = lazily("nothing", "0")
	functionsProgram = lazily("functions", "[async () => {}, function* () {}]")
)

func lazily(name, source string) func() *goja.Program {
	return sync.OnceValue(func() *goja.Program { return goja.MustCompile(internalPrefix+name, source, true) })
}

// globals gives a new VM what scripts find in it: as the prototype of the global object,
// which makes a name when it is first read. A script may still declare or assign any of
// them.
func (v *vm) globals() {
	_ = v.rt.GlobalObject().SetPrototype(v.rt.NewDynamicObject(&globals{v: v}))
}

// globals is the prototype of the global object.
type globals struct {
	v    *vm
	made map[string]goja.Value
}

// Get implements goja.DynamicObject.
func (g *globals) Get(key string) goja.Value {
	if x, ok := g.made[key]; ok {
		return x
	}
	x := g.v.makeGlobal(key)
	if x != nil {
		if g.made == nil {
			g.made = map[string]goja.Value{}
		}
		g.made[key] = x
	}
	return x
}

// Has implements goja.DynamicObject.
func (g *globals) Has(key string) bool {
	if key == bigGlobal {
		return true
	}
	if s := g.v.in.Sandbox(); s != nil {
		if _, ok := s.Globals[key]; ok {
			return true
		}
		if scriptsOnly[key] {
			return false
		}
	}
	for _, k := range globalNames {
		if k == key {
			return true
		}
	}
	return false
}

// Keys implements goja.DynamicObject.
func (g *globals) Keys() []string { return nil }

// Set implements goja.DynamicObject. An assignment to a global makes one of the script's
// own before it comes here.
func (g *globals) Set(string, goja.Value) bool { return false }

// Delete implements goja.DynamicObject.
func (g *globals) Delete(string) bool { return true }

var globalNames = []string{
	"ctx", "console", "require", "module", "exports", "queueMicrotask",
	"setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval", "clearImmediate",
	"structuredClone", "AbortController", "AbortSignal", "TextEncoder", "TextDecoder", "URL", "URLSearchParams", "atob", "btoa",
}

// scriptsOnly are the globals that a program in a sandbox has not.
var scriptsOnly = map[string]bool{"ctx": true, "require": true, "module": true, "exports": true}

func (v *vm) makeGlobal(key string) goja.Value {
	if s := v.in.Sandbox(); s != nil {
		if x, ok := s.Globals[key]; ok {
			return v.toJS(x)
		}
		if scriptsOnly[key] {
			return nil
		}
	}
	switch key {
	case "ctx":
		return v.wrapObject(v.in.Ctx(nil))
	case "console":
		return v.rt.NewDynamicObject(&console{v: v})
	case "require":
		return v.requireFrom("", v.prog.main.imports)
	case "module":
		return v.mainModule()
	case "exports":
		return v.mainModule().Get("exports")
	case "atob", "btoa":
		return v.native(key, func(c goja.FunctionCall) goja.Value { return v.base64(key, c) })
	case bigGlobal:
		return v.bigFunctions()
	case "queueMicrotask":
		return v.native(key, v.queueMicrotask)
	case "setTimeout", "setImmediate":
		return v.native(key, func(c goja.FunctionCall) goja.Value { return v.setTimer(key, c, false) })
	case "setInterval":
		return v.native(key, func(c goja.FunctionCall) goja.Value { return v.setTimer(key, c, true) })
	case "clearTimeout", "clearInterval", "clearImmediate":
		return v.native(key, v.clearTimer)
	case "structuredClone", "AbortController", "AbortSignal", "TextEncoder", "TextDecoder", "URL", "URLSearchParams":
		return v.prelude().Get(key)
	}
	return nil
}

// addSymbols gives Symbol what lowered code looks for, once.
func (v *vm) addSymbols() {
	holder := v.rt.Get("Symbol").(*goja.Object)
	named, _ := goja.AssertFunction(holder.Get("for"))
	for _, name := range []string{"asyncIterator", "dispose", "asyncDispose"} {
		if holder.Get(name) != nil || named == nil {
			continue
		}
		if sym, err := named(holder, v.rt.ToValue("Symbol."+name)); err == nil {
			_ = holder.DefineDataProperty(name, sym, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE)
		}
	}
}

// prelude runs the JavaScript part, once.
func (v *vm) prelude() *goja.Object {
	if v.preludeObj != nil {
		return v.preludeObj
	}
	make, err := v.helper(preludeProgram)
	if err != nil {
		panic(err)
	}
	v.installMore(guardSet{typed: true, strings: true}) // it uses Uint8Array, so scripts can reach it
	obj, err := make(goja.Undefined(),
		v.native("isSignal", func(c goja.FunctionCall) goja.Value {
			o, ok := c.Argument(0).(*goja.Object)
			if !ok || o.ExportType() != liveObjectType {
				return v.rt.ToValue(false)
			}
			return v.rt.ToValue(o.Export().(*liveObject).isSignal())
		}),
		v.native("encode", func(c goja.FunctionCall) goja.Value {
			text := c.Argument(0).String()
			if len(text) > maxBytes {
				panic(v.rangeError(fmt.Sprintf("TextEncoder.encode: %d bytes are more than %d", len(text), maxBytes)))
			}
			return v.rt.ToValue(v.rt.NewArrayBuffer([]byte(text)))
		}),
		v.native("decode", func(c goja.FunctionCall) goja.Value {
			b, _ := c.Argument(0).Export().(goja.ArrayBuffer)
			from, to := c.Argument(1).ToInteger(), c.Argument(2).ToInteger()
			return v.rt.ToValue(strings.ToValidUTF8(string(b.Bytes()[from:to]), "\uFFFD"))
		}),
		v.native("parseURL", v.parseURL))
	if err != nil {
		panic(err)
	}
	v.preludeObj = obj.(*goja.Object)
	return v.preludeObj
}

// base64 is atob and btoa, whose binary texts have a character for each byte.
func (v *vm) base64(name string, c goja.FunctionCall) goja.Value {
	textArg(&c, 0)
	text := c.Argument(0).String()
	if len(text) > maxBytes {
		panic(v.rangeError(name + ": " + tooLong(float64(len(text))*4)))
	}
	if name == "atob" {
		text = strings.TrimRight(strings.NewReplacer(" ", "", "\n", "", "\r", "", "\t", "", "\f", "").Replace(text), "=")
		data, err := base64.RawStdEncoding.DecodeString(text)
		if err != nil {
			panic(v.rt.NewTypeError("atob: this is no base 64"))
		}
		units := make([]rune, len(data))
		for i, b := range data {
			units[i] = rune(b)
		}
		return v.rt.ToValue(string(units))
	}
	data := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xFF {
			panic(v.rt.NewTypeError("btoa: %q is no byte; encode the text first: new TextEncoder().encode(text).toBase64()", r))
		}
		data = append(data, byte(r))
	}
	return v.rt.ToValue(base64.StdEncoding.EncodeToString(data))
}

// addStatics gives built-ins what goja's lack, for files that name it, once.
func (v *vm) addStatics() {
	f, err := v.helper(staticsProgram)
	if err == nil {
		_, err = f(goja.Undefined())
	}
	if err != nil {
		panic(err)
	}
}

// The schemes whose URLs have a host, and the port that is left out of them.
var specialPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}

// parseURL splits a URL, relative to a base if there is one, into its parts.
func (v *vm) parseURL(c goja.FunctionCall) goja.Value {
	text, base := c.Argument(0).String(), c.Argument(1).String()
	u, err := url.Parse(strings.TrimSpace(text))
	var b *url.URL
	if err == nil {
		b, err = url.Parse(base)
	}
	if err == nil {
		u = b.ResolveReference(u) // takes .. out of the path, also without a base
	}
	if err != nil {
		panic(v.rt.NewTypeError("Invalid URL: %s", text))
	}
	port, special := specialPorts[u.Scheme]
	if u.Scheme == "" || special && u.Host == "" {
		panic(v.rt.NewTypeError("Invalid URL: %s", text))
	}
	p := map[string]any{
		"protocol": u.Scheme + ":", "special": special, "slashes": u.Host != "" || special || u.Scheme == "file",
		"hostname": strings.ToLower(u.Hostname()), "port": u.Port(), "pathname": u.EscapedPath(), "search": "", "hash": "",
		"username": "", "password": "",
	}
	if strings.Contains(u.Hostname(), ":") {
		p["hostname"] = "[" + strings.ToLower(u.Hostname()) + "]"
	}
	if u.Port() == port {
		p["port"] = ""
	}
	switch {
	case u.Opaque != "":
		p["pathname"] = u.Opaque
	case u.Path == "" && special:
		p["pathname"] = "/"
	}
	if u.RawQuery != "" {
		p["search"] = "?" + strings.ReplaceAll(u.RawQuery, " ", "%20")
	}
	if u.Fragment != "" {
		p["hash"] = "#" + u.EscapedFragment()
	}
	if u.User != nil {
		p["username"] = url.PathEscape(u.User.Username())
		secret, _ := u.User.Password()
		p["password"] = url.PathEscape(secret)
	}
	return v.toJS(p)
}

// console is the console object; its functions are made when they are first read.
type console struct {
	v       *vm
	methods map[string]goja.Value
}

var consoleLevels = map[string]string{"log": "log", "info": "info", "warn": "warn", "error": "error", "debug": "debug", "trace": "debug"}

// Get implements goja.DynamicObject.
func (c *console) Get(key string) goja.Value {
	if f, ok := c.methods[key]; ok {
		return f
	}
	level, ok := consoleLevels[key]
	if !ok {
		return nil
	}
	f := c.v.native(key, func(fc goja.FunctionCall) goja.Value {
		c.v.in.Log(level, c.v.format(fc.Arguments))
		return goja.Undefined()
	})
	c.Set(key, f)
	return f
}

// Set implements goja.DynamicObject.
func (c *console) Set(key string, val goja.Value) bool {
	if c.methods == nil {
		c.methods = map[string]goja.Value{}
	}
	c.methods[key] = val
	return true
}

// Has implements goja.DynamicObject.
func (c *console) Has(key string) bool {
	_, ok := c.methods[key]
	return ok || consoleLevels[key] != ""
}

// Delete implements goja.DynamicObject.
func (c *console) Delete(key string) bool { delete(c.methods, key); return true }

// Keys implements goja.DynamicObject.
func (c *console) Keys() []string { return []string{"debug", "error", "info", "log", "trace", "warn"} }

// format prints values as console.log does: texts as they are, errors with their stack,
// the rest as JSON where it has one.
func (v *vm) format(args []goja.Value) string {
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = v.display(a)
	}
	return strings.Join(parts, " ")
}

func (v *vm) display(x goja.Value) string {
	o, ok := x.(*goja.Object)
	if !ok {
		return x.String()
	}
	if o.ClassName() == "Error" {
		if s := text(o.Get("stack")); s != "" {
			return strings.TrimRight(s, "\n")
		}
		return o.String()
	}
	val, err := v.export(x, nil, "")
	if isFatal(err) {
		panic(err)
	}
	if err != nil {
		return "[" + err.Error() + "]"
	}
	return runtime.Display(val)
}

func (v *vm) queueMicrotask(c goja.FunctionCall) goja.Value {
	if _, ok := goja.AssertFunction(c.Argument(0)); !ok {
		panic(v.rt.NewTypeError("queueMicrotask: got no function"))
	}
	f, err := v.helper(laterProgram)
	if err == nil {
		_, err = f(goja.Undefined(), c.Argument(0))
	}
	if err != nil {
		panic(err)
	}
	return goja.Undefined()
}
