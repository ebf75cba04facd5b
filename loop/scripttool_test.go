package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
	"dshsh/runtime"
)

// loadError is why a script does not load.
func (w *world) loadError(file, code string) string {
	w.t.Helper()
	e, err := w.h.EngineFor(file)
	if err != nil {
		w.t.Fatal(err)
	}
	prog, err := e.Compile(runtime.Source{ID: "cli/" + file, File: file, Code: []byte(code)})
	if err != nil {
		return err.Error()
	}
	w.do(func() {
		var in *runtime.Instance
		if in, err = w.h.Load(runtime.ScriptFile{ID: "cli/" + file, File: file, Layer: runtime.LayerCommandLine, Program: prog}); err == nil {
			w.h.Discard(in)
			err = errors.New("it loads")
		}
	})
	return err.Error()
}

func TestScriptToolsAndCommandsAreCheckedAtLoad(t *testing.T) {
	w := newWorld(t, always("ok"), withEngines, withTools(named{name: "bash"}), func(c *loop.Config) { c.Commands = []string{"help"} })
	for _, tc := range []struct{ js, lua, want string }{
		{`ctx.tool({ name: 'bash', description: '', execute() {} })`, `ctx.tool { name = 'bash', description = '', execute = function() end }`,
			`ctx.tool: "bash" is a built-in tool; choose another name`},
		{`ctx.tool({ name: 'a b', description: '', execute() {} })`, `ctx.tool { name = 'a b', description = '', execute = function() end }`,
			`ctx.tool: bad name "a b": models take letters, digits, _ and -, 64 at most`},
		{`ctx.tool({ name: 'a', description: '' })`, `ctx.tool { name = 'a', description = '' }`, `ctx.tool: missing field "execute"`},
		{`ctx.tool({ name: 'a', description: '', timeoutMs: -1, execute() {} })`, `ctx.tool { name = 'a', description = '', timeoutMs = -1, execute = function() end }`,
			"ctx.tool: timeoutMs is -1, want a positive number or none"},
		{`ctx.tool({ name: 'a', description: '', parameters: { type: 'string' }, execute() {} })`, `ctx.tool { name = 'a', description = '', parameters = { type = 'string' }, execute = function() end }`,
			"ctx.tool: tool a: parameters must be a JSON Schema of type object, but are of type string"},
		{`ctx.tool({ name: 'a', description: '', parametres: {}, execute() {} })`, `ctx.tool { name = 'a', description = '', parametres = {}, execute = function() end }`,
			`ctx.tool: for parameter definition: unknown field "parametres" (did you mean "parameters"?)`},
		{`ctx.command('help', { description: '', run() {} })`, `ctx.command('help', { description = '', run = function() end })`,
			"ctx.command: /help is a built-in command; choose another name"},
		{`ctx.command('/x', { description: '', run() {} })`, `ctx.command('/x', { description = '', run = function() end })`,
			`ctx.command: bad name "/x": want a word without a slash`},
		{`ctx.command('x', { description: '' })`, `ctx.command('x', { description = '' })`, `ctx.command: missing field "run"`},
	} {
		if got := w.loadError("f.js", tc.js); got != "f.js:1: "+tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
		if got := w.loadError("f.lua", tc.lua); got != "f.lua:1: "+tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func TestScriptToolResultsAndTimeout(t *testing.T) {
	inBoth(t, `
ctx.tool({ name: 'both', description: '', execute: () => ({ content: 'text', value: { n: [] } }) });
ctx.tool({ name: 'blocks', description: '', execute: () => ({ content: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] }) });
ctx.tool({ name: 'value', description: '', execute: () => ({ value: { n: 12345678901234567890n } }) });
ctx.tool({ name: 'none', description: '', execute: () => {} });
ctx.tool({ name: 'odd', description: '', execute: () => ({ text: 'x' }) });
ctx.tool({ name: 'slow', description: '', timeoutMs: 200, execute: async (_, exec) => {
  exec.signal.onabort(() => ctx.log('told')); await ctx.sleep(60000); return 'late'; } });`, `
ctx.tool { name = 'both', description = '', execute = function() return { content = 'text', value = { n = json.array {} } } end }
ctx.tool { name = 'blocks', description = '', execute = function() return { content = { { type = 'text', text = 'a' }, { type = 'text', text = 'b' } } } end }
ctx.tool { name = 'value', description = '', execute = function() return { value = { n = json.int('12345678901234567890') } } end }
ctx.tool { name = 'none', description = '', execute = function() end }
ctx.tool { name = 'odd', description = '', execute = function() return { text = 'x' } end }
ctx.tool { name = 'slow', description = '', timeoutMs = 200, execute = function(_, exec)
  exec.signal:onabort(function() ctx.log('told') end) ctx.sleep(60000) return 'late' end }`,
		func(t *testing.T, file, code string) {
			var calls []modeltest.Call
			for _, name := range []string{"both", "blocks", "value", "none", "odd", "slow"} {
				calls = append(calls, modeltest.Call{ID: name, Name: name, Arguments: "{}"})
			}
			w := newWorld(t, modeltest.New(modeltest.Say("", calls...)).Otherwise(modeltest.Text("ok")), withEngines)
			var values []string
			w.do(func() {
				loop.ToolsResult.On(w.h.Host, func(p loop.PostPayload) error {
					if p.Result.Value != nil {
						values = append(values, string(p.Result.Value))
					}
					return nil
				})
			})
			w.script(file, code)
			w.create().prompt("go")
			got := w.results()
			last := got[len(got)-1]
			if !strings.HasPrefix(last, "slow error Error: ") || !strings.HasSuffix(last, "slow: deadline exceeded after 200ms") {
				t.Error(last)
			}
			w.awaitNote("told")
			w.check(strings.Join(got[:len(got)-1], "\n"), `both - text
blocks - ab
value - {"n":12345678901234567890}
none - 
odd INVALID_TOOL_OUTPUT Error: the tool returned what is neither text nor {content, value?}: unknown field "text", want one of content, value`)
			w.check(strings.Join(values, " "), `{"n":[]} {"n":12345678901234567890}`)
		})
}

// A tool is asked once per call whether it may run beside others, with a limit of time,
// and its failure is told.
func TestScriptToolConcurrencySafe(t *testing.T) {
	inBoth(t, `ctx.tool({ name: 'a', description: '', concurrencySafe: ({ n }) => { ctx.log('asked ' + n); if (n === 3) throw new Error('no idea'); return n < 3; },
  execute: async ({ n }) => { ctx.log('in ' + n); await ctx.sleep(50 * n); ctx.log('out ' + n); return ''; } });`,
		`ctx.tool { name = 'a', description = '', concurrencySafe = function(a) ctx.log('asked ' .. a.n) if a.n == 3 then error('no idea') end return a.n < 3 end,
  execute = function(a) ctx.log('in ' .. a.n) ctx.sleep(50 * a.n) ctx.log('out ' .. a.n) return '' end }`,
		func(t *testing.T, file, code string) {
			w := newWorld(t, modeltest.New(modeltest.Say("", modeltest.Call{ID: "1", Name: "a", Arguments: `{"n":1}`}, modeltest.Call{ID: "2", Name: "a", Arguments: `{"n":2}`},
				modeltest.Call{ID: "3", Name: "a", Arguments: `{"n":3}`})).Otherwise(modeltest.Text("ok")), withEngines)
			w.script(file, code)
			w.create().prompt("go")
			w.check(strings.Join(w.notes.logged, "\n"), "asked 1\nin 1\nasked 2\nin 2\nasked 3\nout 1\nout 2\nin 3\nout 3")
			if len(w.notes.failures) != 1 || w.notes.failures[0].Err.Error() != file+":1: tool a: no idea" {
				t.Error(w.notes.failures)
			}
		})
}

func TestScriptCommandCompletion(t *testing.T) {
	inBoth(t, `
ctx.command('go', { description: '', run() {}, complete: async (prefix) => { await ctx.sleep(1); return ['left', 'right', prefix]; } });
ctx.command('bad', { description: '', run() {}, complete: () => 5 });
ctx.command('slow', { description: '', run() {}, complete: async () => { await ctx.sleep(60000); } });
ctx.command('none', { description: '', run() {} });`, `
ctx.command('go', { description = '', run = function() end, complete = function(prefix) ctx.sleep(1) return { 'left', 'right', prefix } end })
ctx.command('bad', { description = '', run = function() end, complete = function() return 5 end })
ctx.command('slow', { description = '', run = function() end, complete = function() ctx.sleep(60000) end })
ctx.command('none', { description = '', run = function() end })`,
		func(t *testing.T, file, code string) {
			w := newWorld(t, always("ok"), withEngines)
			w.script(file, code)
			ask := func(name, prefix string) (words []string, err error) {
				ctx, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, errors.New("no answer"))
				defer cancel()
				if name != "slow" {
					ctx = context.Background()
				}
				w.do(func() {
					words, err = w.h.Current().Find(loop.OfferCommand, name, nil).Spec.(*loop.Command).Complete(ctx, prefix)
				})
				return words, err
			}
			if words, err := ask("go", "x y"); err != nil || strings.Join(words, ",") != "left,right,x y" {
				t.Error(words, err)
			}
			if words, err := ask("none", ""); err != nil || words != nil {
				t.Error(words, err)
			}
			if _, err := ask("bad", ""); err == nil || !strings.Contains(err.Error(), "command bad: got number, want list") {
				t.Error(err)
			}
			if _, err := ask("slow", ""); err == nil || !strings.Contains(err.Error(), "no answer") {
				t.Error(err)
			}
		})
}
