-- Watches everything, and acts on what it sees.
ctx.on('session/event', function(e)
  local agent, event = e.agent, e.event
  if e.session.id ~= agent.id then storm.fault(('a record of %s for %s'):format(e.session.id, agent.id)) end
  if event.type == 'tool/call' then mine('the call', event.data.arguments, agent.id) end
  if event.type == 'user/message' then mine('the message', json.encode(event.data.content), agent.id) end
  if (event.type:match('^turn/') or event.type:match('^step/')) and dice(200) == 0 then
    error(('unheard <%s#%d>'):format(agent.id, event.data.turn))
  end
  if dice(60) == 0 then meddle(agent) end
  if dice(60) == 0 then meddle(other()) end
end)

ctx.on('agent/status', function(e)
  local agent = e.agent
  if dice(10) == 0 then meddle(agent) end
  if dice(20) == 0 then ctx.spawn(function() whenIdle(agent) end) end
end)

ctx.on('agent/inbox/inserted', function(e)
  mine('the message', json.encode(e.message.content), e.agent.id)
  if dice(30) == 0 then e.agent.inbox:remove(e.message.id) end
  if dice(30) == 0 then meddle(e.agent) end
end)
ctx.on('agent/inbox/claimed', function(e) if dice(30) == 0 then meddle(e.agent) end end)
ctx.on('agent/inbox/discarded', function(e) if dice(30) == 0 then meddle(e.agent) end end)

ctx.on('agent/created', function(e)
  local agent = e.agent
  storm.once('watched ' .. agent.id)
  if not e.replay and dice(20) == 0 then error('not this one') end
  agent.ctx.on('agent/status', function(x)
    if x.agent ~= agent then storm.fault(('a listener of %s hears %s'):format(agent.id, x.agent.id)) end
  end)
end)

ctx.on('agent/session-start', function(e)
  if not e.replay or dice(6) == 0 then e.agent:inject(say(e.agent, 'started')) end
  dawdle(('[%s:11]'):format(e.agent.id))
  if not e.replay and dice(4) == 0 then e.agent:followup(say(e.agent, 'at once')) end
  if dice(6) == 0 then whenIdle(e.agent) end
end)

ctx.on('agent/turn-start', function(e) if dice(30) == 0 then meddle(e.agent) end end)
ctx.on('agent/turn-end', function(e)
  for id, t in json.encode(e.reason):gmatch('<([%w._-]+)#(%d+)>') do
    if id ~= e.agent.id or tonumber(t) ~= e.turn then storm.fault(('turn %d of %s ends with %s#%s'):format(e.turn, e.agent.id, id, t)) end
  end
  if dice(15) == 0 then meddle(e.agent) end
  if dice(15) == 0 then meddle(other()) end
end)
ctx.on('agent/error', function(e) if dice(15) == 0 then meddle(e.agent) end end)
ctx.on('agent/disposed', function() if dice(4) == 0 then meddle(other()) end end)
ctx.on('session/disposed', function() end)
