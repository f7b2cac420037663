--[[ recover: list the attempts whose claim lease ran out.
KEYS[1]  <namespace>:{<dependency>}
ARGV     grace  ms beyond the lease (0 for an instance that knows the kind)
         expect         Redis' clock in ms, as the caller expects it to be
RETURNS  per attempt 'lost' and name/value pairs packed as '<name>=<value>' joined by spaces: id, run, attempt,
         class (idempotency at submission), used, extra, unknown, target, safe (ms left), deadline_left, losses, age,
         over (ms since the lease ended), corr (may hold spaces: the last)
         'stepped' alone when Redis' clock is not where the caller expects it: nothing was decided
LIMIT    100 a call
INVARIANT writes nothing but the removal of index entries without a record; what becomes of an attempt is decided
         in Go and written by finish, fenced by the run id and the lease
]]
if stepped() then return {'stepped'} end
local now = clock()
local out = {}
local ids = redis.call('ZRANGEBYSCORE', P .. 'claims', '-inf', int(now - arg('grace')), 'LIMIT', 0, 100)
for _, id in ipairs(ids) do
  local op = record.load(id)
  if not op then
    record.forget('claims', id)
  elseif op.f.state ~= 'attempting' then
    redis.call('ZREM', P .. 'claims', id)
  else
    local n = num(op.f.attempt)
    local start = string.match(op.f['a' .. int(n)] or '', '^%d+') or '0'
    local target = string.match(op.f['a' .. int(n)] or '', '^%d+,[^,]*,([^,]*)') or ''
    out[#out + 1] = 'lost'
    out[#out + 1] = table.concat({'id=' .. id, 'run=' .. (op.f.run or ''), 'attempt=' .. int(n),
      'class=' .. (op.f.idem or 'none'), 'used=' .. (op.f.used or '0'), 'extra=' .. (op.f.extra or '0'),
      'unknown=' .. (settle.marked(op) and '1' or '0'), 'target=' .. target, 'safe=' .. int(num(op.f.safe) - now),
      'deadline_left=' .. int(num(op.f.deadline) - now), 'losses=' .. (op.f.losses or '0'), 'age=' .. int(now - num(start)),
      'over=' .. int(now - num(op.f.lease)), 'corr=' .. (op.f.corr or '')}, ' ')
  end
end
return out
