--[[ release: let due operations leave the waiting room, as many as the gate bears now.
KEYS[1]  <namespace>:{<dependency>}
ARGV     want           deliveries that this process can take now
         kinds          ' kind kind ' that this process knows; others are left for those who do
         max_in_flight  released and attempting at most, 0 = no limit
         release_lease  ms after which an undelivered release returns
         min_response   ms; what cannot make its deadline ends at once, without a token
         ratio, cap, floor; keep_succeeded, keep_cancelled (ms)
RETURNS  hold ('' or why nothing more leaves), next (ms until it is worth asking again), more (1: ask at once), now (ms),
         then per delivery 6 items 'give', id, number, lane, losses, due (next_at, ms); then 'held' pairs
         '<id> <sends> <class> <corr>' of the retries that came due in this call and stay; then 'ended' pairs
LIMIT    moves 100 due operations, looks at 100 of each lane
INVARIANT retries released and not begun never exceed the tokens in the bucket; a refusal changes nothing of the
         operation
]]
local LIMIT = 100
local now = clock()
local g = gate.load(now)

-- due operations move into their lane, where the earliest deadline stands first.
local due = redis.call('ZRANGEBYSCORE', P .. 'waiting', '-inf', int(now), 'LIMIT', 0, LIMIT)
local arrived = {} -- retries that came due now, by id
for _, id in ipairs(due) do
  local v = redis.call('HMGET', P .. 'op:' .. id, 'deadline', 'sends', 'class', 'corr')
  if not v[1] then
    record.forget('waiting', id)
  else
    redis.call('ZREM', P .. 'waiting', id)
    redis.call('ZADD', P .. 'due:' .. (num(v[2]) == 0 and 'first' or 'retry'), v[1], id)
    if num(v[2]) > 0 then arrived[id] = table.concat({id, v[2], v[3] or '-', v[4] or '-'}, ' ') end
  end
end
local more = #due == LIMIT

local out = {'', '', '', int(now)}
local promised = redis.call('ZCARD', P .. 'released:first') + redis.call('ZCARD', P .. 'released:retry')
-- A slot is kept for a promise of the last two seconds. One that is older lost its
-- worker or its place in the queue: until its lease ends it must not keep the
-- slots of everybody else empty.
local fresh = int(now + arg('release_lease') - 2000)
local awaited = redis.call('ZCOUNT', P .. 'released:first', fresh, '+inf') + redis.call('ZCOUNT', P .. 'released:retry', fresh, '+inf')
local room = math.min(arg('want') - awaited, LIMIT)
local hold, next_in = '', 1000
local closed, closed_in = gate.closed(g)
if closed then
  room, hold, next_in = 0, closed, closed_in
elseif room <= 0 then
  room, hold = 0, 'slots'
end
if arg('max_in_flight') > 0 and room > 0 then
  local free = arg('max_in_flight') - promised - redis.call('ZCARD', P .. 'claims')
  if free < room then room = free end
  if room <= 0 then
    room, hold, next_in = 0, 'in_flight', 50
  end
end

local function take(lane, most)
  if most <= 0 then return 0 end
  local given = 0
  local heads = redis.call('ZRANGE', P .. 'due:' .. lane, 0, LIMIT - 1)
  for _, id in ipairs(heads) do
    if given >= most then return given end
    local op = record.load(id)
    if not op then
      record.forget('due:' .. lane, id)
    elseif op.f.state ~= 'waiting' then
      redis.call('ZREM', P .. 'due:' .. lane, id)
    elseif now + arg('min_response') > num(op.f.deadline) then
      arrived[id] = nil
      settle.leave(op, 'dead', 'deadline', now)
      record.save(op)
    elseif string.find(A.kinds or '', ' ' .. op.kind .. ' ', 1, true) then
      local at = op.f.next or '0'
      record.add(op, 'delivery', 1)
      record.set(op, 'grant', lane)
      record.set(op, 'orphan', nil)
      record.move(op, 'released', now, now + arg('release_lease'), lane)
      record.save(op)
      given = given + 1
      arrived[id] = nil
      for _, item in ipairs({'give', id, op.f.delivery, lane, op.f.losses or '0', at}) do out[#out + 1] = item end
    end
  end
  if #heads == LIMIT then more = true end
  return given
end

if room > 0 then
  local first = take('first', room)
  room = room - first
  local tokens = gate.retries(g) - redis.call('ZCARD', P .. 'released:retry')
  local retries = take('retry', math.min(room, tokens))
  if redis.call('ZCARD', P .. 'due:retry') > 0 and retries >= tokens then
    hold = 'budget'
    next_in = math.max(gate.tokens_in(g), 20)
  elseif retries >= room and redis.call('ZCARD', P .. 'due:retry') + redis.call('ZCARD', P .. 'due:first') > 0 then
    hold = 'slots'
  end
end
local soon = redis.call('ZRANGE', P .. 'waiting', 0, 0, 'WITHSCORES')
if soon[2] then next_in = math.min(next_in, math.max(num(soon[2]) - now, 0)) end
gate.save(g)
out[1], out[2], out[3] = hold, int(next_in), (more and hold == '') and '1' or ''
if hold ~= '' then
  for _, what in pairs(arrived) do
    out[#out + 1] = 'held'
    out[#out + 1] = what
  end
end
return answer(out)
