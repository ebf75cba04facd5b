// Keeps state, adds to the prompt, talks to the other scripts, asks, and owns the agent for
// a moment: what scripts can do beside listening.
const at = (agent, k) => `[${agent.id}:${k}]`;

// keep writes state that says whose it is, and looks whether it still does.
function keep(agent, key) {
  const s = agent.state;
  if (s.whose !== undefined && s.whose !== agent.id) storm.fault(`the state of ${agent.id} is that of ${s.whose}`);
  s.whose = agent.id;
  s[key] = (s[key] ?? 0) + 1;
  if (!(key in s) || s[key] < 1) storm.fault(`state.${key} of ${agent.id} is not what was written`);
  if (dice(20) === 0) delete s[key];
  if (dice(40) === 0) s.big = { list: [1, {}, [], '2'], of: at(agent, 30) };
}

ctx.section('keeper', { text: ({ agent }) => `kept for <${agent.id}>`, literal: true });
ctx.context('kept', { text: async ({ agent }) => { await dawdle(at(agent, 31)); return `state of <${agent.id}>: ${Object.keys(agent.state).length > 0}`; } });

ctx.on('session/event', ({ agent, event }) => { if (event.type === 'step/end' || event.type === 'tool/call') keep(agent, event.type.replace('/', '_')); });
ctx.on('agent/turn-start', ({ agent, turn }) => { keep(agent, 'turns'); ctx.emit('my/turn', { id: agent.id, turn, by: ME }); });
ctx.on('my/turn', ({ id, turn, by }) => { if (dice(30) === 0) ctx.emit('my/echo', { id, turn, by: [by, ME] }); });
ctx.on('my/echo', ({ id, by }) => { if (by.length !== 2 || typeof id !== 'string') storm.fault('an event of scripts lost its payload'); });

ctx.on('agent/turn-stopping', async ({ agent }) => {
  keep(agent, 'stops');
  if (dice(4) === 0) {
    try { await ctx.ui.confirm(`go on, ${at(agent, 32)}?`); storm.fault('nobody has answered'); } catch (e) { if (!storm.expected(e.message)) throw e; }
  }
  const p = ctx.shell.parse(`env A=1 echo ${agent.id} | xargs rm && (cd /; ls > out)`);
  if (p.programs.map((x) => x.name).join() !== 'env,echo,xargs,rm,cd,ls' && p.programs.length < 4) storm.fault(`parsed ${JSON.stringify(p)}`);
});

ctx.on('agent/status', ({ agent, status }) => {
  if (status !== 'idle' || dice(6) > 0) return;
  ctx.spawn(async () => {
    try {
      const got = await agent.runMaintenance(async () => { await dawdle(at(agent, 33), false); keep(agent, 'maintained'); return agent.id; });
      if (got !== agent.id) storm.fault(`maintenance of ${agent.id} gave ${got}`);
    } catch (e) {
      if (!storm.expected(e.message)) storm.fault(`maintenance: ${e.message}`);
    }
  });
});

ctx.on('tools/pre-execute', async (call) => { await dawdle(at(call.agent, 34)); keep(call.agent, 'calls'); });
