--[[ reconcile: a person wants the gateway to be asked what became of an operation.
KEYS[1]  <namespace>:{<dependency>}
ARGV     id, by, note, batch
         base           where the kind's calls go
         idem           class of the kind, for one that only the gateway knows
         first          ms: when it was first sent, if that is known
         max_backlog
         keep_succeeded, keep_cancelled (ms)
RETURNS  'ok' | 'refused' | 'full', state (before), detail; then 'ended' pairs
LIMIT    one operation
INVARIANT no attempt is made for it; one that the ledger did not know has no request and never waits
]]
local now = clock()
local op = record.load(A.id)
local kind = string.match(A.id, '^[^/]*')
local function refuse(detail)
  if op then record.audit(A.id, 'reconcile', op.f.state, 'refused', now) end
  return {'refused', op and op.f.state or '', detail}
end
if ask.of(kind).settle == nil then return refuse('no running worker has an inquiry for kind ' .. kind) end

if op and op.f.free then
  record.drop(op)
  op = nil
end
if not op then
  if record.backlog() >= arg('max_backlog') + math.floor(arg('max_backlog') / 10) then return {'full', '', 'backlog full'} end
  op = record.new(A.id)
  local first = arg('first')
  if first == 0 or first > now then first = now end
  record.set(op, 'bare', '1')
  record.set(op, 'fp', '')
  record.set(op, 'idem', A.idem)
  record.set(op, 'created', int(now))
  record.set(op, 'deadline', int(now))
  record.set(op, 'sends', '1')
  record.set(op, 'used', '1')
  record.set(op, 'first', int(first))
  local nokey = settle.apart('nokey', A.base, 'default')
  record.set(op, 'a1', int(first) .. ',p,' .. nokey .. ',0,u,,0,,0')
  settle.mark(op, 1, nokey, now)
  settle.leave(op, 'cancelled', nil, now)
  record.audit(A.id, 'reconcile', '', op.f.state, now)
  record.save(op)
  return answer({'ok', '', ''})
end

-- soon: a person waits for this one; what a bulk action asks about stands in line.
local function soon(at)
  if op.f.irun or at > now then return end
  op.places.unresolved = (A.batch or '') == '' and '1' or int(now)
end

local from = op.f.state
if from == 'unresolved' then
  soon(now)
elseif from == 'waiting' or from == 'dead' or from == 'cancelled' then
  local intent, reason = settle.end_of(op)
  if op.f.tombstone then return refuse('its request is gone: it ended long ago') end
  -- Without an unknown outcome on record only the person doubts. No bytes are on their way.
  if not settle.marked(op) then settle.mark(op, 0, settle.apart('other', A.base, op.f.cred or 'default'), 0) end
  settle.leave(op, intent, reason ~= '' and reason or nil, now)
  soon(ask.settled_at(op))
elseif from == 'succeeded' then
  return refuse('it has succeeded already')
else
  return refuse('it is ' .. from .. ': wait until that attempt has ended')
end
record.audit(A.id, 'reconcile', from, op.f.state, now)
record.save(op)
return answer({'ok', from, ''})
