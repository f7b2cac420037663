--[[ resolve: a person found out what became of an unknown outcome.
KEYS[1]  <namespace>:{<dependency>}
ARGV     id, verdict (applied | not_applied | written_off), ref, by, note, batch
         keep_succeeded, keep_cancelled (ms)
RETURNS  'ok' | 'missing' | 'refused', state, detail; then 'ended' pairs
LIMIT    one operation
INVARIANT not applied is believed only when no send can take effect any more; only an operation with the unknown mark is resolved; written off keeps saying that it may have acted
]]
local now = clock()
local op = record.load(A.id)
if not op then return {'missing', '', ''} end
local from = op.f.state
if (from ~= 'dead' and from ~= 'unresolved') or not settle.marked(op) then
  local detail = not settle.marked(op) and 'its outcome is not unknown' or ('it is ' .. from .. ': still on its way')
  record.audit(op.id, 'resolve ' .. A.verdict, from, 'refused', now)
  return {'refused', from, detail}
end
if A.verdict == 'not_applied' and now < ask.settled_at(op) then
  record.audit(op.id, 'resolve ' .. A.verdict, from, 'refused', now)
  return {'refused', from, 'too early: a send may still take effect for ' .. int(math.ceil((ask.settled_at(op) - now) / 1000)) .. ' s'}
end
if A.verdict == 'applied' then
  settle.applied(op)
  record.set(op, 'by', A.by or '')
  if (A.ref or '') ~= '' then record.set(op, 'ref', A.ref) end
  record.move(op, 'succeeded', now)
elseif A.verdict == 'not_applied' and from == 'unresolved' then
  settle.resume(op, now, now)
elseif A.verdict == 'not_applied' and op.f.intent == 'cancelled' then
  settle.resume(op, now, now) -- a person wanted no more of it before
elseif A.verdict == 'not_applied' then
  settle.cleared(op)
elseif A.verdict == 'written_off' then
  record.set(op, 'intent', nil)
  record.move(op, 'cancelled', now)
else
  return {'refused', from, 'unknown verdict'}
end
record.audit(op.id, 'resolve ' .. A.verdict, from, op.f.state, now)
record.save(op)
return answer({'ok', op.f.state, ''})
