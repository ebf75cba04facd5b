// Wraps bodies, changes results, and offers tools and commands of its own.
ctx.on('tools/execute', async (call, next) => {
  storm.mark(call.agent.id, call.turn);
  const { n, x = {} } = call.arguments;
  if (!n) return next(); // the model's text was no JSON
  const act = x[ME];
  if (act === 'none') return;
  await dawdle(n);
  switch (act) {
    case 'short': return `short ${n} by ${ME}`;
    case 'throw': throw new Error(`threw ${n} by ${ME}`);
  }
  const r = await next();
  own('the result', text(r.content), n);
  if (dice(10) === 0) meddle(call.agent);
  await dawdle(n);
  if (act === 'wrap') return { content: `wrapped ${n} by ${ME}(${text(r.content)})`, isError: r.isError };
  return r;
});

ctx.on('tools/post-execute', async ({ agent, turn, arguments: args, result }, next) => {
  storm.mark(agent.id, turn);
  const n = args.n, act = args.q?.[ME];
  if (!n) return;
  own('the result', text(result.content), n);
  if (act === 'none') return;
  await dawdle(n);
  const clean = text(result.content).replaceAll('SECRET', '[cut]');
  switch (act) {
    case 'replace': return { kind: 'accept', content: `post ${n} by ${ME}: ${clean}` };
    case 'block': return { kind: 'block', feedback: `blocked ${n} by ${ME}` };
    case 'context': return { kind: 'accept', content: clean, additionalContexts: [`context ${n}`, { content: [{ type: 'text', text: `more ${n}` }] }] };
    case 'throw': throw new Error(`threw ${n} by ${ME}`);
  }
  const inner = await next();
  own('the decision', JSON.stringify(inner), n);
  return inner;
});

ctx.on('tools/result', async ({ agent, arguments: args, result }) => {
  if (args.n) own('the outcome', text(result.content), args.n);
  if (dice(15) === 0) meddle(agent);
  await null;
  if (dice(15) === 0) meddle(agent);
});

ctx.tool({
  name: 'js', description: 'A tool of JavaScript.', parameters: { type: 'object', required: ['n'], properties: { n: { type: 'string' } } },
  concurrencySafe: (args) => args.safe === true, timeoutMs: 400,
  async execute(args, exec) {
    storm.ran(exec.agent.id, exec.callId, JSON.stringify(args));
    await dawdle(args.n);
    switch (args.body) {
      case 'fail': throw new Error(`failed ${args.n}`);
      case 'defer': exec.deferContext(`deferred ${args.n}`); break;
      case 'conclude': exec.concludeTurn(); break;
      case 'slow': await ctx.sleep(5 + dice(20)); break;
      case 'idle': await whenIdle(other()); break;
    }
    exec.signal.throwIfAborted();
    return { content: `js ${args.n} ${args.body === 'secret' ? 'SECRET' : ''}`, value: { n: args.n } };
  },
});

ctx.command('js', { description: 'Says what it was given.', async run(args, { agent }) {
  await dawdle(args, false);
  if (agent && dice(4) === 0) meddle(agent);
  return `said ${args}`;
} });

ctx.effect(() => { storm.tally('effect', 1); return () => storm.tally('effect', -1); });
setInterval(() => { storm.live('interval'); if (dice(6) === 0) meddle(other()); }, 9);
ctx.spawn(async () => {
  storm.live('spawn');
  for (;;) {
    await ctx.sleep(4 + dice(9));
    storm.live('sleep');
    const o = other();
    if (o && dice(3) === 0) await whenIdle(o);
  }
});
