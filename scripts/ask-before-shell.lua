-- ask-before-shell: every command is asked about, also those that another policy allows.
ctx.on('tools/pre-execute', { filter = { tool = 'bash' } }, function(call)
  return { kind = 'ask', reason = 'runs: ' .. tostring(call.arguments.command) }
end)
