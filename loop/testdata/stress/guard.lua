-- Judges calls by what their arguments ask for.
local function judge(call, next)
  local args = call.arguments
  local n, act = args.n, args.p and args.p[ME]
  if act == 'none' then return end
  dawdle(n)
  local function rewritten()
    local new = args:totable()
    new.w = ME .. ' ' .. n
    return new
  end
  if act == 'allow' then return { kind = 'allow' }
  elseif act == 'deny' then return { kind = 'deny', reason = ('no %s by %s'):format(n, ME) }
  elseif act == 'ask' then return { kind = 'ask', reason = ('ask %s by %s'):format(n, ME) }
  elseif act == 'rewrite' then return { kind = 'allow', arguments = rewritten() }
  elseif act == 'rewrite-next' then return next({ arguments = rewritten() })
  elseif act == 'throw' then error(('threw %s by %s'):format(n, ME))
  elseif act == 'bad' then return { kind = 'perhaps', reason = n }
  elseif act == 'hang' then ctx.sleep(600000)
  elseif act == 'catch' then
    local ok, r = pcall(next)
    own(ok and 'next' or 'a throw', ok and json.encode(r) or tostring(r), n)
    return { kind = 'allow' }
  end
  if dice(10) == 0 then meddle(call.agent) end
  local inner = next()
  own('next', inner.reason, n)
  own('next', inner.arguments and json.encode(inner.arguments), n)
  dawdle(n)
  return inner
end

ctx.on('tools/pre-execute', function(call, next)
  storm.mark(call.agent.id, call.turn)
  storm.heard(call.agent.id, call.callId, 'all')
  if type(call.arguments) == 'string' then return next() end
  return judge(call, next)
end)

ctx.on('approval/request', function(e, next)
  storm.mark(e.agent.id, e.turn)
  local n, act = e.arguments.n, e.arguments.a and e.arguments.a[ME]
  own('the reason', e.reason, n)
  dawdle(n)
  if act == 'deny' then return { kind = 'deny', reason = ('refused %s by %s'):format(n, ME) }
  elseif act == 'throw' then error(('threw %s by %s'):format(n, ME))
  elseif act == 'allow' then return { kind = 'allow' }
  elseif act == 'none' then return
  end
  local inner = next()
  own('the approval', inner.reason, n)
  return inner
end)

ctx.on('agent/created', function(e)
  local agent, id = e.agent, e.agent.id
  storm.once('created ' .. id)
  local seen = 0
  agent.ctx.on('tools/pre-execute', { filter = { agent = id } }, function(call, next)
    if call.agent.id ~= id or call.agent ~= agent then storm.fault(('a listener of %s hears %s'):format(id, call.agent.id)) end
    storm.heard(id, call.callId, 'scoped')
    seen = seen + 1
    if seen % 2 == 0 then same(('[%s:0]'):format(id)) end
    return next()
  end)
  agent.ctx.on('agent/pre-step', function(p, next)
    if p.agent ~= agent then storm.fault(('a listener of %s hears %s'):format(id, p.agent.id)) end
    dawdle(('[%s:0]'):format(id))
    return next()
  end)
end)
