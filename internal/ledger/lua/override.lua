--[[ override: replace parameters of a dependency's gate for a while, or end that (clear).
KEYS[1]  <namespace>:{<dependency>}
ARGV     action (override | clear); values ('<name>=<value> ...', see budget.Override), span (ms until it ends); by, note
RETURNS  until (ms since the epoch, 0: cleared), 1 when there was one in force before
LIMIT    one hash
INVARIANT it ends by itself, whether or not a process runs
]]
local now = clock()
local before = redis.call('HGET', P .. 'gate', 'override')
local was = before and num(string.match(before, '^%d+')) > now
local untl = 0
if A.action == 'override' then
  untl = now + arg('span')
  redis.call('HSET', P .. 'gate', 'override', int(untl) .. ' ' .. A.values, 'override_by', A.by or '', 'override_note', A.note or '',
    'override_since', int(now))
else
  redis.call('HDEL', P .. 'gate', 'override', 'override_by', 'override_note', 'override_since')
end
record.audit('-', A.action, was and before or '', untl > 0 and int(untl) .. ' ' .. A.values or '', now)
return {int(untl), was and '1' or ''}
