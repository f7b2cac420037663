--[[ inquire: hand out inquiries that are due, as many as the gate bears now.
KEYS[1]  <namespace>:{<dependency>}
ARGV     want           inquiries that this process can make now
         kinds          ' kind kind ' whose inquiry this process knows
         run            run id; it names the inquiries of this call
         lease          ms after which one without an answer may be made again
         max_in_flight  calls under way at most, 0 = no limit
         ratio, cap, floor
         expect         Redis' clock in ms, as the caller expects it to be
RETURNS  hold ('' or why no more are handed out), next (ms until it is worth asking again), then per inquiry 7 items
         'ask', id, request, result, tries (this one included), '<credential> <idempotency key>', '<used> <extra> <attempt> <deadline left, ms> <corr>'
         'stepped' alone when Redis' clock is not where the caller expects it: nothing was decided
LIMIT    100, and looks at 100
INVARIANT each inquiry costs a token; one under way is handed to nobody else before its lease ends; attempts and
         marks are not touched
]]
if stepped() then return {'stepped'} end
local now = clock()
local g = gate.load(now)
local out = {'', ''}
local due = redis.call('ZRANGEBYSCORE', P .. 'unresolved', '-inf', int(now), 'LIMIT', 0, 100)
local retries_wait = redis.call('ZCARD', P .. 'due:retry') > 0
local tokens = gate.retries(g) - redis.call('ZCARD', P .. 'released:retry')
local room, why, again = arg('want'), 'slots', 1000
if arg('max_in_flight') > 0 then
  local free = arg('max_in_flight') - redis.call('ZCARD', P .. 'claims') - redis.call('ZCARD', P .. 'released:first')
    - redis.call('ZCARD', P .. 'released:retry') - redis.call('ZCOUNT', P .. 'asking', '(' .. int(now), '+inf')
  if free < room then room, why, again = free, 'in_flight', 50 end
end
local share = gate.share(g, tokens, 'inquiry', retries_wait)
if share < room then room, why, again = share, 'budget', gate.tokens_in(g, 1) end
local closed, closed_in = gate.closed(g)
if closed then room, why, again = 0, closed, math.min(closed_in, 1000) end

local handed, left = 0, false
for _, id in ipairs(due) do
  if string.find(A.kinds or '', ' ' .. string.match(id, '^[^/]*') .. ' ', 1, true) then
    local op = record.load(id)
    if not op then
      record.forget('unresolved', id)
      record.forget('giveup', id)
    elseif op.f.state ~= 'unresolved' then
      redis.call('ZREM', P .. 'unresolved', id)
    elseif num(op.f.giveup) > now then -- the sweep has the rest
      if handed >= room then
        left = true
        break
      end
      gate.spend(g)
      ask.handed(op, A.run, now, arg('lease'))
      record.save(op)
      handed = handed + 1
      local facts = table.concat({op.f.used or '0', op.f.extra or '0', op.f.sends or '0', int(num(op.f.deadline) - now), op.f.corr or ''}, ' ')
      for _, item in ipairs({'ask', id, redis.call('GET', P .. 'request:' .. id) or '', op.f.result or '', op.f.tries,
        (op.f.cred or 'default') .. ' ' .. (op.f.ikey or string.gsub(id, '/', ':', 1)), facts}) do out[#out + 1] = item end
    end
  end
end
if handed > 0 then
  gate.took(g, 'inquiry', retries_wait)
  gate.save()
end
record.flush()
local next_in = 1000
if left then
  out[1], next_in = why, math.max(again, 20)
else
  local soon = redis.call('ZRANGE', P .. 'unresolved', 0, 0, 'WITHSCORES')
  if soon[2] then next_in = math.max(num(soon[2]) - now, 20) end
end
out[2] = int(math.min(next_in, 1000))
return out
