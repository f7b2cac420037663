--[[ begin: grant one attempt and write it ahead, before the first byte leaves.
KEYS[1]  <namespace>:{<dependency>}
ARGV     id, delivery, run (run id of this handler run)
         class          configured idempotency of the kind
         base, keyheader, window (ms)  what this process would send to and under
         max_attempts, min_response (ms), lease (claim lease, ms)
         seen           attempts written ahead, as far as this process knows
         gate; keep_succeeded, keep_cancelled (ms)
RETURNS  'granted', the stored request, and lines of name and value in turn: attempt, lease_left, deadline_left (ms), used, extra, unknown (1: an
         earlier attempt is unknown), safe_for (ms a resend stays safe, -1 = always, 0 = never), class, cred, ikey,
         corr, tp (traceparent), prev (the attempt before, as it is stored), fp, target, created, deadline, refusals, losses, delivery, ...
         or 'stale' (not this delivery), 'gone' (no record or no request), 'held', why, ms, sends, class, corr | 'ended', state; then 'ended' pairs
LIMIT    one operation
INVARIANT grants only to the delivery that is released, once, and only what it was released for, in the breaker's same
         generation; the same run id asking again while it holds the claim
         gets the same grant, unless a send was reported that makes this one unsafe; a token is spent once per run id
]]
local now = clock()
local g = gate.load(now)
local op = record.load(A.id)
local request = op and redis.call('GET', P .. 'request:' .. A.id)
if not request then return {'gone'} end -- an operation that lost its request is ended by its deadline

local function granted(n, class, target, before)
  local safe_for = 0
  if class == 'natural' then safe_for = -1 end
  if class == 'keyed' and op.f.safe then safe_for = math.max(num(op.f.safe) - now, 0) end
  if settle.marked(op) and op.f.target ~= target then safe_for = 0 end
  -- One text: an answer of sixty items costs more than all else in here.
  return {'granted', request, table.concat({'attempt', int(n), 'lease_left', int(num(op.f.lease) - now), 'deadline_left', int(num(op.f.deadline) - now),
    'used', op.f.used or '0', 'extra', op.f.extra or '0', 'unknown', before, 'safe_for', int(safe_for), 'class', class,
    'cred', op.f.cred or 'default', 'ikey', op.f.ikey or string.gsub(op.id, '/', ':', 1), 'corr', op.f.corr or '', 'tp', op.f.tp or '', 'prev', op.f['a' .. int(n - 1)] or '',
    'fp', op.f.fp or '', 'target', target, 'created', op.f.created or '0', 'deadline', op.f.deadline or '0',
    'refusals', op.f.refusals or '0', 'losses', op.f.losses or '0', 'delivery', op.f.delivery or '0',
    'first', op.f.first or '0', 'safe', op.f.safe or '0', 'window', op.f.window or '0',
    'unk', op.f.unk or '', 'unk_target', op.f.target or '', 'seq', int(rollback.seq()), 'started', string.match(op.f['a' .. int(n)] or '', '^%d+') or '0', 'idem', op.f.idem or 'none',
    'generation', int(g.generation)}, '\n')}
end

local class = settle.class(op, A.class)
local target = settle.digest(class, A.base, op.f.cred or 'default', A.keyheader, op.f.ikey or string.gsub(op.id, '/', ':', 1))
if claim.held_by(op, A.run) then
  if settle.safe(op, class, target, now) then return granted(num(op.f.attempt), class, target, settle.marked(op) and '1' or '0') end
  -- An unknown send was reported meanwhile. Nothing was sent by this run: it asks again
  -- because it never had its grant.
  settle.close_attempt(op, num(op.f.attempt), 0, 'n,,0,', 0)
  settle.unsent(op, num(op.f.attempt))
  record.add(op, 'used', -1)
  claim.drop(op)
  settle.leave(op, 'waiting', nil, now)
  record.save(op)
  return answer({'ended', op.f.state})
end
if op.f.state ~= 'released' or op.f.delivery ~= A.delivery then return {'stale', op.f.state} end

-- What a credential was refused for before somebody resumed may be mended.
if op.f.refusals then
  local last = string.match(op.f['a' .. int(num(op.f.sends))] or '', '^%d+')
  if num(redis.call('HGET', P .. 'gate', 'resumed')) > num(last) then record.set(op, 'refusals', nil) end
end
local doomed = settle.doomed(op, arg('max_attempts'), now)
if doomed then
  settle.leave(op, 'dead', doomed, now)
elseif not settle.safe(op, class, target, now) then
  settle.leave(op, 'waiting', nil, now)
end
if op.f.state ~= 'released' then
  record.save(op)
  return answer({'ended', op.f.state})
end

rollback.check(g, now)
local grant, generation = string.match(op.f.grant or '', '^(%l+) ?(%d*)$')
local why, wait = gate.closed(g)
if not why and g.rolled and not rollback.harmless(op, class, now) then why, wait = 'rolled_back', 1000 end
if not why and g.aside and op.f.cred and redis.call('HEXISTS', P .. 'credentials', op.f.cred) == 1 then why, wait = 'paused', 1000 end
if why then wait = math.min(wait, 1000) end -- a pause may be resumed early
if not why and generation ~= '' and num(generation) ~= g.generation then why, wait = 'breaker', 1000 end
if not why and grant == 'probe' then
  if not gate.probe(g, op.id, now + arg('lease')) then why, wait = 'breaker', 1000 end
elseif not why and g.state ~= 'closed' then
  why, wait = 'breaker', 1000
elseif not why and grant == 'retry' and not gate.spend(g) then
  why, wait = gate.short_of(g), gate.tokens_in(g, 1)
end
gate.save()
if why then
  gate.unprobe(g, op.id)
  record.move(op, 'waiting', now, now + wait)
  record.save(op)
  return {'held', why, int(wait), op.f.sends or '0', op.f.class or '', op.f.corr or ''}
end
if grant == 'first' then gate.first(g, 1) end

local n = num(op.f.sends) + 1
local before = settle.marked(op) and '1' or '0'
record.set(op, 'sends', int(n))
record.add(op, 'used', 1)
if not op.f.first then record.set(op, 'first', int(now)) end
if class == 'keyed' and not op.f.safe then record.set(op, 'safe', int(settle.window_end(op, num(op.f.first)))) end
record.set(op, 'a' .. int(n), int(now) .. ',w,' .. target)
settle.trim(op, n)
settle.forget_runs(op)
claim.take(op, A.run, n, now + arg('lease'))
record.move(op, 'attempting', now, now + arg('lease'))
record.save(op)
rollback.began()
return granted(n, class, target, before)
