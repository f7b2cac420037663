--[[ sweep: keep the waiting room honest, whatever gate or pause says.
KEYS[1]  <namespace>:{<dependency>}
ARGV     live           ' kind kind ' that some live worker knows
         min_response   ms
         gate; keep_succeeded, keep_cancelled (ms)
         expect         Redis' clock in ms, as the caller expects it to be
RETURNS  more (1: ask at once), then 'ended' pairs
         'stepped' alone when Redis' clock is not where the caller expects it: nothing was decided
LIMIT    100 per step
INVARIANT what was asked about long enough, or what nobody can ask about for an hour, needs a person; what cannot make its deadline ends without a token; a keyed operation with an unknown outcome leaves
         waiting when its key's window is over; a release that nobody began returns; nothing else changes
]]
local LIMIT = 100
if stepped() then return {'stepped'} end
local now = clock()
local g = gate.load(now)
local more = ''
local function batch(index, upto)
  record.flush()
  local ids = redis.call('ZRANGEBYSCORE', P .. index, '-inf', upto, 'LIMIT', 0, LIMIT)
  if #ids == LIMIT then more = '1' end
  return ids
end

local due = redis.call('ZRANGEBYSCORE', P .. 'waiting', '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, LIMIT)
if #due == 2 * LIMIT then more = '1' end
for i = 1, #due, 2 do record.enlane(due[i], gate.deferred(g, num(due[i + 1]))) end

for _, lane in ipairs({'first', 'retry'}) do
  local index = 'released:' .. lane
  for _, id in ipairs(batch(index, int(now))) do
    local op = record.load(id)
    if not op then
      record.forget(index, id)
    elseif op.f.state ~= 'released' then
      redis.call('ZREM', P .. index, id)
    else
      record.move(op, 'waiting', now, now)
      record.save(op)
    end
  end
end

for _, index in ipairs({'due:first', 'due:retry', 'aside'}) do
  for _, id in ipairs(batch(index, '(' .. int(now + arg('min_response')))) do
    local op = record.load(id)
    if not op then
      record.forget(index, id)
    elseif op.f.state ~= 'waiting' then
      redis.call('ZREM', P .. index, id)
    elseif now + arg('min_response') > num(op.f.deadline) then
      settle.leave(op, 'dead', 'deadline', now)
      record.save(op)
    elseif settle.stuck(op, now) then
      settle.leave(op, 'waiting', nil, now)
      record.save(op)
    end -- else its key's window is over in a moment
  end
  -- The heads of the lane: a kind that no live worker knows for an hour needs a person.
  record.flush()
  for _, id in ipairs(redis.call('ZRANGE', P .. index, 0, 19)) do
    local live = string.find(A.live or '', ' ' .. string.match(id, '^[^/]*') .. ' ', 1, true)
    if not live or redis.call('HEXISTS', P .. 'op:' .. id, 'orphan') == 1 then
      local op = record.load(id)
      if op and op.f.state == 'waiting' then
        if live then
          record.set(op, 'orphan', nil)
        elseif not op.f.orphan then
          record.set(op, 'orphan', int(now))
        elseif now - num(op.f.orphan) >= 3600000 then
          settle.leave(op, 'dead', 'undeliverable', now)
        end
        record.save(op)
      end
    end
  end
end

-- Those whose credential goes on again, some in each call, all in turn.
if g.aside then
  record.flush()
  local skip = num(redis.call('HGET', P .. 'gate', 'aside_skip'))
  local ids = redis.call('ZRANGE', P .. 'aside', int(skip), int(skip + LIMIT - 1))
  local stay = 0
  for _, id in ipairs(ids) do
    local op = record.load(id)
    if not op then
      record.forget('aside', id)
    elseif op.f.state ~= 'waiting' then
      redis.call('ZREM', P .. 'aside', id)
    elseif redis.call('HEXISTS', P .. 'credentials', op.f.cred or 'default') == 1 then
      stay = stay + 1
    else
      record.move(op, 'waiting', now, now)
      record.save(op)
    end
  end
  if #ids == LIMIT and stay < LIMIT then more = '1' end
  redis.call('HSET', P .. 'gate', 'aside_skip', #ids == LIMIT and int(skip + stay) or '0')
  if #ids == 0 and skip == 0 and redis.call('EXISTS', P .. 'credentials') == 0 then
    g.aside = false
    gate.save()
  end
end

for _, id in ipairs(batch('giveup', int(now))) do
  local op = record.load(id)
  if not op then
    record.forget('giveup', id)
    record.forget('unresolved', id)
  elseif op.f.state ~= 'unresolved' then
    redis.call('ZREM', P .. 'giveup', id)
  else
    settle.give_up(op, now)
    record.save(op)
  end
end

-- Kinds whose inquiry no live configuration has for an hour: nobody asks any more. Some
-- of the unresolved are looked at in each call, all in turn.
local kinds = redis.call('HGETALL', P .. 'kinds')
for i = 1, #kinds, 2 do
  if now - num(string.match(kinds[i + 1], '%d+$')) > 3600000 then redis.call('HDEL', P .. 'kinds', kinds[i]) end
end
record.flush()
local skip = num(redis.call('HGET', P .. 'gate', 'unresolved_skip'))
local look = redis.call('ZRANGE', P .. 'unresolved', int(skip), int(skip + 19))
for _, id in ipairs(look) do
  if not ask.known({kind = string.match(id, '^[^/]*')}) then
    local op = record.load(id)
    if not op then
      record.forget('unresolved', id)
    elseif op.f.state == 'unresolved' then
      record.move(op, 'dead', now, nil, 'unsafe')
      record.save(op)
    end
  end
end
if #look > 0 or skip > 0 then redis.call('HSET', P .. 'gate', 'unresolved_skip', #look == 20 and int(skip + 20) or '0') end

redis.call('HSET', P .. 'gate', 'last_now', int(now))
return answer({more})
