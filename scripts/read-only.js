// read-only: the agent may look, and change nothing.
// Reading stays what the default policy makes of it; everything else is denied.
const reads = new Set(['read', 'ls', 'glob', 'grep', 'todo']);

ctx.on('tools/pre-execute', ({ name }) => {
  if (!reads.has(name)) return { kind: 'deny', reason: 'this session is read-only' };
});
