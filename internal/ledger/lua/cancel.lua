--[[ cancel: a person wants no further call for an operation (discard: of a dead letter).
KEYS[1]  <namespace>:{<dependency>}
ARGV     id, action (cancel | discard), by, note, batch
         keep_succeeded, keep_cancelled (ms)
RETURNS  'ok' | 'pending' (an attempt is under way: it is cancelled when that ends) | 'missing' | 'refused', then
         state, detail; then 'ended' pairs
LIMIT    one operation
INVARIANT an unknown outcome is never discarded; every call leaves an audit entry, refused ones too
]]
local now = clock()
local op = record.load(A.id)
if not op then return {'missing', '', ''} end
local from, verdict, detail = op.f.state, 'ok', ''
if from == 'attempting' then
  record.set(op, 'cancel', '1')
  verdict, detail = 'pending', 'an attempt is under way'
elseif from == 'succeeded' or from == 'cancelled' then
  verdict, detail = 'refused', 'already ' .. from
elseif A.action == 'discard' and from ~= 'dead' then
  verdict, detail = 'refused', 'only dead letters are discarded; this one is ' .. from
elseif from == 'dead' and settle.marked(op) then
  verdict, detail = 'refused', 'its outcome is unknown: resolve it first'
else
  settle.leave(op, 'cancelled', nil, now)
  if op.f.state == 'unresolved' then
    verdict, detail = 'ok', 'its outcome is unknown: it is cancelled once the gateway says that it was not applied'
  elseif op.f.state == 'dead' then
    verdict, detail = 'ok', 'its outcome is unknown, so it needs a person: resolve it'
  end
end
record.audit(op.id, A.action, from, verdict == 'ok' and op.f.state or verdict, now)
record.save(op)
return answer({verdict, op.f.state, detail})
