package loop_test

import (
	"strings"
	"testing"

	"dshsh/loop"
	"dshsh/loop/model/modeltest"
)

// The whole handle, in both languages.
func TestHandleHasWhatIsPromised(t *testing.T) {
	const names = "id options session inbox status state ctx followup steer inject send cancel whenIdle runMaintenance dispose"
	const inbox = "nextTurn nextStep hasPending append prepend replace remove splice clear"
	const ctxNames = "on tool command section context emit effect log now sleep after spawn agents ui"
	const ui = "confirm select input notify"
	const agents = "list get current create"
	inBoth(t, `ctx.command('look', { description: '', run: (names, { agent }) => {
  const [which, ...rest] = names.split(' ');
  const o = { agent, inbox: agent.inbox, ctx, ui: ctx.ui, agents: ctx.agents }[which];
  return rest.filter((n) => o[n] === undefined).join(' ') + (agent.inbox === agent.inbox ? '' : ' another');
} });`, `ctx.command('look', { description = '', run = function(names, c)
  local o, missing
  for n in names:gmatch('%S+') do
    if not o then
      missing = {}
      o = ({ agent = c.agent, inbox = c.agent.inbox, ctx = ctx, ui = ctx.ui, agents = ctx.agents })[n]
    elseif o[n] == nil then missing[#missing + 1] = n end
  end
  return table.concat(missing, ' ') .. (c.agent.inbox == c.agent.inbox and '' or ' another')
end })`, func(t *testing.T, file, code string) {
		w := newWorld(t, always("ok"), withEngines)
		w.script(file, code)
		w.create()
		for _, list := range []string{"agent " + names, "inbox " + inbox, "ctx " + ctxNames, "ui " + ui, "agents " + agents} {
			if out, err := w.command("look", list); err != nil || out != "" {
				t.Errorf("%s: missing %q, %v", list, out, err)
			}
		}
	})
}

func TestScriptMaintenance(t *testing.T) {
	inBoth(t, `
ctx.command('work', { description: '', run: async (args, { agent }) => {
  const out = await agent.runMaintenance(async (signal) => {
    ctx.log(agent.status + ' ' + signal.aborted);
    agent.followup('meanwhile');
    await ctx.sleep(5);
    try { await agent.runMaintenance(() => 1); } catch (e) { ctx.log(e.message.replace(/"[^"]*"/, 'X')); }
    try { await agent.whenIdle(); } catch (e) { ctx.log(e.message.replace(/agent \S+/, 'X')); }
    if (args === 'wait') { signal.onabort(() => ctx.log('aborted ' + signal.reason.kind)); await ctx.sleep(60000); }
    if (args === 'fail') throw new Error('no work');
    return { done: args };
  });
  return out;
} });`, `
ctx.command('work', { description = '', run = function(args, c)
  local agent = c.agent
  return agent:runMaintenance(function(signal)
    ctx.log(agent.status .. ' ' .. tostring(signal.aborted))
    agent:followup('meanwhile')
    ctx.sleep(5)
    local _, e = pcall(function() agent:run_maintenance(function() return 1 end) end)
    ctx.log((e.message:gsub('"[^"]*"', 'X')))
    _, e = pcall(function() agent:whenIdle() end)
    ctx.log((e.message:gsub('agent %S+', 'X')))
    if args == 'wait' then signal:onabort(function() ctx.log('aborted ' .. signal.reason.kind) end) ctx.sleep(60000) end
    if args == 'fail' then error('no work') end
    return { done = args }
  end)
end })`, func(t *testing.T, file, code string) {
		w := newWorld(t, always("ok"), withEngines)
		w.script(file, code)
		w.create()
		out, err := w.command("work", "x")
		if err != nil || out != `{"done":"x"}` {
			t.Error(out, err)
		}
		w.wait() // the prompt that was sent meanwhile is taken up now
		const said = "idle false\nagent X already has active work\nthis would wait for ever: X is waiting for this listener"
		w.check(strings.Join(w.notes.logged, "\n"), said)
		if !strings.Contains(w.turns(), "turn/end 1 completed") {
			t.Error(w.turns())
		}
		if _, err := w.command("work", "fail"); err == nil || !strings.Contains(err.Error(), "no work") {
			t.Error(err)
		}
		w.wait()
		w.notes.logged = nil
		ended := make(chan error, 1)
		go func() {
			_, err := w.command("work", "wait")
			ended <- err
		}()
		w.until("at work", func() bool { w.poke(); return len(w.notes.logged) == 3 })
		w.a.Cancel(loop.Cause{Kind: loop.CauseUser}, loop.CancelOptions{})
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "cancelled by user") {
			t.Error(err)
		}
		w.wait()
		w.check(strings.Join(w.notes.logged, "\n"), said+"\naborted user")
	})
}

