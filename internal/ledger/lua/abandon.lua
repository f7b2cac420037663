--[[ abandon: give a delivery back of which nothing was sent.
KEYS[1]  <namespace>:{<dependency>}
ARGV     id, delivery, run; wait (ms until it may be released again)
         orphan (1: this worker does not know the kind)
         withdraw (1: a request path that could not learn whether its operation was written ahead: it told its
         customer that nothing is kept)
         keep_succeeded, keep_cancelled (ms); min_response (ms)
RETURNS  state of the operation, 'withdrawn' or 'gone'; then 'ended' pairs
LIMIT    one operation
INVARIANT an operation is withdrawn only if nobody else has heard of it; one that stands in a chain is cancelled instead;
         a begin applied after this is stale; the attempt of an abandoned claim counts as not sent
]]
local now = clock()
local op = record.load(A.id)
if not op then return {'gone'} end
local g = gate.load(now)
if gate.probing(g, A.id) then -- nothing was sent under its permit
  gate.unprobe(g, A.id)
  gate.save()
end
local wait = arg('wait')
if claim.held_by(op, A.run) then
  settle.close_attempt(op, num(op.f.attempt), 0, 'n,,0,', 0)
  settle.unsent(op, num(op.f.attempt))
  record.add(op, 'used', -1)
  claim.drop(op)
  if not settle.marked(op) then settle.cleared(op) end
  if A.withdraw and num(op.f.sends) == 1 and not (op.f.dup or op.f.reports or op.f.tried or op.f.cancel or op.f.known_ok) then
    if not op.f.of then
      record.drop(op)
      return {'withdrawn'}
    end
    record.set(op, 'cancel', '1') -- the operation before it names it: it ends instead
  end
elseif op.f.state ~= 'released' or op.f.delivery ~= A.delivery then
  return {op.f.state}
end
if A.orphan and not op.f.known_ok and not op.f.cancel and not op.f.ends then
  -- Doubling from 5 s to a minute; after an hour nobody knew it, a person must look.
  local since = num(op.f.orphan)
  if since == 0 then
    since = now
    record.set(op, 'orphan', int(now))
  end
  if now - since >= 3600000 then
    settle.leave(op, 'dead', 'undeliverable', now)
    record.save(op)
    return answer({op.f.state})
  end
  wait = math.max(5000, math.min(60000, now - since))
end
if op.f.known_ok then
  settle.late(op, now)
  settle.succeed(op, now)
elseif op.f.cancel then
  settle.leave(op, 'cancelled', nil, now)
elseif op.f.ends then
  settle.close(op, op.f.ends, now) -- as the answer to a send that was reported meanwhile has it
elseif settle.stuck(op, now) then
  settle.leave(op, 'waiting', nil, now)
else
  record.move(op, 'waiting', now, now + wait)
end
record.save(op)
return answer({op.f.state})
