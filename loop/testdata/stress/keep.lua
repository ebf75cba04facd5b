-- Keeps state, adds to the prompt, talks to the other scripts, asks, and owns the agent for
-- a moment: what scripts can do beside listening.
local function at(agent, k) return ('[%s:%d]'):format(agent.id, k) end

-- keep writes state that says whose it is, and looks whether it still does.
local function keep(agent, key)
  local s = agent.state
  if s.whose ~= nil and s.whose ~= agent.id then storm.fault(('the state of %s is that of %s'):format(agent.id, s.whose)) end
  s.whose = agent.id
  s[key] = (s[key] or 0) + 1
  if s[key] == nil or s[key] < 1 then storm.fault(('state.%s of %s is not what was written'):format(key, agent.id)) end
  if dice(20) == 0 then s[key] = nil end
  if dice(40) == 0 then s.big = { list = json.array { 1, {}, '2' }, of = at(agent, 40) } end
end

ctx.section('keeper', { text = function(x) return ('kept for <%s>'):format(x.agent.id) end, literal = true })
ctx.context('kept', { text = function(x) dawdle(at(x.agent, 41)) return ('state of <%s>: %s'):format(x.agent.id, tostring(x.agent.state.whose ~= nil)) end })

ctx.on('session/event', function(e)
  if e.event.type == 'step/end' or e.event.type == 'tool/call' then keep(e.agent, (e.event.type:gsub('/', '_'))) end
end)
ctx.on('agent/turn-start', function(e) keep(e.agent, 'turns') ctx.emit('my/turn', { id = e.agent.id, turn = e.turn, by = ME }) end)
ctx.on('my/turn', function(e) if dice(30) == 0 then ctx.emit('my/echo', { id = e.id, turn = e.turn, by = json.array { e.by, ME } }) end end)
ctx.on('my/echo', function(e) if #e.by ~= 2 or type(e.id) ~= 'string' then storm.fault('an event of scripts lost its payload') end end)

ctx.on('agent/turn-stopping', function(e)
  keep(e.agent, 'stops')
  if dice(4) == 0 then
    local ok, err = pcall(ctx.ui.confirm, ('go on, %s?'):format(at(e.agent, 42)))
    if ok then storm.fault('nobody has answered') elseif not storm.expected(tostring(err)) then error(err) end
  end
  local p = ctx.shell.parse(('env A=1 echo %s | xargs rm && (cd /; ls > out)'):format(e.agent.id))
  if #p.programs < 4 then storm.fault('parsed ' .. json.encode(p)) end
end)

ctx.on('agent/status', function(e)
  if e.status ~= 'idle' or dice(6) > 0 then return end
  ctx.spawn(function()
    local ok, got = pcall(function()
      return e.agent:run_maintenance(function() dawdle(at(e.agent, 43), false) keep(e.agent, 'maintained') return e.agent.id end)
    end)
    if ok and got ~= e.agent.id then storm.fault(('maintenance of %s gave %s'):format(e.agent.id, tostring(got)))
    elseif not ok and not storm.expected(tostring(got)) then storm.fault('maintenance: ' .. tostring(got)) end
  end)
end)

ctx.on('tools/pre-execute', function(call) dawdle(at(call.agent, 44)) keep(call.agent, 'calls') end)
