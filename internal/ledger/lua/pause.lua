--[[ pause: stop attempts of a dependency, or let them go on (resume).
KEYS[1]  <namespace>:{<dependency>}
ARGV     action (pause | resume), span (ms until it ends by itself, 0 = until resumed), by, note; credential (resume of one alone)
RETURNS  hold ('paused' or ''), until (ms since the epoch, 0 = until resumed)
LIMIT    one hash
INVARIANT resume also ends what a rollback of the store or the dependency's own wish to wait holds, and what came due
         meanwhile is backlog; deadlines run on; no operation changes
]]
local now = clock()
local g = gate.load(now)
local untl = 0
if A.action == 'pause' then
  if arg('span') > 0 then untl = now + arg('span') end
  redis.call('HSET', P .. 'gate', 'hold', 'paused', 'hold_until', int(untl), 'hold_by', A.by or '', 'hold_note', A.note or '', 'hold_since', int(now))
else
  if not A.credential then
    redis.call('HDEL', P .. 'gate', 'hold', 'hold_until', 'hold_by', 'hold_note', 'hold_since', 'rolled')
    redis.call('HSET', P .. 'gate', 'resumed', int(now))
    g.hold, g.rolled, g.parked, g.hints, g.fresh = nil, nil, 0, 0, now
  end
  held.resume(g, A.credential)
  gate.save()
end
record.audit(A.credential or '-', A.action, '', '', now)
return {A.action == 'pause' and 'paused' or '', int(untl)}
