// Watches everything, and acts on what it sees.
ctx.on('session/event', ({ session, event, agent }) => {
  if (session.id !== agent.id) storm.fault(`a record of ${session.id} for ${agent.id}`);
  if (event.type === 'tool/call') mine('the call', event.data.arguments, agent.id);
  if (event.type === 'user/message') mine('the message', JSON.stringify(event.data.content), agent.id);
  if (/^(turn|step)\//.test(event.type) && dice(200) === 0) throw new Error(`unheard <${agent.id}#${event.data.turn}>`);
  if (dice(60) === 0) meddle(agent);
  if (dice(60) === 0) meddle(other());
  // Steers at each end of a step: a cap must end the turn.
  if (event.type === 'step/end' && storm.restless(agent.id)) agent.steer(say(agent, 'restless'));
});

ctx.on('agent/status', async ({ agent, status }) => {
  if (dice(10) === 0) meddle(agent);
  // Sends whenever it is idle: a cap must end that.
  if (status === 'idle' && storm.restless(agent.id)) agent.followup(say(agent, 'again'));
  await ctx.sleep(dice(3));
  if (dice(20) === 0) await whenIdle(agent);
});

ctx.on('agent/inbox/inserted', ({ agent, message }) => {
  mine('the message', JSON.stringify(message.content), agent.id);
  if (dice(30) === 0) agent.inbox.remove(message.id);
  if (dice(30) === 0) meddle(agent);
});
ctx.on('agent/inbox/claimed', ({ agent }) => { if (dice(30) === 0) meddle(agent); });
ctx.on('agent/inbox/discarded', ({ agent }) => { if (dice(30) === 0) meddle(agent); });

ctx.on('agent/created', ({ agent, replay }) => {
  storm.once(`watched ${agent.id}`);
  if (!replay && dice(20) === 0) throw new Error('not this one');
  agent.ctx.on('agent/status', (e) => { if (e.agent !== agent) storm.fault(`a listener of ${agent.id} hears ${e.agent.id}`); });
  agent.ctx.command('whoami', { description: 'Says whose it is.', run: (args, x) => `${agent.id} ${x.agent === agent}` });
});

ctx.on('agent/session-start', async ({ agent, replay }) => {
  if (!replay || dice(6) === 0) agent.inject(say(agent, 'started'));
  await dawdle(`[${agent.id}:11]`);
  if (!replay && dice(4) === 0) agent.followup(say(agent, 'at once'));
  if (dice(6) === 0) await whenIdle(agent);
});

ctx.on('agent/turn-start', ({ agent }) => { if (dice(30) === 0) meddle(agent); });
ctx.on('agent/turn-end', ({ agent, turn, reason }) => {
  for (const [, id, t] of JSON.stringify(reason).matchAll(/<([\w.-]+)#(\d+)>/g)) {
    if (id !== agent.id || +t !== turn) storm.fault(`turn ${turn} of ${agent.id} ends with ${id}#${t}`);
  }
  if (dice(15) === 0) meddle(agent);
  if (dice(15) === 0) meddle(other());
});
ctx.on('agent/error', ({ agent }) => { if (dice(15) === 0) meddle(agent); });
ctx.on('agent/disposed', () => { if (dice(4) === 0) meddle(other()); });
ctx.on('session/disposed', () => {});
