--[[ inquired: record what an inquiry said, and move the operation on.
KEYS[1]  <namespace>:{<dependency>}
ARGV     id, run
         answer         succeeded | pending | failed | not_found | nothing (the inquiry itself failed: it proves nothing)
         duration, status, error
         base           where it was asked
         delay          ms until the next inquiry
         wait           ms until the next attempt, where the operation goes back to waiting
         stay_dead      1: after "not found" a person decides (after_not_found: dead)
         not_applied    1: "failed" means that the operation may go on (failed_means: not_applied)
         result         of succeeded: JSON of named values
         sign, hint, generation, jitter  what the call says of the dependency: see gate.report
         denied         1: the credential was refused
         keep_succeeded, keep_cancelled (ms)
RETURNS  state, reason, how ('own', 'known' = said before or about another list of attempts, 'late'), conflict (1:
         flagged by this answer), news of the gate or 'gone'; then 'ended' pairs
LIMIT    one operation
INVARIANT "failed" counts only when asked after the settle time, and where the other side took one of several attempts
         never; it and "not found" only where every unknown attempt went
         to the place that was asked. "Not found" settles only when it was seen twice, both times after the settle time, the second inquiry at
         least max(settle, 5 s) after the first was answered, with no news of the operation between, and never when
         the other side had taken it; a success is never overwritten
]]
local now = clock()
local g = gate.load(now)
local op = record.load(A.id)
if not op then return {'gone'} end
local how = 'own'
local function conflicted() return string.find(op.f.flags or '', 'conflict', 1, true) ~= nil end
local known_conflict = conflicted()
local function reply()
  record.save(op)
  return answer({op.f.state, op.f.reason or '', how, conflicted() and not known_conflict and '1' or '', gate.news(g)})
end

if op.f.state ~= 'unresolved' or op.f.irun ~= A.run then
  -- It asked about another list of attempts, or its answer is recorded. What it knows
  -- to have taken effect has, whatever came between.
  how = 'known'
  if A.answer ~= 'succeeded' then return reply() end
  local state = op.f.state
  if state == 'succeeded' then
    if op.f.ilast == string.sub(A.run, 1, 16) then return reply() end
    if settle.differ(op.f.result, A.result) then record.flag(op, 'conflict') end
    return reply()
  end
  how = 'late'
  if state == 'attempting' then
    record.set(op, 'known_ok', '1')
    if A.result then record.set(op, 'result', A.result) end
    return reply()
  end
  if state == 'cancelled' or (state == 'dead' and op.f.reason == 'permanent') then record.flag(op, 'conflict') end
  settle.late(op, now)
  settle.succeed(op, now, A.result)
  return reply()
end

gate.report(g, A.sign or 'nothing', arg('generation'), op.id, arg('hint'), arg('jitter'))
held.note(g, op.f.cred or 'default', A.denied, A.sign)
gate.save()
local asked = num(op.f.iasked)
local text = settle.keep_error(op, A.error or '')

local said, early = A.answer, asked < ask.settled_at(op)
if said == 'not_found' and op.f.acted then said = 'pending' end -- it was taken: that cannot be undone by not being listed
-- A gateway that lists a failed attempt may not know yet of the one that is unknown, and
-- one that was never sent it knows nothing of it.
if said == 'failed' and early then said = 'pending' end
-- What the other side took need not be listed yet, beside an earlier attempt that failed.
if said == 'failed' and op.f.acted and num(op.f.sends) > 1 then said = 'pending' end
if (said == 'failed' or said == 'not_found') and settle.elsewhere(op, settle.place(A.base, op.f.cred or 'default')) then
  said = 'nothing'
  text = settle.keep_error(op, 'an unknown attempt went to another base_url or credential than this inquiry')
end
if said ~= 'not_found' then record.set(op, 'nf', nil) end

ask.keep(op, num(op.f.inquiries), table.concat({int(asked), int(arg('duration')), A.answer, int(arg('status')), text}, ','))
record.set(op, 'ilast', string.sub(A.run, 1, 16))
ask.next(op, now + arg('delay'))

if said == 'succeeded' then
  if not op.f.bare and settle.unwanted(op, now) then settle.late(op, now) end
  settle.succeed(op, now, A.result)
elseif said == 'failed' then
  if A.not_applied then
    settle.resume(op, now, now + arg('wait'))
  elseif op.f.bare then
    settle.resume(op, now, now)
  else
    settle.cleared(op)
    record.move(op, 'dead', now, nil, 'permanent')
  end
elseif said == 'not_found' and not early then
  local apart = math.max(ask.of(op.kind).settle or 0, 5000)
  if not op.f.nf then
    record.set(op, 'nf', int(now))
    op.places.unresolved = int(math.max(now + arg('delay'), now + apart))
  elseif asked >= num(op.f.nf) + apart then
    settle.resume(op, now, now + arg('wait'), A.stay_dead)
  else
    op.places.unresolved = int(math.max(now + arg('delay'), num(op.f.nf) + apart))
  end
end
return reply()
