package loop_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
)

// program makes a call of run_code.
func program(id, code string) modeltest.Call {
	raw, _ := json.Marshal(map[string]string{"code": code})
	return modeltest.Call{ID: id, Name: "run_code", Arguments: string(raw)}
}

// runs runs programs one after the other and gives their results, as results does.
func runs(t *testing.T, script string, codes ...string) (*world, []string) {
	t.Helper()
	var calls []modeltest.Call
	for i, code := range codes {
		calls = append(calls, program(fmt.Sprint("p", i+1), code))
	}
	w := newWorld(t, modeltest.New(modeltest.Say("", calls...)).Otherwise(modeltest.Text("ok")), withEngines, withTools(echo{}, loop.RunCode()))
	if script != "" {
		w.script("f.js", script)
	}
	w.create().prompt("go")
	return w, w.results()
}

func TestRunCode(t *testing.T) {
	_, got := runs(t, "",
		`for (let i = 0; i < 50; i++) console.log(await tools.echo({ text: 'n' + i })); return { done: true };`,
		"const n: number = 5;\nreturn n + 1;",
		"console.log('before');\n\nnull.x",
		`return [typeof ctx, typeof require, typeof module, typeof process].join()`,
		`await tools.ecko({})`,
		`await tools.run_code({ code: '1' })`,
		`try { await tools.echo({ text: 5 }) } catch (e) { return [e.name, e.code] }`,
		`tools.echo({ text: 'not awaited' })`,
		`let = ;`,
		`while (true);`)
	lines := strings.Split(got[0], "\n")
	if len(lines) != 51 || lines[0] != "p1 - n0" || lines[49] != "n49" || lines[50] != `{"done":true}` {
		t.Error(got[0])
	}
	for i, want := range []string{
		"p2 - 6",
		"p3 PROGRAM_FAILED Error: run_code.js:3: TypeError: Cannot read property 'x' of undefined or null\n    3 | null.x\nbefore\n",
		"p4 - undefined,undefined,undefined,undefined",
		"p5 PROGRAM_FAILED Error: run_code.js:1: TypeError: tools has no ecko (did you mean echo?)\n    1 | await tools.ecko({})",
		"p6 PROGRAM_FAILED Error: run_code.js:1: run_code cannot be called from a program\n    1 | await tools.run_code({ code: '1' })",
		`p7 - ["ToolArgsError","INVALID_ARGS"]`,
		"p8 - ",
		"p9 PROGRAM_FAILED Error: run_code.js:1: SyntaxError: ",
		"p10 PROGRAM_FAILED Error: run_code.js:1: deadline exceeded: computed for more than 2s",
	} {
		if !strings.HasPrefix(got[i+1], want) {
			t.Errorf("got  %q\nwant %q", got[i+1], want)
		}
	}
}

// A program's calls are judged, changed and recorded as any other.
func TestRunCodeCallsGoThroughPolicies(t *testing.T) {
	w, got := runs(t, `
ctx.on('tools/pre-execute', ({ name, callId, rootCallId, arguments: a }, next) => {
  if (name !== 'echo') return next();
  ctx.log(callId + ' of ' + rootCallId);
  if (a.text === 'no') return { kind: 'deny', reason: 'not that' };
  if (a.text === 'old') return next({ arguments: { text: 'new' } });
  return next();
});
ctx.on('tools/post-execute', ({ name }) => { if (name === 'echo') return { kind: 'accept', content: 'redacted' }; });
ctx.on('tools/code-dispatch-log', () => ({ content: '[cut]' }));`,
		`const a = await tools.echo({ text: 'old' });
try { await tools.echo({ text: 'no' }); } catch (e) { return a + ' ' + e.message; }`)
	w.check(strings.Join(got, "\n"), "p1 - redacted redacted")
	w.check(strings.Join(w.notes.logged, "\n"), "p1.1 of p1\np1.1 of p1\np1.2 of p1")
	var recs []string
	for _, r := range w.records() {
		if d, ok := decoded[loop.CodeStart](r, loop.RecCodeStart); ok {
			recs = append(recs, fmt.Sprintf("start %s %s %s", d.SubCallID, d.Name, d.Arguments))
		}
		if d, ok := decoded[loop.CodeDispatch](r, loop.RecCodeDispatch); ok {
			recs = append(recs, fmt.Sprintf("end %s/%s/%s %s", d.RootCallID, d.ParentCallID, d.SubCallID, d.Content[0].Text))
		}
	}
	w.check(strings.Join(recs, "\n"), `start p1.1 echo {"text":"old"}
end p1/p1/p1.1 [cut]
start p1.2 echo {"text":"no"}
end p1/p1/p1.2 [cut]`)
}
