// What every JavaScript of the storm uses; it is put in front of each of them.
const { storm } = ctx;
const dice = (n) => storm.dice(n);
const text = (content) => content.map((b) => b.text ?? '').join('');
const say = (agent, what) => `${what} [${agent.id}:${storm.serial()}]`;
const tokens = (s) => String(s).match(/\[[\w.-]+:\d+\]/g) ?? [];

// own: what is said of one call speaks of that call only. mine: the same of an agent.
// Why a script is in quarantine is about the call that brought it there.
function own(what, s, n) {
  if (String(s).includes('quarantined')) return;
  for (const t of tokens(s)) if (t !== n) storm.fault(`${what} of ${n} speaks of ${t}`);
}
function mine(what, s, id) {
  if (String(s).includes('quarantined')) return;
  for (const t of tokens(s)) if (!t.startsWith(`[${id}:`)) storm.fault(`${what} of ${id} speaks of ${t}`);
}

async function same(n) {
  const got = await storm.later(n);
  if (got !== n) storm.fault(`${n} got the answer of ${got}`);
}

// dawdle waits in some way. Where a clock ends what does not come back it now and then
// does not.
async function dawdle(n, clock = true) {
  if (!storm.raging()) return;
  switch (dice(30)) {
    case 0: await ctx.sleep(1 + dice(3)); break;
    case 1: await Promise.all([ctx.sleep(1), same(n), same(n), null]); break;
    case 2: await new Promise((done) => setTimeout(done, 1)); break;
    case 3: await null; break;
    case 4: for (let i = 0; i < 3; i++) await ctx.sleep(0); break;
    case 5: await Promise.race([ctx.sleep(1), ctx.sleep(3)]); break;
    case 6: await same(n); break;
    case 7: await Promise.allSettled([same(n), Promise.reject(new Error('settled'))]); break;
  }
  if (dice(1500) === 0) for (;;);
  if (dice(1500) === 0) { const deep = () => deep() + 1; deep(); }
  if (clock && dice(1500) === 0) await new Promise(() => {});
}

function other() {
  const all = ctx.agents.list();
  return all[dice(all.length)];
}

async function whenIdle(agent) {
  try {
    await agent.whenIdle();
    if (agent.status !== 'idle') storm.fault(`whenIdle: ${agent.id} is ${agent.status}`);
  } catch (e) {
    if (!storm.expected(e.message)) storm.fault(`whenIdle: ${e.message}`);
  }
}

// meddle does something to an agent that a policy may do at any moment.
function meddle(agent) {
  if (!agent || !storm.raging()) return;
  try {
    switch (dice(20)) {
      case 0: agent.inject(say(agent, 'injected')); break;
      case 1: agent.steer(say(agent, 'steered')); break;
      case 2: agent.followup(say(agent, 'followed up')); break;
      case 3: agent.send({ content: say(agent, 'sent') }, dice(2) ? 'next-turn' : 'next-step', dice(2) === 0); break;
      case 4: if (dice(3) === 0) agent.cancel({ kind: 'hook', reason: `${ME} <${agent.id}>` }, { keepInbox: dice(2) === 0 }); break;
      case 5: if (dice(3) === 0) agent.cancel(); agent.followup(say(agent, 'instead')); break;
      case 6: { const o = other(); ctx.agents.get(o.id)?.followup(say(o, `from ${agent.id}`)); break; }
      case 7: { const m = agent.inbox.nextTurn[0]; if (m) agent.inbox.remove(m.id); break; }
      case 8: { const o = other(); ctx.spawn(() => whenIdle(o)); break; }
      case 9: ctx.after(dice(4), () => meddle(other())); break;
      case 10: mine('the log', JSON.stringify(agent.session.messages().slice(-2)), agent.id); break;
      case 11: agent.inbox.clear(); break;
    }
  } catch (e) {
    if (!storm.expected(e.message)) throw e;
  }
}
