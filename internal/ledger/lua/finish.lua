--[[ finish: record what an attempt brought and move the operation on.
KEYS[1]  <namespace>:{<dependency>}
ARGV     id, run, attempt
         outcome        succeeded | refused | not_sent | unknown
         codes          'outcome,class,status,verdict' as kept in the attempt's line; class (the word)
         duration, delay (ms until the next attempt)
         step           succeed | retry | ask | end | conflict: what policy decided
         reason         of end
         settles        1: the answer settles earlier unknown attempts too
         acted          1: the other side took it, not finished
         original       1: the gateway has an original under this name: it must be read
         counted        1: the send counts against max_attempts
         again          never: the decline forbids that the payment is tried again
         told           1: the customer knows of a permanent failure: cancelled, not dead
         refused_credential  1: the credential was refused
         denied         1: by an answer: it counts towards the pause of the credential
         sign, hint, generation, jitter  what the call says of the dependency: see gate.report
         lost           1: the claim's lease ran out (recover); the attempt is still fenced by its run id
         stepped        1: it may have run out by a step of the clock: no loss is counted
         error, body, status  what was answered (kept within limits by the caller); result (JSON of named values)
         blind          1: this instance does not know the kind: it may put the operation back to waiting, where
                        begin looks again, but never end it
         configured, base, keyheader, window, lease  as for begin: is a resend safe?
         min_response; keep_succeeded, keep_cancelled (ms)
         copy, request  the worker's copy, to re-create a record that the store lost
RETURNS  state, reason, how ('own', 'known' = recorded before, 'late', 'stale' = no such attempt, 'recreated'),
         conflict (1: flagged by this result), news of the gate (see gate.news), 1 when this answer paused the
         credential or 'gone'; then 'ended' pairs
LIMIT    one operation
INVARIANT one result per run id: saying it again changes nothing; an unknown outcome is never lost, a success never
         overwritten
]]
local now = clock()
local g = gate.load(now)
local op = record.load(A.id)
local how, paused_now = 'own', false
if not op then
  if not A.copy then return {'gone'} end
  op = record.new(A.id)
  for k, v in pairs(cjson.decode(A.copy)) do record.set(op, k, v) end
  record.set(op, 'state', nil)
  record.flag(op, 'recreated')
  redis.call('SET', P .. 'request:' .. A.id, A.request)
  record.move(op, 'attempting', now, now)
  claim.take(op, A.run, arg('attempt'), 0)
  if settle.marked(op) then record.set(op, 'uend', int(now)) end
  how = 'recreated'
end
local n = arg('attempt')
local outcome = A.outcome
local function conflicted() return string.find(op.f.flags or '', 'conflict', 1, true) ~= nil end
local known_conflict = conflicted()
local function reply()
  record.save(op)
  return answer({op.f.state, op.f.reason or '', how, conflicted() and not known_conflict and '1' or '', gate.news(g),
    paused_now and '1' or ''})
end

if not claim.made(op, A.run, n) then
  how = 'stale'
  return reply()
end
local recorded = settle.outcome_of(op, n)
local lost_before = settle.lost(op, n)
local own = claim.held_by(op, A.run)
if A.lost and (not own or num(op.f.lease) > now) then
  how = 'stale'
  return reply()
end
if not own and not (recorded == 'u' and lost_before) then
  how = 'known'
  return reply()
end

