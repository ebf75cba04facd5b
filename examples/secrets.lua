-- secrets.lua: no tool writes a .env file.
-- Put it into .dshsh/scripts and save: it is in force at the next turn.
ctx.on('tools/pre-execute', { filter = { tool = { 'write', 'edit' } } }, function(call, next)
  if tostring(call.arguments.path):match('%.env$') then
    return { kind = 'deny', reason = 'secrets stay as they are' }
  end
  return next()
end)
