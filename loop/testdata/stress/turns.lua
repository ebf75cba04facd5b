-- Stands in every event of a turn.
local function at(agent, k) return ('[%s:%d]'):format(agent.id, k) end

ctx.on('agent/turn-starting', function(e)
  storm.mark(e.agent.id, e.turn)
  dawdle(at(e.agent, 1))
  if dice(50) == 0 then error(('refused <%s#%d>'):format(e.agent.id, e.turn)) end
  if dice(12) == 0 then meddle(e.agent) end
end)

ctx.on('agent/pre-step', function(p, next)
  storm.mark(p.agent.id, p.turn)
  mine('pre-step', json.encode(p.messages), p.agent.id)
  dawdle(at(p.agent, 2))
  if dice(12) == 0 then meddle(p.agent) end
  local act = dice(60)
  if act == 0 then return { kind = 'reject' }
  elseif act == 1 then error(('no step <%s#%d>'):format(p.agent.id, p.turn))
  elseif act == 2 or act == 3 then
    local all = {}
    for i, m in ipairs(p.messages) do all[i] = m end
    all[#all + 1] = say(p.agent, 'added')
    return { kind = 'enter', messages = all }
  elseif act == 4 or act == 5 then
    local all = {}
    for i, m in ipairs(p.messages) do all[i] = { id = m.id, content = ('%s rewritten by %s'):format(text(m.content), ME) } end
    return { kind = 'enter', messages = json.array(all) }
  elseif act == 6 then return { kind = 'enter', messages = json.array() }
  elseif act == 7 then return
  end
  local inner = next()
  mine('pre-step', json.encode(inner), p.agent.id)
  return inner
end)

ctx.on('system-prompt/assemble', function(p, next)
  local a = next()
  dawdle(at(p.agent, 3))
  if dice(3) == 0 then return a end
  local new = a:totable()
  new.contexts = json.array({ { name = 'who', text = ('context of <%s>'):format(p.agent.id) } })
  return new
end)

ctx.on('agent/request', function(e, next)
  storm.mark(e.agent.id, e.turn)
  local cfg = next()
  dawdle(at(e.agent, 4))
  if dice(2) == 0 then return cfg end
  local new = cfg:totable()
  new.model, new.maxTokens = 'm-' .. e.agent.id, 100 + dice(10)
  return new
end)

ctx.on('llm/stream', function(e, next)
  if e.request.sessionId ~= e.agent.id then storm.fault(('a request of %s for %s'):format(e.request.sessionId, e.agent.id)) end
  dawdle(at(e.agent, 5))
  local act = dice(20)
  if act == 0 then return { text = say(e.agent, 'canned') }
  elseif act == 1 then
    return { text = say(e.agent, 'canned'), toolCalls = { { name = 'lua', arguments = storm.plan(e.agent.id) }, { name = 'par', arguments = storm.plan(e.agent.id) } } }
  end
  return next()
end)

ctx.on('agent/stream-chunk', function(e) if dice(200) == 0 then meddle(e.agent) end end)

ctx.on('agent/step-result', function(p, next)
  storm.mark(p.agent.id, p.turn)
  mine('the reply', json.encode(p.message), p.agent.id)
  dawdle(at(p.agent, 6))
  if dice(8) > 0 then return next() end
  local new = p.message:totable()
  for _, b in ipairs(new.content) do
    if b.type == 'text' then b.text = ('%s seen by %s'):format(b.text, ME) end
  end
  return { message = new }
end)

ctx.on('agent/request-error', function(e)
  storm.mark(e.agent.id, e.turn)
  mine('the failure', e.failure.message, e.agent.id)
  dawdle(at(e.agent, 7))
  if dice(2) == 0 then return { kind = 'retry', afterMs = dice(4) } end
end)

ctx.on('agent/turn-continuation', function(e, next)
  storm.mark(e.agent.id, e.turn)
  dawdle(at(e.agent, 8))
  if dice(10) == 0 then return { kind = 'continue', messages = { say(e.agent, 'go on') } } end
  return next()
end)

ctx.on('agent/turn-stopping', function(e)
  storm.mark(e.agent.id, e.turn)
  dawdle(at(e.agent, 9))
  if dice(10) == 0 then e.agent:steer(say(e.agent, 'not yet')) end
end)

ctx.on('agent/turn-aborting', function(e)
  storm.mark(e.agent.id, e.turn)
  local by = e.cause.kind == 'hook' and e.cause.reason:match('<(.-)>')
  if by and by ~= e.agent.id then storm.fault(('%s is cancelled by %s'):format(e.agent.id, e.cause.reason)) end
  dawdle(at(e.agent, 10))
  if dice(20) == 0 then error(('aborting <%s#%d>'):format(e.agent.id, e.turn)) end
  if dice(8) == 0 then meddle(e.agent) end
end)
