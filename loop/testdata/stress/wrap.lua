-- Wraps bodies, changes results, and offers tools and commands of its own.
ctx.on('tools/execute', function(call, next)
  storm.mark(call.agent.id, call.turn)
  if type(call.arguments) == 'string' then return next() end -- the model's text was no JSON
  local n, act = call.arguments.n, call.arguments.x and call.arguments.x[ME]
  if act == 'none' then return end
  dawdle(n)
  if act == 'short' then return ('short %s by %s'):format(n, ME)
  elseif act == 'throw' then error(('threw %s by %s'):format(n, ME))
  end
  local r = next()
  own('the result', text(r.content), n)
  if dice(10) == 0 then meddle(call.agent) end
  dawdle(n)
  if act == 'wrap' then return { content = ('wrapped %s by %s(%s)'):format(n, ME, text(r.content)), isError = r.isError } end
  return r
end)

ctx.on('tools/post-execute', function(e, next)
  storm.mark(e.agent.id, e.turn)
  if type(e.arguments) == 'string' then return end
  local n, act = e.arguments.n, e.arguments.q and e.arguments.q[ME]
  own('the result', text(e.result.content), n)
  if act == 'none' then return end
  dawdle(n)
  local clean = text(e.result.content):gsub('SECRET', '[cut]')
  if act == 'replace' then return { kind = 'accept', content = ('post %s by %s: %s'):format(n, ME, clean) }
  elseif act == 'block' then return { kind = 'block', feedback = ('blocked %s by %s'):format(n, ME) }
  elseif act == 'context' then return { kind = 'accept', content = clean, additionalContexts = { 'context ' .. n, { content = 'more ' .. n } } }
  elseif act == 'throw' then error(('threw %s by %s'):format(n, ME))
  end
  local inner = next()
  own('the decision', json.encode(inner), n)
  return inner
end)

ctx.on('tools/result', function(e)
  if type(e.arguments) ~= 'string' then own('the outcome', text(e.result.content), e.arguments.n) end
  if pcall(ctx.sleep, 1) then storm.fault('an emit waits') end
  local agent = e.agent
  if dice(15) == 0 then ctx.spawn(function() ctx.sleep(1) meddle(agent) end) end
  if dice(15) == 0 then meddle(agent) end
end)

ctx.tool({
  name = 'lua', description = 'A tool of Lua.', parameters = { type = 'object', required = { 'n' }, properties = { n = { type = 'string' } } },
  concurrencySafe = function(args) return args.safe == true end, timeoutMs = 400,
  execute = function(args, exec)
    storm.ran(exec.agent.id, exec.callId, json.encode(args))
    dawdle(args.n)
    local body = args.body
    if body == 'fail' then error('failed ' .. args.n)
    elseif body == 'defer' then exec:defer_context('deferred ' .. args.n)
    elseif body == 'conclude' then exec:conclude_turn()
    elseif body == 'slow' then ctx.sleep(5 + dice(20))
    elseif body == 'idle' then whenIdle(other())
    end
    exec.signal:throw_if_aborted()
    return { content = ('lua %s %s'):format(args.n, body == 'secret' and 'SECRET' or ''), value = { n = args.n } }
  end,
})

ctx.command('lua', { description = 'Says what it was given.', run = function(args, x)
  dawdle(args, true)
  if x.agent and dice(4) == 0 then meddle(x.agent) end
  return 'said ' .. args
end })

ctx.effect(function()
  storm.tally('effect', 1)
  return function() storm.tally('effect', -1) end
end)
ctx.spawn(function()
  storm.live('spawn')
  while true do
    ctx.sleep(4 + dice(9))
    storm.live('sleep')
    local o = other()
    if o and dice(3) == 0 then whenIdle(o) end
  end
end)
local function tick()
  storm.live('timer')
  if dice(6) == 0 then meddle(other()) end
  ctx.after(9, tick)
end
ctx.after(1, tick)
