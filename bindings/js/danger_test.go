package js_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"dshsh/bindings/bindingstest"
	"dshsh/bindings/js"
	"dshsh/runtime"
)

// dangers are calls of a built-in that would end the process or hold the thread for good.
// Each must end soon, as an error in the script or (deadline) of the script.
var dangers = map[string]string{
	"repeat":                  `'x'.repeat(2 ** 40)`,
	"repeat long":             `'x'.repeat(2 ** 20).repeat(2 ** 20)`,
	"repeat computed":         `'x'['rep' + 'eat'](2 ** 40)`,
	"padEnd":                  `'x'.padEnd(2 ** 33)`,
	"padStart":                `'x'.padStart(2 ** 33)`,
	"join":                    `new Array(1e6).join('x'.repeat(1e6))`,
	"array from":              `Array.from({ length: 5e7 })`,
	"array fill":              `new Array(4e9).fill(0)`,
	"array foreach":           `new Array(4e9).forEach(() => {})`,
	"array like":              `Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)`,
	"array sparse":            `const a = []; a[4e9] = 1; a.reverse()`,
	"array concat":            `[].concat(new Array(3e6), new Array(3e6))`,
	"flat itself":             `const a = []; a[0] = a; a.flat(Infinity); throw new RangeError('flat')`,
	"buffer":                  `new ArrayBuffer(2 ** 40)`,
	"buffer computed":         `globalThis['Array' + 'Buffer'](2 ** 40)`,
	"typed array":             `new Float64Array(2 ** 37)`,
	"typed from":              `Uint8Array.from({ length: 2 ** 40 })`,
	"typed constructor":       `new (new Int8Array(1).constructor)(2 ** 40)`,
	"buffer constructor":      `new (new Int8Array(1).buffer.constructor)(2 ** 40)`,
	"spread sparse":           `[...new Array(4e9)]`,
	"spread keys":             `[...Array(4e9).keys()]`,
	"rest of sparse":          `const [...r] = new Array(4e9)`,
	"set of sparse":           `new Set(new Array(4e9))`,
	"stringify sparse":        `const a = []; a[4e9] = 1; JSON.stringify(a)`,
	"text of sparse":          `const a = []; a[4e9] = 1; '' + a`,
	"split":                   `'x'.repeat(6e7).split('')`,
	"text doubling":           `let s = 'x'; for (;;) s += s`,
	"list growing":            `const a = []; for (;;) a.push('x'.repeat(1000) + a.length)`,
	"objects growing":         `let o = {}; for (let i = 0; ; i++) o = { o, i, list: [i, i, i, i] }`,
	"apply":                   `Math.max.apply(null, { length: 4e9 })`,
	"reflect apply":           `Reflect.apply(Math.max, null, { length: 4e9 })`,
	"bigint":                  `BigInt.asUintN(2 ** 40, -1n)`,
	"json depth":              `JSON.parse('['.repeat(5e6))`,
	"json depth object":       `JSON.parse('{"a":'.repeat(5e6))`,
	"regexp nesting":          `new RegExp('('.repeat(5e5) + ')'.repeat(5e5))`,
	"regexp constructor":      `new (/x/.constructor)('('.repeat(5e5) + ')'.repeat(5e5))`,
	"match nesting":           `'x'.match('('.repeat(5e5) + ')'.repeat(5e5))`,
	"eval":                    `eval('('.repeat(5e5) + ')'.repeat(5e5))`,
	"new Function":            `new Function('('.repeat(5e5) + ')'.repeat(5e5))`,
	"function of a function":  `(() => {}).constructor('('.repeat(5e5) + ')'.repeat(5e5))`,
	"async function":          `(async () => {}).constructor('('.repeat(5e5) + ')'.repeat(5e5))`,
	"generator function":      `(function* () {}).constructor('('.repeat(5e5) + ')'.repeat(5e5))`,
	"backtracking":            `if (/^(a|aa)+(?=b)$/.test('a'.repeat(5000))) trace('matched')`,
	"recursion":               `const f = () => f() + 1; f()`,
	"recursion async":         `const f = async () => { await f(); }; f()`,
	"recursion getter":        `const o = { get a() { return this.a; } }; o.a`,
	"recursion sort":          `const f = () => [2, 1].sort(f); f()`,
	"recursion toJSON":        `const o = { toJSON() { return { a: { toJSON: o.toJSON } }; } }; JSON.stringify(o)`,
	"recursion proxy":         `const q = new Proxy({}, { get: (t, k, r) => r[k] }); q.x`,
	"recursion toString":      `const o = { toString() { return '' + o; } }; '' + o`,
	"loop":                    `for (;;) {}`,
	"loop microtasks":         `(async () => { for (;;) await null; })()`,
	"loop then":               `const f = () => Promise.resolve().then(f); f()`,
	"loop catch":              `for (;;) { try { for (;;) {} } catch {} finally { continue; } }`,
	"loop generator":          `function* g() { try { for (;;) yield 1; } finally { for (;;) {} } } for (const x of g()) break;`,
	"loop callback":           `[1].map(() => { for (;;) {} })`,
	"loop replace":            `'x'.replace(/x/, () => { for (;;) {} })`,
	"loop getter":             `ctx.log({ get a() { for (;;) {} } })`,
	"loop error":              `const e = new Error('x'); Object.defineProperty(e, 'message', { get() { for (;;) {} } }); throw e`,
	"loop thenable":           `return { then() { for (;;) {} } }`,
	"loop rejection":          `return Promise.reject({ get name() { for (;;) {} }, toJSON() { for (;;) {} } })`,
	"repeat twice":            `let n = 1; 'x'.repeat({ valueOf() { return n *= 2 ** 20; } }).repeat({ valueOf() { return 2 ** 30; } })`,
	"padEnd twice":            `let n = 1; 'x'.padEnd({ valueOf() { return (n *= 2 ** 17) > 2 ** 20 ? n : 1; } }); 'x'.padEnd({ valueOf() { return n *= 2 ** 17; } })`,
	"repeat this":             `String.prototype.repeat.call({ toString() { return 'x'.repeat(6e7); } }, 1000)`,
	"concat text":             `const s = 'x'.repeat(6e7); ''.concat(...new Array(1000).fill(s))`,
	"join texts":              `new Array(1e5).fill('x'.repeat(6e7)).join('')`,
	"join lists":              `let a = 'x'.repeat(1000); for (let i = 0; i < 20; i++) a = new Array(1000).fill(a); String(a)`,
	"length computed":         `let n = 0; Array.prototype.indexOf.call({ get length() { return n++ ? 2 ** 40 : 1; } }, 1); Array.prototype.fill.call({ get length() { return 2 ** 40; } }, 1)`,
	"length object":           `Array.prototype.reverse.call({ length: { valueOf() { return 2 ** 53 - 1; } } })`,
	"length proxy":            `Array.prototype.includes.call(new Proxy([], { get: (t, k) => k === 'length' ? 2 ** 53 - 1 : t[k] }), 1)`,
	"length lastIndexOf":      `Array.prototype.lastIndexOf.call({ length: 2 ** 53 - 1 }, 1)`,
	"length copyWithin":       `Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 1, 0)`,
	"length join":             `Array.prototype.join.call({ length: 2 ** 53 - 1 })`,
	"apply length object":     `Math.max.apply(null, { length: { valueOf() { return 4e9; } } })`,
	"apply length computed":   `let n = 0; const l = { get length() { return n++ ? 4e9 : 1; } }; Math.max.apply(null, l); Reflect.apply(Math.max, null, { get length() { return 4e9; } })`,
	"raw":                     `String.raw({ raw: { length: 2 ** 40 } })`,
	"concat spreadable":       `[].concat({ length: 2 ** 40, [Symbol.isConcatSpreadable]: true })`,
	"flat many":               `let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; a.flat(Infinity)`,
	"spread text":             `[...'x'.repeat(6e7)]`,
	"replaceAll":              `'x'.repeat(1e6).replaceAll('x', 'y'.repeat(1e6))`,
	"replaceAll around":       "'x'.repeat(1e5).replaceAll('x', '$`')",
	"replace pattern":         `'x'.repeat(1e6).replace(/x/g, 'y'.repeat(1e6))`,
	"replace parts":           `'x'.repeat(2e5).replace(/(?=(x*))x/g, '$1')`,
	"replace twice":           `let n = 0; 'x'.repeat(1e6).replaceAll('x', { toString() { return n++ ? 'y'.repeat(1e7) : 'y'; } }).replaceAll('y', 'x'.repeat(1e3))`,
	"replace function":        `const s = 'y'.repeat(1e6); 'x'.repeat(1e6).replace(/x/g, () => s)`,
	"match long":              `'x'.repeat(6e7).match(/x/g)`,
	"matchAll long":           `[...'x'.repeat(6e7).matchAll(/x/g)]`,
	"split pattern":           `'x'.repeat(6e7).split(/(x)/)`,
	"split text":              `'x,'.repeat(3e7).split(',')`,
	"normalize":               `'\u0344'.repeat(3e7).normalize('NFKD')`,
	"localeCompare":           `const s = '\u00e9'.repeat(3e7); s.localeCompare(s + 'x')`,
	"encode":                  `encodeURIComponent('\u20ac'.repeat(6e7))`,
	"text encoder":            `new TextEncoder().encode('\u20ac'.repeat(6e7))`,
	"stringify deep":          `let a = []; for (let i = 0; i < 1e5; i++) a = [a]; JSON.stringify(a)`,
	"stringify deep list":     `let a = {}; for (let i = 0; i < 1e5; i++) a = { a }; JSON.stringify(a, ['a'])`,
	"stringify many":          `let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; JSON.stringify(a)`,
	"stringify texts":         `JSON.stringify(new Array(1e5).fill('x'.repeat(1e6)))`,
	"text deep":               `let a = []; for (let i = 0; i < 1e5; i++) a = [a]; String(a)`,
	"text deep plain":         `let a = []; for (let i = 0; i < 1e5; i++) a = [a]; '' + a`,
	"text deep locale":        `let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.toLocaleString()`,
	"throw deep":              `let a = []; for (let i = 0; i < 1e5; i++) a = [a]; throw a`,
	"throw deep cause":        `let e = new Error('x'); for (let i = 0; i < 1e5; i++) e = new Error('x', { cause: e }); throw e`,
	"throw deep value":        `const e = new Error('x'); let a = []; for (let i = 0; i < 1e5; i++) a = [a]; e.value = a; throw e`,
	"throw many":              `let a = [1]; for (let i = 0; i < 40; i++) a = [a, a]; throw a`,
	"throw long":              `throw new Array(1e6).fill({ a: [1] })`,
	"log deep":                `let a = []; for (let i = 0; i < 1e5; i++) a = [a]; console.log(a); ctx.log(a)`,
	"clone deep":              `let a = []; for (let i = 0; i < 1e5; i++) a = [a]; structuredClone(a)`,
	"json long":               `JSON.parse('[' + '0,'.repeat(3e7) + '0]')`,
	"bigint shift":            `1n << (1n << 40n)`,
	"bigint shift back":       `1n >> -(2n ** 40n)`,
	"bigint shift assigned":   `let a = 1n; a <<= 2n ** 40n`,
	"bigint member assigned":  `const o = { a: 1n }; o.a <<= 1n << 40n`,
	"bigint pow":              `7n ** (7n ** 13n)`,
	"bigint pow object":       `7n ** { valueOf() { return 10n ** 12n; } }`,
	"bigint square":           `let a = 3n; for (;;) a *= a`,
	"bigint square member":    `const o = { a: 3n }; for (;;) o.a *= o.a`,
	"bigint digits":           `BigInt('9'.repeat(5e7))`,
	"bigint hidden":           `const B = globalThis['Big' + 'Int']; B(1) << (B(1) << B(40))`,
	"regexp long":             `new RegExp('a|'.repeat(5e6))`,
	"regexp repeat":           `new RegExp('((((a{1,1000}){1,1000}){1,1000}){1,1000}){1,1000}(?=b)').test('a'.repeat(1e5) + 'c')`,
	"backtracking exec":       `if (/^(a|aa)+(?=b)$/.exec('a'.repeat(5000)) === null) trace('allowed')`,
	"backtracking match":      `if ('a'.repeat(5000).match(/^(a|aa)+(?=b)$/) === null) trace('allowed')`,
	"backtracking matchAll":   `for (const m of 'a'.repeat(5000).matchAll(/^(a|aa)+(?=b)$/g)) trace(m)`,
	"backtracking search":     `if ('a'.repeat(5000).search(/^(a|aa)+(?=b)$/) < 0) trace('allowed')`,
	"backtracking replace":    `'a'.repeat(5000).replace(/^(a|aa)+(?=b)$/, '')`,
	"backtracking split":      `'a'.repeat(5000).split(/^(a|aa)+(?=b)$/)`,
	"backtracking unicode":    `'é'.repeat(5000).concat('!').replace(/^(é|éé)+[b-d]x?$/g, '')`,
	"matches unicode":         `('\u00e9'.repeat(5e5)).match(/\u00e9/g)`,
	"matches backtracking":    `'x'.repeat(9e5).match(/x(?=)/g)`,
	"backtracking typescript": "lang:ts\nconst r: RegExp = /^(a|aa)+(?=b)$/; if (!r.exec('a'.repeat(5000))) trace('allowed')",
	"array sort":              `const a = new Array(1e6).fill(0).map((_, i) => -i); for (;;) a.sort()`,
	"array spread many":       `const a = new Array(2e6).fill(0); for (;;) [...a, ...a, ...a, ...a]`,
	"typed sort":              `const a = new Uint8Array(3e7); for (let i = 0; i < 100; i++) a[i * 1e5] = i; a.sort()`,
	"typed spread":            `Math.max(...new Uint8Array(3e7))`,
	"typed from length":       `new Float64Array({ get length() { return 2 ** 40; } })`,
	"buffer object":           `let n = 0; new ArrayBuffer({ valueOf() { return n++ ? 2 ** 40 : 1; } }); new ArrayBuffer({ valueOf() { return 2 ** 40; } })`,
	"loop valueOf native":     `Array.from({ length: 4e6 }, () => { for (let i = 0; i < 1e6; i++); })`,
	"throw proxy":             `throw new Proxy(new Error('x'), { get() { throw 1; }, has() { throw 2; }, ownKeys() { throw 3; }, getPrototypeOf() { throw 4; }, getOwnPropertyDescriptor() { throw 5; } })`,
	"throw proxy object":      `throw new Proxy({}, { get() { throw new Proxy({}, { get() { throw 1; } }); }, ownKeys() { throw 3; } })`,
	"throw proxy function":    `throw new Proxy(() => {}, { get() { throw 1; }, apply() { throw 2; } })`,
	"throw getters":           `const e = new Error('x'); for (const k of ['name', 'message', 'stack', 'code', 'value', 'cause']) Object.defineProperty(e, k, { get() { throw e; } }); throw e`,
	"throw revoked":           `const r = Proxy.revocable({}, {}); r.revoke(); throw r.proxy`,
	"reject proxy":            `return Promise.reject(new Proxy(new Error('x'), { get() { throw 1; } }))`,
	"throw proxy loop":        `throw new Proxy(new Error('x'), { get() { for (;;) {} } })`,
	"thenable proxy":          `return new Proxy({}, { get() { throw new Error('x'); } })`,
	"spread itself":           `const a = [1]; for (const x of a) a.push(x)`,
}

