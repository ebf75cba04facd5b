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
	"repeat":                 `'x'.repeat(2 ** 40)`,
	"repeat long":            `'x'.repeat(2 ** 20).repeat(2 ** 20)`,
	"repeat computed":        `'x'['rep' + 'eat'](2 ** 40)`,
	"padEnd":                 `'x'.padEnd(2 ** 33)`,
	"padStart":               `'x'.padStart(2 ** 33)`,
	"join":                   `new Array(1e6).join('x'.repeat(1e6))`,
	"array from":             `Array.from({ length: 5e7 })`,
	"array fill":             `new Array(4e9).fill(0)`,
	"array foreach":          `new Array(4e9).forEach(() => {})`,
	"array like":             `Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)`,
	"array sparse":           `const a = []; a[4e9] = 1; a.reverse()`,
	"array concat":           `[].concat(new Array(3e6), new Array(3e6))`,
	"flat itself":            `const a = []; a[0] = a; a.flat(Infinity); throw new RangeError('flat')`,
	"buffer":                 `new ArrayBuffer(2 ** 40)`,
	"buffer computed":        `globalThis['Array' + 'Buffer'](2 ** 40)`,
	"typed array":            `new Float64Array(2 ** 37)`,
	"typed from":             `Uint8Array.from({ length: 2 ** 40 })`,
	"typed constructor":      `new (new Int8Array(1).constructor)(2 ** 40)`,
	"buffer constructor":     `new (new Int8Array(1).buffer.constructor)(2 ** 40)`,
	"spread sparse":          `[...new Array(4e9)]`,
	"spread keys":            `[...Array(4e9).keys()]`,
	"rest of sparse":         `const [...r] = new Array(4e9)`,
	"set of sparse":          `new Set(new Array(4e9))`,
	"stringify sparse":       `const a = []; a[4e9] = 1; JSON.stringify(a)`,
	"text of sparse":         `const a = []; a[4e9] = 1; '' + a`,
	"split":                  `'x'.repeat(6e7).split('')`,
	"text doubling":          `let s = 'x'; for (;;) s += s`,
	"list growing":           `const a = []; for (;;) a.push('x'.repeat(1000) + a.length)`,
	"objects growing":        `let o = {}; for (let i = 0; ; i++) o = { o, i, list: [i, i, i, i] }`,
	"apply":                  `Math.max.apply(null, { length: 4e9 })`,
	"reflect apply":          `Reflect.apply(Math.max, null, { length: 4e9 })`,
	"bigint":                 `BigInt.asUintN(2 ** 40, -1n)`,
	"json depth":             `JSON.parse('['.repeat(5e6))`,
	"json depth object":      `JSON.parse('{"a":'.repeat(5e6))`,
	"regexp nesting":         `new RegExp('('.repeat(5e5) + ')'.repeat(5e5))`,
	"regexp constructor":     `new (/x/.constructor)('('.repeat(5e5) + ')'.repeat(5e5))`,
	"match nesting":          `'x'.match('('.repeat(5e5) + ')'.repeat(5e5))`,
	"eval":                   `eval('('.repeat(5e5) + ')'.repeat(5e5))`,
	"new Function":           `new Function('('.repeat(5e5) + ')'.repeat(5e5))`,
	"function of a function": `(() => {}).constructor('('.repeat(5e5) + ')'.repeat(5e5))`,
	"async function":         `(async () => {}).constructor('('.repeat(5e5) + ')'.repeat(5e5))`,
	"generator function":     `(function* () {}).constructor('('.repeat(5e5) + ')'.repeat(5e5))`,
	"backtracking":           `if (/^(a|aa)+(?=b)$/.test('a'.repeat(5000))) trace('matched')`,
	"recursion":              `const f = () => f() + 1; f()`,
	"recursion async":        `const f = async () => { await f(); }; f()`,
	"recursion getter":       `const o = { get a() { return this.a; } }; o.a`,
	"recursion sort":         `const f = () => [2, 1].sort(f); f()`,
	"recursion toJSON":       `const o = { toJSON() { return { a: { toJSON: o.toJSON } }; } }; JSON.stringify(o)`,
	"recursion proxy":        `const q = new Proxy({}, { get: (t, k, r) => r[k] }); q.x`,
	"recursion toString":     `const o = { toString() { return '' + o; } }; '' + o`,
	"loop":                   `for (;;) {}`,
	"loop microtasks":        `(async () => { for (;;) await null; })()`,
	"loop then":              `const f = () => Promise.resolve().then(f); f()`,
	"loop catch":             `for (;;) { try { for (;;) {} } catch {} finally { continue; } }`,
	"loop generator":         `function* g() { try { for (;;) yield 1; } finally { for (;;) {} } } for (const x of g()) break;`,
	"loop callback":          `[1].map(() => { for (;;) {} })`,
	"loop replace":           `'x'.replace(/x/, () => { for (;;) {} })`,
	"loop getter":            `ctx.log({ get a() { for (;;) {} } })`,
	"loop error":             `const e = new Error('x'); Object.defineProperty(e, 'message', { get() { for (;;) {} } }); throw e`,
	"loop thenable":          `return { then() { for (;;) {} } }`,
	"loop rejection":         `return Promise.reject({ get name() { for (;;) {} }, toJSON() { for (;;) {} } })`,
	"spread itself":          `const a = [1]; for (const x of a) a.push(x)`,
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
	limit := int64(500)
	if strings.HasSuffix(name, "growing") || strings.HasSuffix(name, "doubling") {
		limit = 20_000 // it must be the memory that ends it
	}
	h := bindingstest.NewHost(e, runtime.Limits{Sync: limit, Wall: 5000}, nil)
	defer h.Close()
	script := "const trace = () => {};\nctx.on('test/serial', (p) => {\n" + dangers[name] + "\n});\nctx.on('test/decide', async () => { await null; return { kind: 'deny' }; });\n"
	var err, next error
	var a bindingstest.Answer
	start := time.Now()
	_ = h.Do(context.Background(), func() {
		if err = bindingstest.Load(h, e, "danger.js", script); err != nil {
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
