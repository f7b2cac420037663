--[[ inquire: hand out inquiries that are due, as many as the gate bears now.
KEYS[1]  <namespace>:{<dependency>}
ARGV     want           inquiries that this process can make now
         kinds          ' kind kind ' whose inquiry this process knows
         run            run id; it names the inquiries of this call
         lease          ms after which one without an answer may be made again
         gate
         expect         Redis' clock in ms, as the caller expects it to be
RETURNS  hold ('' or why no more are handed out), next (ms until it is worth asking again), the breaker's generation, news
         of the gate (see gate.news), then per inquiry 7 items
         'ask', id, request, result, tries (this one included), '<credential> <idempotency key>', '<used> <extra> <attempt> <deadline left, ms> <traceparent or -> <corr>'
         'stepped' alone when Redis' clock is not where the caller expects it: nothing was decided
LIMIT    100, and looks at 100
INVARIANT each inquiry costs a token, the drain lane's turn or, while the breaker is half open, a probe's permit; one under way is handed to nobody else before its lease ends; attempts and
         marks are not touched
]]
if stepped() then return {'stepped'} end
local now = clock()
local g = gate.load(now)
local out = {'', '', int(g.generation), ''}
local due = redis.call('ZRANGEBYSCORE', P .. 'unresolved', '-inf', int(now), 'LIMIT', 0, 100)
local retries_wait = redis.call('ZCARD', P .. 'due:retry') > 0
local tokens, lane = math.max(gate.retries(g) - redis.call('ZCARD', P .. 'released:retry'), 0), gate.lane(g)
local room, why, again = arg('want'), 'slots', 1000
local function at_most(n, reason, wait)
  if n and n < room then room, why, again = n, reason, wait end
end
local most = gate.in_flight(g)
at_most(most and most - redis.call('ZCARD', P .. 'claims') - redis.call('ZCARD', P .. 'released:first')
  - redis.call('ZCARD', P .. 'released:retry') - redis.call('ZCOUNT', P .. 'asking', '(' .. int(now), '+inf'), gate.ramping(g) and 'ramp' or 'in_flight', 50)
local allowed = gate.allowed(g)
if allowed then at_most(allowed, 'rate', gate.rate_in(g)) end
local probing = g.state == 'half_open'
if probing then
  at_most(gate.permits(g), 'breaker', 1000)
else
  at_most(gate.share(g, tokens + lane, 'inquiry', retries_wait), gate.short_of(g), math.min(gate.tokens_in(g, 1), gate.lane_in(g, 1)))
end
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
    elseif num(op.f.giveup) <= now then -- the sweep's
    elseif g.aside and op.f.cred and redis.call('HEXISTS', P .. 'credentials', op.f.cred) == 1 then
      op.places.unresolved = int(now + 60000)
      record.save(op)
    else
      if handed >= room then
        left = true
        break
      end
      if probing then
        gate.probe(g, id, now + arg('lease'))
      elseif tokens > 0 then
        tokens = tokens - 1
        gate.spend(g)
      else
        gate.take_lane(g, 1)
      end
      ask.handed(op, A.run, now, arg('lease'))
      record.save(op)
      handed = handed + 1
      local facts = table.concat({op.f.used or '0', op.f.extra or '0', op.f.sends or '0', int(num(op.f.deadline) - now), op.f.tp or '-', op.f.corr or ''}, ' ')
      for _, item in ipairs({'ask', id, redis.call('GET', P .. 'request:' .. id) or '', op.f.result or '', op.f.tries,
        (op.f.cred or 'default') .. ' ' .. (op.f.ikey or string.gsub(id, '/', ':', 1)), facts}) do out[#out + 1] = item end
    end
  end
end
if handed > 0 then
  gate.took(g, 'inquiry', retries_wait)
  gate.take_rate(g, handed)
end
out[4] = gate.news(g)
if handed > 0 or out[4] ~= '' then gate.save() end
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
