package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/policy"
	"dshsh/runtime"
)

// grantAll grants by the text of the need.
type grantAll map[string]bool

func (g grantAll) Granted(_ *runtime.Instance, n runtime.Need) error {
	if g[n.String()] {
		return nil
	}
	return errors.New("ask for it")
}

// TestApproving: an allow of a script answers an ask only with the grant for that tool,
// only inside of who asks, and never what a guard asks.
func TestApproving(t *testing.T) {
	const denied = "c1 error Error: it asks (nobody is there to approve it)"
	judge := map[string]string{
		"a.js":  `ctx.need({ approve: ['echo'] }); ctx.on('tools/pre-execute', () => ({ kind: 'allow' }))`,
		"a.lua": `ctx.need({ approve = { 'echo' } }) ctx.on('tools/pre-execute', function() return { kind = 'allow' } end)`,
	}
	answer := map[string]string{
		"a.js":  `ctx.need({ approve: ['echo'] }); ctx.on('approval/request', () => ({ kind: 'allow' }))`,
		"a.lua": `ctx.need({ approve = { 'echo' } }) ctx.on('approval/request', function() return { kind = 'allow' } end)`,
	}
	askAndJudge := map[string]string{ // an ask outside of the allow stands
		"a.js":  `ctx.need({ approve: ['echo'] }); const ask = () => ({ kind: 'ask', reason: 'it asks' }), yes = () => ({ kind: 'allow' }); ctx.on('tools/pre-execute', ask); ctx.on('tools/pre-execute', yes)`,
		"a.lua": `ctx.need({ approve = { 'echo' } }) ctx.on('tools/pre-execute', function() return { kind = 'ask', reason = 'it asks' } end) ctx.on('tools/pre-execute', function() return { kind = 'allow' } end)`,
	}
	undeclared := map[string]string{
		"a.js":  `ctx.on('approval/request', () => ({ kind: 'allow' })); ctx.on('tools/pre-execute', () => ({ kind: 'allow' }))`,
		"a.lua": `ctx.on('approval/request', function() return { kind = 'allow' } end) ctx.on('tools/pre-execute', function() return { kind = 'allow' } end)`,
	}
	other := map[string]string{
		"a.js":  `ctx.need({ approve: ['bash'] }); ctx.on('tools/pre-execute', () => ({ kind: 'allow' }))`,
		"a.lua": `ctx.need({ approve = { 'bash' } }) ctx.on('tools/pre-execute', function() return { kind = 'allow' } end)`,
	}
	granted := grantAll{"approve echo": true, "approve bash": true}
	guard := func(policy.Call) policy.Decision { return policy.Decision{Kind: policy.Ask, Reason: "it asks"} }
	for _, c := range []struct {
		name    string
		scripts map[string]string
		grants  grantAll
		policy  testPolicy
		want    string
		used    string
		hint    string
	}{
		{"judging with the grant", judge, granted, testPolicy{def: asks}, "c1 - r", "true", ""},
		{"judging without", judge, nil, testPolicy{def: asks}, denied, "", "allow has no effect on what is asked until you grant what the script needs"},
		{"answering with the grant", answer, granted, testPolicy{def: asks}, "c1 - r", "true", ""},
		{"answering without", answer, nil, testPolicy{def: asks}, denied, "false", "allow has no effect on what is asked until you grant what the script needs"},
		{"nothing declared", undeclared, granted, testPolicy{def: asks}, denied, "false", "allow has no effect on what is asked without ctx.need({approve: [\"echo\"]})"},
		{"for another tool", other, granted, testPolicy{def: asks}, denied, "", "allow has no effect on what is asked without ctx.need({approve: [\"echo\"]})"},
		{"an ask further out", askAndJudge, granted, testPolicy{}, denied, "", ""},
		{"judging what a guard asks", judge, granted, testPolicy{def: asks, guard: guard}, denied, "true", ""},
		{"answering a guard", answer, granted, testPolicy{def: asks, guard: guard}, denied, "false", ""},
	} {
		for file, code := range c.scripts {
			t.Run(c.name+" "+file, func(t *testing.T) {
				w := oneCall(t, withEngines, withPolicy(c.policy, func(context.Context, loop.Question) (loop.Answer, error) { return loop.Answer{}, loop.ErrNobody }),
					func(cfg *loop.Config) { cfg.Grants = c.grants })
				w.script(file, code)
				w.create()
				w.prompt("go")
				w.check(w.result(), c.want)
				hint := c.hint
				if strings.HasSuffix(file, ".lua") {
					hint = strings.NewReplacer("approve: [", "approve = {", "]})", "}})").Replace(hint)
				}
				var hints []string
				for _, line := range w.notes.logged {
					if strings.HasPrefix(line, "allow has") {
						hints = append(hints, line)
					}
				}
				w.check(strings.Join(hints, "\n"), hint)
				used := ""
				for _, r := range w.records() {
					if d, ok := decoded[loop.GrantRecord](r, loop.RecGrant); ok {
						used += map[bool]string{true: "true", false: "false"}[d.Allowed]
						if d.Script != "cli/"+file || d.Kind != "approve" || d.Target != "echo" || !r.Ignorable {
							t.Errorf("recorded: %+v", d)
						}
					}
				}
				if used != c.used {
					t.Errorf("recorded uses %q, want %q", used, c.used)
				}
			})
		}
	}
}