// TestDangers runs each danger in a process of its own: where a guard is missing, it ends
// that process and nothing else.
func TestDangers(t *testing.T) {
	if name := os.Getenv("DSHSH_DANGER"); name != "" {
		runDanger(name)
		return
	}
	if testing.Short() {
		t.Skip("starts a process for each case")
	}
	for name := range dangers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(context.Background(), 60*time.Second)
			defer stop()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDangers$")
			cmd.Env = append(os.Environ(), "DSHSH_DANGER="+name, "GOMEMLIMIT=512MiB")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "survived") {
				if len(out) > 2000 {
					out = out[:2000]
				}
				t.Fatalf("%v\n%s", err, out)
			}
			t.Log(strings.SplitN(string(out), "\n", 2)[0])
		})
	}
}

// runDanger fires the danger as a listener, and then an ordinary listener of the same
// script, which must work.
func runDanger(name string) {
	e := js.Engine()
	limit := int64(1500)
	if strings.HasSuffix(name, "growing") || strings.HasSuffix(name, "doubling") {
		limit = 20_000 // it must be the memory that ends it
	}
	h := bindingstest.NewHost(e, runtime.Limits{Sync: limit, Wall: 5000}, nil)
	defer h.Close()
	file, body := "danger.js", dangers[name]
	if ts, ok := strings.CutPrefix(body, "lang:ts\n"); ok {
		file, body = "danger.ts", ts
	}
	script := "const trace = () => {};\nctx.on('test/serial', (p) => {\n" + body + "\n});\nctx.on('test/decide', async () => { await null; return { kind: 'deny' }; });\n"
	var err, next error
	var a bindingstest.Answer
	start := time.Now()
	_ = h.Do(context.Background(), func() {
		if err = bindingstest.Load(h, e, file, script); err != nil {
			return
		}
		err = bindingstest.Serial.Run(h, runtime.Target{}, bindingstest.Note{})
		a, next = bindingstest.Decide.Run(h, runtime.Target{}, bindingstest.Note{}, func(bindingstest.Note) (bindingstest.Answer, error) {
			return bindingstest.Answer{Kind: "allow"}, nil
		})
	})
	var se *runtime.ScriptError
	switch took := time.Since(start); {
	case !errors.As(err, &se):
		fmt.Println("not refused:", err)
	case next != nil || a.Kind != "deny":
		fmt.Println("broken afterwards:", a, next, "after", err)
	case took > 50*time.Second: // on a busy machine too
		fmt.Println("took", took)
	default:
		fmt.Println("survived:", took.Round(time.Millisecond), err)
	}
}