func TestScriptsEditTheInbox(t *testing.T) {
	inBoth(t, `
ctx.command('edit', { description: '', run: (args, { agent }) => {
  const b = agent.inbox, list = () => b.nextTurn.map((m) => m.content[0].text + '/' + m.source.kind).join(' ');
  b.append('next-turn', 'b'); b.prepend('next-turn', { content: 'a' });
  const out = [list()];
  const [a, user, last] = b.nextTurn;
  out.push(b.replace(last.id, 'c'), b.replace('nobody', 'x'), list());
  const gone = b.splice('next-turn', 0, 2, [user, 'd']);
  out.push(gone.map((m) => m.content[0].text).join(), list(), b.splice('next-turn', -1, 1).length, b.splice('next-step', 0).length, list());
  b.remove(user.id); b.append('next-step', user);
  out.push(b.nextStep[0].source.kind);
  for (const f of [() => b.append('nowhere', 'x'), () => b.append('next-turn', 5), () => b.splice('next-turn', 0, 0, [user])]) try { f(); out.push('fine'); } catch (e) { out.push(e.message.replace(/"m[0-9.]+"/, 'M')); }
  return out.join('\n');
} });`, `
ctx.command('edit', { description = '', run = function(args, c)
  local b = c.agent.inbox
  local function list()
    local t = {}
    for i, m in ipairs(b.nextTurn) do t[i] = m.content[1].text .. '/' .. m.source.kind end
    return table.concat(t, ' ')
  end
  b:append('next-turn', 'b')
  b:prepend('next-turn', { content = 'a' })
  local out = { list() }
  local function push(...) for _, v in ipairs { ... } do out[#out + 1] = tostring(v) end end
  local user, last = b.nextTurn[2], b.nextTurn[3]
  push(b:replace(last.id, 'c'), b:replace('nobody', 'x'), list())
  local gone = b:splice('next-turn', 0, 2, { user, 'd' })
  push(gone[1].content[1].text .. ',' .. gone[2].content[1].text, list(), #b:splice('next-turn', -1, 1), #b:splice('next-step', 0), list())
  b:remove(user.id)
  b:append('next-step', user)
  push(b.nextStep[1].source.kind)
  for _, f in ipairs { function() b:append('nowhere', 'x') end, function() b:append('next-turn', 5) end, function() b:splice('next-turn', 0, 0, { user }) end } do
    local ok, e = pcall(f)
    push(ok and 'fine' or (e.message:gsub('"m[0-9.]+"', 'M')))
  end
  return table.concat(out, '\n')
end })`, func(t *testing.T, file, code string) {
		w := newWorld(t, modeltest.New(modeltest.Hang("partial")).Otherwise(modeltest.Text("ok")), withEngines)
		w.script(file, code)
		w.create()
		w.do(func() { _ = w.a.Inbox().Append(loop.NextTurn, loop.UserMessage("mine")) })
		out, err := w.command("edit", "")
		if err != nil {
			t.Fatal(err)
		}
		w.check(out, `a/plugin mine/user b/plugin
true
false
a/plugin mine/user c/plugin
a,mine
mine/user d/plugin c/plugin
1
0
mine/user d/plugin
plugin
unknown inbox "nowhere", want next-turn or next-step
inbox.append: for parameter message: got number, want object
message M is already pending`)
	})
}
