--[[ stop: a dead letter that a bulk requeue sent on its way goes back as it was, if nothing was sent of it since.
KEYS[1]  <namespace>:{<dependency>}
ARGV     id, by, note, batch
         sends, reason, deadline (ms), extra, intent   as they were before the requeue
RETURNS  'ok' | 'missing' | 'refused', state, detail; then 'ended' pairs
LIMIT    one operation
INVARIANT what was sent since is left alone; marks stay, so that an unknown outcome is unknown as before
]]
local now = clock()
local op = record.load(A.id)
if not op then return {'missing', '', ''} end
local from = op.f.state
if op.f.batch ~= A.batch then return {'refused', from, 'it does not belong to the batch any more'} end
if from ~= 'waiting' and from ~= 'released' then return {'refused', from, 'it is ' .. from} end
if num(op.f.sends) ~= arg('sends') then return {'refused', from, 'it was sent already'} end
record.set(op, 'deadline', int(arg('deadline')))
record.set(op, 'extra', arg('extra') > 0 and int(arg('extra')) or nil)
record.set(op, 'intent', (A.intent or '') ~= '' and A.intent or nil)
record.move(op, 'dead', now, nil, A.reason)
record.audit(op.id, 'stop', from, 'dead ' .. A.reason, now)
record.save(op)
return answer({'ok', op.f.state, ''})
