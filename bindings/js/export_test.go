package js

import (
	goruntime "runtime"
	"testing"

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
	if got := guardsFor(plain); got != (guardSet{}) {
		t.Errorf("a plain policy needs %+v", got)
	}
	for source, want := range map[string]guardSet{
		"x[i] = 1":                    {arrays: true, functions: true, regexp: true},
		"x?.[i]":                      {arrays: true, functions: true, regexp: true},
		"f()[i]":                      {arrays: true, functions: true, regexp: true},
		"`x` [i]":                     {arrays: true, functions: true, regexp: true},
		"const {[k]: c} = f":          {arrays: true, functions: true, regexp: true},
		"const {a, [k]: c} = f":       {arrays: true, functions: true, regexp: true},
		"const { a: { [k]: c } } = f": {arrays: true, functions: true, regexp: true},
		"new Array(9)":                {arrays: true},
		"Reflect.get(f, k)":           {arrays: true, functions: true, reflect: true},
		"f.constructor":               {arrays: true, functions: true, regexp: true},
		"new Uint8Array(1)":           {arrays: true, typed: true},
		"globalThis.x":                {typed: true, reflect: true, regexp: true},
		`\u0041rray`:                  {arrays: true, functions: true, typed: true, reflect: true, regexp: true},
		`/a(?=b)/`:                    {regexp: true},
	} {
		if got := guardsFor(source); got != want {
			t.Errorf("%s: got %+v, want %+v", source, got, want)
		}
	}
}
