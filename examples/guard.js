// guard.js: files may be removed only after a question.
// Put it into .dshsh/scripts and save: it is in force at the next turn.
ctx.on('tools/pre-execute', { filter: { tool: 'bash' } }, async (call, next) => {
  if (/\brm\b/.test(call.arguments.command)) return { kind: 'ask', reason: 'removes files' };
  return next();
});
