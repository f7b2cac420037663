--[[ release: let due operations leave the waiting room, as many as the gate bears now.
KEYS[1]  <namespace>:{<dependency>}
ARGV     want           deliveries that this process can take now
         kinds          ' kind kind ' that this process knows; others are left for those who do
         release_lease  ms after which an undelivered release returns
         min_response   ms; what cannot make its deadline ends at once, without a token
         seen           attempts written ahead, as far as this process knows
         lease          claim lease, ms
         gate; keep_succeeded, keep_cancelled (ms)
         expect         Redis' clock in ms, as the caller expects it to be
RETURNS  hold ('' or why nothing more leaves), next (ms until it is worth asking again), more (1: ask at once), TIME (ms), attempts written
         ahead, since when the store is known to have lost some (ms or ''), news of the gate (see gate.news),
         then per delivery 6 items 'give', id, number, grant, losses, due (next_at, ms); then 'held' pairs
         '<id> <sends> <class> <corr>' of the retries that came due in this call and stay; then 'ended' pairs
         'stepped' alone when Redis' clock is not where the caller expects it: nothing was decided
LIMIT    moves 100 due operations, looks at 100 of each lane
INVARIANT what was released for a token and not begun never exceeds the tokens in the bucket; probes that are out never
         exceed the permits; a refusal changes nothing of the operation
]]
local LIMIT = 100
if stepped() then return {'stepped'} end
local now = clock()
local g = gate.load(now)

-- due operations move into their lane, where the earliest deadline stands first.
local due = redis.call('ZRANGEBYSCORE', P .. 'waiting', '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, LIMIT)
local arrived = {} -- retries that came due now, by id
for i = 1, #due, 2 do
  local id = due[i]
  local sends, class, corr = record.enlane(id, gate.deferred(g, num(due[i + 1])))
  if sends then arrived[id] = table.concat({id, int(sends), class, corr}, ' ') end
end
record.flush()
local more = #due == 2 * LIMIT

local t = redis.call('TIME') -- as it is: clock() hides a short step back
rollback.check(g, now)
local out = {'', '', '', int(tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)), int(rollback.seq()), g.rolled and int(g.rolled) or '', ''}

-- room: how many may leave; why: what keeps others when it is used up; again: when
-- it is worth asking then. A slot is kept for a promise of the last two seconds. One
-- that is older lost its worker or its place in the queue: until its lease ends it
-- must not keep the slots of everybody else empty.
local promised_retries = redis.call('ZCARD', P .. 'released:retry')
local promised = redis.call('ZCARD', P .. 'released:first') + promised_retries
local fresh = int(now + arg('release_lease') - 2000)
local awaited = redis.call('ZCOUNT', P .. 'released:first', fresh, '+inf') + redis.call('ZCOUNT', P .. 'released:retry', fresh, '+inf')
local room, why, again = arg('want') - awaited, 'slots', arg('want') > 0 and 50 or 1000
local in_flight = promised + redis.call('ZCARD', P .. 'claims') + redis.call('ZCOUNT', P .. 'asking', '(' .. int(now), '+inf')
local function at_most(n, reason, wait)
  if n and n < room then room, why, again = n, reason, wait end
end
local most = gate.in_flight(g)
at_most(most and most - in_flight, gate.ramping(g) and 'ramp' or 'in_flight', 50)
local allowed = gate.allowed(g)
if allowed then at_most(allowed, 'rate', gate.rate_in(g)) end
local probing = g.state == 'half_open'
if probing then at_most(gate.permits(g), 'breaker', 1000) end
if room > LIMIT then room, why, again = LIMIT, '', 0 end
local closed, closed_in = gate.closed(g)
if closed then room, why, again = 0, closed, closed_in end
room = math.max(room, 0)
gate.released(g, in_flight)

-- pay finds what lets an operation leave: a probe's permit, nothing at all for a first
-- attempt that is no backlog, a token or the drain lane. nil: nothing does.
local tokens, lane = math.max(gate.retries(g) - promised_retries, 0), gate.lane(g)
local function pay(id, from, sends)
  if probing then return gate.probe(g, id, now + arg('release_lease')) and 'probe' or nil end
  if from == 'first' then return 'first' end
  if lane > 0 and (sends == 0 or tokens == 0) then
    lane = lane - 1
    gate.take_lane(g, 1)
    return 'lane'
  end
  if tokens == 0 then return nil end
  tokens = tokens - 1
  return 'retry'
