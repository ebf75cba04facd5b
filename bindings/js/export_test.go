package js

import (
	"errors"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"

	"dshsh/runtime"
)

// FunctionOf evaluates a function in a VM.
func FunctionOf(x runtime.VM, source string) runtime.Func {
	v := x.(*vm)
	return fn{v, must(v.rt.RunString("(" + source + ")")).(*goja.Object)}
}

func must(x goja.Value, err error) goja.Value {
	if err != nil {
		panic(err)
	}
	return x
}

type thing struct{ n int }

func (*thing) Class() *runtime.Class { return thingClass }

var thingClass = &runtime.Class{Name: "thing", Members: []*runtime.Member{
	{Name: "n", Get: func(o runtime.Object) (runtime.Value, error) { return int64(o.(*thing).n), nil }},
}}

// TestObjectCache: a wrapper is the same while the script holds it, and the cache does
// not grow with what has gone.
func TestObjectCache(t *testing.T) {
	v := &vm{rt: goja.New()}
	kept := &thing{-1}
	w := v.wrapObject(kept)
	for i := range 100_000 {
		v.wrapObject(&thing{i})
		if i%10_000 == 0 {
			goruntime.GC()
			if v.wrapObject(kept) != w {
				t.Fatal("the same object has another wrapper")
			}
		}
	}
	goruntime.GC()
	for range 2 * len(v.objects.m) {
		v.wrapObject(&thing{})
	}
	if n := len(v.objects.m); n > 50_000 {
		t.Errorf("%d wrappers are kept", n)
	}
	goruntime.KeepAlive(w)
}

