--[[ retention: let ended operations go, step by step, counted.
KEYS[1]  <namespace>:{<dependency>}
ARGV     keep_keys   ms after its end that a tombstone answers duplicate and conflict, 0 = for ever
         keep_dead   ms after its death that a dead letter without unknown outcome is kept, 0 = for ever
         keep_audit  ms, 0 = for ever
         run         this call's id: told back, so that a repeated call can be recognised in the log
RETURNS  more, bodies (made tombstones), keys (tombstones gone), dead (dead letters gone); per dead letter gone
         'expired', '<id> <reason>'
LIMIT    100 per step
INVARIANT a record with an unknown outcome never expires
]]
local LIMIT = 100
local now = clock()
local more, bodies, keys, dead = '', 0, 0, 0
local out = {}

-- What a tombstone keeps: enough to answer duplicate, conflict and show.
local KEEP = {state = 1, fp = 1, sends = 1, first = 1, ended = 1, result = 1, flags = 1, reports = 1, cred = 1, idem = 1, sby = 1, by = 1, ref = 1, voided = 1, bare = 1, free = 1, of = 1, prev = 1, root = 1, tried = 1, again = 1}

local due = redis.call('ZRANGEBYSCORE', P .. 'done', '-inf', int(now), 'LIMIT', 0, LIMIT)
if #due == LIMIT then more = '1' end
for _, id in ipairs(due) do
  local op, shed = record.load(id), {}
  if not op then
    record.forget('done', id)
    redis.call('ZREM', P .. 'ended', id)
  elseif settle.marked(op) then
    redis.call('ZADD', P .. 'done', '+inf', id)
  else
    local upto = num(op.f.ended) + arg('keep_keys')
    if op.f.tombstone and arg('keep_keys') > 0 and upto <= now then
      record.drop(op)
      keys = keys + 1
    else
      -- One that came back to life for a report and ended again is shrunk once more.
      redis.call('DEL', P .. 'request:' .. id, P .. 'answers:' .. id)
      if not op.f.tombstone then bodies = bodies + 1 end
      for field in pairs(op.f) do
        if not KEEP[field] then shed[#shed + 1] = field end
      end
      for _, field in ipairs(shed) do record.set(op, field, nil) end
      record.set(op, 'tombstone', '1')
      record.save(op)
      redis.call('ZADD', P .. 'done', arg('keep_keys') == 0 and '+inf' or int(upto), id)
    end
  end
end

if arg('keep_dead') > 0 then
  -- Dead letters with an unknown outcome stay at the head of the index: the place in
  -- the round is kept, so that they do not hide the others.
  local skip = num(redis.call('HGET', P .. 'gate', 'retire_skip'))
  local old = redis.call('ZRANGEBYSCORE', P .. 'dead', '-inf', int(now - arg('keep_dead')), 'LIMIT', int(skip), LIMIT)
  for _, id in ipairs(old) do
    local op = record.load(id)
    if not op then
      record.forget('dead', id)
    elseif not settle.marked(op) then
      out[#out + 1] = 'expired'
      out[#out + 1] = id .. ' ' .. (op.f.reason or '-')
      record.drop(op)
      dead = dead + 1
    else
      skip = skip + 1
    end
  end
  if #old == LIMIT then more = '1' else skip = 0 end
  redis.call('HSET', P .. 'gate', 'retire_skip', int(skip))
end
if arg('keep_audit') > 0 then
  redis.call('XTRIM', P .. 'audit', 'MINID', '~', int(now - arg('keep_audit')))
end
local reply = {more, int(bodies), int(keys), int(dead)}
for _, item in ipairs(out) do reply[#reply + 1] = item end
return reply
