// Stands in every event of a turn.
ctx.on('agent/turn-starting', async ({ agent, turn, signal }) => {
  storm.mark(agent.id, turn);
  await dawdle(`[${agent.id}:1]`);
  if (signal.aborted && !signal.reason) storm.fault('aborted for no reason');
  if (dice(50) === 0) throw new Error(`refused <${agent.id}#${turn}>`);
  if (dice(12) === 0) meddle(agent);
});

ctx.on('agent/pre-step', async (p, next) => {
  storm.mark(p.agent.id, p.turn);
  const whole = JSON.stringify(p.messages);
  mine('pre-step', whole, p.agent.id);
  await dawdle(`[${p.agent.id}:2]`);
  if (JSON.stringify(p.messages) !== whole) storm.fault(`the messages of ${p.agent.id} changed`);
  if (dice(12) === 0) meddle(p.agent);
  switch (dice(60)) {
    case 0: return { kind: 'reject' };
    case 1: throw new Error(`no step <${p.agent.id}#${p.turn}>`);
    case 2: case 3: return { kind: 'enter', messages: [...p.messages, say(p.agent, 'added')] };
    case 4: case 5: return { kind: 'enter', messages: p.messages.map((m) => ({ id: m.id, content: `${text(m.content)} rewritten by ${ME}` })) };
    case 6: return { kind: 'enter', messages: [] };
    case 7: return;
    case 8: return { kind: 'enter' };
  }
  const inner = await next();
  mine('pre-step', JSON.stringify(inner), p.agent.id);
  return inner;
});

ctx.on('system-prompt/assemble', async (p, next) => {
  const a = await next();
  await dawdle(`[${p.agent.id}:3]`);
  if (dice(3) === 0) return a;
  return { ...a, sections: [...a.sections, { name: 'who', text: `this is <${p.agent.id}>` }] };
});

ctx.on('agent/request', async ({ agent, turn }, next) => {
  storm.mark(agent.id, turn);
  const cfg = await next();
  await dawdle(`[${agent.id}:4]`);
  return dice(2) ? cfg : { ...cfg, model: `m-${agent.id}`, temperature: dice(10) / 10 };
});

ctx.on('llm/stream', async ({ agent, request }, next) => {
  if (request.sessionId !== agent.id) storm.fault(`a request of ${request.sessionId} for ${agent.id}`);
  await dawdle(`[${agent.id}:5]`);
  switch (dice(20)) {
    case 0: return { text: say(agent, 'canned') };
    case 1: return { text: say(agent, 'canned'), toolCalls: [{ name: 'js', arguments: storm.plan(agent.id) }, { name: 'echo', arguments: storm.plan(agent.id) }] };
    case 2: return { text: say(agent, 'cut'), finish: 'max-tokens' };
  }
  return next();
});

ctx.on('agent/stream-chunk', ({ agent }) => { if (dice(200) === 0) meddle(agent); });

ctx.on('agent/step-result', async (p, next) => {
  storm.mark(p.agent.id, p.turn);
  mine('the reply', JSON.stringify(p.message), p.agent.id);
  await dawdle(`[${p.agent.id}:6]`);
  if (dice(8)) return next();
  const content = p.message.content.map((b) => (b.type === 'text' ? { ...b, text: `${b.text} seen by ${ME}` } : b));
  return { message: { ...p.message, content } };
});

ctx.on('agent/request-error', async ({ agent, turn, failure }) => {
  storm.mark(agent.id, turn);
  mine('the failure', failure.message, agent.id);
  await dawdle(`[${agent.id}:7]`);
  if (dice(2)) return { kind: 'retry', afterMs: dice(4) };
});

ctx.on('agent/turn-continuation', async ({ agent, turn }, next) => {
  storm.mark(agent.id, turn);
  await dawdle(`[${agent.id}:8]`);
  if (dice(10) === 0) return { kind: 'continue', messages: [say(agent, 'go on')] };
  return next();
});

ctx.on('agent/turn-stopping', async ({ agent, turn }) => {
  storm.mark(agent.id, turn);
  await dawdle(`[${agent.id}:9]`);
  if (dice(10) === 0) agent.steer(say(agent, 'not yet'));
});

ctx.on('agent/turn-aborting', async ({ agent, turn, cause }) => {
  storm.mark(agent.id, turn);
  if (cause.kind === 'hook' && cause.reason.includes('<') && !cause.reason.includes(`<${agent.id}>`)) storm.fault(`${agent.id} is cancelled by ${cause.reason}`);
  await dawdle(`[${agent.id}:10]`);
  if (dice(20) === 0) throw new Error(`aborting <${agent.id}#${turn}>`);
  if (dice(8) === 0) meddle(agent);
});
