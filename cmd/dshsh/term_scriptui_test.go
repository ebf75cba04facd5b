package main_test

import (
	"strings"
	"testing"

	"dshsh/cmd/dshsh/internal/repl/repltest"
)

// TestScriptsAskThePerson: the questions of scripts at the prompt, one after the other,
// with what is half typed kept.
func TestScriptsAskThePerson(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"scripts/q.js": `
ctx.command('deploy', { description: 'asks', run: async () => {
  ctx.ui.notify('asking three times');
  const sure = await ctx.ui.confirm('Deploy now?');
  const where = await ctx.ui.select('Where to?', ['staging', { name: 'production' }]);
  const who = await ctx.ui.input('Who are you?');
  return JSON.stringify([sure, where, who]);
} });
ctx.command('both', { description: 'asks at once', run: async () => {
  const [a, b] = await Promise.all([ctx.ui.confirm('First?'), ctx.ui.confirm('Second?')]);
  return a + ' ' + b;
} });
ctx.on('agent/turn-starting', async () => { if (!(await ctx.ui.confirm('Begin?'))) throw new Error('not begun'); });`,
		"scripts/q.lua": `
ctx.command('deploy', { description = 'asks', run = function()
  ctx.ui.notify('asking three times')
  local sure = ctx.ui.confirm('Deploy now?')
  local where = ctx.ui.select('Where to?', { 'staging', { name = 'production' } })
  local who = ctx.ui.input('Who are you?')
  return json.encode({ sure, where, who })
end })
ctx.command('both', { description = 'asks at once', run = function()
  local first
  ctx.spawn(function() first = ctx.ui.confirm('First?') end)
  ctx.sleep(50)
  local second = ctx.ui.confirm('Second?')
  return tostring(first) .. ' ' .. tostring(second)
end })
ctx.on('agent/turn-starting', function() if not ctx.ui.confirm('Begin?') then error('not begun') end end)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := &shell{t: t, dir: t.TempDir()}
			home.write(name, code)
			label := "[" + name[len("scripts/"):] + "] "
			s := opened(t, place{home: home.dir, rows: 60})
			s.WaitFor(" in force: ")
			s.enter("/deploy")
			s.WaitFor(label + "asking three times")
			s.WaitFor(label + "Deploy now? y / n")
			s.Type("perhaps", repltest.Enter, "yes", repltest.Enter)
			s.WaitFor("1 - 2?")
			s.in(label+"Where to?\n", "1  staging\n", `2  {"name":"production"}`)
			s.Type("3", repltest.Enter, "2", repltest.Enter)
			s.WaitFor(label + "Who are you?")
			s.Type("Ada L.", repltest.Enter)
			s.WaitFor(`[true,{"name":"production"},"Ada L."]`)
			s.ready()

			s.clear()
			s.enter("/both")
			s.WaitFor("First? y / n")
			s.Type("y", repltest.Enter)
			s.WaitFor("Second? y / n")
			s.Type("n", repltest.Enter)
			s.WaitFor("true false")
			s.ready()

			// Ctrl-C at a command's question ends that; at a turn's it cancels the turn.
			s.clear()
			s.enter("/deploy")
			s.WaitFor("Deploy now? y / n")
			s.Type(repltest.CtrlC)
			s.WaitFor("/deploy: cancelled\n")
			s.ready()
			s.enter("say hello")
			s.WaitFor("Begin? y / n")
			s.Type(repltest.CtrlC)
			s.WaitFor("[cancelled]")
			s.ready()
			s.clear()
			s.enter("say hello")
			s.WaitFor("Begin? y / n")
			s.Type("n", repltest.Enter)
			s.WaitFor("not begun")
			s.ready()
			s.clear()
			s.enter("say good day")
			s.WaitFor("Begin? y / n")
			s.Type("y", repltest.Enter)
			s.WaitFor("good day\n")
			s.ready()
			s.quit()
		})
	}
}

// TestTabAsksAScriptsCommand: what a command's complete gives is offered; one that fails or
// takes too long says so, and the prompt stays live.
func TestTabAsksAScriptsCommand(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"scripts/c.js": `
const run = (args) => 'ran ' + args;
ctx.command('ship', { description: '', run, complete: async (prefix) => { await ctx.sleep(1); return prefix.includes(' ') ? ['force', 'dry-run'] : ['staging', 'production']; } });
ctx.command('broken', { description: '', run, complete: () => { throw new Error('no words'); } });
ctx.command('stuck', { description: '', run, complete: async () => { await ctx.sleep(60000); return []; } });`,
		"scripts/c.lua": `
local function run(args) return 'ran ' .. args end
ctx.command('ship', { description = '', run = run, complete = function(prefix) ctx.sleep(1) if prefix:find(' ') then return { 'force', 'dry-run' } end return { 'staging', 'production' } end })
ctx.command('broken', { description = '', run = run, complete = function() error('no words') end })
ctx.command('stuck', { description = '', run = run, complete = function() ctx.sleep(60000) return {} end })`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := &shell{t: t, dir: t.TempDir()}
			home.write(name, code)
			s := opened(t, place{home: home.dir})
			s.WaitFor(" in force: ")
			s.Type("/ship st", repltest.Tab)
			s.WaitFor("> /ship staging")
			s.Type(" f", repltest.Tab)
			s.WaitFor("> /ship staging force")
			s.Type(repltest.Enter)
			s.WaitFor("ran staging force")
			s.Type("/broken x", repltest.Tab)
			s.WaitFor("/broken: completing: ")
			s.in("command broken: no words")
			s.Type(repltest.CtrlU, "/stuck ", repltest.Tab)
			s.WaitFor("/stuck: completing: ")
			s.in("no answer in 1s")
			s.Type("y", repltest.Enter)
			s.WaitFor("ran y")
			s.ready()
			s.quit()
		})
	}
}

// What names no tool is told of at the prompt when the script comes into force, and of two
// commands of one name /help shows the one in force.
func TestScriptsThatNameNothing(t *testing.T) {
	t.Parallel()
	home := &shell{t: t, dir: t.TempDir()}
	home.write("scripts/a.js", "ctx.command('deploy', { description: 'the hidden one', run: () => 'a' });")
	home.write("scripts/b.lua", "ctx.command('deploy', { description = 'the shown one', run = function() return 'b' end })")
	s := opened(t, place{home: home.dir, rows: 80, cols: 160})
	s.WaitFor("[b.lua] warn: the command deploy is also in a.js:1; that of b.lua:1 is in force, since it comes later")
	home.write("scripts/a.js", "ctx.on('tools/pre-execute', { filter: { tool: 'bsh' } }, () => {});\nctx.command('deploy', { description: 'the hidden one', run: () => 'a' });")
	s.WaitFor(`[a.js] warn: line 1: the filter of tools/pre-execute names the tool "bsh", which there is not (did you mean "bash"?)`)
	s.WaitFor("also in a.js:2; that of b.lua:1 is in force")
	s.clear()
	s.enter("/help")
	s.WaitFor("the shown one (b.lua)")
	if strings.Contains(s.text(), "the hidden one") {
		t.Errorf("/help shows a command that is not in force:\n%s", s.text())
	}
	s.enter("/deploy")
	s.WaitFor("\nb\n")
	s.quit()
}