-- Answers live in a hash of their own, present only when there is one: of unknown,
-- successful and the last attempt.
local function keep_answer()
  if (A.body or '') == '' then return end
  local key = P .. 'answers:' .. op.id
  local last = num(redis.call('HGET', key, 'last'))
  local function worth(m) return string.match(settle.outcome_of(op, m), '[us]') end
  if n >= last then
    if last > 0 and last < n and not worth(last) then redis.call('HDEL', key, 'body:' .. int(last)) end
    redis.call('HSET', key, 'body:' .. int(n), A.body, 'last', int(n))
  elseif worth(n) then
    redis.call('HSET', key, 'body:' .. int(n), A.body)
  end
  -- Of many unknown attempts the last five: a gateway that is down answers all with one page.
  local unknown = {}
  for m in string.gmatch(op.f.unk or '', '%d+') do unknown[#unknown + 1] = m end
  if #unknown > 4 then redis.call('HDEL', key, 'body:' .. unknown[#unknown - 4]) end
end

local target = string.match(op.f['a' .. int(n)], '^%d+,[^,]*,([^,]*)')
local text = settle.keep_error(op, A.error or '')
settle.close_attempt(op, n, arg('duration'), A.codes, arg('delay'), text)
keep_answer()
if A.again then record.set(op, 'again', A.again) end
if own or n == num(op.f.sends) then -- what the last attempt met
  record.set(op, 'class', A.class)
  record.set(op, 'status', num(A.status) > 0 and A.status or nil)
  local function long(m) return m and op.f['e' .. m] == '>' end
  if long(text) then
    redis.call('HSET', P .. 'answers:' .. op.id, 'error', A.error)
  elseif long(op.f.err) then
    redis.call('HDEL', P .. 'answers:' .. op.id, 'error')
  end
  record.set(op, 'err', text)
end

if not own then
  -- Late: the lease had run out and the attempt was closed as unknown meanwhile.
  how = 'late'
  if outcome == 'unknown' then return reply() end
  local state, reason = op.f.state, op.f.reason
  if outcome == 'succeeded' then
    if state == 'attempting' then
      record.set(op, 'known_ok', '1')
      if A.result then record.set(op, 'result', A.result) end
    else
      if state ~= 'succeeded' then settle.late(op, now) end
      if state == 'cancelled' or (state == 'dead' and reason == 'permanent') then record.flag(op, 'conflict') end
      settle.succeed(op, now, A.result)
    end
  elseif state ~= 'succeeded' then
    if not A.counted then record.add(op, 'used', -1) end
    if settle.marked(op) then
      local intent = op.f.intent
      settle.unmark(op, n, n)
      if state == 'unresolved' then ask.renew(op, now) end -- the attempts are not what an inquiry under way asked about
      if not settle.marked(op) then
        record.set(op, 'intent', intent)
        if state == 'unresolved' then
          settle.resume(op, now, now)
        else
          if state ~= 'dead' then record.set(op, 'intent', nil) end
          record.unmarked(op)
        end
      end
    end
  end
  return reply()
end

local over = math.max(now, num(op.f.lease)) -- until then the kernel may deliver what it wrote
claim.drop(op)
gate.report(g, A.sign or 'nothing', arg('generation'), op.id, arg('hint'), arg('jitter'))
paused_now = held.note(g, op.f.cred or 'default', A.denied, A.sign)
gate.save()
if not A.counted then record.add(op, 'used', -1) end
if not A.lost then record.set(op, 'losses', nil) elseif not A.stepped then record.add(op, 'losses', 1) end
if A.refused_credential then record.add(op, 'refusals', 1) else record.set(op, 'refusals', nil) end

if outcome == 'unknown' then
  settle.mark(op, n, target, over)
  if A.acted then record.set(op, 'acted', '1') end
elseif outcome ~= 'succeeded' then
  if outcome == 'not_sent' then settle.unsent(op, n) end
  if A.settles then settle.unmark(op, 1, n) end -- a send that was reported meanwhile has a higher number
  if not settle.marked(op) then settle.cleared(op) end
end

local step, reason, delay = A.step, A.reason, arg('delay')
if A.denied and step == 'end' and reason == 'misconfigured' and held.paused(g, op.f.cred or 'default') then
  step, delay = 'retry', math.max(delay, 5000) -- a rotated key costs no operation
end
if outcome == 'succeeded' or op.f.known_ok then
  -- Beside a send that no key ties to this one, a success may be the second effect.
  if settle.marked(op) and (op.f.idem == 'none' or op.f.target ~= target) then record.flag(op, 'conflict') end
  if outcome ~= 'succeeded' or op.f.cancel then settle.late(op, now) end
  settle.succeed(op, now, outcome == 'succeeded' and A.result or nil)
elseif op.f.cancel then
  settle.leave(op, 'cancelled', nil, now)
elseif A.told and step == 'end' and reason == 'permanent' and not settle.marked(op) then
  record.move(op, 'cancelled', now)
elseif step == 'conflict' or op.f.ends == 'conflict' then
  settle.close(op, 'conflict', now)
elseif op.f.ends and step ~= 'ask' then
  settle.close(op, op.f.ends, now) -- as the answer to a send that was reported meanwhile has it
elseif A.blind then
  record.move(op, 'waiting', now, now + delay)
elseif step == 'retry' then
  local at = now + delay
  local class = settle.class(op, A.configured)
  local digest = settle.digest(class, A.base, op.f.cred or 'default', A.keyheader, op.f.ikey or string.gsub(op.id, '/', ':', 1))
  if not settle.safe(op, class, digest, at) then
    settle.leave(op, 'waiting', nil, now)
  elseif at + arg('min_response') > num(op.f.deadline) then
    settle.leave(op, 'dead', 'deadline', now)
  else
    record.move(op, 'waiting', now, at)
  end
elseif step == 'ask' then
  -- The original stands at the gateway under this name, and only it can tell.
  if A.original and not settle.marked(op) then settle.mark(op, n, settle.apart('other', A.base, op.f.cred or 'default'), over) end
  -- Nothing unknown any more: what policy asked about was settled meanwhile.
  settle.leave(op, op.f.ends and 'dead' or 'waiting', op.f.ends, now, now + math.max(delay, 1000))
else
  settle.leave(op, 'dead', reason, now)
end
return reply()
