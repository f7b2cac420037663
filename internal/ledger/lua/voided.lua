--[[ voided: what undoes a late success is submitted.
KEYS[1]  <namespace>:{<dependency>}
ARGV     id
         void  the operation that undoes it, kind/key
RETURNS  'ok', or 'gone'
LIMIT    one operation
INVARIANT changes no state; an operation that has gone is not written again
]]
redis.call('ZREM', P .. 'outbox', A.id)
local op = record.load(A.id)
if not op then return {'gone'} end
local now = clock()
record.set(op, 'voided', A.void)
record.audit(op.id, 'void', op.f.state, A.void, now)
record.save(op)
return {'ok'}
