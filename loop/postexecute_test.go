package loop_test

import (
	"strings"
	"testing"

	"dshsh/loop/model/modeltest"
)

// Scripts that redact results compose with next(): each sees what the inner ones made of
// the content, and keeps what it does not say itself.
func TestPostExecuteComposes(t *testing.T) {
	red := map[string]string{
		"js":  `ctx.on('tools/post-execute', async (e, next) => { const { kind, content } = await next(); ctx.log(kind, content.length, content[0].text); return { kind: 'accept', content: content[0].text.replaceAll('FROM', 'TO') } })`,
		"lua": `ctx.on('tools/post-execute', function(e, next) local r = next() ctx.log(r.kind, #r.content, r.content[1].text) return { kind = 'accept', content = (r.content[1].text:gsub('FROM', 'TO')) } end)`,
	}
	adds := map[string]string{
		"js":  `ctx.on('tools/post-execute', async (e, next) => { await next(); return { kind: 'accept' } })`,
		"lua": `ctx.on('tools/post-execute', function(e, next) next() return { kind = 'accept' } end)`,
	}
	inner := map[string]map[string]string{
		"cut [mid] TOPSEC [end]": {},
		"stays blocked": {
			"js":  `ctx.on('tools/post-execute', () => ({ kind: 'block', feedback: 'stays blocked' }))`,
			"lua": `ctx.on('tools/post-execute', function() return { kind = 'block', feedback = 'stays blocked' } end)`,
		},
		"7": {
			"js":  `ctx.on('tools/post-execute', () => ({ kind: 'accept', value: 7 }))`,
			"lua": `ctx.on('tools/post-execute', function() return { kind = 'accept', value = 7 } end)`,
		},
	}
	for want, innermost := range inner {
		for _, lang := range []string{"js", "lua"} {
			t.Run(lang+" "+want, func(t *testing.T) {
				p := modeltest.New(modeltest.Tool("c1", "echo", `{"text":"is"}`)).Otherwise(modeltest.Text("ok"))
				w := newWorld(t, p, withTools(secret{}), withEngines)
				w.script("a."+lang, strings.NewReplacer("FROM", "RET7", "TO", " [end]").Replace(red[lang]))
				w.script("b."+lang, adds[lang])
				w.script("c."+lang, strings.NewReplacer("FROM", "it is", "TO", "cut [mid]").Replace(red[lang]))
				if innermost[lang] != "" {
					w.script("d."+lang, innermost[lang])
				}
				w.create().prompt("go")
				if got := w.sent(2); got != "go||"+want {
					t.Errorf("sent %q", got)
				}
				if got := strings.Join(w.notes.logged, "\n"); strings.Contains(got, "without next()") {
					t.Error(got)
				}
			})
		}
	}
}

// Who answers without next() leaves the inner scripts out, and it is said once of each.
func TestPostExecuteLeavesOut(t *testing.T) {
	for lang, code := range map[string][2]string{
		"js":  {`ctx.on('tools/post-execute', () => ({ kind: 'accept', content: 'mine' }))`, `ctx.on('tools/post-execute', FILTER () => ({ kind: 'accept', content: 'not seen' }))`},
		"lua": {`ctx.on('tools/post-execute', function() return { kind = 'accept', content = 'mine' } end)`, `ctx.on('tools/post-execute', FILTER function() return { kind = 'accept', content = 'not seen' } end)`},
	} {
		t.Run(lang, func(t *testing.T) {
			p := modeltest.New(modeltest.Tool("c1", "echo", `{"text":"is"}`), modeltest.Tool("c2", "echo", `{"text":"is"}`)).Otherwise(modeltest.Text("ok"))
			w := newWorld(t, p, withTools(secret{}), withEngines)
			w.script("a."+lang, code[0]+"\n"+code[0])
			w.script("b."+lang, strings.ReplaceAll(code[1], "FILTER", ""))
			other := map[string]string{"js": "{ filter: { tool: 'fails' } },", "lua": "{ filter = { tool = 'fails' } },"}
			w.script("c."+lang, strings.ReplaceAll(code[1], "FILTER", other[lang]))
			w.create().prompt("go")
			if got := w.sent(3); got != "go||mine||mine" {
				t.Errorf("sent %q", got)
			}
			w.check(strings.Join(w.notes.logged, "\n"), "line 1: the filter of tools/post-execute names the tool \"fails\", which there is not\nanswered tools/post-execute without next(): b."+lang+" did not see the result of echo")
		})
	}
}