func TestParseStack(t *testing.T) {
	got := parseStack("Error: at x (y:1:2(3))\n\tat f (lib/a.js:10:5(3))\n\tat b c.js:2:1(7)\n\tat dshsh:await:1:1(1)\n\tat native\n\tat g (native)\n\tat <eval>:1:2(3)\n\tat nonsense\n")
	want := []runtime.Position{{File: "lib/a.js", Line: 10, Col: 5}, {File: "b c.js", Line: 2, Col: 1}}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNesting(t *testing.T) {
	for text, want := range map[string]int{"": 0, "[[]]": 2, `["[[["]`: 1, `["\"[[["]`: 1, `{"a":[{}]}`: 3, "]]]][": 1} {
		if got := nesting(text, true); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}

// TestGuardsFor: a plain policy needs none of the costly groups, and every way to what
// they guard calls for them.
func TestGuardsFor(t *testing.T) {
	plain := `// Guards.
ctx.on('tools/pre-execute', { filter: { tool: ['bash', 'write'] } }, async (call, next) => {
  const { command } = call.arguments;
  if (/\brm\b/.test(command)) return { kind: 'ask', reason: 'removes files' };
  const [first, ...rest] = command.split(' ');
  for (const x of [first, ...rest]) if (x.includes('sudo')) return { kind: 'deny' };
  return next();
});`
	if got := guardsFor(plain); got != (guardSet{strings: true, matches: true}) {
		t.Errorf("a plain policy needs %+v", got)
	}
	computed := guardSet{strings: true, matches: true, arrays: true, texts: true, functions: true, regexp: true}
	for source, want := range map[string]guardSet{
		"x[i] = 1":                    computed,
		"x?.[i]":                      computed,
		"f()[i]":                      computed,
		"`x` [i]":                     computed,
		"const {[k]: c} = f":          computed,
		"const {a, [k]: c} = f":       computed,
		"const { a: { [k]: c } } = f": computed,
		"x.repeat(9)":                 {strings: true},
		"[...x]":                      {strings: true},
		"JSON.parse(x)":               {json: true},
		"/a/.test(x)":                 {matches: true},
		"x.replace(y, z)":             {strings: true, matches: true},
		"f.apply(x, y)":               {functions: true},
		"new Array(9)":                {arrays: true},
		"Reflect.get(f, k)":           {arrays: true, functions: true, reflect: true, exec: true},
		"f.constructor":               {arrays: true, functions: true, regexp: true},
		"new Uint8Array(1)":           {arrays: true, typed: true},
		"globalThis.x":                {json: true, texts: true, typed: true, reflect: true, regexp: true},
		`\u0041rray`:                  {strings: true, json: true, matches: true, arrays: true, texts: true, functions: true, typed: true, reflect: true, regexp: true, exec: true},
		`/a(?=b)/.exec(x)`:            {matches: true, exec: true},
		"x.toUpperCase()":             {texts: true},
		"x.execute()":                 {matches: true},
	} {
		if got := guardsFor(source); got != want {
			t.Errorf("%s: got %+v, want %+v", source, got, want)
		}
	}
}

// TestLongChain: what goja takes time in the square of is found, and what merely looks
// like it is not.
func TestLongChain(t *testing.T) {
	long := func(begin, link, end string) string { return begin + strings.Repeat(link, 3000) + end }
	for _, code := range []string{
		long("a", "?.a", ""), long("a", ".a()", ""), long("a", "[0]", ""), long("a", " + 'a'", ""), long("", "!", "a"), long("", "typeof ", "a"),
		long("", "a ? a : ", "a"), long("", "a => ", "a"), long("", "async a => ", "a"), long("", "a = ", "a"), long("x = [1, f(a", "\n  && /[/]'/", ")]"),
		long("a", "`x${b}`", ""), long("", "`${b}` + ", "a"), long("`${", "-", "1}`"), long("a", " in b", ""), long("a", "\n// it's\n.b", ""),
		long("a", ",a", ""), long("x = (a", ",a", ")"), long("() => { a", ",a", "}"),
		long("", "if (a) ", "b"), long("", "if (a) b()\nelse ", "c"), long("", "if (a) { b() } else ", "c"), long("", "for (;;)", ";"), long("", "do\n", ";") + long("", "while (0)\n", ""),
		long("", "while (a) ", ";"), long("", "for await (const a of b) ", ";"), long("f(() => {", "if (a) ", "b() })"),
	} {
		if line, _ := longChain(code); line == 0 {
			t.Errorf("%.60q... is not found", code)
		}
	}
	for _, code := range []string{
		long("", "a.b(c);\n", ""), long("", "a.b(c)\n", ""), long("x = [", "a.b + 1, ", "]"), long("x = {", "a: -1, ", "}"), long("", "const a = b + 1\n", ""),
		long("x = `", "a + b - ", "`"), long("/*", " + a", "*/"), long("", "// a + b\n", ""), long("x = '", "+", "'"), long("x = /", "a+", "/"),
		long("", "if (a) b = c\nelse d = e\n", ""), long("class A {", "  m() { return -1 }\n", "}"), long("switch (a) {", "case 1: return b.c\n", "}"),
		long("", "f(() => {\n  return a.b\n})\n", ""), long("", "x = `${a.b}`\n", ""), long("", "type A = { b?: c }\n", ""), long("", "await f(a)\n", ""), long("", "i++\n", ""),
		long("", "if (a) b()\n", ""), long("", "if (a) return\n", ""), long("", "if (a) { b() } else { c() }\n", ""), long("", "while (a) b;", ""), long("", "do { a() } while (b)\n", ""),
		long("", "for (const a of b) c(a)\n", ""), long("x.if", ".if; x", ""), long("x = {", "if: (a), ", "}"), long("", "if (a) b = 'c'\n", ""), long("", "for (;;);", ""),
		long("f(", "a, ", ")"), long("x = f({ y: [", "{ a, b }, ", "] })"), long("return {", "a, ", "}"), long("(a, b) => ({", "a, ", "})"),
	} {
		if line, what := longChain(code); line != 0 {
			t.Errorf("%.60q... is refused in line %d: %s", code, line, what)
		}
	}
}

// TestTransformIsGivenUp: what takes esbuild too long is an error, is not begun a second
// time beside the first, and is there once it is done. What fails is tried again.
func TestTransformIsGivenUp(t *testing.T) {
	defer func(d time.Duration) { transformTime = d }(transformTime)
	transformTime = time.Millisecond
	const code = "const never: number = 1"
	block, begun := make(chan struct{}), 0
	begin := func(err error) *transforming {
		return beginTransform(transformKey("a.ts", code, false), func() (*transformed, error) {
			begun++
			<-block
			return &transformed{}, err
		})
	}
	failing := begin(errors.New("fails"))
	for range 2 {
		if _, err := transform("project/a.ts", "a.ts", code, false); err == nil || !strings.Contains(err.Error(), "a.ts: translating it takes longer than 1ms") {
			t.Fatal(err)
		}
	}
	close(block)
	<-failing.done
	transformTime = time.Minute
	out := begin(nil)
	if got, err := transform("project/a.ts", "a.ts", code, false); err != nil || got != out.out || begun != 2 {
		t.Errorf("%v, begun %d times", err, begun)
	}
}