end

-- least_sent puts the operations that were sent least first: while calls fail, the same
-- few earliest deadlines must not use up their attempts for all the others.
local function least_sent(ids)
  local order = {}
  for i, id in ipairs(ids) do order[i] = {id = id, at = i, sends = num(redis.call('HGET', P .. 'op:' .. id, 'sends'))} end
  table.sort(order, function(a, b)
    if a.sends ~= b.sends then return a.sends < b.sends end
    return a.at < b.at
  end)
  for i, o in ipairs(order) do ids[i] = o.id end
end

local rolled_back = false -- something stays because attempts may be missing from its record
local function take(from, most)
  if most <= 0 then return 0 end
  local given, gone = 0, 0
  local heads = redis.call('ZRANGE', P .. 'due:' .. from, 0, LIMIT - 1)
  if from == 'retry' and (probing or not gate.healthy(g)) then least_sent(heads) end
  for _, id in ipairs(heads) do
    if given >= most then return given end
    local op = record.load(id)
    if not op then
      record.forget('due:' .. from, id)
      gone = gone + 1
    elseif op.f.state ~= 'waiting' then
      redis.call('ZREM', P .. 'due:' .. from, id)
      gone = gone + 1
    elseif now + arg('min_response') > num(op.f.deadline) then
      arrived[id] = nil
      settle.leave(op, 'dead', 'deadline', now)
      record.save(op)
      gone = gone + 1
    elseif settle.stuck(op, now) then
      arrived[id] = nil
      settle.leave(op, 'waiting', nil, now)
      record.save(op)
      gone = gone + 1
    elseif g.rolled and not rollback.harmless(op, op.f.idem, now) then
      rolled_back = true
    elseif g.aside and op.f.cred and redis.call('HEXISTS', P .. 'credentials', op.f.cred) == 1 then
      record.put_aside(op)
      record.save(op)
      gone = gone + 1
    elseif string.find(A.kinds or '', ' ' .. op.kind .. ' ', 1, true) then
      local grant = pay(id, from, num(op.f.sends))
      if not grant then return given end
      local at = op.f.next or '0'
      record.add(op, 'delivery', 1)
      record.set(op, 'orphan', nil)
      record.move(op, 'released', now, now + arg('release_lease'), grant == 'retry' and 'retry' or 'first')
      record.set(op, 'grant', grant .. ' ' .. int(g.generation))
      record.save(op)
      given = given + 1
      arrived[id] = nil
      for _, item in ipairs({'give', id, op.f.delivery, grant, op.f.losses or '0', at}) do out[#out + 1] = item end
    end
  end
  -- Behind heads that left there may be others; behind kinds unknown here asking at
  -- once would find the same.
  if #heads == LIMIT and given + gone > 0 then more = true end
  return given
end

local first = take('first', room)
local backlog = probing and room - first or tokens + lane
local both = backlog < room - first and redis.call('ZCOUNT', P .. 'unresolved', '-inf', int(now)) > 0
backlog = gate.share(g, backlog, 'retry', both)
local retries = take('retry', math.min(room - first, backlog))
if retries > 0 then gate.took(g, 'retry', both) end
gate.take_rate(g, first + retries)

local hold, next_in = '', 1000
record.flush()
local left = redis.call('ZCARD', P .. 'due:retry')
if left + redis.call('ZCARD', P .. 'due:first') > 0 then
  if rolled_back then
    hold = 'rolled_back'
  elseif first + retries >= room then
    hold, next_in = why, again
    if why == '' then more = true end
  elseif left > 0 and retries >= backlog then
    hold = gate.short_of(g)
    next_in = math.min(gate.tokens_in(g, redis.call('ZCARD', P .. 'released:retry') + 1), gate.lane_in(g, 1))
  end
end
local soon = redis.call('ZRANGE', P .. 'waiting', 0, 0, 'WITHSCORES')
if soon[2] then next_in = math.min(next_in, math.max(num(soon[2]) - now, 0)) end
gate.save()
gate.compare(g)
out[1], out[2], out[3], out[7] = hold, int(math.min(next_in, 1000)), (more and hold == '') and '1' or '', gate.news(g)
if hold ~= '' then
  for _, what in pairs(arrived) do
    out[#out + 1] = 'held'
    out[#out + 1] = what
  end
end
return answer(out)
