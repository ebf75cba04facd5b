// Judges calls by what their arguments ask for.
async function judge(call, next) {
  const { n, p = {} } = call.arguments;
  const act = p[ME];
  if (act === 'none') return;
  await dawdle(n);
  switch (act) {
    case 'allow': return { kind: 'allow' };
    case 'deny': return { kind: 'deny', reason: `no ${n} by ${ME}` };
    case 'ask': return { kind: 'ask', reason: `ask ${n} by ${ME}` };
    case 'rewrite': return { kind: 'allow', arguments: { ...call.arguments, w: `${ME} ${n}` } };
    case 'rewrite-next': return next({ arguments: { ...call.arguments, w: `${ME} ${n}` } });
    case 'throw': throw new Error(`threw ${n} by ${ME}`);
    case 'bad': return { kind: 'perhaps', reason: n };
    case 'hang': return new Promise(() => {});
    case 'catch':
      try { own('next', JSON.stringify(await next()), n); } catch (e) { own('a throw', e.message, n); }
      return { kind: 'allow' };
    case 'loose': next().catch(() => {}); return { kind: 'allow' };
  }
  if (dice(10) === 0) meddle(call.agent);
  const inner = await next();
  own('next', inner.reason, n);
  own('next', JSON.stringify(inner.arguments ?? null), n);
  await dawdle(n);
  return inner;
}

ctx.on('tools/pre-execute', async (call, next) => {
  storm.mark(call.agent.id, call.turn);
  storm.heard(call.agent.id, call.callId, 'all');
  return typeof call.arguments === 'string' ? next() : judge(call, next);
});

ctx.on('approval/request', async ({ agent, turn, arguments: args, reason }, next) => {
  storm.mark(agent.id, turn);
  own('the reason', reason, args.n);
  await dawdle(args.n);
  const act = args.a?.[ME];
  if (act === 'deny') return { kind: 'deny', reason: `refused ${args.n} by ${ME}` };
  if (act === 'throw') throw new Error(`threw ${args.n} by ${ME}`);
  if (act === 'allow') return { kind: 'allow' };
  if (act === 'none') return;
  const inner = await next();
  own('the approval', inner.reason, args.n);
  return inner;
});

ctx.on('agent/created', ({ agent }) => {
  storm.once(`created ${agent.id}`);
  const { id } = agent;
  let seen = 0;
  agent.ctx.on('tools/pre-execute', { filter: { tool: '*' } }, async (call, next) => {
    if (call.agent.id !== id || call.agent !== agent) storm.fault(`a listener of ${id} hears ${call.agent.id}`);
    storm.heard(id, call.callId, 'scoped');
    if (++seen % 2) await same(`[${id}:0]`);
    return next();
  });
  agent.ctx.on('agent/pre-step', async (p, next) => {
    if (p.agent !== agent) storm.fault(`a listener of ${id} hears ${p.agent.id}`);
    await dawdle(`[${id}:0]`);
    return next();
  });
  agent.ctx.tool({
    name: 'own', description: 'Only for one agent.', parameters: { type: 'object', required: ['n'], properties: { n: { type: 'string' } } },
    async execute(args, exec) {
      storm.ran(id, exec.callId, JSON.stringify(args));
      if (exec.agent !== agent) storm.fault(`the tool of ${id} is called by ${exec.agent.id}`);
      await dawdle(args.n, false);
      return `own ${args.n} ${args.body === 'secret' ? 'SECRET' : ''}`;
    },
  });
});
