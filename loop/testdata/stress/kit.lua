-- What every Lua script of the storm uses; it is put in front of each of them.
local storm = ctx.storm
local dice = storm.dice

local function text(content)
  local out = {}
  for _, b in ipairs(content) do out[#out + 1] = b.text or '' end
  return table.concat(out)
end
local function say(agent, what) return ('%s [%s:%d]'):format(what, agent.id, storm.serial()) end

-- own: what is said of one call speaks of that call only. mine: the same of an agent.
-- Why a script is in quarantine is about the call that brought it there.
local function own(what, s, n)
  if tostring(s):find('quarantined', 1, true) then return end
  for t in tostring(s):gmatch('%[[%w._-]+:%d+%]') do
    if t ~= n then storm.fault(('%s of %s speaks of %s'):format(what, n, t)) end
  end
end
local function mine(what, s, id)
  if tostring(s):find('quarantined', 1, true) then return end
  local start = '[' .. id .. ':'
  for t in tostring(s):gmatch('%[[%w._-]+:%d+%]') do
    if t:sub(1, #start) ~= start then storm.fault(('%s of %s speaks of %s'):format(what, id, t)) end
  end
end

local function same(n)
  local got = storm.later(n)
  if got ~= n then storm.fault(('%s got the answer of %s'):format(n, tostring(got))) end
end

-- One coroutine for all hooks: one that a hook is inside of refuses the others.
local function keeper()
  return coroutine.create(function(n)
    while true do
      ctx.sleep(1)
      n = coroutine.yield(n)
    end
  end)
end
local shared = keeper()

local function through(n)
  local co = shared
  local ok, got = coroutine.resume(co, n)
  if ok and got ~= n then storm.fault(('%s got the answer of %s from a coroutine'):format(n, tostring(got))) end
  if not ok and coroutine.status(co) == 'dead' then shared = keeper() end
end

-- dawdle waits in some way. Where a clock ends what does not come back it now and then
-- does not.
local function dawdle(n, noclock)
  if not storm.raging() then return end
  local way = dice(30)
  if way == 0 then ctx.sleep(1 + dice(3))
  elseif way == 1 then
    local ok, err = pcall(function() same(n) error({ n = n }) end)
    if ok then storm.fault('pcall holds nothing') end
    if type(err) == 'table' and err.n and err.n ~= n then storm.fault(('%s caught %s'):format(n, err.n)) end
  elseif way == 2 then
    local seen = ('abc'):gsub('%w', function(c) ctx.sleep(0) return c:upper() end)
    if seen ~= 'ABC' then storm.fault('gsub gave ' .. seen) end
  elseif way == 3 then
    local step = coroutine.wrap(function(a) same(a) local b = coroutine.yield(a) ctx.sleep(1) return b end)
    if step(n) ~= n or step(n .. '!') ~= n .. '!' then storm.fault(n .. ' lost its way in a coroutine') end
  elseif way == 4 then through(n)
  elseif way == 5 then
    local t = { 3, 1, 2 }
    table.sort(t, function(a, b) if dice(3) == 0 then ctx.sleep(0) end return a < b end)
    if t[1] ~= 1 or t[3] ~= 3 then storm.fault('sort lost its order') end
  elseif way == 6 then same(n)
  elseif way == 7 then xpcall(function() ctx.sleep(1) error(n) end, function(e) own('a throw', e, n) end)
  end
  if dice(1500) == 0 then while true do end end
  if dice(1500) == 0 then while true do pcall(function() while true do end end) end end
  if not noclock and dice(1500) == 0 then ctx.sleep(600000) end
end

local function other()
  local all = ctx.agents.list()
  return all[1 + dice(#all)]
end

local function whenIdle(agent)
  local ok, err = pcall(function()
    agent:when_idle()
    if agent.status ~= 'idle' then storm.fault(('whenIdle: %s is %s'):format(agent.id, agent.status)) end
  end)
  if not ok and not storm.expected(tostring(err)) then storm.fault('whenIdle: ' .. tostring(err)) end
end

-- meddle does something to an agent that a policy may do at any moment.
local meddle
local function meddling(agent)
  local way = dice(20)
  if way == 0 then agent:inject(say(agent, 'injected'))
  elseif way == 1 then agent:steer(say(agent, 'steered'))
  elseif way == 2 then agent:followup(say(agent, 'followed up'))
  elseif way == 3 then agent:send({ content = say(agent, 'sent') }, dice(2) == 0 and 'next-turn' or 'next-step', dice(2) == 0)
  elseif way == 4 and dice(3) == 0 then agent:cancel({ kind = 'hook', reason = ('%s <%s>'):format(ME, agent.id) }, { keepInbox = dice(2) == 0 })
  elseif way == 5 and dice(3) == 0 then agent:cancel() agent:followup(say(agent, 'instead'))
  elseif way == 6 then local o = other() ctx.agents.get(o.id):followup(say(o, 'from ' .. agent.id))
  elseif way == 7 then local m = agent.inbox.nextTurn[1] if m then agent.inbox:remove(m.id) end
  elseif way == 8 then local o = other() ctx.spawn(function() whenIdle(o) end)
  elseif way == 9 then ctx.after(dice(4), function() meddle(other()) end)
  elseif way == 10 then mine('the log', json.encode(agent.session:events(agent.session.seq - 2)), agent.id)
  elseif way == 11 then agent.inbox:clear()
  end
end
function meddle(agent)
  if not agent or not storm.raging() then return end
  local ok, err = pcall(meddling, agent)
  if not ok and not storm.expected(tostring(err)) then error(err, 0) end
end
