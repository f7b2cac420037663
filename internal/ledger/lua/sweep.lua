--[[ sweep: keep the waiting room honest, whatever gate or pause says.
KEYS[1]  <namespace>:{<dependency>}
ARGV     live           ' kind kind ' that some live worker knows
         min_response   ms
         keep_succeeded, keep_cancelled (ms)
RETURNS  more (1: ask at once), then 'ended' pairs
LIMIT    100 per step, three steps for both lanes
INVARIANT what cannot make its deadline ends without a token; a keyed operation with an unknown outcome leaves
         waiting when its key's window is over; a release that nobody began returns; nothing else changes
]]
local LIMIT = 100
local now = clock()
local more = ''
local function batch(index, upto)
  record.flush()
  local ids = redis.call('ZRANGEBYSCORE', P .. index, '-inf', upto, 'LIMIT', 0, LIMIT)
  if #ids == LIMIT then more = '1' end
  return ids
end

for _, id in ipairs(batch('waiting', int(now))) do
  record.enlane(id)
end

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

for _, lane in ipairs({'first', 'retry'}) do
  local index = 'due:' .. lane
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

redis.call('HSET', P .. 'gate', 'last_now', int(now))
return answer({more})
