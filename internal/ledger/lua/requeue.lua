--[[ requeue: send a dead letter on its way again.
KEYS[1]  <namespace>:{<dependency>}
ARGV     id, by, note, batch
         request_id     of this call: the same one again is harmless
         more           attempts granted on top, or at_least: attempts that must be left (0 = neither)
         deadline_at (ms) or deadline_span (ms): the new deadline; neither = the old one
         delay          ms until it is due (spreads a bulk requeue)
         max_attempts, min_response, base, keyheader, class, window, lease  of the kind
         keep_succeeded, keep_cancelled (ms); dry (1: change nothing, only say)
RETURNS  'ok' | 'again' | 'missing' | 'refused', state, detail, attempts left, reason it had
LIMIT    one operation
INVARIANT an unknown outcome is requeued only while a resend is safe, and of a chain of attempts only the last, behind
         nothing that may have taken effect; history stays, counters of loss are reset
]]
local now = clock()
local op = record.load(A.id)
if not op then return {'missing', '', '', '0', ''} end
local from, why = op.f.state, op.f.reason or ''
local function left() return int(math.max(settle.attempts_left(op, arg('max_attempts')), 0)) end
local function refuse(detail)
  if not A.dry then record.audit(op.id, 'requeue', from, 'refused', now) end
  return {'refused', from, detail, left(), why}
end
if (A.request_id or '') ~= '' and op.f.requeue == A.request_id then return {'again', from, '', left(), why} end
if from ~= 'dead' then
  if from == 'succeeded' or from == 'cancelled' then return refuse('already settled: ' .. from) end
  return refuse('not a dead letter: ' .. from)
end
if redis.call('EXISTS', P .. 'request:' .. op.id) == 0 then return refuse('its request is gone') end
local final = chain.final(op)
if final then return refuse(final) end
local class = settle.class(op, A.class)
local target = settle.digest(class, A.base, op.f.cred or 'default', A.keyheader, op.f.ikey or string.gsub(op.id, '/', ':', 1))
local at = now + arg('delay')
if not settle.safe(op, class, target, at) then return refuse('its outcome is unknown and a resend is not safe: resolve it first') end
local deadline = num(op.f.deadline)
if arg('deadline_at') > 0 then deadline = arg('deadline_at') end
if arg('deadline_span') > 0 then deadline = at + arg('deadline_span') end
if at + arg('min_response') > deadline then return refuse('its deadline is over: give a new one') end
local extra = num(op.f.extra)
if arg('more') > 0 then
  extra = extra + arg('more')
else
  local missing = arg('at_least') - settle.attempts_left(op, arg('max_attempts'))
  if missing > 0 then extra = extra + missing end
end
if arg('max_attempts') + extra - num(op.f.used) <= 0 then return refuse('no attempts left: grant more') end
if A.dry then return {'ok', from, '', int(arg('max_attempts') + extra - num(op.f.used)), why} end

record.set(op, 'extra', extra > 0 and int(extra) or nil)
record.set(op, 'deadline', int(deadline))
record.set(op, 'requeue', A.request_id)
record.set(op, 'batch', (A.batch or '') ~= '' and A.batch or nil)
for _, field in ipairs({'losses', 'refusals', 'orphan', 'intent'}) do record.set(op, field, nil) end
record.audit(op.id, 'requeue', from .. ' ' .. why, 'waiting', now)
record.move(op, 'waiting', now, at)
record.save(op)
return answer({'ok', 'waiting', '', left(), why})
